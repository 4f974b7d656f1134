"""Data as kernels see them: views of what the user gave, and `Points`, prepared once.

Kernels, not estimators, say what data may be. A leaf kernel reads the data through a `View`: steps that
select or warp columns, then a reader that turns the rest into numbers (`Numbers`), categories (`Codes`),
explicit features (`Features`) or nothing at all (`Objects`). Composition needs no special case: each leaf
has its own view of the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.exceptions import DataError, DataTypeError, NotDifferentiableError

Array = np.ndarray[Any, Any]


# What a view yields -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """Numbers in columns. Columns with ``keys`` are matched by key, all others by position."""

    values: Any
    keys: Array | None = None
    names: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def take(self, rows: Any) -> Columns:
        return Columns(self.values[rows], self.keys, self.names)

    def like(self, reference: Columns) -> Any:
        """These values in the columns of another collection."""
        if self.keys is None or reference.keys is None:
            if self.width != reference.width:
                raise DataError(
                    f"one side has {self.width} columns, the other {reference.width}: "
                    "a kernel compares rows with the same columns."
                )
            return self.values
        if self.keys is reference.keys:
            return self.values
        # Features that the other side never shows cannot contribute to a product with it.
        place = np.searchsorted(reference.keys, self.keys)
        place = np.minimum(place, max(len(reference.keys) - 1, 0))
        known = reference.keys[place] == self.keys if len(reference.keys) else np.zeros(len(place), bool)
        pick = sp.csr_array(
            (np.ones(int(known.sum())), (np.flatnonzero(known), place[known])),
            shape=(self.width, reference.width),
        )
        return sp.csr_array(self.values @ pick).astype(self.values.dtype)


@dataclass(frozen=True, eq=False)
class Coded(Columns):
    """Categories as integer codes, one sorted array of categories for each column."""

    categories: tuple[Array, ...] = ()

    def take(self, rows: Any) -> Coded:
        return Coded(self.values[rows], names=self.names, categories=self.categories)

    def like(self, reference: Columns) -> Any:
        assert isinstance(reference, Coded)
        values = super().like(reference)
        if self.categories is reference.categories:
            return values
        columns = [
            _recode(values[:, j].astype(np.int64), own, other)
            for j, (own, other) in enumerate(zip(self.categories, reference.categories, strict=True))
        ]
        return np.stack(columns, axis=1)


def _recode(codes: Array, own: Array, other: Array) -> Array:
    """Codes of the same categories in another list; what that list lacks gets codes beyond it."""
    place = np.minimum(np.searchsorted(other, own), max(len(other) - 1, 0))
    known = other[place] == own if len(other) else np.zeros(len(own), bool)
    table = np.where(known, place, len(other) + np.arange(len(own)))
    return table[codes].astype(float)


# Readers ------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """Turns selected data into columns (or hands them through)."""

    def read(self, data: Any) -> Columns: ...


@dataclass(frozen=True)
class Numbers:
    """Numeric columns: arrays, sparse rows, data frames, nested lists; finite."""

    owner: str = "the kernel"
    sparse: bool = True

    def read(self, data: Any) -> Columns:
        if type(data) is np.ndarray and data.ndim == 2 and data.dtype.kind == "f" and data.size:
            values: Any = data if data.dtype.itemsize in (4, 8) else data.astype(np.float32)
            names = None
        else:
            values, names = numeric_matrix(data, self.owner)
        if sp.issparse(values) and not self.sparse:
            raise DataTypeError(
                f"{self.owner} needs dense columns, got a sparse matrix; call X.toarray() first, or use a "
                "dot-product or RBF-type kernel, which keep sparse data sparse."
            )
        if not _core.all_finite(values.data if sp.issparse(values) else values):
            raise DataError(_describe_nonfinite(values, self.owner))
        return Columns(values, names=names)


@dataclass(frozen=True)
class Codes:
    """Categories of any kind (strings, integers, booleans), encoded column by column."""

    owner: str = "Categorical"

    def read(self, data: Any) -> Columns:
        names, columns = object_columns(data, self.owner)
        codes, categories = [], []
        for name, column in zip(names, columns, strict=True):
            levels, code = _encode(column, name, self.owner)
            codes.append(code.astype(float))
            categories.append(levels)
        return Coded(np.stack(codes, axis=1), names=tuple(names), categories=tuple(categories))


@dataclass(frozen=True)
class Features:
    """The explicit features of a structured kernel; columns that no row shows are left out."""

    kernel: Any

    def read(self, data: Any) -> Columns:
        objects = as_objects(data)
        found = self.kernel.features(objects)
        matrix, keys = found if isinstance(found, tuple) else (found, None)
        matrix = sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[0] != len(objects):
            raise DataError(
                f"{type(self.kernel).__name__}.features returned shape {matrix.shape} for "
                f"{len(objects)} objects; it must return one row for each."
            )
        if matrix.dtype.kind not in "fiub":
            raise DataTypeError(f"{type(self.kernel).__name__}.features must return numbers.")
        matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(float)
        if keys is not None:
            order = np.argsort(keys)
            matrix, keys = sp.csr_array(sp.csc_array(matrix)[:, order]), np.asarray(keys)[order]
        return Columns(matrix, keys=keys, names=None if keys is None else tuple(map(str, keys)))


@dataclass(frozen=True)
class Objects:
    """The data as they are: for kernels that compare objects in Python."""

    def read(self, data: Any) -> Columns:
        raise DataTypeError("objects have no numeric columns.")


# Steps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Select:
    """Keep some columns, by position, slice or (data frames) by name."""

    columns: tuple[Hashable, ...]

    def __call__(self, data: Any) -> Any:
        data = _tabular(data)
        if isinstance(data, nw.DataFrame):
            return data.select(_frame_names(data, self.columns))
        return data[:, positions(self.columns, data.shape[1])]

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        names = data.columns if isinstance(data, nw.DataFrame) else None
        total = np.zeros((len(cotangent), data.shape[1]))
        # A column may be selected twice, so this has to add, not assign.
        np.add.at(total, (slice(None), positions(self.columns, data.shape[1], names)), cotangent)
        return total

    def __hash__(self) -> int:
        return hash(tuple(str(c) for c in self.columns))


@dataclass(frozen=True)
class Warp:
    """Replace the data by a function of them."""

    function: Callable[[Any], Any]

    def __call__(self, data: Any) -> Any:
        native = data.to_native() if isinstance(data, nw.DataFrame) else data
        warped = self.function(native)
        if len_of(warped) != len_of(native):
            raise DataError(
                f"warp: {self.function!r} returned {len_of(warped)} rows for {len_of(native)}; "
                "it must map each row to one row."
            )
        return ingest(warped)

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        raise NotDifferentiableError(
            "the gradient in the inputs stops at warp(...): the derivative of its function is not known. "
            "Warp the data before the kernel sees them."
        )


@dataclass(frozen=True)
class UnitRows:
    """Divide each row by its Euclidean length; a zero row stays zero."""

    def __call__(self, data: Any) -> Any:
        values, _ = numeric_matrix(data, "the angle between rows")
        return values * self._inverse_length(values)

    @staticmethod
    def _inverse_length(values: Array) -> Array:
        # Dividing by the largest entry first keeps huge and tiny rows representable.
        largest = np.abs(values).max(axis=1, keepdims=True)
        scaled = values / np.where(largest > 0, largest, 1.0)
        length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True)) * largest
        return np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 0.0)

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        values, _ = numeric_matrix(data, "the angle between rows")
        inverse = self._inverse_length(values)
        unit = values * inverse
        return np.asarray((cotangent - unit * (unit * cotangent).sum(axis=1, keepdims=True)) * inverse)


@dataclass(frozen=True)
class View:
    """Steps from the user's data to what one leaf kernel reads."""

    steps: tuple[Any, ...] = ()
    reader: Any = field(default_factory=Numbers)

    def apply(self, data: Any) -> Any:
        for step in self.steps:
            data = step(data)
        return data

    def then(self, step: Any) -> View:
        return View((*self.steps, step), self.reader)

    def read_by(self, reader: Any) -> View:
        return View(self.steps, reader)


# Points -------------------------------------------------------------------------------------------------


class Points:
    """Data prepared for a kernel, accepted wherever data are.

    What has been computed for one view (numbers, features, packed panels) is kept and used again.
    Subsets, ``points[rows]``, remember which rows they came from.

    Parameters
    ----------
    data : array, sparse matrix, data frame or sequence
        The data, one row (object) each.

    Examples
    --------
    >>> import mercer as mc
    >>> points = mc.RBF().prepare([[0.0], [1.0], [2.0]])
    >>> len(points), len(points[:2])
    (3, 2)
    """

    __slots__ = ("_columns", "_data", "_ids", "_length", "_means", "_parent", "_rows", "packs")

    def __init__(self, data: Any) -> None:
        self._data = ingest(data)
        self._length = len_of(self._data)
        self._reset()
        self._parent: Points | None = None
        self._rows: Any = None
        self._ids: Array | None = None

    def _reset(self) -> None:
        self._columns: dict[Any, Columns] = {}
        self._means: dict[Any, Array] = {}
        self.packs: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "ids": self.ids}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._data, self._ids = ingest(state["data"]), state["ids"]
        self._length = len_of(self._data)
        self._parent = self._rows = None
        self._reset()

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Points({self._length} rows)"

    def __getitem__(self, rows: Any) -> Points:
        """Return a subset of the points; ``rows`` is a slice, a mask or an array of positions."""
        positions_ = np.arange(self._length)[rows]
        part = Points.__new__(Points)
        part._reset()
        part._parent, part._rows = self, rows if isinstance(rows, slice) else positions_
        part._data, part._ids, part._length = None, self.ids[positions_], len(positions_)
        return part

    @property
    def ids(self) -> Array:
        """Which row of the original data each point is."""
        if self._ids is None:
            self._ids = np.arange(self._length)
        return self._ids

    @property
    def data(self) -> Any:
        """The data, in the user's own type where possible."""
        if self._data is None:
            assert self._parent is not None
            self._data = _take(self._parent._frame(), self._rows)
        return self._data.to_native() if isinstance(self._data, nw.DataFrame) else self._data

    def _frame(self) -> Any:
        _ = self.data
        return self._data

    def frozen(self) -> Points:
        """The same points with a copy of a mutable array, so that later writes do not reach them."""
        if isinstance(self._data, np.ndarray) and self._data.flags.writeable:
            self._data = self._data.copy()
            self._columns.clear()
        return self

    def columns(self, view: Any) -> Columns:
        """The columns of a view, computed once."""
        found = self._columns.get(view)
        if found is None:
            if self._parent is not None:
                found = self._parent.columns(view).take(self._rows)
            else:
                found = view.reader.read(view.apply(self._data))
            self._columns[view] = found
        return found

    def matrix(self, view: Any) -> Any:
        """The numbers of a view: an array or a CSR array."""
        return self.columns(view).values

    def matrix_like(self, view: Any, reference: Points) -> Any:
        """The numbers of a view in the columns of other points."""
        return self.columns(view).like(reference.columns(view))

    def mean(self, view: Any) -> Array:
        """Column means of a view (0 for sparse data, which stay sparse)."""
        found = self._means.get(view)
        if found is None:
            matrix = self.matrix(view)
            if isinstance(matrix, np.ndarray):
                # Dividing first keeps the sum of huge numbers finite.
                found = (matrix / len(matrix)).sum(axis=0, dtype=float)
            else:
                found = np.zeros(matrix.shape[1])
            self._means[view] = found
        return found

    def frame_of(self, view: Any) -> Any:
        """The data after the steps of a view."""
        return view.apply(self._frame())

    def data_of(self, view: Any) -> Any:
        """The same in the user's own type: what Python functions are given."""
        data = self.frame_of(view)
        return data.to_native() if isinstance(data, nw.DataFrame) else data

    def function_values(self, view: Any, function: Callable[[Any], Any]) -> Array:
        """One number for each point, from a function of the data."""
        values = np.asarray(function(self.data_of(view)), dtype=float).reshape(-1)
        if values.shape != (self._length,):
            raise DataError(
                f"scaled_by: {function!r} returned {values.size} numbers for {self._length} rows; "
                "it must return one number for each row."
            )
        if not np.isfinite(values).all():
            raise DataError(f"scaled_by: {function!r} returned NaN or infinity.")
        return values

    def pull_back(self, view: Any, cotangent: Array) -> Array:
        """Carry a gradient in the columns of a view back to the columns of the data."""
        if not isinstance(view.reader, Numbers):
            raise NotDifferentiableError("the gradient in the inputs needs numeric columns.")
        stages = [_tabular(self._frame())]
        for step in view.steps:
            stages.append(step(stages[-1]))
        for step, data in zip(reversed(view.steps), reversed(stages[:-1]), strict=True):
            cotangent = step.pull_back(data, cotangent)
        return cotangent


def as_points(data: Any) -> Points:
    """Return points as they are, and anything else as new points."""
    return data if isinstance(data, Points) else Points(data)


# Reading the many kinds of containers ---------------------------------------------------------------------


def ingest(data: Any) -> Any:
    """Bring data into one of: array, CSR array, narwhals frame, list of objects."""
    if isinstance(data, np.ndarray):
        return data
    if sp.issparse(data):
        return sp.csr_array(data)
    if isinstance(data, nw.DataFrame):
        return data
    if isinstance(data, Points):
        return data._frame()
    found = nw.from_native(data, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(found, nw.DataFrame):
        return found
    if isinstance(found, nw.Series):
        return found.to_list() if not found.dtype.is_numeric() else found.to_numpy()
    if isinstance(data, str | bytes):
        raise DataTypeError("a single string is not a collection of rows; pass a list of strings.")
    if hasattr(data, "__array__"):
        return np.asarray(data)
    try:
        items = list(data)
    except TypeError:
        raise DataTypeError(
            f"a {type(data).__name__} is not a collection of rows; pass an array, a sparse matrix, a data "
            "frame or a list."
        ) from None
    return _list_or_array(items)


def _list_or_array(items: list[Any]) -> Any:
    """Lists of numbers or of equally long rows of numbers become arrays; all others stay lists."""
    if items and any(isinstance(item, str | bytes | dict) for item in items):
        return items
    try:
        array = np.asarray(items)
    except ValueError:
        return items
    return array if array.dtype.kind in "fiubc" else items


def len_of(data: Any) -> int:
    """Number of rows of a container."""
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


def _take(data: Any, rows: Any) -> Any:
    if isinstance(data, list):
        return data[rows] if isinstance(rows, slice) else [data[i] for i in rows]
    if isinstance(data, nw.DataFrame):
        return data[rows] if isinstance(rows, slice) else data[np.asarray(rows)]
    return data[rows]


def _tabular(data: Any) -> Any:
    """Data with columns: an array, a sparse matrix or a frame."""
    if isinstance(data, list):
        try:
            data = np.asarray(data, dtype=object)
        except ValueError:
            raise DataError("the rows have different lengths, so they have no columns.") from None
    if not isinstance(data, nw.DataFrame) and data.ndim != 2:
        raise DataError(
            f"columns were selected from data of shape {data.shape}; .on(...) needs a table with rows and "
            "columns."
        )
    return data


def positions(columns: Sequence[Any], width: int, names: list[str] | None = None) -> Array:
    """Turn indices, slices and names into column positions."""
    found: list[int] = []
    for column in columns:
        if isinstance(column, slice):
            found.extend(range(*column.indices(width)))
        elif isinstance(column, str):
            if names is None:
                raise DataError(
                    f"column {column!r} was asked for by name, but the data have no column names; pass a "
                    "data frame, or select by position, as in .on(0)."
                )
            if column not in names:
                raise DataError(unknown_column(column, names))
            found.append(names.index(column))
        else:
            index = int(cast(int, column))
            if not -width <= index < width:
                raise DataError(f"column {index} was asked for, but the data have {width} columns (0 to {width - 1}).")
            found.append(index % width)
    return np.array(found, dtype=np.intp)


def unknown_column(column: str, names: Sequence[str]) -> str:
    """The sentence for a column that is not there."""
    import difflib

    close = difflib.get_close_matches(column, list(names), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = ", ".join(map(repr, list(names)[:20])) + (", ..." if len(names) > 20 else "")
    return f"column {column!r} is not in the data frame{hint} Its columns are {shown}."


def _frame_names(frame: Any, columns: Sequence[Any]) -> list[str]:
    return [frame.columns[i] for i in positions(columns, len(frame.columns), frame.columns)]


def numeric_matrix(data: Any, owner: str) -> tuple[Any, tuple[str, ...] | None]:
    """Numeric columns of any container, and their names if it has some."""
    names = None
    if isinstance(data, nw.DataFrame):
        data, names = _numeric_frame(data, owner)
    elif isinstance(data, list):
        data = _numeric_list(data, owner)
    if sp.issparse(data):
        return _check_matrix(sp.csr_array(data), owner), names
    if data.dtype.kind == "O":
        data = _object_to_float(data, owner)
    return _check_matrix(data, owner), names


def _check_matrix(data: Any, owner: str) -> Any:
    if data.ndim != 2:
        raise DataError(
            f"{owner} compares rows of numbers: expected 2D array, got {data.ndim}D array of shape "
            f"{data.shape}. Reshape your data either using array.reshape(-1, 1) if it has one column, or "
            "array.reshape(1, -1) if it is a single row."
        )
    if data.shape[0] == 0:
        raise DataError(
            f"Found array with 0 sample(s) (shape={data.shape}) while a minimum of 1 is required by {owner}."
        )
    if data.shape[1] == 0:
        raise DataError(
            f"Found array with 0 feature(s) (shape={data.shape}) while a minimum of 1 is required by {owner}."
        )
    if data.dtype.kind == "c":
        raise DataTypeError(f"Complex data not supported by {owner}: pass real numbers.")
    if data.dtype.kind not in "fiub":
        raise DataTypeError(
            f"{owner} compares rows of numbers, got values of type {data.dtype}; use a kernel for that kind "
            "of data, such as Categorical() or Spectrum(k) for strings, or select columns with .on(...)."
        )
    if data.dtype in (np.float32, np.float64):
        return data
    return data.astype(np.float32 if data.dtype == np.float16 else np.float64)


def _numeric_frame(frame: Any, owner: str) -> tuple[Array, tuple[str, ...]]:
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise DataTypeError(
                f"{owner} compares rows of numbers, but column {name!r} holds {dtype}; give it a kernel of its "
                f"own, such as Categorical().on({name!r}), or select numeric columns with .on(...)."
            )
    single = all(dtype == nw.Float32 for dtype in frame.schema.values())
    columns = [np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns]
    matrix = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    return matrix.astype(np.float32 if single else np.float64), tuple(map(str, frame.columns))


def _numeric_list(data: list[Any], owner: str) -> Array:
    if not data:
        raise DataError(f"Found array with 0 sample(s) while a minimum of 1 is required by {owner}.")
    if isinstance(data[0], str | bytes):
        raise DataTypeError(
            f"{owner} compares rows of numbers, got a list of {type(data[0]).__name__}; for strings use a "
            "string kernel such as Spectrum(k)."
        )
    lengths = {np.size(row) for row in data}
    if len(lengths) > 1:
        raise DataError(
            f"{owner} compares rows of numbers, but the rows have different lengths "
            f"(from {min(lengths)} to {max(lengths)}); a vector kernel needs rows of one length."
        )
    return np.asarray(data, dtype=object)


def _object_to_float(data: Array, owner: str) -> Array:
    try:
        return data.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner} compares rows of numbers, but a value could not be converted ({error}); use a kernel "
            "for that kind of data, such as Categorical() or Spectrum(k)."
        ) from None


def _describe_nonfinite(values: Any, owner: str) -> str:
    coordinates = values.tocoo() if sp.issparse(values) else None
    bad = ~np.isfinite(values.data if coordinates is not None else values)
    if coordinates is not None:
        where = int(np.flatnonzero(bad)[0])
        row, column, value = coordinates.row[where], coordinates.col[where], coordinates.data[where]
    else:
        row, column = np.argwhere(bad)[0]
        value = values[row, column]
    kind = "NaN" if np.isnan(value) else "infinity"
    return (
        f"Input X contains {kind} (first in row {row}, column {column}); {owner} needs finite numbers. "
        "Impute or drop those rows."
    )


def object_columns(data: Any, owner: str) -> tuple[list[str], list[Array]]:
    """Columns of arbitrary values, each as an object array."""
    if isinstance(data, nw.DataFrame):
        names = list(map(str, data.columns))
        return names, [_objects(data[name].to_list()) for name in data.columns]
    if isinstance(data, list) and not (data and isinstance(data[0], list | tuple | np.ndarray)):
        return ["x0"], [_objects(data)]
    if sp.issparse(data):
        raise DataTypeError(f"{owner} needs dense columns, got a sparse matrix; call X.toarray() first.")
    array = np.asarray(data, dtype=object) if isinstance(data, list) else data
    if array.ndim == 1:
        return ["x0"], [_objects(array.tolist())]
    if array.ndim != 2 or not array.shape[1]:
        raise DataError(f"{owner} needs rows and columns, got shape {array.shape}.")
    return [f"x{j}" for j in range(array.shape[1])], [_objects(array[:, j].tolist()) for j in range(array.shape[1])]


def _objects(items: list[Any]) -> Array:
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def _encode(column: Array, name: str, owner: str) -> tuple[Array, Array]:
    missing = [v is None or (isinstance(v, float) and v != v) for v in column]
    if any(missing):
        raise DataError(
            f"{owner}: column {name!r} has a missing value in row {missing.index(True)}; fill it, for "
            "example with a category of its own."
        )
    kinds = {str if isinstance(v, str) else type(v) for v in column}
    if len(kinds) > 1 and not all(issubclass(k, int | float | bool | np.number) for k in kinds):
        raise DataTypeError(
            f"{owner}: column {name!r} mixes {' and '.join(sorted(k.__name__ for k in kinds))}; use one type."
        )
    try:
        levels, codes = np.unique(np.array(column.tolist()), return_inverse=True)
    except (TypeError, ValueError):
        raise DataTypeError(f"{owner}: the values of column {name!r} cannot be compared.") from None
    return levels, codes


def as_objects(data: Any) -> list[Any]:
    """A list with one object for each row: what structured kernels are given."""
    if isinstance(data, nw.DataFrame):
        if len(data.columns) == 1:
            return cast(list[Any], data[data.columns[0]].to_list())
        return list(data.iter_rows())
    if sp.issparse(data):
        raise DataTypeError("a structured kernel needs a list of objects, got a sparse matrix.")
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 1:
        return data[:, 0].tolist()
    return list(data)
