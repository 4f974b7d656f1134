"""Kernel principal component analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from mercer import checks, memory
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, store
from mercer.estimator.by_blocks import BlockTransformer
from mercer.exceptions import (
    DataError,
    NumericalWarning,
    ParameterError,
    ValidityError,
    as_data_errors,
    warn,
)
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.landmarks.selection import require_no_noise, select_points
from mercer.linalg.blocked import multiply
from mercer.linalg.eigenpairs import leading_eigenpairs
from mercer.models.decomposition.preimages import fixed_points, learned_inverse, numeric_rows
from mercer.parallel import cached_property, single_blas
from mercer.sampling import blocks, random_numbers, uniform_rows

_SOLVERS = ("auto", "dense", "truncated", "landmarks")
_PREIMAGES = ("ridge", "fixed_point")
# Rows up to which "auto" decomposes the whole matrix, and those up to which it iterates.
_DENSE_ROWS, _TRUNCATED_ROWS = 1000, 20_000
# Rows up to which an iteration stores the matrix, which takes 128 MB.
_STORED_ROWS = 4096
# Rows from which the reconstruction error is computed at most.
_SAMPLE = 1000


@dataclass(frozen=True)
class Components:
    """Directions in feature space, as functions sum_i a_i k(x, x_i) + b of points."""

    points: Points  # (m,): the points that carry coefficients
    eigenvalues: Array  # (r,): of the centred kernel matrix, descending
    dual_coef: Array  # (m, r): the coefficients of each direction
    mean_coef: Array  # (m,): the coefficients of the mean of the training rows
    means: Array  # (m,): the mean of k(x_i, x) over the training rows x
    trace: float  # of the centred kernel matrix of all rows

    @property
    def intercept(self) -> Array:
        """The constants, for which all scores have mean zero over the training rows."""
        return -self.means @ self.dual_coef

    def first(self, count: int) -> Components:
        """Some of the components, with signs for which the largest coefficients are positive."""
        dual = self.dual_coef[:, :count]
        signs = np.sign(dual[np.argmax(np.abs(dual), axis=0), np.arange(dual.shape[1])])
        return replace(self, eigenvalues=self.eigenvalues[:count], dual_coef=dual * signs)


class KernelPCA(ClassNamePrefixFeaturesOutMixin, BlockTransformer, KernelEstimator):
    r"""Principal components in the feature space of a kernel.

    The directions of largest variance are eigenvectors of the centred kernel matrix,

    .. math:: H K H\, v_c = \lambda_c v_c , \qquad H = I - \tfrac1n 1 1^\top ,

    and with :math:`a_c = v_c / \sqrt{\lambda_c}` the score of a row is the function

    .. math:: z_c(x) = \sum_i a_{ic}\, k(x, x_i) + b_c .

    New rows are centred with the means of the training rows. With the linear kernel these are the
    scores of ordinary principal components.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    n_components : int, float or None, default=None
        The number of components; or the share of the variance that they explain, such as 0.9; or
        None for all with eigenvalues above rounding error.
    solver : {"auto", "dense", "truncated", "landmarks"}
        ``"dense"`` decomposes the whole matrix. ``"truncated"`` iterates with products and computes
        the leading components alone; the matrix is stored only below 4,096 rows.
        ``"landmarks"`` takes components in the span of landmarks. ``"auto"`` takes the first up to
        1,000 rows, the second up to 20,000 rows and the third beyond.
    n_landmarks : int, optional
        The number of landmarks; by default 1,000, or 20 for each component if that is more.
    preimage : {"ridge", "fixed_point"}
        How `inverse_transform` finds rows: by kernel ridge regression from scores to rows, or, for
        RBF kernels, by the fixed point of Mika et al.
    random_state : int, RandomState, Generator or None, default=0
        The random numbers of iterations and landmarks.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred kernel matrix, descending.
    explained_variance_ : ndarray of shape (n_components,)
        The variances of the scores, ``eigenvalues_ / (n - 1)``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their shares of the variance of all rows in feature space.
    dual_coef_ : ndarray of shape (m, n_components)
        The coefficients a of the points.
    intercept_ : ndarray of shape (n_components,)
        The constants b.
    n_components_ : int
        The number of components.
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The points that carry coefficients: the training rows or the landmarks.
    solver_ : str
        The solver used.
    reconstruction_error_ : float
        The share of the variance of the columns that `inverse_transform` does not restore, over at
        most 1,000 training rows. Computed when first asked for.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    See Also
    --------
    mercer.Nystrom : Features whose inner products are the kernel, without centring.

    Notes
    -----
    The sign of a component is such that its largest coefficient is positive.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola, K.-R. Mueller (1998). Nonlinear component analysis as a kernel
       eigenvalue problem. Neural Computation 10(5).
    .. [2] S. Mika et al. (1999). Kernel PCA and de-noising in feature spaces. Advances in Neural
       Information Processing Systems 11.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    >>> pca = mc.KernelPCA(mc.RBF(0.5), n_components=2).fit(X)
    >>> scores = pca.transform(X)
    >>> scores.shape, bool(pca.explained_variance_ratio_.sum() < 1)
    ((200, 2), True)
    """

    eigenvalues_: NDArray[Any]
    explained_variance_: NDArray[Any]
    explained_variance_ratio_: NDArray[Any]
    dual_coef_: NDArray[Any]
    intercept_: NDArray[Any]
    n_components_: int
    kernel_: Kernel
    points_: Points
    solver_: str

    def __init__(
        self,
        kernel: KernelLike = None,
        n_components: int | float | None = None,
        *,
        solver: Literal["auto", "dense", "truncated", "landmarks"] = "auto",
        n_landmarks: int | None = None,
        preimage: Literal["ridge", "fixed_point"] = "ridge",
        random_state: Any = 0,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence or Points
            Data of the kind the kernel takes.
        y : object, optional
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._find(X)
        if isinstance(self.n_components, int) and self.n_components_ < self.n_components:
            warn(
                f"{type(self).__name__}: n_components = {self.n_components}, but only "
                f"{self.n_components_} directions have variance above rounding error.",
                NumericalWarning,
            )
        return self

    def _find(self, X: Any) -> Self:
        """Find the components; if there are fewer than requested, only `fit` warns of it."""
        with self._fitting():
            self._check_parameters()
            kernel = self._kernel_or_default(self.kernel, X)
            points = self._validate_points(kernel, self._in_one_piece(X, None), reset=True)
            kernel, n = kernel.resolve(points), len(points)
            self._require_components(n)
            self.solver_ = self._chosen_solver(n)
            self._keep(kernel, _FINDERS[self.solver_](self, kernel, points), n)
        return self

    def _keep(self, kernel: Kernel, components: Components, n: int) -> None:
        """Store the components that count, beyond rounding error."""
        values = components.eigenvalues
        above = values > max(n, 1) * np.finfo(np.float64).eps * max(values.max(initial=0.0), 0.0)
        count = int(np.count_nonzero(above))
        if isinstance(self.n_components, float):
            shares = np.cumsum(values[:count]) / (components.trace or 1.0)
            count = min(count, int(np.searchsorted(shares, self.n_components - 1e-12)) + 1)
        elif self.n_components is not None:
            count = min(count, self.n_components)
        if not count:
            raise DataError(
                f"{type(self).__name__}: all rows are equal for the kernel, so that there is no "
                "direction of variance; pass rows that differ, or another kernel."
            )
        self._components = components.first(count)
        self.kernel_, self.points_ = kernel, components.points
        self.n_components_ = count
        self.eigenvalues_ = self._components.eigenvalues
        self.dual_coef_, self.intercept_ = self._components.dual_coef, self._components.intercept
        self.explained_variance_ = self.eigenvalues_ / max(n - 1, 1)
        self.explained_variance_ratio_ = self.eigenvalues_ / components.trace

    def transform(self, X: Any) -> Array:
        """Compute the scores of rows.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n, n_components)
            The scores.
        """
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        return self._scores(points)

    def _scores(self, points: Points) -> Array:
        scores = np.asarray(self.kernel_.gram(points, self.points_) @ self.dual_coef_)
        scores += self.intercept_
        return scores

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Find rows with given scores, for kernels of numeric columns.

        Parameters
        ----------
        X : array-like of shape (n, n_components)
            Scores, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n, n_columns)
            Rows whose scores are near these; `reconstruction_error_` tells how near the rows are to
            training rows.
        """
        check_is_fitted(self)
        owner = type(self).__name__
        with as_data_errors(owner, "Pass scores as transform returns them."):
            scores: Array = check_array(X, dtype=np.float64)
        if scores.shape[1] != self.n_components_:
            raise DataError(
                f"{owner}: the scores have {scores.shape[1]} columns, but there are "
                f"{self.n_components_} components; pass scores as transform returns them."
            )
        with single_blas():
            start = np.asarray(self._inverse(scores))
            if self.preimage == "ridge":
                return start
            rows = numeric_rows(self.points_, owner)
            weights = scores @ self.dual_coef_.T + self._components.mean_coef
            return fixed_points(owner, self.kernel_, self.points_, rows, weights, start)

    @cached_property
    def _inverse(self) -> Callable[[Array], Array]:
        """The regression from scores to rows."""
        owner = type(self).__name__
        return learned_inverse(self._scores(self.points_), numeric_rows(self.points_, owner))

    @cached_property
    def reconstruction_error_(self) -> float:  # noqa: D102
        owner, points = type(self).__name__, self.points_
        some = uniform_rows(len(points), min(len(points), _SAMPLE), np.random.RandomState(0))
        rows = numeric_rows(points[some], owner)
        restored = self.inverse_transform(self._scores(points[some]))
        total = float(np.sum((rows - rows.mean(axis=0)) ** 2))
        return float(np.sum((rows - restored) ** 2)) / total if total else 0.0

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        checks.require_choice(owner, "solver", self.solver, _SOLVERS)
        checks.require_choice(owner, "preimage", self.preimage, _PREIMAGES)
        if self.n_landmarks is not None:
            checks.require_count(owner, "n_landmarks", self.n_landmarks, example=1000)
        share = isinstance(self.n_components, float) and 0 < self.n_components < 1
        if not (self.n_components is None or share or checks.is_count(self.n_components)):
            raise ParameterError(
                f"{owner}: n_components = {self.n_components!r} is neither a whole number >= 1 nor "
                "a share of the variance between 0 and 1; pass for example 2 or 0.9."
            )

    def _require_components(self, n: int) -> None:
        if n < 2:
            raise DataError(
                f"{type(self).__name__}: n_samples = {n}, but variance is between rows; pass at "
                "least 2 rows."
            )
        if isinstance(self.n_components, int) and self.n_components > n:
            raise DataError(
                f"{type(self).__name__}: n_components = {self.n_components}, but there are {n} "
                "rows; pass at most that many components."
            )

    def _chosen_solver(self, n: int) -> str:
        if self.solver != "auto":
            return str(self.solver)
        counted = isinstance(self.n_components, int) and 8 * self.n_components <= n
        if n <= _DENSE_ROWS or (not counted and n <= _STORED_ROWS):
            return "dense"
        return "truncated" if counted and n <= _TRUNCATED_ROWS else "landmarks"

    @property
    def _landmark_count(self) -> int:
        if self.n_landmarks is not None:
            return int(self.n_landmarks)
        return max(1000, 20 * self.n_components if isinstance(self.n_components, int) else 0)


def _dense(model: KernelPCA, kernel: Kernel, points: Points) -> Components:
    """All components, from the eigenvectors of the whole matrix."""
    owner, n = type(model).__name__, len(points)
    memory.require(24 * n * n, f"{owner}: the kernel matrix", 'use solver="landmarks"')
    matrix, means = _centred(kernel(points))
    values, vectors = eigh(matrix, overwrite_a=True)
    _require_valid(owner, values)
    return _of_all_rows(kernel, points, values[::-1], vectors[:, ::-1], means)


def _truncated(model: KernelPCA, kernel: Kernel, points: Points) -> Components:
    """The leading components, by block Lanczos iterations."""
    owner, n = type(model).__name__, len(points)
    if not isinstance(model.n_components, int):
        raise ParameterError(
            f'{owner}: solver = "truncated" computes a number of components, but n_components = '
            f'{model.n_components!r}; pass a whole number, or solver="dense".'
        )
    rng = random_numbers(model.random_state, owner)
    gram = kernel.gram(points)
    if n <= _STORED_ROWS:
        matrix, means = _centred(gram.toarray())
        product = partial(multiply, matrix)
    else:
        means = np.asarray(gram.row_sums(), dtype=np.float64) / n
        product = partial(_centred_product, gram)
    values, vectors = leading_eigenpairs(product, n, model.n_components, rng, owner=owner)
    return _of_all_rows(kernel, points, values, vectors, means)


def _landmarks(model: KernelPCA, kernel: Kernel, points: Points) -> Components:
    """The components in the span of landmarks, from the covariance of their features."""
    owner, n = type(model).__name__, len(points)
    require_no_noise(kernel, owner)
    rng = random_numbers(model.random_state, owner)
    count = min(model._landmark_count, n)
    chosen = select_points(owner, kernel, points, "rpcholesky", count, rng)
    features = LandmarkFeatures.pivoted(kernel, chosen.points)
    total, square = np.zeros(features.width), np.zeros((features.width, features.width))
    for rows in blocks(n, width=features.width):
        part = features(points[rows])
        total += part.sum(axis=0)
        square += multiply(part.T, part)
    mean = total / n
    values, vectors = eigh(square - n * np.outer(mean, mean), overwrite_a=True)
    values, vectors = values[::-1], vectors[:, ::-1]
    means = np.asarray(kernel.gram(features.points, points).row_sums(), dtype=np.float64) / n
    trace = float(np.sum(kernel.diag(points), dtype=np.float64))
    trace -= float(np.sum(kernel.gram(points).row_sums(), dtype=np.float64)) / n
    dual, mean_coef = features.to_coefficients(vectors), features.to_coefficients(mean)
    return Components(features.points, values, dual, mean_coef, means, max(trace, 0.0))


_FINDERS: dict[str, Callable[[KernelPCA, Kernel, Points], Components]] = {
    "dense": _dense,
    "truncated": _truncated,
    "landmarks": _landmarks,
}


def _of_all_rows(
    kernel: Kernel, points: Points, values: Array, vectors: Array, means: Array
) -> Components:
    """Components with coefficients of all rows, v / sqrt(lambda)."""
    n, safe = len(points), np.where(values > 0, values, np.inf)
    # Rounding mixes vectors of small eigenvalues with the constant one, which new rows would see.
    vectors = vectors - vectors.mean(axis=0)
    trace = float(np.sum(kernel.diag(points), dtype=np.float64)) - float(means.sum())
    return Components(
        points, values, vectors / np.sqrt(safe), np.full(n, 1 / n), means, max(trace, 0.0)
    )


def _centred(matrix: Array) -> tuple[Array, Array]:
    """The centred kernel matrix in double precision, and the means of the rows of K."""
    values = matrix.astype(np.float64, copy=False)
    means = values.mean(axis=1)
    values -= means[:, None]
    values -= means - means.mean()
    return values, means


def _centred_product(gram: Gram, vectors: Array) -> Array:
    """The product with H K H, without the matrix."""
    product = np.asarray(gram @ (vectors - vectors.mean(axis=0)), dtype=np.float64)
    return np.asarray(product - product.mean(axis=0))


def _require_valid(owner: str, values: Array) -> None:
    """Refuse a matrix with negative eigenvalues: they are no variances."""
    tolerance = 10 * len(values) * np.finfo(np.float32).eps * np.abs(values).max(initial=0.0)
    if values.size and values[0] < -tolerance:
        raise ValidityError(
            f"{owner}: the centred kernel matrix has the eigenvalue {values[0]:.3g} beside "
            f"{values[-1]:.3g}, so that the kernel has no feature space; repair the matrix with "
            "mercer.validity.repair, or take a kernel whose is_psd is True."
        )
