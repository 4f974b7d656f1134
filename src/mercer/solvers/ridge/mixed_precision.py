r"""Ridge regression on many features in memory: normal equations in float32, answers in float64.

.. math:: \min_{c, b} \tfrac12 \|y - \Phi c - b\|^2 + \tfrac\alpha2 \|c\|^2

The matrix of squares, which takes nearly all of the time, is needed only to precondition: in
float32 it costs half. Conjugate gradients on the equations in float64, each step two products with
the features, then reach full accuracy in two or three steps; where alpha is so small that
the errors of float32 matter, or features so large that their squares leave its range, the matrix is
computed again in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from mercer.rows.moments import OUT_OF_RANGE

__all__ = ["FeatureSolution", "feature_ridge"]

Array = NDArray[np.floating[Any]]
Solve = Callable[[Array], Array]

# Features of one block of rows, in float32: few enough for a shared cache.
_BLOCK_BYTES = 2**23
# Corrections of the coefficients, relative to them: what is aimed at, and what will do where
# rounding allows no more.
_AIM, _ENOUGH = 1e-12, 1e-9
_STEPS = 12


@dataclass(frozen=True, eq=False)
class FeatureSolution:
    """Coefficients of features."""

    coef: Array  # (m, t): the coefficients c
    intercept: Array  # (t,): the intercept b, zero if there is none
    # how far the equations are from being solved, relative to their right-hand side
    residual: float
    n_iter: int  # steps of refinement


@dataclass(frozen=True, eq=False)
class _Equations:
    """(Phi_c' Phi_c + alpha I) c = Phi_c' y_c, where the index c means centred."""

    features: Array
    mean: Array
    alpha: float

    def __matmul__(self, c: Array) -> Array:
        shifted = self.features @ c - self.mean @ c
        return self.transposed(shifted) + self.alpha * c

    def transposed(self, residuals: Array) -> Array:
        """Phi_c' r."""
        found: Array = self.features.T @ residuals - np.outer(self.mean, residuals.sum(axis=0))
        return found

    def squares(self, dtype: Any) -> Array:
        """The matrix, from blocks of centred features in the given precision."""
        n, m = self.features.shape
        total = np.zeros((m, m))
        step = max(256, _BLOCK_BYTES // (max(m, 1) * np.dtype(dtype).itemsize))
        for start in range(0, n, step):
            block = (self.features[start : start + step] - self.mean).astype(dtype, copy=False)
            total += block.T @ block
        total.flat[:: m + 1] += self.alpha
        return total


def feature_ridge(
    features: Array, targets: Array, alpha: float, *, fit_intercept: bool = True
) -> FeatureSolution:
    """Solve ridge regression on dense features in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = _solved(features, targets, alpha, fit_intercept)
    if not np.isfinite(found.coef).all():
        raise OverflowError(OUT_OF_RANGE)
    return found


def _solved(features: Array, targets: Array, alpha: float, fit_intercept: bool) -> FeatureSolution:
    mean = features.mean(axis=0) if fit_intercept else np.zeros(features.shape[1])
    middle = targets.mean(axis=0) if fit_intercept else np.zeros(targets.shape[1])
    equations = _Equations(features, mean, alpha)
    right = equations.transposed(targets - middle)
    coef, steps = np.zeros_like(right), 0
    for dtype in (np.float32, np.float64):
        matrix = equations.squares(dtype)
        if np.isfinite(matrix).all():
            coef, correction, more = _refined(equations, right, _factorised(matrix), coef)
            steps += more
            if correction <= _ENOUGH:
                break
        elif dtype is np.float64:
            raise OverflowError(OUT_OF_RANGE)
    residual = _largest(right - equations @ coef, right)
    return FeatureSolution(coef, middle - mean @ coef, residual, steps)


def _factorised(matrix: Array) -> Solve:
    """A solve with the matrix, made positive definite if rounding has made it indefinite."""
    shift = float(np.finfo(np.float32).eps) * float(np.trace(matrix)) / len(matrix)
    while True:
        try:
            factor = cho_factor(matrix, lower=True)
        except np.linalg.LinAlgError:
            matrix.flat[:: len(matrix) + 1] += shift
            shift *= 10
        else:
            return lambda right: cho_solve(factor, right)


def _refined(
    equations: _Equations, right: Array, solve: Solve, start: Array
) -> tuple[Array, float, int]:
    """Preconditioned conjugate gradients, for all right-hand sides at once.

    Returns the coefficients, how much they would change next, and the number of steps.
    """
    c = start
    r = right - equations @ c if c.any() else right.copy()
    direction, energy, last = np.zeros_like(r), np.full(right.shape[1], np.inf), np.inf
    for step in range(_STEPS):
        z = solve(r)
        correction = _largest(z, c) if step else np.inf
        # Rounding is the limit where a step no longer halves the correction.
        if correction <= _AIM or correction > last / 2:
            return c, correction, step
        before, energy, last = energy, (r * z).sum(axis=0), correction
        direction = z + direction * _ratio(energy, before)
        image = equations @ direction
        length = _ratio(energy, (direction * image).sum(axis=0))
        c = c + length * direction
        r = r - length * image
    return c, _largest(solve(r), c), _STEPS


def _ratio(a: Array, b: Array) -> Array:
    """The quotient, 0 for a right-hand side that is solved already."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _largest(parts: Array, whole: Array) -> float:
    """The largest norm of a column, relative to that of the whole."""
    sizes = np.linalg.norm(whole, axis=0)
    sizes[sizes == 0] = 1.0
    return float((np.linalg.norm(parts, axis=0) / sizes).max(initial=0.0))
