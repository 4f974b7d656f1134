"""What a kernel ridge fit can tell beside its predictions, computed when asked for."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.kernels.base import Kernel
from mercer.models.length_scales import checked_alphas
from mercer.models.regressor import KernelRegressor
from mercer.solvers import LeaveOneOut, RidgeProblem
from mercer.solvers.ridge import spectrum
from mercer.solvers.ridge.feature_problem import FeatureProblem

Array = NDArray[np.floating[Any]]


class RidgeDiagnostics(KernelRegressor):
    """Leave-one-out residuals, shrinkage and degrees of freedom of a fitted ridge model.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    """

    alpha_: float
    jitter_: float
    _settings: tuple[bool, Any]

    @abstractmethod
    def _diagnosed(self, kernel: Kernel) -> RidgeProblem | FeatureProblem:
        """The problem that was solved: the Gram matrix, or the features, with the targets."""

    @cached_property
    def loo_residuals_(self) -> Array:
        """Leave-one-out residuals."""
        return self._shaped(self._leave_one_out.residuals)

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
        return spectrum.degrees_of_freedom(self._eigenvalues, grid, self._settings[0])

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
        return self._error_path(alphas, "loo")

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
        return self._error_path(alphas, "gcv")

    @cached_property
    def _leave_one_out(self) -> LeaveOneOut:
        check_is_fitted(self)
        problem = self._diagnosed(self.kernel_)
        # The jitter belongs to the matrix that was solved.
        return problem.leave_one_out(self.alpha_ + self.jitter_)

    @cached_property
    def _eigenvalues(self) -> Array:
        check_is_fitted(self)
        return self._diagnosed(self.kernel_).eigenvalues()

    def _error_path(self, alphas: ArrayLike, criterion: str) -> Array:
        check_is_fitted(self)
        grid = checked_alphas(alphas)
        problem = self._diagnosed(self.kernel_)
        return problem.errors(grid, criterion)
