"""What regressors with a kernel share: predictions, and targets in one or several columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer.models.base import KernelEstimator
from mercer.streams.application import by_blocks, scored_by_blocks
from mercer.streams.scoring import DeterminationOf

Array = NDArray[np.floating[Any]]


class KernelRegressor(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Base of regressors with one target or several.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    """

    _is_vector: bool

    @abstractmethod
    def _function_values(self, X: Any) -> Array:
        """The values of the fitted function."""

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Predict targets, in chunks: no matrix of all pairs is stored.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray or Dask array of shape (m,) or (m, n_targets)
            The predictions, in the precision of the data; lazy for a Dask collection.
        """
        return self._function_values(X)

    @scored_by_blocks(DeterminationOf)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination, the mean over targets.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data like those seen by `fit`; blocks with their targets, as `fit` takes them.
        y : array-like of shape (m,) or (m, n_targets), Dask collection or str
            True targets; None if blocks hold them, or the name of a column.
        sample_weight : array-like of shape (m,), Dask collection or str, optional
            Weights of the rows.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those of the best constant.
        """
        return float(super().score(X, y, sample_weight))

    def _target_columns(self, y: ArrayLike, n: int) -> Array:
        """Targets with one column each; their own shape is kept in mind."""
        targets = self._validate_targets(y, n)
        self._is_vector = targets.ndim == 1
        return targets.reshape(n, -1)

    def _shaped(self, values: Array) -> Array:
        """Values with one column for each target, in the shape of y."""
        return values[:, 0] if self._is_vector else values
