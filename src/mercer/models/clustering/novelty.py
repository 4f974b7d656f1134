"""Novelty by the mean embedding: how near a row is to the training rows, on average."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, store
from mercer.estimator.by_blocks import by_blocks
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points


class KernelNovelty(OutlierMixin, KernelEstimator):
    r"""Novelty by the mean embedding of the training rows, which is a kernel density.

    The score of a row is its inner product with the mean of the training rows in feature space,

    .. math:: s(x) = \langle \varphi(x), \mu \rangle = \frac{\sum_i w_i\, k(x, x_i)}{\sum_i w_i} ,

    for an RBF kernel a density up to a constant. Rows with a small score are novel. The threshold
    is a quantile of the scores of the training rows, each without its own part, so that a row does
    not vouch for itself.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    level : float, default=0.05
        The share of new rows of the same kind that are called novel, at most 0.5.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    offset_ : float
        The threshold of the scores.
    dual_coef_ : ndarray of shape (n,)
        The coefficients of the mean.
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The training rows.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    See Also
    --------
    mercer.OneClassSVM : Novelty from few rows near the border of the data.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = mc.KernelNovelty(mc.RBF(0.5)).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]]).tolist()
    [1, -1]
    """

    offset_: float
    dual_coef_: Array
    kernel_: Kernel
    points_: Points

    def __init__(
        self,
        kernel: KernelLike = None,
        level: float = 0.05,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the mean embedding and the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence or Points
            Data of the kind the kernel takes; at least two rows.
        y : object, optional
            Ignored.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows; a row of weight 0 is removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            owner = type(self).__name__
            checks.require_number(owner, "level", self.level, high=0.5, example=0.05)
            kernel = self._kernel_or_default(self.kernel, X)
            points = self._validate_points(kernel, self._in_one_piece(X, None), reset=True)
            given = self._validate_weights(sample_weight, np.empty(len(points)))
            weights = np.ones(len(points)) if given is None else given
            if np.count_nonzero(weights) < 2:
                raise DataError(
                    f"{owner}: n_samples = {np.count_nonzero(weights)}, but the threshold is a "
                    "quantile of scores of rows without themselves; pass at least 2 rows."
                )
            self.kernel_, self.points_ = kernel.resolve(points), points
            self.dual_coef_ = weights / weights.sum()
            own = np.asarray(self.kernel_.diag(points), dtype=np.float64)
            left_out = self._scores(points) - self.dual_coef_ * own
            counted = weights > 0
            scores = (left_out / (1 - self.dual_coef_))[counted]
            self.offset_ = float(
                np.quantile(scores, self.level, weights=weights[counted], method="inverted_cdf")
            )
        return self

    def _scores(self, points: Points) -> Array:
        return np.asarray(self.kernel_.gram(points, self.points_) @ self.dual_coef_, np.float64)

    @by_blocks
    def score_samples(self, X: Any) -> Array:
        """Compute the scores of rows; novel rows have small ones.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "points_")
        return self._scores(self._validate_points(self.kernel_, X, reset=False))

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Compute the scores minus the threshold; negative for novel rows.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.score_samples(X) - self.offset_

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Tell novel rows from others.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
            -1 for novel rows, 1 for others.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)
