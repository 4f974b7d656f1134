r"""Several quantiles on one Gram matrix, in order at every point.

The values of k functions are F = G T + 1 b' with G = K / alpha, and h_i is the loss of row i, which
is infinite where quantiles cross:

.. math:: \min_{T, b} \sum_i h_i(F_i) + \tfrac12 \operatorname{tr} T^\top G\, T
   = \max_T \sum_i y_i \sum_k T_{ik} - \tfrac12 \operatorname{tr} T^\top G\, T,
   \qquad -T_i \in \operatorname{dom} h_i^*,

where with intercepts the columns of T sum to zero. The method of multipliers [1]_ replaces the
losses by their envelopes of width gamma / w_i at F - gamma C / w, where C are the coefficients T of
the previous round; the first round starts from quantiles that were fitted separately, which are
right except near the crossings. A round is solved by Newton's method. A step has one unknown per
free entry and per pair of tied entries (see `kinks.isotonic`). Free entries of different functions
are not coupled, so that one factor per function and a small one for the pairs are enough. When the
active set is that of the solution, Newton's equations with gamma = 0 give the exact solution, and
the duality gap above proves it.

Ties, unequal weights and many quantiles slow down these rounds, but not an interior-point method
(see `kinks.interior_point`). The steps of that method become more expensive as the rank of the
matrix grows, so that it is tried first only if the rank is small.

.. [1] R. T. Rockafellar (1976). Augmented Lagrangians and applications of the proximal point
   algorithm in convex programming. Mathematics of Operations Research 1(2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mercer.arrays import EPS, Array
from mercer.exceptions import ValidityError
from mercer.linalg.line_search import length_to_minimum
from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.kinks.certificate import Certificate
from mercer.solvers.kinks.interior_point import InteriorPoint, Root
from mercer.solvers.kinks.isotonic import Envelope, System
from mercer.solvers.kinks.joint_quantiles import Point, Problem
from mercer.solvers.newton.dense import value_rounding
from mercer.solvers.newton.method import State

# Ratio of the widths of the envelopes in successive rounds.
_FALL = 0.3
# Smallest width, relative to the scale of the targets.
_LEAST = 1e-11
# Largest number of Newton steps per round.
_STEPS = 100
# Largest number of Newton steps in all rounds.
_PATIENCE = 150
# Largest number of steps of the interior-point method.
_INTERIOR_STEPS = 100
# Rank, relative to the number of rows, up to which the interior-point method is faster.
_THIN = 0.5
# Interior point: relative gap, in tolerances, below which every step is certified.
_NEAR = 1e2
# Interior point: relative gap, in tolerances, below which a certified solution is returned.
_CLOSE = 1e-3
# Interior point: relative gap, in tolerances, below which it stops in any case.
_LAST = 1e-6
# Interior point: step length below which a step counts as idle.
_SHORT_STEP = 1e-2
# Interior point: number of successive idle steps before it stops.
_IDLE_STEPS = 5
# A predicted decrease is negligible up to this share of the distance to the next round.
_NEGLIGIBLE = 1e-6


def minimise_in_order(
    gram: Array | LowRankMatrix,
    targets: Array,
    weights: Array,
    levels: Array,
    alpha: float,
    alone: State,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield states of the joint problem, unless quantiles fitted separately do not cross.

    A converged state `alone` is yielded first; it counts as converged only if it does not cross.
    """
    order = np.argsort(levels)
    inverse = np.argsort(order)
    problem = Problem(gram, targets, weights, levels[order], alpha, fit_intercept)
    point = problem.at(alone.coef[:, order], alone.intercept[order])
    in_order = problem.is_in_order(point)
    if alone.converged:
        yield replace(alone, converged=in_order)
    if in_order:
        return
    for state in _states(problem, point, tol, max_iter):
        yield replace(state, coef=state.coef[:, inverse], intercept=state.intercept[inverse])


def pooled(gram: Array | LowRankMatrix, state: State, levels: Array, alpha: float) -> State:
    """Replace functions that cross by their mean, so that they are in order at every point."""
    order = np.argsort(levels)
    columns = np.vstack([state.coef, state.intercept])[:, order]
    values = gram @ columns[:-1] / alpha + columns[-1]
    margin = 16 * float(value_rounding(gram, columns[:-1] / alpha, values).max())
    runs: list[list[int]] = []
    for position in range(len(order)):
        runs.append([position])
        while len(runs) > 1 and _cross(values, runs[-2], runs[-1], margin):
            runs[-2:] = [runs[-2] + runs[-1]]
    for run in runs:
        columns[:, run] = columns[:, run].mean(axis=1, keepdims=True)
    columns = columns[:, np.argsort(order)]
    return replace(state, coef=columns[:-1], intercept=columns[-1], converged=False)


def _cross(values: Array, lower: list[int], upper: list[int], margin: float) -> bool:
    rise = values[:, upper].mean(axis=1) - values[:, lower].mean(axis=1)
    return bool(np.any(rise < margin))


def _states(problem: Problem, point: Point, tol: float, max_iter: int) -> Iterator[State]:
    """Yield the states of one method and, if its result is not certified, of the other one."""
    root = Root.of(problem.gram, problem.alpha)
    certificate = Certificate(tol, problem.constant_loss)
    methods = [
        _multipliers(problem, point, certificate, max_iter),
        _interior(problem, root, certificate, max_iter),
    ]
    thin = root.rank <= _THIN * len(problem.gram)
    if isinstance(problem.gram, LowRankMatrix) and thin:  # multipliers need blocks of many rows
        methods = methods[1:]
    for states in reversed(methods) if thin else methods:
        try:
            yield from states
        except ValidityError:  # rounding errors left no Cholesky factor
            yield certificate.best or point.state()
        if certificate.converged:
            return


def _multipliers(
    problem: Problem, point: Point, certificate: Certificate, max_iter: int
) -> Iterator[State]:
    """The method of multipliers."""
    steps, most = 0, min(max_iter, _PATIENCE)
    gamma, centre = problem.scale, point.coef
    while gamma >= _LEAST * problem.scale:
        smoothed = _SmoothedProblem(problem, centre, gamma)
        for _ in range(_STEPS):
            point, settled = smoothed.step(point)
            steps += 1
            if settled or steps >= most:
                break
            yield certificate.best or point.state()
        yield _certify_exact(certificate, point, smoothed)
        if certificate.converged or steps >= most:
            return
        centre, gamma = -smoothed.at(point.residuals).slopes, _FALL * gamma


def _interior(
    problem: Problem, root: Root, certificate: Certificate, max_iter: int
) -> Iterator[State]:
    """The interior-point method."""
    path = InteriorPoint(problem, root.factor)
    tol, idle = certificate.tol, 0
    for _ in range(min(max_iter, _INTERIOR_STEPS)):
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            length = path.step()
        idle = idle + 1 if length < _SHORT_STEP else 0
        point = problem.at(root.inverse @ path.coordinates, path.intercept)
        if not np.isfinite(point.residuals).all():
            return
        gap = path.gap / path.objective
        close = gap <= _CLOSE * tol
        if gap <= _NEAR * tol:  # rounding may make later steps worse
            problem.certify(certificate, [point], [path.coef])
        if close and not certificate.converged:
            # Near the solution the active set does not depend on the width.
            smoothed = _SmoothedProblem(problem, path.coef, problem.scale)
            _certify_exact(certificate, point, smoothed)
        yield certificate.best or point.state()
        finished = (certificate.converged and close) or gap <= max(_LAST * tol, EPS)
        if finished or idle >= _IDLE_STEPS:
            return


def _certify_exact(certificate: Certificate, point: Point, smoothed: _SmoothedProblem) -> State:
    """The best functions after a round, with the exact solution for its active set."""
    exact = smoothed.full_step(smoothed.at(point.residuals), point.intercept, 0.0)
    return smoothed.problem.certify(certificate, [point, exact], [point.coef, exact.coef])


class _SmoothedProblem:
    """The smoothed problem of one round."""

    def __init__(self, problem: Problem, centre: Array, gamma: float) -> None:
        self.problem, self.centre, self.gamma = problem, centre, gamma

    def at(self, residuals: Array) -> Envelope:
        shift = self.gamma * self.centre / self.problem.weights[:, None]
        return self.problem.envelope(residuals - shift, self.gamma)

    def step(self, point: Point) -> tuple[Point, bool]:
        """One Newton step, and whether it has led to the minimum."""
        here = self.at(point.residuals)
        if self.problem.fit_intercept and not here.free.any(axis=0).all():
            # Newton's method cannot move the intercept of a function without free entries.
            shift = self.problem.balance(here.residuals, self.gamma)
            point = point.with_intercept(point.intercept + shift)
            here = self.at(point.residuals)
        new = self.full_step(here, point.intercept, self.gamma)
        change, gram_change = new.residuals - point.residuals, new.gram_coef - point.gram_coef
        linear = float(np.sum(point.coef * gram_change))
        quadratic = float(np.sum((new.coef - point.coef) * gram_change))

        def slope(length: float) -> float:
            slopes = self.at(point.residuals + length * change).slopes
            return float(np.sum(slopes * change)) + linear + length * quadratic

        length = length_to_minimum(slope)
        moved = point.towards(new, length)
        same = length == 1.0 and here.has_active_set_of(self.at(moved.residuals))
        # Stop when the predicted decrease is negligible beside the distance to the next round.
        distance = (here.slopes + self.centre) ** 2 / self.problem.weights[:, None]
        rounding = EPS * float(np.sum(np.abs(here.slopes * change)))
        negligible = _NEGLIGIBLE * self.gamma / 2 * float(np.sum(distance)) + 10 * rounding
        return moved, same or -slope(0.0) <= negligible

    def full_step(self, here: Envelope, intercept: Array, gamma: float) -> Point:
        """The solution for the active set of an envelope: F + gamma (T - C) / w is y where free."""
        problem = self.problem
        system = System(problem.gram, problem.alpha, problem.constant, here)
        known, ridge = here.known(), gamma / problem.weights
        units = np.eye(len(intercept))
        constants = np.column_stack(
            [system.gather(np.broadcast_to(unit, known.shape)) for unit in units]
        )
        goals = np.where(here.free, problem.targets[:, None], 0.0) + ridge[:, None] * self.centre
        right = system.gather(goals - system.times(known) - intercept)
        solved = system.solve(np.column_stack([right, constants]), ridge)
        solution, borders = solved[:, 0], solved[:, 1:]
        if problem.fit_intercept:
            # Least squares leaves the intercept of a function without free entries unchanged.
            missing = known.sum(axis=0) + constants.T @ solution
            shift = np.linalg.lstsq(constants.T @ borders, missing, rcond=1e-13)[0]
            solution, intercept = solution - borders @ shift, intercept + shift
        return problem.at(known + system.scatter(solution), intercept)
