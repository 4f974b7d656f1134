"""Explicit features given by the user: a function, a transformer, or a kernel with few features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from mercer.exceptions import ParameterError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.points import Points


def check_map(feature_map: Any, owner: str) -> None:
    """Refuse what is not a map, or one whose features depend on the data at hand.

    Parameters
    ----------
    feature_map : object
        What the user gave.
    owner : str
        The estimator.
    """
    if isinstance(feature_map, Kernel):
        if not feature_map.input_tags()["two_d"]:
            raise ParameterError(
                f"{owner}: the features of {feature_map!r} depend on the data at hand, so that "
                "coefficients would not fit later rows; pass it as kernel."
            )
    elif isinstance(feature_map, type) or not callable(
        getattr(feature_map, "transform", feature_map)
    ):
        raise ParameterError(
            f"{owner}: feature_map = {feature_map!r} is not a map; pass a function of the data, an "
            "object with a method transform, or a kernel with finitely many features."
        )


def fitted_map(feature_map: Any, X: Any, y: Any, weights: Any, owner: str) -> Any:
    """The map to use: a transformer is cloned and fitted, as scikit-learn's meta-estimators do.

    Parameters
    ----------
    feature_map : object
        What the user gave.
    X : array-like, data frame or sequence
        The first rows.
    y : array-like
        Their targets.
    weights : array-like or None
        Their weights; rows of weight zero are not shown to the transformer.
    owner : str
        The estimator.

    Returns
    -------
    object
        A fitted copy of a transformer; anything else as it is.
    """
    if isinstance(feature_map, Kernel) or not hasattr(feature_map, "transform"):
        return feature_map
    if not hasattr(feature_map, "fit"):
        return feature_map
    X = X.data if isinstance(X, Points) else X
    if weights is not None and np.ndim(weights) == 1 and not np.all(weights):
        kept: NDArray[np.intp] = np.flatnonzero(weights)
        if kept.size:  # otherwise the weights will be refused
            X, y = _safe_indexing(X, kept), _safe_indexing(np.asarray(y), kept)
    with as_data_errors(owner, f"It is what {type(feature_map).__name__} says of the data."):
        return clone(feature_map).fit(X, y)


def kernel_of(feature_map: Any) -> Kernel:
    """The kernel <phi(x), phi(z)> of a map phi.

    Parameters
    ----------
    feature_map : object
        A kernel, a fitted transformer or a function.

    Returns
    -------
    Kernel
        Its explicit features are those of the map.
    """
    if isinstance(feature_map, Kernel):
        return feature_map
    return Linear().warp(getattr(feature_map, "transform", feature_map))
