r"""Several quantiles in order by an interior-point method, robust to ties and unequal weights.

With a root R R' = K / alpha, whose columns belong to the positive eigenvalues, the values of k
functions are F = A X, where A is R and, with intercepts, a column of ones. With residuals
F - y = U - V and rises F_(j+1) - F_j = O, where U, V and O are at least zero, the problem is a
quadratic program with multipliers

.. math:: Z_U = w (1 - \tau) - S, \quad Z_V = w \tau + S, \quad \Lambda \ge 0, \qquad
   J X + A^\top (S - \Lambda B^\top) = 0,

where B takes differences of neighbours and J leaves the intercepts out. The path U Z_U = V Z_V =
O Lambda = mu is followed by the predictor and corrector of Mehrotra [1]_. The equations of a step
in X are block tridiagonal, with blocks A' D_j A + J, where D_j is positive, on the diagonal and
-A' E_j A beside it, which takes one Cholesky factor per function.

.. [1] S. Mehrotra (1992). On the implementation of a primal-dual interior point method. SIAM
   Journal on Optimization 2(4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from mercer.arrays import Array
from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.kinks.isotonic import lower_solve
from mercer.solvers.kinks.joint_quantiles import Problem
from mercer.solvers.newton.curvature import factorised

# Eigenvalues up to this share of the largest one count as rounding error.
_NEGLIGIBLE = 1e-14
# Largest step, as a share of the distance to the boundary.
_SHORT = 0.99


@dataclass(frozen=True)
class Root:
    """A matrix as R R', and the generalised inverse of R."""

    factor: Array  # (n, rank): R
    inverse: Array  # (n, rank): the transpose of the generalised inverse of R

    @classmethod
    def of(cls, gram: Array | LowRankMatrix, alpha: float) -> Root:
        """The root of K / alpha by eigenvectors of it, or of F'F / alpha if K is F F'."""
        matrix = gram.factor.T @ gram.factor if isinstance(gram, LowRankMatrix) else gram
        values, vectors = eigh(matrix / alpha, check_finite=False)
        keep = values > max(_NEGLIGIBLE * float(values[-1]), 0.0)
        values, vectors = values[keep], vectors[:, keep]
        if isinstance(gram, LowRankMatrix):
            root = gram.factor @ vectors / np.sqrt(alpha)
            return cls(root, root / values)
        return cls(vectors * np.sqrt(values), vectors / np.sqrt(values))

    @property
    def rank(self) -> int:
        """The number of columns."""
        return int(self.factor.shape[1])


@dataclass(frozen=True)
class _Iterate:
    """Coordinates X, slopes S, multipliers Lambda of the rises, and the parts U, V and O."""

    coordinates: Array
    slopes: Array
    rise_multiplier: Array
    over: Array
    under: Array
    rise: Array

    def moved(self, change: _Iterate, length: float) -> _Iterate:
        """The iterate after `length` times a step."""
        steps = {name: value + length * vars(change)[name] for name, value in vars(self).items()}
        return _Iterate(**steps)


class InteriorPoint:
    """An iterate near the central path, which moves one step at a time."""

    def __init__(self, problem: Problem, root: Array) -> None:
        weights, levels = problem.weights[:, None], problem.levels
        ones = np.ones((len(root), 1 if problem.fit_intercept else 0))
        self._basis = np.hstack([root, ones])
        self._penalised = np.append(np.ones(root.shape[1]), np.zeros(ones.shape[1]))[:, None]
        self._targets, self._rank = problem.targets[:, None], root.shape[1]
        self._low, self._high = -weights * levels, weights * (1 - levels)
        self._here = self._start(problem)

    def _start(self, problem: Problem) -> _Iterate:
        """An initial point with equal complementarity products: unequal ones shorten steps."""
        n, k = len(problem.targets), len(problem.levels)
        coordinates = np.zeros((self._basis.shape[1], k))
        coordinates[self._rank :] = np.quantile(self._targets, problem.levels)
        away = self._basis @ coordinates - self._targets
        mean = float(problem.weights.mean())
        part = problem.scale * mean / problem.weights[:, None]
        return _Iterate(
            coordinates,
            (self._low + self._high) / 2,
            np.full((n, k - 1), mean / 2),
            np.maximum(away, 0) + part,
            np.maximum(-away, 0) + part,
            np.full((n, k - 1), problem.scale),
        )

    @property
    def coef(self) -> Array:
        """The multipliers as alpha times coefficients of the points."""
        return -_total_slopes(self._here.slopes, self._here.rise_multiplier)

    @property
    def coordinates(self) -> Array:
        """Coordinates of the functions in the root, of shape (rank, k)."""
        return self._here.coordinates[: self._rank]

    @property
    def intercept(self) -> Array:
        """The intercepts, zero if they are not fitted."""
        return np.asarray(self._here.coordinates[self._rank :].sum(axis=0))

    @property
    def gap(self) -> float:
        """The sum of the complementarity products: the duality gap, if the equations hold."""
        return float(sum(np.sum(part * other) for part, other in self._pairs(self._here)))

    @property
    def objective(self) -> float:
        """The objective, if the equations hold."""
        here = self._here
        loss = float(np.sum(self._high * here.over - self._low * here.under))
        return loss + float(np.sum(self.coordinates**2)) / 2

    def _pairs(self, at: _Iterate) -> list[tuple[Array, Array]]:
        """The pairs (U, Z_U), (V, Z_V) and (O, Lambda), which stay positive."""
        return [
            (at.over, self._high - at.slopes),
            (at.under, at.slopes - self._low),
            (at.rise, at.rise_multiplier),
        ]

    def step(self) -> float:
        """Take one step and return its length."""
        here, pairs = self._here, self._pairs(self._here)
        products = [part * other for part, other in pairs]
        equations = _Equations(self._basis, self._penalised, pairs)
        residuals = self._residuals(here)
        predicted = equations.direction(residuals, [-product for product in products])
        reached = here.moved(predicted, self._room(predicted))
        gap, new_gap = self.gap, sum(float(np.sum(a * b)) for a, b in self._pairs(reached))
        centre = (new_gap / gap) ** 3 * gap / sum(product.size for product in products)
        corrections = [
            -predicted.over * predicted.slopes,
            predicted.under * predicted.slopes,
            predicted.rise * predicted.rise_multiplier,
        ]
        wanted = [centre - p - c for p, c in zip(products, corrections, strict=True)]
        change = equations.direction(residuals, wanted)
        length = self._room(change)
        self._here = here.moved(change, length if length == 1.0 else _SHORT * length)
        return length

    def _residuals(self, here: _Iterate) -> tuple[Array, Array, Array]:
        """The residuals of stationarity, of F - y = U - V and of the rises."""
        values = self._basis @ here.coordinates
        slopes = _total_slopes(here.slopes, here.rise_multiplier)
        return (
            self._penalised * here.coordinates + self._basis.T @ slopes,
            values - self._targets - here.over + here.under,
            np.diff(values, axis=1) - here.rise,
        )

    def _room(self, change: _Iterate) -> float:
        """The largest step length in [0, 1] at which all parts and multipliers stay positive."""
        signs = [
            (change.over, -change.slopes),
            (change.under, change.slopes),
            (change.rise, change.rise_multiplier),
        ]
        length = 1.0
        for both, moves in zip(self._pairs(self._here), signs, strict=True):
            for value, move in zip(both, moves, strict=True):
                falls = move < 0
                length = min(length, float(np.min(-value[falls] / move[falls], initial=1.0)))
        return length


class _Equations:
    """Newton's equations at an iterate, for any right-hand side."""

    def __init__(self, basis: Array, penalised: Array, pairs: list[tuple[Array, Array]]) -> None:
        self.basis, self.pairs = basis, pairs
        (over, above), (under, below), (rise, rise_multiplier) = pairs
        self.stiff = 1 / (over / above + under / below)
        self.tie = rise_multiplier / rise
        diagonal = self.stiff.copy()
        diagonal[:, :-1] += self.tie
        diagonal[:, 1:] += self.tie
        self._solve = _tridiagonal(basis, penalised[:, 0], diagonal, self.tie)

    def direction(self, residuals: tuple[Array, Array, Array], wanted: Sequence[Array]) -> _Iterate:
        """The step that removes the residuals and changes the complementarity products."""
        (over, above), (under, below), (rise, rise_multiplier) = self.pairs
        gradient, gaps, rises = residuals
        fixed = self.stiff * (gaps - wanted[0] / above + wanted[1] / below)
        fixed_multiplier = wanted[2] / rise - self.tie * rises
        right = -gradient - self.basis.T @ _total_slopes(fixed, fixed_multiplier)
        coordinates = self._solve(right)
        values = self.basis @ coordinates
        slopes = self.stiff * values + fixed
        rise_change = np.diff(values, axis=1) + rises
        return _Iterate(
            coordinates,
            slopes,
            (wanted[2] - rise_multiplier * rise_change) / rise,
            (wanted[0] + over * slopes) / above,
            (wanted[1] - under * slopes) / below,
            rise_change,
        )


def _total_slopes(slopes: Array, rise_multiplier: Array) -> Array:
    """S - Lambda B'."""
    total = slopes.copy()
    total[:, :-1] += rise_multiplier
    total[:, 1:] -= rise_multiplier
    return total


def _tridiagonal(
    basis: Array, penalised: Array, diagonal: Array, tie: Array
) -> Callable[[Array], Array]:
    """A solver of the block tridiagonal equations with blocks A' D_j A + J and -A' E_j A."""
    lowers: list[Array] = []
    for j, column in enumerate(diagonal.T):
        block = (basis.T * column) @ basis
        block.flat[:: len(block) + 1] += penalised
        if j:
            half = lower_solve(lowers[-1], (basis.T * tie[:, j - 1]) @ basis)
            block -= half.T @ half
        lowers.append(np.tril(factorised(block)[0].T))

    def beside(j: int, column: Array) -> Array:  # blocks beside the diagonal are not stored
        return np.asarray(basis.T @ (tie[:, j] * (basis @ column)))

    def solve(right: Array) -> Array:
        first: list[Array] = []
        for j, lower in enumerate(lowers):
            column = right[:, j]
            if j:
                column = column + beside(j - 1, lower_solve(lowers[j - 1], first[-1], "T"))
            first.append(lower_solve(lower, column))
        solved = np.empty_like(right)
        for j in reversed(range(len(lowers))):
            column = first[j]
            if j < len(lowers) - 1:
                column = column + lower_solve(lowers[j], beside(j, solved[:, j + 1]))
            solved[:, j] = lower_solve(lowers[j], column, "T")
        return solved

    return solve
