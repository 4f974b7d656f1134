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
each free entry and each pair that meets (see `kinks.isotonic`). Free entries of different
functions do not see each other, which leaves a factor for each function and one of the size of the
pairs, which are few. When entries have the kind that they have in the solution, gamma = 0 in the
same equations gives it exactly, and the gap between both sides above proves it.

Ties, weights of many sizes and many quantiles make these rounds long. They do not matter to an
interior-point method (see `kinks.interior_point`), whose steps cost as much as the matrix has
eigenvalues. So where these are few it comes first, and else where the rounds do not end soon.

.. [1] R. T. Rockafellar (1976). Augmented Lagrangians and applications of the proximal point
   algorithm in convex programming. Mathematics of Operations Research 1(2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.solvers.kinks.interior_point import Interior, Root
from mercer.solvers.kinks.isotonic import Envelope, System
from mercer.solvers.kinks.joint_quantiles import Certificate, Point, Problem, length_along
from mercer.solvers.newton.dense import State, rounding

Array = NDArray[np.floating[Any]]

_FIRST, _FALL, _LEAST = 1.0, 0.3, 1e-11
_STEPS = 100

# The method of multipliers gets so many steps in all, the interior-point method so many.
_PATIENCE, _INTERIOR_STEPS = 150, 100

# Where the matrix has so few eigenvalues, in parts of its rows, the latter is the faster one.
_THIN = 0.5

# In tolerances: a gap worth proving, a gap to stop at once it is proved, and one to stop at anyway.
_NEAR, _CLOSE, _LAST = 1e2, 1e-3, 1e-6
_SHORT_STEP = 1e-2
_IDLE_STEPS = 5
_NEGLIGIBLE = 1e-6
_EPS = float(np.finfo(np.float64).eps)


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
    """Yield states of the joint problem in which quantiles do not cross at the points."""
    order = np.argsort(levels)
    back = np.argsort(order)
    problem = Problem(gram, targets, weights, levels[order], alpha, fit_intercept)
    point = problem.at(apart.scaled[:, order], apart.intercept[order])
    if problem.is_in_order(point):
        return
    for state in _states(problem, point, tol, max_iter):
        yield replace(state, scaled=state.scaled[:, back], intercept=state.intercept[back])


def pooled(gram: Array, state: State, levels: Array, alpha: float) -> State:
    """Put functions in order at every point: those that cross give way to their mean."""
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


def _states(problem: Problem, point: Point, tol: float, max_iter: int) -> Iterator[State]:
    """One method, and where it does not prove its result, the other one."""
    root = Root.of(problem.gram / problem.alpha)
    found = Certificate(problem, tol)
    ways = [
        _multipliers(problem, point, found, max_iter),
        _interior(problem, root, found, max_iter),
    ]
    for way in reversed(ways) if root.rank <= _THIN * len(problem.gram) else ways:
        try:
            yield from way
        except ValidityError:  # rounding has eaten a factor: this is as far as it leads
            yield found.state(point)
        if found.converged:
            return


def _multipliers(
    problem: Problem, point: Point, found: Certificate, max_iter: int
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
        yield _improved(found, point, view)
        if found.converged or steps >= most:
            return
        centre, gamma = -view.at(point.residuals).slopes, _FALL * gamma


def _interior(problem: Problem, root: Root, found: Certificate, max_iter: int) -> Iterator[State]:
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
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            length = way.step()
        idle = idle + 1 if length < _SHORT_STEP else 0
        point = problem.at(root.inverse @ way.coordinates, way.intercept)
        if not np.isfinite(point.residuals).all():
            return
        gap = way.gap / way.objective
        if gap <= _NEAR * found.tol:  # from here on, rounding may make it worse
            found.tried([point], [way.scaled])
        if gap <= _CLOSE * found.tol and not found.converged:
            # As the centre is as good as the solution, any width tells the kinds of entries.
            _improved(found, point, _View(problem, way.scaled, problem.scale))
        yield found.state(point)
        if (found.converged and gap <= _CLOSE * found.tol) or gap <= least or idle >= _IDLE_STEPS:
            return


def _improved(found: Certificate, point: Point, view: _View) -> State:
    """The best functions after one more round, which may have led to the kinds of entries."""
    exact = view.landed(view.at(point.residuals), point.intercept, 0.0)
    return found.tried([point, exact], [point.scaled, exact.scaled])


class _View:
    """The smoothed problem of one round."""

    def __init__(self, problem: Problem, centre: Array, gamma: float) -> None:
        self.problem, self.centre, self.gamma = problem, centre, gamma

    def at(self, residuals: Array) -> Envelope:
        moved = self.gamma * self.centre / self.problem.weights[:, None]
        return self.problem.envelope(residuals - moved, self.gamma)

    def step(self, point: Point) -> tuple[Point, bool]:
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

        length = length_along(slope)
        moved = point.towards(new, length)
        same = length == 1.0 and here.same_kinds(self.at(moved.residuals))
        # What is left to gain is little beside what this round is away from the next.
        away = (here.slopes + self.centre) ** 2 / self.problem.weights[:, None]
        lost = _EPS * float(np.sum(np.abs(here.slopes * change)))
        little = _NEGLIGIBLE * self.gamma / 2 * float(np.sum(away)) + 10 * lost
        return moved, same or -slope(0.0) <= little

    def landed(self, here: Envelope, intercept: Array, gamma: float) -> Point:
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
