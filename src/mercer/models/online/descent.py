"""Gradient descent on least squares: the largest step, and the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from mercer.exceptions import ValidityError

Array = NDArray[np.floating[Any]]

_SMALL = 200
_ROUNDING = 1e-5


def largest_eigenvalue(n: int, product: Callable[[Array], Array]) -> float:
    """The largest eigenvalue of a symmetric matrix that is given by its products."""
    if n <= _SMALL:
        matrix = product(np.eye(n))
        return float(eigvalsh((matrix + matrix.T) / 2)[-1])
    operator = LinearOperator((n, n), matvec=product, dtype=float)
    # A fixed start, so that the same data give the same number; random, so that it misses nothing.
    start = np.random.default_rng(0).normal(size=n)
    try:
        return float(
            eigsh(operator, 1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0]
        )
    except ArpackNoConvergence as error:  # what it has is close
        found = error.eigenvalues
        return float(found[-1]) if len(found) else float(np.linalg.norm(product(start)))


@dataclass(frozen=True, eq=False)
class Descent:
    """One state of gradient descent."""

    coef: Array  # (n, n_targets) or (p, n_targets): the coefficients
    errors: Array  # (n, n_targets): targets minus fitted values
    gradient: float  # norm of the gradient as a function


def dual_descent(
    gram: Array, targets: Array, weights: Array, step: float, alpha: float
) -> Iterator[Descent]:
    r"""Gradient descent on coefficients of kernels, from zero; the first state is the start.

    .. math:: \beta := (1 - \eta \alpha) \beta + \eta W (y - K \beta)
    """
    coef, values = np.zeros(targets.shape), np.zeros(targets.shape)
    while True:
        errors = targets - values
        direction = weights * errors - alpha * coef
        change = gram @ direction
        # The norm of the function with these coefficients; rounding can make its square negative.
        square = float((direction * change).sum())
        if square < -_ROUNDING * np.linalg.norm(direction) * np.linalg.norm(change):
            raise ValidityError(
                "gradient descent goes up: the Gram matrix has negative eigenvalues on these rows; "
                "use a kernel whose is_psd is True."
            )
        yield Descent(coef, errors, float(np.sqrt(max(square, 0.0))))
        coef, values = coef + step * direction, values + step * change


def primal_descent(
    features: Any, targets: Array, weights: Array, step: float, alpha: float
) -> Iterator[Descent]:
    r"""Gradient descent on coefficients of features: the same functions as `dual_descent`.

    .. math:: w := (1 - \eta \alpha) w + \eta \Phi^\top W (y - \Phi w)
    """
    coef = np.zeros((features.shape[1], targets.shape[1]))
    while True:
        errors = targets - features @ coef
        direction = features.T @ (weights * errors) - alpha * coef
        yield Descent(coef, errors, float(np.linalg.norm(direction)))
        coef = coef + step * direction
