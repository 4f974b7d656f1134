"""Kernel least mean squares: gradient descent on squared errors, row by row or all at once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer import checks, memory
from mercer.arrays import Array
from mercer.estimator.base import shown, store
from mercer.estimator.iterative import with_callbacks, with_named_columns
from mercer.estimator.optional_methods import available_unless
from mercer.exceptions import DataError, NumericalWarning, ParameterError, ValidityError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.models.online.base import Progress, TrainingRows, all_or_nothing, why_not_more
from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import FeatureExpansion, Rows
from mercer.models.online.feature_maps import FeatureMapModel
from mercer.models.online.gradient_descent import DescentTrace, LeastSquares
from mercer.models.online.steps import StepRule, Steps
from mercer.models.regressor import KernelRegressor

_METHODS = ("stochastic", "batch")
# Passes over single rows, and steps of a batch, unless max_iter is given.
_PASSES = 1
_STEPS = 1000
# Targets whose mean is more than this many standard deviations from zero, in at least so many rows,
# lead to a warning.
_FAR = 30.0
_MANY_ROWS = 10
# A k(x, x) below minus this, relative to the largest, is negative beyond rounding.
_ROUNDING = 1e-8


def _why_no_partial_fit(model: KernelLMS) -> str | None:
    if model.method == "batch":
        return (
            'with method="batch" a step needs all rows; set_params(method="stochastic") goes on '
            "from a batch by single rows"
        )
    return why_not_more(model)


class KernelLMS(FeatureMapModel, KernelRegressor):
    r"""Kernel least mean squares: steps of gradient descent on squared errors.

    A step goes down the gradient of half the squared errors of the rows that it sees, plus
    ``alpha / 2`` times the squared norm of f:

    .. math:: f := (1 - \eta \alpha)\, f + \eta \sum_i w_i (y_i - f(x_i))\, k(x_i, \cdot) .

    With ``method="stochastic"`` a step sees one row, the sum has one term, and `fit` goes through
    the rows in their order (with ``alpha > 0`` this is NORMA, whose coefficients decay). With
    ``method="batch"`` every step sees all rows: beta := beta + eta (y - K beta) if alpha is 0.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    step_size : float or "auto", default="auto"
        The step size eta. Too large a step is refused: it has to be less than
        2 / (lambda_max(K) + alpha) for a batch, and than 2 / (max k(x, x) + alpha) for single rows
        (times their weights). "auto" is 1 / (lambda_max + alpha) for a batch, half of
        1 / (max k(x, x) + alpha) for single rows, of those of the first call; a later
        `partial_fit` makes it smaller where its rows ask for that.
    alpha : float, default=0.0
        Weight of the squared norm, beside the rows that one step sees. The limit of a batch is
        kernel ridge with this alpha, and for alpha = 0 the interpolant of least norm; single rows
        approach kernel ridge with n times this alpha, within a distance that shrinks with eta.
    method : {"stochastic", "batch"}, default="stochastic"
        Whether a step sees one row or all.
    budget : Budget, optional
        What bounds the number of points, such as ``mercer.budgets.Remove(100)``; by default nothing
        does. For single rows only.
    feature_map : callable, transformer or Kernel, optional
        Explicit features phi, in place of `kernel`: a function of the data that returns an array
        with a row for each, a transformer, or a kernel with finitely many features. A transformer
        is cloned, and fitted to the rows of the first call; wrap one that is fitted already in
        `sklearn.frozen.FrozenEstimator` to keep it. The same steps are taken on coefficients of
        features, for the kernel <phi(x), phi(z)>, and no point is kept.
    batch_size : int, optional
        Rows computed together when steps see one row each, by default 512, with a budget 128. It
        changes the time, not the result.
    max_iter : int, optional
        Passes over the rows, 1 by default; for ``method="batch"`` the largest number of steps, 1000
        by default.
    tol : float, default=1e-4
        A batch is done when the norm of the gradient, a function, is `tol` times that at the start;
        with 0 it takes all steps.
    shuffle : bool, default=False
        Whether each pass of `fit` takes the rows in a new random order.
    random_state : int, RandomState or None, default=None
        For the order.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (m,) or (m, n_targets)
        The coefficients of the points. Not with `feature_map`.
    points_ : Points
        The points that carry coefficients, oldest first. Not with `feature_map`.
    rows_ : ndarray of shape (m,)
        The rows of X that they are, those of later calls counted on. Not with `feature_map`.
    coef_ : ndarray of shape (p,) or (p, n_targets)
        The coefficients of the features. Only with `feature_map`.
    feature_map_ : callable, transformer or Kernel
        The map used, a transformer being fitted. Only with `feature_map`.
    intercept_ : float
        Always 0.0: learning begins at zero. Subtract the mean from targets that are far from it.
    kernel_ : Kernel
        The kernel used, with length-scales resolved to numbers by the rows of the first call.
    step_size_ : float
        The step size used.
    learning_curve_ : ndarray
        The error of each row before it was learned, y_i - f(x_i), of shape (rows seen,) or
        (rows seen, n_targets); for a batch the root mean square error before each step.
    n_iter_ : int
        Passes of the last `fit` or `partial_fit`, or steps of a batch.
    converged_ : bool
        False if a fit was interrupted, or a batch did not reach `tol`.
    residual_ : float
        Norm of the gradient relative to that at the start. Only for a batch.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    KernelRidge : The limit of batch descent, at once.
    KernelPerceptron : Online classification.

    Notes
    -----
    Mini-batches give what a loop over single rows gives. The errors e of b rows that are met one
    after another solve a triangular system: with rho = 1 - eta alpha, f the function before them
    and K_b their Gram matrix,

    .. math:: e_i + \eta \sum_{j < i} \rho^{i - 1 - j} (K_b)_{ij} w_j e_j = y_i - \rho^i f(x_i) .

    Under a budget this stays so while it is known who leaves when (the oldest) or who takes which
    term (quantization). If that depends on the coefficients, the kernel values of a mini-batch
    are computed together and its rows taken one by one.

    References
    ----------
    .. [1] W. Liu, P. P. Pokharel, J. C. Principe (2008). The kernel least-mean-square algorithm.
       IEEE Transactions on Signal Processing 56(2).
    .. [2] J. Kivinen, A. J. Smola, R. C. Williamson (2004). Online learning with kernels. IEEE
       Transactions on Signal Processing 52(8).
    .. [3] Y. Yao, L. Rosasco, A. Caponnetto (2007). On early stopping in gradient descent learning.
       Constructive Approximation 26(2).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).uniform(0, 6, size=(400, 1))
    >>> y = np.sin(X).ravel()
    >>> model = mc.KernelLMS(mc.RBF(length_scale=1.0)).fit(X[:200], y[:200])
    >>> model.partial_fit(X[200:], y[200:]).learning_curve_.shape
    (400,)
    >>> bool(np.abs(model.learning_curve_[-50:]).max() < 0.2)
    True
    """

    step_size: float | Literal["auto"]
    alpha: float
    method: Literal["stochastic", "batch"]
    tol: float
    residual_: float
    step_size_: float
    learning_curve_: Array

    def __init__(
        self,
        kernel: KernelLike = None,
        step_size: float | Literal["auto"] = "auto",
        alpha: float = 0.0,
        *,
        method: Literal["stochastic", "batch"] = "stochastic",
        budget: Budget | None = None,
        feature_map: Any = None,
        batch_size: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        shuffle: bool = False,
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the rows, beginning with the function zero.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,) or (n, n_targets), or str
            Targets, or the name of their column in a data frame.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows: factors of their steps. 0 is a row removed; for a
            batch 2 is a row repeated.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            training = self._first_rows(X, y, sample_weight)
            if self.method == "batch":
                self._fit_batch(training, X, y)
            else:
                self._fit_passes(training, self.max_iter or _PASSES, X, y)
        return self

    @available_unless(_why_no_partial_fit)
    @with_named_columns
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from further rows, once each, beginning with the function so far.

        If it fails or is interrupted, the model is as it was before.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, and like those of the first call.

        Returns
        -------
        self
            The estimator.
        """
        with all_or_nothing(self):
            self._check_parameters()
            first = not hasattr(self, "kernel_")
            training = (self._first_rows if first else self._later_rows)(X, y, sample_weight)
            self._fit_rows(training, 1, lambda fitted: False)
        return self

    def _first_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> TrainingRows:
        X = self._in_one_piece(X, y)
        kernel = self._kernel_of_model(X, y, sample_weight)
        points = self._validate_points(kernel, X, reset=True)
        training = self._training_rows(points, y, sample_weight)
        weights = None if sample_weight is None else training.weights
        self.kernel_ = kernel.resolve(points, weights)
        self.intercept_ = 0.0
        _warn_of_offset(training)
        return training

    def _later_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> TrainingRows:
        if (self.feature_map is not None) != hasattr(self, "coef_"):
            raise ParameterError(
                "KernelLMS.partial_fit: feature_map was changed after the first call; keep it, or "
                "fit again."
            )
        points = self._validate_points(self.kernel_, X, reset=False)
        known = self.coef_ if self.feature_map is not None else self.dual_coef_
        was_vector, width = known.ndim == 1, known.shape[1] if known.ndim == 2 else 1
        training = self._training_rows(points, y, sample_weight)
        if training.targets.shape[1] != width or self._is_vector != was_vector:
            raise DataError(
                f"KernelLMS: y has shape {np.asarray(y).shape}, but the targets seen before have "
                f"{'one dimension' if was_vector else f'{width} columns'}; pass the same kind."
            )
        return training

    def _training_rows(
        self, points: Points, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> TrainingRows:
        targets = self._target_columns(y, len(points)).astype(float)
        weights = self._validate_weights(sample_weight, targets)
        return TrainingRows(points, targets, np.ones(len(points)) if weights is None else weights)

    def _is_done(self, progress: Progress, n: int, passes: int) -> bool:
        return progress.n_iter == passes

    def _initial_state(self, training: TrainingRows) -> tuple[Array, tuple[Array, ...]]:
        outputs = training.targets.shape[1]
        curve: tuple[Array, ...] = ()
        if hasattr(self, "learning_curve_") and not hasattr(self, "residual_"):
            curve = (self.learning_curve_.reshape(-1, outputs),)
        known = getattr(self, "coef_", getattr(self, "dual_coef_", np.zeros((0, outputs))))
        return known.reshape(-1, outputs), curve

    def _start(self, training: TrainingRows, passes: int) -> tuple[Progress, TrainingRows]:
        progress, training = super()._start(training, passes)
        self.__dict__.pop("residual_", None)  # of a batch before
        rows = training.counted
        _, weights = training.targets_and_weights(rows)
        diagonal = progress.expansion.diagonal(rows)
        _require_finite(self.kernel_, bool(np.isfinite(diagonal).all()))
        _require_squares(self.kernel_, diagonal)
        before = self.step_size_ if hasattr(self, "learning_curve_") else np.inf
        curvature = float((weights * diagonal).max())
        rule = StepRule(self.step_size, float(self.alpha))
        self.step_size_ = rule.for_rows(curvature, bool((weights != 1).any()), before)
        return progress, training

    def _advance(self, progress: Progress, rows: Rows, training: TrainingRows) -> Progress:
        targets, weights = training.targets_and_weights(rows)
        steps = Steps(self.step_size_, float(self.alpha), self.budget)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            expansion, errors = steps.learn(progress.expansion, rows, targets, weights)
        if not np.isfinite(errors).all():
            raise ParameterError(
                f"KernelLMS: the errors overflow; pass a step_size smaller than "
                f"{self.step_size_:.6g}, a kernel whose is_psd is True, or a larger budget."
            )
        return replace(progress, expansion=expansion, curve=(*progress.curve, errors))

    def _fitted(self, progress: Progress) -> dict[str, Any]:
        f = progress.expansion
        learned: dict[str, Any] = {
            "learning_curve_": self._shaped(progress.whole_curve),
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
        }
        if isinstance(f, FeatureExpansion):
            return learned | {"coef_": self._shaped(f.weights)}
        return learned | f.dictionary() | {"dual_coef_": self._shaped(f.coef)}

    def _fit_batch(self, training: TrainingRows, X: Any, y: Any) -> None:
        n, has_features = len(training.points), self.feature_map is not None
        if has_features:
            matrix = self._features(training.points)
        else:
            what = f"KernelLMS on {n} rows"
            memory.require(int(1.1 * n * n * 8), what, 'use method="stochastic"')
            matrix = self.kernel_(training.points)
        weights, alpha = training.weights[:, None], float(self.alpha)
        problem = LeastSquares(matrix, training.targets, weights, alpha, has_features)
        _require_finite(self.kernel_, problem.is_finite)
        curvature = problem.curvature()
        _require_finite(self.kernel_, bool(np.isfinite(curvature)))
        self.step_size_ = StepRule(self.step_size, alpha).for_batch(curvature)
        limit = self.max_iter or _STEPS
        try:
            with self._iterations(X, y, limit) as report:
                for trace in problem.descend(self.step_size_, self.tol, limit):
                    if report(partial(self._batch_fitted, training, trace)):
                        break
        except ValidityError as error:
            raise ValidityError(f"KernelLMS: {error}") from error
        self.__dict__.update(self._batch_fitted(training, trace))
        if self.n_iter_ == limit and self.tol and not self.converged_:
            warn(
                f"KernelLMS: after {limit} steps the gradient is {self.residual_:.2g} of that at "
                f"the start, not yet tol = {self.tol:g}; raise max_iter or alpha, or pass tol=0 "
                "to stop early on purpose.",
                NumericalWarning,
            )

    def _batch_fitted(self, training: TrainingRows, trace: DescentTrace) -> dict[str, Any]:
        coef = self._shaped(trace.coef)
        learned = {
            "learning_curve_": np.array(trace.curve),
            "n_iter_": max(len(trace.curve), 1),
            "residual_": trace.residual,
            "converged_": trace.residual <= self.tol or self.tol == 0,
        }
        if self.feature_map is not None:
            return learned | {"coef_": coef}
        n = len(training.points)
        rows = {"rows_": np.arange(n), "_rows_seen": n}
        return learned | rows | {"points_": training.points, "dual_coef_": coef}

    def _check_parameters(self) -> None:
        self._check_online_parameters()
        self._check_feature_map()
        step: Any = self.step_size
        automatic = isinstance(step, str) and step == "auto"
        if not automatic and not (checks.is_finite(step) and step > 0):
            raise ParameterError(
                f'KernelLMS: step_size = {self.step_size!r} is neither "auto" nor a positive '
                'number; pass "auto" or for example 0.5.'
            )
        for name in ("alpha", "tol"):
            checks.require_number(
                "KernelLMS", name, getattr(self, name), closed=True, example="0.01, or 0"
            )
        checks.require_choice("KernelLMS", "method", self.method, _METHODS)
        if self.budget is not None and self.method == "batch":
            raise ParameterError(
                f'KernelLMS: budget = {self.budget!r} has no meaning with method="batch"; leave '
                "one of them out."
            )


def _warn_of_offset(training: TrainingRows) -> None:
    """Warn of targets far from zero, where learning begins."""
    targets = training.targets[training.weights > 0]
    if len(targets) < _MANY_ROWS:
        return
    with np.errstate(over="ignore", invalid="ignore"):  # refused later
        means, spreads = targets.mean(axis=0), targets.std(axis=0)
    far = (np.abs(means) > _FAR * spreads) & (spreads > 0)
    if far.any():
        mean, spread = means[far][0], spreads[far][0]
        warn(
            f"KernelLMS: the targets have a mean of {mean:.3g} and a standard deviation of "
            f"{spread:.3g}, and learning begins at zero, without an intercept; subtract the mean "
            "from y.",
            NumericalWarning,
        )


def _require_finite(kernel: Kernel, is_finite: bool) -> None:
    """Refuse a kernel with values that are not finite."""
    if not is_finite:
        raise DataError(
            f"KernelLMS: {shown(kernel)} gives values with NaN or infinity; scale the data, or use "
            "a kernel that grows less fast."
        )


def _require_squares(kernel: Kernel, diagonal: Array) -> None:
    """Refuse a kernel with a negative k(x, x), under which a step makes its error larger."""
    least = float(diagonal.min())
    if kernel.is_psd is not True and least < -_ROUNDING * float(np.abs(diagonal).max()):
        raise ValidityError(
            f"KernelLMS: {shown(kernel)} has k(x, x) = {least:.3g} at a row, so that a step would "
            "make its error larger; use a kernel whose is_psd is True, or pass a matrix repaired "
            "by mercer.validity.repair with Precomputed()."
        )
