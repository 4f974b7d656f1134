r"""Ridge regression at many alphas at once.

On landmarks and on explicit features the rows are summed up once, and one eigendecomposition of the
sums serves every alpha (`moments`); what rounding loses in them is won back for all alphas
together, by passes that multiply as many columns. With the whole matrix, conjugate gradients with
shifts share each product with it (`conjugate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.solvers import representers
from mercer.solvers.moments import FeatureRidge
from mercer.solvers.rows import InMemory
from mercer.solvers.summands import (
    Columns,
    FeatureMoments,
    Features,
    LeaveOneOutErrors,
    WhitenedColumns,
    blocks_of,
)
from mercer.solvers.task import FeatureFunction, RidgeTask
from mercer.solvers.whitening import whiten

Array = NDArray[np.floating[Any]]

# Passes that win back digits, and the relative residual that is enough, by the type of the kernel.
_PASSES = 3
_ENOUGH = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-9}


@dataclass(frozen=True, eq=False)
class PathAnswer:
    """Coefficients at each alpha.

    Attributes
    ----------
    points : Points
        What carries the coefficients.
    dual : ndarray of shape (a, m, t)
        The coefficients.
    intercept : ndarray of shape (a, t)
        The constants.
    loo, gcv, dof : ndarray of shape (a,)
        Leave-one-out errors, the same by generalised cross-validation, degrees of freedom; NaN
        where they would take much longer than the coefficients.
    function : FeatureFunction, optional
        The same functions by explicit features, one column for each alpha and target.
    doubt : str
        A clause for a warning; empty if all is well.
    """

    points: Points
    dual: Array
    intercept: Array
    loo: Array
    gcv: Array
    dof: Array
    function: FeatureFunction | None = None
    doubt: str = ""


def landmark_path(task: RidgeTask, points: Points) -> PathAnswer:
    """The path of the best functions over landmarks.

    Parameters
    ----------
    task : RidgeTask
        The problem, with the alphas.
    points : Points
        The landmarks.

    Returns
    -------
    PathAnswer
        Coefficients over the landmarks.
    """
    penalty = task.penalty(points)
    rounding = len(points) * float(np.finfo(np.float64).eps)
    tol = max(rounding, float(np.finfo(task.type_with(points)).eps))
    basis = whiten(penalty, tol=tol).columns(len(points))
    columns = Columns(task.kernel, points)
    if task.squares_drown(points, penalty, basis):
        return _whitened_path(task, WhitenedColumns(columns, basis))
    summand = FeatureMoments(columns, len(points), task.middle, task.shift(points, penalty))
    sums = task.rows.total(summand).terms[0]
    problem = FeatureRidge.of(sums, basis, fit_intercept=task.fit_intercept)
    found = _refined(task, points, problem, penalty)
    return PathAnswer(
        points,
        found,
        np.stack([problem.intercept(at) for at in found]),
        _loo(task, problem, columns),
        problem.gcv(task.alphas),
        np.array([problem.effective_dof(alpha) for alpha in task.alphas]),
    )


def _whitened_path(task: RidgeTask, features: WhitenedColumns) -> PathAnswer:
    """The same from rows that are whitened before they are squared, where digits would be lost."""
    width = features.basis.shape[1]
    sums = task.rows.total(FeatureMoments(features, width, task.middle)).terms[0]
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    inner = [problem.solve(alpha)[0] for alpha in task.alphas]
    return PathAnswer(
        features.columns.points,
        np.stack([features.basis @ at for at in inner]),
        np.stack([problem.intercept(at) for at in inner]),
        _loo(task, problem, features),
        problem.gcv(task.alphas),
        np.array([problem.effective_dof(alpha) for alpha in task.alphas]),
    )


def feature_path(task: RidgeTask, features: Features, width: int) -> PathAnswer:
    """The path on explicit features, and the coefficients of the rows that go with it.

    Parameters
    ----------
    task : RidgeTask
        The problem, with the alphas, which are positive.
    features : callable
        ``features(points)`` returns phi.
    width : int
        The number of features.

    Returns
    -------
    PathAnswer
        Coefficients of all rows, and of the features.
    """
    sums = task.rows.total(FeatureMoments(features, width, task.middle)).terms[0]
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    coef = np.stack([problem.solve(alpha)[0] for alpha in task.alphas])
    intercept = np.stack([problem.intercept(at) for at in coef])
    function = FeatureFunction(features, np.moveaxis(coef, 0, 1).reshape(width, -1))
    points, dual = _representers(task, function, intercept)
    return PathAnswer(
        points,
        dual,
        intercept,
        _loo(task, problem, features),
        problem.gcv(task.alphas),
        np.array([problem.effective_dof(alpha) for alpha in task.alphas]),
        function,
    )


def _loo(task: RidgeTask, problem: FeatureRidge, features: Features) -> Array:
    """Leave-one-out errors, by one more pass."""
    return problem.loo_errors(task.rows.total(LeaveOneOutErrors(features, problem, task.alphas)))


def _representers(
    task: RidgeTask, function: FeatureFunction, intercept: Array
) -> tuple[Points, Array]:
    """Points and their coefficients at each alpha: all rows, or few of those that are elsewhere."""
    if not isinstance(task.rows, InMemory):
        points, flat = representers.of_few(task, function)
        return points, np.moveaxis(flat.reshape(len(points), *intercept.shape), 0, 1)
    part = task.rows.part
    blocks = blocks_of(part, function.features, len(function.coef))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks])
    values = np.moveaxis(flat.reshape(task.n, *intercept.shape), 0, 1) + intercept[:, None]
    return part.points, representers.of_all(part, values, task.alphas[:, None, None])


def _refined(task: RidgeTask, points: Points, problem: FeatureRidge, penalty: Array) -> Array:
    """Solutions at all alphas, improved against the kernel itself: each pass serves all of them."""
    sums, alphas = problem.moments, task.alphas
    shape = (len(alphas), *sums.products.shape)
    scale = float(np.linalg.norm(sums.products)) or 1.0
    found, best, least = np.zeros(shape), np.zeros(shape), np.full(len(alphas), np.inf)
    left = np.broadcast_to(sums.products, shape)
    for _ in range(_PASSES):
        found = found + np.stack(
            [problem.apply(right, alpha) for right, alpha in zip(left, alphas, strict=True)]
        )
        image = task.normal(points, sums.plain_features, np.hstack(list(found)))
        image = np.stack(np.split(image, len(alphas), axis=1))
        left = sums.products - image - alphas[:, None, None] * (penalty @ found)
        sizes = np.linalg.norm(left, axis=(1, 2)) / scale
        better = sizes < least
        best[better], least = found[better], np.minimum(sizes, least)
        if (least <= _ENOUGH[task.type_with(points)]).all() or not better.any():
            break
    return best
