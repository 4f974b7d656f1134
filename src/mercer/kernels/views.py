"""Views: what a leaf kernel reads of the data.

Kernels, not estimators, say what data may be. A leaf kernel reads the data through a `View`: steps
that select or warp columns, then a reader that turns the rest into numbers (`Numbers`), categories
(`Codes`), explicit features (`Features`) or nothing at all (`Objects`). Composition needs no
special case: each leaf has its own view of the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, NotDifferentiableError
from mercer.kernels.containers import (
    as_objects,
    column_labels,
    describe_nonfinite,
    encode,
    given_names,
    guarded,
    ingest,
    len_of,
    numeric_matrix,
    object_columns,
    positions,
    select_columns,
    tabular,
)
from mercer.kernels.heuristics import Levels, Spread, Summary
from mercer.parallel import thread_count
from mercer.program.expression import Interned, hash_of


@dataclass(eq=False)
class Columns:
    """Numbers in columns. Columns with ``keys`` are matched by key, all others by position.

    ``names`` may be a function that makes them when they are asked for: features can be many.
    ``given`` are the names of a data frame: columns that are matched must have the same.
    """

    values: Any
    keys: Array | None = None
    names: tuple[str, ...] | Callable[[], Sequence[str]] | None = None
    given: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names, or f0, f1, ... where there are none."""
        names = self.names() if callable(self.names) else self.names
        return tuple(names or (f"f{j}" for j in range(self.width)))

    def take(self, rows: Any) -> Columns:
        by_number = isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"
        if by_number and isinstance(self.values, np.ndarray):
            values = self.values.take(rows, axis=0)  # twice as fast as indexing
        else:
            values = self.values[rows]
        return Columns(values, self.keys, self.names, self.given)

    def spread(self, weight: Array | None) -> Summary:
        """What rules of thumb need to know of the columns."""
        return Spread.of(self.values, weight)

    def like(self, reference: Columns) -> Any:
        """These values in the columns of another collection, sparse or dense as it is."""
        if self.keys is None or reference.keys is None:
            if type(self.values) is type(reference.values):
                return self.values
            return self.values.toarray() if sp.issparse(self.values) else sp.csr_array(self.values)
        if self.keys is reference.keys:
            return self.values
        # Features that the other side never shows cannot contribute to a product with it.
        known = np.flatnonzero(np.isin(self.keys, reference.keys))
        places = np.searchsorted(reference.keys, self.keys[known])
        shape = (self.width, reference.width)
        pick = sp.csr_array((np.ones(len(known)), (known, places)), shape=shape)
        return sp.csr_array(self.values @ pick).astype(self.values.dtype)


@dataclass(eq=False)
class Coded(Columns):
    """Categories as codes from 0, with the category of each code by column; -1 for missing ones."""

    categories: tuple[list[Any], ...] = ()
    owner: str = "Categorical"

    def take(self, rows: Any) -> Coded:
        return replace(self, values=self.values[rows])

    def spread(self, weight: Array | None) -> Levels:
        counts = []
        for j, levels in enumerate(self.categories):
            codes = self.values[:, j].astype(np.intp) + 1
            count = np.bincount(codes, weight, len(levels) + 1)
            counts.append(dict(zip([None, *levels], count.tolist(), strict=True)))
        return Levels(tuple(counts))

    def like(self, reference: Columns) -> Any:
        """These categories in the codes of another collection."""
        assert isinstance(reference, Coded)
        values = super().like(reference)
        if self.categories is reference.categories:
            return values
        columns = []
        for j, (own, other) in enumerate(zip(self.categories, reference.categories, strict=True)):
            self._require_one_type(j, own, other)
            columns.append(_recode(values[:, j].astype(np.intp), own, other))
        return np.stack(columns, axis=1)

    def _require_one_type(self, column: int, own: list[Any], other: list[Any]) -> None:
        """Refuse strings beside numbers: all of them would be different."""
        if own and other and isinstance(own[0], str) != isinstance(other[0], str):
            raise DataTypeError(
                f"{self.owner}: column {self.feature_names[column]!r} holds "
                f"{type(own[0]).__name__} such as {own[0]!r}, and on the other side "
                f"{type(other[0]).__name__} such as {other[0]!r}; use one type."
            )


def _recode(codes: Array, own: list[Any], other: list[Any]) -> Array:
    """Codes of the same categories in another list; what that list lacks gets codes beyond it."""
    known = {level: code for code, level in enumerate(other)}
    table = [known.get(level, len(other) + code) for code, level in enumerate(own)]
    return np.array([*table, -1.0])[codes]


#: What the engine reads; other byte orders and widths are converted.
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


@dataclass(frozen=True)
class Numbers:
    """Numeric columns: arrays, sparse rows, data frames, nested lists; finite."""

    owner: str = "the kernel"
    sparse: bool = True
    holes: bool = False  # whether missing values (NaN) are taken

    def read(self, data: Any, label: Callable[[int], str] = str) -> Columns:
        if type(data) is np.ndarray and data.ndim == 2 and data.dtype in _FLOATS and data.size:
            values, names = data, None
        else:
            values, names = numeric_matrix(data, self.owner)
        if type(values) is np.ndarray and not values.flags.aligned:  # a field of packed records
            values = values.copy()
        stored = values if type(values) is np.ndarray else self._stored_values(values)
        if not _core.all_finite(stored) and not (self.holes and not np.isinf(stored).any()):
            raise DataError(describe_nonfinite(values, self.owner, label))
        return Columns(values, names=names, given=names and given_names(data))

    def _stored_values(self, matrix: Any) -> Array:
        """The values that a sparse matrix stores, if sparse rows are taken at all."""
        if not self.sparse:
            raise DataTypeError(
                f"{self.owner} needs dense columns, got a sparse matrix; call X.toarray() first, "
                "or use a dot-product or RBF-type kernel, which keep sparse data sparse."
            )
        return np.asarray(matrix.data)


@dataclass(frozen=True)
class Codes:
    """Categories of any kind (strings, integers, booleans), encoded column by column."""

    owner: str = "Categorical"
    presence: bool = False  # whether only missing values are told from others

    def read(self, data: Any, label: Callable[[int], str] = str) -> Columns:
        names, columns = object_columns(data, self.owner)
        codes, categories = [], []
        for j, column in enumerate(columns):
            levels, code = encode(column, label(j), self.owner)
            if self.presence:
                levels, code = [True], np.minimum(code, 0.0)
            codes.append(code)
            categories.append(levels)
        return Coded(
            np.stack(codes, axis=1),
            names=tuple(names),
            given=given_names(data),
            categories=tuple(categories),
            owner=self.owner,
        )


@dataclass(frozen=True)
class Features:
    """The explicit features of a structured kernel; columns that no row shows are left out."""

    kernel: Any

    @property
    def owner(self) -> str:
        return type(self.kernel).__name__

    def read(self, data: Any, label: Callable[[int], str] = str) -> Columns:
        objects = as_objects(data, self.owner)
        features = self.kernel.features(objects)
        matrix, keys = features if isinstance(features, tuple) else (features, None)
        matrix = sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[0] != len(objects):
            raise DataError(
                f"{self.owner}.features returned shape {matrix.shape} for {len(objects)} objects; "
                "it must return one row for each."
            )
        if matrix.dtype.kind not in "fiub":
            raise DataTypeError(
                f"{self.owner}.features returned values of type {matrix.dtype}; it must return "
                "real numbers."
            )
        matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(float)
        if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
            raise DataError(
                f"{self.owner}.features returned NaN or infinity; it must return finite numbers."
            )
        if keys is None:
            return Columns(matrix)
        keys = np.asarray(keys)
        if not (keys[:-1] <= keys[1:]).all():
            order = np.argsort(keys)
            matrix, keys = sp.csr_array(sp.csc_array(matrix)[:, order]), keys[order]
        return Columns(matrix, keys=keys, names=lambda: tuple(map(str, keys)))


@dataclass(frozen=True)
class Bits:
    """Zeros and ones of a reader of numbers, packed; no columns where there are other numbers."""

    numbers: Numbers

    @property
    def owner(self) -> str:
        return self.numbers.owner

    def read(self, data: Any, label: Callable[[int], str] = str) -> Columns:
        values = self.numbers.read(data, label).values
        bits = _core.pack_bits(values, thread_count()) if type(values) is np.ndarray else None
        return Columns(np.empty((values.shape[0], 0), np.uint64) if bits is None else bits)


@dataclass(frozen=True)
class Objects:
    """The data as they are: for kernels that compare objects in Python."""

    owner: str = "the kernel"

    def read(self, data: Any, label: Callable[[int], str] = str) -> Columns:
        """Refuse: there are no columns."""
        raise DataTypeError(
            f"{self.owner} compares objects, which have no numeric columns; use a kernel of "
            "numbers."
        )


@dataclass(frozen=True)
class Select:
    """Keep some columns, by position, slice or (data frames) by name."""

    columns: tuple[Hashable, ...]

    def __call__(self, data: Any, owner: str) -> Any:
        data = tabular(data, owner)
        chosen = self._positions(data, owner)
        if not len(chosen):
            raise DataError(
                f"{owner}: .on{self.columns} selects none of the {data.shape[1]} columns; select "
                "at least one."
            )
        return select_columns(data, chosen) if isinstance(data, nw.DataFrame) else data[:, chosen]

    def _positions(self, data: Any, owner: str) -> Array:
        names = data.columns if isinstance(data, nw.DataFrame) else None
        return positions(self.columns, data.shape[1], names, owner)

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        total = np.zeros((len(cotangent), data.shape[1]))
        # A column may be selected twice, so this has to add, not assign.
        for j, position in enumerate(self._positions(data, "the gradient in the inputs")):
            total[:, position] += cotangent[:, j]
        return total

    def __hash__(self) -> int:
        return hash(tuple(str(c) for c in self.columns))


@dataclass(frozen=True)
class Warp:
    """Replace the data by a function of them."""

    function: Callable[[Any], Any]

    def __hash__(self) -> int:
        return hash((Warp, hash_of(self.function)))

    def __call__(self, data: Any, owner: str) -> Any:
        native = guarded(data)
        result = self.function(native)
        try:
            warped = ingest(result, f"{owner}.warp")
        except DataTypeError:
            raise DataTypeError(
                f"{owner}.warp: {self.function!r} returned {result!r:.60}, which has no rows; "
                "it must return a table with one row for each row."
            ) from None
        if len_of(warped) != len_of(native):
            raise DataError(
                f"{owner}.warp: {self.function!r} returned {len_of(warped)} rows for "
                f"{len_of(native)}; it must map each row to one row."
            )
        return warped

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        raise NotDifferentiableError(
            "the gradient in the inputs stops at warp(...): the derivative of its function is not "
            "known. Warp the data before the kernel sees them."
        )


@dataclass(frozen=True)
class Standardise:
    """Subtract a centre from each column and divide it by a scale; a missing number is the centre.

    Without centres and scales, those of the data at hand.
    """

    centre: tuple[float, ...] | None
    scale: tuple[float, ...] | None

    def __call__(self, data: Any, owner: str) -> Any:
        values = Numbers(owner, sparse=False, holes=True).read(tabular(data, owner)).values
        if self.centre is None or self.scale is None:
            spread = Spread.of(values, None)
            centre, scale = spread.means, np.where(spread.varies, spread.deviations, 1.0)
        else:
            centre, scale = np.array(self.centre), np.array(self.scale)
        if len(np.atleast_1d(scale)) not in (1, values.shape[1]):
            raise DataError(
                f"{owner} was standardised with {len(scale)} columns, and X has "
                f"{values.shape[1]} of them; pass the same columns."
            )
        standard = ((values - centre) / scale).astype(values.dtype)
        return np.where(np.isnan(standard), standard.dtype.type(0), standard)

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        values, _ = numeric_matrix(data, "the gradient in the inputs")
        return np.where(np.isnan(values), 0.0, cotangent / np.array(self.scale))


@dataclass(frozen=True)
class UnitRows:
    """Divide each row by its Euclidean length; a zero row stays zero."""

    def __call__(self, data: Any, owner: str) -> Any:
        values, _ = numeric_matrix(data, owner)
        if sp.issparse(values):
            raise DataTypeError(
                f"{owner} needs dense columns, got a sparse matrix; call X.toarray() first."
            )
        return self._scaled(values)[0]

    @staticmethod
    def _scaled(values: Array) -> tuple[Array, Array]:
        """The rows divided by their lengths, and the lengths (1 for a row of zeros)."""
        # Dividing by the largest entry first keeps huge and tiny rows representable.
        largest = np.abs(values).max(axis=1, keepdims=True)
        # A row with NaN or infinity goes on as it is, so that the reader finds it in its place.
        largest = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
        scaled = values / largest
        length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
        length = np.where(np.isfinite(length) & (length > 0), length, 1.0)
        return scaled / length, largest * length

    def pull_back(self, data: Any, cotangent: Array) -> Array:
        values, _ = numeric_matrix(data, "the angle between rows")
        unit, length = self._scaled(values)
        across = cotangent - unit * (unit * cotangent).sum(axis=1, keepdims=True)
        # A row of zeros has no direction.
        return np.asarray(np.where(unit.any(axis=1, keepdims=True), across / length, 0.0))


@dataclass(frozen=True, eq=False)
class View:
    """Steps from the user's data to what one leaf kernel reads, and the reader of the rest.

    A reader turns data into `Columns`; it is told which of the user's columns each of them is.
    Views are keys of every cache of `Points`, so equal ones are one object, found by identity: make
    them with `then` and `read_by`, starting from `EVERYTHING`.
    """

    steps: tuple[Any, ...]
    reader: Any

    @property
    def owner(self) -> str:
        """Who reads: errors are in its name."""
        return str(self.reader.owner)

    def column_names(self, width: int) -> tuple[str, ...]:
        """Names of the columns of an array seen through this view: by position in the array."""
        names = [f"x{j}" for j in range(width)]
        for step in self.steps:
            if not isinstance(step, Select):
                return ()
            names = [names[j] for j in positions(step.columns, len(names), None, self.owner)]
        return tuple(names)

    def apply(self, data: Any) -> Any:
        """The data after all steps."""
        for step in self.steps:
            data = step(data, self.owner)
        return data

    def read(self, data: Any) -> Columns:
        """The columns that the reader finds in the data."""
        seen = self.apply(data) if self.steps else data
        warped = bool(self.steps) and isinstance(self.steps[-1], Warp)
        if warped and np.ndim(seen) == 1 and isinstance(self.reader, Numbers):
            raise DataError(
                f"{self.owner}.warp: the function returned an array of shape {np.shape(seen)}; it "
                "must return a table, such as values[:, None] for one column."
            )
        columns: Columns = self.reader.read(seen, lambda j: self._label(data, j))
        return columns

    def _label(self, data: Any, column: int) -> str:
        """What to call a column of this view in the user's own data."""
        labels = column_labels(data)
        for step in self.steps:
            if isinstance(step, Select):
                labels = [labels[j] for j in step._positions(tabular(data, self.owner), self.owner)]
            data = step(data, self.owner)
            if isinstance(step, Warp):
                labels = [f"{label} of what warp(...) returned" for label in column_labels(data)]
        return labels[column]

    @property
    def bits(self) -> View | None:
        """The view of the same numbers as bits; None for what is no view of numbers."""
        return self.read_by(Bits(self.reader)) if isinstance(self.reader, Numbers) else None

    def then(self, step: Any) -> View:
        """The view with one more step."""
        return self.read_by(self.reader, step)

    def read_by(self, reader: Any, *more: Any) -> View:
        """The view of these steps, and perhaps one more, with another reader."""
        steps = (*self.steps, *more)
        key = hash((steps, reader))
        for reference in _views.alike.get(key, ()):
            view = reference()
            if view is not None and view.steps == steps and view.reader == reader:
                return view
        return _views.add(key, View(steps, reader))


_views: Interned[View] = Interned()

#: All of the data, as they came.
EVERYTHING = View((), Numbers()).read_by(Numbers())
