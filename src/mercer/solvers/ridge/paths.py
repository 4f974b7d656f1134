r"""Ridge regression at many alphas at once.

On landmarks and on explicit features the rows are summed up once, and one eigendecomposition of the
sums serves every alpha (`moments`); what rounding loses in them is won back for all alphas
together, by passes that multiply as many columns. With the whole matrix, conjugate gradients with
shifts share each product with it (`conjugate`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.rows.rows import InMemory
from mercer.rows.sums import FeatureMoments, Features, blocks_of
from mercer.solvers.protocol import FeatureFunction, PathAnswer, RidgeTask
from mercer.solvers.ridge import representers
from mercer.solvers.ridge.features import FeatureRidge, LeaveOneOutErrors
from mercer.solvers.ridge.landmarks import LandmarkEquations
from mercer.solvers.ridge.representers import Representers

Array = NDArray[np.floating[Any]]


def landmark_path(task: RidgeTask, points: Points) -> PathAnswer:
    """The path of the best functions over landmarks."""
    equations = LandmarkEquations.of(task, points)
    answer = None if equations.squares_drown else _squared_path(equations)
    return answer or _whitened_path(equations)


def _squared_path(equations: LandmarkEquations) -> PathAnswer | None:
    """From C'WC, refined; None if it overflows, or lost too many digits to win them back."""
    task, found = equations.task, equations.sums()
    if found is None:
        return None
    sums, trace = found
    problem = FeatureRidge.of(sums, equations.basis, fit_intercept=task.fit_intercept)
    dual, residuals, lost = equations.refined(problem, task.alphas)
    if lost.any():
        return None
    intercepts = np.stack([problem.intercept(at) for at in dual])
    criteria = _criteria(task, problem, equations.columns)
    doubt = equations.doubt(problem, trace, float(residuals.max(initial=0.0)))
    return PathAnswer(equations.points, dual, intercepts, *criteria, doubt=doubt)


def _whitened_path(equations: LandmarkEquations) -> PathAnswer:
    """The same from rows that are whitened before they are squared."""
    task, (problem, trace) = equations.task, equations.whitened_first()
    inner: Array = np.stack([problem.solve(alpha)[0] for alpha in task.alphas])
    dual: Array = equations.basis @ inner
    intercepts = np.stack([problem.intercept(at) for at in inner])
    criteria = _criteria(task, problem, equations.whitened_columns)
    doubt = equations.doubt(problem, trace)
    return PathAnswer(equations.points, dual, intercepts, *criteria, doubt=doubt)


def feature_path(task: RidgeTask, features: Features, width: int) -> PathAnswer:
    """The path on explicit features, and the coefficients of the rows that go with it."""
    sums = task.rows.map_sum(FeatureMoments(features, width, task.middle)).terms[0]
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    coef = np.stack([problem.solve(alpha)[0] for alpha in task.alphas])
    intercept = np.stack([problem.intercept(at) for at in coef])
    function = FeatureFunction(features, np.moveaxis(coef, 0, 1).reshape(width, -1))
    held = _representers(task, function, intercept, sums.squares)
    criteria = _criteria(task, problem, features)
    return PathAnswer(held.points, held.dual, intercept, *criteria, function, held.doubt)


def _criteria(
    task: RidgeTask, problem: FeatureRidge, features: Features
) -> tuple[Array, Array, Array]:
    """Leave-one-out errors, by one more pass, those by GCV, and degrees of freedom."""
    sums = task.rows.map_sum(LeaveOneOutErrors(features, problem, task.alphas))
    dof = np.array([problem.effective_dof(alpha) for alpha in task.alphas])
    return problem.loo_errors(sums), problem.gcv(task.alphas), dof


def _representers(
    task: RidgeTask, function: FeatureFunction, intercept: Array, squares: Array
) -> Representers:
    """Points and their coefficients at each alpha: all rows, or few of those that are elsewhere."""
    if not isinstance(task.rows, InMemory):
        few = representers.of_few(task.rows, function, squares)
        dual = np.moveaxis(few.dual.reshape(len(few.points), *intercept.shape), 0, 1)
        return replace(few, dual=dual)
    part = task.rows.part
    blocks = blocks_of(part, function.features, len(function.coef))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks])
    values = np.moveaxis(flat.reshape(task.n, *intercept.shape), 0, 1) + intercept[:, None]
    dual = representers.of_all(part, values, task.alphas[:, None, None])
    return Representers(part.points, dual)
