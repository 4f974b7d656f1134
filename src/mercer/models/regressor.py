"""Base classes of kernel regressors: predictions, and one or several targets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator
from mercer.estimator.by_blocks import by_blocks, scored_by_blocks
from mercer.estimator.scoring import determination, require_same_targets
from mercer.exceptions import DataError


class ScoredRegressor(RegressorMixin):
    """Base of regressors whose score is the coefficient of determination."""

    @scored_by_blocks(determination)
    def score(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination, the mean over targets.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the type and columns passed to `fit`; blocks may hold their targets.
        y : array-like of shape (m,) or (m, n_targets), Dask collection or str
            True targets; None if blocks hold them, or the name of a column.
        sample_weight : array-like of shape (m,), float, Dask collection or str, optional
            Weights of the rows.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those of the best constant.
        """
        owner = type(self).__name__
        if y is None:
            raise DataError(f"{owner}: a score needs true targets, and y is None; pass them as y.")
        predicted = np.asarray(self.predict(X))
        n = len(predicted)
        predicted = predicted.reshape(n, -1)
        targets = self._validate_targets(y, n).reshape(n, -1)
        weights = self._validate_weights(sample_weight, targets, any_range=True)
        require_same_targets(owner, targets, predicted)
        return float(r2_score(targets, predicted, sample_weight=weights))


class KernelRegressor(MultiOutputMixin, ScoredRegressor, KernelEstimator):
    """Base of regressors with one target or several."""

    _is_vector: bool

    @abstractmethod
    def _function_values(self, X: Any) -> Array:
        """The values of the fitted function."""

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Predict targets, in chunks of rows.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray or Dask array of shape (m,) or (m, n_targets)
            The predictions, in the precision of the data; lazy for a Dask collection.
        """
        return self._function_values(X)

    def _target_columns(self, y: ArrayLike, n: int) -> Array:
        """Targets with one column each; remembers whether y had one or two dimensions."""
        targets = self._validate_targets(y, n)
        checks.require_target_range(type(self).__name__, float(np.abs(targets).max(initial=0.0)))
        self._is_vector = targets.ndim == 1
        return targets.reshape(n, -1)

    def _shaped(self, values: Array) -> Array:
        """Reshape values with one column per target to the shape of y."""
        return values[:, 0] if self._is_vector else values
