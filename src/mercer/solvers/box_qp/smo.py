r"""Quadratic programmes with boxes and sums: the duals of support vector machines.

In the coefficients b of an expansion over kernel rows r, all of them read

.. math:: \min_b\; \tfrac12 \sum_{ij} b_i b_j K_{r_i r_j} + c^\top b \qquad \text{subject to}
   \qquad l \le b \le u, \quad \textstyle\sum_{i \in g} b_i = \text{constant for every group } g.

A regression has two variables for each row, and yet no matrix of twice the size. Every round takes
the variables that violate the conditions of the optimum most, and those between their bounds, into
a working set; the engine solves for these by exchanges between pairs [1]_; one product with the
matrix then corrects the gradient of all variables, so that nothing is ever left out of the check.
Working sets grow with the number of variables between bounds: larger ones cost more for each
exchange, smaller ones need many more rounds.

Kernel values are of float32 at first, where they serve. At the end the gradient is computed once
more in float64, for all variables but those at zero that are further from an exchange than rounding
can have moved them (all errors of one sign, each the largest, with a margin): whatever their exact
gradient is, they add nothing to the gap and the violation. Where the gradient then shows violations
the rounds go on in float64.

.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin (2005). Working set selection using second order
   information for training support vector machines. Journal of Machine Learning Research 6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.solvers.box_qp.certificates import Certificates
from mercer.solvers.box_qp.problem import (
    Array,
    BoxProgramme,
    BoxSolution,
    Positions,
    SymmetricMatrix,
    inner,
)

# Variables of a working set: those of the first round and new ones of later rounds (at least, and
# relative to the rows of the matrix: a product with a changed row costs more, the more there are;
# new ones also relative to those between bounds), the least and the most of all.
_FIRST = 1536
_NEW = 512
_PART = 0.15
_GROWTH = 1.0
_LEAST = 512
_MOST = 8192
# Up to so many variables, all of them are the working set.
_AT_ONCE = 2048
# An inner problem is solved to this share of the violation before, and no further than this share
# of the tolerance.
_SHARE = 0.1
_CLOSE = 0.5
# Rounds at most: where float64 has too few digits, each may exchange once and find more to do.
_ROUNDS = 10_000
# Exchanges in float32: so many for each variable, and at least.
_STEPS, _LEAST_STEPS = 50, 20_000
# Rounding of increments, and the share of the tolerance from which the product is computed anew.
_EPS = 16 * float(np.finfo(np.float64).eps)
_TOO_FAR = 0.1
_REFRESHES = 3
# A little less than what is asked, so that another way to round does not miss it.
_NEARLY = 0.9
# Violations that rounding to float32 may cause, relative to the gradient.
_NOISE = 1e-6
# The largest error that was seen counts as this many of itself.
_WARY = 16.0
# What a precision, float64 or not, can show of a smaller objective, relative to it; and rounds
# without one after which it has given what it can.
_VISIBLE = {False: 1e-8, True: 1e-14}
_PATIENCE = {False: 10, True: 100}


def solve(
    programme: BoxProgramme,
    matrix: SymmetricMatrix,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    near: Array | None = None,
    report: Callable[[Callable[[], BoxSolution]], bool] | None = None,
    poll: Callable[[], None] | None = None,
) -> BoxSolution:
    """Minimise, up to violations of the tolerance."""
    unit = programme.unit
    if unit != 1:
        found = solve(
            programme.scaled(1 / unit),
            matrix,
            tol=tol / unit,
            max_iter=max_iter,
            near=None if near is None else near / unit,
            report=None if report is None else lambda now: report(lambda: now().scaled(unit)),
            poll=poll,
        )
        return found.scaled(unit)
    limit = exchanges_allowed(max_iter, len(programme.rows))
    ascent = _Ascent(programme, matrix, tol, limit, near, poll)
    precise = not matrix.has_single
    ascent.climb(precise=precise, report=report)
    if not precise and not ascent.certified():
        ascent.climb(precise=True, report=report)
    for _ in range(_REFRESHES):
        if not ascent.refreshed():
            break
        ascent.climb(precise=True, report=report)
    else:
        ascent.refreshed()  # so that what is told of the solution is true of it
    return ascent.solution()


def exchanges_allowed(max_iter: int | None, count: int) -> int:
    """The largest number of exchanges for so many variables."""
    return max(10_000_000, 100 * count) if max_iter is None else max_iter


class _Ascent:
    """The variables on their way: how far each may rise and fall, and the product with K."""

    def __init__(
        self,
        programme: BoxProgramme,
        matrix: SymmetricMatrix,
        tol: float,
        limit: int,
        near: Array | None,
        poll: Callable[[], None] | None,
    ) -> None:
        self._programme = programme
        self._poll = poll
        self._matrix = matrix
        self._tol = tol
        self._left = self._limit = limit
        self._rounds = 0
        start = programme.start if near is None else programme.feasible(near)
        self._up, self._down = programme.upper - start, start - programme.lower
        self._coefficients = _between(programme.lower, programme.upper, self._up, self._down)
        # What keeps a variable from rising or falling: added to ascents, it leaves them out.
        self._ceiling, self._floor = _barriers(self._up, self._down)
        self._product: Array = np.zeros(matrix.size)
        self._working: Positions = np.empty(0, np.int64)
        # Rows at which the product is still that of float32, although it has been looked at.
        self._rounded: Positions = np.empty(0, np.int64)
        self._violation = np.inf
        self._drift = 0.0  # what rounding of the increments may have added up to
        self._stopped = False
        weights, rows = self._weights()
        if len(rows):
            self._product = matrix.times(rows, weights, precise=not matrix.has_single)

    # The state
    # -----------------------------------------------------------------------------------------

    def certified(self) -> bool:
        """Whether the violation is known to be small; else the product is computed from nothing.

        It is computed in float64 where the gap and the violation depend on it.
        """
        if not self._matrix.rounding:
            return self._violation <= self._tol
        weights, rows = self._weights()
        exact = np.zeros(self._matrix.size, bool)
        exact[self._programme.rows[self._coefficients != 0]] = True
        carriers = np.flatnonzero(exact)
        before = self._product[carriers]
        self._product[carriers] = self._matrix.times(rows, weights, precise=True, at=carriers)
        seen = float(np.abs(self._product[carriers] - before).max(initial=0.0))
        margin = self._matrix.rounding * float(np.abs(weights).sum()) + _WARY * seen
        doubtful = np.zeros(len(exact), bool)
        doubtful[self._programme.rows[self._within(margin, exact[self._programme.rows])]] = True
        near = np.flatnonzero(doubtful & ~exact)
        self._product[near] = self._matrix.times(rows, weights, precise=True, at=near)
        exact[near] = True
        self._rounded = np.flatnonzero(~exact)
        return False

    def refreshed(self) -> bool:
        """Compute the product in float64 from nothing if sums of increments are no longer it."""
        if self._drift <= _TOO_FAR * self._tol:
            return False
        weights, rows = self._weights()
        self._product, self._drift = self._matrix.times(rows, weights, precise=True), 0.0
        self._rounded = self._rounded[:0]
        return True

    def _within(self, margin: float, exact: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Variables that an exchange may move, if gradients that are not exact err by a margin."""
        ascents = self._ascents()
        rising, falling = self._split(ascents)
        rising[~exact], falling[~exact] = -np.inf, np.inf
        extremes = self._extremes(rising, falling)
        near = np.zeros(len(ascents), bool)
        for group, (high, low) in zip(self._programme.groups, extremes, strict=True):
            rises = (self._up[group] > 0) & (ascents[group] >= low - margin)
            near[group] = rises | (self._down[group] > 0) & (ascents[group] <= high + margin)
        return near

    def _complete(self) -> None:
        """Compute the product in float64 where it is not."""
        weights, rows = self._weights()
        at, self._rounded = self._rounded, self._rounded[:0]
        self._product[at] = self._matrix.times(rows, weights, precise=True, at=at)

    def _weights(self) -> tuple[Array, Positions]:
        """The coefficients of rows that are not zero, and the rows."""
        weights = self._by_rows(self._programme.rows, self._coefficients)
        rows = np.flatnonzero(weights)
        return weights[rows], rows

    def _by_rows(self, rows: Positions, values: Array) -> Array:
        return np.bincount(rows, weights=values, minlength=self._matrix.size).astype(np.float64)

    def _ascents(self) -> Array:
        """What the objective falls by for each variable, for a unit."""
        return -(self._product[self._programme.rows] + self._programme.linear)

    def _split(self, ascents: Array) -> tuple[Array, Array]:
        """The ascents of those that may rise, and of those that may fall; infinite for others."""
        return ascents + self._ceiling, ascents + self._floor

    def _extremes(self, rising: Array, falling: Array) -> list[tuple[float, float]]:
        """The largest ascent of those that may rise and the least of those that may fall."""
        return [
            (float(rising[g].max(initial=-np.inf)), float(falling[g].min(initial=np.inf)))
            for g in self._programme.groups
        ]

    def _objective(self, ascents: Array) -> float:
        """The value b'Kb / 2 + c'b, where Kb = -(ascents + c)."""
        return inner(self._coefficients, self._programme.linear - ascents) / 2

    # Rounds
    # ----------------------------------------------------------------------------------------

    def climb(
        self, *, precise: bool, report: Callable[[Callable[[], BoxSolution]], bool] | None
    ) -> None:
        """Rounds until the violation is small, or the objective no longer becomes smaller."""
        best, patience = np.inf, _PATIENCE[precise]
        # Rounded to float32 a matrix may have no minimum to be found: steps are left for float64.
        budget = self._left if precise else max(_LEAST_STEPS, _STEPS * len(self._up))
        last = max(self._left - budget, 0)
        while self._left > last and self._rounds < _ROUNDS and not self._stopped:
            ascents = self._ascents()
            largest = float(np.abs(ascents).max())
            rising, falling = self._split(ascents)
            extremes = self._extremes(rising, falling)
            self._violation = max(high - low for high, low in extremes)
            if self._violation <= self._target(largest, precise=precise):
                return
            if len(self._rounded):
                self._complete()
                continue
            objective = self._objective(ascents)
            shown = objective < best - _VISIBLE[precise] * abs(objective)
            patience, best = _PATIENCE[precise] if shown else patience - 1, min(best, objective)
            if patience == 0:
                return
            self._choose(rising, falling, extremes)
            try:
                self._round(ascents, largest, precise=precise, limit=self._left - last)
            except KeyboardInterrupt:
                if report is not None:
                    report(self.solution)
                raise
            self._stopped = report is not None and report(self.solution)

    def _target(self, largest: float, *, precise: bool) -> float:
        """The violation at which to stop, if the largest ascent is this."""
        return self._tol if precise else max(_NEARLY * self._tol, _NOISE * largest)

    def _round(self, ascents: Array, largest: float, *, precise: bool, limit: int) -> None:
        working = self._working
        rows = self._programme.rows[working]
        values, positions = self._matrix.block(rows, precise=precise)
        n_first = self._programme.n_first
        split = len(working) if n_first is None else int(np.searchsorted(working, n_first))
        up, down = self._up[working], self._down[working]
        box = self._programme.lower[working], self._programme.upper[working]
        before = self._coefficients[working]
        if len(self._up) <= _AT_ONCE:
            tolerance = _NEARLY * self._tol
        else:
            tolerance = max(_CLOSE * self._tol, _SHARE * self._violation)
        tolerance = max(tolerance, _EPS * largest)  # float64 has no more
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
        finally:  # after Ctrl-C too: what has been exchanged by then counts
            self._left -= max(steps, 1)
            self._rounds += 1
            self._coefficients[working] = _between(*box, up, down)
            changes = self._by_rows(rows, self._coefficients[working] - before)
            changed = np.flatnonzero(changes)
            increment = self._matrix.times(changed, changes[changed], precise=precise)
            self._product += increment
            # Of sums that cancel, rounding does not: what is large is their terms.
            diagonal = np.abs(values[positions, positions]).max(initial=0.0)
            terms = max(diagonal * np.abs(changes).sum(), np.abs(increment).max(initial=0.0))
            self._drift += _EPS * float(terms)
            self._up[working], self._down[working] = up, down
            self._ceiling[working], self._floor[working] = _barriers(up, down)

    def _choose(self, rising: Array, falling: Array, extremes: list[tuple[float, float]]) -> None:
        """The next working set: the worst violators, those between bounds, and some of the last."""
        m = len(rising)
        if m <= _AT_ONCE:
            self._working = np.flatnonzero((self._up > 0) | (self._down > 0))
            return
        rank = np.zeros(m, np.int8)
        rank[self._working] = 1
        between = self._ceiling == self._floor
        rank[between] += 2
        part = int(_PART * self._matrix.size)
        wanted = max(_NEW, part, int(_GROWTH * np.count_nonzero(between)))
        if not len(self._working):
            wanted = max(_FIRST, part)
        # At most half of the set, so that the worst are in it whatever else is.
        count = min(wanted, _MOST // 2) // (2 * len(extremes))
        for group, (high, low) in zip(self._programme.groups, extremes, strict=True):
            rank[group.start + _largest(rising[group], count, low)] = 4
            rank[group.start + _largest(-falling[group], count, -high)] = 4
        chosen = rank >= 2
        if np.count_nonzero(chosen) > _MOST:
            chosen = rank >= 3
        self._working = _at_most(_MOST, rank, np.flatnonzero(chosen))
        if len(self._working) < _LEAST:
            others = np.flatnonzero(rank == 1)[: _LEAST - len(self._working)]
            self._working = np.sort(np.concatenate([self._working, others]))

    # The result
    # ------------------------------------------------------------------------------------

    def solution(self) -> BoxSolution:
        """The solution as it is now."""
        programme = self._programme
        found = Certificates(
            programme.linear,
            self._coefficients,
            self._product[programme.rows],
            self._up,
            self._down,
            np.array([[group.start for group in programme.groups]]),
        )
        violation = float(found.violations[0])
        return BoxSolution(
            coefficients=self._coefficients.copy(),
            product=self._product,
            levels=tuple(found.levels[0].tolist()),
            squared_norm=float(found.squared_norms[0]),
            objective=float(found.objectives[0]),
            dual_gap=float(found.gaps[0]),
            violation=violation,
            n_iter=self._limit - max(self._left, 0),
            converged=violation <= self._tol,
        )


def _between(lower: Array, upper: Array, up: Array, down: Array) -> Array:
    """Variables from how far they may rise and fall.

    They are measured from the bound that is zero, where one is: beside a large bound, no digits of
    a small variable are lost.
    """
    found = np.where(upper == 0, -up, lower + down)
    return np.where(up == 0, upper, np.where(down == 0, lower, found))


def _barriers(up: Array, down: Array) -> tuple[Array, Array]:
    """Minus infinity for variables that cannot rise and infinity for those that cannot fall."""
    return np.where(up > 0, 0.0, -np.inf), np.where(down > 0, 0.0, np.inf)


def _largest(values: Array, count: int, bound: float) -> Positions:
    """The largest values above a bound, no more than so many of them."""
    found = np.flatnonzero(values > bound)
    if len(found) <= count:
        return found
    return found[np.argpartition(values[found], len(found) - count)[-count:]]


def _at_most(limit: int, rank: NDArray[np.int8], chosen: Positions) -> Positions:
    """No more than the limit, those of the highest rank first."""
    if len(chosen) <= limit:
        return chosen
    order = np.argsort(-rank[chosen], kind="stable")
    return np.sort(chosen[order[:limit]])
