"""Binding a lowered expression to the data at hand: what the native code reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import _core
from mercer.exceptions import DataError
from mercer.program.expression import Slot
from mercer.program.lower import Lowered
from mercer.program.pairs import Array, Pairs
from mercer.program.specialise import DOUBLE, FACTORS, SINGLE, WEIGHTS


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
    vectors = [np.ascontiguousarray(pairs.vector(v, points), dtype) for v in lowered.vectors]
    return vectors, points.ids if pairs.same and lowered.compares_rows else None


def _panels(slot: Slot, pairs: Pairs, dtype: np.dtype[Any], weights: Any) -> tuple[Any, Any]:
    """Both sides of a slot as the engine stores them, from the points' cache where they are."""
    if slot is FACTORS:
        subject = "Gram: the weights"
        return tuple(Packing(np.asarray(w), None, None, dtype, subject)() for w in weights)
    if pairs.rows is pairs.cols:
        both = _packed(pairs.cols, slot, packing(slot, pairs, pairs.cols.matrix(slot.view), dtype))
        return both, both
    a, b = (packing(slot, pairs, matrix, dtype) for matrix in pairs.matrices(slot.view))
    if pairs.within:
        return _packed(pairs.rows, slot, a), b()
    return a(), _packed(pairs.cols, slot, b)


def packing(slot: Slot, pairs: Pairs, matrix: Any, dtype: np.dtype[Any]) -> Packing:
    """How the columns of a slot are packed, for either side of the pairs."""
    what = "the data" if slot.scale is None else "the data divided by their length-scale"
    subject = f"{getattr(slot.view, 'owner', 'the kernel')}: {what}"
    if slot.on_circle is not None:
        return Packing(pairs.on_circle(slot, matrix), None, None, dtype, subject)
    if matrix.dtype not in (SINGLE, DOUBLE):
        matrix = matrix.astype(DOUBLE)
    scale = pairs.scale(slot, matrix.shape[1])
    return Packing(matrix, pairs.centre(slot), scale, dtype, subject)


def _packed(points: Any, slot: Slot, pack: Packing) -> Any:
    """Pack points around their own centre once: they are compared with others again and again."""
    if slot.on_circle is not None:  # depends on a parameter
        return pack()
    key = (None if pack.scale is None else pack.scale.tobytes(), pack.dtype)
    found = points.packs.get(slot)
    if found is None or found[0] != key:
        found = points.packs[slot] = (key, pack())
    return found[1]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Numbers of points on their way to the engine: (x - centre) * scale, in some type.

    Errors call them by their `subject`.
    """

    matrix: Any
    centre: Array | None
    scale: Array | None
    dtype: np.dtype[Any]
    subject: str

    def __call__(self, rows: Array | None = None) -> Any:
        """Pack all rows, or those at some positions."""
        return self._dense(rows) if isinstance(self.matrix, np.ndarray) else self._sparse(rows)

    def _dense(self, rows: Array | None) -> Any:
        try:
            return _core.pack(self.matrix, self.centre, self.scale, self.dtype == SINGLE, rows)
        except OverflowError:
            hint = "" if self.scale is None else " (a larger length_scale does so)"
            raise _overflow(self.subject, self.dtype, f"rescale them{hint}") from None

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
    """What a matrix is multiplied with, in the type that the engine computes in."""
    with np.errstate(over="ignore"):  # found below
        converted = np.ascontiguousarray(vectors, dtype)
    if converted.dtype.itemsize < vectors.dtype.itemsize and np.isinf(converted).any():
        raise _overflow("Gram @ V: entries of V", dtype, "rescale V")
    return converted
