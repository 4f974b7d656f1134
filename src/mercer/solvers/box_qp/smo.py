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
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Positions = NDArray[np.int64]
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
# Number of float32 exchanges per variable.
_STEPS = 50
# Smallest limit of float32 exchanges.
_LEAST_STEPS = 20_000
# Rounding error of a sum, relative to the sum of its absolute terms.
_EPS = 16 * float(np.finfo(np.float64).eps)
# Largest drift of the updated product before it is recomputed, relative to the tolerance.
_TOO_FAR = 0.1
# Largest number of times that the product is recomputed.
_REFRESHES = 3
# Tolerance of the rounds, relative to that of the problem: leaves room for rounding.
_NEARLY = 0.9
# Violation that rounding to float32 may cause, relative to the largest gradient entry.
_NOISE = 1e-6
# Safety factor for the largest observed rounding error.
_WARY = 16.0
# Relative decrease of the objective that counts as progress; by precision (is it float64?).
_VISIBLE = {False: 1e-8, True: 1e-14}
# Rounds without progress before giving up; by precision (is it float64?).
_PATIENCE = {False: 10, True: 100}
# The gap is also computed for the function scaled up by these shares of the worst violation: a half
# where rows violate the margin on both sides, slightly more than all where they do on one side.
_SHARES_OF_WORST = (0.5, 1.01)


# Problems and solutions --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoxQP:
    """Minimise b'Kb / 2 + c'b within a box, with fixed sums: one problem, or several side by side.

    The variables of several problems follow each other, and do not interact.
    """

    rows: Positions  # (m,): the row of the kernel matrix that each variable belongs to
    linear: Array  # (m,): the linear term c
    lower: Array  # (m,): the lower bounds
    upper: Array  # (m,): the upper bounds
    start: Array  # (m,): a feasible point, whose sums are kept
    # (n_problems, n_sums): the first variable of every sum, which ends where the next one begins
    groups: Positions

    @property
    def sizes(self) -> Positions:
        """The number of variables of each problem."""
        return np.diff(np.append(self.groups[:, 0], len(self.rows)))

    @property
    def problem_of_variable(self) -> Positions:
        """The number of the problem that each variable belongs to."""
        return np.repeat(np.arange(len(self.groups)), self.sizes)

    def within(self, bound: float) -> BoxQP:
        """The problem with all bounds cut to at most `bound` in absolute value."""
        lower, upper = np.maximum(self.lower, -bound), np.minimum(self.upper, bound)
        return replace(self, lower=lower, upper=upper)

    def feasible(self, point: Array) -> Array:
        """A feasible point near the given one."""
        starts = self.groups.ravel()
        sizes = np.diff(np.append(starts, len(point)))
        clipped = np.clip(point, self.lower, self.upper)
        missing = reduced(np.add, self.start, starts) - reduced(np.add, clipped, starts)
        room = np.where(np.repeat(missing > 0, sizes), self.upper, self.lower) - clipped
        total = reduced(np.add, room, starts)
        share = np.divide(missing, total, out=np.zeros(len(missing)), where=total != 0)
        return np.asarray(clipped + room * np.repeat(np.minimum(share, 1.0), sizes))


@dataclass(frozen=True, eq=False)
class BoxSolution:
    """A feasible point of each problem, and how good it is."""

    coefficients: Array  # (m,): the variables b
    # The kernel matrix times the coefficients: at all rows for a problem that was solved alone (in
    # float32 where no more is needed), and at the variables for problems side by side.
    product: Array
    levels: Array  # (n_problems, n_sums): the Lagrange multipliers of the sums
    squared_norm: Array  # (n_problems,): b'Kb
    objective: Array  # (n_problems,): the value of the problem
    dual_gap: Array  # (n_problems,): an upper bound of the distance to the minimum, if K >= 0
    violation: Array  # (n_problems,): the largest slope of an exchange between two variables
    n_iter: Positions  # (n_problems,): the numbers of exchanges
    converged: Flags  # (n_problems,): whether the violation is at most the tolerance


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
    descent = _Descent(qp, matrix, tol, max_iter, warm_start, poll)
    precise = not matrix.has_single
    descent.run(precise=precise, report=report)
    if not precise and not descent.is_certified():
        descent.run(precise=True, report=report)
    for _ in range(_REFRESHES):
        if not descent.refresh():
            break
        descent.run(precise=True, report=report)
    else:
        descent.refresh()  # so that the certificates belong to the solution
    return descent.solution()


def exchanges_allowed(max_iter: int | None, count: int) -> int:
    """The largest number of exchanges for a number of variables."""
    return max(10_000_000, 100 * count) if max_iter is None else max_iter


class _Descent:
    """The iterate: how far each variable may rise and fall, and the product with the matrix."""

    def __init__(
        self,
        qp: BoxQP,
        matrix: SymmetricMatrix,
        tol: float,
        max_iter: int | None,
        warm_start: Array | None,
        poll: Callable[[], None] | None,
    ) -> None:
        self._qp, self._matrix, self._tol, self._poll = qp, matrix, tol, poll
        edges = [*qp.groups[0].tolist(), len(qp.rows)]
        self._sums = [slice(*ends) for ends in pairwise(edges)]
        self._left = self._limit = exchanges_allowed(max_iter, len(qp.rows))
        self._rounds = 0
        start = qp.start if warm_start is None else qp.feasible(warm_start)
        self._up, self._down = qp.upper - start, start - qp.lower
        self._coefficients = _between(qp.lower, qp.upper, self._up, self._down)
        # Added to ascents, these barriers leave out variables that cannot rise or fall.
        self._ceiling, self._floor = _barriers(self._up, self._down)
        self._working: Positions = np.empty(0, np.int64)
        # Rows at which the product is still in float32 after the certificate was computed.
        self._rounded: Positions = np.empty(0, np.int64)
        self._violation, self._drift, self._stopped = np.inf, 0.0, False
        self._product: Array = np.zeros(matrix.size)
        if self._coefficients.any():
            self._product = self._times(precise=not matrix.has_single)

    def _times(self, *, precise: bool, at: Positions | None = None) -> Array:
        """The matrix times the coefficients, recomputed."""
        by_row = _sums_by_row(self._qp.rows, self._coefficients, self._matrix.size)
        rows = np.flatnonzero(by_row)
        return self._matrix.times(rows, by_row[rows], precise=precise, at=at)

    # Precision ------------------------------------------------------------------------------------

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
        self._product[support] = self._times(precise=True, at=support)
        error = float(np.abs(self._product[support] - before).max(initial=0.0))
        total = float(np.abs(self._coefficients).sum())
        margin = self._matrix.rounding * total + _WARY * error
        doubtful = np.zeros(len(exact), bool)
        doubtful[self._qp.rows[self._movable(margin, exact[self._qp.rows])]] = True
        near = np.flatnonzero(doubtful & ~exact)
        self._product[near] = self._times(precise=True, at=near)
        exact[near] = True
        self._rounded = np.flatnonzero(~exact)
        return False

    def refresh(self) -> bool:
        """Recompute the product if its updates have drifted; return whether they had."""
        if self._drift <= _TOO_FAR * self._tol:
            return False
        self._product, self._drift = self._times(precise=True), 0.0
        self._rounded = self._rounded[:0]
        return True

    def _movable(self, margin: float, exact: Flags) -> Flags:
        """Variables that an exchange may move if float32 gradients err by at most a margin."""
        ascents = -(self._product[self._qp.rows] + self._qp.linear)
        rising, falling = ascents + self._ceiling, ascents + self._floor
        rising[~exact], falling[~exact] = -np.inf, np.inf
        movable = np.zeros(len(ascents), bool)
        for group, (high, low) in zip(self._sums, self._extremes(rising, falling), strict=True):
            rises = (self._up[group] > 0) & (ascents[group] >= low - margin)
            movable[group] = rises | (self._down[group] > 0) & (ascents[group] <= high + margin)
        return movable

    # Rounds ---------------------------------------------------------------------------------------

    def run(self, *, precise: bool, report: Report | None) -> None:
        """Run rounds until the violation is small or the objective stops decreasing."""
        best, patience = np.inf, _PATIENCE[precise]
        # Rounding to float32 may make the problem unbounded: limit the exchanges in float32.
        budget = self._left if precise else max(_LEAST_STEPS, _STEPS * len(self._up))
        last = max(self._left - budget, 0)
        while self._left > last and self._rounds < _ROUNDS and not self._stopped:
            ascents = -(self._product[self._qp.rows] + self._qp.linear)
            largest = float(np.abs(ascents).max())
            rising, falling = ascents + self._ceiling, ascents + self._floor
            extremes = self._extremes(rising, falling)
            self._violation = float(np.max(extremes @ np.array([1.0, -1.0])))
            target = self._tol if precise else max(_NEARLY * self._tol, _NOISE * largest)
            if self._violation <= target:
                return
            if len(self._rounded):
                at, self._rounded = self._rounded, self._rounded[:0]
                self._product[at] = self._times(precise=True, at=at)
                continue
            # Sum without BLAS, whose threads would spin for a while afterwards.
            objective = float((self._coefficients * (self._qp.linear - ascents)).sum()) / 2
            progress = objective < best - _VISIBLE[precise] * abs(objective)
            patience = _PATIENCE[precise] if progress else patience - 1
            best = min(best, objective)
            if patience == 0:
                return
            self._choose(rising, falling, extremes)
            try:
                self._exchange(ascents, largest, precise=precise, limit=self._left - last)
            except KeyboardInterrupt:
                if report is not None:
                    report(self.solution)
                raise
            self._stopped = report is not None and report(self.solution)

    def _extremes(self, rising: Array, falling: Array) -> Array:
        """Per sum, the largest ascent of variables that may rise, the smallest of those to fall."""
        extremes = np.empty((len(self._sums), 2))
        for number, group in enumerate(self._sums):
            extremes[number, 0] = rising[group].max(initial=-np.inf)
            extremes[number, 1] = falling[group].min(initial=np.inf)
        return extremes

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
        tolerance = max(tolerance, _EPS * largest)  # float64 resolves no less
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
            changes = _sums_by_row(rows, self._coefficients[working] - before, self._matrix.size)
            changed = np.flatnonzero(changes)
            increment = self._matrix.times(changed, changes[changed], precise=precise)
            self._product += increment
            # Rounding errors do not cancel with the terms, so the largest term bounds them.
            diagonal = np.abs(values[positions, positions]).max(initial=0.0)
            terms = max(diagonal * np.abs(changes).sum(), np.abs(increment).max(initial=0.0))
            self._drift += _EPS * float(terms)
            self._up[working], self._down[working] = up, down
            self._ceiling[working], self._floor[working] = _barriers(up, down)

    def _choose(self, rising: Array, falling: Array, extremes: Array) -> None:
        """The next working set: the worst violators, the free variables, and some of the last."""
        m = len(rising)
        if m <= _AT_ONCE:
            self._working = np.flatnonzero((self._up > 0) | (self._down > 0))
            return
        rank = np.zeros(m, np.int8)
        rank[self._working] = 1
        free = self._ceiling == self._floor
        rank[free] += 2
        part = int(_PART * self._matrix.size)
        wanted = max(_NEW, part, int(_GROWTH * np.count_nonzero(free)))
        if not len(self._working):
            wanted = max(_FIRST, part)
        # At most half of the set, so that the worst violators are always in it.
        count = min(wanted, _MOST // 2) // (2 * len(extremes))
        for group, (high, low) in zip(self._sums, extremes, strict=True):
            rank[group.start + _largest(rising[group], count, low)] = 4
            rank[group.start + _largest(-falling[group], count, -high)] = 4
        chosen = rank >= 2
        if np.count_nonzero(chosen) > _MOST:
            chosen = rank >= 3
        self._working = _at_most(_MOST, rank, np.flatnonzero(chosen))
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


def _sums_by_row(rows: Positions, values: Array, size: int) -> Array:
    """Sum the values of the variables of each row of the matrix."""
    return np.bincount(rows, values, size).astype(np.float64, copy=False)


def _between(lower: Array, upper: Array, up: Array, down: Array) -> Array:
    """Variables from the distances by which they may rise and fall.

    They are measured from a bound that is zero, if there is one, which avoids cancellation with a
    large bound.
    """
    inside = np.where(upper == 0, -up, lower + down)
    return np.where(up == 0, upper, np.where(down == 0, lower, inside))


def _barriers(up: Array, down: Array) -> tuple[Array, Array]:
    """Minus infinity for variables that cannot rise, and infinity for those that cannot fall."""
    return np.where(up > 0, 0.0, -np.inf), np.where(down > 0, 0.0, np.inf)


def _largest(values: Array, count: int, bound: float) -> Positions:
    """The positions of the largest values above a bound, at most `count` of them."""
    above = np.flatnonzero(values > bound)
    if len(above) <= count:
        return above
    return above[np.argpartition(values[above], len(above) - count)[-count:]]


def _at_most(limit: int, rank: NDArray[np.int8], chosen: Positions) -> Positions:
    """At most `limit` of the chosen variables, those of the highest rank first."""
    if len(chosen) <= limit:
        return chosen
    order = np.argsort(-rank[chosen], kind="stable")
    return np.sort(chosen[order[:limit]])


# Certificates -------------------------------------------------------------------------------------


def evaluated(
    qp: BoxQP,
    coefficients: Array,
    product: Array,
    at_variables: Array,
    room: tuple[Array, Array],
    n_iter: Positions,
    tol: float | Array,
) -> BoxSolution:
    """Objective, violation, multipliers and gap of a feasible point.

    `at_variables` is the product at the row of each variable, and `room` says how far variables may
    rise and fall.
    """
    up, down = room
    problems = qp.groups[:, 0]
    ascents = -(at_variables + qp.linear)
    high, low = _extremes(qp, ascents, up > 0, down > 0)
    violation = np.maximum((high - low).reshape(qp.groups.shape).max(axis=1), 0.0)
    squared_norm = reduced(np.add, coefficients * at_variables, problems)
    # The box of one sum may fix the other up to rounding: a variable that is that near to its
    # bound counts as if it were at it, so that it does not fix the multiplier.
    least = _EPS * reduced(np.add, np.abs(coefficients), problems)
    least = least if len(least) == 1 else np.repeat(least, qp.sizes)
    rises, falls = up > least, down > least
    levels = _levels(qp, ascents, rises, falls)
    slopes = ascents - np.repeat(
        levels.ravel(), np.diff(np.append(qp.groups.ravel(), len(ascents)))
    )
    worst = np.maximum(np.where(rises, slopes, 0.0), np.where(falls, -slopes, 0.0))
    return BoxSolution(
        coefficients,
        product,
        levels,
        squared_norm,
        reduced(np.add, coefficients * (at_variables / 2 + qp.linear), problems),
        _gaps(qp, slopes, room, reduced(np.maximum, worst, problems), squared_norm),
        violation,
        n_iter,
        violation <= tol,
    )


def reduced(operation: np.ufunc, values: Array, starts: Positions) -> Array:
    """Sums or extremes of the stretches of values that begin at `starts`."""
    if len(starts) <= 2:
        return np.array([operation.reduce(part) for part in np.split(values, starts[1:])])
    return np.asarray(operation.reduceat(values, starts))


def _extremes(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> tuple[Array, Array]:
    """For every sum the largest ascent of variables that may rise, the least of those to fall."""
    starts = qp.groups.ravel()
    high = reduced(np.maximum, np.where(rises, ascents, -np.inf), starts)
    return high, reduced(np.minimum, np.where(falls, ascents, np.inf), starts)


def _levels(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> Array:
    """Multipliers: the mean ascent of free variables, else the middle of the feasible interval."""
    starts, free = qp.groups.ravel(), rises & falls
    count = reduced(np.add, free.astype(np.float64), starts)
    total = reduced(np.add, np.where(free, ascents, 0.0), starts)
    ends = np.stack(_extremes(qp, ascents, rises, falls))
    known = np.isfinite(ends)
    # An interval with one end has no middle, and that end serves; without ends, any level does.
    middle = np.where(known, ends, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    levels = np.where(count > 0, total / np.maximum(count, 1.0), middle)
    return levels.reshape(qp.groups.shape)


def _gaps(
    qp: BoxQP, slopes: Array, room: tuple[Array, Array], worst: Array, squared_norm: Array
) -> Array:
    """Duality gaps: the smallest of those certified by f and by slightly larger multiples of f.

    The minimum is at least the value of the objective's tangent at t b, so that the function t f
    has the gap (1 - t)^2 b'Kb / 2, plus what each variable could gain at the slopes of t f. Where
    the linear term is a margin of the same size for all variables, a slightly larger function is
    beyond the margin at all free variables, and large bounds multiply no violations.
    """
    up, down = room
    problems = qp.groups[:, 0]
    # One of the two products is not negative: the gain in the direction of the slope.
    gaps = reduced(np.add, np.maximum(slopes * up, -slopes * down), problems)
    margins = np.abs(qp.linear)
    margin = reduced(np.maximum, margins, problems)
    equal = (margin > 0) & (margin == reduced(np.minimum, margins, problems))
    applies = equal & ~(worst > margin / 4)
    if not applies.any():
        return gaps
    relative = np.where(applies, worst, 0.0) / np.where(applies, margin, 1.0)
    for share in _SHARES_OF_WORST:
        growth = 1 / (1 - share * relative) - 1
        of_variables = growth if len(growth) == 1 else np.repeat(growth, qp.sizes)
        larger = slopes + of_variables * (slopes + qp.linear)
        gained = reduced(np.add, np.maximum(larger * up, -larger * down), problems)
        gap = growth**2 * squared_norm / 2 + gained
        gaps = np.where(applies, np.minimum(gaps, gap), gaps)
    return gaps
