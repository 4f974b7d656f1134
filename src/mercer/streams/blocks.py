"""Rows in blocks, from anything that yields them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set, Sized
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer import sampling
from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.containers import by_narwhals, len_of, unknown_column
from mercer.kernels.points import Points
from mercer.streams.joining import FEW, Triple, joined
from mercer.streams.spool import Spool

if TYPE_CHECKING:
    from mercer.streams.dask import DaskBlocks

# Bytes of a block of an array in a file.
_SLICE_BYTES = 2**24
# Bytes of rows that may be gathered in memory.
_CHUNK_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows, in the containers of the user."""

    data: Any  # the points
    targets: Any = None
    weights: Any = None
    start: int = 0  # the number of the first row


#: Blocks that can be read any number of times, in this process or on workers.
Source: TypeAlias = "Blocks | DaskBlocks"


def added(values: Iterable[Any]) -> Any:
    """The sum of the values that are not None, in their order; None if all are."""
    terms = [value for value in values if value is not None]
    return reduce(operator.add, terms) if terms else None


class Blocks:
    """Rows in blocks, for estimators in place of X where rows do not all fit in memory.

    Parameters
    ----------
    source : iterable, iterator or callable
        The blocks. A block is the points X, or a tuple (X, y), or (X, y, sample_weight); X is an
        array, a sparse matrix, a data frame or a list, y and sample_weight have one value for each
        row. A callable is called for a fresh iterator at every pass. An iterator, such as a
        generator, is kept in a temporary file as it is read.
    target : str or list of str, optional
        The columns that hold the targets, for blocks that are data frames.
    weight : str, optional
        The column that holds the weights.

    Notes
    -----
    Iterating yields tuples (X, y, sample_weight), with None for missing items. Several passes are
    made, and all have to yield the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> def blocks():
    ...     for start in range(0, 1000, 100):
    ...         x = np.linspace(start, start + 99, 100)[:, None] / 100
    ...         yield x, np.sin(x).ravel()
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3).fit(mc.Blocks(blocks))
    >>> model.predict([[np.pi / 2]]).round(3)
    array([1.])
    """

    emptiness = (
        "found 0 sample(s): the stream of blocks is empty; an iterator can be gone through once, "
        "so pass a fresh one, or a function that returns one."
    )
    chunk_bytes = _CHUNK_BYTES

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        target: str | list[str] | None = None,
        weight: str | None = None,
    ) -> None:
        if not callable(source) and not isinstance(source, Iterable):
            raise DataTypeError(
                f"Blocks: a {type(source).__name__} yields no blocks; pass an iterable, an "
                "iterator, or a function that returns one."
            )
        self.target, self.weight = target, weight
        self._source = Spool(source) if isinstance(source, Iterator) else source

    def __repr__(self) -> str:
        source: Any = self._source
        shown = f"<{len(source)} blocks>" if isinstance(source, Sized) else repr(source)
        return f"Blocks({shown}, target={self.target!r}, weight={self.weight!r})"

    def __iter__(self) -> Iterator[Triple]:
        return joined(self._split(item) for item in _items(self._source))

    def map_sum(
        self,
        function: Callable[[Block], Any],
        name: str,
        within: NDArray[np.intp] | None = None,
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The sum of a function over all blocks, in order; None if there are none.

        Blocks that hold none of the rows `within`, ascending row numbers, may be left out. With
        `then`, the result is this function of the sum.
        """
        total, start = None, 0
        for data, targets, weights in self:
            stop = start + _rows_of(data)
            if within is None or np.searchsorted(within, start) < np.searchsorted(within, stop):
                total = added([total, function(Block(data, targets, weights, start))])
            start = stop
        return total if then is None or total is None else then(total)

    def mapped(self, function: Callable[[Any], Any], name: str, row: Points | None = None) -> Any:
        """The results of a function for the points of each block, concatenated.

        A lazy source takes the type of the results from that for `row`.
        """
        results, indexed = list[Any](), True
        for data, _, _ in self:
            if _rows_of(data):
                results.append(function(data))
                indexed = indexed and hasattr(data, "index") and not isinstance(data, list)
        if not results:
            raise DataError(f"{name}: {self.emptiness}")
        return _concatenated(results, indexed=indexed)

    def _split(self, item: Any) -> Triple:
        """A block as points, targets and weights."""
        if _is_lazy(item[0] if type(item) is tuple and item else item):
            raise DataTypeError(
                "Blocks: a block has not been computed yet, so it has no rows; yield "
                "frame.collect(), or frame.compute() if it is one of Dask."
            )
        if type(item) is tuple:
            if self.target is not None or self.weight is not None:
                raise DataTypeError(
                    f"Blocks: the column {(self.target or self.weight)!r} was asked for, but a "
                    "block is a tuple, which holds targets of its own; yield data frames, or name "
                    "no column."
                )
            if len(item) not in (2, 3):
                raise DataTypeError(
                    f"Blocks: a block is a tuple of {len(item)}; yield X, (X, y) or "
                    "(X, y, sample_weight)."
                )
            return item if len(item) == 3 else (*item, None)
        if self.target is None and self.weight is None:
            return item, None, None
        return self._columns_of(item)

    def _columns_of(self, item: Any) -> Triple:
        """A data frame as points, targets and weights."""
        frame = as_frame(item)
        if frame is None:
            raise DataTypeError(
                f"Blocks: targets or weights were asked for by name, but a block is a "
                f"{type(item).__name__}, which has no columns with names; yield data frames, or "
                "tuples (X, y)."
            )
        return split_columns("Blocks", frame, self.target, self.weight)


def split_columns(owner: str, frame: Any, target: Any, weight: str | None) -> Triple:
    """A data frame of narwhals as points, targets and weights, which are columns of it."""
    targets = [target] if isinstance(target, str) else target or []
    named = [*targets, *([weight] if weight is not None else [])]
    for name in named:
        if name not in frame.columns:
            raise DataError(f"{owner}: {unknown_column(name, frame.columns)}")
    columns: Any = None
    if isinstance(target, str):
        columns = frame.get_column(target).to_numpy()
    elif targets:
        columns = np.column_stack([frame.get_column(name).to_numpy() for name in targets])
    weights = None if weight is None else frame.get_column(weight).to_numpy()
    return frame.drop(*named).to_native(), columns, weights


def without_columns(X: Any, names: Collection[str]) -> Any:
    """A data frame without some columns, if it has them; other data as they are."""
    if isinstance(X, np.ndarray) or (frame := as_frame(X)) is None:
        return X
    extra = [name for name in names if name in frame.columns]
    return frame.drop(*extra).to_native() if extra else X


def beside(owner: str, source: Any, targets: Any, weights: Any) -> Iterator[Triple]:
    """Blocks of points, with targets and weights in memory that are cut into the same blocks."""
    columns = {"y": targets, "sample_weight": weights}
    start = 0
    for data in _items(source):
        if type(data) is tuple:
            raise DataTypeError(
                f"{owner}: y or sample_weight was passed beside blocks, which hold their "
                "own; yield points alone, or pass neither."
            )
        stop = start + _rows_of(data)
        _require_rows(owner, columns, stop, at_least=True)
        y, mass = (None if column is None else column[start:stop] for column in columns.values())
        yield data, y, mass
        start = stop
    if start:  # an empty stream has a message of its own
        _require_rows(owner, columns, start, at_least=False)


def _require_rows(owner: str, columns: dict[str, Any], rows: int, *, at_least: bool) -> None:
    for name, values in columns.items():
        if values is None or len(values) == rows or (at_least and len(values) > rows):
            continue
        raise DataError(
            f"{owner}: {name} has {len(values)} rows, but the blocks have "
            f"{'at least ' * at_least}{rows}; pass one value for each row of X."
        )


def evenly(owner: str, blocks: Blocks, weight: float) -> Iterator[Triple]:
    """Blocks whose rows all have the same weight."""
    for data, targets, weights in blocks:
        if weights is not None:
            raise DataTypeError(
                f"{owner}: sample_weight = {weight:g} was passed beside blocks, "
                "which hold weights of their own; pass none, or yield tuples (X, y)."
            )
        yield data, targets, np.full(_rows_of(data), weight)


def slices(data: Any, targets: Any, weights: Any) -> Iterator[Triple]:
    """An array in memory or a file, with targets and weights, cut into blocks."""
    width = data.itemsize * np.prod(data.shape[1:]) / 8
    for rows in sampling.blocks(len(data), width, _SLICE_BYTES, least=FEW):
        y, mass = (None if column is None else column[rows] for column in (targets, weights))
        yield np.asarray(data[rows]), y, mass


def _items(source: Any) -> Iterable[Any]:
    """A fresh iteration over a source of blocks."""
    items = source if isinstance(source, Iterable) else source()
    if not isinstance(items, Iterable):
        raise DataTypeError(
            f"Blocks: the function returned a {type(items).__name__}, which yields no blocks; "
            "write it with yield, or let it return an iterator."
        )
    return items


def _concatenated(results: list[Any], *, indexed: bool) -> Any:
    """The rows of arrays or data frames; frames get a new index unless the blocks have one."""
    if isinstance(results[0], np.ndarray):
        return np.concatenate(results)
    frame = nw.concat([nw.from_native(result, eager_only=True) for result in results])
    return (frame if indexed else nw.maybe_reset_index(frame)).to_native()


def as_frame(item: Any) -> Any:
    """A data frame of any library as one of narwhals; None if it is not a data frame."""
    frame = by_narwhals(item, "Blocks")
    return frame if isinstance(frame, nw.DataFrame) else None


def is_mapped(data: Any) -> bool:
    """Whether an array is memory-mapped."""
    while isinstance(data, np.ndarray):
        if isinstance(data, np.memmap):
            return True
        data = data.base
    return False


def repeatable(data: Any) -> Any:
    """The data, with an iterator replaced by blocks or a list that can be read again."""
    if not isinstance(data, Iterator):
        return data
    blocks, rows = blocks_in(data)
    return list(rows) if blocks is None else blocks


def blocks_in(data: Any) -> tuple[Blocks | None, Any]:
    """Blocks, or None if the data are not blocks, and the data.

    An iterator yields blocks if its first item is a table or a tuple.
    """
    if isinstance(data, Blocks):
        return data, data
    if isinstance(data, Iterator):
        first = next(data, None)
        whole = chain([] if first is None else [first], data)
        is_block = first is None or type(first) is tuple or is_table(first)
        return (Blocks(whole), data) if is_block else (None, whole)
    if _is_source(data):
        return Blocks(data), data
    return None, data


def is_table(item: Any) -> bool:
    """Whether an item is a matrix or a data frame, computed or lazy."""
    array = isinstance(item, np.ndarray) and item.ndim == 2
    return array or sp.issparse(item) or _is_lazy(item) or as_frame(item) is not None


def _is_lazy(item: Any) -> bool:
    """Whether an item is a lazy data frame of polars or a Dask collection."""
    lazy_frame = hasattr(item, "collect") and not hasattr(item, "__array__")
    return lazy_frame or hasattr(item, "__dask_graph__")


def _is_source(data: Any) -> bool:
    """Whether the data yield blocks: a function, or an iterable that is not a container of rows."""
    if isinstance(data, np.ndarray | list | tuple | Mapping | Set | str | bytes):
        return False
    if hasattr(data, "__array__") or hasattr(data, "shape"):
        return False
    # A sequence may be one of rows.
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return False
    if hasattr(data, "__dataframe__") or hasattr(data, "collect"):
        return False
    return callable(data) or isinstance(data, Iterable)


def _rows_of(data: Any) -> int:
    try:
        return len_of(data)
    except TypeError:
        raise DataTypeError(
            f"Blocks: a block is a {type(data).__name__}, which has no rows; yield arrays, sparse "
            "matrices, data frames or lists, alone or in tuples (X, y)."
        ) from None
