"""Regression with any convex loss, and its best-known cases by name."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_pinball_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.by_blocks import by_blocks, scored_by_blocks
from mercer.estimator.scoring import Determination, determination
from mercer.exceptions import DataTypeError, ParameterError, as_data_errors
from mercer.kernels.names import KernelLike
from mercer.losses import Huber, Loss, PiecewiseLinear, Pinball, RegressionLoss
from mercer.losses.base import spread
from mercer.losses.checks import check_users_loss
from mercer.models.intervals import calibrated, checked_coverage, stacked
from mercer.models.length_scales import Grid
from mercer.models.machine.base import KernelMachine
from mercer.models.machine.data import KinkedTask, Quantiles, SmoothTask, Task
from mercer.models.regressor import ScoredRegressor
from mercer.penalties import Penalty
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import RowDraw
from mercer.solvers.newton.row_losses import RowLoss, SingleLoss
from mercer.streams.blocks import Block
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import OneNumber

# Number of rows of a stream from which the spread of the targets is computed.
_SPREAD_ROWS = 10_000


def _score_of(model: KernelMachineRegressor, block: Block) -> Determination | None:
    """The sums for the score of a block; the pinball loss needs a quantile of all targets."""
    if isinstance(model.__dict__.get("loss_"), Pinball):
        raise DataTypeError(
            f"{type(model).__name__}: the score of quantiles needs all targets in memory, and they "
            "come in blocks; pass arrays, or use mercer.losses.Pinball on predictions."
        )
    return determination(model, block)


class KernelMachineRegressor(ScoredRegressor, KernelMachine):
    r"""Regression with any convex loss.

    The function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: \sum_i w_i\, \ell(y_i, f(x_i)) + \alpha\, \Omega(\|f - b\|_k), \qquad
       \Omega(t) = t^2 / 2 \text{ by default.}

    That the best of all functions has this form is the representer theorem: it needs no more than
    that Omega is strictly increasing.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    loss : Loss or str, default="squared"
        A loss for real targets of `mercer.losses`, or one of your own, a class that derives from
        ``mercer.losses.RegressionLoss``. The names "squared", "absolute", "huber", "pinball",
        "epsilon_insensitive", "poisson" and "gamma" stand for the losses with their defaults.
    alpha : float, "scale", "loo" or "cv", default="scale"
        Positive weight of the penalty. If the loss grows linearly, it has the unit of y, and alpha
        the unit 1 / y. "scale" is then 1 over the spread of y, as in `KernelQuantileRegressor`; for
        the Huber loss it is ``delta`` over the spread, at most 1, and for other losses 1. "loo" and
        "cv" take the alpha of `alphas` with the least mean loss at rows left out: one by one, or in
        five folds. The notes say more.
    fit_intercept : bool, default=True
        Whether to fit the constant b, which is not penalised.
    alphas : array-like of float, optional
        The grid for "loo" and "cv". By default 25 values, evenly spaced in logarithm, on the scale
        of the kernel and of the loss: from 1e-8 to n times the mean of w_i K_ii, times the mean
        curvature of the loss at the best constant, or 1 over the spread of y for kinks.
    length_scales : "auto", sequence or dict, optional
        Length-scales searched together with alpha, as in `KernelRidge`.
    penalty : Penalty, optional
        A strictly increasing function of the norm, of `mercer.penalties` or your own; by default
        half the square.
    tol : float, default=1e-8
        How small the gradient has to be, relative to its terms, or the duality gap, relative to the
        objective.
    max_iter : int, default=1000
        The largest number of steps, for each function that is fitted.
    solver : "auto", str or a solver, default="auto"
        `mercer.solvers.Cholesky` (or `Spectral`) works on the whole matrix, `NystromSolver` and
        `Falkon` minimise over landmarks, `Primal` on the kernel's own features, and
        `RandomFeatures` on those of a map. Each has a name, as in `KernelRidge`.
        For smooth losses `ConjugateGradient` has the answer of
        the whole matrix by products with it, without storing it. "auto" takes what costs least of
        these exact ones, and `NystromSolver` if that takes a core more than half a minute, or if
        the loss has kinks and the matrix costs more; `mercer.forecast` shows the choice.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n,) or (n, n_quantiles)
        The coefficients a; zero for a row of weight zero.
    intercept_ : float or ndarray of shape (n_quantiles,)
        The constant b; 0.0 without an intercept.
    loss_ : Loss
        The loss.
    kernel_ : Kernel
        The kernel used, with length-scales resolved to numbers.
    points_ : Points
        The points that carry coefficients, as the kernel prepared them: the training points, or the
        landmarks of a solver that has some; on features of rows in blocks, some that span them.
    rows_ : ndarray of shape (n_points,)
        Which rows of X the points are. Only if they are some of them, such as chosen landmarks.
    solver_ : solver
        The solver used.
    alpha_ : float
        The weight of half the squared norm that has the same minimiser: `alpha` itself, or the one
        chosen, with the default penalty; infinite if the best function is a constant.
    alphas_ : ndarray of shape (n_alphas,)
        The alphas compared. Only after a search.
    search_kernels_ : tuple of Kernel
        The kernels compared. Only after a search.
    search_errors_ : ndarray of shape (n_kernels, n_alphas)
        The mean loss at rows left out, summed over classes or quantiles, for every pair. Infinite
        at alphas that were not compared, because errors had risen before. Only after a search.
    criterion_ : str
        How rows were left out: "loo" or "cv". Only after a search.
    n_iter_ : int
        Steps that the solver took.
    converged_ : bool
        Whether the gradient or the duality gap is as small as `tol` asks.
    gradient_norm_ : float
        Norm of the gradient of the objective, in the space of the kernel and in the intercept;
        converged at `tol` times the norms of its two terms. Only for smooth losses.
    dual_gap_ : float
        The objective, with half the squared norm at the weight `alpha_`, is at most this much above
        its minimum. For losses with kinks; converged at `tol` times the objective. Rounding of the
        function's values is excused, up to a hundred times that, or `tol` times the loss of a
        constant function. For smooth losses only over landmarks, on features and by
        `ConjugateGradient`: the squared norm of the gradient over 2 `alpha_`, which bounds the
        excess over functions with the same constants.
    residual_ : float
        The norm of the gradient, relative to the norms of its two terms. Only over landmarks, on
        features and by `ConjugateGradient`.
    preconditioner_error_ : float
        The share of the trace of the kernel matrix that the preconditioner leaves out. Only by
        `ConjugateGradient` with one.
    trace_error_ : float
        The share of the trace of the kernel matrix that the landmarks leave out, from about 10,000
        rows if there are more. Only over landmarks.
    feature_map_ : transformer
        The fitted map. Only with `mercer.solvers.RandomFeatures`, whose notes say more.
    kernel_error_ : float
        What the kernel of its features differs from the kernel by, relative to it. Only with it.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    KernelRidge : Squared loss, faster and with leave-one-out errors.
    KernelQuantileRegressor : The pinball loss by another name.
    KernelHuberRegressor : The Huber loss by another name.

    Notes
    -----
    Smooth losses are minimised by Newton's method. Losses with kinks are smoothed, solved for a
    width that falls until it is known which points sit at a kink, and then exactly. Several
    quantiles are fitted alone and, if they cross, together by the method of multipliers or by an
    interior-point method, whichever suits the eigenvalues of the Gram matrix.

    A search minimises the weighted mean loss of row i under the model that is fitted without row i.
    For smooth losses "loo" takes one Newton step from the fit to all rows [2]_. With l'_i the slope
    and W_i the curvature of a row's loss, and C = (K / alpha + W^-1)^-1,

    .. math:: f_{-i}(x_i) \approx f(x_i) + (1 / C_{ii} - 1 / W_i)\, \ell'_i ,

    which is exact for the squared loss. An intercept makes C a bordered inverse. The step
    understates the errors of very small alphas. Losses with kinks have no Newton step: both "loo"
    and "cv" then are cross-validation, and `criterion_` is "cv".

    The five folds of "cv" are the same at every fit, and balanced over classes. Copies of a row,
    and the rows of a group in ``groups``, are left out together. Alphas are compared from the
    largest to the smallest on one Gram matrix, each fit starting from those before it. The
    comparison ends when errors have risen three times in a row. A search needs rows in memory, and
    a solver with a matrix, landmarks or features. Ties go to the larger alpha.

    References
    ----------
    .. [1] B. Schölkopf, R. Herbrich, A. J. Smola (2001). A generalized representer theorem. COLT.
    .. [2] K. Rahnama Rad, A. Maleki (2020). A scalable estimate of the out-of-sample prediction
       error via approximate leave-one-out cross-validation. JRSS B 82(4).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.arange(8.0)[:, None]
    >>> y = 2 * X.ravel() + 1
    >>> y[3] = 1000  # an outlier
    >>> model = mc.KernelMachineRegressor(mc.Linear(), loss="absolute", alpha=1e-3).fit(X, y)
    >>> model.predict([[10.0]]).round(3)
    array([21.])
    >>> bool(model.dual_gap_ < 1e-6)
    True
    """

    _scaled = "alpha"
    _unit = 1.0  # the spread of the targets
    _kind = RegressionLoss
    _smooth_loss = 'loss="huber"'
    _purpose = "real targets"
    _example = "mercer.losses.Huber()"
    _other = "KernelMachineClassifier"

    def __init__(
        self,
        kernel: KernelLike = None,
        loss: Loss | str = "squared",
        alpha: float | Literal["scale", "loo", "cv"] = "scale",
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Grid = None,
        penalty: Penalty | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        searched, named = (alphas, length_scales), (degree, gamma, coef0)
        super().__init__(
            kernel, alpha, fit_intercept, *searched, penalty, tol, max_iter, solver, named
        )
        self.loss = loss

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Predict targets: quantiles, medians or means, as the loss has it.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_quantiles)
            The predictions; for Poisson and gamma losses the mean exp(f). Several quantiles are put
            in order in each row, which brings them nearer to the true ones.
        """
        values = self._function_values(X)
        assert isinstance(self.loss_, RegressionLoss)
        if self._has_columns:
            assert isinstance(self.loss_, Pinball)
            return _rearranged(values, self.loss_.levels)
        return self.loss_.mean(values)

    @scored_by_blocks(_score_of)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of variance, or for quantiles of the pinball loss, that is explained.

        For the pinball loss it is `sklearn.metrics.d2_pinball_score` at the quantile, averaged over
        several; for every other loss the coefficient of determination.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data like those seen by `fit`; blocks with their targets, as `fit` takes them.
        y : array-like of shape (m,), Dask collection or str
            True targets; None if blocks hold them, or the name of a column.
        sample_weight : array-like of shape (m,), Dask collection or str, optional
            Weights of the rows.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those of the best constant.
        """
        if not isinstance(self.loss_, Pinball):
            return float(super().score(X, y, sample_weight))
        predicted = self.predict(X)
        columns = predicted.reshape(len(predicted), -1).T
        scores = [
            d2_pinball_score(y, column, alpha=level, sample_weight=sample_weight)
            for level, column in zip(self.loss_.levels, columns, strict=True)
        ]
        return float(np.mean(scores))

    def _output_names(self) -> tuple[str, NDArray[Any]]:
        if not self._has_columns:
            return super()._output_names()
        assert isinstance(self.loss_, Pinball)
        return "quantile", np.asarray(self.loss_.levels)

    @property
    def _has_columns(self) -> bool:
        return isinstance(self.loss_, Pinball) and self.loss_.several

    def _checked_targets(self, y: ArrayLike, n: int) -> Array:
        targets = self._validate_targets(y, n)
        with as_data_errors(type(self).__name__):
            column: Array = column_or_1d(targets, warn=True).astype(np.float64)
        checks.require_target_range(type(self).__name__, float(np.abs(column).max()))
        return column

    def _target_reader(self) -> OneNumber:
        return OneNumber(type(self).__name__)

    def _row_losses(self, rows: StreamRows) -> tuple[tuple[RowLoss, ...], Array, float]:
        owner, loss, column = type(self).__name__, self.loss_, rows.survey.targets
        assert isinstance(loss, RegressionLoss)
        assert isinstance(column, OneNumber)
        mean = rows.statistics.targets / rows.statistics.weight
        # A loss that refuses some targets refuses the smallest or the largest.
        extremes = np.array([column.least, column.largest])
        checks.require_target_range(owner, float(np.abs(extremes).max()))
        loss.check_targets(extremes, np.ones(2), owner)
        check_users_loss(loss, np.append(extremes, mean), owner)
        constants = np.zeros(1)
        if self.fit_intercept:
            constants[0] = loss.start(mean, np.ones(1))
        return (SingleLoss(loss, 0),), constants, _scale(loss, extremes)

    def _take_unit(self, rows: RowSource) -> None:
        linear = isinstance(self.loss_, PiecewiseLinear | Huber)
        if getattr(self, self._scaled) != "scale" or not linear:
            return
        part = rows.part if isinstance(rows, InMemory) else _sample(rows)
        some = part.mass > 0
        self._unit = spread(part.targets[some, 0].astype(np.float64), part.mass[some])
        self.loss_ = self._checked_loss()

    def _weight(self) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if isinstance(self.loss_, Huber):
            return min(1.0, float(self.loss_.delta) / self._unit)
        return 1 / self._unit if isinstance(self.loss_, PiecewiseLinear) else 1.0

    def _task(self, loss: RegressionLoss, targets: Array, weights: Array) -> tuple[Task, float]:
        loss.check_targets(targets, weights, type(self).__name__)
        check_users_loss(loss, targets, type(self).__name__)
        parts: list[Any] = [loss]
        if isinstance(loss, Pinball):
            parts = [Pinball(quantile=float(level)) for level in loss.levels]
        constants = np.zeros(len(parts))
        if self.fit_intercept:
            constants = np.array([part.start(targets, weights) for part in parts])
        scale = _scale(loss, targets)
        if isinstance(loss, Pinball):
            return Quantiles(parts, loss.levels, targets, weights, constants), scale
        if isinstance(loss, PiecewiseLinear):
            return KinkedTask([loss], targets[:, None], weights, constants), scale
        return SmoothTask((SingleLoss(loss),), targets[:, None], weights, constants), scale


def _scale(loss: RegressionLoss, targets: Array) -> float:
    """The typical size of values: that of the targets, or 1 for logarithms of means."""
    linked = type(loss).mean is not RegressionLoss.mean
    return 1.0 if linked else float(np.abs(targets).max())


def _rearranged(values: Array, levels: Array) -> Array:
    """The values of each row in the order of their levels."""
    ordered = np.empty_like(values)
    ordered[:, np.argsort(levels)] = np.sort(values, axis=1)
    return ordered


def _sample(rows: RowSource) -> RowBlock:
    """Some rows of a stream, drawn with equal probability."""
    size = min(_SPREAD_ROWS, rows.statistics.rows)
    return rows.rows_at(np.sort(rows.map_sum(RowDraw(size, 0, equal=True)).rows))


class KernelQuantileRegressor(KernelMachineRegressor):
    r"""Quantiles of the target, given the data: the machine with the pinball loss.

    Parameters
    ----------
    kernel, fit_intercept, alphas, length_scales, penalty, tol, max_iter, solver
        As in `KernelMachineRegressor`.
    degree, gamma, coef0
        As in `KernelMachineRegressor`.
    quantile : float or array of shape (n_quantiles,), default=0.5
        The quantile or quantiles. With several, a higher one is never predicted below a lower one:
        the functions do not cross at the training points, and predictions elsewhere are put in
        order [1]_.
    alpha : float, "scale", "loo" or "cv", default="scale"
        Positive weight of the penalty. It is in the unit 1 / y, because the loss has the unit of y
        and the squared norm its square. "scale" is 1 over the spread of y: the distance of its
        quartiles, divided by 1.35. Then a model of c y predicts c times what one of y predicts.
        "loo" and "cv" choose it among `alphas` by cross-validation, one alpha for all quantiles.

    See Also
    --------
    KernelMachineRegressor : Any loss, with the same fitted attributes.

    References
    ----------
    .. [1] V. Chernozhukov, I. Fernandez-Val, A. Galichon (2010). Quantile and probability curves
       without crossing. Econometrica 78(3).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 1, 99)[:, None]
    >>> y = np.random.default_rng(0).normal(size=99) * (1 + X.ravel())
    >>> model = mc.KernelQuantileRegressor(quantile=[0.1, 0.5, 0.9], alpha=0.1).fit(X, y)
    >>> model.predict([[0.0], [1.0]]).shape
    (2, 3)
    >>> (y[:, None] <= model.predict(X)).mean(axis=0).round(1)
    array([0.1, 0.5, 0.9])
    """

    def __init__(
        self,
        kernel: KernelLike = None,
        quantile: float | ArrayLike = 0.5,
        alpha: float | Literal["scale", "loo", "cv"] = "scale",
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Grid = None,
        penalty: Penalty | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        searched, named = (alphas, length_scales), (degree, gamma, coef0)
        KernelMachine.__init__(
            self, kernel, alpha, fit_intercept, *searched, penalty, tol, max_iter, solver, named
        )
        self.quantile = quantile

    def predict_interval(self, X: Any, coverage: float = 0.9, *, calibration: Any = None) -> Array:
        """Intervals between two fitted quantiles, (1 - coverage) / 2 and (1 + coverage) / 2.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.
        coverage : float, default=0.9
            The probability with which an interval holds a new target. Both quantiles must have been
            fitted: ``quantile=[0.05, 0.95]`` for 0.9.
        calibration : tuple of X and y, optional
            Rows that `fit` has not seen, with their targets. All ends are then moved by one
            distance, so that the coverage holds for any distribution of exchangeable rows
            (conformalised quantiles). Ends are infinite, with a warning, for fewer than
            coverage / (1 - coverage) rows.

        Returns
        -------
        ndarray of shape (m, 2)
            The lower and the upper ends.
        """
        check_is_fitted(self, "loss_")
        owner = f"{type(self).__name__}.predict_interval"
        coverage = checked_coverage(owner, coverage)
        columns = _pair_of(owner, self.loss_.levels, coverage)

        def ends(rows: Any) -> tuple[Array, Array]:
            low, high = self.predict(rows).T[columns]
            return low[:, None], high[:, None]

        both = ends(X)
        if calibration is not None:
            both = calibrated(self, owner, ends, X, coverage, calibration)
        return stacked(*both, is_vector=True)

    def _given_loss(self) -> Loss:
        return Pinball(quantile=self.quantile)


def _pair_of(owner: str, levels: Array, coverage: float) -> list[int]:
    """The positions of the two levels whose quantiles hold this share between them."""
    wanted = [(1 - coverage) / 2, (1 + coverage) / 2]
    positions = [np.flatnonzero(np.isclose(levels, level, rtol=0, atol=1e-9)) for level in wanted]
    if all(map(len, positions)):
        return [int(found[0]) for found in positions]
    fitted = ", ".join(f"{level:g}" for level in levels)
    raise ParameterError(
        f"{owner}: coverage = {coverage:g} lies between the quantiles {wanted[0]:g} and "
        f"{wanted[1]:g}, and fitted are {fitted}; fit with "
        f"quantile=[{wanted[0]:g}, {wanted[1]:g}]."
    )


class KernelHuberRegressor(KernelMachineRegressor):
    r"""Regression that outliers cannot pull far: the machine with the Huber loss.

    Parameters
    ----------
    kernel, fit_intercept, alphas, length_scales, penalty, tol, max_iter, solver
        As in `KernelMachineRegressor`.
    degree, gamma, coef0
        As in `KernelMachineRegressor`.
    delta : float or "scale", default="scale"
        Residuals count by half their square up to delta, and linearly beyond. It is in the unit of
        y. "scale" is the distance of the quartiles of y, which is 1.35 standard deviations of
        normal targets. Then a model of c y predicts c times what one of y predicts.
    alpha : float, "loo" or "cv", default=1.0
        Positive weight of the penalty; "loo" and "cv" choose it among `alphas`.

    See Also
    --------
    KernelMachineRegressor : Any loss, with the same fitted attributes.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.arange(8.0)[:, None]
    >>> y = 2 * X.ravel() + 1
    >>> y[3] = 1000  # an outlier
    >>> model = mc.KernelHuberRegressor(mc.Linear(), delta=0.1, alpha=1e-3).fit(X, y)
    >>> model.predict([[10.0]]).round(1)
    array([21.])
    """

    def __init__(
        self,
        kernel: KernelLike = None,
        delta: float | Literal["scale"] = "scale",
        alpha: float | Literal["loo", "cv"] = 1.0,
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Grid = None,
        penalty: Penalty | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        searched, named = (alphas, length_scales), (degree, gamma, coef0)
        KernelMachine.__init__(
            self, kernel, alpha, fit_intercept, *searched, penalty, tol, max_iter, solver, named
        )
        self.delta = delta

    _scaled = "delta"

    def _given_loss(self) -> Loss:
        if isinstance(self.delta, str) and self.delta == "scale":
            return Huber(delta=Huber().delta * self._unit)
        return Huber(delta=self.delta)
