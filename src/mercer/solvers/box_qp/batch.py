"""Many small quadratic programs with one kernel matrix, solved in one call of the engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mercer import _core
from mercer.arrays import Float64Array as Array
from mercer.parallel import thread_count
from mercer.solvers.box_qp.kernel_matrix import RoundedMatrix, StoredMatrix
from mercer.solvers.box_qp.problem import (
    BoxQP,
    BoxSolution,
    Flags,
    Positions,
    evaluated,
    movable,
    reduced,
)
from mercer.solvers.box_qp.smo import WARY, exchanges_allowed, exchanges_before_handover


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
        self._allowed = 0

    @property
    def is_exhausted(self) -> Flags:
        """Which problems have used up the allowed exchanges."""
        return np.asarray(self._steps >= self._allowed)

    def solve(self, *, tol: float | Array, max_iter: int | None = None) -> None:
        """Exchange until no violation is above the tolerance, or progress is slow.

        A problem with slow progress is left to `smo.solve`.
        """
        self._tolerances[:] = tol
        count = int(self._qp.sizes.max())
        self._allowed = exchanges_allowed(max_iter, count)
        try:
            self._exchange(min(self._allowed, exchanges_before_handover(count)))
            if isinstance(self._matrix, RoundedMatrix):
                self._certify(self._matrix)
        except KeyboardInterrupt:
            self._exchange(0)  # computes coefficients and products without any exchange
            raise

    def _certify(self, matrix: RoundedMatrix) -> None:
        """Recompute products in float64, at the rows on which gaps and violations depend."""
        qp, problems = self._qp, self._qp.groups[:, 0]
        support = self._coefficients != 0
        before = self._products.copy()
        self._recompute(matrix, support)
        error = reduced(np.maximum, np.abs(self._products - before), problems)
        total = reduced(np.add, np.abs(self._coefficients), problems)
        margin = np.repeat(matrix.rounding * total + WARY * error, qp.sizes)
        ascents = -(self._products + qp.linear)
        near = movable(qp, ascents, (self._up, self._down), support, margin)
        self._recompute(matrix, near & ~support)

    def _recompute(self, matrix: RoundedMatrix, chosen: Flags) -> None:
        """Recompute the products of some variables in float64."""
        places, tasks = [], []
        for begin, end in pairwise(np.append(self._qp.groups[:, 0], len(chosen)).tolist()):
            at = begin + np.flatnonzero(chosen[begin:end])
            support = begin + np.flatnonzero(self._coefficients[begin:end])
            if len(at) and len(support):
                places.append(at)
                tasks.append((self._rows[support], self._coefficients[support], self._rows[at]))
        for at, product in zip(places, matrix.exact_products(tasks), strict=True):
            self._products[at] = product

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
