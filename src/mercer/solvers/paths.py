r"""Ridge regression at many alphas at once.

On landmarks and on explicit features the rows are summed up once, and one eigendecomposition of the
sums serves every alpha (`moments`); what rounding loses in them is won back for all alphas
together, by passes that multiply as many columns. With the whole matrix, conjugate gradients with
shifts share each product with it (`conjugate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.solvers.moments import Block, FeatureRidge, Moments
from mercer.solvers.task import FeatureFunction, RidgeTask
from mercer.solvers.whitening import whiten

Array = NDArray[np.floating[Any]]
Features = Callable[[Points], Any]

# Feature values that are in memory at a time.
_BLOCK_BYTES = 2**24
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
    gram = task.kernel.gram(task.points, points)
    data = points.data
    single = isinstance(data, np.ndarray) and data.dtype == np.float32
    penalty = task.kernel(data.astype(np.float64) if single else points).astype(np.float64)
    rounding = len(points) * float(np.finfo(np.float64).eps)
    basis = whiten(penalty, tol=max(rounding, float(np.finfo(gram.dtype).eps)))

    def blocks() -> Iterator[Block]:
        return _blocks(task, lambda some: task.kernel(some, points), len(points))

    sums = Moments.of(blocks(), len(points), task.middle, penalty.mean(axis=0))
    problem = FeatureRidge.of(sums, basis.columns(len(points)), fit_intercept=task.fit_intercept)
    columns = _refined(task, gram, problem, penalty)
    return PathAnswer(
        points,
        columns,
        np.stack([problem.intercept(at) for at in columns]),
        problem.loo(blocks(), task.alphas),
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

    def blocks() -> Iterator[Block]:
        return _blocks(task, features, width)

    sums = Moments.of(blocks(), width, task.middle)
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    coef = np.stack([problem.solve(alpha)[0] for alpha in task.alphas])
    intercept = np.stack([problem.intercept(at) for at in coef])
    function = FeatureFunction(features, np.moveaxis(coef, 0, 1).reshape(width, -1))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks()])
    values = np.moveaxis(flat.reshape(task.n, *intercept.shape), 0, 1) + intercept[:, None]
    dual = task.mass[:, None] * (task.targets - values) / task.alphas[:, None, None]
    return PathAnswer(
        task.points,
        dual,
        intercept,
        problem.loo(blocks(), task.alphas),
        problem.gcv(task.alphas),
        np.array([problem.effective_dof(alpha) for alpha in task.alphas]),
        function,
    )


def _blocks(task: RidgeTask, features: Features, width: int) -> Iterator[Block]:
    step = max(256, _BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, task.n, step):
        rows = slice(start, min(start + step, task.n))
        phi = features(task.points[rows])
        weights = None if task.weights is None else task.weights[rows]
        dense = phi.toarray() if sp.issparse(phi) else np.array(phi)
        yield dense, task.targets[rows], weights


def _refined(task: RidgeTask, gram: Any, problem: FeatureRidge, penalty: Array) -> Array:
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
        image = _normal(task, gram, sums.plain_features, np.hstack(list(found)))
        image = np.stack(np.split(image, len(alphas), axis=1))
        left = sums.products - image - alphas[:, None, None] * (penalty @ found)
        sizes = np.linalg.norm(left, axis=(1, 2)) / scale
        better = sizes < least
        best[better], least = found[better], np.minimum(sizes, least)
        if (least <= _ENOUGH[gram.dtype]).all() or not better.any():
            break
    return best


def _normal(task: RidgeTask, gram: Any, sums: Array, columns: Array) -> Array:
    """C'WC times columns; about the means, C'w being `sums`, with an intercept."""
    inner = task.mass[:, None] * np.asarray(gram @ columns)
    found: Array = np.asarray(gram.T @ inner, dtype=np.float64)
    if task.fit_intercept:
        found -= np.outer(sums, sums @ columns) / float(task.mass.sum())
    return found
