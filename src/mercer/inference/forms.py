"""Quadratic forms of kernel matrices that are never stored: v' K v for many vectors v at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array
from mercer.checks import require_finite_values
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.blocked import multiply
from mercer.sampling import blocks

# Bytes of a block of rows of a kernel matrix.
_BLOCK_BYTES = 2**21
# Smallest number of rows of a block: a product of fewer rows does not use the cache well.
_FEWEST = 64


@dataclass(frozen=True, eq=False)
class SymmetricBlocks:
    """A symmetric matrix by its blocks.

    The function takes two slices, of rows and of columns, and returns a new array.
    """

    n: int
    block: Callable[[slice, slice], Array]

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> SymmetricBlocks:
        """The matrix of kernel values of points."""
        gram = kernel.gram(points)

        def block(rows: slice, cols: slice) -> Array:
            values = require_finite_values(np.asarray(gram[rows, cols]), kernel)
            return values.astype(np.float64, copy=False)

        return cls(len(points), block)

    @classmethod
    def of_array(cls, matrix: Array) -> SymmetricBlocks:
        """A matrix in memory."""
        return cls(len(matrix), lambda rows, cols: matrix[rows, cols].copy())

    def forms(self, vectors: Array) -> Array:
        """V' K v for each column v; each pair of rows is evaluated once."""
        totals = np.zeros(vectors.shape[1])
        for rows in blocks(self.n, self.n, _BLOCK_BYTES, least=_FEWEST):
            block = self.block(rows, slice(rows.start, self.n))
            # Half of the diagonal block, and all that is right of it: half of the matrix.
            block[:, : rows.stop - rows.start] *= 0.5
            product = multiply(block, vectors[rows.start :])
            totals += np.einsum("ij,ij->j", vectors[rows], product)
        return 2.0 * totals

    def summary(self) -> Summary:
        """Sums over rows, over squares, and the diagonal, in one pass."""
        sums, diagonal, squares = np.zeros(self.n), np.zeros(self.n), 0.0
        for rows in blocks(self.n, self.n, _BLOCK_BYTES, least=_FEWEST):
            block = self.block(rows, slice(0, self.n))
            sums[rows] = block.sum(axis=1)
            diagonal[rows] = block[np.arange(len(block)), np.arange(rows.start, rows.stop)]
            squares += float(np.square(block).sum())
        return Summary(sums, diagonal, squares)

    def centred_inner(self, other: SymmetricBlocks) -> float:
        """The trace of H K H L with H = I - 11'/n, without either matrix."""
        total, n = 0.0, self.n
        sums = np.zeros((2, n))
        for rows in blocks(n, n, _BLOCK_BYTES, least=_FEWEST):
            first, second = (matrix.block(rows, slice(0, n)) for matrix in (self, other))
            total += float(np.sum(first * second))
            sums[:, rows] = first.sum(axis=1), second.sum(axis=1)
        means = sums.mean(axis=1)
        return total - 2 * float(sums[0] @ sums[1]) / n + float(means[0] * means[1])


@dataclass(frozen=True, eq=False)
class Summary:
    """Row sums, diagonal and squared Frobenius norm of a symmetric matrix."""

    sums: Array
    diagonal: Array
    squares: float

    def centred(self) -> tuple[float, float, float]:
        """Trace, squared norm, and sum of squared diagonal entries of H K H, H = I - 11'/n."""
        n, total = len(self.sums), float(self.sums.sum())
        diagonal = self.diagonal - 2 * self.sums / n + total / n**2
        squares = self.squares - 2 * float(np.square(self.sums).sum()) / n + (total / n) ** 2
        return float(diagonal.sum()), squares, float(np.square(diagonal).sum())


def permutation_moments(first: Summary, second: Summary) -> tuple[float, float]:
    """Mean and variance of tr(A P B P') over all permutations P, for centred A and B.

    These are exact (Kazi-Aoual, Hitier, Sabatier and Lebreton, 1995).
    """
    n = len(first.sums)
    (t1, s1, d1), (t2, s2, d2) = first.centred(), second.centred()
    spread = 2 * ((n - 1) * s1 - t1**2) * ((n - 1) * s2 - t2**2)
    variance = spread / ((n - 1) ** 2 * (n + 1) * (n - 2))
    if n > 3:
        peaks = n * (n + 1) * d1 - (n - 1) * (t1**2 + 2 * s1)
        peaks *= n * (n + 1) * d2 - (n - 1) * (t2**2 + 2 * s2)
        variance += peaks / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return t1 * t2 / (n - 1), max(variance, 0.0)


def centred(matrix: Array) -> Array:
    """H K H with H = I - 11'/n, in place."""
    means = matrix.mean(axis=0)
    matrix -= means
    matrix -= matrix.mean(axis=1)[:, None]
    return matrix
