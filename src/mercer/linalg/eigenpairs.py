r"""Leading eigenpairs of a symmetric matrix from products with blocks of vectors.

Block Lanczos with full orthogonalisation and thick restarts: the basis Q grows by the part of A Q_j
that is orthogonal to it, and the eigenpairs of T = Q'AQ approximate those of A. The residual of an
approximation Q y is |R y_j|, where R is the triangle of the next block and y_j the last part of y.
See Wu and Simon (2000), Thick-restart Lanczos method for large symmetric eigenvalue problems.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, qr

from mercer.arrays import Array
from mercer.exceptions import NumericalWarning, warn

# Vectors of a block beyond the eigenpairs that are asked for.
_EXTRA = 10
# Blocks in the basis before a restart.
_MOST_BLOCKS = 12
# Blocks of all restarts.
_MAX_ITER = 200


def leading_eigenpairs(
    multiply: Callable[[Array], Array],
    n: int,
    count: int,
    rng: np.random.RandomState,
    *,
    tol: float = 1e-10,
    owner: str = "leading_eigenpairs",
) -> tuple[Array, Array]:
    """The largest eigenvalues, descending, and their eigenvectors as columns.

    ``multiply(V)`` returns A V. Residuals are at most `tol` times the largest eigenvalue in
    absolute value, or a `NumericalWarning` tells that they are not.
    """
    width = count + _EXTRA
    if n < 4 * width:  # too few rows for several blocks
        values, vectors = eigh(_even(np.asarray(multiply(np.eye(n)), dtype=np.float64)))
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    most = min(_MOST_BLOCKS * width, n - 2 * width)
    block = qr(rng.standard_normal((n, width)), mode="economic")[0]
    basis, inner = block, np.zeros((0, 0))
    for _ in range(_MAX_ITER):
        image = np.asarray(multiply(block), dtype=np.float64)
        coefficients = basis.T @ image
        image -= basis @ coefficients
        done = len(inner)
        corner = _even(coefficients[done:])
        inner = np.block([[inner, coefficients[:done]], [coefficients[:done].T, corner]])
        values, vectors = eigh(inner)
        values, vectors = values[::-1][:count], vectors[:, ::-1]
        block, triangle = _orthonormal(image, basis)
        residuals = np.linalg.norm(triangle @ vectors[-width:, :count], axis=0)
        if (residuals <= tol * np.abs(values).max()).all():
            return values, basis @ vectors[:, :count]
        if len(inner) >= most:
            kept = vectors[:, : 2 * width]
            basis, inner = basis @ kept, kept.T @ inner @ kept
        basis = np.hstack([basis, block])
    warn(
        f"{owner}: eigenvectors are exact to {residuals.max() / np.abs(values).max():.1g} of the "
        f"largest eigenvalue after {_MAX_ITER} products, since many of them are close together; "
        "take a longer length-scale, or another number of components.",
        NumericalWarning,
    )
    return values, (basis[:, : len(inner)] @ vectors)[:, :count]


def _even(square: Array) -> Array:
    return (square + square.T) / 2


def _orthonormal(image: Array, basis: Array) -> tuple[Array, Array]:
    """Orthonormal columns with the span of an image beside a basis, and their triangle."""
    block, triangle = qr(image, mode="economic")
    # Columns that are rounding errors have no direction of their own: orthogonalise them again.
    block -= basis @ (basis.T @ block)
    block, correction = qr(block, mode="economic")
    return block, correction @ triangle
