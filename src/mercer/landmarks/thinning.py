r"""Kernel thinning: a few rows whose mean embedding is nearly that of all rows.

Half of the rows are kept, again and again. Rows are taken in pairs. The signs :math:`\eta_i` of the
differences :math:`f_i = k(x_i, \cdot) - k(x_i', \cdot)` are a self-balancing walk, which keeps the
norm of :math:`\sum_i \eta_i f_i` small. The rows of one sign are then half of all rows, with a mean
embedding that is closer than that of random rows (Dwivedi and Mackey, 2021). Many rows are halved
in parts, whose size grows as the number of rows falls (Compress++, Shetty, Dwivedi and Mackey,
2022), so that the number of kernel values is nearly linear in that of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.arrays import Array
from mercer.sampling import RowNumbers

#: Maps row numbers and column numbers to this block of the kernel matrix.
Entries = Callable[[RowNumbers, RowNumbers], Array]

# Number of rows up to which their matrix is computed at once.
_DENSE = 2048
# Kernel values per row of one round of halving in parts.
_VALUES_PER_ROW = 64
# Probability that the walk leaves its bounds.
_FAILURE = 0.5


def thinned(entries: Entries, n: int, size: int, rng: np.random.RandomState) -> RowNumbers:
    """Choose distinct rows by kernel thinning.

    Parameters
    ----------
    entries : callable
        Maps row numbers and column numbers to this block of the kernel matrix.
    n : int
        The number of rows.
    size : int
        The number of rows to choose, at most n.
    rng : RandomState
        The random numbers.

    Returns
    -------
    ndarray of shape (size,)
        Row numbers, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.landmarks.thinning import thinned
    >>> x = np.array([0.0, 0.0, 1.0, 1.0])
    >>> rng = np.random.RandomState(0)
    >>> chosen = thinned(lambda i, j: np.exp(-((x[i, None] - x[j]) ** 2)), 4, 2, rng)
    >>> x[chosen].tolist()
    [0.0, 1.0]
    """
    start = size * 2 ** int(np.log2(n / size))  # half of this, again and again, is `size`
    rows = rng.permutation(n)
    budget = max(_DENSE**2, _VALUES_PER_ROW * n)
    if n**2 > budget:
        rows = rows[:start]
    while len(rows) > size and len(rows) ** 2 > budget:
        rows = _halved_in_parts(entries, rows, max(2, 2 * (budget // len(rows) // 2)), rng)
    if len(rows) ** 2 > budget:
        return np.sort(rows)
    matrix = np.asarray(entries(rows, rows), dtype=np.float64)
    chosen = np.arange(min(len(rows), start))
    while len(chosen) > size:
        chosen = chosen[halves(matrix[np.ix_(chosen, chosen)][None], rng)[0]]
    return np.sort(rows[_exchanged(matrix, chosen)])


def _halved_in_parts(
    entries: Entries, rows: RowNumbers, width: int, rng: np.random.RandomState
) -> RowNumbers:
    """Half of each part; parts have `width` rows, and the last one the rest."""
    whole = len(rows) // width * width
    kept = []
    for parts in (rows[:whole].reshape(-1, width), rows[whole:].reshape(1, -1)):
        if parts.size:
            matrices = np.stack([np.asarray(entries(part, part), float) for part in parts])
            kept.append(np.take_along_axis(parts, halves(matrices, rng), axis=1).ravel())
    return np.asarray(rng.permutation(np.concatenate(kept)), dtype=np.intp)


def halves(matrices: Array, rng: np.random.RandomState) -> RowNumbers:
    """Half of the rows of each of several sets, of shape (sets, m / 2).

    The kernel matrices have shape (sets, m, m) with an even m. All sets take a step at once.
    """
    sets, m = matrices.shape[:2]
    sums = np.zeros((sets, m))  # sum_i eta_i f_i at all rows
    variance = np.zeros(sets)  # a bound of the walk in every direction
    bound = np.sqrt(2 * np.log(m / _FAILURE))
    kept = np.empty((sets, m // 2), np.intp)
    for i in range(m // 2):
        a, b = 2 * i, 2 * i + 1
        difference = matrices[:, a] - matrices[:, b]
        square = np.maximum(difference[:, a] - difference[:, b], 0.0)
        threshold = np.maximum(np.sqrt(square * variance) * bound, square)
        safe = np.where(threshold > 0, threshold, 1.0)
        lean = (sums[:, a] - sums[:, b]) / safe
        first = rng.random_sample(sets) < 0.5 * (1.0 - lean)
        growth = 1.0 + (square - 2 * threshold) * variance / safe**2
        variance += square * np.maximum(growth, 0.0)
        sums += np.where(first, 1.0, -1.0)[:, None] * difference
        kept[:, i] = np.where(first, a, b)
    return kept


def _exchanged(matrix: Array, chosen: RowNumbers) -> RowNumbers:
    """Exchange each chosen row, once, for the row that brings the mean embedding closest."""
    size, means, diagonal = len(chosen), matrix.mean(axis=0), matrix.diagonal()
    chosen = chosen.copy()
    sums = matrix[chosen].sum(axis=0)
    for i, row in enumerate(chosen):
        sums -= matrix[row]
        change = (2 * sums + diagonal) / size - 2 * means
        change[np.delete(chosen, i)] = np.inf
        chosen[i] = int(np.argmin(change))
        sums += matrix[chosen[i]]
    return chosen
