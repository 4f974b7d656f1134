r"""Several quantiles on one Gram matrix, in order at every point.

The values of k functions are F = G T + 1 b' with G = K / alpha, and h_i is the loss of row i, which
is infinite where quantiles cross:

.. math:: \min_{T, b} \sum_i h_i(F_i) + \tfrac12 \operatorname{tr} T^\top G\, T
   = \max_T \sum_i y_i \sum_k T_{ik} - \tfrac12 \operatorname{tr} T^\top G\, T,
   \qquad -T_i \in \operatorname{dom} h_i^*,

where with intercepts the columns of T sum to zero. The method of multipliers [1]_ puts envelopes of
width gamma / w_i in the place of the losses, looked at from F - gamma C / w, where C are the
coefficients T of the round before: first those of each quantile alone, which are right but for the
neighbourhood of the crossings. A round is solved by Newton's method. A step has one unknown for
each free entry and each pair that meets (see `mercer.solvers.ordered`). Free entries of different
functions do not see each other, which leaves a factor for each function and one of the size of the
pairs, which are few. When entries have the kind that they have in the solution, gamma = 0 in the
same equations gives it exactly, and the gap between both sides above proves it.

.. [1] R. T. Rockafellar (1976). Augmented Lagrangians and applications of the proximal point
   algorithm in convex programming. Mathematics of Operations Research 1(2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.solvers.interior import Interior, Root
from mercer.solvers.newton import State, rounding
from mercer.solvers.ordered import Envelope, System

Array = NDArray[np.floating[Any]]

_FIRST, _FALL, _LEAST = 1.0, 0.3, 1e-11
_STEPS = 100
_PATIENCE = 150
_INTERIOR_STEPS = 100
_SHORT_STEP = 1e-2
_NEAR, _CLOSE, _LAST = 1e2, 1e-3, 1e-6
_THIN = 0.5
_EXCUSED = 100
_IDLE_STEPS = 5
_NEGLIGIBLE = 1e-6
_VIOLATION = 1e-9
_BISECTIONS = 60
_RESOLUTION = 1e-3
_RIDGE = 1e-10
_EPS = float(np.finfo(np.float64).eps)

# Functions that meet are kept this far apart, relative to the scale, lest rounding cross them.
_MARGIN = 1e-12


def minimise_in_order(
    gram: Array,
    targets: Array,
    weights: Array,
    levels: Array,
    alpha: float,
    apart: State,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield states of the joint problem in which quantiles do not cross at the points.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The Gram matrix.
    targets, weights : ndarray of shape (n,)
        The targets and their positive weights.
    levels : ndarray of shape (k,)
        The quantiles, in any order.
    alpha : float
        Positive weight of half the squared norm.
    apart : State
        The solution without regard to order.
    fit_intercept : bool
        Whether intercepts are fitted.
    tol : float
        The gap may be this part of the objective.
    max_iter : int
        The largest number of steps.

    Yields
    ------
    State
        Nothing if the functions do not cross as they are, which makes them the solution.
    """
    order = np.argsort(levels)
    back = np.argsort(order)
    problem = _Problem(gram, targets, weights, levels[order], alpha, fit_intercept)
    point = problem.at(apart.scaled[:, order], apart.intercept[order])
    if problem.is_in_order(point):
        return
    for state in _states(problem, point, tol, max_iter):
        yield replace(state, scaled=state.scaled[:, back], intercept=state.intercept[back])


def pooled(gram: Array, state: State, levels: Array, alpha: float) -> State:
    """Put functions in order at every point: those that cross give way to their mean.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The Gram matrix.
    state : State
        Functions of quantiles, perhaps crossing.
    levels : ndarray of shape (k,)
        The quantiles, in any order.
    alpha : float
        The weight of half the squared norm that belongs to the state.

    Returns
    -------
    State
        In order, and not the best that is: what to keep of a search that was stopped.
    """
    order = np.argsort(levels)
    columns = np.vstack([state.scaled, state.intercept])[:, order]
    values = gram @ columns[:-1] / alpha + columns[-1]
    margin = 16 * float(rounding(gram, columns[:-1] / alpha, values).max())
    runs: list[list[int]] = []
    for position in range(len(order)):
        runs.append([position])
        while len(runs) > 1 and _cross(values, runs[-2], runs[-1], margin):
            runs[-2:] = [runs[-2] + runs[-1]]
    for run in runs:
        columns[:, run] = columns[:, run].mean(axis=1, keepdims=True)
    columns = columns[:, np.argsort(order)]
    return replace(state, scaled=columns[:-1], intercept=columns[-1], converged=False)


def _cross(values: Array, lower: list[int], upper: list[int], margin: float) -> bool:
    rise = values[:, upper].mean(axis=1) - values[:, lower].mean(axis=1)
    return bool(np.any(rise < margin))


def _states(problem: _Problem, point: _Point, tol: float, max_iter: int) -> Iterator[State]:
    """One method, and where it does not prove its result, the other one."""
    root = Root.of(problem.gram / problem.alpha)
    found = _Certificate(problem, tol)
    ways = [
        _multipliers(problem, point, found, max_iter),
        _interior(problem, root, found, max_iter),
    ]
    for way in reversed(ways) if root.rank <= _THIN * len(problem.gram) else ways:
        yield from way
        if found.converged:
            return


def _multipliers(
    problem: _Problem, point: _Point, found: _Certificate, max_iter: int
) -> Iterator[State]:
    steps, most = 0, min(max_iter, _PATIENCE)
    gamma, centre = _FIRST * problem.scale, point.scaled
    while gamma >= _LEAST * problem.scale:
        view = _View(problem, centre, gamma)
        for _ in range(_STEPS):
            point, settled = view.step(point)
            steps += 1
            if settled or steps >= most:
                break
            yield found.state(point)
        yield found.improved(point, view)
        if found.converged or steps >= most:
            return
        centre, gamma = -view.at(point.residuals).slopes, _FALL * gamma


def _interior(problem: _Problem, root: Root, found: _Certificate, max_iter: int) -> Iterator[State]:
    way = Interior(
        root.factor,
        problem.targets,
        problem.weights,
        problem.levels,
        problem.scale,
        problem.fit_intercept,
    )
    idle, least = 0, max(_LAST * found.tol, _EPS)
    for _ in range(min(max_iter, _INTERIOR_STEPS)):
        try:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                length = way.step()
        except ValidityError:  # rounding has eaten the factor: this is as far as it leads
            return
        idle = idle + 1 if length < _SHORT_STEP else 0
        point = problem.at(root.inverse @ way.coordinates, way.intercept)
        if not np.isfinite(point.residuals).all():
            return
        gap = way.gap / way.objective
        if gap <= _NEAR * found.tol:  # from here on, rounding may make it worse
            found.tried([point], [way.scaled])
        if gap <= _CLOSE * found.tol and not found.converged:
            # As the centre is as good as the solution, any width tells the kinds of entries.
            found.improved(point, _View(problem, way.scaled, problem.scale))
        yield found.state(point)
        if (found.converged and gap <= _CLOSE * found.tol) or gap <= least or idle >= _IDLE_STEPS:
            return


@dataclass(frozen=True)
class _Point:
    """Coefficients and intercepts, G T, and the residuals F - y."""

    scaled: Array
    intercept: Array
    spread: Array
    residuals: Array

    def moved(self, intercept: Array) -> _Point:
        """The same functions, with other intercepts."""
        change = intercept - self.intercept
        return _Point(self.scaled, intercept, self.spread, self.residuals + change)

    def towards(self, other: _Point, length: float) -> _Point:
        """A point between this and another one."""
        return _Point(
            self.scaled + length * (other.scaled - self.scaled),
            self.intercept + length * (other.intercept - self.intercept),
            self.spread + length * (other.spread - self.spread),
            self.residuals + length * (other.residuals - self.residuals),
        )


class _Problem:
    def __init__(
        self,
        gram: Array,
        targets: Array,
        weights: Array,
        levels: Array,
        alpha: float,
        fit_intercept: bool,
    ) -> None:
        self.gram, self.targets, self.weights, self.levels = gram, targets, weights, levels
        self.alpha, self.fit_intercept = alpha, fit_intercept
        # With an intercept, any constant may be added to the kernel; this one keeps a small system
        # regular whose rows differ by nothing but the intercept.
        mean = float(np.mean(gram.diagonal())) / alpha
        self.constant = (mean or 1.0) if fit_intercept else 0.0
        spread = float(np.abs(targets - np.median(targets)).mean())
        self.scale = spread or float(np.abs(targets).max()) or 1.0

    def at(self, scaled: Array, intercept: Array) -> _Point:
        spread = self.gram @ scaled / self.alpha
        return _Point(scaled, intercept, spread, spread + intercept - self.targets[:, None])

    # Order --------------------------------------------------------------------------------------

    def is_in_order(self, point: _Point) -> bool:
        apart = np.all(np.diff(point.residuals, axis=1) >= self._margin(point), axis=0)
        columns = np.vstack([point.scaled, point.intercept])
        same = np.all(columns[:, 1:] == columns[:, :-1], axis=0)
        return bool(np.all(apart | same))

    def parted(self, point: _Point) -> _Point:
        """The functions moved apart, in order, by as much as they still cross."""
        if not self.fit_intercept:
            return point
        margin = self._margin(point)
        crossing = -np.diff(point.residuals, axis=1).min(axis=0)
        steps = np.where(crossing > -margin, crossing + margin, 0.0)
        offsets = np.concatenate([[0.0], np.cumsum(steps)])
        return point.moved(point.intercept + offsets - offsets.mean())

    def _margin(self, point: _Point) -> float:
        """How far apart functions have to be lest rounding cross them."""
        values = point.spread + point.intercept
        lost = rounding(self.gram, point.scaled / self.alpha, values)
        return _MARGIN * self.scale + 16 * float(lost.max())

    # Both sides of the gap ----------------------------------------------------------------------

    def primal(self, point: _Point) -> tuple[State, float]:
        """Functions with their loss and objective, infinite if they are not in order."""
        point = self.parted(point)
        slopes = np.where(point.residuals > 0, 1 - self.levels, -self.levels)
        loss = float(self.weights @ np.sum(slopes * point.residuals, axis=1))
        objective = loss + float(np.sum(point.scaled * point.spread)) / 2
        # Where rows depend on each other, coefficients may be huge and their sums rounding alone.
        sizes = self.gram.diagonal() @ np.sum(point.scaled**2, axis=1) / self.alpha
        objective += _EPS * float(sizes)
        if np.any(np.diff(point.residuals, axis=1) < -_VIOLATION * self.scale):
            objective = np.inf
        return State(point.scaled, point.intercept, loss, np.inf, False), objective

    def dual(self, scaled: Array) -> tuple[Array, float, float]:
        """Feasible coefficients near these, their lower bound of the objective, what it adds up.

        The projection on what is feasible is the derivative of the envelope of width 1 at y = 0.
        """
        shares = -scaled / self.weights[:, None]
        if self.fit_intercept:
            shares = shares + self.balance(shares, 1.0)
        scaled = -self.envelope(shares, 1.0).slopes
        energy = float(np.sum(scaled * (self.gram @ scaled))) / self.alpha
        bound = float(self.targets @ scaled.sum(axis=1)) - energy / 2
        size = float(np.abs(self.targets) @ np.abs(scaled).sum(axis=1))
        total = float(np.linalg.norm(scaled.sum(axis=0))) if self.fit_intercept else 0.0
        return scaled, -np.inf if total > 100 * _EPS * np.abs(scaled).sum() else bound, size

    def margin_cost(self, point: _Point | None = None) -> float:
        """What it may cost to keep functions apart, at a point also by its rounding."""
        margin = _MARGIN * self.scale if point is None else self._margin(point)
        return len(self.levels) * margin * float(self.weights.sum())

    def envelope(self, residuals: Array, gamma: float) -> Envelope:
        return Envelope(residuals, self.weights, self.levels, gamma)

    def balance(self, residuals: Array, gamma: float) -> Array:
        """What to add to residuals so that the slopes of each function sum to zero."""
        shift = np.zeros(residuals.shape[1])
        total, least, idle = float(self.weights.sum()), np.inf, 0
        for _ in range(_STEPS):
            here = self.envelope(residuals + shift, gamma)
            gradient = here.slopes.sum(axis=0)
            size = float(np.abs(gradient).max())
            idle = 0 if size < least / 2 else idle + 1
            if size <= 4 * _EPS * total or idle >= _IDLE_STEPS:  # as small as rounding lets it be
                break
            least = min(least, size)
            curvature = here.curvature()
            curvature.flat[:: len(curvature) + 1] += _RIDGE * total / gamma
            change = -np.linalg.solve(curvature, gradient)
            shift = shift + self._balancing(residuals + shift, change, gamma) * change
        return shift

    def _balancing(self, residuals: Array, change: Array, gamma: float) -> float:
        def slope(length: float) -> float:
            slopes = self.envelope(residuals + length * change, gamma).slopes
            return float(slopes.sum(axis=0) @ change)

        return _length(slope)


class _View:
    """The smoothed problem of one round."""

    def __init__(self, problem: _Problem, centre: Array, gamma: float) -> None:
        self.problem, self.centre, self.gamma = problem, centre, gamma

    def at(self, residuals: Array) -> Envelope:
        moved = self.gamma * self.centre / self.problem.weights[:, None]
        return self.problem.envelope(residuals - moved, self.gamma)

    def step(self, point: _Point) -> tuple[_Point, bool]:
        """One Newton step; True if it has led to the minimum."""
        here = self.at(point.residuals)
        if self.problem.fit_intercept and not here.free.any(axis=0).all():
            # Newton's method cannot move the intercept of a function without free entries.
            shift = self.problem.balance(here.residuals, self.gamma)
            point = point.moved(point.intercept + shift)
            here = self.at(point.residuals)
        new = self.landed(here, point.intercept, self.gamma)
        change, spread = new.residuals - point.residuals, new.spread - point.spread
        linear = float(np.sum(point.scaled * spread))
        quadratic = float(np.sum((new.scaled - point.scaled) * spread))

        def slope(length: float) -> float:
            slopes = self.at(point.residuals + length * change).slopes
            return float(np.sum(slopes * change)) + linear + length * quadratic

        length = _length(slope)
        moved = point.towards(new, length)
        same = length == 1.0 and here.same_kinds(self.at(moved.residuals))
        # What is left to gain is little beside what this round is away from the next.
        away = (here.slopes + self.centre) ** 2 / self.problem.weights[:, None]
        lost = _EPS * float(np.sum(np.abs(here.slopes * change)))
        little = _NEGLIGIBLE * self.gamma / 2 * float(np.sum(away)) + 10 * lost
        return moved, same or -slope(0.0) <= little

    def landed(self, here: Envelope, intercept: Array, gamma: float) -> _Point:
        """The solution, if all entries keep their kind: F + gamma (T - C) / w is y where free."""
        problem = self.problem
        system = System(problem.gram, problem.alpha, problem.constant, here)
        known, ridge = here.known(), gamma / problem.weights
        units = np.eye(len(intercept))
        sees = np.column_stack(
            [system.gathered(np.broadcast_to(unit, known.shape)) for unit in units]
        )
        aims = np.where(here.free, problem.targets[:, None], 0.0) + ridge[:, None] * self.centre
        right = system.gathered(aims - system.times(known) - intercept)
        solved = system.solve(np.column_stack([right, sees]), ridge)
        found, borders = solved[:, 0], solved[:, 1:]
        if problem.fit_intercept:
            # Functions without a free entry keep their intercept: least squares.
            missing = known.sum(axis=0) + sees.T @ found
            shift = np.linalg.lstsq(sees.T @ borders, missing, rcond=1e-13)[0]
            found, intercept = found - borders @ shift, intercept + shift
        return problem.at(known + system.scattered(found), intercept)


class _Certificate:
    """The best functions and the best lower bound seen so far, and the gap between them."""

    def __init__(self, problem: _Problem, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.best: State | None = None
        self.converged = False
        self._objective, self._bound = np.inf, -np.inf

    def state(self, point: _Point) -> State:
        """The best functions, or where a search stands that has not led to any in order."""
        return self.best or State(point.scaled, point.intercept, np.inf, np.inf, False)

    def improved(self, point: _Point, view: _View) -> State:
        """The best functions after one more round, which may have led to the kinds of entries."""
        exact = view.landed(view.at(point.residuals), point.intercept, 0.0)
        return self.tried([point, exact], [point.scaled, exact.scaled])

    def tried(self, points: list[_Point], multipliers: list[Array]) -> State:
        """The best functions after these, with lower bounds by coefficients that may be others."""
        last, slack = points[-1], 0.0
        for coefficients in multipliers:
            scaled, bound, size = self.problem.dual(coefficients)
            self._bound, slack = max(self._bound, bound), max(slack, 100 * _EPS * size)
            self._consider(self.problem.at(scaled, last.intercept))
        for point in points:
            self._consider(point)
        if self.best is None:  # nothing is in order yet
            return self.state(last)
        gap = abs(self._objective - self._bound)  # below zero, it is a measure of rounding
        # Rounding is an excuse, as long as what was found is near the solution.
        enough, slack = self.tol * self._objective, max(slack, self.problem.margin_cost(last))
        excuse = self.problem.margin_cost() + min(slack, _EXCUSED * enough)
        self.converged = bool(gap <= enough + excuse)
        self.best = replace(self.best, error=gap, converged=self.converged)
        return self.best

    def _consider(self, point: _Point) -> None:
        state, objective = self.problem.primal(point)
        if objective < self._objective:
            self.best, self._objective = state, objective


def _length(slope: Callable[[float], float]) -> float:
    """How far to go: to the minimum along a line, at most the whole way."""
    if slope(1.0) <= _RESOLUTION * abs(slope(0.0)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
        if high - low <= _RESOLUTION * high:
            break
    return (low + high) / 2
