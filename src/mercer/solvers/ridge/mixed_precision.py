r"""Ridge regression on many features in memory: normal equations in float32, answers in float64.

.. math:: \min_{c, b} \tfrac12 \|y - \Phi c - b\|^2 + \tfrac\alpha2 \|c\|^2

The matrix Phi'Phi takes nearly all of the time, and is needed only as a preconditioner: float32
halves its cost. Conjugate gradients in float64, each step two products with the features, then
reach full accuracy in two or three steps. If alpha is so small that float32 errors matter, the
matrix is computed again in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.arrays import Array
from mercer.linalg import conjugate_gradient
from mercer.linalg.cholesky import shifted_cholesky
from mercer.rows.moments import require_finite
from mercer.sampling import blocks

# Relative error of the function at which to stop.
_TOL = 1e-12
# Largest relative error of the function that is accepted as rounding error.
_ACCEPTED = 1e-9
# Largest number of conjugate gradient steps per preconditioner.
_STEPS = 12


@dataclass(frozen=True, eq=False)
class FeatureSolution:
    """Coefficients of features."""

    coef: Array  # (m, t): the coefficients c
    intercept: Array  # (t,): the intercept b, zero if there is none
    residual: float  # residual of the equations, relative to their right-hand side
    n_iter: int  # conjugate gradient steps


@dataclass(frozen=True, eq=False)
class _Equations:
    """(Phi_c' Phi_c + alpha I) c = Phi_c' y_c, where the index c means centred."""

    features: Array
    mean: Array
    alpha: float

    def __matmul__(self, c: Array) -> Array:
        centred = self.features @ c - self.mean @ c
        return self.transposed(centred) + self.alpha * c

    def transposed(self, residuals: Array) -> Array:
        """Phi_c' r."""
        product: Array = self.features.T @ residuals - np.outer(self.mean, residuals.sum(axis=0))
        return product

    def factor(self, dtype: Any) -> Array:
        """The upper Cholesky factor of the matrix, from blocks of features in some precision.

        Jitter of the size of rounding error is added if the factorisation fails.
        """
        n, m = self.features.shape
        total = np.zeros((m, m))
        for rows in blocks(n, m):
            block = (self.features[rows] - self.mean).astype(dtype, copy=False)
            total += block.T @ block
        total.flat[:: m + 1] += self.alpha
        require_finite(total)
        mean = float(np.trace(total)) / m
        factor = shifted_cholesky(total, float(np.finfo(dtype).eps) * mean, mean)
        assert factor is not None  # a shift by the mean eigenvalue makes the matrix definite
        return factor[0]


@np.errstate(over="ignore", invalid="ignore")  # refused as not finite
def feature_ridge(
    features: Array, targets: Array, alpha: float, *, fit_intercept: bool = True
) -> FeatureSolution:
    """Solve ridge regression on dense features in float64."""
    mean = features.mean(axis=0) if fit_intercept else np.zeros(features.shape[1])
    middle = targets.mean(axis=0) if fit_intercept else np.zeros(targets.shape[1])
    equations = _Equations(features, mean, alpha)
    right = equations.transposed(targets - middle)
    require_finite(right)
    coef, steps = np.zeros_like(right), 0
    for dtype in (np.float32, np.float64):
        root = equations.factor(dtype)
        coef, error, more = _preconditioned(equations, right, root, coef)
        steps += more
        if error <= _ACCEPTED:
            break
    residual = np.linalg.norm(right - equations @ coef, axis=0)
    sizes = np.linalg.norm(right, axis=0)
    relative = float((residual / np.where(sizes > 0, sizes, 1.0)).max(initial=0.0))
    return FeatureSolution(coef, middle - mean @ coef, relative, steps)


def _preconditioned(
    equations: _Equations, right: Array, root: Array, start: Array
) -> tuple[Array, float, int]:
    """Conjugate gradients in coordinates v = U c with U'U close to the matrix A of the equations.

    In these coordinates the matrix is close to the identity, and the relative residual to the
    relative error of the function. Returns coefficients, this error, and the number of steps.
    """

    def image(vectors: Array) -> Array:
        product = equations @ solve_triangular(root, vectors, check_finite=False)
        return np.asarray(solve_triangular(root, product, trans="T", check_finite=False))

    progress = conjugate_gradient.solve(
        image,
        solve_triangular(root, right, trans="T", check_finite=False),
        0.0,
        start=root @ start,
        tol=_TOL,
        max_iter=_STEPS,
    )
    coef: Array = solve_triangular(root, progress.solution, check_finite=False)
    return coef, float(progress.residuals.max(initial=0.0)), progress.n_iter
