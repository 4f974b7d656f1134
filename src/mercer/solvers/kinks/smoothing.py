r"""Finite smoothing for losses with kinks, finished exactly and certified by a duality gap.

The values of a function are f = G t + b with G = K / alpha. A kink z of the loss belongs to the
value f_i with i = i_z. Its term is linear on both sides of c_z, with slopes l_z <= 0 <= h_z:

.. math:: \min_{t, b} \sum_z \phi_z(f_{i_z}) + \tfrac12 t^\top G\, t
   = \max_{l \le s \le h} -\sum_z s_z c_z - \tfrac12 t^\top G\, t,
   \qquad t = -\sum_z s_z e_{i_z} ,

where with an intercept t sums to zero. Smoothing replaces the slope of a term by
s_z = clip(w_z (f_i - c_z) / gamma, l_z, h_z). Newton's method on the smooth problem needs a
Cholesky factor only in the free slopes, those strictly between their bounds, which become few as
gamma decreases. When gamma is small enough, they belong to the terms that are at their kink in the
solution. Newton's equations with gamma = 0 then give the exact solution, the idea of finite
smoothing [1]_, and the duality gap above proves it. As this factor is small, the eigendecomposition
of the whole matrix, which first-order methods reuse, does not pay.

For functions of landmarks or features the matrix is `LowRankMatrix`: while more slopes are free
than it has columns, a step takes Woodbury's formula, which needs n m^2 operations.

.. [1] Q. Tang, Y. Gu, B. Wang (2024). fastkqr: a fast algorithm for kernel quantile regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mercer.arrays import EPS, Array
from mercer.linalg.line_search import length_to_minimum
from mercer.linalg.low_rank import LowRankMatrix, solve_plus_diagonal
from mercer.solvers.kinks.certificate import Certificate
from mercer.solvers.newton.curvature import factorised
from mercer.solvers.newton.dense import value_rounding
from mercer.solvers.newton.method import Start, State

Mask = NDArray[np.bool_]

# Ratio of successive smoothing widths.
_FALL = 0.1
# First width of a warm start, relative to that of a start from a constant.
_WARM = 0.1
# Smallest width, relative to the first.
_LEAST = 1e-13
# Largest number of Newton steps per width.
_STEPS = 300
# Number of steps of iterative refinement, which removes the effect of jitter.
_REFINEMENTS = 3
# A predicted decrease is negligible up to this share of the cost of smoothing.
_NEGLIGIBLE = 1e-6
# Largest number of bisections for an intercept.
_BISECTIONS = 60
# Free slopes, relative to the rank of a low-rank matrix, from which Woodbury's formula is faster.
_WOODBURY = 2


@dataclass(frozen=True)
class Kinks:
    """The terms of a piecewise linear loss, one for each kink."""

    rows: NDArray[np.intp]  # (m,): the rows i_z
    location: Array  # (m,): the locations c_z
    low: Array  # (m,): the slope below the kink
    high: Array  # (m,): the slope above the kink
    weight: Array  # (m,): the weights w_z

    def values_at_rows(self, values: Array) -> Array:
        """The value at the row of each kink."""
        return np.asarray(values[self.rows])

    def coefficients(self, slopes: Array, n: int) -> Array:
        """The coefficients t = -sum_z s_z e_(i_z) of slopes s."""
        return np.asarray(-np.bincount(self.rows, slopes, minlength=n).astype(np.float64))

    def slopes(self, residuals: Array, gamma: float) -> Array:
        """The slopes of the smoothed terms at values with these distances from the kinks."""
        # For few rows this takes a third of the time of numpy.clip.
        return np.minimum(np.maximum(self.weight * residuals / gamma, self.low), self.high)

    def are_free(self, slopes: Array) -> Mask:
        """Which slopes are strictly between their bounds."""
        return np.asarray((slopes > self.low) & (slopes < self.high))

    def loss(self, residuals: Array) -> float:
        """The sum of all terms."""
        return float(np.sum(np.where(residuals > 0, self.high, self.low) * residuals))


def minimise(
    gram: Array | LowRankMatrix,
    kinks: Kinks,
    alpha: float,
    start: Start,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the duality gap is small."""
    problem = _Problem(gram, kinks, alpha, fit_intercept)
    scale = problem.scale
    gamma = _WARM * scale if start[0].any() else scale
    point = problem.at(start[0][:, 0], float(start[1][0]))
    certificate = Certificate(tol, problem.constant_loss)
    steps = 0
    while gamma >= _LEAST * scale:
        for _ in range(_STEPS):
            point, settled = problem.step(point, gamma)
            steps += 1
            if settled or steps >= max_iter:
                break
            yield certificate.best or point.state()
        yield _certified(problem, certificate, point)
        if certificate.converged or steps >= max_iter:
            return
        gamma *= _FALL
        point = problem.predicted(point, gamma)


def _certified(problem: _Problem, certificate: Certificate, point: _Point) -> State:
    """Update the certificate after one smoothing width; return its best state."""
    before, rounding = certificate.gap, 0.0
    for slopes, intercept in ((point.slopes, point.intercept), problem.exact(point)):
        coef, bound, size = problem.dual(slopes)
        certificate.raise_bound(bound)
        certificate.consider(*problem.primal(coef, intercept))
        rounding = max(rounding, 100 * EPS * size)
    certificate.consider(*problem.primal(point.coef, point.intercept))
    if certificate.best is None:  # no objective is finite
        return point.state()
    if abs(certificate.gap) > before / 2:  # no progress: rounding of the values may be the reason
        rounding = max(rounding, problem.rounding(certificate.best))
    return certificate.judge(rounding)


@dataclass(frozen=True)
class _Point:
    """A coefficient vector and an intercept, with G t.

    `residuals` are the distances of values from the kinks. For a free slope they are computed as
    gamma times the slope, which avoids cancellation. `slopes` are those of the last Newton step.
    """

    coef: Array
    intercept: float
    gram_coef: Array
    residuals: Array
    slopes: Array

    def state(self, loss: float = np.inf) -> State:
        return State(self.coef[:, None], np.array([self.intercept]), loss, np.inf, False)


class _Problem:
    def __init__(
        self, gram: Array | LowRankMatrix, kinks: Kinks, alpha: float, fit_intercept: bool
    ) -> None:
        self.gram, self.kinks, self.alpha, self.fit_intercept = gram, kinks, alpha, fit_intercept
        # With an intercept, any constant may be added to the kernel. This one keeps small systems
        # regular if their rows differ only by a constant.
        mean = float(np.mean(gram.diagonal())) / alpha
        self.constant = (mean or 1.0) if fit_intercept else 0.0

    @property
    def scale(self) -> float:
        """The mean deviation of the kinks, which is the first smoothing width."""
        locations = self.kinks.location
        deviation = float(np.abs(locations - np.median(locations)).mean())
        return deviation or float(np.abs(locations).max()) or 1.0

    @property
    def constant_loss(self) -> float:
        """The loss of a constant function."""
        locations = self.kinks.location
        middle = float(np.median(locations)) if self.fit_intercept else 0.0
        return self.kinks.loss(middle - locations)

    def times_gram(self, coef: Array) -> Array:
        """G t."""
        return np.asarray(self.gram @ coef / self.alpha)

    def at(self, coef: Array, intercept: float) -> _Point:
        gram_coef = self.times_gram(coef)
        residuals = self.kinks.values_at_rows(gram_coef + intercept) - self.kinks.location
        return _Point(coef, intercept, gram_coef, residuals, np.zeros_like(residuals))

    def step(self, point: _Point, gamma: float) -> tuple[_Point, bool]:
        """One Newton step on the smoothed problem, and whether it has led to the minimum."""
        kinks = self.kinks
        intercept, residuals = self._centre_intercept(point, gamma)
        slopes = kinks.slopes(residuals, gamma)
        free = kinks.are_free(slopes)
        new = self._full_step(slopes, free, intercept, gamma)
        change, gram_change = new.residuals - residuals, new.gram_coef - point.gram_coef
        linear = float(point.coef @ gram_change)
        quadratic = float((new.coef - point.coef) @ gram_change)

        def slope(length: float) -> float:
            there = kinks.slopes(residuals + length * change, gamma)
            return float(there @ change) + linear + length * quadratic

        length = length_to_minimum(slope)
        moved = _Point(
            point.coef + length * (new.coef - point.coef),
            intercept + length * (new.intercept - intercept),
            point.gram_coef + length * gram_change,
            residuals + length * change,
            new.slopes,
        )
        again = kinks.slopes(moved.residuals, gamma)
        same = np.array_equal(free, kinks.are_free(again))
        same = same and np.array_equal(slopes[~free], again[~free])
        # Stop when the predicted decrease is negligible beside the cost of smoothing.
        cost = float(np.sum(slopes[free] * residuals[free]))
        rounding = EPS * float(np.abs(slopes) @ np.abs(change))
        negligible = -slope(0.0) <= _NEGLIGIBLE * cost + 10 * rounding
        return moved, negligible or bool(length == 1.0 and same)

    def predicted(self, point: _Point, gamma: float) -> _Point:
        """The solution at another width if the free slopes stay the same, as a warm start."""
        slopes = np.clip(point.slopes, self.kinks.low, self.kinks.high)
        return self._full_step(slopes, self.kinks.are_free(slopes), point.intercept, gamma)

    def _full_step(self, slopes: Array, free: Mask, intercept: float, gamma: float) -> _Point:
        """The point at the end of a full Newton step."""
        target, intercept = self._solve(slopes, free, intercept, gamma)
        new = self.at(self.kinks.coefficients(target, len(self.gram)), intercept)
        residuals = np.where(free, gamma * target / self.kinks.weight, new.residuals)
        return replace(new, residuals=residuals, slopes=target)

    def _solve(
        self, slopes: Array, free: Mask, intercept: float, gamma: float
    ) -> tuple[Array, float]:
        """The slopes and the intercept that solve Newton's equations in the free slopes."""
        kinks, n = self.kinks, len(self.gram)
        fixed = np.where(free, 0.0, slopes)
        if not free.any():
            return fixed, intercept
        rows, missing = kinks.rows[free], -float(fixed.sum())
        others = self.times_gram(kinks.coefficients(fixed, n)) + intercept
        right = kinks.values_at_rows(others)[free] - kinks.location[free]
        right = right + self.constant * missing
        columns = np.column_stack([right, np.ones(len(rows))])
        solved = self._solve_block(rows, gamma / kinks.weight[free], columns)
        solution, border = solved[:, 0], solved[:, 1]
        if self.fit_intercept and border.sum() > 0:  # otherwise no equation fixes the intercept
            shift = (missing - float(solution.sum())) / float(border.sum())
            solution, intercept = solution + shift * border, intercept + shift
        result = fixed.copy()
        result[free] = solution
        return result, intercept

    def _solve_block(self, rows: NDArray[np.intp], ridge: Array, right: Array) -> Array:
        """Solve equations with the block of some rows of G, plus the constant and a ridge."""
        gram = self.gram
        if isinstance(gram, LowRankMatrix) and len(rows) > _WOODBURY * (gram.rank + 1):
            constants = np.full((len(rows), 1), np.sqrt(self.constant))
            factor = np.hstack([gram.factor[rows] / np.sqrt(self.alpha), constants])
            return solve_plus_diagonal(factor, ridge, right)
        return _solve_shifted(gram[np.ix_(rows, rows)] / self.alpha + self.constant, ridge, right)

    def _centre_intercept(self, point: _Point, gamma: float) -> tuple[float, Array]:
        """The best intercept and its residuals, if no slope is free to move it."""
        kinks, residuals = self.kinks, point.residuals
        slopes = kinks.slopes(residuals, gamma)
        balanced = abs(slopes.sum()) <= EPS * np.abs(slopes).sum()
        if not self.fit_intercept or kinks.are_free(slopes).any() or balanced:
            return point.intercept, residuals
        low, high = -float(residuals.max()) - gamma, -float(residuals.min()) + gamma
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            total = kinks.slopes(residuals + middle, gamma).sum()
            low, high = (middle, high) if total < 0 else (low, middle)
        shift = (low + high) / 2
        return point.intercept + shift, residuals + shift

    def exact(self, point: _Point) -> tuple[Array, float]:
        """The slopes and the intercept of the solution if the free terms are at their kinks."""
        free = self.kinks.are_free(point.slopes)
        clipped = np.clip(point.slopes, self.kinks.low, self.kinks.high)
        return self._solve(clipped, free, point.intercept, 0.0)

    def primal(self, coef: Array, intercept: float) -> tuple[State, float]:
        """The state of a function, and its objective."""
        point = self.at(coef, intercept)
        loss = self.kinks.loss(point.residuals)
        return point.state(loss), loss + float(coef @ point.gram_coef) / 2

    def dual(self, slopes: Array) -> tuple[Array, float, float]:
        """Project onto the dual feasible set: coefficients, dual objective, sum of its terms."""
        slopes = self._feasible(np.clip(slopes, self.kinks.low, self.kinks.high))
        coef = self.kinks.coefficients(slopes, len(self.gram))
        bound = -float(slopes @ self.kinks.location) - float(coef @ self.times_gram(coef)) / 2
        size = float(np.abs(slopes) @ np.abs(self.kinks.location))
        total = abs(float(coef.sum())) if self.fit_intercept else 0.0
        if total > 100 * EPS * np.abs(coef).sum():
            bound = -np.inf
        return coef, bound, size

    def rounding(self, state: State) -> float:
        """A bound of the effect of rounding errors of values on the objective."""
        values = self.times_gram(state.coef) + state.intercept
        rounding = value_rounding(self.gram, state.coef / self.alpha, values)[:, 0]
        jumps = self.kinks.high - self.kinks.low
        return float(jumps @ self.kinks.values_at_rows(rounding))

    def _feasible(self, slopes: Array) -> Array:
        """Move slopes within their bounds such that the coefficients sum to zero."""
        if not self.fit_intercept:
            return slopes
        excess = float(slopes.sum())
        low, high = slopes - self.kinks.low, self.kinks.high - slopes
        room = low if excess > 0 else high
        if np.any((low > 0) & (high > 0)):  # move only slopes that are not at a bound
            room = np.where((low > 0) & (high > 0), room, 0.0)
        if room.sum() > 0:
            slopes = slopes - excess * room / max(float(room.sum()), abs(excess))
        return slopes


def _solve_shifted(matrix: Array, ridge: Array, right: Array) -> Array:
    """Solve (matrix + diag(ridge)) x = right; for a zero ridge, refine to remove jitter."""
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] += ridge
    upper, _ = factorised(shifted)
    solution, _ = lapack.dpotrs(upper, right)
    for _ in range(_REFINEMENTS if not np.any(ridge) else 0):
        solution = solution + lapack.dpotrs(upper, right - matrix @ solution)[0]
    return np.asarray(solution)
