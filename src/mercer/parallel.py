"""How many threads the engine uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

from mercer.exceptions import ParameterError

# What a C int holds: the engine and the libraries of linear algebra take no more.
_MOST = 2**31 - 1

_chosen: ContextVar[int | None] = ContextVar("mercer_threads", default=None)


def thread_count() -> int:
    """Return the number of threads that the next engine call will use.

    The innermost `threads` context decides, then the environment variable ``MERCER_NUM_THREADS``,
    then the number of processors this process may run on.

    Examples
    --------
    >>> import mercer as mc
    >>> with mc.threads(1):
    ...     mc.thread_count()
    1
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    variable = os.environ.get("MERCER_NUM_THREADS")
    if variable:
        return _checked(variable, "MERCER_NUM_THREADS")
    return _processors()


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Limit mercer, and the BLAS calls it makes, to ``n`` threads inside a ``with`` block.

    Results of the engine do not depend on the number of threads.

    Parameters
    ----------
    n : int
        Number of threads, at least 1.

    Examples
    --------
    >>> import mercer as mc
    >>> with mc.threads(1):
    ...     K = mc.RBF()([[0.0], [1.0]])
    """
    count = _checked(n, "threads(n)")
    token = _chosen.set(count)
    try:
        with _blas().limit(limits=count, user_api="blas"):
            yield
    finally:
        _chosen.reset(token)


@contextmanager
def blas_threads(at_most: int | None = None) -> Iterator[None]:
    """Make BLAS and LAPACK follow mercer's number of threads, or use fewer, inside a block.

    Parameters
    ----------
    at_most : int, optional
        An upper limit: small decompositions lose more by waiting for each other than they gain.
    """
    if at_most is None and not os.environ.get("MERCER_NUM_THREADS"):
        yield  # the default of the library, or the limit that `threads` has set
        return
    with _blas().limit(limits=min(at_most or thread_count(), thread_count()), user_api="blas"):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, and one of BLAS, inside a block that runs beside others like it.

    The threads of BLAS are those of the whole process: they are limited when the first such block
    begins, and given back when the last one ends.
    """
    token = _chosen.set(1)
    _single.enter()
    try:
        yield
    finally:
        _single.leave()
        _chosen.reset(token)


class _SingleThreaded:
    """Counts the blocks that run with one thread of BLAS."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                _take_over()
                self._limit = _blas().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _take_over()
                self._limit.restore_original_limits()
                _take_over()


_single = _SingleThreaded()


def _take_over() -> None:
    """Let the next thread set the number of BLAS threads, whichever thread did so before.

    threadpoolctl 3.8 ignores, without a word, all threads but the first that sets it.
    """
    release = getattr(OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


@cache
def _blas() -> ThreadpoolController:
    """Finding the loaded libraries takes milliseconds, setting their threads microseconds."""
    return ThreadpoolController()


def _checked(value: object, owner: str) -> int:
    try:
        count = 0 if isinstance(value, bool) else int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        count = 0
    if not 1 <= count <= _MOST or (isinstance(value, float) and count != value):
        raise ParameterError(
            f"{owner}: {value!r} is not a whole number of threads from 1 to {_MOST}; pass for "
            "example 2."
        )
    return int(count)


@cache
def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every platform has affinities
        return os.cpu_count() or 1
