"""Explicit features from a function, a transformer, or a kernel with finitely many features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.points import Points
from mercer.models.explanation import Positions, Terms
from mercer.models.online.base import OnlineModel, Progress, TrainingRows
from mercer.models.online.expansion import FeatureExpansion


class FeatureMapModel(OnlineModel):
    """Base of online models that may learn coefficients of explicit features, not of points.

    A subclass has the parameter ``feature_map``; unless that is None its fit sets ``coef_``, of
    shape (p,) or (p, n_outputs), in place of ``points_`` and ``dual_coef_``.
    """

    feature_map: Any
    feature_map_: Any
    coef_: Array

    def _kernel_of_model(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Kernel:
        """The kernel of the user, or the kernel of the feature map."""
        if self.feature_map is None:
            return self._kernel_or_default(self.kernel, X)
        self.feature_map_ = _fitted_map(self.feature_map, X, y, sample_weight, type(self).__name__)
        if isinstance(self.feature_map_, Kernel):
            return self.feature_map_
        return Linear().warp(_transform(self.feature_map_))  # the kernel <phi(x), phi(z)>

    def _features(self, points: Points) -> Any:
        features = self.kernel_.feature_map(points)
        known = getattr(self, "coef_", None)
        if known is not None and features.shape[1] != len(known):
            raise DataError(
                f"{type(self).__name__}: the feature map returned {features.shape[1]} columns, but "
                f"{len(known)} before; it must return the same features for all data."
            )
        return features

    def _function_values(self, X: Any) -> Array:
        check_is_fitted(self)
        if not hasattr(self, "coef_"):
            return super()._function_values(X)
        points = self._validate_points(self.kernel_, X, reset=False)
        dtype = self.kernel_.gram(points).dtype
        return np.asarray(self._features(points) @ self.coef_).astype(dtype, copy=False)

    @property
    def _n_functions(self) -> int:
        if not hasattr(self, "coef_"):
            return super()._n_functions
        return int(self.coef_.reshape(len(self.coef_), -1).shape[1])

    def _terms(self, points: Points, functions: Positions) -> tuple[Terms, Array]:
        if hasattr(self, "coef_"):
            raise ParameterError(
                f"{type(self).__name__}: contributions are terms of training points, of which none "
                "is kept with feature_map; read coef_, the coefficients of features, or pass "
                "kernel=mercer.Linear().warp(phi) in place of feature_map=phi."
            )
        return super()._terms(points, functions)

    def _start(self, training: TrainingRows, passes: int) -> tuple[Progress, TrainingRows]:
        if self.feature_map is None:
            return super()._start(training, passes)
        features = self._features(training.points)
        coef, curve = self._initial_state(training)
        weights = coef if len(coef) else np.zeros((features.shape[1], coef.shape[1]))
        return Progress(FeatureExpansion(features, weights), curve), training

    def _check_feature_map(self) -> None:
        owner = type(self).__name__
        if self.feature_map is None:
            return
        if self.kernel is not None:
            raise ParameterError(
                f"{owner}: kernel and feature_map are both given; pass one, because features "
                "define the kernel <phi(x), phi(z)>."
            )
        if self.budget is not None:
            raise ParameterError(
                f"{owner}: budget = {self.budget!r} has no meaning with feature_map, which keeps "
                "no points; leave one of them out."
            )
        if isinstance(self.feature_map, Kernel):
            if not self.feature_map.input_tags()["two_d"]:
                raise ParameterError(
                    f"{owner}: the features of {self.feature_map!r} depend on the data at hand, so "
                    "that coefficients would not fit later rows; pass it as kernel."
                )
        elif isinstance(self.feature_map, type) or not callable(_transform(self.feature_map)):
            raise ParameterError(
                f"{owner}: feature_map = {self.feature_map!r} is not a map; pass a function of the "
                "data, an object with a method transform, or a kernel with finitely many features."
            )


def _fitted_map(feature_map: Any, X: Any, y: Any, weights: Any, owner: str) -> Any:
    """The map to use: a transformer is cloned and fitted to the rows of positive weight."""
    is_transformer = hasattr(feature_map, "transform") and hasattr(feature_map, "fit")
    if isinstance(feature_map, Kernel) or not is_transformer:
        return feature_map
    X = X.data if isinstance(X, Points) else X
    if weights is not None and np.ndim(weights) == 1 and not np.all(weights):
        kept: NDArray[np.intp] = np.flatnonzero(weights)
        if kept.size:  # otherwise the weights will be refused
            X, y = _safe_indexing(X, kept), _safe_indexing(np.asarray(y), kept)
    with as_data_errors(owner, f"It is what {type(feature_map).__name__} says of the data."):
        return clone(feature_map).fit(X, y)


def _transform(feature_map: Any) -> Any:
    """The function phi of a transformer, or of a map that is one."""
    return getattr(feature_map, "transform", feature_map)
