"""Least squares of all rows at once, for gradient descent on kernels or on features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.descent import Descent, dual_descent, largest_eigenvalue, primal_descent

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Half the weighted squared errors, plus half alpha times the squared norm.

    Attributes
    ----------
    matrix : ndarray or csr_array of shape (n, n) or (n, p)
        The Gram matrix, or the features.
    targets : ndarray of shape (n, n_targets)
        What to fit.
    weights : ndarray of shape (n, 1)
        Weights of the rows.
    alpha : float
        Weight of the squared norm.
    has_features : bool
        Whether the matrix holds features.
    """

    matrix: Any
    targets: Array
    weights: Array
    alpha: float
    has_features: bool

    @property
    def is_finite(self) -> bool:
        """Whether kernel values or inner products of features are numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = (self.matrix * self.matrix if self.has_features else self.matrix).sum()
        return bool(np.isfinite(total))

    def curvature(self) -> float:
        """The largest eigenvalue of the weighted matrix, beside which alpha stands."""
        a = self.matrix
        if self.has_features:
            weights = self.weights
            return largest_eigenvalue(a.shape[1], lambda v: a.T @ (_like(weights, v) * (a @ v)))
        root = np.sqrt(self.weights)
        return largest_eigenvalue(len(a), lambda v: _like(root, v) * (a @ (_like(root, v) * v)))

    def states(self, step: float) -> Iterator[Descent]:
        """The states of gradient descent, from zero."""
        descend = primal_descent if self.has_features else dual_descent
        return descend(self.matrix, self.targets, self.weights, step, self.alpha)

    def root_mean_square(self, errors: Array) -> float:
        """The size of errors, rows counted by their weights."""
        squares = (errors * errors).mean(axis=1)
        return float(np.sqrt(np.average(squares, weights=self.weights[:, 0])))


def _like(weights: Array, vectors: Array) -> Array:
    """Weights of shape (n, 1) in the number of dimensions of the vectors."""
    return weights if vectors.ndim == 2 else weights[:, 0]
