"""Symmetric matrices: storage of one triangle, and the asymmetry of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.sampling import blocks

# Number of rows per block of a comparison or a copy.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class LowerTriangle:
    """A symmetric matrix whose lower triangle is in memory, as LAPACK returns it."""

    matrix: Array  # (n, n): the matrix, in C order; entries above the diagonal are undefined

    def full(self) -> Array:
        """The whole matrix, completed in place."""
        mirror(self.matrix.T)
        return self.matrix


def mirror(a: Array) -> None:
    """Copy the strict upper triangle of a square matrix to the lower one, in place."""
    for rows in blocks(len(a), step=_BLOCK):
        a[rows.stop :, rows] = a[rows, rows.stop :].T
        corner = a[rows, rows]
        above = np.triu(corner, 1)
        corner[:] = above + above.T + np.diag(corner.diagonal())


class Asymmetry(NamedTuple):
    """The largest |K_ij - K_ji|, and its position."""

    size: float
    row: int
    column: int


def asymmetry(matrix: Array) -> Asymmetry:
    """Compare a square matrix with its transpose, block by block to save memory."""
    largest = Asymmetry(0.0, 0, 0)
    for rows in blocks(len(matrix), step=_BLOCK):
        gap = np.abs(matrix[rows] - matrix[:, rows].T)
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        if gap[i, j] > largest.size:
            largest = Asymmetry(float(gap[i, j]), rows.start + int(i), int(j))
    return largest
