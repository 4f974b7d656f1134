"""How far a matrix is from its transpose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCK = 256


class Asymmetry(NamedTuple):
    """The largest |K_ij - K_ji|, and where it is."""

    size: float
    row: int
    column: int


def asymmetry(matrix: Array) -> Asymmetry:
    """Compare a square matrix with its transpose, in blocks: without a second matrix in memory.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        The matrix.

    Returns
    -------
    Asymmetry
        The largest difference between an entry and its mirror image, 0 for an empty matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.symmetry import asymmetry
    >>> asymmetry(np.array([[1.0, 3.0], [2.0, 1.0]]))
    Asymmetry(size=1.0, row=0, column=1)
    """
    found = Asymmetry(0.0, 0, 0)
    for start in range(0, len(matrix), _BLOCK):
        rows = slice(start, start + _BLOCK)
        gap = np.abs(matrix[rows] - matrix[:, rows].T)
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        if gap[i, j] > found.size:
            found = Asymmetry(float(gap[i, j]), start + int(i), int(j))
    return found
