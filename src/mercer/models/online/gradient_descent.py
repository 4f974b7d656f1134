"""Least squares of all rows at once, for gradient descent on kernels or on features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.online.descent import dual_descent, largest_eigenvalue, primal_descent

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Trail:
    """How far gradient descent has come."""

    coef: Array  # (n, n_targets) or (p, n_targets): the coefficients
    residual: float  # norm of the gradient, relative to that at the start
    curve: tuple[float, ...] = ()  # the root mean square error before each step


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Half the weighted squared errors, plus half alpha times the squared norm."""

    matrix: Any  # (n, n) or (n, p): the Gram matrix, or the features
    targets: Array  # (n, n_targets): what to fit
    weights: Array  # (n, 1): weights of the rows
    alpha: float  # weight of the squared norm
    has_features: bool  # whether the matrix holds features

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

    def descend(self, step: float, tol: float, limit: int) -> Iterator[Trail]:
        """Gradient descent from zero, until the gradient is `tol` times that at the start."""
        # In units of the largest target and weight, so that squares neither overflow nor vanish.
        unit, weight = float(np.abs(self.targets).max()) or 1.0, float(self.weights.max())
        steps = primal_descent if self.has_features else dual_descent
        states = steps(
            self.matrix,
            self.targets / unit,
            self.weights / weight,
            step * weight,
            self.alpha / weight,
        )
        state = next(states)
        start = state.gradient or 1.0
        trail = Trail(unit * state.coef, state.gradient / start)
        if trail.residual <= tol:
            yield trail
        while trail.residual > tol and len(trail.curve) < limit:
            curve = (*trail.curve, unit * self._size(state.errors))
            state = next(states)
            trail = Trail(unit * state.coef, state.gradient / start, curve)
            yield trail

    def _size(self, errors: Array) -> float:
        """The root mean square of errors, rows counted by their weights."""
        squares = (errors * errors).mean(axis=1)
        return float(np.sqrt(np.average(squares, weights=self.weights[:, 0])))


def _like(weights: Array, vectors: Array) -> Array:
    """Weights of shape (n, 1) in the number of dimensions of the vectors."""
    return weights if vectors.ndim == 2 else weights[:, 0]
