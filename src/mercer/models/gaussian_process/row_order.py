"""An order of rows in which far rows of a kernel matrix are far from its diagonal.

Where a length-scale is short beside the range of its column, most pairs of rows have kernel values
below rounding. With rows sorted by that column these values are all far from the diagonal, and a
Cholesky factor takes far fewer operations (`mercer.linalg.blocked.factorise`).
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.arrays import EPS, Array
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points

# Rows of the sample on which orders are compared.
_SAMPLE = 256
# Share of the operations of a factor above which an order is not worth it.
_WORTH = 0.5


def order_of_decay(kernel: Kernel, points: Points) -> NDArray[np.intp] | None:
    """The rows sorted by the column along which the kernel decays fastest; None if none helps."""
    n = len(points)
    if n < _SAMPLE or kernel.input_tags()["pairwise"]:
        return None
    some = np.random.default_rng(0).choice(n, size=_SAMPLE, replace=False)
    values = np.abs(kernel(points[some]).astype(np.float64))
    roots = np.sqrt(values.diagonal())
    # The entries that count in `blocked.factorise`.
    counts = ~(values <= EPS**1.5 * roots * roots[:, None])
    if counts.mean() > _WORTH:
        return None
    columns = _columns(points.data)
    orders = [np.argsort(column, kind="stable") for column in columns[some].T]
    works = [_work(counts[np.ix_(order, order)]) for order in orders]
    if min(works, default=1.0) > _WORTH:
        return None
    return np.argsort(columns[:, int(np.argmin(works))], kind="stable")


def _columns(rows: Any) -> Array:
    """The columns of numbers of the data, of shape (n, 0) if there are none."""
    frame = nw.from_native(rows, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        return np.asarray(frame.select(nw.selectors.numeric()).to_numpy())
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "fiu":
        return rows
    return np.empty((len(rows), 0))


def _work(counts: NDArray[np.bool_]) -> float:
    """Operations of a factor that leaves out what is above the first entry of each column.

    They are relative to those of a full factor.
    """
    n = len(counts)
    below = np.arange(n) - np.argmax(counts, axis=0)
    return float(np.sum(below.astype(np.float64) ** 2)) / (n**3 / 3)
