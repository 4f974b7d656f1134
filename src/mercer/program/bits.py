"""Inner products of zeros and ones: numbers of common bits.

Rows of fingerprints are packed into words once, and compared 64 columns at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.program.expression import Diagonal, Expr, Slot, cached_on_root, substitute
from mercer.program.pairs import Pairs

#: Columns from which packed bits pay.
_COLUMNS = 64


def in_bits(root: Expr, slots: frozenset[Slot], pairs: Pairs) -> Expr:
    """The expression with common bits for inner products of those slots that are zeros and ones."""
    packed = frozenset(slot for slot in slots if _are_bits(slot, pairs))
    return _replaced(root, packed) if packed else root


def _are_bits(slot: Slot, pairs: Pairs) -> bool:
    """Whether the columns of a slot are many, and zeros and ones on both sides."""
    if slot.scale is not None or slot.centred:
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
def _replaced(root: Expr, packed: frozenset[Slot]) -> Expr:
    def rewrite(node: Expr) -> Expr | None:
        if isinstance(node.attr, Diagonal):
            body = rewrite(node.attr.body)
            return None if body is None else Expr(node.op, (), Diagonal(body))
        if node.op != "dot" or node.attr not in packed:
            return None
        return Expr("bit_dot", (), Slot(_bits_of(node.attr), bits=True))

    return substitute(root, rewrite)
