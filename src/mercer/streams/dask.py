"""Dask arrays and data frames: chunks are read where they are, and what comes back are sums.

A pass over the rows is a graph of tasks: one for each chunk, which loads it and makes a summand of
it, and a tree that adds these up in a fixed order. What the summand needs, such as landmarks, is a
part of the graph, so that what a lost machine had is computed again on another. Tasks use one
thread each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from dask.utils import parse_bytes
from numpy.typing import NDArray

from mercer.exceptions import ClusterError, DataError, DataTypeError
from mercer.kernels.containers import len_of
from mercer.kernels.points import Points
from mercer.parallel import one_thread
from mercer.streams.blocks import Block, added
from mercer.streams.schema import filled

# How many sums are added in one task.
_FAN_IN = 4
# Seconds between looks at a cluster, and how long one without workers is waited for.
_POLL = 0.5
_PATIENCE = 300.0


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """The chunks of Dask collections."""

    owner: str  # the estimator, for messages
    # points, targets and weights of each chunk, as delayed objects or None
    chunks: tuple[tuple[Any, Any, Any], ...]
    lengths: tuple[float, ...]  # the number of rows of each
    example: Any  # A few rows of the same kind, made up
    index: Any = None  # the names of the rows of a data frame

    emptiness = (
        "found 0 sample(s): the Dask collection has no rows in any chunk; pass one that has some."
    )

    @property
    def chunk_bytes(self) -> int:
        """The size that Dask gives to a chunk, which its option ``array.chunk-size`` says."""
        return int(parse_bytes(dask.config.get("array.chunk-size", "128MiB")))

    @classmethod
    def of(cls, owner: str, X: Any, y: Any = None, sample_weight: Any = None) -> DaskBlocks:
        """The chunks of what the user passed."""
        X, y, sample_weight = _named_columns(owner, X, y, sample_weight)
        rows = _Collection.of(X, owner, "X")
        others = [
            None if values is None else _Collection.of(values, owner, name, like=rows)
            for values, name in ((y, "y"), (sample_weight, "sample_weight"))
        ]
        if any(other is not None for other in others):
            rows, others = _aligned(owner, rows, others)
        columns = [rows.pieces, *(_pieces(other, len(rows.pieces)) for other in others)]
        chunks = tuple(zip(*columns, strict=True))
        return cls(owner, chunks, rows.lengths, _example(X), getattr(X, "index", None))

    def map_sum(
        self,
        function: Callable[[Block], Any],
        name: str,
        within: NDArray[np.intp] | None = None,
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The sum of what a function makes of each chunk, in a tree of fixed shape."""
        counted = self._counted()
        label = _Label(name)
        sent = delayed(function, name=label("argument"), pure=False, traverse=False)
        start, tasks = 0, list[Any]()
        for (data, targets, weights), length in zip(counted.chunks, counted.lengths, strict=True):
            stop = start + int(length)
            if within is None or np.searchsorted(within, start) < np.searchsorted(within, stop):
                made = _on_chunk(
                    sent, data, targets, weights, start, dask_key_name=label("chunk", len(tasks))
                )
                tasks.append(made)
            start = stop
        if not tasks:
            return None
        found = _tree(tasks, label)
        if then is not None:
            last = delayed(then, name=label("result"), pure=False, traverse=False)
            found = _made_of(last, found, dask_key_name=label("end"))
        return _computed(self.owner, found)

    def mapped(self, function: Callable[[Any], Any], name: str, row: Points | None = None) -> Any:
        """What a function makes of the points of each chunk, as a lazy collection."""
        made = function(filled(self.example, row))
        if isinstance(made, np.ndarray):
            return self._array(function, made, name)
        if not hasattr(made, "iloc"):
            raise DataTypeError(
                f"{self.owner}: {name} would give a {type(made).__name__} of "
                f"{type(made).__module__.partition('.')[0]} for each chunk, and Dask has no "
                'collection of these; take set_output(transform="pandas") or "default".'
            )
        import dask.dataframe as dd

        values = self._array(_Values(function), made.to_numpy(), name)
        return dd.from_dask_array(values, columns=made.columns, index=self.index)

    def _array(self, function: Callable[[Any], Any], made: Any, name: str) -> Any:
        """What a function makes of each chunk, as a lazy array of rows like those made."""
        label = _Label(name)
        sent = delayed(function, name=label("argument"), pure=False, traverse=False)
        parts = [
            da.from_delayed(
                _mapped_chunk(sent, data, made[:0], dask_key_name=label("chunk", i)),
                shape=(length, *made.shape[1:]),
                dtype=made.dtype,
            )
            for i, ((data, _, _), length) in enumerate(zip(self.chunks, self.lengths, strict=True))
        ]
        return da.concatenate(parts)

    def _counted(self) -> DaskBlocks:
        """The same with the number of rows of every chunk."""
        if not any(math.isnan(length) for length in self.lengths):
            return self
        lengths = _lengths(self.owner, [data for data, _, _ in self.chunks])
        # Counted once, and kept: the object is as it was, but for what was not known.
        object.__setattr__(self, "lengths", lengths)
        return self


@dataclass(frozen=True, eq=False)
class _Collection:
    """One Dask collection by chunks of rows."""

    pieces: list[Any]
    lengths: tuple[float, ...]
    array: Any = None

    @classmethod
    def of(cls, data: Any, owner: str, name: str, like: _Collection | None = None) -> _Collection:
        if not hasattr(data, "__dask_graph__"):
            data = _in_chunks(data, owner, name, like)
        if isinstance(data, da.Array):
            if data.ndim == 2 and data.numblocks[1] > 1:
                data = data.rechunk({1: -1})
            if data.ndim > 2 or data.ndim == 0:
                raise DataTypeError(
                    f"{owner}: {name} is a Dask array of {data.ndim} dimensions; pass one of rows "
                    "and columns."
                )
            return cls(list(data.to_delayed().ravel()), tuple(data.chunks[0]), data)
        if not hasattr(data, "to_delayed") or not hasattr(data, "_meta_nonempty"):
            raise DataTypeError(
                f"{owner}: {name} is a {type(data).__name__}; pass a Dask array, data frame or "
                "series."
            )
        pieces = list(data.to_delayed())
        return cls(pieces, (math.nan,) * len(pieces))

    def counted(self, owner: str) -> _Collection:
        """The same with the number of rows of every chunk."""
        if not any(math.isnan(length) for length in self.lengths):
            return self
        return _Collection(self.pieces, _lengths(owner, self.pieces), self.array)

    def cut_like(self, lengths: tuple[float, ...]) -> _Collection | None:
        """The same in chunks of given lengths; None if that cannot be."""
        if self.array is None or any(math.isnan(length) for length in self.array.chunks[0]):
            return None
        array = self.array.rechunk({0: tuple(int(length) for length in lengths)})
        return _Collection(list(array.to_delayed().ravel()), tuple(array.chunks[0]), array)


def _aligned(
    owner: str, rows: _Collection, others: list[_Collection | None]
) -> tuple[_Collection, list[_Collection | None]]:
    """Chunks of points, targets and weights that hold the same rows."""
    rows = rows.counted(owner)
    found: list[_Collection | None] = []
    for other, name in zip(others, ("y", "sample_weight"), strict=True):
        if other is None:
            found.append(None)
            continue
        counted = other.counted(owner)
        if counted.lengths != rows.lengths:
            _require_as_many(owner, name, sum(counted.lengths), sum(rows.lengths))
            if not sum(rows.lengths):
                raise DataError(f"{owner}: {DaskBlocks.emptiness}")
            cut = counted.cut_like(rows.lengths)
            if cut is None:
                raise DataError(
                    f"{owner}: X has chunks of {_listed(rows.lengths)} rows, {name} of "
                    f"{_listed(counted.lengths)}; pass collections with the same rows in each "
                    "chunk, for example by repartitioning both, or by naming a column of X."
                )
            counted = cut
        found.append(counted)
    return rows, found


def _require_as_many(owner: str, name: str, found: float, rows: float) -> None:
    if found != rows:
        raise DataError(
            f"{owner}: {name} has {int(found)} rows, but X has {int(rows)}; pass one value for "
            "each row of X."
        )


def _pieces(collection: _Collection | None, count: int) -> list[Any]:
    return [None] * count if collection is None else collection.pieces


def _named_columns(owner: str, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Targets and weights that are columns of the data frame itself."""
    targets = [y] if isinstance(y, str) else y if _are_names(y) else []
    weights = [sample_weight] if isinstance(sample_weight, str) else []
    named = [*targets, *weights]
    if not named:
        return X, y, sample_weight
    columns = list(getattr(X, "columns", ()))
    missing = [name for name in named if name not in columns]
    if missing:
        raise DataError(
            f"{owner}: {missing[0]!r} is no column of X, which has {columns[:20]}; pass names of "
            "columns of a Dask data frame, or collections."
        )
    return (
        X.drop(columns=named),
        X[y] if targets else y,
        X[sample_weight] if weights else sample_weight,
    )


def _are_names(y: Any) -> bool:
    return isinstance(y, list) and bool(y) and all(isinstance(name, str) for name in y)


def _in_chunks(data: Any, owner: str, name: str, like: _Collection | None) -> Any:
    """An array in memory, or one weight for all rows, in the chunks of a collection."""
    if like is not None and name == "sample_weight" and isinstance(data, Real):
        rows = tuple(int(length) for length in like.counted(owner).lengths)
        return da.full(sum(rows), float(data), chunks=(rows,))
    values = np.asarray(data)
    if like is None or values.ndim == 0:
        raise DataTypeError(
            f"{owner}: {name} is a {type(data).__name__}, and X is a Dask collection; pass one of "
            "these, with the same chunks."
        )
    lengths = like.counted(owner).lengths
    _require_as_many(owner, name, len(values), sum(lengths))
    chunks = (tuple(int(length) for length in lengths), *((n,) for n in values.shape[1:]))
    return da.from_array(values, chunks=chunks)


def _example(X: Any) -> Any:
    """Made-up rows of the kind of a collection: what a method makes of them has its type."""
    if isinstance(X, da.Array):
        nothing = "" if X.dtype.kind in "OUS" else 0
        return np.full((1, *X.shape[1:]), nothing, dtype=X.dtype)
    # Of two rows, the second has no values in columns that may lack some.
    return X._meta_nonempty.iloc[:1]


def _listed(lengths: tuple[float, ...]) -> str:
    shown = ", ".join(str(int(length)) for length in lengths[:5])
    return shown + (", ..." if len(lengths) > 5 else "")


# Tasks --------------------------------------------------------------------------------------------


class _Label:
    """Names of tasks: what is done, for the dashboard, and something that no other pass has."""

    def __init__(self, name: str) -> None:
        self.name, self.token = name, uuid4().hex

    def __call__(self, step: str, *numbers: int) -> str:
        return "-".join(["mercer", self.name, step, self.token, *map(str, numbers)])


@dataclass(frozen=True, eq=False)
class _Values:
    """The numbers in the data frame that a function makes."""

    function: Callable[[Any], Any]

    def __call__(self, data: Any) -> Any:
        return self.function(data).to_numpy()


def _load_and_apply(function: Any, data: Any, targets: Any, weights: Any, start: int) -> Any:
    with one_thread():
        return function(Block(data, targets, weights, start))


def _load_and_map(function: Any, data: Any, empty: Any) -> Any:
    if not len_of(data):
        return empty
    with one_thread():
        return function(data)


def _sum(*values: Any) -> Any:
    return added(values)


def _finish(function: Any, total: Any) -> Any:
    if total is None:
        return None
    with one_thread():
        return function(total)


_on_chunk = delayed(_load_and_apply, pure=False)
_mapped_chunk = delayed(_load_and_map, pure=False)
_sum_of = delayed(_sum, pure=False)
_made_of = delayed(_finish, pure=False)
_length_of = delayed(len_of, pure=False)


def _tree(tasks: list[Any], label: _Label) -> Any:
    """Add in the same order always, a few at a time."""
    level = 0
    while len(tasks) > 1:
        groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
        tasks = [
            _sum_of(*group, dask_key_name=label("sum", level, i)) for i, group in enumerate(groups)
        ]
        level += 1
    return tasks[0]


def _lengths(owner: str, pieces: list[Any]) -> tuple[float, ...]:
    label = _Label("count")
    counts = [_length_of(piece, dask_key_name=label("chunk", i)) for i, piece in enumerate(pieces)]
    return tuple(_computed(owner, delayed(list, pure=False)(counts)))


def _computed(owner: str, result: Any) -> Any:
    """The value of a delayed object, from the cluster if there is one."""
    client = _client(result)
    # Landmarks are in the graph on purpose: what is scattered is lost with the machine that has it.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
        if client is None:
            return dask.compute(result)[0]
        with _thread_for_others():
            return _awaited(owner, client, result)


def _client(result: Any) -> Any:
    """The client of the cluster that would compute; None if this process would."""
    get = dask.base.get_scheduler(collections=[result])
    owner = getattr(get, "__self__", None)
    return owner if owner is not None and hasattr(owner, "scheduler_info") else None


@contextmanager
def _thread_for_others() -> Iterator[None]:
    """Leave the threads of a worker, if this is a task on one, while tasks are waited for.

    Those would wait for a thread, and for ever where every thread is in a task that waits.
    """
    from distributed import get_worker, worker_client

    try:
        get_worker()
    except ValueError:  # no task
        yield
        return
    with worker_client():
        yield


def _awaited(owner: str, client: Any, result: Any) -> Any:
    """Wait for a result as long as there is somebody to compute it."""
    from distributed import wait
    from distributed.scheduler import KilledWorker

    future = None
    patience = float(dask.config.get("mercer.cluster-timeout", _PATIENCE))
    try:
        future = client.compute(result)
        seen = time.monotonic()
        while not future.done():
            try:
                wait(future, timeout=_POLL)
            except TimeoutError:
                seen = time.monotonic() if _has_workers(client) else seen
                if time.monotonic() - seen > patience:
                    raise _gone(owner, f"no worker answered for {patience:g} seconds") from None
        if future.cancelled():
            raise _gone(owner, "the scheduler is gone")
        return _fetched(owner, future, patience)
    except KilledWorker as error:
        raise ClusterError(
            f"{owner}: workers died again and again while they read the same chunk ({error}); "
            "give them more memory, or make chunks smaller."
        ) from error
    except CancelledError as error:
        raise _gone(owner, "its tasks were cancelled") from error
    except (OSError, RuntimeError) as error:  # lost connections, a client that was closed
        if isinstance(error, ClusterError):
            raise
        if client.status == "running" and future is not None and future.status == "error":
            raise  # what a task raised
        raise _gone(owner, str(error) or type(error).__name__) from error
    finally:
        if future is not None and not future.done() and client.status == "running":
            future.cancel()


def _fetched(owner: str, future: Any, patience: float) -> Any:
    """A result that is there, unless its worker dies now and no other takes its place."""
    try:
        return future.result(timeout=patience)
    except TimeoutError:
        if future.status == "error":
            raise  # what a task raised
        raise _gone(owner, f"its result did not come in {patience:g} seconds") from None


def _has_workers(client: Any) -> bool:
    if client.status != "running":
        raise ConnectionError(f"the client is {client.status}")
    return bool(client.scheduler_info(n_workers=-1)["workers"])


def _gone(owner: str, why: str) -> ClusterError:
    return ClusterError(
        f"{owner}: the cluster cannot compute any more ({why}); start one, as in "
        "distributed.Client(), and call again: the estimator is as it was before."
    )
