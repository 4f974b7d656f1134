r"""Newton's method for a smooth convex loss of the functions of a span, from sums over rows.

With coordinates v in which the squared norm is |v|^2 (`spans.Span`), the functions minimise

.. math:: \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac\alpha2 \|v\|^2, \qquad f(x) = \phi(x)^\top v + b .

`directions.DirectNewton` computes the Hessian, n m^2 operations, in one pass over the rows per
step: the pass also gives the losses at several step lengths and the gradient at the full step.
`directions.InexactNewton` solves Newton's equations by conjugate gradients, each iteration a pass
of n m operations, preconditioned by the Hessian of a sample of rows.

The first steps use larger values of alpha, which decrease to the requested one, and a sample of the
rows if there are many. Few steps on all rows are needed after them. See Marteau-Ferey, Bach and
Rudi (2019), Globally convergent Newton methods for ill-conditioned generalized self-concordant
losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from mercer.arrays import EPS, Array
from mercer.linalg.line_search import decreases_enough
from mercer.rows.rows import RowSource
from mercer.solvers.newton import method
from mercer.solvers.newton.method import Start, State, is_small
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span_sums import (
    Coefficients,
    HessianProduct,
    HessianSums,
    LineSearch,
    LineSearchSums,
    LossesAt,
    WeightSums,
)
from mercer.solvers.newton.spans import Span

# Step lengths that are tried in one pass.
_LENGTHS = tuple(0.5**i for i in range(12))
# Shortest step length that is tried.
_SHORTEST = 1e-12
# A full step is taken if the slope at its end is at most this share of the slope at its start.
_FLAT = 0.9

# Ratio of successive alphas during the first steps.
_FALL = 10.0
# The first alpha, as a share of the weighted sum of k(x, x).
_FIRST = 1 / 300
# Newton steps per larger alpha.
_STEPS_OF_PATH = 2
# Tolerance of the relative gradient at larger alphas.
_TOL_OF_PATH = 0.1
# Smallest number of sampled rows per coordinate.
_ROWS_PER_COORDINATE = 8
# Smallest number of sampled rows.
_FEWEST = 4000
# Smallest ratio of all rows to sampled rows for which a sample is used.
_WORTH_A_SAMPLE = 8


@dataclass(frozen=True, eq=False)
class Point:
    """Coordinates v and intercepts b, with the objective and its gradient."""

    coordinates: Array  # (m, k)
    intercept: Array  # (k,)
    sums: LineSearchSums
    gradient: Array  # (m, k): gradient of the objective in v
    objective: float
    rounding: float  # rounding error of a difference of two objectives
    full_step: bool = True  # whether the last step was a full step


class NewtonDirection(Protocol):
    """A method that computes the search direction."""

    needs_hessian: ClassVar[bool]  # whether the method needs the Hessian of all rows

    def __call__(self, problem: Problem, point: Point) -> Start:
        """Changes of coordinates and intercepts."""
        ...


@dataclass(frozen=True, eq=False)
class Problem:
    """A smooth loss of the functions of a span."""

    rows: RowSource
    span: Span
    loss: RowLoss
    alpha: float  # positive weight of half the squared norm
    fit_intercept: bool  # whether intercepts are fitted, or keep their initial values
    direction: NewtonDirection
    tol: float  # tolerance of the relative gradient
    stride: int = 1  # 1 for all rows, more for a sample of them

    def at(self, coordinates: Array, intercept: Array, needs_hessian: bool = True) -> Point:
        """Evaluate the objective and its gradient, by a pass over the rows."""
        still = Coefficients(np.zeros_like(coordinates), np.zeros_like(intercept))
        start = self.coefficients(coordinates, intercept)
        wanted = needs_hessian and self.direction.needs_hessian
        search = LineSearch(self.span, self.loss, start, still, (0.0,), self.stride, wanted)
        return self._point(coordinates, intercept, self.rows.map_sum(search))

    def coefficients(self, coordinates: Array, intercept: Array) -> Coefficients:
        """The coefficients that rows are multiplied with."""
        return Coefficients(self.span.to_coefficients(coordinates), intercept)

    def hessians(
        self, point: Point, loss: RowLoss | None = None, stride: int | None = None
    ) -> Array:
        """One Hessian for each factor of the loss; unit curvature if the loss has none."""
        hessians = point.sums.hessians
        at = Coefficients(point.coordinates, point.intercept)
        summand = HessianSums(self.span, loss or self.loss, at, stride or self.stride)
        if not hessians.size or loss is not None:
            hessians = self.rows.map_sum(summand)
        if not hessians[:, -1, -1].any():
            hessians = self.rows.map_sum(replace(summand, unit_curvature=True))
        return hessians

    def hessian_product(self, point: Point, coordinates: Array, intercept: Array) -> Start:
        """The Hessian of the objective times a direction."""
        at = self.coefficients(point.coordinates, point.intercept)
        direction = self.coefficients(coordinates, intercept)
        sums = self.rows.map_sum(HessianProduct(self.span, self.loss, at, direction, self.stride))
        in_coordinates = self.span.gradient_to_coordinates(sums.coef)
        return in_coordinates + self.alpha * coordinates, sums.intercept

    def step(self, point: Point, state: State | None) -> Point:
        """Take one step; return `point` if no step decreases the objective.

        A full step is taken if it decreases the objective enough and does not end far beyond the
        minimum along its line, otherwise the best of several shorter steps.
        """
        change, change_intercept = self.direction(self, point)
        slope = float(np.sum(point.gradient * change))
        slope += float(point.sums.grad_intercept @ change_intercept)
        start = self.coefficients(point.coordinates, point.intercept)
        line = self.coefficients(change, change_intercept)
        # The pass also computes Hessians, unless this step is likely to be shortened or the last.
        needs_hessian = self.direction.needs_hessian and (
            state is None or (point.full_step and state.residual > np.sqrt(self.tol))
        )
        scale = 1.0
        while scale > _SHORTEST:
            lengths = scale * np.array(_LENGTHS)
            wanted, steps = needs_hessian and scale == 1, tuple(lengths)
            search = LineSearch(self.span, self.loss, start, line, steps, self.stride, wanted)
            sums = self.rows.map_sum(search)
            ends = point.coordinates + lengths[:, None, None] * change
            values = sums.losses + self.alpha / 2 * np.sum(ends**2, axis=(1, 2))
            end_slope = sums.slopes[0] + self.alpha * float(np.sum(ends[0] * change))
            gain = float(values[0]) - point.objective
            enough = decreases_enough(gain, scale * slope, point.rounding)
            if enough and end_slope <= _FLAT * abs(slope):
                intercept = point.intercept + scale * change_intercept
                return replace(self._point(ends[0], intercept, sums), full_step=scale == 1)
            best = int(np.argmin(values))
            if values[best] < point.objective:
                intercept = point.intercept + lengths[best] * change_intercept
                shortened = self.at(ends[best], intercept, needs_hessian)
                return replace(shortened, full_step=False)
            scale = float(lengths[-1]) / 2
        return replace(point, full_step=False)

    def state(self, point: Point, stalled: bool) -> State:
        """The state of a point, with the gradient relative to the terms that cancel in it."""
        sums, tol = point.sums, self.tol
        error, terms = float(np.linalg.norm(point.gradient)), self.gradient_terms(point)
        slopes, curvatures, products = np.sqrt(sums.sizes)
        max_norm, size = self.span.max_norm, self._value_size(point.coordinates)
        rounding = self.span.whitening_condition * slopes + curvatures * size
        rounding *= 8 * stalled * EPS * max_norm
        parts = max_norm * np.sqrt(len(self.rows)) * float(slopes + products)
        residual, bound = error / terms if terms > 0 else 0.0, error**2 / (2 * self.alpha)
        # By strong convexity the objective is at most `bound` above its minimum.
        at_rounding = stalled and bound <= EPS * abs(point.objective)
        small = at_rounding or is_small(error, terms, tol, rounding, parts)
        if self.fit_intercept:
            total = float(np.linalg.norm(sums.grad_intercept))
            terms = float(sums.abs_grad_intercept.sum())
            rounding = 8 * stalled * EPS * (terms + np.sqrt(len(self.rows)) * curvatures * size)
            small = small and is_small(total, terms, tol, rounding)
            residual = max(residual, total / terms if terms > 0 else 0.0)
            error = float(np.hypot(error, total))
        solution = point.coordinates, point.intercept, float(sums.losses[0])
        return State(*solution, error, small, residual, bound)

    def gradient_terms(self, point: Point) -> float:
        """The sum of the norms of the gradients of the loss and of the penalty."""
        penalty = self.alpha * point.coordinates
        return float(np.linalg.norm(penalty) + np.linalg.norm(point.gradient - penalty))

    def _value_size(self, coordinates: Array) -> float:
        """A bound of the terms that are summed to function values, for their rounding error."""
        size = float(np.linalg.norm(self.span.to_coefficients(coordinates)))
        return size * self.span.max_norm ** (1 if self.span.whitened else 2)

    def share(self, stride: int) -> float:
        """The share of the weight of the rows that a sample of them has."""
        few, total = (
            self.rows.map_sum(WeightSums(self.span, step))[0] for step in (stride, self.stride)
        )
        return float(few / total)

    def _point(self, coordinates: Array, intercept: Array, sums: LineSearchSums) -> Point:
        gradient = self.span.gradient_to_coordinates(sums.grad_coef) + self.alpha * coordinates
        objective = float(sums.losses[0]) + self.alpha / 2 * float(np.sum(coordinates**2))
        values = float(np.sqrt(sums.sizes[0])) * self._value_size(coordinates)
        rounding = 4 * EPS * (abs(objective) + values)
        return Point(coordinates, intercept, sums, gradient, objective, rounding)


def descend(problem: Problem, start: Start, max_iter: int) -> Iterator[State]:
    """Minimise; a cold start takes steps at larger alphas first, on a sample of many rows."""
    if start[0].any() or not len(problem.span):
        yield from method.minimise(problem, start, max_iter)
        return
    steps, last = 0, start
    sample = _sample(problem)
    candidates = [start]
    for stage in [*_larger_alphas(sample), *([sample] if sample.stride > 1 else [])]:
        allowed = min(_STEPS_OF_PATH, max_iter - 1 - steps)
        if allowed < 1:
            break
        for state in method.minimise(replace(stage, tol=_TOL_OF_PATH), last, allowed):
            steps, last = steps + 1, (state.coef, state.intercept)
            yield replace(state, converged=False)
        candidates.append(last)
    # The minimiser of a sample may be poor for all rows, in particular if alpha is small.
    start = _best(problem, candidates) if sample.stride > 1 else last
    yield from method.minimise(problem, start, max_iter - steps)


def _sample(problem: Problem) -> Problem:
    """The problem on a sample of the rows, with alpha times the sample's share of the weight."""
    fewest = max(_FEWEST, _ROWS_PER_COORDINATE * len(problem.span))
    stride = problem.rows.statistics.rows // fewest
    if stride < _WORTH_A_SAMPLE:
        return problem
    return replace(problem, stride=stride, alpha=problem.alpha * problem.share(stride))


def _larger_alphas(problem: Problem) -> Iterator[Problem]:
    """The problem at a decreasing sequence of alphas above the requested one."""
    largest = _FIRST * problem.rows.map_sum(WeightSums(problem.span, problem.stride))[1]
    if problem.alpha < largest:
        falls = int(np.log(largest / problem.alpha) / np.log(_FALL))
        for fall in range(falls, 0, -1):
            yield replace(problem, alpha=problem.alpha * _FALL**fall)


def _best(problem: Problem, candidates: list[Start]) -> Start:
    """The candidate with the smallest objective, by one pass over the rows."""
    coefficients = tuple(problem.coefficients(*each) for each in candidates)
    values = problem.rows.map_sum(LossesAt(problem.span, problem.loss, coefficients))
    values = values + [problem.alpha / 2 * np.sum(each[0] ** 2) for each in candidates]
    return candidates[int(np.argmin(values))]
