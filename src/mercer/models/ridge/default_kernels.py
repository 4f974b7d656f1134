"""The kernels that kernel ridge regression compares if none is given.

A smooth kernel needs few rows where the function is smooth, and a rough one follows kinks and
steps. Errors of rows that are left out tell which of them suits the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.stationary import RBF, Laplacian
from mercer.kernels.table import is_mixed, table_kernel
from mercer.rows.rows import InMemory, RowSource
from mercer.sampling import uniform_rows

#: Rows by which default kernels are compared at most; the errors of more would differ little.
COMPARED_ROWS = 300
# Columns beyond which an L1 distance takes many times as long as a Euclidean one.
_MOST_COLUMNS = 64


def default_kernels(default: Kernel, X: Any, rows: RowSource) -> tuple[Kernel, ...]:
    """The default kernel and the one that is compared with it, both resolved.

    Beside the RBF stands the Laplacian kernel of twice the length of its rule, and beside the
    kernel of a table that of its decorrelated numbers. Streams and sparse rows have one kernel.
    """
    if not isinstance(rows, InMemory):
        return (default,)
    points = rows.part.points
    if not isinstance(default, RBF):
        other = table_kernel(X, decorrelate=True) if is_mixed(X) else default
        return tuple(dict.fromkeys((default, rows.resolve(other))))
    matrix = points.matrix(default._reader.leaves[0][1])
    if not isinstance(matrix, np.ndarray) or matrix.shape[1] > _MOST_COLUMNS:
        return (default,)
    rough = rows.resolve(Laplacian(length_scale="columns"))
    lengths = rough.get_params()["length_scale"]
    return default, rough.replace(length_scale=2 * np.asarray(lengths))


def compared_rows(rows: RowSource) -> NDArray[np.intp] | None:
    """Rows of positive weight by which kernels are compared; None if all rows are few."""
    assert isinstance(rows, InMemory)
    counted = np.flatnonzero(rows.part.mass > 0)
    if len(counted) <= COMPARED_ROWS:
        return None
    some = uniform_rows(len(counted), COMPARED_ROWS, np.random.RandomState(0))
    return np.sort(counted[some])
