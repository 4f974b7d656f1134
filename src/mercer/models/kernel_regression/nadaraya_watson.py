"""Kernel regression by local means and local lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.estimator.base import shown, tagged_kernel
from mercer.estimator.iterative import IterativeEstimator, Report, with_callbacks
from mercer.exceptions import (
    DataError,
    MercerError,
    NumericalWarning,
    ParameterError,
    as_data_errors,
    warn,
)
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points, as_points
from mercer.kernels.stationary import RBF
from mercer.kernels.vector import unequal_columns
from mercer.models.explanation import ExplainedModel, Positions, Terms
from mercer.models.kernel_regression.local_fits import Coordinates, Smoother, negative_values
from mercer.models.regressor import KernelRegressor
from mercer.parallel import cached_property
from mercer.rows.left_out import LeftOut, left_out
from mercer.rows.rows import InMemory, RowBlock
from mercer.sampling import spread
from mercer.solvers.likelihood.maximise import maximise

Watch = Callable[[Kernel, float, int], bool]
"""Takes a kernel, its error and the number of steps, and returns whether to stop."""

# Logarithms of the factors of the length-scales on the grid.
_SHIFTS = np.log(2.0) * np.arange(-5, 6)
# Bounds of L-BFGS about its start, in logarithms of parameters.
_RANGE = np.log(1e4)
# Steps of L-BFGS.
_MAX_ITER = 100
# Rows whose kernel values are checked for negative ones before fitting.
_SAMPLE = 1000


class NadarayaWatson(ExplainedModel, IterativeEstimator, KernelRegressor):
    r"""Kernel regression: a local mean, or a local line, of the targets near a point.

    With ``degree=0`` the classical estimator of Nadaraya and Watson,

    .. math:: f(x) = \frac{\sum_i w_i\, k(x, x_i)\, y_i}{\sum_i w_i\, k(x, x_i)} ,

    with ``degree=1`` the value at x of the line (plane) through the targets that has the least sum
    of w_i k(x, x_i) times squared residual. A line has no bias at the border of the data, and
    reproduces straight lines.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        A kernel without negative values; by default ``RBF(length_scale="scale")``, of standardised
        columns if their spreads differ more than 30 times, or the `table_kernel` of a data frame
        with other columns than numbers. Its length-scale is the bandwidth. It says what X may be;
        for lines the columns of X have to be numbers.
    degree : {0, 1}, default=0
        Local means or local lines.
    bandwidth : {"loo"} or None, default="loo"
        "loo" finds the kernel's free parameters, such as one length-scale for each column, that
        have the least mean squared leave-one-out error: the best of eleven bandwidths, from 1/32 to
        32 times what is given, then L-BFGS. None takes the kernel as it is.
    gamma : float or str, default="scale"
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The training points, without rows of weight zero.
    rows_ : ndarray of shape (n,)
        The rows of X that they are.
    targets_ : ndarray of shape (n,) or (n, n_targets)
        Their targets.
    loo_residuals_ : ndarray of shape (n,) or (n, n_targets)
        y_i minus the prediction for x_i from the rows that differ from it. Computed when first
        asked for.
    loo_error_ : float
        Their (weighted) mean square, averaged over targets. Without a search it is computed when
        first asked for.
    n_iter_ : int
        Steps of L-BFGS. Only with ``bandwidth="loo"``.
    converged_ : bool
        Whether the search came to an end. Only with ``bandwidth="loo"``.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    KernelRidge : Minimises squared errors and the norm of the function.

    Notes
    -----
    Leaving a row out only takes its own weight out of the sums, so that all leave-one-out
    predictions cost one kernel matrix. Far from the data, where all kernel values underflow, the
    prediction is its limit: the target of the nearest point, found with longer length-scales.
    Where these do not help (a string that shares nothing with any other), it is the mean of all
    targets. Lines there are constants.

    A row is left out together with all rows that are equal to it: a row that its copies predict
    would make the shortest bandwidth seem best.

    References
    ----------
    .. [1] E. A. Nadaraya (1964). On estimating regression. Theory of Probability and its
       Applications 9(1).
    .. [2] G. S. Watson (1964). Smooth regression analysis. Sankhya A 26(4).
    .. [3] J. Fan, I. Gijbels (1996). Local polynomial modelling and its applications. Chapman &
       Hall.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X).ravel()
    >>> model = mc.NadarayaWatson(degree=1).fit(X, y)
    >>> model.predict([[np.pi / 2]]).round(2)
    array([1.])
    >>> straight = mc.NadarayaWatson(mc.RBF(), degree=1, bandwidth=None).fit(X, 2 * X + 1)
    >>> straight.predict([[10.0]]).round(6)
    array([[21.]])
    """

    n_iter_: int
    rows_: Positions
    targets_: Array

    _formula = "s_i(x) y_i"
    _kernel_arguments = ("gamma",)  # the degree here is that of the local function

    def __init__(
        self,
        kernel: KernelLike = None,
        *,
        degree: Literal[0, 1] = 0,
        bandwidth: Literal["loo"] | None = "loo",
        gamma: float | str = "scale",
    ) -> None:
        super().__init__(kernel, gamma=gamma)
        self.degree = degree
        self.bandwidth = bandwidth

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.degree == 1:
            tags.input_tags.sparse = False
            tags.input_tags.string = False
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Store the rows, and find the bandwidth.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,) or (n, n_targets), or str
            Targets, or the name of their column in a data frame.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows; 0 removes a row.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            smoother = self._prepare(X, y, sample_weight)
            if self.bandwidth == "loo":
                with self._iterations(X, y, len(_SHIFTS) + 1 + _MAX_ITER) as report:
                    self._search(smoother, report)
            else:
                self.__dict__.update(self._fitted(smoother))
        return self

    def _function_values(self, X: Any) -> Array:
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        dtype = self.kernel_.gram(points, self.points_).dtype
        return self._shaped(self._smoother.values(points)).astype(dtype, copy=False)

    @property
    def _n_functions(self) -> int:
        return int(self._smoother.targets.shape[1])

    def _terms(self, points: Points, functions: Positions) -> tuple[Terms, Array]:
        return self._blocks_of_terms(points, functions), np.zeros(len(points))

    def _blocks_of_terms(self, points: Points, functions: Positions) -> Terms:
        targets, start = self._smoother.targets.T, 0
        for kernel_values, weights in self._smoother.weights_of_targets(points):
            end = start + len(weights)
            yield kernel_values, weights * targets[functions[start:end]]
            start = end

    @cached_property
    def loo_residuals_(self) -> Array:
        """Leave-one-out residuals."""
        self._require_two_rows("loo_residuals_")
        compared, out = _without_copies(self._smoother)
        return self._shaped(out.residuals(compared.loo_residuals(), self._smoother.targets))

    @cached_property
    def loo_error_(self) -> float:
        """Mean squared leave-one-out residual."""
        self._require_two_rows("loo_error_")
        compared, out = _without_copies(self._smoother)
        return compared.loo_error() + float(np.mean(out.scatter))

    def _require_two_rows(self, name: str) -> None:
        check_is_fitted(self)
        if len(self.points_) < 2:
            raise AttributeError(f"{name} needs at least two rows")

    def _default_kernel(self) -> Kernel:
        return RBF(length_scale="scale")  # the bandwidth is one number to find

    def _default_kernel_for(self, X: Any) -> Kernel:
        kernel = super()._default_kernel_for(X)
        try:
            unequal = X is not None and unequal_columns(kernel, as_points(X, type(self).__name__))
        except MercerError:  # which reading the data will raise again
            return kernel
        return kernel.standardized() if unequal else kernel

    def _prepare(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Smoother:
        X = self._in_one_piece(X, y)
        kernel = self._kernel_or_default(self.kernel, X)
        points = self._validate_points(kernel, X, reset=True)
        targets = self._target_columns(y, len(points)).astype(float)
        weights = self._validate_weights(sample_weight, targets)
        kernel = kernel.resolve(points, weights)
        self.rows_ = np.arange(len(points))
        if weights is None:
            weights = np.ones(len(points))
        if not weights.all():
            kept = np.flatnonzero(weights)
            points, targets, weights = points[kept].detached(), targets[kept], weights[kept]
            self.rows_ = kept
        with as_data_errors(type(self).__name__):
            coordinates = Coordinates.from_points(points) if self.degree == 1 else None
        smoother = Smoother(kernel, points, targets, weights, coordinates)
        self._check_values(smoother)
        return smoother

    def _check_values(self, smoother: Smoother) -> None:
        """Refuse kernel values, of a sample of the rows, that are negative or not finite."""
        n = len(smoother.points)
        sample = spread(n, _SAMPLE)
        block = smoother.kernel.gram(smoother.points)[sample, sample]
        if not np.isfinite(block).all():
            raise DataError(
                f"NadarayaWatson: {shown(smoother.kernel)} gives NaN or infinity; scale the data."
            )
        if (block < 0).any():
            raise negative_values(smoother.kernel)

    def _search(self, smoother: Smoother, report: Report) -> None:
        """Minimise the leave-one-out error over common factors, then in all parameters."""
        self._check_searchable(smoother)
        # The tolerances of L-BFGS are for targets of standard deviation 1.
        unit = float(smoother.targets.std()) or 1.0
        compared, out = _without_copies(smoother)
        scaled = replace(compared, targets=compared.targets / unit)
        scatter = float(np.mean(out.scatter))

        stopped = False

        def watch(kernel: Kernel, error: float, n_iter: int) -> bool:
            nonlocal stopped
            best = replace(smoother, kernel=kernel)
            stopped = report(partial(self._searched, best, error * unit**2 + scatter, n_iter))
            return stopped

        def objective(theta: Array) -> tuple[float, Array]:
            value, slope = replace(scaled, kernel=shifted.with_theta(theta)).loo_gradient()
            return -value, -slope

        shifted, error = _best_shift(scaled, watch)
        kernel, n_iter = shifted, 0
        if not stopped:
            theta, bounds = shifted.theta, shifted.theta_bounds
            optimum = maximise(
                objective,
                theta,
                np.clip(bounds, theta[:, None] - _RANGE, theta[:, None] + _RANGE),
                max_iter=_MAX_ITER,
                report=lambda best: watch(shifted.with_theta(best.theta), -best.value, best.n_iter),
            )
            kernel, error, n_iter = kernel.with_theta(optimum.theta), -optimum.value, optimum.n_iter
        best = replace(smoother, kernel=kernel)
        self.__dict__.update(self._searched(best, error * unit**2 + scatter, n_iter))
        self.converged_ = n_iter < _MAX_ITER and not stopped
        if n_iter >= _MAX_ITER:
            warn(
                f"NadarayaWatson: the bandwidth is not final after {_MAX_ITER} steps; give the "
                "kernel fewer free parameters (mercer.Fixed), or start nearer.",
                NumericalWarning,
            )

    def _searched(self, smoother: Smoother, error: float, n_iter: int) -> dict[str, Any]:
        """The fitted attributes at a state of the search."""
        searched = {"loo_error_": error, "n_iter_": n_iter, "converged_": False}
        return self._fitted(smoother) | searched

    def _check_searchable(self, smoother: Smoother) -> None:
        if len(smoother.points) < 2:
            raise DataError(
                "NadarayaWatson: a bandwidth by leaving rows out needs at least two rows, got 1 "
                "sample; pass bandwidth=None."
            )
        if not len(smoother.kernel.theta):
            raise ParameterError(
                f'NadarayaWatson: bandwidth = "loo", but {shown(smoother.kernel)} has no free '
                "parameter; pass bandwidth=None, or a kernel with a length_scale."
            )

    def _fitted(self, smoother: Smoother) -> dict[str, Any]:
        return {
            "kernel_": smoother.kernel,
            "points_": smoother.points,
            "targets_": self._shaped(smoother.targets),
            "_smoother": smoother,
        }

    def _check_parameters(self) -> None:
        if isinstance(self.degree, bool) or np.ndim(self.degree) or self.degree not in (0, 1):
            raise ParameterError(
                f"NadarayaWatson: degree = {self.degree!r} is neither 0 nor 1; pass 0 for local "
                "means or 1 for local lines."
            )
        bandwidth: Any = self.bandwidth
        if bandwidth is not None and not (isinstance(bandwidth, str) and bandwidth == "loo"):
            raise ParameterError(
                f'NadarayaWatson: bandwidth = {self.bandwidth!r} is neither "loo" nor None; to use '
                "a number, pass it as the kernel's length_scale, with bandwidth=None."
            )
        kernel = tagged_kernel(self)
        if self.degree and isinstance(kernel, Kernel) and kernel.input_tags()["pairwise"]:
            raise ParameterError(
                "NadarayaWatson: degree = 1 needs the coordinates of the points, which a given "
                "matrix does not have; use degree=0."
            )


def _without_copies(smoother: Smoother) -> tuple[Smoother, LeftOut]:
    """The smoother of the rows without copies, which are left out together."""
    block = RowBlock(smoother.points, smoother.targets, smoother.weights)
    out = left_out(smoother.kernel, InMemory(block))
    if out is None:
        return smoother, LeftOut(block)
    part, coordinates = out.part, smoother.coordinates
    if coordinates is not None:
        coordinates = Coordinates.from_points(part.points)
    assert part.weights is not None
    return Smoother(smoother.kernel, part.points, part.targets, part.weights, coordinates), out


def _best_shift(smoother: Smoother, watch: Watch) -> tuple[Kernel, float]:
    """The kernel with the best factor of its length-scales, and its error."""
    kernel = smoother.kernel
    names = [name.split("__")[-1].split("[")[0] for name in kernel.theta_names]
    moves = np.array([name == "length_scale" for name in names])
    low, high = kernel.theta_bounds.T
    best, least = kernel, np.inf
    # From factor 1 outwards, so that an early stop leaves a kernel near the given one.
    for shift in sorted(_SHIFTS, key=abs) if moves.any() else [0.0]:
        candidate = kernel.with_theta(np.clip(kernel.theta + shift * moves, low, high))
        error = replace(smoother, kernel=candidate).loo_error()
        if error < least:
            best, least = candidate, error
        if watch(best, least, 0):
            break
    return best, least
