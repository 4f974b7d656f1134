"""What the user passes to an estimator, as rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.base import Kernel
from mercer.streams.blocks import Blocks, Slices, Source, blocks_in, is_mapped, is_table
from mercer.streams.labels import NoTargets, Targets
from mercer.streams.rows import StreamRows


def rows_of(
    owner: str,
    kernel: Kernel,
    X: Any,
    y: Any,
    sample_weight: Any,
    targets: Targets,
    *,
    whole: float = 0,
) -> tuple[StreamRows | None, Any]:
    """Rows that come in blocks, if that is what the user passed.

    Parameters
    ----------
    owner : str
        The estimator, for messages.
    kernel : Kernel
        The kernel, which says what the data may be.
    X : object
        What the user passed as X.
    y, sample_weight : object or None
        What the user passed: None if blocks hold them, a name if they are columns of data frames,
        or, with Dask collections and arrays in files, what goes with the rows of X.
    targets : Targets
        How targets are read.
    whole : float
        The number of rows up to which an array in a file is left as it is.

    Returns
    -------
    rows : StreamRows or None
        None if X is data in memory.
    X : object
        The same data, to be used in place of X: an iterator that was looked at starts again.
    """
    pairwise = kernel.input_tags()["pairwise"]
    whole = np.inf if pairwise else whole
    supervised = not isinstance(targets, NoTargets)
    source, X = source_of(owner, X, y, sample_weight, whole=whole, lists=supervised)
    if source is None:
        return None, X
    if pairwise:
        raise DataError(
            f"{owner}: with {kernel!r:.80} rows are those of a matrix, and a few say nothing "
            "of the others; pass the whole matrix, or Precomputed(K) and blocks of row numbers."
        )
    return StreamRows(source, kernel, owner, targets), X


def source_of(
    owner: str,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    whole: float = 0,
    lists: bool = False,
) -> tuple[Source | None, Any]:
    """Blocks, if that is what the user passed.

    Parameters
    ----------
    owner : str
        The estimator, for messages.
    X, y, sample_weight : object or None
        What the user passed.
    whole : float
        The number of rows up to which an array in a file is left as it is.
    lists : bool
        Whether a list may be one of blocks. Where there are no targets, the items of a list are
        rows, whatever they are.

    Returns
    -------
    source : Source or None
        None if X is data in memory.
    X : object
        The same data, to be used in place of X.
    """
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or len(X) <= whole or not is_mapped(X):
            return None, X
        return Blocks(Slices(X, _aligned(owner, y, X, "y"), _aligned(owner, sample_weight, X))), X
    if is_dask(X):
        from mercer.streams.dask import DaskBlocks

        return DaskBlocks.of(owner, X, y, sample_weight), X
    in_memory = not (y is None or isinstance(y, str) or _names(y))
    if in_memory and not isinstance(X, Blocks):
        return None, X
    if (
        isinstance(X, list)
        and X
        and (isinstance(X[0], tuple) or (y is not None and is_table(X[0])))
    ):
        X = Blocks(X)
    blocks, X = blocks_in(X)
    if blocks is None:
        return None, X
    if y is None and sample_weight is None:
        return blocks, X
    named = (y is None or not in_memory) and isinstance(sample_weight, str | None)
    if not named or blocks.target is not None or blocks.weight is not None:
        raise DataTypeError(
            f"{owner}: y or sample_weight was passed beside blocks, which hold their own; yield "
            "tuples (X, y) or (X, y, sample_weight), or pass names of columns of data frames."
        )
    return Blocks(blocks._source, target=y, weight=sample_weight), X


def is_dask(data: Any) -> bool:
    """Whether something is a Dask collection; Dask is not imported to find out."""
    if "dask" not in sys.modules or not hasattr(data, "__dask_graph__"):
        return False
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr")


def _is_pair(item: Any) -> bool:
    """Whether an item of a list can only be a block with its targets."""
    return type(item) is tuple and len(item) in (2, 3) and is_table(item[0])


def _names(y: Any) -> bool:
    return isinstance(y, list) and bool(y) and all(isinstance(name, str) for name in y)


def _aligned(owner: str, values: Any, X: Any, name: str = "sample_weight") -> Any:
    """What goes with the rows of an array, as something that can be cut like it."""
    found = values if values is None or isinstance(values, np.ndarray) else np.asarray(values)
    if found is not None and (found.ndim == 0 or len(found) != len(X)):
        raise DataError(
            f"{owner}: {name} has shape {found.shape} but X has {len(X)} rows; pass one value for "
            "each row of X."
        )
    return found
