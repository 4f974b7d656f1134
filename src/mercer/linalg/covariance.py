"""Covariances that were computed as differences, so that rounding may leave them indefinite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer.arrays import Array
from mercer.linalg.cholesky import shifted_cholesky

# Jitter of a matrix of correlations with which it may count as positive semi-definite.
_JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class Covariance:
    """A positive semi-definite matrix, and a root of it."""

    matrix: Array  # (m, m)
    root: Array  # (m, m): a matrix R with R R' = matrix, up to rounding

    @classmethod
    def rounded(cls, matrix: Array, variance: Array) -> Covariance:
        """The covariance with this diagonal that is close to a matrix with rounding errors.

        Negative eigenvalues of the correlations become zero. The matrix is overwritten.
        """
        deviation = np.sqrt(variance)[:, None]
        np.fill_diagonal(matrix, variance)
        unit = np.where(deviation > 0, deviation, 1.0)
        correlation = matrix / unit / unit.T
        np.fill_diagonal(correlation, 1.0)
        factor = shifted_cholesky(correlation, _JITTER, _JITTER)
        if factor is not None:
            return cls(matrix, factor[0].T * deviation)
        values, vectors = eigh(correlation, overwrite_a=True, check_finite=False)
        vectors *= np.sqrt(np.maximum(values, 0.0))
        vectors *= deviation / np.linalg.norm(vectors, axis=1, keepdims=True)
        return cls(vectors @ vectors.T, vectors)

    def draws(self, mean: Array, number: int, rng: Any) -> Array:
        """Normal vectors around each column of the mean, of shape (m, n_columns, number)."""
        m, columns = mean.shape
        normal = rng.standard_normal((m, columns * number))
        return np.asarray(mean[:, :, None] + (self.root @ normal).reshape(m, columns, number))
