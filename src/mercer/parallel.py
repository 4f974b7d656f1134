"""How many threads the engine uses, and BLAS; properties that several threads may ask for.

BLAS libraries have threads of their own. Such a thread keeps a core busy for milliseconds after
each call, and gets in the way of the engine's threads, which sleep. So mercer runs BLAS on one
thread (`single_blas`), and shares large products and factors among the engine's threads
(`mercer.linalg.blocked`). Limits that others have set are lowered, and never raised.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from operator import attrgetter
from threading import Lock
from typing import Any, Self, TypeVar, overload

from threadpoolctl import OpenBLASController, ThreadpoolController

from mercer.exceptions import ParameterError

T = TypeVar("T")

# What a C int holds: the engine and the libraries of linear algebra take no more.
_MOST = 2**31 - 1
# Limits for all libraries of a process, which workers of joblib set too.
_LIMITS = ("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT")

_chosen: ContextVar[int | None] = ContextVar("mercer_threads", default=None)
# The limits of all open `threads` blocks: they hold for the threads of a pool too.
_open: list[int] = []


def thread_count() -> int:
    """Return the number of threads that the next engine call will use.

    The innermost `threads` context decides, then the environment variable ``MERCER_NUM_THREADS``,
    then the number of processors this process may run on. ``OMP_NUM_THREADS`` and
    ``LOKY_MAX_CPU_COUNT`` limit that number.

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
    if _open:
        return min(_open)
    variable = os.environ.get("MERCER_NUM_THREADS")
    if variable:
        return _checked(variable, "MERCER_NUM_THREADS")
    limits = [int(os.environ[name]) for name in _LIMITS if os.environ.get(name, "").isdigit()]
    return max(1, min([_processors(), *limits]))


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Limit mercer, and the BLAS calls it makes, to ``n`` threads inside a ``with`` block.

    Results of the engine do not depend on the number of threads. Threads of a pool that have no
    block of their own follow the smallest limit that is open.

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
    _open.append(count)
    _blas.add(count)
    try:
        yield
    finally:
        _blas.remove(count)
        _open.remove(count)
        _chosen.reset(token)


@contextmanager
def single_blas() -> Iterator[int]:
    """Run BLAS on the calling thread alone inside a block.

    The value is the number of engine threads that may call BLAS: no more than others allow it.
    """
    allowed = _blas.add(1)
    try:
        yield min(thread_count(), allowed)
    finally:
        _blas.remove(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, and one of BLAS, inside a block that runs beside others like it."""
    token = _chosen.set(1)
    try:
        with single_blas():
            yield
    finally:
        _chosen.reset(token)


class _BlasLimits:
    """The limits on the threads of BLAS that are in force, which are those of the whole process.

    The libraries get back what they had when the last limit is removed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: list[int] = []
        self._before: list[tuple[Any, int]] = []
        self._allowed = _MOST

    def add(self, limit: int) -> int:
        """Add a limit; return how many threads BLAS had before all of them."""
        with self._lock:
            if not self._limits:
                counts = list(map(attrgetter("num_threads"), _libraries()))
                self._before = list(zip(_libraries(), counts, strict=True))
                self._allowed = max(1, min(counts, default=_MOST))
            lowest = min(self._limits, default=_MOST)
            self._limits.append(limit)
            if limit < lowest:
                self._apply()
            return self._allowed

    def remove(self, limit: int) -> None:
        with self._lock:
            self._limits.remove(limit)
            if limit < min(self._limits, default=_MOST):
                self._apply()

    def _apply(self) -> None:
        for library, count in self._before:
            if count > 1:
                # threadpoolctl 3.8 ignores, without a word, all threads but the first that sets a
                # limit: any thread may set the one of mercer.
                _take_over()
                library.set_num_threads(min([count, *self._limits]))
                _take_over()


def _take_over() -> None:
    release = getattr(OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


_blas = _BlasLimits()


def _after_fork() -> None:
    """A child begins without the lock that another thread of its parent may have held."""
    _blas._lock = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _libraries() -> list[Any]:
    """The loaded libraries of BLAS: finding them takes milliseconds."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


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


class cached_property(functools.cached_property[T]):  # noqa: N801
    """A property that is computed once for each object, without a lock.

    In Python 3.11 `functools.cached_property` holds one lock for all objects of a class. Two
    threads that ask for two properties of a tree, in either order, then wait for each other for
    ever, and so does a process forked meanwhile. Here two threads may both compute the value, and
    both get the one that was stored first.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Compute the value and store it in the object, where Python finds it before this."""
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.attrname, self.func(instance))
