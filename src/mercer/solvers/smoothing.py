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
and the gap between both sides above proves it. Because the factor is that small, no
eigendecomposition of the whole matrix is needed, whose cost alone is that of several fits.

.. [1] Q. Tang, Y. Gu, B. Wang (2024). fastkqr: a fast algorithm for kernel quantile regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from mercer.solvers.newton import State

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

_FALL = 0.1
_LEAST = 1e-13
_STEPS = 30
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

    def slopes(self, looks: Array, gamma: float) -> Array:
        """The slopes of the smoothed terms."""
        return np.clip(self.weight * (looks - self.location) / gamma, self.low, self.high)

    def loss(self, looks: Array) -> float:
        """The sum of all terms that have finite slopes."""
        gap = looks - self.location
        finite = np.isfinite(self.high)
        parts = np.where(gap > 0, np.where(finite, self.high, 0.0), self.low) * gap
        return float(parts.sum())


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

    Yields
    ------
    State
        At least one; the last is the exact solution if it is converged.
    """
    problem = _Problem(gram, terms, alpha, fit_intercept)
    scale = problem.scale
    gamma = scale if gamma is None else gamma
    scaled, intercept = start
    best: State | None = None
    steps = 0
    while gamma >= _LEAST * scale:
        for _ in range(_STEPS):
            scaled, intercept, settled = problem.step(scaled, intercept, gamma)
            steps += 1
            if settled or steps >= max_iter:
                break
            yield problem.unfinished(scaled, intercept, best)
        candidates = problem.certified(scaled, intercept, gamma, tol)
        best = min(candidates if best is None else (best, *candidates), key=lambda s: s.error)
        yield best
        if best.converged or steps >= max_iter:
            return
        gamma *= _FALL


class _Problem:
    def __init__(self, gram: Array, terms: Terms, alpha: float, fit_intercept: bool) -> None:
        self.gram, self.terms, self.alpha = gram, terms, alpha
        self.fit_intercept = fit_intercept
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

    # A step -----------------------------------------------------------------------------------

    def step(self, scaled: Array, intercept: Array, gamma: float) -> tuple[Array, Array, bool]:
        """One Newton step on the smoothed problem; True if it has led to the minimum."""
        terms = self.terms
        spread = self.spread(scaled)
        intercept = self._balanced(spread, intercept, gamma)
        looks = terms.look(spread + intercept)
        slopes = terms.slopes(looks, gamma)
        between = (slopes > terms.low) & (slopes < terms.high)
        target, wanted = self._solve(slopes, between, intercept, gamma)
        new = terms.scatter(target, len(self.gram))
        new_spread = self.spread(new)
        change = terms.look(new_spread + wanted) - looks
        linear = float(np.sum(scaled * (new_spread - spread)))
        quadratic = float(np.sum((new - scaled) * (new_spread - spread)))
        length = self._length(looks, change, linear, quadratic, gamma)
        moved = looks + length * change
        again = terms.slopes(moved, gamma)
        same = np.array_equal(between, (again > terms.low) & (again < terms.high))
        same = same and np.array_equal(slopes[~between], again[~between])
        scaled = scaled + length * (new - scaled)
        intercept = intercept + length * (wanted - intercept)
        return scaled, intercept, bool(length == 1.0 and same)

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
        factor = _factor(matrix, gamma / terms.weight[between])
        solved = cho_solve(factor, np.column_stack([right, mix]))
        found, border = solved[:, 0], solved[:, 1:]
        if self.fit_intercept:
            # Outputs without a term between its bounds keep their intercept: least squares.
            shift = np.linalg.lstsq(mix.T @ border, missing - mix.T @ found, rcond=1e-13)[0]
            found, intercept = found + border @ shift, intercept + shift
        result = fixed.copy()
        result[between] = found
        return result, intercept

    def _balanced(self, spread: Array, intercept: Array, gamma: float) -> Array:
        """Intercepts of outputs that Newton's method cannot move, at their best in turn."""
        if not self.fit_intercept:
            return intercept
        terms, intercept = self.terms, intercept.copy()
        for output in range(len(intercept)):
            used = terms.mix[:, output]
            looks = terms.look(spread + intercept)
            slopes = terms.slopes(looks, gamma)
            free = (slopes > terms.low) & (slopes < terms.high) & (used != 0)
            if free.any() or abs(slopes @ used) <= _EPS * np.abs(slopes) @ np.abs(used):
                continue
            mine = used != 0
            shifts = (terms.location - looks)[mine] / used[mine]
            low, high = shifts.min() - gamma, shifts.max() + gamma
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                rise = terms.slopes(looks + middle * used, gamma) @ used
                low, high = (middle, high) if rise < 0 else (low, middle)
            intercept[output] += (low + high) / 2
        return intercept

    def _length(
        self, looks: Array, change: Array, linear: float, quadratic: float, gamma: float
    ) -> float:
        """How far to go: to the minimum along the direction, at most the whole way."""

        def slope(length: float) -> float:
            slopes = self.terms.slopes(looks + length * change, gamma)
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

    # Certificates -----------------------------------------------------------------------------

    def certified(
        self, scaled: Array, intercept: Array, gamma: float, tol: float
    ) -> tuple[State, State]:
        """The minimum of the smoothed problem and the exact solution it suggests, with gaps."""
        terms = self.terms
        slopes = terms.slopes(terms.look(self.spread(scaled) + intercept), gamma)
        between = (slopes > terms.low) & (slopes < terms.high)
        exact, shifted = self._solve(slopes, between, intercept, 0.0)
        return self._state(slopes, intercept, tol), self._state(exact, shifted, tol)

    def _state(self, slopes: Array, intercept: Array, tol: float) -> State:
        slopes = self._feasible(np.clip(slopes, self.terms.low, self.terms.high))
        scaled = self.terms.scatter(slopes, len(self.gram))
        spread = self.spread(scaled)
        looks = self.terms.look(spread + intercept)
        loss, energy = self.terms.loss(looks), float(np.sum(scaled * spread))
        gap = loss + energy + float(slopes @ self.terms.location)
        total = float(np.linalg.norm(scaled.sum(axis=0))) if self.fit_intercept else 0.0
        size = float(np.abs(slopes) @ (np.abs(self.terms.location) + np.abs(looks)))
        if total > 100 * _EPS * np.abs(scaled).sum() or self._violated(looks):
            gap = np.inf
        gap = max(gap, 0.0)
        converged = gap <= tol * (loss + energy / 2) + 100 * _EPS * size
        return State(scaled, intercept, loss, gap, bool(converged))

    def _feasible(self, slopes: Array) -> Array:
        """Slopes between their bounds such that the coefficients of each output sum to zero."""
        if not self.fit_intercept:
            return slopes
        terms, slopes = self.terms, slopes.copy()
        single = np.abs(terms.mix).sum(axis=1) == 1
        for output, used in enumerate(terms.mix.T):
            mine = single & (used == 1)
            excess = float(slopes @ terms.mix[:, output])
            room = (slopes - terms.low if excess > 0 else terms.high - slopes) * mine
            # Those near the middle of their range move; those at a bound stay there.
            other = terms.high - slopes if excess > 0 else slopes - terms.low
            room = np.where(mine & (other > 0), room, 0.0) if np.any(mine & (other > 0)) else room
            if room.sum() > 0:
                slopes -= excess * room / max(room.sum(), abs(excess))
        return slopes

    def _violated(self, looks: Array) -> bool:
        """Whether a term whose slope is unbounded, a constraint, is not satisfied."""
        hard = ~np.isfinite(self.terms.high)
        return bool(np.any(looks[hard] > 0))

    def unfinished(self, scaled: Array, intercept: Array, best: State | None) -> State:
        """A state on the way, whose gap is not known: that of the last certificate stands."""
        if best is not None:
            return best
        looks = self.terms.look(self.spread(scaled) + intercept)
        return State(scaled, intercept, self.terms.loss(looks), np.inf, False)


def _factor(matrix: Array, ridge: Array) -> Any:
    """The Cholesky factor of the matrix plus a diagonal, with as little more as it takes."""
    diagonal = matrix.diagonal() + ridge
    mean = float(diagonal.mean()) if diagonal.size else 1.0
    jitter = 0.0
    while True:
        trial = matrix.copy()
        np.fill_diagonal(trial, diagonal + jitter * mean)
        try:
            return cho_factor(trial, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            # What this costs in accuracy shows in the gap.
            jitter = max(100 * jitter, len(matrix) * _EPS)
            if jitter > 1:
                raise
