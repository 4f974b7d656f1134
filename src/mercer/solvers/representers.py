"""From coefficients of features to those of points: phi(x)'v = sum_i a_i k(x, x_i)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.sampling import uniform_rows
from mercer.solvers.rows import Part
from mercer.solvers.task import FeatureFunction, RidgeTask

Array = NDArray[np.floating[Any]]

# Rows that stand for all, for each feature.
_SPANNING = 2


def of_all(part: Part, values: Array, alpha: Any) -> Array:
    """The coefficients of all rows, from the condition for a minimum.

    Parameters
    ----------
    part : Part
        The rows.
    values : ndarray of shape (..., n, t)
        The values f(x_i), with the intercept.
    alpha : float or ndarray
        The weight of the squared norm.

    Returns
    -------
    ndarray of shape (..., n, t)
        a_i = w_i (y_i - f(x_i)) / alpha.
    """
    found: Array = part.mass[:, None] * (part.targets - values) / alpha
    return found


def of_few(task: RidgeTask, function: FeatureFunction) -> tuple[Points, Array, NDArray[np.intp]]:
    """Coefficients a of some rows with Phi'a = v, where not all rows can be kept.

    Twice as many rows as features span, almost surely, what all rows do; the solution is the one of
    least norm.

    Parameters
    ----------
    task : RidgeTask
        The problem.
    function : FeatureFunction
        Features, and their coefficients v.

    Returns
    -------
    points : Points
        The rows.
    dual : ndarray of shape (m, t)
        Their coefficients.
    numbers : ndarray of shape (m,)
        Which rows they are.
    """
    size = min(task.n, _SPANNING * len(function.coef))
    numbers = np.sort(uniform_rows(task.n, size, np.random.RandomState(0)))
    points = task.rows.take(numbers)
    phi = function.features(points)
    dense = phi.toarray() if sp.issparse(phi) else np.asarray(phi, dtype=np.float64)
    return points, np.linalg.lstsq(dense.T, function.coef, rcond=None)[0], numbers
