"""Newton's equations of the functions of a span: a second derivative, ready to solve with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from mercer.solvers.newton.curvature import factorised

Array = NDArray[np.floating[Any]]


class Quadratic:
    """The second derivative of an objective in coordinates and constants."""

    def __init__(
        self, squares: Array, directions: Array, alpha: float, fit_intercept: bool
    ) -> None:
        self.fit_intercept = fit_intercept
        # A softmax does not see a constant added to all outputs.
        self.centred = not directions.sum(axis=1).any()
        m, k = squares.shape[1] - 1, directions.shape[1]
        whole = np.zeros((k, m, k, m))
        border, corner = np.zeros((k, m, k)), np.zeros((k, k))
        for square, direction in zip(squares, directions, strict=True):
            used = np.flatnonzero(direction)
            for a, b in ((a, b) for a in used for b in used):
                sign = direction[a] * direction[b]
                whole[a, :, b] += sign * square[:m, :m]
                border[a, :, b] += sign * square[:m, m]
                corner[a, b] += sign * square[m, m]
        matrix = whole.reshape(k * m, k * m)
        matrix.flat[:: k * m + 1] += alpha
        self.factor = factorised(matrix) if m else None
        self.border = border.reshape(k * m, k)
        self.solved = self._inverse(self.border)
        self.corner = corner - self.border.T @ self.solved

    def solve(self, coordinates: Array, intercept: Array) -> tuple[Array, Array]:
        """The direction whose image is given."""
        m, k = coordinates.shape
        first = self._inverse(coordinates.T.reshape(-1))
        shift: Array = np.zeros(k)
        if self.fit_intercept:
            target = intercept - self.border.T @ first
            shift = np.linalg.lstsq(self.corner, target, rcond=1e-12)[0]
            shift -= self.centred * shift.mean()
            first = first - self.solved @ shift
        return first.reshape(k, m).T, shift

    def _inverse(self, columns: Array) -> Array:
        if self.factor is None:
            return columns.copy()
        return np.asarray(cho_solve(self.factor, columns, check_finite=False))
