r"""Laplace's method for a kernel matrix of low rank, K = F F'.

With C latent functions and W the Hessian of -log p(y | f), all is computed from the matrix
H = I + (I_C x F') W (I_C x F) of order C r, for r features:

.. math:: |I + K W| = |H| , \qquad (K + W^{-1})^{-1} = W - W F H^{-1} F^\top W .
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit, softmax

from mercer.linalg.blocked import cholesky, multiply
from mercer.solvers.newton.curvature import softmax_product

Array = NDArray[np.floating[Any]]


class FeatureMatrix:
    """The matrix F F', which is never formed."""

    def __init__(self, features: Array) -> None:
        self.features = features

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.features)

    def __matmul__(self, right: Array) -> Array:
        """The product F F' v."""
        product: Array = self.features @ (self.features.T @ right)
        return product


class FeatureCurvature:
    """The Hessian W at a mode, with what Laplace's method needs of it; see `Curvature`."""

    def __init__(self, gram: FeatureMatrix, latent: Array, weights: Array) -> None:
        self._features, self._weights = gram.features, weights
        binary = latent.shape[1] == 1
        self._mean = expit(latent) if binary else softmax(latent, axis=1)
        self._binary = binary
        r, c = gram.features.shape[1], latent.shape[1]
        matrix = np.empty((c, r, c, r))
        for i in range(c):
            for j in range(i + 1):
                weighted = self._entries(i, j)[:, None] * gram.features
                block = multiply(gram.features.T, weighted)
                matrix[i, :, j], matrix[j, :, i] = block, block.T
        square = matrix.reshape(c * r, c * r)
        square[np.diag_indices_from(square)] += 1
        self._upper = cholesky(square)
        self.log_determinant = 2 * float(np.sum(np.log(self._upper.diagonal())))

    def _entries(self, i: int, j: int) -> Array:
        """The diagonal of the block (i, j) of W."""
        mean, other = self._mean[:, i], 1 - self._mean[:, i] if i == j else -self._mean[:, j]
        return np.asarray(self._weights * mean * other)

    def product(self, values: Array) -> Array:
        """W v."""
        if self._binary:
            return np.asarray(self._entries(0, 0)[:, None] * values)
        product: Array = self._weights[:, None] * softmax_product(self._mean, values)
        return product

    def resolvent(self, values: Array) -> Array:
        """(K + W^-1)^-1 v."""
        curved = self.product(values)
        right = (self._features.T @ curved).T.reshape(-1)
        half = solve_triangular(self._upper, right, trans="T", check_finite=False)
        solved = solve_triangular(self._upper, half, check_finite=False)
        return curved - self.product(self._features @ solved.reshape(values.shape[1], -1).T)

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The posterior covariance of the functions at new points, (m, C, C).

        `cross` holds their features, (r, m), and `prior` the part of k(x, x) beyond the features.
        """
        r, m = cross.shape
        c = self._mean.shape[1]
        right = np.zeros((c, r, c, m))
        for i in range(c):
            right[i, :, i] = cross
        half = solve_triangular(
            self._upper, right.reshape(c * r, c * m), trans="T", check_finite=False
        ).reshape(c * r, c, m)
        covariance: Array = np.einsum("kim,kjm->mij", half, half, optimize=True)
        covariance[:, np.arange(c), np.arange(c)] += np.maximum(prior, 0.0)[:, None]
        return covariance

    def release(self) -> None:
        """Forget the features of the rows, which covariances do not need."""
        self._features = np.empty((0, 0))
