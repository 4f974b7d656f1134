"""Gaussian process regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.iterative import with_callbacks
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel, validated
from mercer.kernels.names import KernelLike
from mercer.kernels.parameters import Bounded, Fixed
from mercer.kernels.points import Points
from mercer.kernels.scikit_learn import is_scikit_learns, without_white
from mercer.landmarks.selection import Landmarks, select_points
from mercer.models.gaussian_process.base import FROM_SOME_ROWS, GaussianProcess
from mercer.models.gaussian_process.exact import (
    CRITERIA,
    ExactObjective,
    ExactPosterior,
    NoiseObjective,
    prior_draws,
    require_covariance,
)
from mercer.models.gaussian_process.explicit import ExplicitPosterior
from mercer.models.gaussian_process.features import FeaturePosterior
from mercer.models.gaussian_process.landmarks import IteratedPosterior
from mercer.models.gaussian_process.plan import (
    FeatureFit,
    FitPlan,
    forecast,
    planned,
    require_solver,
)
from mercer.models.gaussian_process.search_space import warn_of
from mercer.models.gaussian_process.targets import Noise, Scaling
from mercer.models.intervals import checked_coverage
from mercer.models.regressor import ScoredRegressor
from mercer.models.results import NormalPredictions
from mercer.parallel import cached_property, single_blas
from mercer.rows.rows import as_float64
from mercer.solvers.forecast import Forecast
from mercer.solvers.likelihood.gaussian import NOISE
from mercer.solvers.likelihood.maximise import Optimum
from mercer.solvers.protocol import as_solver
from mercer.solvers.ridge.gram import TargetMaps
from mercer.validity.required import gram_matrix, require_positive

_CONSTANT = (
    "y is constant, which says nothing about variances, so kernel and noise stay where they start "
    "(pass the kernel that you expect, with learn=False and a noise)"
)

# Attributes that an update makes invalid.
_OF_ROWS = ("loo_predictions_", "loo_log_density_", "lower_bound_", "upper_bound_", "trace_error_")
# Nats per row by which a bound may be below the likelihood without a warning.
_LOOSE = 0.01
# Memory of a fit in Gram matrices: that of the model, one to invert, and room to work.
_MATRICES = 2.7


class GaussianProcessRegressor(MultiOutputMixin, ScoredRegressor, GaussianProcess):
    r"""Gaussian process regression: a distribution over functions, conditioned on data.

    A priori f is a constant b plus a Gaussian process of mean zero and covariance k. Targets are
    y_i = f(x_i) + e_i with independent normal e_i. With G = K + diag(noise), a posteriori

    .. math::
        f(x) \sim N\bigl( b + k_x^\top G^{-1} (y - b),\; k(x, x) - k_x^\top G^{-1} k_x \bigr) ,

    so that the mean is the function of kernel ridge at alpha = noise. The constant b is unknown,
    with a flat prior: it is estimated by generalised least squares, and integrated out.
    Hyper-parameters (whatever is free in the kernel, and the noise) are those that make the data
    most probable.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``1.0 * RBF(length_scale="scale")``, of standardised columns if
        their spreads differ more than 30 times, or the `table_kernel` of a data frame with other
        columns than numbers or with missing values.
        Parameters of the kernel are starting values; `Fixed` ones are held, `Bounded` ones stay
        within their bounds. Write ``1.0 * kernel`` to have the variance of the function learned
        too.
    noise : float, "learn", Fixed, Bounded or array-like of shape (n,), default="learn"
        Variance of the noise, in units of y squared. A number is where the search starts (0 is
        held), "learn" starts at a tenth of the variance of y, ``Fixed(v)`` is held, and an array
        holds known variances, one for each row.
    criterion : {"marginal_likelihood", "loo"}, default="marginal_likelihood"
        What hyper-parameters maximise: the log marginal likelihood, or the leave-one-out log
        predictive density, which is more robust if the kernel does not fit the data. A row is left
        out together with its copies, if it has a weight.
    mean : {"constant", "sample", "zero"}, default="constant"
        The mean b of the process. "constant" is an unknown constant with a flat prior, one for each
        target: its posterior has mean 1'G^-1 y / s and variance 1 / s with s = 1'G^-1 1, and the
        likelihood is integrated over it (restricted likelihood). Variances include that of b.
        "sample" is the mean of y, as if it were known, and "zero" is 0.
    normalize_y : bool, default=True
        Whether to divide each target by its standard deviation. The kernel then describes the
        standardised targets: a variance of 1 is the variance of y. A constant target
        has the scale 1, and says nothing about variances: if all are constant (as a single row
        is), kernel and noise stay where they start, and a warning says so.
    learn : bool, default=True
        Whether to learn hyper-parameters; otherwise kernel and noise are used as they are.
    n_restarts : int, default=0
        How often the search starts again, at values drawn on the scale of the data.
    max_iter : int, default=200
        Iterations of L-BFGS-B from each start.
    random_state : int, RandomState or None, default=None
        Where the restarts come from, and the landmarks that "auto" chooses.
    solver : "auto", str or a solver, default="auto"
        How it is computed, also by name, as in `KernelRidge`. `mercer.solvers.Cholesky` is exact,
        and so is `mercer.solvers.Spectral`, which takes one eigendecomposition where the noise is
        all that is learned, and a Cholesky factor otherwise. `mercer.solvers.Primal` is exact too,
        from the features of a kernel that has few of them. `mercer.solvers.NystromSolver` sees data
        through landmarks, and learns by the collapsed bound of the log marginal likelihood;
        landmarks that a kernel chooses are chosen again as it is learned, and
        ``landmarks="learn"`` moves them too. The others learn by the bound:
        `mercer.solvers.ConjugateGradient` then finds the mean of all rows by iterations,
        `mercer.solvers.Falkon` that over its landmarks, both with the variances of landmarks;
        `mercer.solvers.RandomFeatures` has the posterior of its map, whose inner products take the
        place of the learned kernel.
        "auto" takes `Primal` where the kernel has few features. Otherwise it is exact up to 2,000
        rows, up to 15,000 if they fit in memory but for the search of hyper-parameters, which is
        on landmarks unless they are too few, and takes `ConjugateGradient` and `NystromSolver`
        beyond; `mercer.forecast` says which and why.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with learned parameters, for standardised targets.
    noise_ : float or ndarray
        The variance of the noise in units of y squared: a number (one for each target if there
        are several), or the known variances.
    dual_coef_ : ndarray of shape (n,) or (n, n_targets)
        The coefficients a of the mean, sum_i a_i k(x, x_i) + b.
    intercept_ : float or ndarray of shape (n_targets,)
        The mean b of the process: its posterior mean if it is unknown.
    y_scale_ : float or ndarray of shape (n_targets,)
        The scale of each target; 1.0 without `normalize_y`.
    points_ : Points
        The points of the mean: the training points, without rows of weight zero, or landmarks.
    rows_ : ndarray of shape (n,) or None
        The rows of X that they are, those of updates counted on; None for landmarks that are not
        rows.
    log_marginal_likelihood_ : float
        Of y as it was given, whatever `normalize_y`; the sum over targets. By landmarks it is
        ``lower_bound_``, by random features that of their own kernel. Compare likelihoods only
        between models with the same `mean`: that of an unknown constant is a density of
        differences of targets.
    solver_ : solver
        The solver used.
    search_solver_ : solver
        The solver with which hyper-parameters were learned; of "auto", with as many landmarks as
        they took in the end, or `Cholesky` where landmarks were too few.
    lower_bound_, upper_bound_ : float
        Between these is the log marginal likelihood. Only if landmarks were used, or the features
        of the kernel, with which both are the likelihood; if landmarks were used for the search
        alone, ``log_marginal_likelihood_`` is exact.
    trace_error_ : float
        The share of the trace of the kernel matrix, rows weighted by one over their noise, that
        the landmarks leave out; of `Falkon`, whose mean has landmarks of its own, the larger share.
        Only if there are bounds.
    residual_, residual_history_, preconditioner_error_ : float, ndarray, float
        How good the iterations for the mean are, as for `mercer.KernelRidge`. Only if they were
        used.
    feature_map_ : transformer
        The map with the learned kernel. Only of `mercer.solvers.RandomFeatures`.
    kernel_error_ : float
        How far inner products of its features are from the kernel, as for `mercer.KernelRidge`.
        Only of `mercer.solvers.RandomFeatures`.
    theta_ : ndarray of shape (p,)
        The learned hyper-parameters, unconstrained: ``kernel_.theta``, then the logarithm of the
        noise's variance in standardised targets, if it was learned.
    theta_names_ : tuple of str
        Their names.
    at_bounds_ : tuple of str
        Parameters that ended at a bound, as ``"name (low)"`` or ``"name (high)"``.
    n_iter_ : int
        Iterations of the search, of all starts together.
    n_evaluations_ : int
        Evaluations of the criterion on all rows, of all starts together.
    converged_ : bool
        Whether the search ended at a maximum; False after an interrupt.
    gradient_norm_ : float
        Largest entry of the gradient of the criterion at ``theta_``, within the bounds.
    jitter_ : float
        What was added to the diagonal beyond the noise, in standardised targets, because the
        matrix was numerically singular.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.
    loo_predictions_ : NormalPredictions
        Mean and variance of each y_i (with its noise) given all other rows, at the learned
        hyper-parameters and landmarks. Computed when first asked for.
    loo_log_density_ : float
        The sum of the log densities of the y_i under `loo_predictions_`. Computed when first
        asked for.

    See Also
    --------
    mercer.KernelRidge : The mean alone, with alpha chosen by leave-one-out.
    sklearn.gaussian_process.GaussianProcessRegressor : With kernels of its own.

    Notes
    -----
    Memory is two Gram matrices at most, time O(n^3) for each evaluation of the criterion. With m
    landmarks or features it is a few matrices of order m and one block of rows, and O(n m^2).
    Linear algebra is in float64 also if the data are float32.

    From 1,000 rows on, the search first looks at some of them (an eighth, 250 at least; half of
    them anywhere and half around a few), from several starts, and then goes on with all rows from
    the best maximum it found there, unless the given start is better. Where the likelihood has
    several maxima it may so end at another one than a search on all rows alone; ``n_restarts``
    looks at more of them.

    Beyond 2,000 rows "auto" learns by the bound, with 128 or 256 landmarks (up to 1,024 if the mean
    is that of landmarks too). Where those are too few, it learns from the whole matrix of 2,000
    rows, and then from that of all rows, up to 4,000; beyond, from the sum of the likelihoods of
    parts of all rows: each has at most 2,000 rows, close to each other. Iterations do not converge
    where there is little noise; up to 25,000 rows the posterior then is exact.

    A weight of 2 in `fit` is a row repeated, in the posterior and in the likelihood; a row of
    weight 0 is left out.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian Processes for Machine Learning. MIT
       Press.
    .. [2] M. K. Titsias (2009). Variational learning of inducing variables in sparse Gaussian
       processes. AISTATS.
    .. [3] D. R. Burt, C. E. Rasmussen, M. van der Wilk (2020). Convergence of sparse variational
       inference in Gaussian processes regression. JMLR 21.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X).ravel() + 0.1 * np.cos(37 * X).ravel()
    >>> gp = mc.GaussianProcessRegressor(1.0 * mc.RBF(length_scale=1.0)).fit(X, y)
    >>> mean, std = gp.predict([[np.pi / 2], [60.0]], return_std=True)
    >>> mean.round(1), bool(std[0] < 0.1 < std[1])
    (array([1., 0.]), True)
    >>> round(float(np.sqrt(gp.noise_)), 1)
    0.1
    """

    noise_: Any
    y_scale_: Any
    solver_: Any
    search_solver_: Any
    lower_bound_: float
    upper_bound_: float
    trace_error_: float
    residual_: float
    residual_history_: NDArray[Any]
    preconditioner_error_: float
    feature_map_: Any
    kernel_error_: float
    jitter_: float
    rows_: NDArray[np.intp]
    _rows_seen: int
    _posterior: ExactPosterior | FeaturePosterior
    _scaling: Scaling
    _for_blocks = (
        f"{FROM_SOME_ROWS}, and then all to KernelRidge(gp.kernel_, alpha=gp.noise_ / "
        "gp.y_scale_**2), which takes blocks and has much the same mean"
    )

    def __init__(
        self,
        kernel: KernelLike = None,
        noise: float | str | Fixed | Bounded | ArrayLike = "learn",
        *,
        criterion: Literal["marginal_likelihood", "loo"] = "marginal_likelihood",
        mean: Literal["constant", "sample", "zero"] = "constant",
        normalize_y: bool = True,
        learn: bool = True,
        n_restarts: int = 0,
        max_iter: int = 200,
        random_state: Any = None,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(
            kernel,
            learn=learn,
            n_restarts=n_restarts,
            max_iter=max_iter,
            random_state=random_state,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
        )
        self.noise = noise
        self.criterion = criterion
        self.mean = mean
        self.normalize_y = normalize_y
        self.solver = solver

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyper-parameters and condition on the data.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,) or (n, n_targets), or str
            Targets, or the name of their column in a data frame. Several share kernel and noise,
            each with a scale of its own. Targets of shape (n, 1) have predictions of shape (m, 1).
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            data, scaling, given = self._prepare(X, y, sample_weight)
            free = self.learn and len(data.theta) > 0
            learns = free and bool(data.targets.any())
            plan = planned(
                type(self).__name__,
                data,
                self.solver,
                learns=learns,
                criterion=self.criterion,
                seed=self.random_state,
                landmarks=given,
            )
            self.solver_, self.search_solver_ = plan.solver, plan.search
            exactly = plan.solver.is_dense and plan.search.is_dense
            fitted = self._fit_exactly if exactly else self._fit_on_features
            with self._computing():
                optimum = fitted(X, y, data, scaling, plan, learns)
        constant = _CONSTANT if free and not learns else ""
        warning = self._posterior.warning
        if hasattr(self, "lower_bound_"):
            warning = warning or _loose_bound(self, len(data.points))
        warn_of(type(self).__name__, data.space, optimum, constant, warning)
        return self

    def update(self, X: Any, y: ArrayLike, noise: ArrayLike | None = None) -> Self:
        """Add rows at the hyper-parameters learned before, in O(n^2) for each.

        Kernel, noise, landmarks, and the scale of the targets stay what they are, as does a mean
        of the sample; the rest is what a fit of all rows would give. Where that needs jitter, all
        rows are factorised again. With landmarks a row costs O(m^2); with features that is followed
        by a pass over all rows, whose coefficients change.

        Parameters
        ----------
        X : array-like, data frame or sequence
            The new rows, in the kind of container that `fit` was given.
        y : array-like of shape (m,) or (m, n_targets)
            Their targets.
        noise : array-like of shape (m,), optional
            Their variances of noise, if `fit` was given known variances.

        Returns
        -------
        self
            The estimator, which now has n + m points.
        """
        check_is_fitted(self, "dual_coef_")
        self._require_vectors("update")
        points = self._validate_points(self.kernel_, X, reset=False)
        targets = self._validate_targets(y, len(points)).astype(np.float64)
        if self.dual_coef_.ndim == 1 and targets.shape[1:] == (1,):
            targets = targets[:, 0]
        if targets.shape[1:] != self.dual_coef_.shape[1:]:
            raise DataError(
                f"{type(self).__name__}.update: y has shape {targets.shape}, but fit was given "
                f"{self._posterior.data.targets.shape[1]} target(s); pass as many."
            )
        checks.require_target_range(type(self).__name__, np.abs(targets).max(axis=0))
        known = self._posterior.data
        factors = known.noise.of_new_rows(self, noise, len(points), self._scaling.squares)
        try:
            everything = Points.concatenate([known.points, points])
        except DataError as error:
            raise DataError(f"{type(self).__name__}.update: {error}") from None
        with self._computing():
            standard = self._scaling.standardised(targets)
            posterior = self._posterior.extended(everything, standard, factors)
        for name in _OF_ROWS:
            self.__dict__.pop(name, None)
        before = self.jitter_
        self.__dict__.update(posterior.attributes(self._scaling))
        new = np.arange(self._rows_seen, self._rows_seen + len(points))
        self._rows_seen += len(new)
        if self.points_ is posterior.data.points:  # and not landmarks, which stay as they are
            self.rows_ = np.concatenate([self.rows_, new])
        if self.jitter_ > before:
            warn(f"{type(self).__name__}.update: {posterior.warning}.", NumericalWarning)
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Predict the mean of the function, and how sure that is.

        Before `fit` this is the prior: mean 0, and the deviations of the kernel as it was given.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.
        return_std : bool, default=False
            Whether to return the standard deviation at every row too.
        return_cov : bool, default=False
            Whether to return the covariance of all rows too.
        include_noise : bool, default=False
            Whether standard deviation and covariance are those of new targets, which have noise,
            and not of the function. A `White` part of the kernel counts as part of the function.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
            The mean.
        std : ndarray of shape (m,) or (m, n_targets)
            Only if `return_std`.
        cov : ndarray of shape (m, m) or (m, m, n_targets)
            Only if `return_cov`.
        """
        if return_std and return_cov:
            raise ParameterError(
                f"{type(self).__name__}.predict: return_std and return_cov are both True; the "
                "standard deviation is the root of the covariance's diagonal, so ask for one."
            )
        if not hasattr(self, "dual_coef_"):
            return self._predict_prior(X, return_std, return_cov, include_noise)
        points = self._validate_points(self.kernel_, X, reset=False)
        mean = self._values_at(points).astype(np.float64, copy=False)
        if not (return_std or return_cov):
            return mean
        self._require_vectors("predict(return_std=True)")
        noise = self._posterior.data.noise.of_predictions(self) if include_noise else 0.0
        if return_cov:
            with single_blas():
                covariance = self._posterior.covariance(points).matrix
            covariance[np.diag_indices_from(covariance)] += noise
            return mean, self._scaling.spread(covariance, 2)
        with single_blas():
            variance = self._posterior.variance(points) + noise
        return mean, self._scaling.spread(np.sqrt(variance), 1)

    def _predict_prior(
        self, X: Any, return_std: bool, return_cov: bool, include_noise: bool
    ) -> Any:
        """The prior at rows of X, of a kernel that takes its length-scales from them."""
        given, white = self._kernel_and_white()
        kernel = self._kernel_or_default(given, X)
        points = validated(kernel, X, owner=self)
        kernel, mean = kernel.resolve(points), np.zeros(len(points))
        noise = 0.0
        if include_noise:
            variance = self.noise if white is None else white
            noise = Noise.read(self, variance, len(points), np.ones(1)).of_predictions(self)
        if return_cov:
            require_covariance(len(points))
            return mean, kernel(points).astype(np.float64) + noise * np.eye(len(points))
        return (mean, np.sqrt(kernel.diag(points) + noise)) if return_std else mean

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        of: Literal["observations", "function"] = "observations",
    ) -> Array:
        r"""Intervals that hold new targets with a stated probability.

        They are :math:`\mu(x) \pm z\, \sigma(x)`, with the mean and the deviation of `predict` and
        the normal quantile z of (1 + coverage) / 2. Kernel and noise count as known.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.
        coverage : float, default=0.9
            The probability, strictly between 0 and 1.
        of : {"observations", "function"}, default="observations"
            Whether the intervals hold new targets, which have noise, or the function alone.

        Returns
        -------
        ndarray of shape (m, 2) or (m, 2, n_targets)
            The lower and the upper ends.
        """
        owner = f"{type(self).__name__}.predict_interval"
        coverage = checked_coverage(owner, coverage)
        checks.require_choice(owner, "of", of, ("observations", "function"))
        check_is_fitted(self, "dual_coef_")
        if of == "observations" and self._posterior.data.noise.factors is not None:
            raise ParameterError(
                f"{owner}: the noise is known at the training rows only, and new targets have "
                'their own; pass of="function", and add the variances of the new rows.'
            )
        mean, std = self.predict(X, return_std=True, include_noise=of == "observations")
        half = ndtri((1 + coverage) / 2) * std
        ends: Array = np.stack([mean - half, mean + half], axis=1)
        return ends

    @property
    def _target_maps(self) -> TargetMaps | None:
        if not isinstance(self._posterior, ExactPosterior):
            return None
        with single_blas():
            return self._posterior.gaussian.target_maps()

    def _values_at(self, points: Points) -> Array:
        """By explicit features where the posterior has them: that is the shorter sum."""
        if not isinstance(self._posterior, ExplicitPosterior):
            return super()._values_at(points)
        return self._scaling.in_units_of_y(self._posterior.mean(points))

    def _similarities(self) -> Callable[[Points], Array]:
        posterior = self._posterior
        if isinstance(posterior, ExplicitPosterior) and self.solver_.is_approximate:
            return posterior.similarities(type(self).__name__)
        return super()._similarities()

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions, and evaluate them at the rows of X.

        Before `fit` they are drawn from the prior, after it from the posterior: their mean and
        covariance are those of `predict`. With features, coefficients of these are drawn.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        n_samples : int, default=1
            How many functions.
        random_state : int, RandomState or None, default=None
            The source of randomness.

        Returns
        -------
        ndarray of shape (m, n_samples) or (m, n_targets, n_samples)
            One function in each column, without noise.
        """
        checks.require_count(f"{type(self).__name__}.sample_y", "n_samples", n_samples, example=5)
        rng = check_random_state(random_state)
        if not hasattr(self, "dual_coef_"):
            kernel = self._kernel_or_default(self._kernel_and_white()[0], X)
            points = validated(kernel, X, owner=self)
            with single_blas():
                return prior_draws(kernel.resolve(points), points, n_samples, rng)
        self._require_vectors("sample_y")
        points = self._validate_points(self.kernel_, X, reset=False)
        with single_blas():
            draws = self._posterior.draws(points, n_samples, rng)
        paths: Array = draws * self._scaling.scale[:, None] + self._scaling.mean[:, None]
        return self._scaling.shaped(paths)

    @cached_property
    def loo_predictions_(self) -> NormalPredictions:
        """Mean and variance of each target given all others."""
        check_is_fitted(self, "dual_coef_")
        with single_blas():
            residuals, variances = self._posterior.leave_one_out()
        mean = self._scaling.in_units_of_y(self._posterior.data.targets - residuals)
        return NormalPredictions(mean, self._scaling.spread(variances, 2))

    @cached_property
    def loo_log_density_(self) -> float:
        """The log density of all targets, each given the others."""
        check_is_fitted(self, "dual_coef_")
        with single_blas():
            residuals, variances = self._posterior.leave_one_out()
        terms = residuals**2 / variances[:, None] + np.log(2 * np.pi * variances)[:, None]
        return -0.5 * float(terms.sum()) - self._scaling.log_volume(len(residuals))

    def _prepare(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[ExactObjective, Scaling, Landmarks | None]:
        """Validate the data, resolve the kernel, standardise the targets, read given landmarks."""
        given, white = self._kernel_and_white()
        kernel = self._kernel_or_default(given, X)
        if not isinstance(X, np.ndarray):
            X = self._in_one_piece(X, y)
        points = everything = self._validate_points(kernel, X, reset=True)
        targets = self._validate_targets(y, len(points)).astype(np.float64)
        weights = None
        if sample_weight is not None:
            weights = self._validate_copies(sample_weight, targets)
        checks.require_target_range(type(self).__name__, np.abs(targets).max(axis=0))
        scaling = Scaling.of(targets, weights, self.normalize_y, self.mean != "zero")
        if white is None:
            noise = Noise.read(self, self.noise, len(points), scaling.squares)
        else:  # in units of the standardised targets, as all of the kernel is
            noise = Noise.read(self, white, len(points), np.ones(1))
        self.rows_, self._rows_seen = np.arange(len(points)), len(points)
        if weights is not None:
            self.rows_ = np.flatnonzero(weights)
            noise.require_some(self)
            if len(self.rows_) < len(points):
                points, targets = points[self.rows_], targets[self.rows_]
            noise = replace(noise, weights=weights).at_rows(self.rows_)
        kernel = kernel.resolve(points, noise.weights)
        landmarks, how = None, getattr(self.solver, "landmarks", "auto")
        if not isinstance(how, str):  # the user's points, or numbers of any rows
            everything = as_float64(kernel, everything)
            landmarks = select_points(type(self).__name__, kernel, everything, how)
        standard = scaling.standardised(targets)
        data = ExactObjective(kernel, points, standard, noise, self.mean == "constant")
        return data, scaling, landmarks

    def _kernel_and_white(self) -> tuple[Any, Fixed | Bounded | None]:
        """The kernel that was given, less a `WhiteKernel` of scikit-learn that is the noise.

        Data do not distinguish two noises. One given beside the kernel stands for alpha.
        """
        is_given = not (isinstance(self.noise, str) and self.noise == "learn")
        is_own = self.kernel is None or isinstance(self.kernel, Kernel)
        if is_given or is_own or not is_scikit_learns(self.kernel):
            return self.kernel, None
        return without_white(self.kernel)

    def _forecast_for(self, X: Any, y: ArrayLike | None) -> Forecast:
        """The cost of each solver; for one target, if none are given."""
        self._check_parameters()
        if y is None:
            kernel = self._kernel_or_default(self._kernel_and_white()[0], X)
            y = np.ones(len(self._validate_points(kernel, X, reset=True)))
        data, _, _ = self._prepare(X, y, None)
        learns = self.learn and len(data.theta) > 0
        given = None if self.solver == "auto" else as_solver(self.solver)
        return forecast(data, learns=learns, criterion=self.criterion, given=given)

    def _fit_exactly(
        self, X: Any, y: Any, data: ExactObjective, scaling: Scaling, plan: FitPlan, learns: bool
    ) -> Optimum:
        """Fit by the whole matrix throughout."""
        if not plan.fits or data.kernel.is_psd is not True:
            _require_valid(self, data.kernel, data.points)
        by_spectrum = plan.search.eigenvectors and self.criterion == "marginal_likelihood"
        search = None
        if learns and by_spectrum and data.noise.learned and len(data.theta) == 1:
            search = self._search(data, NoiseObjective.of(data).value_and_gradient)
        elif learns:
            objective = partial(data.value_and_gradient, criterion=self.criterion)
            search = self._search(data, objective, subsample=data.subsample(self.criterion))

        def attributes(theta: Array) -> dict[str, Any]:
            return ExactPosterior.at(data, theta).attributes(scaling)

        optimum = self._learn(X, y, data, search, attributes)
        if self.kernel_.is_psd is not True:
            _require_valid(self, self.kernel_, data.points)
        return optimum

    def _fit_on_features(
        self, X: Any, y: Any, data: ExactObjective, scaling: Scaling, plan: FitPlan, learns: bool
    ) -> Optimum:
        """Learn hyper-parameters by the bound or by features, and condition as planned."""
        fit = FeatureFit(type(self).__name__, data, plan, scaling, self.rows_)
        search = None
        if learns:
            search = partial(
                fit.search.maximise,
                n_restarts=self.n_restarts,
                random_state=self.random_state,
                max_iter=self.max_iter,
            )
        optimum = self._learn(X, y, data, search, fit.after_search, fit.during_search)
        if isinstance(self._posterior, IteratedPosterior):
            self.converged_ = optimum.converged and not self._posterior.answer.warning
        return optimum

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # the prior can be asked for
        return tags

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        checks.require_choice(owner, "criterion", self.criterion, CRITERIA)
        checks.require_choice(owner, "mean", self.mean, ("constant", "sample", "zero"))
        require_solver(owner, self.solver)
        checks.require_flags(self, "normalize_y")
        self._check_learning()
        asks = isinstance(self.noise, str) and self.noise == "learn"
        if asks and not self.learn and self._kernel_and_white()[1] is None:
            raise ParameterError(
                f'{owner}: noise = "learn" but learn = False; pass a number as noise.'
            )


def _require_valid(owner: object, kernel: Kernel, points: Points) -> None:
    """Refuse a Gram matrix that is too large, not finite or not positive semi-definite."""
    gram = gram_matrix(owner, kernel, points, _MATRICES)
    require_positive(owner, kernel, gram, NOISE)


def _loose_bound(model: GaussianProcessRegressor, n: int) -> str:
    """A clause, if the bound that was maximised is far below the likelihood."""
    if not isinstance(model._posterior, ExactPosterior):
        return ""
    gap = model.log_marginal_likelihood_ - model.lower_bound_
    if gap <= _LOOSE * n:
        return ""
    return (
        f"kernel and noise were learned by a bound {gap:.3g} nats below the likelihood, so "
        "that they may be far from their best: the landmarks of the search are too few for "
        "functions that vary so fast. Pass solver=mercer.solvers.Cholesky() to learn from the "
        "likelihood itself"
    )
