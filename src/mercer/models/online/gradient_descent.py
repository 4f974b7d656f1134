"""Gradient descent on least squares of all rows at once, by kernels or by features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from mercer.arrays import Array
from mercer.exceptions import ValidityError

# Order of a matrix up to which all eigenvalues are computed.
_DENSE = 200


@dataclass(frozen=True, eq=False)
class DescentTrace:
    """How far gradient descent has come."""

    coef: Array  # (n, n_targets) or (p, n_targets)
    residual: float  # norm of the gradient, relative to that at the start
    curve: tuple[float, ...] = ()  # the root mean square error before each step


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Half the weighted squared errors, plus half alpha times the squared norm."""

    matrix: Any  # (n, n) or (n, p): the Gram matrix, or the features
    targets: Array  # (n, n_targets)
    weights: Array  # (n, 1)
    alpha: float
    has_features: bool  # whether the matrix holds features

    @property
    def is_finite(self) -> bool:
        """Whether kernel values, or inner products of features, are finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = (self.matrix * self.matrix if self.has_features else self.matrix).sum()
        return bool(np.isfinite(total))

    def curvature(self) -> float:
        """The largest eigenvalue of the Hessian without alpha."""
        a = self.matrix
        if self.has_features:
            return largest_eigenvalue(a.shape[1], lambda v: a.T @ (self.weights * (a @ v)))
        root = np.sqrt(self.weights)
        return largest_eigenvalue(len(a), lambda v: root * (a @ (root * v)))

    def descend(self, step: float, tol: float, limit: int) -> Iterator[DescentTrace]:
        r"""Gradient descent from zero, until the gradient is `tol` times that at the start.

        With tol = 0 all steps are taken: a gradient that rounds to 0 is no reason to stop. The
        coefficients are those of kernels, or those of features for the same functions:

        .. math:: \beta := (1 - \eta \alpha) \beta + \eta W (y - K \beta), \qquad
           w := (1 - \eta \alpha) w + \eta \Phi^\top W (y - \Phi w)
        """
        a, first = self.matrix, 0.0
        curve: tuple[float, ...] = ()
        coef, values = np.zeros((a.shape[1], self.targets.shape[1])), np.zeros(self.targets.shape)
        # The rounding of d'Kd is at most this times d'd, also where Kd cancels to 0.
        rounding = len(coef) * np.finfo(a.dtype).eps * np.abs(a.diagonal()).sum()
        while True:
            errors = self.targets - values
            weighted = self.weights * errors
            direction = (a.T @ weighted if self.has_features else weighted) - self.alpha * coef
            change = a @ direction
            squared_length = float((direction * direction).sum())
            square = squared_length if self.has_features else float((direction * change).sum())
            if square < -rounding * squared_length:
                raise ValidityError(
                    "gradient descent goes up: the Gram matrix has negative eigenvalues on these "
                    "rows; use a kernel whose is_psd is True."
                )
            gradient = float(np.sqrt(max(square, 0.0)))
            first = first or gradient or 1.0
            trace = DescentTrace(coef, gradient / first, curve)
            is_done = tol > 0 and not trace.residual > tol
            if curve or is_done:
                yield trace
            if is_done or len(curve) == limit:
                return
            mean_square = np.average((errors * errors).mean(axis=1), weights=self.weights[:, 0])
            curve = (*curve, float(np.sqrt(mean_square)))
            coef, values = coef + step * direction, values + step * change


def largest_eigenvalue(n: int, product: Callable[[Array], Array]) -> float:
    """The largest eigenvalue of a symmetric matrix, given by its products with columns."""
    if n <= _DENSE:
        matrix = product(np.eye(n))
        return float(eigvalsh((matrix + matrix.T) / 2)[-1])
    operator = LinearOperator(
        (n, n), matvec=lambda v: product(v.reshape(n, 1)).ravel(), dtype=float
    )
    # A fixed seed, so that the same data give the same step size.
    start = np.random.default_rng(0).normal(size=n)
    try:
        return float(
            eigsh(operator, 1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0]
        )
    except ArpackNoConvergence as error:
        if len(error.eigenvalues):  # the last estimate is close
            return float(error.eigenvalues[-1])
        return float(np.linalg.norm(product(start[:, None])))
