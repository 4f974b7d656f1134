r"""Newton's method for a smooth convex loss of the values of a function in the span of a kernel.

With F = G T + 1 b', G = K / alpha, the coefficients T (n by k, alpha times those of the kernel) and
the intercepts b minimise

.. math:: L(F) + \tfrac12 \operatorname{tr} T^\top G\, T .

At the minimum T = -D, the derivative of L. With W the second derivative of L and R = T + D, a step
(dT, db) solves dT = -R + C (G R - 1 db'), where C = (G + W^-1)^-1. For a loss of single values C is
W^1/2 B^-1 W^1/2 with B = I + W^1/2 G W^1/2, whose eigenvalues are at least 1; for a softmax it
takes such a factor for each class and one more for what ties the classes. The intercepts follow
from the condition that columns of T sum to zero (bordering). A whole step is taken if it lowers the
objective by a fraction of what its slope promises (Armijo) and does not lead up again on the other
side; else the step that leads to the minimum along the line, which convexity makes easy to find.

The matrix says how a step is found: `newton_steps.Dense` by factors, `newton_products.Products` by
iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.newton.curvature import Curvature
from mercer.solvers.newton.steps import Dense, Equations, Matrix, Scalable

Array = NDArray[np.floating[Any]]

_SUFFICIENT = 1e-4
_FLAT = 0.9
_RESOLUTION = 1e-6
_IDLE_STEPS = 3
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class State:
    """Where a solver stands after a step."""

    scaled: Array  # (n, k): alpha times the coefficients over the points
    intercept: Array  # (k,): the constants
    loss: float  # the weighted sum of losses
    error: float  # how far from the minimum: the norm of the gradient, or the duality gap
    converged: bool  # whether that is as little as was asked for
    # the norm of the gradient relative to those of the terms that cancel in it
    residual: float = np.inf
    # the objective is at most this much above its minimum over functions with the same constants
    bound: float = np.inf
    doubt: str = ""  # why the last step is not what it should be, as a clause; empty if it is


class SmoothLoss(Protocol):
    """A smooth convex function of the values of k functions at n points."""

    def value(self, values: Array) -> float:
        """The weighted sum of losses."""

    def derivative(self, values: Array) -> Array:
        """Its derivative in every value."""

    def curvature(self, values: Array) -> Curvature:
        """Its second derivative."""


def minimise(
    gram: Array | Scalable,
    loss: SmoothLoss,
    alpha: float,
    start: tuple[Array, Array],
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the gradient is small."""
    matrix = Dense(gram / alpha) if isinstance(gram, np.ndarray) else gram / alpha
    problem = _Problem(matrix, loss, fit_intercept)
    point = problem.at(*start)
    idle, left = 0, 1.0
    for _ in range(max_iter):
        moved = problem.step(point, left)
        idle = 0 if moved.objective < point.objective - problem.rounding(point) else idle + 1
        point = moved
        state = problem.state(point, alpha, tol, excused=idle > 0)
        left = state.residual
        yield state
        if state.converged or idle >= _IDLE_STEPS:
            return


@dataclass(frozen=True)
class _Point:
    """Coefficients, intercepts and what follows from them."""

    scaled: Array
    intercept: Array
    spread: Array
    values: Array
    derivative: Array
    loss: float
    doubt: str = ""

    @property
    def objective(self) -> float:
        return self.loss + float(np.sum(self.scaled * self.spread)) / 2

    @property
    def gradient(self) -> Array:
        """The gradient of the objective, as coefficients over the points."""
        return self.scaled + self.derivative


class _Problem:
    def __init__(self, gram: Matrix, loss: SmoothLoss, fit_intercept: bool) -> None:
        self.gram, self.loss, self.fit_intercept = gram, loss, fit_intercept

    def at(
        self, scaled: Array, intercept: Array, spread: Array | None = None, doubt: str = ""
    ) -> _Point:
        spread = self.gram @ scaled if spread is None else spread
        values = spread + intercept
        derivative = self.loss.derivative(values)
        loss = self.loss.value(values)
        return _Point(scaled, intercept, spread, values, derivative, loss, doubt)

    def rounding(self, point: _Point) -> float:
        """What rounding can do to a difference of objectives."""
        return 4 * _EPS * abs(point.objective)

    def step(self, point: _Point, left: float) -> _Point:
        """The point after one step; the same if no step lowers the objective."""
        sums = point.scaled.sum(axis=0) if self.fit_intercept else None
        curvature = self.loss.curvature(point.values)
        step = self.gram.solve(Equations(curvature, point.gradient, sums, left))

        def along(length: float) -> _Point:
            return self.at(
                point.scaled + length * step.scaled,
                point.intercept + length * step.intercept,
                point.spread + length * step.spread,
                step.doubt,
            )

        def slope(there: _Point) -> float:
            change = there.derivative * (step.spread + step.intercept)
            return float(np.sum(change + there.scaled * step.spread))

        full, first = along(1.0), slope(point)
        allowed = point.objective + _SUFFICIENT * first + self.rounding(point)
        if full.objective <= allowed and slope(full) <= _FLAT * abs(first):
            return full
        # The objective is convex along the line: where it still falls, it is lower than before.
        low, high, best = 0.0, 1.0, replace(point, doubt=step.doubt)
        while high - low > _RESOLUTION * high and high > _EPS:
            middle = along((low + high) / 2)
            if slope(middle) <= 0:
                low, best = (low + high) / 2, middle
            else:
                high = (low + high) / 2
        return best

    def state(self, point: _Point, alpha: float, tol: float, excused: bool) -> State:
        """The point with the norm of its gradient, measured against the terms that cancel.

        Where steps no longer lower the objective, rounding is an excuse.
        """
        gradient, derivative = point.gradient, point.derivative
        # Coarser products have a coarser tolerance, and no further excuse.
        curvature, tol = self.loss.curvature(point.values), max(tol, self.gram.least_tolerance)
        lost = curvature.size(rounding(self.gram, point.scaled, point.values))
        lost = 8 * excused * (lost + _EPS * np.abs(derivative))
        parts = curvature.size(np.abs(point.values)) + np.abs(derivative)
        root = float(np.sqrt(alpha * self.gram.diagonal().sum()))
        pulled = self.gram @ gradient
        error = _norm(gradient, pulled, alpha)
        terms = _norm(point.scaled, point.spread, alpha)
        terms += _norm(derivative, pulled - point.spread, alpha)
        residual, bound = error / terms if terms > 0 else 0.0, error**2 / (2 * alpha)
        norms = [root * float(np.linalg.norm(part)) for part in (parts, lost)]
        small = _small(error, terms, norms[0], norms[1], tol)
        if self.fit_intercept:
            total = float(np.linalg.norm(derivative.sum(axis=0)))
            sums = [float(part.sum()) for part in (np.abs(derivative), parts, lost)]
            small = small and _small(total, sums[0], sums[1], sums[2], tol)
            residual = max(residual, total / sums[0] if sums[0] > 0 else 0.0)
            error = float(np.hypot(error, total))
        place = point.scaled, point.intercept, point.loss
        return State(*place, error, bool(small), residual, bound, point.doubt)


def _norm(coefficients: Array, spread: Array, alpha: float) -> float:
    """The norm of the function with these coefficients, from G times them."""
    square = alpha * float(np.sum(coefficients * spread))
    return float(np.sqrt(max(square, 0.0)))


def _small(error: float, terms: float, parts: float, lost: float, tol: float) -> bool:
    """Whether an error is little beside the terms it is a difference of, or beside their rounding.

    Rounding excuses no more than a hundred times the tolerance, of the parts that make up the
    terms: beyond that, what was found is not the solution, even if no arithmetic finds a better.
    """
    return error <= tol * terms + min(lost, 100 * tol * parts)


def rounding(gram: Array | Matrix, scaled: Array, values: Array) -> Array:
    """What rounding may change in the values of functions, from the sizes of what is added up."""
    diagonal = np.maximum(gram.diagonal(), 0.0)
    terms = np.sqrt(diagonal[:, None] * (diagonal @ scaled**2))
    return np.asarray(_EPS * (np.abs(values) + terms))
