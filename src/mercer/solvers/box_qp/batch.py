"""Many small programmes with boxes and sums of one matrix, solved in one call of the engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.parallel import thread_count
from mercer.solvers.box_qp.certificates import Certificates
from mercer.solvers.box_qp.problem import Array, Positions, StoredMatrix
from mercer.solvers.box_qp.programmes import BoxProgrammes, BoxSolutions
from mercer.solvers.box_qp.smo import exchanges_allowed


class Batch:
    """Programmes side by side."""

    def __init__(
        self,
        programmes: BoxProgrammes,
        matrix: StoredMatrix,
        places: Positions | None = None,
        near: Array | None = None,
    ) -> None:
        self._matrix = matrix
        self._programmes, self._whole = programmes, programmes.variables
        self._rows = self._whole.rows if places is None else places[self._whole.rows]
        start = self._whole.start if near is None else programmes.feasible(near)
        self._up, self._down = self._whole.upper - start, start - self._whole.lower
        self._coefficients, self._products = np.empty(len(start)), np.empty(len(start))
        self._steps = np.zeros(len(programmes.sizes), np.int64)
        self._tolerances = np.zeros(len(programmes.sizes))
        self._limit = 0

    @property
    def is_ordinary(self) -> bool:
        """Whether boxes are finite and variables need no other unit."""
        return self._whole.is_bounded and self._whole.unit == 1

    @property
    def is_exhausted(self) -> NDArray[np.bool_]:
        """Whether problems have had all the exchanges that are allowed."""
        return np.asarray(self._steps >= self._limit)

    def solve(self, *, tol: float | Array, max_iter: int | None = None) -> None:
        """Exchange until no violation is above the tolerance, as far as that is reached."""
        self._tolerances[:] = tol
        self._limit = exchanges_allowed(max_iter, int(self._programmes.sizes.max()))
        try:
            self._exchange(self._limit)
        except KeyboardInterrupt:
            self._exchange(0)  # how far all came by then
            raise

    def _exchange(self, limit: int) -> None:
        programmes = self._programmes
        _core.smo_batch(
            self._matrix.values,
            programmes.edges,
            programmes.sizes if programmes.firsts is None else programmes.firsts,
            self._rows,
            self._whole.linear,
            self._whole.lower,
            self._whole.upper,
            self._up,
            self._down,
            self._coefficients,
            self._products,
            self._steps,
            self._matrix.has_single,
            self._tolerances,
            limit,
            thread_count(),
        )

    def solutions(self) -> BoxSolutions:
        """The solutions as they are."""
        found = Certificates(
            self._whole.linear,
            self._coefficients,
            self._products,
            self._up,
            self._down,
            self._programmes.groups,
        )
        return BoxSolutions(
            self._programmes.sizes,
            self._coefficients,
            self._products,
            found.levels,
            found.squared_norms,
            found.objectives,
            found.gaps,
            found.violations,
            self._steps.copy(),
            found.violations <= self._tolerances,
        )
