"""Whitening: coordinates in the span of landmarks in which inner products are kernel values.

The triangle R with R'R = K, the kernel matrix of the landmarks, turns kernel values k(x, Z) into
features k(x, Z) R^-1. K is often singular up to rounding. Two policies make R exist: `whiten`
pivots, and keeps only landmarks that are independent; `whiten_with_jitter` keeps all of them, and
adds a multiple of the identity to K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg import blocked
from mercer.linalg.cholesky import shifted_cholesky

Indices = NDArray[np.intp]

# Pivots up to this many rounding units of the largest diagonal entry count as zero.
_ZERO_PIVOT = 32
# The first jitter as a fraction of the mean diagonal, in rounding units per landmark.
_FIRST_JITTER = 8
# The largest jitter, as a fraction of the mean diagonal.
_LARGEST_JITTER = 1e-4


@dataclass(frozen=True, eq=False)
class Whitening:
    """The triangle R with R'R = K_PP for the landmarks P that are kept."""

    kept: Indices  # (r,): the kept landmarks, in the order of the columns of R
    upper: Array  # (r, r): R, upper triangular, in Fortran order
    jitter: float = 0.0  # addition to the diagonal of K, as a fraction of its mean

    @property
    def rank(self) -> int:
        """Number of kept landmarks."""
        return len(self.kept)

    def apply(self, cross: Array) -> Array:
        """The rows of F = K_xP R^-1, so that F F' is the Nystrom approximation."""
        upper = self.upper.astype(cross.dtype, copy=False)
        right = np.require(cross, requirements=["C", "W"]).T
        return blocked.solve_triangular(upper, right, transposed=True).T

    def to_coefficients(self, coordinates: Array) -> Array:
        """R^-1 v: the coefficients of the kept landmarks, from coordinates v."""
        return self._solve(coordinates, "N")

    def gradient_to_coordinates(self, gradient: Array) -> Array:
        """R^-T g: the gradient in the coordinates, from the gradient g in the coefficients."""
        return self._solve(gradient, "T")

    def inverse(self) -> Array:
        """R^-1, upper triangular."""
        trtri = get_lapack_funcs("trtri", (self.upper,))
        inverse: Array = np.triu(trtri(self.upper)[0])
        return inverse

    def _solve(self, columns: Array, trans: str) -> Array:
        if not columns.size:
            return columns.copy()
        return np.asarray(solve_triangular(self.upper, columns, trans=trans, check_finite=False))


def whiten(square: Array, *, tol: float | None = None) -> Whitening:
    """Factorise the matrix of the landmarks with pivoting; keep linearly independent landmarks.

    A landmark is left out if the others explain its diagonal entry up to `tol` times the largest.
    """
    scale = float(np.max(square.diagonal(), initial=0.0))
    if scale <= 0:
        return Whitening(np.empty(0, np.intp), np.empty((0, 0), square.dtype))
    if tol is None:
        tol = max(len(square), _ZERO_PIVOT) * float(np.finfo(square.dtype).eps)
    # Use double precision, because small pivots matter.
    matrix = np.array(square, dtype=np.float64, order="F")
    pstrf = get_lapack_funcs("pstrf", (matrix,))
    triangle, order, rank, _ = pstrf(matrix, tol=tol * scale, lower=0, overwrite_a=True)
    kept = np.asarray(order[:rank] - 1, dtype=np.intp)
    upper = np.asfortranarray(np.triu(triangle[:rank, :rank]))
    return Whitening(kept, upper.astype(square.dtype, copy=False))


def whiten_with_jitter(square: Array, eps: float) -> Whitening:
    """Factorise the matrix of the landmarks plus the smallest sufficient jitter; keep all.

    `eps` is the rounding unit of the kernel values that are whitened.
    """
    m, mean = len(square), float(square.diagonal().mean())
    unit, first = mean if mean > 0 else 1.0, _FIRST_JITTER * m * eps
    factor = shifted_cholesky(square, first * unit, max(_LARGEST_JITTER, first) * unit)
    if factor is None:
        raise ValidityError(
            "the Gram matrix of the landmarks is not positive semi-definite; use a kernel whose "
            "is_psd is True."
        )
    upper, jitter = factor
    return Whitening(np.arange(m), upper, jitter / unit)
