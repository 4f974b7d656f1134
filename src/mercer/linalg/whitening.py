"""Coordinates in the span of landmarks, in which inner products are kernel values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# Residuals below this many units in the last place of the diagonal are rounding.
_NOISE = 32


@dataclass(frozen=True, eq=False)
class Whitening:
    """The triangle R with R'R = K_PP for the landmarks P that are kept."""

    kept: Indices  # (r,): which landmarks are kept, the largest residual first
    upper: Array  # (r, r): R, in Fortran order

    @property
    def rank(self) -> int:
        """Number of landmarks that are kept."""
        return len(self.kept)

    def columns(self, m: int) -> Array:
        """T with T' K T = I for the matrix K of all m landmarks."""
        trtri = get_lapack_funcs("trtri", (self.upper,))
        columns = np.zeros((m, self.rank), self.upper.dtype)
        columns[self.kept] = np.triu(trtri(self.upper)[0]) if self.rank else self.upper
        return columns

    def apply(self, cross: Array) -> Array:
        """The rows of F = K_xP R^-1, so that F F' is the Nystrom approximation."""
        upper = self.upper.astype(cross.dtype, copy=False)
        trsm = get_blas_funcs("trsm", (upper,))
        right = np.ascontiguousarray(cross).T
        return np.asarray(trsm(1.0, upper, right, trans_a=1, overwrite_b=True).T)


def whiten(square: Array, *, tol: float | None = None) -> Whitening:
    """Factorise the kernel values of landmarks among each other, without those that add nothing."""
    scale = float(np.max(square.diagonal(), initial=0.0))
    if scale <= 0:
        return Whitening(np.empty(0, np.intp), np.empty((0, 0), square.dtype))
    if tol is None:
        tol = max(len(square), _NOISE) * float(np.finfo(square.dtype).eps)
    # Computed in double precision: the matrix is small, and its digits are scarce.
    matrix = np.array(square, dtype=np.float64, order="F")
    pstrf = get_lapack_funcs("pstrf", (matrix,))
    triangle, order, rank, _ = pstrf(matrix, tol=tol * scale, lower=0, overwrite_a=True)
    kept = np.asarray(order[:rank] - 1, dtype=np.intp)
    upper = np.asfortranarray(np.triu(triangle[:rank, :rank]))
    return Whitening(kept, upper.astype(square.dtype, copy=False))
