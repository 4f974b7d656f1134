r"""Quantiles that must not cross: the joint problem, and the gap that proves a solution.

The problem is that of `kinks.quantiles`. Functions in order have an objective, feasible
coefficients a lower bound of it, whichever method has found them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.kinks.isotonic import Envelope
from mercer.solvers.newton.dense import State, rounding

Array = NDArray[np.floating[Any]]

_STEPS = 100
_IDLE_STEPS = 5
_VIOLATION = 1e-9
_BISECTIONS = 60
_RESOLUTION = 1e-3
_RIDGE = 1e-10
_EPS = float(np.finfo(np.float64).eps)

# Functions that meet are kept this far apart, relative to the scale, lest rounding cross them.
_MARGIN = 1e-12

# Rounding excuses a gap of at most this many times the tolerance, or of one tolerance measured by
# the loss of constant functions, which counts where the objective is next to nothing.
_EXCUSED = 100
_WORTHWHILE = 0.1


@dataclass(frozen=True)
class Point:
    """Coefficients and intercepts, G T, and the residuals F - y."""

    scaled: Array
    intercept: Array
    spread: Array
    residuals: Array

    def moved(self, intercept: Array) -> Point:
        """The same functions, with other intercepts."""
        change = intercept - self.intercept
        return Point(self.scaled, intercept, self.spread, self.residuals + change)

    def towards(self, other: Point, length: float) -> Point:
        """A point between this and another one."""
        return Point(
            self.scaled + length * (other.scaled - self.scaled),
            self.intercept + length * (other.intercept - self.intercept),
            self.spread + length * (other.spread - self.spread),
            self.residuals + length * (other.residuals - self.residuals),
        )


class Problem:
    """The joint problem."""

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

    def at(self, scaled: Array, intercept: Array) -> Point:
        """The functions with these coefficients and intercepts."""
        spread = self.gram @ scaled / self.alpha
        return Point(scaled, intercept, spread, spread + intercept - self.targets[:, None])

    # Order --------------------------------------------------------------------------------------

    def is_in_order(self, point: Point) -> bool:
        """Whether no function is below the one before, nor so near that rounding may tell."""
        apart = np.all(np.diff(point.residuals, axis=1) >= self._margin(point), axis=0)
        columns = np.vstack([point.scaled, point.intercept])
        same = np.all(columns[:, 1:] == columns[:, :-1], axis=0)
        return bool(np.all(apart | same))

    def parted(self, point: Point) -> Point:
        """The functions moved apart, in order, by as much as they still cross."""
        if not self.fit_intercept:
            return point
        margin = self._margin(point)
        crossing = -np.diff(point.residuals, axis=1).min(axis=0)
        steps = np.where(crossing > -margin, crossing + margin, 0.0)
        offsets = np.concatenate([[0.0], np.cumsum(steps)])
        return point.moved(point.intercept + offsets - offsets.mean())

    def _margin(self, point: Point) -> float:
        """How far apart functions have to be lest rounding cross them."""
        values = point.spread + point.intercept
        lost = rounding(self.gram, point.scaled / self.alpha, values)
        return _MARGIN * self.scale + 16 * float(lost.max())

    # Both sides of the gap ----------------------------------------------------------------------

    def primal(self, point: Point) -> tuple[State, float]:
        """Functions with their loss and objective, infinite if they are not in order."""
        point = self.parted(point)
        loss = self._loss(point.residuals)
        objective = loss + float(np.sum(point.scaled * point.spread)) / 2
        # Where rows depend on each other, coefficients may be huge and their sums rounding alone.
        sizes = self.gram.diagonal() @ np.sum(point.scaled**2, axis=1) / self.alpha
        objective += _EPS * float(sizes)
        if np.any(np.diff(point.residuals, axis=1) < -_VIOLATION * self.scale):
            objective = np.inf
        return State(point.scaled, point.intercept, loss, np.inf, False), objective

    @property
    def null(self) -> float:
        """The loss of constant functions: what there is to lose."""
        k = len(self.levels)
        constants = np.quantile(self.targets, self.levels) if self.fit_intercept else np.zeros(k)
        return self._loss(constants - self.targets[:, None])

    def _loss(self, residuals: Array) -> float:
        slopes = np.where(residuals > 0, 1 - self.levels, -self.levels)
        return float(self.weights @ np.sum(slopes * residuals, axis=1))

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

    def margin_cost(self, point: Point | None = None) -> float:
        """What it may cost to keep functions apart, at a point also by its rounding."""
        margin = _MARGIN * self.scale if point is None else self._margin(point)
        return len(self.levels) * margin * float(self.weights.sum())

    def envelope(self, residuals: Array, gamma: float) -> Envelope:
        """The smoothed loss at residuals."""
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

        return length_along(slope)


class Certificate:
    """The best functions and the best lower bound seen so far, and the gap between them."""

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.best: State | None = None
        self.converged = False
        self._objective, self._bound = np.inf, -np.inf

    def state(self, point: Point) -> State:
        """The best functions, or where a search stands that has not led to any in order."""
        return self.best or State(point.scaled, point.intercept, np.inf, np.inf, False)

    def tried(self, points: list[Point], multipliers: list[Array]) -> State:
        """The best functions after these, with lower bounds by coefficients that may be others."""
        last, slack = points[-1], 0.0
        for coefficients in multipliers:
            scaled, bound, size = self.problem.dual(coefficients)
            self._bound, slack = max(self._bound, bound), max(slack, 100 * _EPS * size)
            self._consider(self.problem.at(scaled, last.intercept))
        for point in points:  # feasible ones are preferred, whose coefficients prove themselves
            self._consider(point, _WORTHWHILE * self.tol)
        if self.best is None:  # nothing is in order yet
            return self.state(last)
        gap = abs(self._objective - self._bound)  # below zero, it is a measure of rounding
        # Rounding is an excuse, as long as what was found is near the solution.
        enough, slack = self.tol * self._objective, max(slack, self.problem.margin_cost(last))
        excuse = self.problem.margin_cost() + min(
            slack, max(_EXCUSED * enough, self.tol * self.problem.null)
        )
        self.converged = bool(gap <= enough + excuse)
        self.best = replace(self.best, error=gap, converged=self.converged)
        return self.best

    def _consider(self, point: Point, gain: float = 0.0) -> None:
        state, objective = self.problem.primal(point)
        if objective < self._objective - gain * objective:
            self.best, self._objective = state, objective


def length_along(slope: Callable[[float], float]) -> float:
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
