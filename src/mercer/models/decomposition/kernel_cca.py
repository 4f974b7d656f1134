"""Kernel canonical correlation analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, store
from mercer.exceptions import DataError, DataWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.containers import len_of
from mercer.kernels.names import KernelLike
from mercer.models.decomposition.kernel_pca import KernelPCA

# Penalties that "cv" compares, in units of the variance of all rows in feature space.
_ALPHAS = 10.0 ** np.arange(-6.0, 0.5)
# Folds of "cv".
_FOLDS = 5


class KernelCCA(KernelEstimator):
    r"""Canonical correlations in the feature spaces of two kernels.

    The functions f of X and g of Y with the largest correlation on the rows, with penalties on
    their norms:

    .. math:: \max_{f, g} \operatorname{cov}(f, g) \quad\text{with}\quad
       \operatorname{var} f + \alpha s_x \|f\|^2 = \operatorname{var} g + \alpha s_y \|g\|^2 = 1 ,

    where s is the variance of all rows in feature space. Without penalties, functions of a rich
    kernel have correlation 1 with anything. The functions are sums over the leading principal
    components of each side.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        The kernel of X; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data
        frame with other columns than numbers or with missing values.
    kernel_y : Kernel, str or callable, optional
        The kernel of Y; by default as for X.
    n_components : int, default=2
        The number of pairs of functions.
    alpha : float or "cv", default="cv"
        The penalty; "cv" takes the one with the largest correlations at rows that are left out, by
        five folds.
    n_features : int, default=200
        The number of principal components of each side.
    random_state : int, RandomState, Generator or None, default=0
        The random numbers of principal components and folds.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_components,)
        Correlations of the pairs on the training rows.
    cv_correlations_ : ndarray of shape (n_components,)
        Correlations at rows that were left out. Only after ``alpha="cv"``.
    alpha_ : float
        The penalty used.
    n_components_ : int
        The number of pairs.
    x_pca_, y_pca_ : KernelPCA
        The principal components of each side.
    x_weights_, y_weights_ : ndarray of shape (n_features, n_components)
        The functions, as coefficients of scores.
    kernel_ : Kernel
        The kernel of X used; that of Y is ``y_pca_.kernel_``.

    References
    ----------
    .. [1] D. R. Hardoon, S. Szedmak, J. Shawe-Taylor (2004). Canonical correlation analysis: an
       overview with application to learning methods. Neural Computation 16(12).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 300)
    >>> X = np.column_stack([np.cos(angle), rng.normal(size=300)])
    >>> Y = (angle + 0.1 * rng.normal(size=300))[:, None]
    >>> model = mc.KernelCCA(n_components=1).fit(X, Y)
    >>> bool(model.cv_correlations_[0] > 0.9)
    True
    """

    correlations_: NDArray[Any]
    cv_correlations_: NDArray[Any]
    alpha_: float
    n_components_: int
    x_pca_: KernelPCA
    y_pca_: KernelPCA
    x_weights_: NDArray[Any]
    y_weights_: NDArray[Any]
    kernel_: Kernel

    def __init__(
        self,
        kernel: KernelLike = None,
        kernel_y: KernelLike = None,
        n_components: int = 2,
        *,
        alpha: float | Literal["cv"] = "cv",
        n_features: int = 200,
        random_state: Any = 0,
    ) -> None:
        store(self, locals())

    _kernel_arguments: ClassVar[tuple[str, ...]] = ()

    def fit(self, X: Any, y: Any) -> Self:
        """Find the pairs of functions.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Rows of the first side, as its kernel takes them.
        y : array-like, data frame or sequence
            Rows of the second side, as many as of the first.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            owner = type(self).__name__
            checks.require_count(owner, "n_components", self.n_components, example=2)
            checks.require_count(owner, "n_features", self.n_features, example=200)
            if self.alpha != "cv":
                checks.require_number(owner, "alpha", self.alpha, example=0.01)
            y = _as_rows(y)
            self.x_pca_ = self._side(self.kernel, X)
            self.y_pca_ = self._side(self.kernel_y, y)
            self.kernel_ = self.x_pca_.kernel_
            sides = _Sides.of(self.x_pca_, X, self.y_pca_, y, owner)
            self.alpha_ = self._best_alpha(sides) if self.alpha == "cv" else float(self.alpha)
            count = min(self.n_components, sides.x.shape[1], sides.y.shape[1])
            if count < self.n_components:
                warn(
                    f"{owner}: n_components = {self.n_components}, but one side has only {count} "
                    "directions of variance.",
                    DataWarning,
                )
            self.n_components_ = count
            self.x_weights_, self.y_weights_ = sides.weights(self.alpha_, count)
            self.correlations_ = sides.correlations(self.x_weights_, self.y_weights_)
        return self

    def _side(self, kernel: KernelLike, X: Any) -> KernelPCA:
        rows = self._in_one_piece(X, None)
        count = max(1, min(self.n_features, len_of(rows) - 1))
        return KernelPCA(kernel, count, random_state=self.random_state)._find(rows)

    def _best_alpha(self, sides: _Sides) -> float:
        """The penalty with the largest correlations at rows that are left out."""
        n = len(sides.x)
        if n < 2 * _FOLDS:
            raise DataError(
                f"{type(self).__name__}: {n} rows are too few for folds; pass alpha= a number, "
                "such as 0.1."
            )
        count = min(self.n_components, sides.x.shape[1], sides.y.shape[1])
        folds = list(KFold(_FOLDS, shuffle=True, random_state=0).split(np.empty(n)))
        scores = np.empty((len(_ALPHAS), _FOLDS, count))
        for j, (train, test) in enumerate(folds):
            fitted = sides.take(train)
            for i, alpha in enumerate(_ALPHAS):
                weights = fitted.weights(alpha, count)
                scores[i, j] = sides.take(test).correlations(*weights)
        means = scores.mean(axis=1)
        best = int(np.argmax(means.sum(axis=1)))
        self.cv_correlations_ = means[best]
        return float(_ALPHAS[best])

    def transform(self, X: Any, y: Any = None) -> Any:
        """Compute the values of the functions.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Rows of the first side.
        y : array-like, data frame or sequence, optional
            Rows of the second side.

        Returns
        -------
        ndarray of shape (n, n_components), or a pair of these
            Values of the functions of X; with y also those of Y.
        """
        check_is_fitted(self, "x_weights_")
        first = self.x_pca_.transform(X) @ self.x_weights_
        return first if y is None else (first, self.y_pca_.transform(_as_rows(y)) @ self.y_weights_)

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Fit, and compute the values of the functions at the same rows.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Rows of the first side.
        y : array-like, data frame or sequence
            Rows of the second side.

        Returns
        -------
        pair of ndarrays of shape (n, n_components)
        """
        return self.fit(X, y).transform(X, y)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean correlation of the pairs on these rows.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Rows of the first side.
        y : array-like, data frame or sequence
            Rows of the second side.

        Returns
        -------
        float
        """
        return float(np.mean(_correlations(*self.transform(X, y))))


def _as_rows(y: Any) -> Any:
    """Numbers as rows of one column."""
    numbers = getattr(getattr(y, "dtype", None), "kind", "") in "fiu" and np.ndim(y) == 1
    return np.asarray(y).reshape(-1, 1) if numbers else y


@dataclass(frozen=True, eq=False)
class _Sides:
    """Scores of both sides, in units in which the variance of all rows is 1."""

    x: Array  # (n, p)
    y: Array  # (n, q)
    x_scale: float
    y_scale: float

    @classmethod
    def of(cls, x_pca: KernelPCA, X: Any, y_pca: KernelPCA, Y: Any, owner: str) -> _Sides:
        x, y = x_pca.transform(X), y_pca.transform(Y)
        if len(x) != len(y):
            raise DataError(
                f"{owner}: X has {len(x)} rows and y has {len(y)}; pass as many of both."
            )
        scales = (_scale(pca) for pca in (x_pca, y_pca))
        return cls(x, y, *scales)

    def take(self, rows: NDArray[np.intp]) -> _Sides:
        """Some of the rows."""
        return _Sides(self.x[rows], self.y[rows], self.x_scale, self.y_scale)

    def weights(self, alpha: float, count: int) -> tuple[Array, Array]:
        """Coefficients of the functions with the largest penalised correlations."""
        n = len(self.x)
        x, y = self.x - self.x.mean(axis=0), self.y - self.y.mean(axis=0)
        a, b = _whitening(x, alpha * self.x_scale), _whitening(y, alpha * self.y_scale)
        left, _, right = np.linalg.svd(a.T @ (x.T @ y / n) @ b, full_matrices=False)
        first, second = a @ left[:, :count], b @ right[:count].T
        signs = np.sign(first[np.abs(first).argmax(axis=0), np.arange(count)])
        return first * signs, second * signs

    def correlations(self, x_weights: Array, y_weights: Array) -> Array:
        return _correlations(self.x @ x_weights, self.y @ y_weights)


def _scale(pca: KernelPCA) -> float:
    """The variance of all rows in feature space."""
    return float(pca.explained_variance_[0] / pca.explained_variance_ratio_[0])


def _whitening(scores: Array, ridge: float) -> Array:
    """A with A'(S + ridge I)A = I for the covariance S of scores."""
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    return np.asarray(vectors / np.sqrt(np.maximum(values, 0.0) + ridge))


def _correlations(first: Array, second: Array) -> Array:
    """Correlations of columns; 0 for a column without variance."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    norms = np.sqrt(np.square(first).sum(axis=0) * np.square(second).sum(axis=0))
    return np.asarray(np.sum(first * second, axis=0) / np.where(norms > 0, norms, 1.0))
