"""Kernel discriminant analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.special import log_softmax, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, shown, store
from mercer.estimator.by_blocks import BlockTransformer, by_blocks
from mercer.estimator.iterative import with_named_columns
from mercer.estimator.labels import checked_labels, class_weighted, require_two_classes
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.models.representer import ScoredClassifier
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.solvers.forecast import Forecast

# Added to variances within classes, relative to their mean: rows of a class may have equal values.
_FLOOR = 1e-9


class KernelDiscriminantAnalysis(
    ScoredClassifier, ClassNamePrefixFeaturesOutMixin, BlockTransformer, KernelEstimator
):
    r"""Discriminant analysis in the feature space of a kernel.

    Kernel ridge regression on the indicators of the classes gives one function for each class.
    Linear discriminant analysis of their values finds the directions

    .. math:: z_c(x) = \sum_i a_{ic}\, k(x, x_i) + b_c

    that separate the classes best, relative to the variance within classes. This is discriminant
    analysis with a penalty on the norms of directions [1]_. The values are leave-one-out values
    where the solver gives them, so that classes do not seem farther apart than they are for new
    rows. Rows are classified by normal distributions with these means and one covariance.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    n_components : int, optional
        The number of directions of `transform`; by default one less than there are classes.
    alpha : float or {"loo", "gcv"}, default="loo"
        The penalty, as in `KernelRidge`; by default chosen by leave-one-out.
    priors : sequence of float, optional
        Probabilities of the classes; by default their shares of the weights of rows.
    class_weight : dict or "balanced", optional
        Factors of the weights of rows, by their classes; "balanced" gives all classes the same
        weight.
    alphas, length_scales, solver
        As in `KernelRidge`.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    priors_ : ndarray of shape (n_classes,)
        Their probabilities.
    means_ : ndarray of shape (n_classes, n_directions)
        The means of the classes along all directions, in which the variance within classes is 1.
    explained_variance_ratio_ : ndarray of shape (n_directions,)
        Shares of the variance between classes.
    ridge_ : KernelRidge
        The regression on indicators, with its `alpha_` and `kernel_`.
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The points that carry coefficients.
    dual_coef_ : ndarray of shape (m, n_directions)
        The coefficients a.
    intercept_ : ndarray of shape (n_directions,)
        The constants b.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    References
    ----------
    .. [1] T. Hastie, A. Buja, R. Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1).
    .. [2] S. Mika, G. Raetsch, J. Weston, B. Schoelkopf, K.-R. Mueller (1999). Fisher discriminant
       analysis with kernels. IEEE Neural Networks for Signal Processing.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = mc.KernelDiscriminantAnalysis().fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95), model.transform(X).shape
    (True, (178, 2))
    """

    classes_: NDArray[Any]
    priors_: Array
    means_: Array
    explained_variance_ratio_: Array
    ridge_: KernelRidge

    def __init__(
        self,
        kernel: KernelLike = None,
        n_components: int | None = None,
        *,
        alpha: float | Literal["loo", "gcv"] = "loo",
        priors: Sequence[float] | None = None,
        class_weight: Any = None,
        alphas: ArrayLike | None = None,
        length_scales: Any = None,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    @with_named_columns
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the directions and the means of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence or Points
            Data of the kind the kernel takes.
        y : array-like of shape (n,), or str
            Labels of two or more classes, or the name of their column in a data frame.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            owner = type(self).__name__
            kernel = self._kernel_or_default(self.kernel, X)
            points = self._validate_points(kernel, self._in_one_piece(X, y), reset=True)
            labels = checked_labels(owner, y, len(points))
            given = self._validate_weights(sample_weight, np.empty(len(points)))
            _, given = class_weighted(owner, self.class_weight, labels, given)
            weights = np.ones(len(points)) if given is None else given
            self.classes_ = np.unique(labels[weights > 0])
            require_two_classes(owner, self.classes_)
            self._check_components()
            self.priors_ = self._checked_priors(labels, weights)
            indicators = (labels[:, None] == self.classes_).astype(np.float64)
            self.ridge_ = self._ridge(kernel).fit(points, indicators, given)
            values = _values(self.ridge_, points, indicators)
            directions = Directions.of(values, indicators * weights[:, None])
            self._directions = directions
            self.means_ = directions.means
            self.explained_variance_ratio_ = directions.shares
        return self

    def _ridge(self, kernel: Kernel) -> KernelRidge:
        """The regression, before it is fitted."""
        return KernelRidge(
            kernel,
            self.alpha,
            alphas=self.alphas,
            length_scales=self.length_scales,
            solver=self.solver,
        )

    def _forecast_for(self, X: Any, y: Any = None) -> Forecast:
        """The cost of the regression, which is that of the fit."""
        return self._ridge(self._kernel_or_default(self.kernel, X))._forecast_for(X)

    def _check_components(self) -> None:
        owner, most = type(self).__name__, len(self.classes_) - 1
        if self.n_components is None:
            return
        checks.require_count(owner, "n_components", self.n_components, example=1)
        if self.n_components > most:
            raise ParameterError(
                f"{owner}: n_components = {self.n_components}, but {most + 1} classes have "
                f"{most} directions between them; pass at most {most}."
            )

    def _checked_priors(self, labels: NDArray[Any], weights: Array) -> Array:
        """Probabilities of the classes, as given or by the weights of their rows."""
        if self.priors is None:
            shares = np.array([weights[labels == label].sum() for label in self.classes_])
            return np.asarray(shares / shares.sum())
        priors = np.asarray(self.priors, dtype=np.float64)
        if priors.shape != self.classes_.shape or not (priors > 0).all():
            raise ParameterError(
                f"{type(self).__name__}: priors = {shown(self.priors)} are not "
                f"{len(self.classes_)} numbers > 0, one for each class; pass such a list."
            )
        return np.asarray(priors / priors.sum())

    @property
    def kernel_(self) -> Kernel:  # noqa: D102
        check_is_fitted(self, "ridge_")
        kernel: Kernel = self.ridge_.kernel_
        return kernel

    @property
    def points_(self) -> Points:  # noqa: D102
        check_is_fitted(self, "ridge_")
        points: Points = self.ridge_.points_
        return points

    @property
    def dual_coef_(self) -> Array:  # noqa: D102
        check_is_fitted(self, "ridge_")
        return np.asarray(self.ridge_.dual_coef_ @ self._directions.rotation)

    @property
    def intercept_(self) -> Array:  # noqa: D102
        check_is_fitted(self, "ridge_")
        return self._directions.place(np.asarray(self.ridge_.intercept_)[None]).ravel()

    def transform(self, X: Any) -> Array:
        """Compute the coordinates of rows along the directions between the classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n, n_components)
            The coordinates; the variance within classes is 1 along each.
        """
        return self._places(X)[:, : self._n_features_out]

    def _places(self, X: Any) -> Array:
        check_is_fitted(self, "ridge_")
        points = self._validate_points(self.kernel_, X, reset=False)
        values = np.asarray(self.ridge_.predict(points))
        return np.asarray(self._directions.place(values), dtype=values.dtype)

    @property
    def _n_features_out(self) -> int:
        return self.n_components or len(self.classes_) - 1

    def _log_joint(self, X: Any) -> Array:
        """Logarithms of prior times normal density, up to a constant of each row."""
        apart = self._places(X)[:, None] - self.means_
        return np.asarray(np.log(self.priors_) - 0.5 * np.square(apart).sum(axis=2))

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Compute logarithms of posterior probabilities up to a constant.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            For two classes the difference, positive values speak for the second.
        """
        joint = self._log_joint(X)
        return joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
            The classes.
        """
        codes = self._log_joint(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Compute posterior probabilities of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n, n_classes)
            One column for each class, in the order of ``classes_``.
        """
        return np.asarray(softmax(self._log_joint(X), axis=1))

    @by_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Compute logarithms of posterior probabilities of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n, n_classes)
            One column for each class, in the order of ``classes_``.
        """
        return np.asarray(log_softmax(self._log_joint(X), axis=1))


def _values(ridge: KernelRidge, points: Points, indicators: Array) -> Array:
    """Leave-one-out values of the functions at the training rows, or fitted values."""
    if ridge.solver_.is_dense or ridge.solver_.has_features:
        return np.asarray(indicators - ridge.loo_residuals_)
    return np.asarray(ridge.predict(points))


@dataclass(frozen=True, eq=False)
class Directions:
    """Linear discriminant analysis of function values: a centre and a rotation."""

    centre: Array  # (c,)
    rotation: Array  # (c, r): from values to coordinates with variance 1 within classes
    means: Array  # (c, r): of the classes
    shares: Array  # (r,): of the variance between classes

    @classmethod
    def of(cls, values: Array, memberships: Array) -> Directions:
        """Directions that separate classes; memberships are weights of rows in their classes."""
        masses = memberships.sum(axis=0)
        total = masses.sum()
        means = memberships.T @ values / masses[:, None]
        centre = masses @ means / total
        apart = values - memberships @ means / np.maximum(memberships.sum(axis=1), 1e-300)[:, None]
        within = (apart * memberships.sum(axis=1)[:, None]).T @ apart
        within /= max(total - len(masses), 1.0)
        between = ((means - centre) * masses[:, None]).T @ (means - centre) / total
        # Values of all classes sum to 1, so that one direction has no variance.
        count = len(masses) - 1
        floor = _FLOOR * (np.trace(within) + np.trace(between)) / len(masses)
        variances, rotation = eigh(between, within + floor * np.eye(len(masses)))
        variances, rotation = variances[::-1][:count], rotation[:, ::-1][:, :count]
        signs = np.sign(rotation[np.abs(rotation).argmax(axis=0), np.arange(count)])
        rotation = rotation * signs
        shares = np.maximum(variances, 0.0)
        return cls(centre, rotation, (means - centre) @ rotation, shares / (shares.sum() or 1.0))

    def place(self, values: Array) -> Array:
        """Coordinates of rows of values."""
        return np.asarray((values - self.centre) @ self.rotation)
