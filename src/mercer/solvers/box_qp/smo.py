r"""Sequential minimal optimisation of quadratic programs with box constraints and fixed sums.

The duals of support vector machines, in the coefficients b of an expansion over kernel rows r, read

.. math:: \min_b\; \tfrac12 \sum_{ij} b_i b_j K_{r_i r_j} + c^\top b \qquad \text{subject to}
   \qquad l \le b \le u, \quad \textstyle\sum_{i \in g} b_i = \text{constant for every group } g.

A regression has two variables per row, but no matrix of twice the size. The working set of a round
holds the worst violators of the optimality conditions and the free variables. The engine solves for
these by exchanges between pairs [1]_. One product with the matrix then updates the gradient of all
variables, so that every optimality check covers all of them. Working sets grow with the number of
free variables: larger sets cost more per exchange, smaller ones need many more rounds.

The first rounds use float32 kernel values, if these are accurate enough. At the end the gradient is
computed again in float64. Variables at zero whose optimality holds for any rounding error (with a
safety margin) are left out, as they add nothing to the gap and the violation. If the float64
gradient shows violations, the rounds continue in float64.

.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin (2005). Working set selection using second order
   information for training support vector machines. Journal of Machine Learning Research 6.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from mercer import _core
from mercer.arrays import Float64Array as Array
from mercer.solvers.box_qp import interior_point
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix
from mercer.solvers.box_qp.problem import (
    EPS,
    BoxQP,
    BoxSolution,
    Positions,
    evaluated,
    extremes,
    movable,
)

#: Called after a round with a function that returns the solution so far; True stops.
Report = Callable[[Callable[[], "BoxSolution"]], bool]

# Working-set size: `_FIRST` in the first round. Later rounds add max(`_NEW`, `_PART` * n, `_GROWTH`
# * n_free) violators. It is always within [`_LEAST`, `_MOST`].
_FIRST = 1536
_NEW = 512
_PART = 0.15
_GROWTH = 1.0
_LEAST = 512
_MOST = 8192
# Number of variables up to which all of them are the working set.
_AT_ONCE = 2048
# Tolerance of a working set, relative to the violation at the start of the round.
_SHARE = 0.1
# Smallest tolerance of a working set, relative to the tolerance of the problem.
_CLOSE = 0.5
# Largest number of rounds.
_ROUNDS = 10_000
# Smallest number of exchanges before the interior-point method takes over.
_LEAST_BEFORE = 50_000
# Number of exchanges per variable for a refinement without the interior-point method.
_PER_VARIABLE = 100
# Number of float32 exchanges per variable.
_STEPS = 50
# Smallest limit of float32 exchanges.
_LEAST_STEPS = 20_000
# Largest drift of the updated product before it is recomputed, relative to the tolerance.
_TOO_FAR = 0.1
# Largest number of times that the product is recomputed.
_REFRESHES = 3
# Tolerance of the rounds, relative to that of the problem: leaves room for rounding.
_NEARLY = 0.9
# Violation that rounding to float32 may cause, relative to the largest gradient entry.
_NOISE = 1e-6
# Safety factor for the largest observed rounding error.
WARY = 16.0
# Relative decrease of the objective that counts as progress; by precision (is it float64?).
_VISIBLE = {False: 1e-8, True: 1e-14}
# Rounds without progress before giving up; by precision (is it float64?).
_PATIENCE = {False: 10, True: 100}


# The method --------------------------------------------------------------------------------------


def solve(
    qp: BoxQP,
    matrix: SymmetricMatrix,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    warm_start: Array | None = None,
    report: Report | None = None,
    poll: Callable[[], None] | None = None,
) -> BoxSolution:
    """Minimise one problem with a finite box until no violation is above the tolerance."""
    limit = exchanges_allowed(max_iter, len(qp.rows))
    some = min(limit, exchanges_before_handover(len(qp.rows)))
    descent = _Descent(qp, matrix, tol, some, warm_start, poll)
    descent.run_all(report, precise=not matrix.has_single)
    solution = descent.solution()
    if some < limit and not (descent.stopped or solution.converged[0]):
        values, positions = matrix.block(qp.rows, precise=True)
        point = interior_point.minimum(qp, values, positions, poll)
        descent.allow(some if point is not None and descent.move_to(point) else limit - some)
        descent.run_all(report, precise=True)
        solution = descent.solution()
    return solution


def exchanges_allowed(max_iter: int | None, count: int) -> int:
    """The largest number of exchanges for a number of variables."""
    return max(10_000_000, 100 * count) if max_iter is None else max_iter


def exchanges_before_handover(count: int) -> int:
    """The number of exchanges that cost about as much as the interior-point method."""
    return max(_LEAST_BEFORE, count * count // 2)


def refinements_allowed(count: int) -> int:
    """The largest number of exchanges for a smaller tolerance than was asked for."""
    before, most = exchanges_before_handover(count), exchanges_allowed(None, count)
    return 2 * before if before < most else _PER_VARIABLE * count


class _Descent:
    """The iterate: how far each variable may rise and fall, and the product with the matrix."""

    def __init__(
        self,
        qp: BoxQP,
        matrix: SymmetricMatrix,
        tol: float,
        limit: int,
        warm_start: Array | None,
        poll: Callable[[], None] | None,
    ) -> None:
        self._qp, self._matrix, self._tol, self._poll = qp, matrix, tol, poll
        edges = [*qp.groups[0].tolist(), len(qp.rows)]
        self._sums = [slice(*ends) for ends in pairwise(edges)]
        self._left = self._limit = limit
        self._rounds = 0
        start = qp.start if warm_start is None else qp.feasible(warm_start)
        self._place(start, precise=not matrix.has_single)
        self._working: Positions = np.empty(0, np.int64)
        self.stopped = False

    def _place(self, point: Array, *, precise: bool) -> None:
        """Begin at a feasible point."""
        qp = self._qp
        self._up, self._down = qp.upper - point, point - qp.lower
        self._coefficients = _between(qp.lower, qp.upper, self._up, self._down)
        # Rows at which the product is still in float32 after the certificate was computed.
        self._rounded: Positions = np.empty(0, np.int64)
        self._violation, self._drift = np.inf, 0.0
        self._product: Array = np.zeros(self._matrix.size)
        if self._coefficients.any():
            self._product = self._product_of(self._coefficients, precise=precise)

    def allow(self, more: int) -> None:
        """Allow more exchanges."""
        self._limit, self._left = self._limit + more, max(self._left, 0) + more

    def move_to(self, point: Array) -> bool:
        """Go on from another point, if its objective is lower; return whether it is."""
        before = self.solution().objective[0]
        product = self._product_of(point, precise=True)[self._qp.rows]
        is_lower = bool((point * (product / 2 + self._qp.linear)).sum() < before)
        if is_lower:
            self._place(point, precise=True)
        return is_lower

    def _product_of(self, point: Array, *, precise: bool, at: Positions | None = None) -> Array:
        """The matrix times a point, at some rows or all of them."""
        by_row = np.bincount(self._qp.rows, point, self._matrix.size).astype(np.float64, copy=False)
        nonzero = np.flatnonzero(by_row)
        return self._matrix.times(nonzero, by_row[nonzero], precise=precise, at=at)

    @property
    def _ascents(self) -> Array:
        """The slopes at which the objective decreases if variables rise."""
        return -(self._product[self._qp.rows] + self._qp.linear)

    def is_certified(self) -> bool:
        """Whether the violation is small in float64.

        The product is recomputed in float64 at the rows on which the gap and the violation depend.
        """
        if not self._matrix.rounding:
            return self._violation <= self._tol
        exact = np.zeros(self._matrix.size, bool)
        exact[self._qp.rows[self._coefficients != 0]] = True
        support = np.flatnonzero(exact)
        before = self._product[support]
        self._product[support] = self._product_of(self._coefficients, precise=True, at=support)
        error = float(np.abs(self._product[support] - before).max(initial=0.0))
        total = float(np.abs(self._coefficients).sum())
        margin = self._matrix.rounding * total + WARY * error
        room, doubtful = (self._up, self._down), np.zeros(len(exact), bool)
        near_bound = movable(self._qp, self._ascents, room, exact[self._qp.rows], margin)
        doubtful[self._qp.rows[near_bound]] = True
        near = np.flatnonzero(doubtful & ~exact)
        self._product[near] = self._product_of(self._coefficients, precise=True, at=near)
        exact[near] = True
        self._rounded = np.flatnonzero(~exact)
        return False

    def refresh(self) -> bool:
        """Recompute the product if its updates have drifted; return whether they had."""
        if self._drift <= _TOO_FAR * self._tol:
            return False
        self._product, self._drift = self._product_of(self._coefficients, precise=True), 0.0
        self._rounded = self._rounded[:0]
        return True

    def run_all(self, report: Report | None, *, precise: bool) -> None:
        """Run rounds in float32, unless they are to be precise, and then in float64."""
        self.run(precise=precise, report=report)
        if not precise and not self.is_certified():
            self.run(precise=True, report=report)
        for _ in range(_REFRESHES):
            if not self.refresh():
                return
            self.run(precise=True, report=report)
        self.refresh()  # so that the certificates belong to the solution

    def run(self, *, precise: bool, report: Report | None) -> None:
        """Run rounds until the violation is small or the objective stops decreasing."""
        best, patience = np.inf, _PATIENCE[precise]
        # Rounding to float32 may make the problem unbounded: limit the exchanges in float32.
        budget = self._left if precise else max(_LEAST_STEPS, _STEPS * len(self._up))
        last = max(self._left - budget, 0)
        while self._left > last and self._rounds < _ROUNDS and not self.stopped:
            ascents = self._ascents
            largest = float(np.abs(ascents).max())
            high, low = extremes(self._qp, ascents, self._up > 0, self._down > 0)
            self._violation = float((high - low).max())
            target = self._tol if precise else max(_NEARLY * self._tol, _NOISE * largest)
            if self._violation <= target:
                return
            if len(self._rounded):
                at, self._rounded = self._rounded, self._rounded[:0]
                self._product[at] = self._product_of(self._coefficients, precise=True, at=at)
                continue
            # Sum without BLAS, whose threads would spin for a while afterwards.
            objective = float((self._coefficients * (self._qp.linear - ascents)).sum()) / 2
            progress = objective < best - _VISIBLE[precise] * abs(objective)
            patience = _PATIENCE[precise] if progress else patience - 1
            best = min(best, objective)
            if patience == 0:
                return
            self._choose(ascents, high, low)
            try:
                self._exchange(ascents, largest, precise=precise, limit=self._left - last)
            except KeyboardInterrupt:
                if report is not None:
                    report(self.solution)
                raise
            self.stopped = report is not None and report(self.solution)

    def _exchange(self, ascents: Array, largest: float, *, precise: bool, limit: int) -> None:
        """Solve for the working set by exchanges, and update the product."""
        working, qp = self._working, self._qp
        rows = qp.rows[working]
        values, positions = self._matrix.block(rows, precise=precise)
        split = int(np.searchsorted(working, self._sums[0].stop))
        up, down = self._up[working], self._down[working]
        box = qp.lower[working], qp.upper[working]
        before = self._coefficients[working]
        if len(self._up) <= _AT_ONCE:
            tolerance = _NEARLY * self._tol
        else:
            tolerance = max(_CLOSE * self._tol, _SHARE * self._violation)
        tolerance = max(tolerance, EPS * largest)  # float64 resolves no less
        steps = 0
        try:
            steps, _ = _core.smo(
                values,
                positions,
                split,
                ascents[working],
                up,
                down,
                not precise,
                tolerance,
                limit,
                poll=self._poll,
            )
        finally:  # after Ctrl-C keep the exchanges that were made
            self._left -= max(steps, 1)
            self._rounds += 1
            self._coefficients[working] = _between(*box, up, down)
            change = self._coefficients[working] - before
            changes = np.bincount(rows, change, self._matrix.size).astype(np.float64, copy=False)
            changed = np.flatnonzero(changes)
            increment = self._matrix.times(changed, changes[changed], precise=precise)
            self._product += increment
            # Rounding errors do not cancel with the terms, so the largest term bounds them.
            diagonal = np.abs(values[positions, positions]).max(initial=0.0)
            terms = max(diagonal * np.abs(changes).sum(), np.abs(increment).max(initial=0.0))
            self._drift += EPS * float(terms)
            self._up[working], self._down[working] = up, down

    def _choose(self, ascents: Array, highest: Array, lowest: Array) -> None:
        """The next working set: the worst violators, the free variables, and some of the last."""
        m, rises, falls = len(ascents), self._up > 0, self._down > 0
        if m <= _AT_ONCE:
            self._working = np.flatnonzero(rises | falls)
            return
        rank = np.zeros(m, np.int8)
        rank[self._working] = 1
        free = rises & falls
        rank[free] += 2
        part = int(_PART * self._matrix.size)
        wanted = max(_NEW, part, int(_GROWTH * np.count_nonzero(free)))
        if not len(self._working):
            wanted = max(_FIRST, part)
        # At most half of the set, so that the worst violators are always in it.
        count = min(wanted, _MOST // 2) // (2 * len(highest))
        rising, falling = np.where(rises, ascents, -np.inf), np.where(falls, ascents, np.inf)
        for group, high, low in zip(self._sums, highest, lowest, strict=True):
            rank[group.start + _largest(rising[group], count, low)] = 4
            rank[group.start + _largest(-falling[group], count, -high)] = 4
        chosen = np.flatnonzero(rank >= 2)
        if len(chosen) > _MOST:
            chosen = np.flatnonzero(rank >= 3)
            order = np.argsort(-rank[chosen], kind="stable")
            chosen = np.sort(chosen[order[:_MOST]])
        self._working = chosen
        if len(self._working) < _LEAST:
            others = np.flatnonzero(rank == 1)[: _LEAST - len(self._working)]
            self._working = np.sort(np.concatenate([self._working, others]))

    def solution(self) -> BoxSolution:
        """The current solution."""
        return evaluated(
            self._qp,
            self._coefficients.copy(),
            self._product,
            self._product[self._qp.rows],
            (self._up, self._down),
            np.array([self._limit - max(self._left, 0)]),
            self._tol,
        )


def _between(lower: Array, upper: Array, up: Array, down: Array) -> Array:
    """Variables from the distances by which they may rise and fall.

    They are measured from a bound that is zero, if there is one, which avoids cancellation with a
    large bound.
    """
    inside = np.where(upper == 0, -up, lower + down)
    return np.where(up == 0, upper, np.where(down == 0, lower, inside))


def _largest(values: Array, count: int, bound: float) -> Positions:
    """The positions of the largest values above a bound, at most `count` of them."""
    above = np.flatnonzero(values > bound)
    if len(above) <= count:
        return above
    return above[np.argpartition(values[above], len(above) - count)[-count:]]
