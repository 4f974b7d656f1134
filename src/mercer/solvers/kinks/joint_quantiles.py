r"""Quantiles that must not cross: the joint problem of `kinks.quantiles` and its duality gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import EPS, Array
from mercer.linalg.line_search import length_to_minimum
from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.kinks.certificate import Certificate
from mercer.solvers.kinks.isotonic import Envelope
from mercer.solvers.newton.dense import value_rounding
from mercer.solvers.newton.method import State

# Largest number of Newton steps for intercepts.
_STEPS = 100
# Number of successive steps that do not halve the gradient before the iterations stop.
_IDLE_STEPS = 5
# Crossing up to which functions count as in order, relative to the scale of the targets.
_VIOLATION = 1e-9
# Ridge of the Hessian in the intercepts, relative to the sum of weights over the width.
_RIDGE = 1e-10
# Distance kept between functions, relative to the scale, so that rounding does not cross them.
_MARGIN = 1e-12
# Smallest gain, in tolerances, for which coefficients that are not dual feasible are preferred.
_WORTHWHILE = 0.1


@dataclass(frozen=True)
class Point:
    """Coefficients and intercepts, G T, and the residuals F - y."""

    coef: Array
    intercept: Array
    gram_coef: Array
    residuals: Array

    def state(self) -> State:
        """A state without loss and error, for functions that may cross."""
        return State(self.coef, self.intercept, np.inf, np.inf, False)

    def with_intercept(self, intercept: Array) -> Point:
        """The point with other intercepts."""
        change = intercept - self.intercept
        return Point(self.coef, intercept, self.gram_coef, self.residuals + change)

    def towards(self, other: Point, length: float) -> Point:
        """The point at `length` in [0, 1] on the way to another one."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Point(*(here + length * (there - here) for here, there in pairs))


class Problem:
    """The joint problem of several quantiles."""

    def __init__(
        self,
        gram: Array | LowRankMatrix,
        targets: Array,
        weights: Array,
        levels: Array,
        alpha: float,
        fit_intercept: bool,
    ) -> None:
        self.gram, self.targets, self.weights, self.levels = gram, targets, weights, levels
        self.alpha, self.fit_intercept = alpha, fit_intercept
        # With an intercept, any constant may be added to the kernel. This one keeps small systems
        # regular if their rows differ only by a constant.
        mean = float(np.mean(gram.diagonal())) / alpha
        self.constant = (mean or 1.0) if fit_intercept else 0.0
        deviation = float(np.abs(targets - np.median(targets)).mean())
        self.scale = deviation or float(np.abs(targets).max()) or 1.0

    def at(self, coef: Array, intercept: Array) -> Point:
        """Evaluate coefficients and intercepts."""
        gram_coef = np.asarray(self.gram @ coef / self.alpha)
        return Point(coef, intercept, gram_coef, gram_coef + intercept - self.targets[:, None])

    def is_in_order(self, point: Point) -> bool:
        """Whether each function is above the previous one by more than rounding, or equal to it."""
        apart = np.all(np.diff(point.residuals, axis=1) >= self._margin(point), axis=0)
        columns = np.vstack([point.coef, point.intercept])
        same = np.all(columns[:, 1:] == columns[:, :-1], axis=0)
        return bool(np.all(apart | same))

    def separated(self, point: Point) -> Point:
        """Move intercepts apart by the distances at which functions still cross."""
        if not self.fit_intercept:
            return point
        margin = self._margin(point)
        crossing = -np.diff(point.residuals, axis=1).min(axis=0)
        steps = np.where(crossing > -margin, crossing + margin, 0.0)
        offsets = np.concatenate([[0.0], np.cumsum(steps)])
        return point.with_intercept(point.intercept + offsets - offsets.mean())

    def _margin(self, point: Point) -> float:
        """The distance at which rounding errors do not make functions cross."""
        values = point.gram_coef + point.intercept
        rounding = value_rounding(self.gram, point.coef / self.alpha, values)
        return _MARGIN * self.scale + 16 * float(rounding.max())

    def primal(self, point: Point) -> tuple[State, float]:
        """The separated functions with their loss, and their objective: infinite if they cross."""
        point = self.separated(point)
        loss = self._loss(point.residuals)
        objective = loss + float(np.sum(point.coef * point.gram_coef)) / 2
        # If rows are linearly dependent, coefficients may be huge and their sums rounding error.
        sizes = self.gram.diagonal() @ np.sum(point.coef**2, axis=1) / self.alpha
        objective += EPS * float(sizes)
        if np.any(np.diff(point.residuals, axis=1) < -_VIOLATION * self.scale):
            objective = np.inf
        return State(point.coef, point.intercept, loss, np.inf, False), objective

    @property
    def constant_loss(self) -> float:
        """The loss of constant functions."""
        k = len(self.levels)
        constants = np.quantile(self.targets, self.levels) if self.fit_intercept else np.zeros(k)
        return self._loss(constants - self.targets[:, None])

    def _loss(self, residuals: Array) -> float:
        slopes = np.where(residuals > 0, 1 - self.levels, -self.levels)
        return float(self.weights @ np.sum(slopes * residuals, axis=1))

    def dual(self, coef: Array) -> tuple[Array, float, float]:
        """Project onto the dual feasible set: coefficients, dual objective, sum of its terms.

        The projection is the derivative of the envelope of width 1 at y = 0.
        """
        shares = -coef / self.weights[:, None]
        if self.fit_intercept:
            shares = shares + self.balance(shares, 1.0)
        coef = -self.envelope(shares, 1.0).slopes
        square = float(np.sum(coef * (self.gram @ coef))) / self.alpha
        bound = float(self.targets @ coef.sum(axis=1)) - square / 2
        size = float(np.abs(self.targets) @ np.abs(coef).sum(axis=1))
        total = float(np.linalg.norm(coef.sum(axis=0))) if self.fit_intercept else 0.0
        if total > 100 * EPS * np.abs(coef).sum():
            bound = -np.inf
        return coef, bound, size

    def margin_cost(self, point: Point | None = None) -> float:
        """A bound of the loss due to the margin between functions, with the rounding of a point."""
        margin = _MARGIN * self.scale if point is None else self._margin(point)
        return len(self.levels) * margin * float(self.weights.sum())

    def envelope(self, residuals: Array, gamma: float) -> Envelope:
        """The smoothed loss at residuals."""
        return Envelope(residuals, self.weights, self.levels, gamma)

    def balance(self, residuals: Array, gamma: float) -> Array:
        """The shift of each column of residuals for which the slopes of that column sum to zero."""
        shift = np.zeros(residuals.shape[1])
        total, least, idle = float(self.weights.sum()), np.inf, 0
        for _ in range(_STEPS):
            here = self.envelope(residuals + shift, gamma)
            gradient = here.slopes.sum(axis=0)
            size = float(np.abs(gradient).max())
            idle = 0 if size < least / 2 else idle + 1
            if size <= 4 * EPS * total or idle >= _IDLE_STEPS:
                break
            least = min(least, size)
            curvature = here.curvature()
            curvature.flat[:: len(curvature) + 1] += _RIDGE * total / gamma
            change = -np.linalg.solve(curvature, gradient)
            shift = shift + self._length(residuals + shift, change, gamma) * change
        return shift

    def _length(self, residuals: Array, change: Array, gamma: float) -> float:
        def slope(length: float) -> float:
            slopes = self.envelope(residuals + length * change, gamma).slopes
            return float(slopes.sum(axis=0) @ change)

        return length_to_minimum(slope)

    def certify(
        self, certificate: Certificate, points: list[Point], multipliers: list[Array]
    ) -> State:
        """Update the certificate by primal points and dual multipliers; return its best state."""
        last, rounding = points[-1], 0.0
        for multiplier in multipliers:
            coef, bound, size = self.dual(multiplier)
            certificate.raise_bound(bound)
            certificate.consider(*self.primal(self.at(coef, last.intercept)))
            rounding = max(rounding, 100 * EPS * size)
        for point in points:
            certificate.consider(*self.primal(point), gain=_WORTHWHILE * certificate.tol)
        if certificate.best is None:  # all points cross so far
            return last.state()
        rounding = max(rounding, self.margin_cost(last))
        return certificate.judge(rounding, allowance=self.margin_cost())
