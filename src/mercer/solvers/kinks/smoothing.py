r"""Finite smoothing for losses with kinks, finished exactly and certified by a duality gap.

The values of a function are f = G t + b with G = K / alpha. A term z of the loss looks at one of
them, f_i with i = i_z, and is linear on both sides of c_z, with slopes l_z <= 0 <= h_z:

.. math:: \min_{t, b} \sum_z \phi_z(f_{i_z}) + \tfrac12 t^\top G\, t
   = \max_{l \le s \le h} -\sum_z s_z c_z - \tfrac12 t^\top G\, t,
   \qquad t = -\sum_z s_z e_{i_z} ,

where with an intercept t sums to zero. Smoothing replaces the slope of a term by
s_z = clip(w_z (f_i - c_z) / gamma, l_z, h_z). Newton's method on the smooth problem needs a
Cholesky factor in the terms between their bounds alone, which become few as gamma falls: the other
slopes are known. When gamma is small enough, those are the terms that sit at their kink in the
solution; then gamma = 0 in the same equations gives it exactly, the idea of finite smoothing [1]_,
and the gap between both sides above proves it. Because the factor is that small, the
eigendecomposition of the whole matrix, which first-order methods reuse, is not worth its price.

.. [1] Q. Tang, Y. Gu, B. Wang (2024). fastkqr: a fast algorithm for kernel quantile regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from mercer.solvers.newton.curvature import factorised
from mercer.solvers.newton.dense import State, rounding

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

_FALL = 0.1
_LEAST = 1e-13
_STEPS = 300
_REFINEMENTS = 3
_NEGLIGIBLE = 1e-6
_BISECTIONS = 60

# Rounding excuses a gap of at most this many times the tolerance, or of one tolerance measured by
# the loss of a constant function, which counts where the objective is next to nothing.
_EXCUSED = 100
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Terms:
    """The terms of a piecewise linear loss."""

    rows: NDArray[np.intp]  # (m,): the point i_z that a term looks at
    location: Array  # (m,): the kink c_z and the slopes on both sides
    low: Array  # (m,): the kink c_z and the slopes on both sides
    high: Array  # (m,): the kink c_z and the slopes on both sides
    weight: Array  # (m,): how steeply the slope changes where the kink is smoothed

    def look(self, values: Array) -> Array:
        """The value that each term looks at."""
        return np.asarray(values[self.rows])

    def scatter(self, slopes: Array, n: int) -> Array:
        """The coefficients t that belong to slopes."""
        return np.asarray(-np.bincount(self.rows, slopes, minlength=n).astype(np.float64))

    def slopes(self, gaps: Array, gamma: float) -> Array:
        """The slopes of the smoothed terms, at these distances from their kinks."""
        return np.clip(self.weight * gaps / gamma, self.low, self.high)

    def loss(self, gaps: Array) -> float:
        """The sum of all terms."""
        return float(np.sum(np.where(gaps > 0, self.high, self.low) * gaps))


def minimise(
    gram: Array,
    terms: Terms,
    alpha: float,
    start: tuple[Array, Array],
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the duality gap is small."""
    problem = _Problem(gram, terms, alpha, fit_intercept)
    scale = gamma = problem.scale
    point = problem.at(start[0][:, 0], float(start[1][0]))
    found = _Certificate(problem, tol)
    steps = 0
    while gamma >= _LEAST * scale:
        for _ in range(_STEPS):
            point, settled = problem.step(point, gamma)
            steps += 1
            if settled or steps >= max_iter:
                break
            yield found.best or point.state()
        yield found.improved(point)
        if found.converged or steps >= max_iter:
            return
        gamma *= _FALL
        point = problem.predicted(point, gamma)


@dataclass(frozen=True)
class _Point:
    """Coefficients and the intercept, and what follows from them.

    `gaps` are the distances of what terms look at from their kinks. Where a term is between its
    bounds, they are gamma times its slope, as solved for: the difference of two values would lose
    those digits. `slopes` are those of the last solution.
    """

    scaled: Array
    intercept: float
    spread: Array
    gaps: Array
    slopes: Array

    def state(self, loss: float = np.inf) -> State:
        return State(self.scaled[:, None], np.array([self.intercept]), loss, np.inf, False)


class _Problem:
    def __init__(self, gram: Array, terms: Terms, alpha: float, fit_intercept: bool) -> None:
        self.gram, self.terms, self.alpha, self.fit_intercept = gram, terms, alpha, fit_intercept
        # With an intercept, any constant may be added to the kernel; this one keeps a small system
        # regular whose rows differ by nothing but the intercept.
        mean = float(np.mean(gram.diagonal())) / alpha
        self.constant = (mean or 1.0) if fit_intercept else 0.0

    @property
    def scale(self) -> float:
        """The spread of the kinks: the width at which to begin."""
        locations = self.terms.location
        spread = float(np.abs(locations - np.median(locations)).mean())
        return spread or float(np.abs(locations).max()) or 1.0

    @property
    def null(self) -> float:
        """The loss of a constant function: what there is to lose."""
        locations = self.terms.location
        middle = float(np.median(locations)) if self.fit_intercept else 0.0
        return self.terms.loss(middle - locations)

    def spread(self, scaled: Array) -> Array:
        return self.gram @ scaled / self.alpha

    def at(self, scaled: Array, intercept: float) -> _Point:
        spread = self.spread(scaled)
        gaps = self.terms.look(spread + intercept) - self.terms.location
        return _Point(scaled, intercept, spread, gaps, np.zeros_like(gaps))

    # A step -----------------------------------------------------------------------------------

    def step(self, point: _Point, gamma: float) -> tuple[_Point, bool]:
        """One Newton step on the smoothed problem; True if it has led to the minimum."""
        terms = self.terms
        intercept, gaps = self._balanced(point, gamma)
        slopes = terms.slopes(gaps, gamma)
        between = (slopes > terms.low) & (slopes < terms.high)
        new = self._landed(slopes, between, intercept, gamma)
        change, spread_change = new.gaps - gaps, new.spread - point.spread
        linear = float(point.scaled @ spread_change)
        quadratic = float((new.scaled - point.scaled) @ spread_change)
        length = self._length(gaps, change, linear, quadratic, gamma)
        promise = -float(slopes @ change) - linear
        moved = _Point(
            point.scaled + length * (new.scaled - point.scaled),
            intercept + length * (new.intercept - intercept),
            point.spread + length * spread_change,
            gaps + length * change,
            new.slopes,
        )
        again = terms.slopes(moved.gaps, gamma)
        same = np.array_equal(between, (again > terms.low) & (again < terms.high))
        same = same and np.array_equal(slopes[~between], again[~between])
        # What is left to gain on the smoothed problem is little beside what smoothing itself costs.
        cost = float(np.sum(slopes[between] * gaps[between]))
        rounding = _EPS * float(np.abs(slopes) @ np.abs(change))
        negligible = promise <= _NEGLIGIBLE * cost + 10 * rounding
        return moved, negligible or bool(length == 1.0 and same)

    def predicted(self, point: _Point, gamma: float) -> _Point:
        """The solution at another width, if the same terms are between their bounds."""
        slopes = np.clip(point.slopes, self.terms.low, self.terms.high)
        between = (slopes > self.terms.low) & (slopes < self.terms.high)
        return self._landed(slopes, between, point.intercept, gamma)

    def _landed(self, slopes: Array, between: Mask, intercept: float, gamma: float) -> _Point:
        """The point at the end of a full step."""
        target, intercept = self._solve(slopes, between, intercept, gamma)
        new = self.at(self.terms.scatter(target, len(self.gram)), intercept)
        gaps = np.where(between, gamma * target / self.terms.weight, new.gaps)
        return replace(new, gaps=gaps, slopes=target)

    def _solve(
        self, slopes: Array, between: Mask, intercept: float, gamma: float
    ) -> tuple[Array, float]:
        """Slopes and the intercept if the terms between their bounds stay so, the others not."""
        terms, n = self.terms, len(self.gram)
        fixed = np.where(between, 0.0, slopes)
        rows, missing = terms.rows[between], -float(fixed.sum())
        others = terms.look(self.spread(terms.scatter(fixed, n)) + intercept)[between]
        right = others - terms.location[between] + self.constant * missing
        matrix = self.gram[np.ix_(rows, rows)] / self.alpha + self.constant
        ridge = gamma / terms.weight[between]
        solved = _solved(matrix, ridge, np.column_stack([right, np.ones(len(rows))]))
        found, border = solved[:, 0], solved[:, 1]
        if self.fit_intercept and border.sum() > 0:  # else nothing says where it belongs
            shift = (missing - float(found.sum())) / float(border.sum())
            found, intercept = found + shift * border, intercept + shift
        result = fixed.copy()
        result[between] = found
        return result, intercept

    def _balanced(self, point: _Point, gamma: float) -> tuple[float, Array]:
        """The intercept and the gaps, at their best where Newton's method cannot move them."""
        terms, gaps = self.terms, point.gaps
        slopes = terms.slopes(gaps, gamma)
        free = (slopes > terms.low) & (slopes < terms.high)
        balanced = abs(slopes.sum()) <= _EPS * np.abs(slopes).sum()
        if not self.fit_intercept or free.any() or balanced:
            return point.intercept, gaps
        low, high = -float(gaps.max()) - gamma, -float(gaps.min()) + gamma
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            rise = terms.slopes(gaps + middle, gamma).sum()
            low, high = (middle, high) if rise < 0 else (low, middle)
        shift = (low + high) / 2
        return point.intercept + shift, gaps + shift

    def _length(
        self, gaps: Array, change: Array, linear: float, quadratic: float, gamma: float
    ) -> float:
        """How far to go: to the minimum along the direction, at most the whole way."""

        def slope(length: float) -> float:
            slopes = self.terms.slopes(gaps + length * change, gamma)
            return float(slopes @ change) + linear + length * quadratic

        if slope(1.0) <= 1e-9 * abs(slope(0.0)):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
            if high - low <= 1e-3 * high:
                break
        return (low + high) / 2

    # Both sides of the gap ----------------------------------------------------------------------

    def exact(self, point: _Point) -> tuple[Array, float]:
        """Slopes and the intercept if the terms between their bounds are those at their kinks."""
        terms = self.terms
        between = (point.slopes > terms.low) & (point.slopes < terms.high)
        clipped = np.clip(point.slopes, terms.low, terms.high)
        return self._solve(clipped, between, point.intercept, 0.0)

    def primal(self, scaled: Array, intercept: float) -> tuple[State, float]:
        """A function with its loss and objective."""
        point = self.at(scaled, intercept)
        loss = self.terms.loss(point.gaps)
        return point.state(loss), loss + float(scaled @ point.spread) / 2

    def dual(self, slopes: Array) -> tuple[Array, float, float]:
        """Coefficients of feasible slopes, a lower bound of the objective, and its size."""
        slopes = self._feasible(np.clip(slopes, self.terms.low, self.terms.high))
        scaled = self.terms.scatter(slopes, len(self.gram))
        energy = float(scaled @ self.spread(scaled))
        bound = -float(slopes @ self.terms.location) - energy / 2
        size = float(np.abs(slopes) @ np.abs(self.terms.location))
        total = abs(float(scaled.sum())) if self.fit_intercept else 0.0
        if total > 100 * _EPS * np.abs(scaled).sum():
            bound = -np.inf
        return scaled, bound, size

    def rounding(self, state: State) -> float:
        """What rounding of the function's values can do to the objective."""
        values = self.spread(state.scaled) + state.intercept
        lost = rounding(self.gram, state.scaled / self.alpha, values)[:, 0]
        return float((self.terms.high - self.terms.low) @ self.terms.look(lost))

    def _feasible(self, slopes: Array) -> Array:
        """Slopes between their bounds such that the coefficients sum to zero."""
        if not self.fit_intercept:
            return slopes
        excess = float(slopes.sum())
        low, high = slopes - self.terms.low, self.terms.high - slopes
        room = low if excess > 0 else high
        if np.any((low > 0) & (high > 0)):  # those at a bound stay there
            room = np.where((low > 0) & (high > 0), room, 0.0)
        if room.sum() > 0:
            slopes = slopes - excess * room / max(float(room.sum()), abs(excess))
        return slopes


class _Certificate:
    """The best function and the best lower bound seen so far, and the gap between them."""

    def __init__(self, problem: _Problem, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.best: State | None = None
        self.converged = False
        self._objective, self._bound = np.inf, -np.inf

    def improved(self, point: _Point) -> State:
        """The best function after one more width of the smoothing."""
        problem, before = self.problem, self._objective - self._bound
        exact, intercept = problem.exact(point)
        slack = 0.0
        for slopes, constants in ((point.slopes, point.intercept), (exact, intercept)):
            scaled, bound, cost = problem.dual(slopes)
            self._bound, slack = max(self._bound, bound), max(slack, 100 * _EPS * cost)
            self._consider(scaled, constants)
        self._consider(point.scaled, point.intercept)
        if self.best is None:  # no objective is a number
            return point.state()
        gap = abs(self._objective - self._bound)  # below zero, it is a measure of rounding
        enough = self.tol * self._objective
        if gap > before / 2:  # no arithmetic may be able to tell it from the solution
            slack = max(slack, problem.rounding(self.best))
        self.converged = bool(
            gap <= enough + min(slack, max(_EXCUSED * enough, self.tol * problem.null))
        )
        self.best = replace(self.best, error=gap, converged=self.converged)
        return self.best

    def _consider(self, scaled: Array, intercept: float) -> None:
        state, objective = self.problem.primal(scaled, intercept)
        if objective < self._objective:
            self.best, self._objective = state, objective


def _solved(matrix: Array, ridge: Array, right: Array) -> Array:
    """The solution for the matrix plus a diagonal; without one, refined against jitter."""
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] += ridge
    factor = factorised(shifted)
    found = cho_solve(factor, right)
    for _ in range(_REFINEMENTS if not np.any(ridge) else 0):
        found = found + cho_solve(factor, right - matrix @ found)
    return np.asarray(found)
