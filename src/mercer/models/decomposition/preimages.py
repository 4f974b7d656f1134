r"""Rows with given scores: pre-images of points in feature space.

A point P of feature space is a sum of weights g_i times the features of the training rows x_i. For
a Gaussian kernel the nearest features of a row satisfy the equation (Mika et al. 1999)

.. math:: x = \frac{\sum_i g_i\, k(x, x_i)\, x_i}{\sum_i g_i\, k(x, x_i)} ,

whose right-hand side is iterated. For other kernels a regression from scores to rows is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array
from mercer.exceptions import DataTypeError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.kernels.stationary import RBF
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.sampling import blocks

# Largest number of iterations, and the change, in deviations of the columns, at which they end.
_MAX_ITER, _TOL = 200, 1e-8
# Sums of weights below this share of their absolute sum give no row.
_CANCELLED = 1e-10


def numeric_rows(points: Points, owner: str) -> Array:
    """The rows as numbers; refuse other data."""
    data: Any = points.data
    frame = nw.from_native(data, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        data = frame.to_numpy()
    try:
        rows = np.asarray(data.toarray() if sp.issparse(data) else data, dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.ndim != 2:
        raise DataTypeError(
            f"{owner}: the rows are not rows of numbers, so that no row can be computed from "
            "scores; look for the training row with the nearest scores instead."
        )
    return rows


def learned_inverse(scores: Array, rows: Array) -> Callable[[Array], Array]:
    """Kernel ridge regression from scores to rows, its penalty chosen by leave-one-out."""
    model = KernelRidge(RBF("median"), alpha="loo", length_scales="auto")
    fitted = model.fit(scores, rows)
    return lambda wanted: np.asarray(fitted.predict(wanted)).reshape(len(wanted), -1)


def fixed_points(
    owner: str, kernel: Kernel, points: Points, rows: Array, weights: Array, start: Array
) -> Array:
    """Fixed-point iteration for pre-images; a row of `weights` is a point of feature space."""
    if not isinstance(kernel, RBF):
        raise ParameterError(
            f'{owner}: preimage = "fixed_point" is for the RBF kernel, and the kernel is '
            f'{type(kernel).__name__}; pass preimage="ridge".'
        )
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    images = start.copy()
    for part in blocks(len(images), width=len(rows)):
        block = images[part]
        for _ in range(_MAX_ITER):
            pull = weights[part] * kernel(block, points)
            total = pull.sum(axis=1)
            usable = np.abs(total) > _CANCELLED * np.abs(pull).sum(axis=1)
            moved = block.copy()
            moved[usable] = (pull[usable] @ rows) / total[usable, None]
            change = np.abs((moved - block) / scale).max(initial=0.0)
            block = moved
            if change <= _TOL:
                break
        images[part] = block
    return images
