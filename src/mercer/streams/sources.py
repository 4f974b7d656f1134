"""What the user passes to an estimator, as rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.base import Kernel
from mercer.streams.blocks import (
    Blocks,
    Source,
    as_frame,
    beside,
    blocks_in,
    evenly,
    is_mapped,
    is_table,
    slices,
    split_columns,
)
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import NoTargets, Targets


class Given(NamedTuple):
    """The arguments of `fit`, or the rows of blocks gathered in memory."""

    X: Any
    y: Any
    sample_weight: Any


def named_columns(owner: str, given: Given) -> tuple[Given, list[str]]:
    """Targets and weights that are columns of a data frame in memory, split from it; their names.

    Blocks and Dask collections split their own. A list of labels is not a list of names.
    """
    X, y, weight = given
    targets = ([y] if isinstance(y, str) else y) if is_column_name(y) else []
    weights = [weight] if isinstance(weight, str) else []
    if not targets and not weights:
        return given, []
    if isinstance(X, np.ndarray) and isinstance(y, str):
        raise DataError(
            f"{owner}: y = {y!r} names a column, and the columns of an array have no names; pass a "
            "data frame as X, or one target for each row."
        )
    frame = None if is_dask(X) or isinstance(X, np.ndarray | list | Blocks) else as_frame(X)
    if isinstance(y, list) and (frame is None or not set(targets) <= set(frame.columns)):
        targets = []
    names = targets + weights
    if frame is None or not names:
        return given, names
    named = y if targets else None, weight if weights else None
    X, columns, masses = split_columns(owner, frame, *named)
    return Given(X, columns if targets else y, masses if weights else weight), names


def rows_of(
    owner: str,
    kernel: Kernel,
    given: Given,
    targets: Targets,
    *,
    whole: float = 0,
) -> tuple[StreamRows | None, Given]:
    """Rows in blocks, or None for rows in memory, and the arguments of `fit`.

    Blocks of at most `whole` rows are gathered in memory.
    """
    pairwise = kernel.input_tags()["pairwise"]
    supervised = not isinstance(targets, NoTargets)
    if supervised:
        require_targets(owner, given.X, given.y)
    source, X = source_of(owner, *given, whole=np.inf if pairwise else whole, lists=supervised)
    given = given._replace(X=X)
    if source is None:
        return None, given
    if pairwise:
        raise DataError(
            f"{owner}: with {kernel!r:.80} rows are those of a matrix, and a few say nothing "
            "of the others; pass the whole matrix, or Precomputed(K) and blocks of row numbers."
        )
    rows = StreamRows(source, kernel, owner, targets)
    if rows.fits(whole):
        return None, Given(*rows.gathered())
    return rows, given


def source_of(
    owner: str,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    whole: float = 0,
    lists: bool = False,
) -> tuple[Source | None, Any]:
    """Blocks, or None for rows in memory, and X.

    Memory-mapped arrays of more than `whole` rows are cut into blocks. With `lists`, a sequence may
    be one of blocks.
    """
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or len(X) <= whole or not is_mapped(X):
            return None, X
        columns = _aligned(owner, y, X, "y"), _aligned(owner, sample_weight, X)
        return Blocks(partial(slices, X, *columns)), X
    if is_dask(X):
        from mercer.streams.dask import DaskBlocks

        return DaskBlocks.of(owner, X, y, sample_weight), X
    if lists and _is_sequence_of_blocks(X, y):
        X = Blocks(X)
    blocks, X = blocks_in(X)
    if blocks is None or (y is None and sample_weight is None):
        return blocks, X
    if isinstance(sample_weight, Real):
        blocks = blocks if y is None else _with_columns(owner, blocks, y, None)
        return Blocks(partial(evenly, owner, blocks, float(sample_weight))), X
    return _with_columns(owner, blocks, y, sample_weight), X


def _with_columns(owner: str, blocks: Blocks, y: Any, sample_weight: Any) -> Blocks:
    """Blocks with targets and weights that are named columns, or arrays in memory."""
    passed = [values for values in (y, sample_weight) if values is not None]
    named = [is_column_name(values) for values in passed]
    taken = blocks.target is not None or blocks.weight is not None
    if taken or (any(named) and not all(named)):
        raise DataTypeError(
            f"{owner}: y or sample_weight was passed beside blocks, which hold their own; yield "
            "tuples (X, y) or (X, y, sample_weight), or pass names of columns of data frames."
        )
    if all(named):
        return Blocks(blocks._source, target=y, weight=sample_weight)
    columns = [None if values is None else np.asarray(values) for values in (y, sample_weight)]
    if any(column is not None and not column.ndim for column in columns):
        raise DataTypeError(
            f"{owner}: y or sample_weight is a single value beside blocks; pass one value for each "
            "row, or let blocks hold them; a weight of all rows is a number."
        )
    return Blocks(partial(beside, owner, blocks._source, *columns))


def require_targets(owner: str, X: Any, y: Any) -> None:
    """Refuse a Dask collection without targets; blocks may hold their own."""
    if y is None and is_dask(X):
        raise DataError(
            f"{owner} requires y to be passed, but the target y is None: a Dask collection holds "
            "points alone; pass the targets as a second collection, as in (X, y). They may also be "
            'the name of a column of a data frame, as in (frame, "price").'
        )


def is_dask(data: Any) -> bool:
    """Whether the data are a Dask collection, without importing Dask."""
    if "dask" not in sys.modules or not hasattr(data, "__dask_graph__"):
        return False
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr")


def _is_sequence_of_blocks(X: Any, y: Any) -> bool:
    """Whether a sequence is one of blocks: tuples, or tables with a column named y."""
    items = all(hasattr(X, name) for name in ("__len__", "__getitem__", "__iter__"))
    if not items or isinstance(X, Mapping) or hasattr(X, "shape") or not len(X):
        return False
    first = next(iter(X))
    return (y is None and isinstance(first, tuple)) or (is_column_name(y) and is_table(first))


def is_column_name(y: Any) -> bool:
    """Whether targets are given as the name of a column, or a list of names."""
    names = isinstance(y, list) and bool(y) and all(isinstance(name, str) for name in y)
    return isinstance(y, str) or names


def _aligned(owner: str, values: Any, X: Any, name: str = "sample_weight") -> Any:
    """Targets or weights as an array with one entry for each row of X."""
    if name == "sample_weight" and isinstance(values, Real):
        return np.broadcast_to(np.float64(values), len(X))
    column = values if values is None or isinstance(values, np.ndarray) else np.asarray(values)
    if column is not None and (column.ndim == 0 or len(column) != len(X)):
        raise DataError(
            f"{owner}: {name} has shape {column.shape} but X has {len(X)} rows; pass one value for "
            "each row of X."
        )
    return column
