"""Repeated blocks and products of the matrix of one collection of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.parallel import cached_property, thread_count
from mercer.program.expression import Expr
from mercer.program.lower import lower
from mercer.program.pairs import Pairs, bind, marks, packing, right_hand_sides
from mercer.program.specialise import specialise

Positions = NDArray[np.int64]


class Parts:
    """Blocks and products of a symmetric matrix, each of some rows.

    The program, the columns and their centre are prepared once, and not for each block, which saves
    about a tenth of iterations of ten milliseconds.
    """

    def __init__(self, root: Expr, pairs: Pairs, *, narrow: bool = False) -> None:
        root, self.dtype, _ = specialise(root, pairs, narrow=narrow)
        self._lowered, self._pairs = lower((root,)), pairs
        self._scalars = pairs.values.scalars(self._lowered.scalars)
        self._vectors, self._ids = marks(pairs.cols, self._lowered, pairs, self.dtype)
        self._packings = [
            packing(slot, pairs, pairs.cols.matrix(slot.view), self.dtype)
            for slot in self._lowered.slots
        ]

    @cached_property
    def everything(self) -> Any:
        """All points, packed once; a DataError if they overflow in this object's type."""
        return bind(self._lowered, self._pairs, self.dtype)[1]

    def fill(self, out: Array, rows: Positions) -> None:
        """Write the values of the pairs of some rows, in this object's type."""
        side = self._side(rows)
        _core.gram(*self._program(), side, side, [], out, True, thread_count())

    def product(self, rows: Positions, factors: Array, at: Positions | None = None) -> Array:
        """The sum of some rows, each times its factor."""
        left = self.everything if at is None else self._side(at)
        right = right_hand_sides(factors.reshape(-1, 1), self.dtype)
        product: Array = _core.product(
            *self._program(), left, self._side(rows), [], right, thread_count()
        )
        return product[:, 0]

    def products(self, tasks: Sequence[tuple[Positions, Array, Positions]]) -> list[Array]:
        """The sums of some rows, each times its factor, at some columns; for each task.

        Threads share the tasks, which are too small to be shared themselves.
        """
        sides = []
        for rows, factors, at in tasks:
            side = self._side(rows)
            left = side if np.array_equal(rows, at) else self._side(at)
            sides.append((left, side, np.ascontiguousarray(factors, np.float64)))
        return _core.products(*self._program(), sides, thread_count())

    def _program(self) -> tuple[Any, int, Array]:
        return self._lowered.program, self._lowered.results[0], self._scalars

    def _side(self, rows: Positions) -> Any:
        slots = [pack(rows) for pack in self._packings]
        ids = None if self._ids is None else self._ids[rows]
        return _core.Side(len(rows), slots, [v[rows] for v in self._vectors], ids)
