"""Inner products of zeros and ones: numbers of common bits.

Rows of fingerprints are packed into words once, and compared 64 columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.parallel import thread_count
from mercer.program.expression import Diagonal, Expr, Slot, cached_on_root, substitute
from mercer.program.pairs import Pairs
from mercer.program.specialise import reads

#: Columns from which packed bits pay.
_COLUMNS = 64


@dataclass(frozen=True)
class BitProducts:
    """The inner products of rows of bits, as a matrix of numbers."""

    view: Any
    dtype: np.dtype[Any]

    def block(self, pairs: Pairs) -> Array:
        """The matrix of all pairs."""
        a, b = (np.ascontiguousarray(p.matrix(self.view)) for p in (pairs.rows, pairs.cols))
        out = np.empty(pairs.shape, self.dtype)
        _core.common_bits(a, b, out, thread_count())
        return out

    def diagonal(self, pairs: Pairs) -> Array:
        """The number of common bits of each pair."""
        a, b = pairs.rows.matrix(self.view), pairs.cols.matrix(self.view)
        return np.asarray(np.bitwise_count(a & b).sum(axis=1, dtype=float))


def in_bits(root: Expr, pairs: Pairs, dtype: np.dtype[Any]) -> Expr:
    """The expression with packed products in the place of inner products of bits."""
    packed = frozenset(slot for slot in reads(root).slots if _are_bits(slot, pairs))
    return _replaced(root, packed, dtype) if packed else root


def _are_bits(slot: Slot, pairs: Pairs) -> bool:
    """Whether the columns of a slot are many, and zeros and ones on both sides."""
    if slot.scale is not None or slot.centred or slot.on_circle is not None:
        return False
    matrices = pairs.matrices(slot.view)
    if any(type(m) is not np.ndarray or m.shape[1] < _COLUMNS for m in matrices):
        return False
    view = _bits_of(slot)
    sides = (pairs.cols,) if pairs.rows is pairs.cols else (pairs.cols, pairs.rows)
    return view is not None and all(side.matrix(view).shape[1] for side in sides)


def _bits_of(slot: Slot) -> Any:
    """The view of the same columns as bits."""
    view: Any = slot.view
    return view.bits


@cached_on_root
def _replaced(root: Expr, packed: frozenset[Slot], dtype: np.dtype[Any]) -> Expr:
    def rewrite(node: Expr) -> Expr | None:
        if isinstance(node.attr, Diagonal):
            body = rewrite(node.attr.body)
            return None if body is None else Expr(node.op, (), Diagonal(body))
        if node.op != "dot" or node.attr not in packed:
            return None
        return Expr("external", (), BitProducts(_bits_of(node.attr), dtype))

    return substitute(root, rewrite)
