"""Dask arrays and data frames: chunks are read where they are, and only sums come back.

A pass over the rows is a graph of tasks: one for each chunk, which loads it and computes a summand,
and a tree that adds the summands in a fixed order. The arguments of a summand, such as landmarks,
are part of the graph, so that tasks of a lost machine run again on another. Each task uses one
thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
from mercer.streams.sources import is_column_name

# Number of sums that are added in one task.
_FAN_IN = 4
# Seconds between checks of a cluster.
_POLL = 0.5
# Seconds until a cluster without workers is given up.
_PATIENCE = 300.0


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """The chunks of Dask collections."""

    owner: str  # the estimator, for messages
    # points, targets and weights of each chunk, as delayed objects or None
    chunks: tuple[tuple[Any, Any, Any], ...]
    lengths: tuple[float, ...]  # the number of rows of each chunk; NaN if unknown
    example: Any  # an invented row of the same columns and types
    index: Any = None  # the index of a data frame

    emptiness = (
        "found 0 sample(s): the Dask collection has no rows in any chunk; pass one that has some."
    )

    @property
    def chunk_bytes(self) -> int:
        """The size of a chunk by Dask's option ``array.chunk-size``."""
        return int(parse_bytes(dask.config.get("array.chunk-size", "128MiB")))

    @classmethod
    def of(cls, owner: str, X: Any, y: Any = None, sample_weight: Any = None) -> DaskBlocks:
        """The chunks of collections, with aligned targets and weights."""
        X, y, sample_weight = _named_columns(owner, X, y, sample_weight)
        rows = _Collection.of(X, owner, "X")
        columns = [rows.pieces]
        for values, name in ((y, "y"), (sample_weight, "sample_weight")):
            if values is None:
                columns.append([None] * len(rows.pieces))
            else:
                rows = rows.counted(owner)
                other = _Collection.of(values, owner, name, like=rows)
                columns.append(other.aligned(owner, name, rows.lengths).pieces)
        chunks = tuple(zip(*columns, strict=True))
        return cls(owner, chunks, rows.lengths, _example(X), getattr(X, "index", None))

    def map_sum(
        self,
        function: Callable[[Block], Any],
        name: str,
        within: NDArray[np.intp] | None = None,
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The sum of a function over all chunks, by a tree of fixed shape."""
        if any(map(math.isnan, self.lengths)):  # counted once
            lengths = _lengths(self.owner, [data for data, _, _ in self.chunks])
            object.__setattr__(self, "lengths", lengths)
        label = _Label(name)
        sent = delayed(function, name=label("argument"), pure=False, traverse=False)
        start, tasks = 0, list[Any]()
        for (data, targets, weights), length in zip(self.chunks, self.lengths, strict=True):
            stop = start + int(length)
            if within is None or np.searchsorted(within, start) < np.searchsorted(within, stop):
                key = label("chunk", len(tasks))
                tasks.append(_on_chunk(sent, data, targets, weights, start, dask_key_name=key))
            start = stop
        if not tasks:
            return None
        total = _tree(tasks, label)
        if then is not None:
            last = delayed(then, name=label("result"), pure=False, traverse=False)
            total = _finished(last, total, dask_key_name=label("end"))
        return _computed(self.owner, total)

    def mapped(self, function: Callable[[Any], Any], name: str, row: Points | None = None) -> Any:
        """The results of a function for the points of each chunk, as a lazy collection."""
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

        values = self._array(partial(_values_of, function), made.to_numpy(), name)
        return dd.from_dask_array(values, columns=made.columns, index=self.index)

    def _array(self, function: Callable[[Any], Any], made: Any, name: str) -> Any:
        """The results of a function for each chunk, as a lazy array of rows like `made`."""
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
        """The collection with the number of rows of every chunk."""
        if not any(map(math.isnan, self.lengths)):
            return self
        return _Collection(self.pieces, _lengths(owner, self.pieces), self.array)

    def aligned(self, owner: str, name: str, lengths: tuple[float, ...]) -> _Collection:
        """The collection in chunks of the lengths of those of X."""
        counted = self.counted(owner)
        if counted.lengths == lengths:
            return counted
        _require_as_many(owner, name, sum(counted.lengths), sum(lengths))
        if not sum(lengths):
            raise DataError(f"{owner}: {DaskBlocks.emptiness}")
        if self.array is None or any(map(math.isnan, self.array.chunks[0])):
            raise DataError(
                f"{owner}: X has chunks of {_listed(lengths)} rows, {name} of "
                f"{_listed(counted.lengths)}; pass collections with the same rows in each "
                "chunk, for example by repartitioning both, or by naming a column of X."
            )
        array = self.array.rechunk({0: tuple(int(length) for length in lengths)})
        return _Collection(list(array.to_delayed().ravel()), tuple(array.chunks[0]), array)


def _require_as_many(owner: str, name: str, n: float, rows: float) -> None:
    if n != rows:
        raise DataError(
            f"{owner}: {name} has {int(n)} rows, but X has {int(rows)}; pass one value for "
            "each row of X."
        )


def _named_columns(owner: str, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Split named columns of targets and weights from the points."""
    targets = ([y] if isinstance(y, str) else y) if is_column_name(y) else []
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
    """An invented row of a collection, from which the type of results is inferred."""
    if isinstance(X, da.Array):
        nothing = "" if X.dtype.kind in "OUS" else 0
        return np.full((1, *X.shape[1:]), nothing, dtype=X.dtype)
    # Dask's second row has missing values.
    return X._meta_nonempty.iloc[:1]


def _listed(lengths: tuple[float, ...]) -> str:
    shown = ", ".join(str(int(length)) for length in lengths[:5])
    return shown + (", ..." if len(lengths) > 5 else "")


class _Label:
    """Names of tasks: the pass, for the dashboard, and a unique token."""

    def __init__(self, name: str) -> None:
        self.name, self.token = name, uuid4().hex

    def __call__(self, step: str, *numbers: int) -> str:
        return "-".join(["mercer", self.name, step, self.token, *map(str, numbers)])


def _values_of(function: Callable[[Any], Any], data: Any) -> Any:
    """The values of the data frame that a function returns."""
    return function(data).to_numpy()


def _load_and_apply(function: Any, data: Any, targets: Any, weights: Any, start: int) -> Any:
    with one_thread():
        return function(Block(data, targets, weights, start))


def _load_and_map(function: Any, data: Any, empty: Any) -> Any:
    if not len_of(data):
        return empty
    with one_thread():
        return function(data)


def _finish(function: Any, total: Any) -> Any:
    if total is None:
        return None
    with one_thread():
        return function(total)


_on_chunk = delayed(_load_and_apply, pure=False)
_mapped_chunk = delayed(_load_and_map, pure=False)
_sum_of = delayed(added, pure=False)
_finished = delayed(_finish, pure=False)
_length_of = delayed(len_of, pure=False)


def _tree(tasks: list[Any], label: _Label) -> Any:
    """Add in a fixed order, a few at a time."""
    level = 0
    while len(tasks) > 1:
        groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
        tasks = [
            _sum_of(group, dask_key_name=label("sum", level, i)) for i, group in enumerate(groups)
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
    # Landmarks are in the graph on purpose: scattered data are lost with their machine.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
        if client is None:
            return dask.compute(result)[0]
        with _thread_for_others():
            return _awaited(owner, client, result)


def _client(result: Any) -> Any:
    """The client of the cluster that computes a result; None if this process computes it."""
    owner = getattr(dask.base.get_scheduler(collections=[result]), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


@contextmanager
def _thread_for_others() -> Iterator[None]:
    """Release the thread of a worker while a task of it waits for other tasks.

    If every thread of a cluster were held by a waiting task, none would end.
    """
    from distributed import get_worker, worker_client

    try:
        get_worker()
    except ValueError:  # not in a task
        yield
        return
    with worker_client():
        yield


def _awaited(owner: str, client: Any, result: Any) -> Any:
    """Wait for a result as long as the cluster has workers."""
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
        return future.result(timeout=patience)  # its worker may still die before it is sent
    except KilledWorker as error:
        raise ClusterError(
            f"{owner}: workers died again and again while they read the same chunk ({error}); "
            "give them more memory, or make chunks smaller."
        ) from error
    except CancelledError as error:
        raise _gone(owner, "its tasks were cancelled") from error
    except ClusterError:
        raise
    except (OSError, RuntimeError) as error:  # late, a lost connection, or a closed client
        if client.status == "running" and future is not None and future.status == "error":
            raise  # an error of a task
        late = f"its result did not come in {patience:g} seconds"
        why = late if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise _gone(owner, why) from error
    finally:
        if future is not None and not future.done() and client.status == "running":
            future.cancel()


def _has_workers(client: Any) -> bool:
    if client.status != "running":
        raise ConnectionError(f"the client is {client.status}")
    return bool(client.scheduler_info(n_workers=-1)["workers"])


def _gone(owner: str, why: str) -> ClusterError:
    return ClusterError(
        f"{owner}: the cluster cannot compute any more ({why}); start one, as in "
        "distributed.Client(), and call again: the estimator is as it was before."
    )
