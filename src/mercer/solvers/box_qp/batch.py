"""Many small quadratic programs with one kernel matrix, solved in one call of the engine."""

from __future__ import annotations

import numpy as np

from mercer import _core
from mercer.parallel import thread_count
from mercer.solvers.box_qp.kernel_matrix import StoredMatrix
from mercer.solvers.box_qp.smo import (
    Array,
    BoxQP,
    BoxSolution,
    Flags,
    Positions,
    evaluated,
    exchanges_allowed,
)


class BoxQPBatch:
    """Problems side by side, with finite boxes, as far as they are solved."""

    def __init__(
        self,
        qp: BoxQP,
        matrix: StoredMatrix,
        places: Positions | None = None,
        warm_start: Array | None = None,
    ) -> None:
        self._qp, self._matrix = qp, matrix
        self._rows = qp.rows if places is None else places[qp.rows]
        start = qp.start if warm_start is None else qp.feasible(warm_start)
        self._up, self._down = qp.upper - start, start - qp.lower
        self._coefficients, self._products = np.empty(len(start)), np.empty(len(start))
        self._steps = np.zeros(len(qp.groups), np.int64)
        self._tolerances = np.zeros(len(qp.groups))
        self._limit = 0

    @property
    def is_exhausted(self) -> Flags:
        """Which problems have used up the allowed exchanges."""
        return np.asarray(self._steps >= self._limit)

    def solve(self, *, tol: float | Array, max_iter: int | None = None) -> None:
        """Exchange until no violation is above the tolerance, or the exchanges are used up."""
        self._tolerances[:] = tol
        self._limit = exchanges_allowed(max_iter, int(self._qp.sizes.max()))
        try:
            self._exchange(self._limit)
        except KeyboardInterrupt:
            self._exchange(0)  # computes coefficients and products without any exchange
            raise

    def _exchange(self, limit: int) -> None:
        sizes, groups = self._qp.sizes, self._qp.groups
        _core.smo_batch(
            self._matrix.values,
            np.append(groups[:, 0], len(self._rows)),
            sizes if groups.shape[1] == 1 else groups[:, 1] - groups[:, 0],
            self._rows,
            self._qp.linear,
            self._qp.lower,
            self._qp.upper,
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

    def solution(self) -> BoxSolution:
        """The current solutions."""
        return evaluated(
            self._qp,
            self._coefficients,
            self._products,
            self._products,
            (self._up, self._down),
            self._steps.copy(),
            self._tolerances,
        )
