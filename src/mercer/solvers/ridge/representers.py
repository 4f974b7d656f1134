"""From coefficients of features to those of rows: phi(x)'v = sum_i a_i k(x, x_i)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import blocks_of
from mercer.solvers.protocol import FeatureFunction, RidgeTask

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Representers:
    """Rows that carry a function of features."""

    points: Points  # the rows; of a stream, the first row
    dual: Array  # (..., n, t): the dual coefficients; n is 0 for a stream

    @classmethod
    def of_stream(cls, rows: RowSource, shape: tuple[int, ...]) -> Representers:
        """No dual coefficients, shape (..., 0, t), because rows of a stream are not kept."""
        return cls(rows.first_row, np.zeros((*shape[:-1], 0, shape[-1])))


def dual_from_residuals(part: RowBlock, values: Array, alpha: Any) -> Array:
    """The dual coefficients of all rows, from the optimality condition."""
    dual: Array = part.mass[:, None] * (part.targets - values) / alpha
    return dual


def of_path(
    task: RidgeTask, function: FeatureFunction, intercept: Array, alphas: Array
) -> Representers:
    """The rows and their coefficients at each alpha, (a, n, t), if the rows are in memory."""
    if not isinstance(task.rows, InMemory):
        return Representers.of_stream(task.rows, intercept.shape)
    part = task.rows.part
    blocks = blocks_of(part, function.features, len(function.coef))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks])
    values = np.moveaxis(flat.reshape(task.n, *intercept.shape), 0, 1) + intercept[:, None]
    return Representers(part.points, dual_from_residuals(part, values, alphas[:, None, None]))
