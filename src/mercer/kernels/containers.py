"""Containers of data: arrays, sparse matrices, data frames, lists."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, IndexingError

#: Types of narwhals for times and durations.
_TIMES = (nw.Date, nw.Datetime, nw.Duration)
#: Microseconds of a day.
_DAY = 86_400e6

_first_row: ContextVar[int] = ContextVar("mercer_first_row", default=0)


@contextmanager
def rows_from(start: int) -> Iterator[None]:
    """Count rows in messages from `start`, for data that are a part of larger data."""
    token = _first_row.set(start)
    try:
        yield
    finally:
        _first_row.reset(token)


def row_number(position: int) -> int:
    """The number of a row in messages."""
    return _first_row.get() + int(position)


def ingest(data: Any, owner: str) -> Any:
    """Convert data to an array, a CSR array, a narwhals frame or a list of objects."""
    if type(data) is np.ndarray:
        return data
    if isinstance(data, np.ndarray):
        if np.ma.is_masked(data):
            raise DataError(
                f"{owner}: X has masked values, which no kernel can compare; fill or drop them."
            )
        return np.asarray(data)
    if sp.issparse(data):
        return sp.csr_array(data)
    if isinstance(data, nw.DataFrame):
        return data
    if hasattr(data, "__dask_graph__"):
        raise DataTypeError(
            f"{owner}: a Dask {type(data).__name__} has not been computed, and is not taken here; "
            "pass X.compute() if it fits in memory."
        )
    frame = by_narwhals(data, owner)
    if isinstance(frame, nw.DataFrame):
        return frame
    if isinstance(frame, nw.Series):
        # A read-only view of a series changes with it, so that only a copy is safe.
        return frame.to_list() if not frame.dtype.is_numeric() else np.array(frame.to_numpy())
    if isinstance(data, str | bytes | bytearray | PathLike):
        kind = "path" if isinstance(data, PathLike) else "single string"
        raise DataTypeError(
            f"{owner}: a {kind} is not a collection of rows; pass a list of strings, or "
            "mercer.read_blocks(path) if it is the name of a file."
        )
    if hasattr(data, "__array__") or isinstance(data, memoryview):
        array = np.asarray(data)
        if array.ndim:
            return array
    try:
        # A mapping or a set would yield items, but they are keys, or have no order.
        items = None if isinstance(data, Mapping | Set) else list(data)
    except TypeError:
        items = None
    if items is None and hasattr(data, "collect"):
        raise DataTypeError(
            f"{owner}: a {type(data).__name__} has not been computed yet, so it has no rows; pass "
            "X.collect()."
        )
    if items is None:
        raise DataTypeError(
            f"{owner}: a {type(data).__name__} is not a collection of rows; pass an array, a "
            "sparse matrix, a data frame or a list."
        )
    return _list_or_array(items)


def by_narwhals(data: Any, owner: str) -> Any:
    """Wrap a data frame or a series by narwhals; return anything else unchanged."""
    try:
        return nw.from_native(as_table(data), pass_through=True, eager_only=True, allow_series=True)
    except nw.exceptions.NarwhalsError as error:
        raise DataError(
            f"{owner}: the data frame cannot be read ({error}); pass one that can, with a name of "
            "its own for each column, or an array."
        ) from None


def as_table(data: Any) -> Any:
    """A table of pyarrow, or a batch as one, in which texts have one type; else the data.

    A batch has columns with names, but is an array to those who do not know of it. Each library
    that writes files has a type of text of its own: what a polars file calls ``large_string`` is
    ``string`` in one of pandas, and in CSV.
    """
    if type(data).__module__.partition(".")[0] != "pyarrow" or not hasattr(data, "to_struct_array"):
        return data
    import pyarrow as pa

    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_string_view(field.type):
            text = table.column(i).cast(pa.large_string())
            table = table.set_column(i, field.with_type(pa.large_string()), text)
    return table


def _list_or_array(items: list[Any]) -> Any:
    """Lists of numbers or of equally long rows of numbers become arrays; all others stay lists."""
    if any(isinstance(item, str | bytes | dict) for item in items):
        return items
    # Graphs, and pairs of edges and labels: NumPy would look for numbers inside each of them.
    first = items[0] if items and isinstance(items[0], tuple | list) else items[:1]
    if any(map(_is_collection, first)):
        return items
    try:
        array = np.asarray(items)
    except (TypeError, ValueError):
        return items
    return array if array.dtype.kind in "fiubc" else items


def _is_collection(item: Any) -> bool:
    """Whether an object has a length but no order, such as a graph: it is no row of numbers."""
    ordered = isinstance(item, Sequence) or hasattr(item, "__array__")
    return hasattr(item, "__len__") and not ordered


def own_copy(data: Any) -> Any:
    """A copy of a container; the objects of a list are shared.

    Arrays that cannot be written to are copied too: their owner can write to the same memory.
    """
    if isinstance(data, nw.DataFrame):
        # Tables of pyarrow cannot be written to, and have no copies.
        return data if data.implementation.is_pyarrow() else data.clone()
    return data.copy()


def guarded(data: Any) -> Any:
    """What a user's function is given: their own type, in which an array cannot be written to."""
    if isinstance(data, nw.DataFrame):
        return data.to_native()
    if isinstance(data, np.ndarray):
        data = data.view()
        data.flags.writeable = False
    return data


def select_columns(frame: Any, chosen: Array) -> Any:
    """Columns of a frame by position; a repeated one gets a name of its own."""
    if len(set(chosen.tolist())) == len(chosen):
        return frame[:, chosen.tolist()]
    taken: set[str] = set()
    series = []
    for column in chosen.tolist():
        name = given = str(frame.columns[column])
        while name in taken:
            name += "'"
        taken.add(name)
        series.append(nw.col(given).alias(name))
    return frame.select(*series)


def len_of(data: Any) -> int:
    """Number of rows of a container."""
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


def take(data: Any, rows: Any) -> Any:
    """Some rows of a container."""
    if isinstance(data, list):
        return data[rows] if isinstance(rows, slice) else [data[i] for i in rows]
    if isinstance(data, nw.DataFrame):
        # Not all libraries have slices with a step.
        plain = isinstance(rows, slice) and rows.step in (None, 1)
        return data[rows] if plain else data[np.arange(len(data))[rows]]
    return data[rows]


def join(parts: Sequence[Any]) -> Any:
    """The rows of several containers, one after another."""
    lists = [isinstance(part, list) for part in parts]
    frames = [isinstance(part, nw.DataFrame) for part in parts]
    if any(lists) != all(lists) or any(frames) != all(frames):
        kinds = sorted({_kind_of(part) for part in parts})
        raise DataError(
            f"rows cannot be joined: some are in {kinds[0]}, others in {kinds[-1]}; pass all data "
            "in the same kind of container."
        )
    if all(lists):
        return [item for part in parts for item in part]
    try:
        if all(frames):
            return nw.concat(list(parts), how="vertical")
        if any(sp.issparse(part) for part in parts):
            return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))
        return np.concatenate(list(parts))
    except Exception as error:  # each library has errors of its own for rows that do not match
        raise DataError(
            f"rows cannot be joined, because their columns differ ({error}); pass the same columns "
            "with the same types."
        ) from None


def _kind_of(data: Any) -> str:
    if isinstance(data, list):
        return "a list"
    return "a data frame" if isinstance(data, nw.DataFrame) else "an array"


def tabular(data: Any, owner: str) -> Any:
    """Data with columns: an array, a sparse matrix or a frame."""
    if isinstance(data, list):
        lengths = _row_lengths(data)
        if len(lengths) > 1:
            raise DataError(
                f"{owner}: the rows have different lengths (from {min(lengths)} to "
                f"{max(lengths)}), so they have no columns; pass rows of one length."
            )
        data = _table_of_objects(data, owner)
    if not isinstance(data, nw.DataFrame) and data.ndim != 2:
        raise DataError(
            f"{owner}: columns were selected from data of shape {data.shape}; .on(...) needs a "
            "table, so pass rows and columns."
        )
    return data


def _table_of_objects(data: list[Any], owner: str) -> Array:
    try:
        return np.asarray(data, dtype=object)
    except ValueError:
        raise DataError(
            f"{owner}: the rows are arrays of different shapes; pass rows of one length, or "
            "mercer.Blocks(...) if they are blocks of rows."
        ) from None


def _row_lengths(data: list[Any]) -> set[int]:
    """The numbers of entries of the rows of a list; a string is one entry."""
    return {len(row) if isinstance(row, list | tuple) else int(np.size(row)) for row in data}


def column_labels(data: Any) -> list[str]:
    """The labels of the columns of a table in messages: names, or else positions."""
    if isinstance(data, nw.DataFrame):
        return [repr(name) for name in data.columns]
    width = np.size(data[0]) if isinstance(data, list) else data.shape[-1]
    return [str(j) for j in range(width)]


def given_names(data: Any) -> tuple[str, ...] | None:
    """The column names of a data frame, if all of them are strings."""
    if not isinstance(data, nw.DataFrame):
        return None
    names = tuple(data.columns)
    return names if all(isinstance(name, str) for name in names) else None


def positions(columns: Sequence[Any], width: int, names: list[str] | None, owner: str) -> Array:
    """Turn indices, slices and names into column positions."""
    chosen: list[int] = []
    for column in columns:
        if isinstance(column, slice):
            chosen.extend(range(*column.indices(width)))
        elif isinstance(column, str):
            if names is None:
                raise DataError(
                    f"{owner}: column {column!r} was asked for by name, but the data have no "
                    "column names; pass a data frame, or select by position, as in .on(0)."
                )
            if column not in names:
                raise DataError(f"{owner}: {unknown_column(column, names)}")
            chosen.append(names.index(column))
        else:
            index = int(cast(int, column))
            if not -width <= index < width:
                raise IndexingError(
                    f"{owner}: column {index} was asked for, but the data have {width} columns; "
                    f"select among 0 to {width - 1} in .on(...)."
                )
            chosen.append(index % width)
    return np.array(chosen, dtype=np.intp)


def unknown_column(column: str, names: Sequence[str]) -> str:
    """The sentence for a column that is not there."""
    lower = {str(name).lower(): name for name in names}
    close = difflib.get_close_matches(column.lower(), list(lower), n=1)
    hint = f"; did you mean {lower[close[0]]!r}?" if close else "."
    shown = ", ".join(map(repr, list(names)[:20])) + (", ..." if len(names) > 20 else "")
    return f"column {column!r} is not in the data frame{hint} Its columns are {shown}."


def numeric_matrix(data: Any, owner: str) -> tuple[Any, tuple[str, ...] | None]:
    """Numeric columns of any container, and their names if there are any."""
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
            f"{data.shape}. Reshape your data either using array.reshape(-1, 1) if it has one "
            "column, or array.reshape(1, -1) if it is a single row."
        )
    if data.shape[0] == 0:
        raise DataError(
            f"Found array with 0 sample(s) (shape={data.shape}) while a minimum of 1 is required "
            f"by {owner}."
        )
    if data.shape[1] == 0:
        raise DataError(
            f"Found array with 0 feature(s) (shape={data.shape}) while a minimum of 1 is required "
            f"by {owner}."
        )
    if data.dtype.kind == "c":
        raise DataTypeError(f"Complex data not supported by {owner}: pass real numbers.")
    if data.dtype.kind in "mM":
        data = _days(data)
    if data.dtype.kind not in "fiub":
        raise DataTypeError(
            f"{owner} compares rows of numbers, got values of type {data.dtype}; use a kernel for "
            "that kind of data, such as Categorical() or Spectrum(k) for strings, or select "
            "columns with .on(...)."
        )
    if data.dtype in (np.float32, np.float64):
        return data
    return data.astype(np.float32 if data.dtype == np.float16 else np.float64)


def _numeric_frame(frame: Any, owner: str) -> tuple[Array, tuple[str, ...] | None]:
    vectors = _vectors_of(frame) if len(frame.columns) == 1 else None
    if vectors is not None:
        return vectors, None
    columns = []
    for name in frame.columns:
        column = frame.get_column(name)
        numbers = numbers_of(column)
        if numbers is None:
            held = _held(column)
            remedy = (
                f"give it a kernel of its own, such as Categorical().on({name!r}), select numeric "
                "columns with .on(...), or take mercer.table_kernel(X)"
            )
            raise DataTypeError(
                f"{owner} compares rows of numbers, but column {name!r} holds {held}; "
                f"{'pass real numbers' if 'complex' in held else remedy}."
            )
        columns.append(numbers)
    single = all(dtype == nw.Float32 for dtype in frame.schema.values())
    matrix = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    return matrix.astype(np.float32 if single else np.float64), tuple(map(str, frame.columns))


def _vectors_of(frame: Any) -> Array | None:
    """The rows of a single column of vectors of one length, such as fingerprints, or None."""
    column = frame.get_column(frame.columns[0])
    if column.dtype.is_numeric() or not all(
        np.ndim(item) == 1 for item in column.head(1).to_list()
    ):
        return None
    items = column.to_list()
    if not items or any(np.shape(item) != np.shape(items[0]) for item in items):
        return None
    matrix = np.asarray(items)
    return matrix.astype(np.float64) if matrix.dtype.kind in "fiub" else None


def numbers_of(column: Any) -> Array | None:
    """A column of a frame as numbers, or None if it holds anything else.

    Times are days since 1970, and durations days. Objects of Python count by what they are.
    """
    dtype = column.dtype
    if dtype == nw.Boolean:  # some are stored with missing values
        column = column.cast(nw.Float64)
    elif dtype in (nw.Object, nw.Unknown):
        return _numbers_of_objects(column.to_list())
    elif dtype in _TIMES:
        is_time = dtype != nw.Duration
        ticks = column.dt.timestamp("us") if is_time else column.dt.total_microseconds()
        return np.asarray(ticks.to_numpy(), dtype=np.float64) / _DAY
    elif not dtype.is_numeric():
        return None
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _numbers_of_objects(values: list[Any]) -> Array | None:
    """Real numbers, times or durations among objects of Python; None if there are others."""
    present = np.array([not is_missing(value) for value in values], dtype=bool)
    # A period of pandas is the time at which it begins.
    items = [getattr(v, "start_time", v) for v, there in zip(values, present, strict=True) if there]
    for kind in ((Real, Decimal), date, timedelta):
        if items and all(isinstance(v, kind) and not isinstance(v, bool) for v in items):
            numbers = np.full(len(values), np.nan)
            numbers[present] = [_number(item) for item in items]
            return numbers
    return None


def _number(item: Any) -> float:
    if isinstance(item, datetime):
        offset = item.utcoffset() or timedelta()
        item = item.replace(tzinfo=None) - datetime(1970, 1, 1) - offset
    elif isinstance(item, date):
        item = item - date(1970, 1, 1)
    return float(item / timedelta(days=1) if isinstance(item, timedelta) else item)


def _held(column: Any) -> str:
    """What a column holds, for a message: its type, or that of its objects."""
    if column.dtype not in (nw.Object, nw.Unknown):
        return str(column.dtype)
    kinds = {type(value).__name__ for value in column.to_list() if not is_missing(value)}
    return f"objects of type {' and '.join(sorted(kinds))}"


def _days(values: Array) -> Array:
    """Times of an array in days since 1970, or durations in days; NaN where they are missing."""
    ticks = values.astype(f"{values.dtype.kind}8[us]")
    return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / _DAY)


def _numeric_list(data: list[Any], owner: str) -> Array:
    if not data:
        raise DataError(
            f"Found array with 0 sample(s) while a minimum of 1 is required by {owner}."
        )
    if isinstance(data[0], str | bytes):
        raise DataTypeError(
            f"{owner} compares rows of numbers, got a list of {type(data[0]).__name__}; for "
            "strings use a string kernel such as Spectrum(k)."
        )
    lengths = _row_lengths(data)
    if len(lengths) > 1:
        raise DataError(
            f"{owner} compares rows of numbers, but the rows have different lengths (from "
            f"{min(lengths)} to {max(lengths)}); pass rows of one length."
        )
    return _table_of_objects(data, owner)


def _object_to_float(data: Array, owner: str) -> Array:
    missing = np.frompyfunc(is_missing, 1, 1)(data).astype(bool)
    try:
        return np.where(missing, np.nan, data).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner} compares rows of numbers, but a value could not be converted ({error}); use "
            "a kernel for that kind of data, such as Categorical() or Spectrum(k)."
        ) from None


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # comparisons with pandas.NA have no truth value
        return type(value).__name__ == "NAType"


def describe_nonfinite(values: Any, owner: str, label: Callable[[int], str]) -> str:
    """The sentence for NaN or infinity, with its place in the user's data."""
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
        f"Input X contains {kind} (first in row {row_number(row)}, column {label(int(column))}); "
        f"{owner} needs finite numbers. Impute or drop those rows, or use .standardized()."
    )


def object_columns(data: Any, owner: str) -> tuple[list[str], list[Array]]:
    """Columns of arbitrary values, each as an object array."""
    if isinstance(data, nw.DataFrame):
        names = list(map(str, data.columns))
        return names, [_objects(data.get_column(name).to_list()) for name in data.columns]
    if isinstance(data, list) and not (data and isinstance(data[0], list | tuple | np.ndarray)):
        return ["x0"], [_objects(data)]
    if sp.issparse(data):
        raise DataTypeError(
            f"{owner} needs dense columns, got a sparse matrix; call X.toarray() first."
        )
    array = tabular(data, owner) if isinstance(data, list) else data
    if array.ndim == 1:
        return ["x0"], [_objects(array.tolist())]
    if array.ndim != 2 or not array.shape[1]:
        raise DataError(
            f"{owner} needs rows and columns, got shape {array.shape}; pass a table, or a list of "
            "categories."
        )
    return [f"x{j}" for j in range(array.shape[1])], [
        _objects(array[:, j].tolist()) for j in range(array.shape[1])
    ]


def _objects(items: list[Any]) -> Array:
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def encode(column: Array, label: str, owner: str) -> tuple[list[Any], Array]:
    """The categories of a column, and the code of each row: -1 for a missing value."""
    values = column.tolist()
    kinds = {str if isinstance(v, str) else type(v) for v in values if not is_missing(v)}
    if len(kinds) > 1 and not all(issubclass(k, int | float | bool | np.number) for k in kinds):
        raise DataTypeError(
            f"{owner}: column {label} mixes {' and '.join(sorted(k.__name__ for k in kinds))}; "
            "use one type."
        )
    codes: dict[Any, int] = {}
    try:
        numbers = [-1 if is_missing(v) else codes.setdefault(v, len(codes)) for v in values]
    except TypeError:
        raise DataTypeError(
            f"{owner}: the values of column {label} cannot be compared; pass strings, integers or "
            "booleans."
        ) from None
    return list(codes), np.array(numbers, dtype=float)


def as_objects(data: Any, owner: str) -> list[Any]:
    """A list with one object per row, for structured kernels."""
    if isinstance(data, nw.DataFrame):
        if len(data.columns) == 1:
            return data.get_column(data.columns[0]).to_list()
        return list(data.iter_rows())
    if sp.issparse(data):
        raise DataTypeError(
            f"{owner} compares objects, got a sparse matrix; pass a list of objects, or "
            "X.toarray()."
        )
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 1:
        return list(data[:, 0].tolist())
    return list(data)
