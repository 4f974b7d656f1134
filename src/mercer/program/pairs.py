"""Pairs of points, as the executors see them.

`Pairs` joins two collections of points and the values of the parameters, and answers the questions
that leaves of an expression ask: the columns of a slot, the numbers of a vector leaf, whether two
rows are the same row. `bind` puts together what the engine reads of them for a lowered expression.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, ParameterError
from mercer.parallel import thread_count
from mercer.program.expression import Diagonal, Expr, PointFunction, Scale, Slot, walk
from mercer.program.operations import TABLE

if TYPE_CHECKING:
    from mercer.program.lower import Lowered


SINGLE: np.dtype[Any] = np.dtype(np.float32)
DOUBLE: np.dtype[Any] = np.dtype(np.float64)

#: The leaf of a dense matrix of weights, and the slot of the two factors of a low-rank one.
WEIGHTS = "weights"
FACTORS = Slot("factors")


_NO_SCALARS = np.empty(0)


class Values(dict[str, Any]):
    """The values of a kernel's parameters by path, and what has been computed from them alone."""

    def __init__(self, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(values)
        self._scalars: dict[Any, Array] = {}
        self._scales: dict[tuple[Scale, int], Array] = {}

    def scalars(self, expressions: tuple[Expr, ...]) -> Array:
        """The values of scalar expressions."""
        if not expressions:
            return _NO_SCALARS
        scalars = self._scalars.get(expressions)
        if scalars is None:
            scalars = self._scalars[expressions] = np.array(
                evaluate_scalars(expressions, self), dtype=float
            )
        return scalars

    def scale(self, scale: Scale, width: int) -> Array:
        """The factors of the columns of a slot."""
        factors = self._scales.get((scale, width))
        if factors is None:
            factors = self._scales[scale, width] = scale_values(scale, self, width)
        return factors


def reach_limit(slot: Slot) -> float:
    """How far from the centre numbers of a slot may lie in float32, after they are scaled.

    Differences are then right to 4e-6 in units of the length-scale. Without one the unit is not
    known; whole numbers, such as those of pixels, have exact differences far beyond.
    """
    if not slot.centred:
        return np.inf
    return 2.0**12 if slot.scale is None else 2.0**6


@dataclass(slots=True, eq=False)
class Pairs:
    """All pairs (row, column) of two collections, or with ``aligned`` the pairs (i, i).

    ``same`` says that both are rows of one collection, so that identity of rows has a meaning.
    """

    rows: Any
    cols: Any
    values: Values
    same: bool = False
    aligned: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.rows), len(self.cols)

    def diagonal(self) -> Pairs:
        """The pairs (i, i) of the i-th row with the i-th column."""
        if self.rows is self.cols and self.same:
            return Pairs(self.rows, self.rows, self.values, same=True, aligned=True)
        first = slice(0, min(self.shape))
        rows, cols = self.rows[first], self.cols[first]
        return Pairs(rows, cols, self.values, self.same, aligned=True)

    def transposed(self) -> Pairs:
        """The pairs with the two sides exchanged."""
        return Pairs(self.cols, self.rows, self.values, self.same, self.aligned)

    def block(self, rows: Any, cols: Any) -> Pairs:
        """The pairs of some rows with some columns."""
        if isinstance(rows, slice) and rows == slice(None):
            return Pairs(self.rows, self.cols[cols], self.values, self.same)
        return Pairs(self.rows[rows], self.cols[cols], self.values, self.same)

    def matrices(self, view: Hashable) -> tuple[Any, Any]:
        """The columns of a view on both sides, matched to each other."""
        if self.rows is self.cols:
            both = self.cols.matrix(view)
            return both, both
        return self.rows.matrix_like(view, self.cols), self.cols.matrix(view)

    def centre(self, slot: Slot) -> Array | None:
        """What is subtracted from both sides: distances do not change, cancellation goes away."""
        points = self.rows if self.within else self.cols
        return points.centre(slot.view) if slot.centred else None

    @property
    def within(self) -> bool:
        """Whether the columns are some of the rows: solvers take one such block after another."""
        return self.cols is not self.rows and self.cols.origin is self.rows

    def scale(self, slot: Slot, width: int) -> Array | None:
        """The factor of each column of a slot."""
        return None if slot.scale is None else self.values.scale(slot.scale, width)

    def is_spread(self, slot: Slot) -> bool:
        """Whether columns reach so far that distances in float32 would lose digits.

        Numbers are centred, scaled and rounded before their differences are taken.
        """
        points = (self.cols,) if self.rows is self.cols else (self.cols, self.rows)
        sparse = any(type(p.matrix(slot.view)) is not np.ndarray for p in points)
        if sparse or not slot.centred:
            return False
        self.matrices(slot.view)  # refuses columns that do not match
        with np.errstate(over="ignore"):
            reach = [np.abs(_ranges(p.origin, slot.view) - self.centre(slot)) for p in points]
            scale = self.scale(slot, reach[0].shape[1])
            scaled = [r if scale is None else r * scale for r in reach]
        return any(r.max(initial=0.0) > reach_limit(slot) for r in scaled)

    def on_circle(self, slot: Slot, matrix: Array) -> Array:
        """The columns of a periodic slot as points of the circle."""
        assert slot.on_circle is not None
        (frequency,) = self.values.scalars((slot.on_circle,))
        angles = 2.0 * frequency * (matrix - self.cols.centre(slot.view))
        radius = 0.5 * np.sqrt(self.values.scalars(slot.weights)) if slot.weights else 0.5
        return np.concatenate([np.cos(angles) * radius, np.sin(angles) * radius], axis=1)

    def is_sparse(self, slot: Slot) -> bool:
        """Whether the columns of a slot are stored as a sparse matrix."""
        return not isinstance(self.cols.matrix(slot.view), np.ndarray)

    def vectors(self, sources: Sequence[Any], points: Any) -> list[Array]:
        """The numbers of vector leaves at the given points."""
        from mercer.program.reference import evaluate_all

        # Diagonals of nested kernels have much in common.
        bodies = {s: s.body for s in sources if isinstance(s, Diagonal)}
        pairs = Pairs(points, points, self.values, same=True, aligned=True)
        diagonals = dict(zip(bodies, evaluate_all(tuple(bodies.values()), pairs), strict=True))
        return [
            points.function_values(source.view, source.function)
            if isinstance(source, PointFunction)
            else diagonals[source]
            for source in sources
        ]


def _ranges(points: Any, view: Hashable) -> Array:
    """The least and the largest value of each column of a view, computed once."""
    ranges: Array | None = points.packs.get((_ranges, view))
    if ranges is None:
        matrix = points.matrix(view)
        floats = matrix if matrix.dtype in (SINGLE, DOUBLE) else matrix.astype(DOUBLE)
        ranges = points.packs[_ranges, view] = _core.ranges(floats)
    return ranges


def evaluate_scalars(roots: tuple[Expr, ...], values: Mapping[str, Any]) -> list[float]:
    """Evaluate scalar expressions at given parameter values."""
    known: dict[Expr, float] = {}
    with np.errstate(all="ignore"):
        for node in walk(roots):
            if node.op == "const":
                known[node] = node.attr
            elif node.op == "param":
                path, index = node.attr
                value = values[path]
                known[node] = float(np.asarray(value)[index] if index else value)
            elif node.op in ("lookup", "lookup_slope"):
                table = node.attr if node.op == "lookup" else node.attr.slope
                known[node] = float(table(np.array([known[node.args[0]]]))[0])
            else:
                known[node] = float(TABLE[node.op].value(*map(known.__getitem__, node.args)))
    return list(map(known.__getitem__, roots))


def scale_values(scale: Scale, values: Values, width: int) -> Array:
    """Evaluate ``factor * value ** power`` for every column."""
    value = np.asarray(values[scale.path], dtype=float)
    if scale.row is not None:
        value = value[scale.row]
    if value.ndim and value.shape[0] != width:
        raise ParameterError(
            f"{scale.path} has {value.shape[0]} values but the kernel sees {width} columns; "
            f"pass one number, or one for each of the {width} columns."
        )
    with np.errstate(over="ignore"):  # data that leave the range with it are refused when packed
        return np.asarray(np.broadcast_to(scale.factor * value**scale.power, (width,)))


def bind(
    lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], weights: Any = None
) -> tuple[Array, Any, Any, list[Array]]:
    """Return scalars, the two sides and the blocks, in the order the engine takes them."""
    scalars = pairs.values.scalars(lowered.scalars)
    slots = [_panels(slot, pairs, dtype, weights) for slot in lowered.slots]
    cols = _side(pairs.cols, [b for _, b in slots], lowered, pairs, dtype)
    # Low-rank weights have different factors on the two sides even of one collection.
    if pairs.rows is pairs.cols and FACTORS not in lowered.tables.slots:
        rows = cols
    else:
        rows = _side(pairs.rows, [a for a, _ in slots], lowered, pairs, dtype)
    blocks = [
        np.ascontiguousarray(weights if b == WEIGHTS else b.block(pairs), dtype)
        for b in lowered.blocks
    ]
    return scalars, rows, cols, blocks


def _side(
    points: Any, slots: list[Any], lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any]
) -> Any:
    return _core.Side(len(points), slots, *marks(points, lowered, pairs, dtype))


def marks(
    points: Any, lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any]
) -> tuple[list[Array], Array | None]:
    """What the engine reads of each point beside its columns: numbers, and which row it is."""
    vectors: list[Array] = []
    if lowered.vectors:
        vectors = [np.ascontiguousarray(v, dtype) for v in pairs.vectors(lowered.vectors, points)]
    return vectors, points.ids if pairs.same and lowered.compares_rows else None


def _panels(slot: Slot, pairs: Pairs, dtype: np.dtype[Any], weights: Any) -> tuple[Any, Any]:
    """Both sides of a slot as the engine stores them, from the points' cache where they are."""
    if slot is FACTORS:
        return tuple(Packing(np.asarray(w), None, None, dtype, slot)() for w in weights)
    if pairs.rows is pairs.cols:
        both = _packed(pairs.cols, slot, packing(slot, pairs, pairs.cols.matrix(slot.view), dtype))
        return both, both
    a, b = (packing(slot, pairs, matrix, dtype) for matrix in pairs.matrices(slot.view))
    if pairs.within:
        return _packed(pairs.rows, slot, a), b()
    return a(), _packed(pairs.cols, slot, b)


def packing(slot: Slot, pairs: Pairs, matrix: Any, dtype: np.dtype[Any]) -> Packing:
    """How the columns of a slot are packed, for either side of the pairs."""
    if slot.bits:
        return Packing(matrix, None, None, dtype, slot)
    if slot.on_circle is not None:
        return Packing(pairs.on_circle(slot, matrix), None, None, dtype, slot)
    if matrix.dtype not in (SINGLE, DOUBLE):
        matrix = matrix.astype(DOUBLE)
    scale = pairs.scale(slot, matrix.shape[1])
    return Packing(matrix, pairs.centre(slot), scale, dtype, slot)


def _packed(points: Any, slot: Slot, pack: Packing) -> Any:
    """Pack points around their own centre once: they are compared with others again and again."""
    if slot.on_circle is not None:  # depends on a parameter
        return pack()
    key = (None if pack.scale is None else pack.scale.tobytes(), pack.dtype)
    known = points.packs.get(slot)
    if known is None or known[0] != key:
        known = points.packs[slot] = (key, pack())
    return known[1]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Numbers of points on their way to the engine: (x - centre) * scale, in some type."""

    matrix: Any
    centre: Array | None
    scale: Array | None
    dtype: np.dtype[Any]
    slot: Slot

    def __call__(self, rows: Array | None = None) -> Any:
        """Pack all rows, or those at some positions."""
        if not isinstance(self.matrix, np.ndarray):
            return self._sparse(rows)
        single = self.dtype == SINGLE
        if self.slot.bits:
            return _core.bit_panels(np.ascontiguousarray(self.matrix), single, rows)
        try:
            return _core.pack(self.matrix, self.centre, self.scale, single, rows, thread_count())
        except OverflowError:
            hint = "" if self.scale is None else " (a larger length_scale does so)"
            raise _overflow(self._subject(), self.dtype, f"rescale them{hint}") from None

    def _subject(self) -> str:
        if self.slot is FACTORS:
            return "Gram: the weights"
        what = "the data" if self.slot.scale is None else "the data divided by their length-scale"
        return f"{getattr(self.slot.view, 'owner', 'the kernel')}: {what}"

    def _sparse(self, rows: Array | None) -> Any:
        matrix = self.matrix if rows is None else self.matrix[rows]
        values = matrix.data if self.scale is None else matrix.data * self.scale[matrix.indices]
        indptr, indices = (
            np.ascontiguousarray(i, np.int64) for i in (matrix.indptr, matrix.indices)
        )
        return indptr, indices, np.ascontiguousarray(values, self.dtype), matrix.shape[1]


def _overflow(subject: str, dtype: np.dtype[Any], remedy: str) -> DataError:
    wider = ", or pass float64 data" if dtype == SINGLE else ""
    return DataError(f"{subject} exceed the range of {dtype}; {remedy}{wider}.")


def right_hand_sides(vectors: Array, dtype: np.dtype[Any]) -> Array:
    """The vectors that a matrix is multiplied with, in the type that the engine computes in."""
    with np.errstate(over="ignore"):  # refused below
        converted = np.ascontiguousarray(vectors, dtype)
    if converted.dtype.itemsize < vectors.dtype.itemsize and np.isinf(converted).any():
        raise _overflow("Gram @ V: entries of V", dtype, "rescale V")
    return converted
