"""Kernel ridge at many alphas, by every solver that can."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer import validity
from mercer.estimator.base import shown
from mercer.exceptions import NumericalWarning, ParameterError, warn
from mercer.models.results import RidgePath
from mercer.rows.rows import RowSource
from mercer.solvers import Cholesky, Solution, Spectral, forecast

if TYPE_CHECKING:
    from mercer.models.ridge.kernel_ridge import KernelRidge

Array = NDArray[np.floating[Any]]


def ridge_path(model: KernelRidge, rows: RowSource, alphas: Array) -> RidgePath:
    """Fit at every alpha."""
    task = replace(model._task(model.kernel_, rows), alphas=alphas, compares=False)
    chosen = model._chosen_solver(rows)
    if isinstance(model.solver, str):
        chosen = forecast.forecast(task, searches=True).chosen
    if isinstance(chosen, Cholesky | Spectral):
        return _by_spectrum(model, alphas)
    if not hasattr(chosen, "path"):
        raise ParameterError(
            f"{type(model).__name__}: {shown(chosen)} solves for one alpha at a time; pass "
            "solver=mercer.solvers.NystromSolver(...), which serves all of them in a pass."
        )
    found = chosen.path(task)
    model._require_finite(found.dual, found.intercept, task.dtype)
    if found.doubt:
        warn(f"{type(model).__name__}: {found.doubt}.", NumericalWarning)
    return RidgePath(
        alphas=alphas,
        dual_coef=np.stack([model._shaped(dual) for dual in found.dual]),
        intercept=np.stack([model._shaped(constant[None])[0] for constant in found.intercept]),
        loo_errors=found.loo,
        gcv_errors=found.gcv,
        effective_dof=found.dof,
        kernel=model.kernel_,
        points=found.points.detached(),
        solver=chosen,
        function=found.function,
        feature_names=model._names_seen,
    )


def _by_spectrum(model: KernelRidge, alphas: Array) -> RidgePath:
    """All alphas from one eigendecomposition."""
    model.solver_ = Spectral()
    problem, repair = model._problem(model.kernel_)
    spectrum = problem.spectrum()
    found = [
        folded(problem.expand(spectrum.solve(problem.targets, alpha)), repair) for alpha in alphas
    ]
    return RidgePath(
        alphas=alphas,
        dual_coef=np.stack([model._shaped(solution.dual) for solution in found]),
        intercept=np.stack([model._shaped(solution.intercept[None])[0] for solution in found]),
        loo_errors=spectrum.loo_errors(problem.targets, alphas).mean(axis=1),
        gcv_errors=spectrum.gcv_errors(problem.targets, alphas).mean(axis=1),
        effective_dof=spectrum.effective_dof(alphas),
        kernel=model.kernel_,
        points=model.points_,
        solver=model.solver_,
        feature_names=model._names_seen,
    )


def folded(solution: Solution, repair: validity.Repair | None) -> Solution:
    """Coefficients for rows that are not repaired.

    A repair multiplies test rows by a symmetric matrix; multiplying the coefficients
    by it instead leaves prediction as it is for every other kernel.
    """
    if repair is None:
        return solution
    dual = repair.transform(solution.dual.T).T.astype(solution.dual.dtype, copy=False)
    return Solution(dual, solution.intercept, solution.jitter)
