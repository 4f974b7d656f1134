r"""Finite smoothing for losses with kinks, finished exactly and certified by a duality gap.

The values of k functions are F = G T + 1 b' with G = K / alpha. A term z of the loss looks at one
combination g_z = u_z . F[i_z] and is linear on both sides of t_z, with slopes l_z <= 0 <= h_z:

.. math:: \min_{T, b} \sum_z \phi_z(g_z) + \tfrac12 \operatorname{tr} T^\top G\, T
   = \max_{l \le s \le h} -\sum_z s_z t_z - \tfrac12 \operatorname{tr} T^\top G\, T,
   \qquad T = -\sum_z s_z e_{i_z} u_z^\top ,

where with intercepts the columns of T sum to zero. Smoothing replaces the slope of a term by
s_z = clip(w_z (g_z - t_z) / gamma, l_z, h_z). Newton's method on the smooth problem needs a
Cholesky factor in the terms between their bounds alone, which become few as gamma falls: the other
slopes are known. When gamma is small enough, those are the terms that sit at their kink in the
solution; then gamma = 0 in the same equations gives it exactly, the idea of finite smoothing [1]_,
and the gap between both sides above proves it. Because the factor is that small, the
eigendecomposition of the whole matrix, which first-order methods reuse, is not worth its price.

.. [1] Q. Tang, Y. Gu, B. Wang (2024). fastkqr: a fast algorithm for kernel quantile regression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from mercer.solvers.newton import State, factorised, rounding

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
Shift = Callable[[Array], Array]

_FALL = 0.1
_LEAST = 1e-13
_STEPS = 300
_REFINEMENTS = 3
_NEGLIGIBLE = 1e-6
_VIOLATION = 1e-9
_BISECTIONS = 60
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Terms:
    """The terms of a piecewise linear loss.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        The point i_z that a term looks at.
    mix : ndarray of shape (m, k)
        The combination u_z of outputs.
    location, low, high : ndarray of shape (m,)
        The kink t_z and the slopes on both sides.
    weight : ndarray of shape (m,)
        How steeply the slope changes where the kink is smoothed.
    """

    rows: NDArray[np.intp]
    mix: Array
    location: Array
    low: Array
    high: Array
    weight: Array

    def look(self, values: Array) -> Array:
        """The combination that each term looks at."""
        return np.asarray(np.einsum("zk,zk->z", values[self.rows], self.mix))

    def scatter(self, slopes: Array, n: int) -> Array:
        """The coefficients T that belong to slopes."""
        columns = [np.bincount(self.rows, slopes * u, minlength=n) for u in self.mix.T]
        return -np.column_stack(columns).astype(np.float64)

    def slopes(self, gaps: Array, gamma: float) -> Array:
        """The slopes of the smoothed terms, at these distances from their kinks."""
        return np.clip(self.weight * gaps / gamma, self.low, self.high)

    def loss(self, gaps: Array) -> float:
        """The sum of all terms that have finite slopes."""
        high = np.where(np.isfinite(self.high), self.high, 0.0)
        return float(np.sum(np.where(gaps > 0, high, self.low) * gaps))


def minimise(
    gram: Array,
    terms: Terms,
    alpha: float,
    start: tuple[Array, Array],
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    gamma: float | None = None,
    shift: Shift | None = None,
    allowance: float = 0.0,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the duality gap is small.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semi-definite, float64.
    terms : Terms
        The loss.
    alpha : float
        Positive weight of half the squared norm.
    start : tuple of ndarray of shapes (n, k) and (k,)
        alpha times coefficients and intercepts to begin with.
    fit_intercept : bool
        Whether the intercepts are fitted, or stay as they are.
    tol : float
        The gap may be this part of the objective.
    max_iter : int
        The largest number of steps.
    gamma : float, optional
        The first width of the smoothing; by default the scale of the kinks' locations.
    shift : callable, optional
        Takes the values of the functions and returns what to add to the intercepts so that terms
        with infinite slopes, which are constraints, are satisfied.
    allowance : float
        What a shift costs at least: a gap up to this is none.

    Yields
    ------
    State
        At least one; the last is the exact solution if it is converged.
    """
    problem = _Problem(gram, terms, alpha, fit_intercept, shift)
    scale = problem.scale
    gamma = scale if gamma is None else gamma
    point = problem.at(*start)
    found = _Certificate(problem, tol, allowance)
    steps = 0
    while gamma >= _LEAST * scale:
        for _ in range(_STEPS):
            point, settled = problem.step(point, gamma)
            steps += 1
            if settled or steps >= max_iter:
                break
            yield found.best or State(point.scaled, point.intercept, np.inf, np.inf, False)
        yield found.improved(point)
        if found.converged or steps >= max_iter:
            return
        gamma *= _FALL
        point = problem.predicted(point, gamma)


@dataclass(frozen=True)
class _Point:
    """Coefficients and intercepts, and what follows from them.

    `gaps` are the distances of what terms look at from their kinks. Where a term is between its
    bounds, they are gamma times its slope, as solved for: the difference of two values would lose
    those digits. `slopes` are those of the last solution.
    """

    scaled: Array
    intercept: Array
    spread: Array
    gaps: Array
    slopes: Array


class _Problem:
    def __init__(
        self,
        gram: Array,
        terms: Terms,
        alpha: float,
        fit_intercept: bool,
        shift: Shift | None = None,
    ) -> None:
        self.gram, self.terms, self.alpha = gram, terms, alpha
        self.fit_intercept, self.shift = fit_intercept, shift
        # With an intercept, any constant may be added to the kernel; this one keeps a small system
        # regular whose rows differ by nothing but the intercept.
        mean = float(np.mean(gram.diagonal())) / alpha
        self.constant = (mean or 1.0) if fit_intercept else 0.0

    @property
    def scale(self) -> float:
        """The spread of the kinks: the width at which to begin."""
        locations = self.terms.location[np.isfinite(self.terms.high)]
        spread = float(np.abs(locations - np.median(locations)).mean())
        return spread or float(np.abs(locations).max()) or 1.0

    def spread(self, scaled: Array) -> Array:
        return self.gram @ scaled / self.alpha

    def at(self, scaled: Array, intercept: Array) -> _Point:
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
        linear = float(np.sum(point.scaled * spread_change))
        quadratic = float(np.sum((new.scaled - point.scaled) * spread_change))
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

    def _landed(self, slopes: Array, between: Mask, intercept: Array, gamma: float) -> _Point:
        """The point at the end of a full step."""
        target, intercept = self._solve(slopes, between, intercept, gamma)
        new = self.at(self.terms.scatter(target, len(self.gram)), intercept)
        gaps = np.where(between, gamma * target / self.terms.weight, new.gaps)
        return replace(new, gaps=gaps, slopes=target)

    def _solve(
        self, slopes: Array, between: Mask, intercept: Array, gamma: float
    ) -> tuple[Array, Array]:
        """Slopes and intercepts if the terms between their bounds stay so, and the others not."""
        terms, n = self.terms, len(self.gram)
        fixed = np.where(between, 0.0, slopes)
        rows, mix = terms.rows[between], terms.mix[between]
        missing = -(fixed @ terms.mix)
        others = terms.look(self.spread(terms.scatter(fixed, n)) + intercept)[between]
        right = others - terms.location[between] + self.constant * (mix @ missing)
        matrix = (self.gram[np.ix_(rows, rows)] / self.alpha + self.constant) * (mix @ mix.T)
        ridge = gamma / terms.weight[between]
        solved = _solved(matrix, ridge, np.column_stack([right, mix]))
        found, border = solved[:, 0], solved[:, 1:]
        if self.fit_intercept:
            # Outputs without a term between its bounds keep their intercept: least squares.
            shift = np.linalg.lstsq(mix.T @ border, missing - mix.T @ found, rcond=1e-13)[0]
            found, intercept = found + border @ shift, intercept + shift
        result = fixed.copy()
        result[between] = found
        return result, intercept

    def _balanced(self, point: _Point, gamma: float) -> tuple[Array, Array]:
        """Intercepts and gaps, the intercepts that Newton's method cannot move at their best."""
        terms, intercept, gaps = self.terms, point.intercept.copy(), point.gaps
        for output in range(len(intercept) if self.fit_intercept else 0):
            used = terms.mix[:, output]
            slopes = terms.slopes(gaps, gamma)
            free = (slopes > terms.low) & (slopes < terms.high) & (used != 0)
            if free.any() or abs(slopes @ used) <= _EPS * np.abs(slopes) @ np.abs(used):
                continue
            mine = used != 0
            shifts = -gaps[mine] / used[mine]
            low, high = shifts.min() - gamma, shifts.max() + gamma
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                rise = terms.slopes(gaps + middle * used, gamma) @ used
                low, high = (middle, high) if rise < 0 else (low, middle)
            intercept[output] += (low + high) / 2
            gaps = gaps + used * (low + high) / 2
        return intercept, gaps

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

    def exact(self, point: _Point) -> tuple[Array, Array]:
        """Slopes and intercepts if the terms between their bounds are those at their kinks."""
        terms = self.terms
        between = (point.slopes > terms.low) & (point.slopes < terms.high)
        clipped = np.clip(point.slopes, terms.low, terms.high)
        return self._solve(clipped, between, point.intercept, 0.0)

    def primal(self, scaled: Array, intercept: Array) -> tuple[State, float]:
        """A function with its loss and objective, infinite if it breaks a constraint."""
        spread = self.spread(scaled)
        if self.shift is not None and self.fit_intercept:
            intercept = intercept + self.shift(spread + intercept)
        looks = self.terms.look(spread + intercept)
        hard = ~np.isfinite(self.terms.high)
        loss = self.terms.loss(looks - self.terms.location)
        objective = loss + float(np.sum(scaled * spread)) / 2
        if np.any(looks[hard] > _VIOLATION * self.scale):
            objective = np.inf
        return State(scaled, intercept, loss, np.inf, False), objective

    def dual(self, slopes: Array) -> tuple[Array, float, float]:
        """Coefficients of feasible slopes, a lower bound of the objective, and its size."""
        slopes = self._feasible(np.clip(slopes, self.terms.low, self.terms.high))
        scaled = self.terms.scatter(slopes, len(self.gram))
        energy = float(np.sum(scaled * self.spread(scaled)))
        bound = -float(slopes @ self.terms.location) - energy / 2
        size = float(np.abs(slopes) @ np.abs(self.terms.location))
        total = float(np.linalg.norm(scaled.sum(axis=0))) if self.fit_intercept else 0.0
        if total > 100 * _EPS * np.abs(scaled).sum():
            bound = -np.inf
        return scaled, bound, size

    def rounding(self, state: State) -> float:
        """What rounding of the functions' values can do to the objective."""
        values = self.spread(state.scaled) + state.intercept
        lost = rounding(self.gram, state.scaled / self.alpha, values)
        finite = np.where(np.isfinite(self.terms.high), self.terms.high, 0.0)
        return float((finite - self.terms.low) @ np.abs(self.terms.look(lost)))

    def _feasible(self, slopes: Array) -> Array:
        """Slopes between their bounds such that the coefficients of each output sum to zero."""
        if not self.fit_intercept:
            return slopes
        terms, slopes = self.terms, slopes.copy()
        single = np.abs(terms.mix).sum(axis=1) == 1
        for output, used in enumerate(terms.mix.T):
            mine = single & (used == 1)
            excess = float(slopes @ terms.mix[:, output])
            low, high = slopes[mine] - terms.low[mine], terms.high[mine] - slopes[mine]
            room = low if excess > 0 else high
            if np.any((low > 0) & (high > 0)):  # those at a bound stay there
                room = np.where((low > 0) & (high > 0), room, 0.0)
            if room.sum() > 0:
                slopes[mine] -= excess * room / max(room.sum(), abs(excess))
        return slopes


class _Certificate:
    """The best function and the best lower bound seen so far, and the gap between them."""

    def __init__(self, problem: _Problem, tol: float, allowance: float) -> None:
        self.problem, self.tol, self.allowance = problem, tol, allowance
        self.best: State | None = None
        self.converged = False
        self._objective, self._bound = np.inf, -np.inf

    def improved(self, point: _Point) -> State:
        """The best function after one more width of the smoothing."""
        problem, before = self.problem, self._objective - self._bound
        exact, intercept = problem.exact(point)
        slack = self.allowance
        for slopes, constants in ((point.slopes, point.intercept), (exact, intercept)):
            scaled, bound, cost = problem.dual(slopes)
            self._bound, slack = max(self._bound, bound), max(slack, 100 * _EPS * cost)
            self._consider(scaled, constants)
        self._consider(point.scaled, point.intercept)
        if self.best is None:  # nothing satisfies the constraints yet
            return State(point.scaled, point.intercept, np.inf, np.inf, False)
        gap = abs(self._objective - self._bound)  # below zero, it is a measure of rounding
        self.converged = gap <= self.tol * self._objective + slack
        if gap > before / 2 and gap <= np.sqrt(self.tol) * self._objective:
            # No arithmetic may be able to tell it from the solution.
            self.converged |= gap <= problem.rounding(self.best)
        self.best = replace(self.best, error=gap, converged=self.converged)
        return self.best

    def _consider(self, scaled: Array, intercept: Array) -> None:
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
