"""What a kernel ridge fit can tell beside its predictions, computed when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.models.length_scales import checked_alphas
from mercer.models.regressor import KernelRegressor
from mercer.parallel import cached_property
from mercer.rows.left_out import Codes, LeftOut, left_out
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers import LeaveOneOut, RidgeProblem, RidgeTask
from mercer.solvers.dense import dense_problem
from mercer.solvers.ridge import spectrum
from mercer.solvers.ridge.feature_problem import FeatureProblem, feature_problem


@dataclass(frozen=True, eq=False)
class Training:
    """What a fit keeps of its rows and parameters for diagnostics."""

    targets: Array | None  # (n, t); None for rows that were not in memory
    weights: Array | None
    n_rows: int
    fit_intercept: bool
    psd: str
    groups: Codes | None = None  # (n,): of rows that are left out together


class RidgeDiagnostics(KernelRegressor):
    """Leave-one-out residuals, shrinkage and degrees of freedom of a fitted ridge model."""

    alpha_: float
    jitter_: float
    kernel_: Any
    points_: Any
    solver_: Any
    _function: Any
    _training: Training

    @cached_property
    def loo_residuals_(self) -> Array:
        """Leave-one-out residuals."""
        merged = self._leave_one_out.residuals
        return self._shaped(_left_out(self).residuals(merged, _all_rows(self).targets))

    @cached_property
    def effective_dof_(self) -> float:
        """Effective degrees of freedom."""
        return self._leave_one_out.effective_dof

    @cached_property
    def shrinkage_(self) -> Array:
        """Shrinkage s / (s + alpha) for each eigenvalue s, descending."""
        return spectrum.shrinkage(self._eigenvalues, self.alpha_)

    def dof_path(self, alphas: ArrayLike) -> Array:
        """Effective degrees of freedom of the fitted problem at other alphas.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Weights of the squared norm.

        Returns
        -------
        ndarray of shape (n_alphas,)
            [1 +] sum of s / (s + alpha).
        """
        grid = checked_alphas(alphas)
        return spectrum.degrees_of_freedom(self._eigenvalues, grid, self._training.fit_intercept)

    def loo_path(self, alphas: ArrayLike) -> Array:
        """Mean squared leave-one-out errors of the fitted problem at other alphas.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Weights of the squared norm.

        Returns
        -------
        ndarray of shape (n_alphas,)
            Weighted means over rows, averaged over targets.
        """
        return _fitted_problem(self).errors(checked_alphas(alphas), "loo")

    def gcv_path(self, alphas: ArrayLike) -> Array:
        """Generalised cross-validation errors of the fitted problem at other alphas.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Weights of the squared norm.

        Returns
        -------
        ndarray of shape (n_alphas,)
            Weighted mean of (r_i / (1 - df/n))^2, averaged over targets.
        """
        return _fitted_problem(self).errors(checked_alphas(alphas), "gcv")

    @cached_property
    def _leave_one_out(self) -> LeaveOneOut:
        # The jitter belongs to the matrix that was solved.
        return _fitted_problem(self).leave_one_out(self.alpha_ + self.jitter_)

    @cached_property
    def _eigenvalues(self) -> Array:
        return _fitted_problem(self).eigenvalues()


def _fitted_problem(model: RidgeDiagnostics) -> RidgeProblem | FeatureProblem:
    """The problem that was solved: the Gram matrix, or the features, with the targets."""
    check_is_fitted(model)
    owner, training, function = type(model).__name__, model._training, model._function
    out = _left_out(model)
    if function is None:
        task = RidgeTask(
            owner,
            model.kernel_,
            InMemory(out.part),
            training.fit_intercept,
            np.array([model.alpha_]),
            psd=training.psd,
        )
        return dense_problem(task, out)[0]
    # Features have a kernel of their own, which need not be the one that they approximate.
    return feature_problem(
        owner, out, function.features, len(function.coef), fit_intercept=training.fit_intercept
    )


def _left_out(model: RidgeDiagnostics) -> LeftOut:
    """The rows that were fitted, without copies, or with their groups."""
    part = _all_rows(model)
    return left_out(model.kernel_, InMemory(part), model._training.groups) or LeftOut(part)


def _all_rows(model: RidgeDiagnostics) -> RowBlock:
    """The rows that were fitted, if all of them were kept."""
    training, kept = model._training, len(model.points_)
    if training.targets is not None and kept == training.n_rows:
        return RowBlock(model.points_, training.targets, training.weights)
    nothing = " and no targets" if training.targets is None else ""
    remedy = "fit with solver=mercer.solvers.Cholesky()"
    if model._function is not None:
        remedy = "pass arrays to fit"
    raise DataError(
        f"{type(model).__name__}: {model.solver_!r} kept {kept} of the {training.n_rows} "
        f"rows{nothing}, and this diagnostic needs all of them; {remedy}."
    )
