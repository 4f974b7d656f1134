"""Explicit features of any kernel, from landmarks."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mercer import checks
from mercer.arrays import Array
from mercer.checks import require_finite_values
from mercer.estimator.base import KernelEstimator
from mercer.estimator.by_blocks import BlockTransformer
from mercer.exceptions import DataError, as_data_errors
from mercer.features.preimages import PreImages
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.landmarks.selection import require_no_noise, select_rows
from mercer.linalg.cholesky import Advice
from mercer.linalg.whitening import Whitening, whiten
from mercer.parallel import single_blas
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import RowDraw
from mercer.sampling import random_numbers, seed_from, uniform_rows
from mercer.streams.targets import NoTargets
from mercer.validity.required import require_positive

# Number of rows from which the trace error is estimated if the selection did not compute it.
_SAMPLE = 5000

_ADVICE = Advice("alpha", "use a kernel whose is_psd is True")


class Nystrom(ClassNamePrefixFeaturesOutMixin, BlockTransformer, KernelEstimator):
    r"""Features from landmarks, whose inner products approximate a kernel.

    With landmarks Z and R'R = k(Z, Z), R an upper triangle,

    .. math:: F(x) = k(x, Z)\, R^{-1}, \qquad F(x) F(x')^\top = k(x, Z)\, k(Z, Z)^{-1} k(Z, x') ,

    the projection of the kernel on the span of the landmarks. It is exact where a landmark is one
    of the two points, so that with all rows as landmarks it is the kernel matrix itself.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        The kernel; by default an RBF with ``length_scale="columns"``. It determines the type of X:
        vectors, strings, data frames, or row numbers of a precomputed matrix.
    n_landmarks : int, default=100
        The number of landmarks; all rows if there are fewer.
    landmarks : str, array of int, or data, default="rpcholesky"
        How to choose them: "rpcholesky" (in proportion to the unexplained variance), "uniform",
        "kmeans++" (far apart), "leverage" (ridge leverage scores, in little memory) or "thin" (with
        nearly the mean of all rows); or their row numbers; or the landmarks themselves.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used.
    landmarks_ : Points
        The linearly independent landmarks, by decreasing residual.
    landmark_indices_ : ndarray of shape (rank,) or None
        Their rows in the training data; None if points were given.
    rank_ : int
        The number of features.
    factor_ : ndarray of shape (rank, rank)
        The triangle R.
    trace_error_ : float
        The unexplained share of the (weighted) trace of the kernel matrix; 0 is exact. Except for
        "rpcholesky" it is estimated from at most 5000 rows.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    See Also
    --------
    mercer.landmarks.select : The choice of landmarks by itself.

    References
    ----------
    .. [1] C. Williams, M. Seeger (2001). Using the Nystrom method to speed up kernel machines.
       Advances in Neural Information Processing Systems 13.
    .. [2] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber (2022). Randomly pivoted Cholesky:
       Practical approximation of a kernel matrix with few entry evaluations. arXiv:2207.06503.
    .. [3] C. Musco, C. Musco (2017). Recursive sampling for the Nystrom method. Advances in Neural
       Information Processing Systems 30.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> k = mc.RBF(length_scale=2.0)
    >>> map_ = mc.Nystrom(k, n_landmarks=30, random_state=0)
    >>> F = map_.fit_transform(X)
    >>> F.shape, bool(abs(F @ F.T - k(X)).max() < 0.05)
    ((500, 30), True)
    """

    kernel_: Kernel
    landmarks_: Points
    landmark_indices_: NDArray[Any] | None
    rank_: int
    factor_: NDArray[Any]
    trace_error_: float

    def __init__(
        self,
        kernel: KernelLike = None,
        n_landmarks: int = 100,
        landmarks: Any = "rpcholesky",
        random_state: Any = None,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel, degree, gamma, coef0)
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the landmarks and factorise their kernel matrix.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            The data, as the kernel takes them.
        y : object, optional
            Ignored.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; a row of weight 0 is never a landmark.

        Returns
        -------
        Nystrom
            The transformer itself.
        """
        with self._fitting():
            checks.require_count(type(self).__name__, "n_landmarks", self.n_landmarks, example=100)
            kernel = self._kernel_or_default(self.kernel, X)
            require_no_noise(kernel, type(self).__name__)
            stream, data = self._stream(kernel, X, None, sample_weight, NoTargets())
            rows = stream or self._in_memory(kernel, data.X, data.sample_weight)
            self._fit_rows(rows, kernel)
        return self

    def _in_memory(self, kernel: Kernel, X: Any, sample_weight: ArrayLike | None) -> InMemory:
        points = self._validate_points(kernel, X, reset=True)
        nothing = np.empty((len(points), 0))
        return InMemory(RowBlock(points, nothing, self._validate_weights(sample_weight, nothing)))

    @property
    def _known_row(self) -> Points | None:
        return self.landmarks_[:1] if hasattr(self, "landmarks_") else None

    def _fit_rows(self, rows: RowSource, kernel: Kernel | None = None) -> Self:
        """Choose landmarks among rows in memory or in blocks."""
        checks.require_count(type(self).__name__, "n_landmarks", self.n_landmarks, example=100)
        validate_data(self, rows.first_row.data, "no_validation", reset=True, skip_check_array=True)
        self.kernel_ = rows.resolve(kernel or self._kernel_or_default(self.kernel))
        rng = random_numbers(self.random_state, type(self).__name__)
        owner = type(self).__name__
        chosen = select_rows(self.kernel_, rows, self.landmarks, self.n_landmarks, rng, owner=owner)
        kept = self._factorise(chosen.points)
        self.landmarks_ = chosen.points[kept].detached()
        self.landmark_indices_ = None if chosen.indices is None else chosen.indices[kept]
        error = chosen.trace_error
        self.trace_error_ = self._trace_error(rows, rng) if error is None else error
        return self

    def _factorise(self, landmarks: Points) -> NDArray[np.intp]:
        """Set the triangle `factor_`; return the landmarks that it is computed from."""
        # Pass two arguments, because rows of a precomputed matrix are not a square matrix.
        square = self.kernel_(landmarks, landmarks)
        require_finite_values(square, self.kernel_, f"{type(self).__name__}: ")
        require_positive(self, self.kernel_, square, _ADVICE)
        with single_blas():
            whitening = whiten(square)
        self.rank_ = whitening.rank
        if not whitening.rank:  # keep one zero feature for a kernel that is zero everywhere
            whitening = Whitening(np.zeros(1, np.intp), np.ones((1, 1), square.dtype))
        self.factor_ = whitening.upper
        return whitening.kept

    def _trace_error(self, rows: RowSource, rng: Any) -> float:
        """The unexplained share of the trace, from a sample if there are many rows."""
        if len(rows) <= _SAMPLE:
            return rows.apply_to(np.arange(len(rows)), self._unexplained)
        if not rows.statistics.weighted:
            return rows.apply_to(uniform_rows(len(rows), _SAMPLE, rng), self._unexplained)
        drawn = rows.map_sum(RowDraw(_SAMPLE, seed_from(rng))).rows
        return rows.apply_to(drawn, partial(self._unexplained, drawn_by_weight=True))

    def _unexplained(self, part: RowBlock, *, drawn_by_weight: bool = False) -> float:
        """The unexplained share of the trace of some rows."""
        diagonal = np.asarray(self.kernel_.diag(part.points), dtype=np.float64)
        explained = np.square(self._features(part.points), dtype=np.float64).sum(axis=1)
        mass = np.ones(len(part)) if drawn_by_weight else part.mass
        total = float(mass @ diagonal)
        return float(mass @ np.maximum(diagonal - explained, 0)) / total if total > 0 else 0.0

    def transform(self, X: Any) -> Array:
        """Compute the features, in place of the kernel values.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray or Dask array of shape (n, rank)
            The features, in the floating type of the kernel values; lazy for a Dask collection.
        """
        check_is_fitted(self)
        return self._features(self._validate_points(self.kernel_, X, reset=False))

    def _features(self, points: Points) -> Array:
        cross = self.kernel_(points, self.landmarks_)
        upper = self.factor_.astype(cross.dtype, copy=False)
        return Whitening(np.arange(len(upper)), upper).apply(cross)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Compute pre-images, points with given features, for kernels with an input gradient.

        Parameters
        ----------
        X : array-like of shape (n, rank)
            Features, as `transform` returns them; no point need have exactly these features.

        Returns
        -------
        ndarray of shape (n, d)
            The points whose features are nearest, by a local search, in float64.

        Raises
        ------
        NotDifferentiableError
            If the data are not numeric rows, or the kernel has no gradient in its inputs.
        """
        check_is_fitted(self)
        with as_data_errors(type(self).__name__, "Pass features as transform returns them."):
            features: Array = check_array(X, dtype=np.float64)
        if features.shape[1] != len(self.factor_):
            raise DataError(
                f"{type(self).__name__}: the features have {features.shape[1]} columns, but there "
                f"are {len(self.factor_)}; pass features as transform returns them."
            )
        find = PreImages(self.kernel_, self.landmarks_, self.factor_, type(self).__name__)
        with single_blas():
            return find(features)

    @property
    def _n_features_out(self) -> int:
        return len(self.factor_)
