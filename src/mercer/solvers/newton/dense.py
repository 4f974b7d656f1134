r"""Newton's method for a smooth convex loss of functions in the span of all rows.

With F = G T + 1 b', G = K / alpha, the coefficients T (n by k, alpha times those of the kernel) and
the intercepts b minimise

.. math:: L(F) + \tfrac12 \operatorname{tr} T^\top G\, T .

At the minimum T = -D, the derivative of L. With W the Hessian of L and R = T + D, a step (dT, db)
solves dT = -R + C (G R - 1 db'), where C = (G + W^-1)^-1. For a loss of one output C is
W^1/2 B^-1 W^1/2 with B = I + W^1/2 G W^1/2, whose eigenvalues are at least 1; for a softmax it
takes such a factor for each class and one more that couples the classes. The intercepts follow from
the condition that columns of T sum to zero (bordering).

`Dense` solves these equations by Cholesky factors of a matrix in memory, `products.Products` by
conjugate gradients for a matrix that is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mercer.arrays import EPS, Array
from mercer.linalg.blocked import multiply
from mercer.linalg.line_search import decreases_enough, length_to_minimum
from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.newton import method
from mercer.solvers.newton.curvature import Hessian, Resolvent
from mercer.solvers.newton.method import Start, State, is_small
from mercer.solvers.newton.row_losses import WeightedLoss

if TYPE_CHECKING:
    from mercer.solvers.newton.products import Products


# A full step is taken if the slope at its end is at most this share of the slope at its start.
_FLAT = 0.9
# The last step aims at a gradient of this share of the tolerance.
_SURPLUS = 0.1


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations dT + W (G dT + 1 db') = -R; with intercepts, columns of T + dT sum to 0."""

    hessian: Hessian  # W
    gradient: Array  # (n, k): R
    # (k,): the sums of the columns of T; None without intercepts, when db is zero
    sums: Array | None
    precision: float  # error of the step, relative to its length, that iterations may leave


@dataclass(frozen=True, eq=False)
class Step:
    """A solution of Newton's equations."""

    coef: Array  # (n, k): dT
    intercept: Array  # (k,): db
    gram_coef: Array  # (n, k): G dT
    warning: str = ""  # why the solution misses its tolerance, as a clause; empty if it does not


@dataclass(eq=False)
class Dense:
    """A matrix in memory, which solves Newton's equations by Cholesky factors."""

    gram: Array  # (n, n)
    resolvent: Resolvent | None = None  # C of the last step
    least_tolerance: ClassVar[float] = 0.0

    def __matmul__(self, columns: Array) -> Array:
        return multiply(self.gram, columns)

    def diagonal(self) -> Array:
        """Its diagonal."""
        return self.gram.diagonal()

    def solve(self, equations: Equations) -> Step:
        """Solve Newton's equations, exactly up to rounding."""
        gradient = equations.gradient
        apply = self.resolvent = equations.hessian.resolvent(self.gram)
        coef = -gradient + apply(self @ gradient)
        intercept = np.zeros(gradient.shape[1])
        if equations.sums is not None:
            k = len(intercept)
            borders = np.stack([apply(np.broadcast_to(u, coef.shape)) for u in np.eye(k)], axis=-1)
            target = coef.sum(axis=0) + equations.sums
            # A softmax, the only loss of several outputs, does not change if a constant is added to
            # all of them. Least squares sets that constant to 0, up to rounding.
            intercept = np.linalg.lstsq(borders.sum(axis=0), target, rcond=1e-12)[0]
            intercept -= (k > 1) * intercept.mean()
            coef = coef - borders @ intercept
        return Step(coef, intercept, self @ coef)


def minimise(
    gram: Array | Products | Dense,
    loss: WeightedLoss,
    alpha: float,
    start: Start,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the gradient is small.

    A matrix in `Dense` is divided by alpha already.
    """
    matrix: Dense | Products
    if isinstance(gram, Dense):
        matrix = gram
    else:
        matrix = Dense(gram / alpha) if isinstance(gram, np.ndarray) else gram / alpha
    return method.minimise(_Problem(matrix, loss, alpha, fit_intercept, tol), start, max_iter)


@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients T and intercepts, with G T, the values F and the loss."""

    coef: Array
    intercept: Array
    gram_coef: Array
    values: Array
    derivative: Array
    loss: float
    warning: str = ""

    @property
    def objective(self) -> float:
        return self.loss + float(np.sum(self.coef * self.gram_coef)) / 2

    @property
    def rounding(self) -> float:
        """Rounding error of a difference of two objectives."""
        return 4 * EPS * abs(self.objective)

    @property
    def gradient(self) -> Array:
        """The gradient of the objective, as coefficients of the points."""
        return self.coef + self.derivative


@dataclass(frozen=True, eq=False)
class _Problem:
    gram: Dense | Products  # G
    loss: WeightedLoss
    alpha: float
    fit_intercept: bool
    tol: float

    def at(self, coef: Array, intercept: Array) -> _Point:
        return self._point(coef, intercept, self.gram @ coef)

    def _point(self, coef: Array, intercept: Array, gram_coef: Array, warning: str = "") -> _Point:
        values = gram_coef + intercept
        derivative, loss = self.loss.derivative(values), self.loss.value(values)
        return _Point(coef, intercept, gram_coef, values, derivative, loss, warning)

    def step(self, point: _Point, state: State | None) -> _Point:
        """Take one step; return `point` if no step decreases the objective.

        A full step is taken if it decreases the objective enough and does not end far beyond the
        minimum along its line; otherwise the step leads to that minimum.
        """
        sums = point.coef.sum(axis=0) if self.fit_intercept else None
        hessian, residual = self.loss.hessian(point.values), state.residual if state else 1.0
        # The error falls with the gradient, but not below what the tolerance of the fit asks for.
        precision = max(residual, _SURPLUS * self.tol / max(residual, self.tol))
        step = self.gram.solve(Equations(hessian, point.gradient, sums, precision))

        def along(length: float) -> _Point:
            return self._point(
                point.coef + length * step.coef,
                point.intercept + length * step.intercept,
                point.gram_coef + length * step.gram_coef,
                step.warning,
            )

        def slope_at(there: _Point) -> float:
            change = there.derivative * (step.gram_coef + step.intercept)
            return float(np.sum(change + there.coef * step.gram_coef))

        full, slope = along(1.0), slope_at(point)
        enough = decreases_enough(full.objective - point.objective, slope, point.rounding)
        if enough and slope_at(full) <= _FLAT * abs(slope):
            return full
        length = length_to_minimum(lambda length: slope_at(along(length)))
        return along(length) if length > 0 else replace(point, warning=step.warning)

    def state(self, point: _Point, stalled: bool) -> State:
        """The state of a point, with the gradient relative to the terms that cancel in it."""
        gradient, derivative = point.gradient, point.derivative
        # Less precise products have a larger tolerance.
        hessian, tol = self.loss.hessian(point.values), max(self.tol, self.gram.least_tolerance)
        rounding = hessian.absolute_product(value_rounding(self.gram, point.coef, point.values))
        rounding = 8 * stalled * (rounding + EPS * np.abs(derivative))
        parts = hessian.absolute_product(point.values) + np.abs(derivative)
        root_trace = float(np.sqrt(self.alpha * self.gram.diagonal().sum()))
        gram_gradient = self.gram @ gradient
        error = self._norm(gradient, gram_gradient)
        terms = self._norm(point.coef, point.gram_coef)
        terms += self._norm(derivative, gram_gradient - point.gram_coef)
        residual, bound = error / terms if terms > 0 else 0.0, error**2 / (2 * self.alpha)
        norms = [root_trace * float(np.linalg.norm(part)) for part in (rounding, parts)]
        small = is_small(error, terms, tol, *norms)
        if self.fit_intercept:
            total = float(np.linalg.norm(derivative.sum(axis=0)))
            terms = float(np.abs(derivative).sum())
            small = small and is_small(total, terms, tol, float(rounding.sum()), float(parts.sum()))
            residual = max(residual, total / terms if terms > 0 else 0.0)
            error = float(np.hypot(error, total))
        solution = point.coef, point.intercept, point.loss
        return State(*solution, error, small, residual, bound, point.warning)

    def _norm(self, coef: Array, gram_coef: Array) -> float:
        """The norm of a function, from its coefficients and G times them."""
        square = self.alpha * float(np.sum(coef * gram_coef))
        return float(np.sqrt(max(square, 0.0)))


def value_rounding(
    gram: Array | Dense | Products | LowRankMatrix, coef: Array, values: Array
) -> Array:
    """A bound of the rounding errors of values G T + b, from the sizes of their terms."""
    diagonal = np.maximum(gram.diagonal(), 0.0)
    terms = np.sqrt(diagonal[:, None] * (diagonal @ coef**2))
    return np.asarray(EPS * (np.abs(values) + terms))
