r"""Bins of many rows, each thinned to a few rows, as the units of a permutation test.

Both samples are divided at random into bins of the same size. Kernel thinning keeps a few rows of
each bin, whose mean embedding is close to that of the bin. Under the hypothesis of equal
distributions the bins of both samples are exchangeable, so that a test that permutes bins has an
exact level (Domingo-Enrich, Dwivedi and Mackey, 2023). It needs only the inner products of the mean
embeddings of bins.
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.inference.forms import SymmetricBlocks
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.selection import KernelColumns
from mercer.landmarks.thinning import thinned
from mercer.sampling import RowNumbers

# Number of bins of both samples, and least number of bins of the smaller one.
_BINS, _FEWEST = 100, 10
# Rows that are kept of a bin, relative to the root of its size.
_KEPT = 2.0


def bin_size(n: int, m: int) -> int:
    """The number of rows of a bin for samples of n and m rows."""
    return max(1, min((n + m) // _BINS, min(n, m) // _FEWEST))


def coresets(
    kernel: Kernel, points: Points, n: int, rng: np.random.RandomState
) -> tuple[RowNumbers, int]:
    """Rows of shape (bins, k), and the number of bins of the first n rows.

    At most one bin of rows of each sample is left out, at random.
    """
    m = len(points) - n
    size = bin_size(n, m)
    kept = min(size, int(np.ceil(_KEPT * np.sqrt(size))))
    orders = rng.permutation(n), n + rng.permutation(m)
    bins = [order[: len(order) // size * size].reshape(-1, size) for order in orders]
    access = KernelColumns(kernel, points)

    def thinned_bin(rows: RowNumbers) -> RowNumbers:
        entries = lambda i, j: access.entries(rows[i], rows[j])  # noqa: E731
        return rows[thinned(entries, size, kept, rng)]

    return np.stack([thinned_bin(rows) for side in bins for rows in side]), len(bins[0])


def bin_matrix(kernel: Kernel, points: Points, bins: RowNumbers) -> SymmetricBlocks:
    """The inner products of the mean embeddings of bins."""
    count, kept = bins.shape
    chosen = points[bins.ravel()]
    matrix: Array = np.empty((count, count))
    for i in range(count):
        # Half of the matrix is enough: bins from the i-th on.
        rows = slice(i * kept, (i + 1) * kept)
        values = np.asarray(kernel(chosen[rows], chosen[i * kept :]), dtype=np.float64)
        matrix[i, i:] = values.mean(axis=0).reshape(-1, kept).mean(axis=1)
        matrix[i:, i] = matrix[i, i:]
    return SymmetricBlocks.of_array(matrix)
