"""Symmetric matrices: one triangle of them, and how far a matrix is from its transpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

# Number of rows that are compared or copied at a time.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class LowerTriangle:
    """A symmetric matrix of which one triangle is in memory, as LAPACK leaves it."""

    matrix: Array  # (n, n): the matrix, in C order; what is above the diagonal is not part of it

    def full(self) -> Array:
        """The whole matrix, in the memory of the triangle."""
        mirror(self.matrix.T)
        return self.matrix


def mirror(a: Array) -> None:
    """Copy the strict upper triangle of a square matrix to the lower one, in place."""
    n = len(a)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        a[stop:, start:stop] = a[start:stop, stop:].T
        corner = a[start:stop, start:stop]
        above = np.triu(corner, 1)
        corner[:] = above + above.T + np.diag(corner.diagonal())


class Asymmetry(NamedTuple):
    """The largest |K_ij - K_ji|, and where it is."""

    size: float
    row: int
    column: int


def asymmetry(matrix: Array) -> Asymmetry:
    """Compare a square matrix with its transpose, in blocks: without a second matrix in memory."""
    largest = Asymmetry(0.0, 0, 0)
    for start in range(0, len(matrix), _BLOCK):
        rows = slice(start, start + _BLOCK)
        gap = np.abs(matrix[rows] - matrix[:, rows].T)
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        if gap[i, j] > largest.size:
            largest = Asymmetry(float(gap[i, j]), start + int(i), int(j))
    return largest
