"""What a kernel ridge fit can tell beside its predictions, computed when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.models.intervals import calibrated, checked_coverage, jackknife_plus, margin, stacked
from mercer.models.length_scales import checked_alphas
from mercer.models.regressor import KernelRegressor
from mercer.parallel import cached_property
from mercer.rows.left_out import Codes, LeftOut, left_out
from mercer.rows.rows import InMemory, RowBlock
from mercer.sampling import blocks
from mercer.solvers import LeaveOneOut, RidgeProblem, RidgeTask
from mercer.solvers.dense import dense_problem
from mercer.solvers.ridge import spectrum
from mercer.solvers.ridge.feature_problem import FeatureProblem, feature_problem
from mercer.solvers.ridge.gram import TargetMaps

# Rows up to which an inverse of the Gram matrix takes a moment, whatever the solver was.
_FEW_ROWS = 2000


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
    dual_coef_: Array
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

    def predict_interval(self, X: Any, coverage: float = 0.9, *, calibration: Any = None) -> Array:
        """Intervals that hold new targets with a stated probability.

        Up to 2,000 rows, and for more by `Cholesky` and `Spectral`, they are those of the
        jackknife+ [1]_. With the residual ``r_i`` and the prediction ``g_i(x)`` of the fit without
        row i, the ends are order statistics of ``g_i(x) - abs(r_i)`` and ``g_i(x) + abs(r_i)``.
        All come from one inverse, which is kept, and one product for each block of rows.
        Otherwise they are f(x) plus and minus a quantile of all abs(r_i).

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the type and columns passed to `fit`.
        coverage : float, default=0.9
            The probability, strictly between 0 and 1.
        calibration : tuple of X and y, optional
            Rows that `fit` has not seen, with their targets. The intervals are then f(x) plus and
            minus a quantile of the absolute errors there (split conformal). Required if a solver
            has not kept all rows, as landmarks do.

        Returns
        -------
        ndarray of shape (m, 2) or (m, 2, n_targets)
            The lower and the upper ends. They are infinite, with a warning, if there are fewer than
            coverage / (1 - coverage) rows.

        Notes
        -----
        Rows have to be exchangeable with new ones. Each is left out alone, even if it has copies,
        but with its group if `fit` was given ``groups``. Weights act in every fit. Rows of weight
        zero do not count, and all others count alike. The jackknife+ covers at least
        2 coverage - 1, and mostly about the stated share; split conformal covers at least that.
        Both treat alpha and kernel as given, though they were chosen on the same rows.

        References
        ----------
        .. [1] R. F. Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani (2021). Predictive inference
           with the jackknife+. Annals of Statistics 49(1).

        Examples
        --------
        >>> import numpy as np
        >>> import mercer as mc
        >>> X = np.linspace(0, 6, 99)[:, None]
        >>> y = np.sin(X).ravel() + np.random.default_rng(0).normal(size=99)
        >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1.0).fit(X, y)
        >>> low, high = model.predict_interval(X, coverage=0.9).T
        >>> bool(np.mean((low <= y) & (y <= high)) > 0.85)
        True
        """
        return intervals(self, X, coverage, calibration)

    @cached_property
    def _target_maps(self) -> TargetMaps | None:
        """The maps from targets to the fit, where an inverse costs about as much as the fit."""
        n = len(self.points_)
        kept = self._training.targets is not None and n == self._training.n_rows
        exact = not self.solver_.is_approximate and self._training.psd == "raise"
        if not (kept and exact and (self.solver_.is_dense or n <= _FEW_ROWS)):
            return None
        problem = _gram_problem(self, LeftOut(_all_rows(self)))
        return problem.target_maps(self.alpha_ + self.jitter_)

    @cached_property
    def _leave_one_out(self) -> LeaveOneOut:
        # The jitter belongs to the matrix that was solved.
        return _fitted_problem(self).leave_one_out(self.alpha_ + self.jitter_)

    @cached_property
    def _eigenvalues(self) -> Array:
        return _fitted_problem(self).eigenvalues()


def intervals(model: RidgeDiagnostics, X: Any, coverage: Any, calibration: Any) -> Array:
    """The ends of the intervals of `predict_interval`."""
    check_is_fitted(model)
    owner = f"{type(model).__name__}.predict_interval"
    coverage, is_vector = checked_coverage(owner, coverage), model._is_vector

    def ends(rows: Any) -> tuple[Array, Array]:
        values = np.asarray(model.predict(rows), dtype=np.float64)
        columns = values.reshape(len(values), -1)
        return columns, columns

    if calibration is not None:
        both = calibrated(model, owner, ends, X, coverage, calibration)
        return stacked(*both, is_vector=is_vector)
    if model._training.targets is None or len(model.points_) < model._training.n_rows:
        raise DataError(
            f"{owner}: {model.solver_!r} has not kept all {model._training.n_rows} rows, and "
            "leaving rows out needs them; pass calibration=(X, y), rows that fit has not seen."
        )
    part, groups = _all_rows(model), model._training.groups
    counted, residuals = part.mass > 0, _residuals_alone(model, part)
    if model._target_maps is None:
        wider = margin(owner, np.abs(residuals[counted]), coverage)
        values = ends(X)[0]
        return stacked(values - wider, values + wider, is_vector=is_vector)
    points = model._validate_points(model.kernel_, X, reset=False)
    low, high = (np.empty((len(points), residuals.shape[1])) for _ in range(2))
    for rows in blocks(len(points), width=len(part)):
        values = ends(points[rows])[0]
        shares = _shares(model, points[rows])
        for t, column in enumerate(residuals.T):
            changes = shares * np.where(np.isfinite(column), column, 0.0)
            if groups is not None:
                changes = _summed(changes, groups)
            without = values[:, t, None] - changes[:, counted]
            low[rows, t], high[rows, t] = jackknife_plus(owner, without, column[counted], coverage)
    return stacked(low, high, is_vector=is_vector)


def _residuals_alone(model: RidgeDiagnostics, part: RowBlock) -> Array:
    """Residuals of the fits without each row, or its group; copies of the row stay."""
    maps, groups = model._target_maps, model._training.groups
    if maps is None or model.alpha_ == 0:
        problem = _fitted_problem(model, LeftOut(part, groups=groups))
        return problem.leave_one_out(model.alpha_ + model.jitter_).residuals
    # Landmarks that others explain have no coefficients of their own: those of all rows follow.
    dual = model.dual_coef_ if model.solver_.is_dense else maps.dual @ part.targets
    return maps.leave_one_out(np.asarray(dual, dtype=np.float64).reshape(len(part), -1), groups)


def _shares(model: RidgeDiagnostics, points: Points) -> Array:
    """The factors l_i(x) of the targets in the predictions, f(x) = sum_i l_i(x) y_i.

    Without row i, and so with y_i minus its leave-one-out residual r_i as target, the prediction is
    f(x) - l_i(x) r_i.
    """
    maps: Any = model._target_maps
    cross = model.kernel_(points, model.points_)
    return np.asarray(cross @ maps.dual + maps.intercept, dtype=np.float64)


def _summed(changes: Array, groups: Codes) -> Array:
    """Sums over the rows of each group, in the place of each row."""
    totals = np.zeros((len(changes), int(groups.max()) + 1))
    np.add.at(totals.T, groups, changes.T)
    return totals[:, groups]


def _fitted_problem(
    model: RidgeDiagnostics, out: LeftOut | None = None
) -> RidgeProblem | FeatureProblem:
    """The problem that was solved: the Gram matrix, or the features, with the targets."""
    check_is_fitted(model)
    function = model._function
    out = _left_out(model) if out is None else out
    if function is None:
        return _gram_problem(model, out)
    # Features have a kernel of their own, which need not be the one that they approximate.
    return feature_problem(
        type(model).__name__,
        out,
        function.features,
        len(function.coef),
        fit_intercept=model._training.fit_intercept,
    )


def _gram_problem(model: RidgeDiagnostics, out: LeftOut) -> RidgeProblem:
    """The problem as one of the Gram matrix."""
    training = model._training
    task = RidgeTask(
        type(model).__name__,
        model.kernel_,
        InMemory(out.part),
        training.fit_intercept,
        np.array([model.alpha_]),
        psd=training.psd,
    )
    return dense_problem(task, out)[0]


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
