"""Inner products and distances of many columns, one slab of columns after another.

Few rows of very many columns do not fit any cache, and a packed copy of them takes longer to find
memory for than to compute with. A slab is packed, used and thrown away; its sums are added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.parallel import thread_count
from mercer.program.expression import DIFFERENCE, Coordinate, Expr, Slot, cached_on_root, substitute
from mercer.program.lower import lower
from mercer.program.pairs import Packing, Pairs, packing
from mercer.program.specialise import reads

#: Columns of the data from which slabs pay.
MANY_COLUMNS = 4096
#: The least number of columns of a slab.
_LEAST = 1024
#: Bytes of a packed slab of the larger side: a cache holds it.
_SLAB = 2**23
#: Bytes of the sums at most.
_SUMS = 2**26


@dataclass(frozen=True)
class Slabs:
    """An inner product or distance of the rows of one slot, as a matrix of numbers."""

    leaf: Expr
    dtype: np.dtype[Any]

    def block(self, pairs: Pairs) -> Array:
        """The matrix of all pairs."""
        slot = _slot(self.leaf)
        lowered = lower((self.leaf,))
        program = lowered.program, lowered.results[0], pairs.values.scalars(lowered.scalars)
        symmetric = pairs.rows is pairs.cols
        sides = [packing(slot, pairs, m, self.dtype) for m in pairs.matrices(slot.view)]
        step = max(_LEAST, _SLAB // (max(pairs.shape) * self.dtype.itemsize))
        sums, part = np.empty(pairs.shape, self.dtype), np.empty(pairs.shape, self.dtype)
        for first in range(0, sides[0].matrix.shape[1], step):
            columns = slice(first, first + step)
            b = _side(sides[1], columns)
            a = b if symmetric else _side(sides[0], columns)
            out = part if first else sums
            _core.gram(*program, a, b, [], out, symmetric, thread_count())
            if first:
                sums += part
        return sums


def _side(pack: Packing, columns: slice) -> Any:
    cut = [
        None if v is None else np.ascontiguousarray(v[columns]) for v in (pack.centre, pack.scale)
    ]
    part = replace(pack, matrix=pack.matrix[:, columns], centre=cut[0], scale=cut[1])
    return _core.Side(len(pack.matrix), [part()], [], None)


def in_slabs(root: Expr, pairs: Pairs, dtype: np.dtype[Any]) -> Expr:
    """The expression with a matrix in the place of each leaf of very many columns."""
    n, m = pairs.shape
    if n * m * dtype.itemsize > _SUMS:
        return root
    wide = frozenset(slot for slot in reads(root).slots if _is_wide(slot, pairs))
    return _replaced(root, wide, dtype) if wide else root


def _is_wide(slot: Slot, pairs: Pairs) -> bool:
    matrix = pairs.cols.matrix(slot.view)
    return slot.on_circle is None and matrix.shape[1] >= MANY_COLUMNS and type(matrix) is np.ndarray


@cached_on_root
def _replaced(root: Expr, wide: frozenset[Slot], dtype: np.dtype[Any]) -> Expr:
    def rewrite(node: Expr) -> Expr | None:
        if not _is_metric(node) or _slot(node) not in wide:
            return None
        return Expr("external", (), Slabs(node, dtype))

    return substitute(root, rewrite)


def _is_metric(node: Expr) -> bool:
    if isinstance(node.attr, Coordinate):
        return node.attr.degree == 1 and node.attr.body is abs(DIFFERENCE)
    return node.op in ("dot", "squared_distance")


def _slot(leaf: Expr) -> Slot:
    slot: Slot = leaf.attr.slot if isinstance(leaf.attr, Coordinate) else leaf.attr
    return slot
