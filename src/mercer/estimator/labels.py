"""Labels of classes as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.arrays import Array, Float64Array
from mercer.estimator.base import shown
from mercer.exceptions import DataError, DataTypeError, ParameterError, as_data_errors


def checked_labels(owner: str, y: ArrayLike | None, n: int) -> NDArray[Any]:
    """Labels, one for each row, that can be put in order."""
    if y is None:
        raise DataError(
            f"{owner} requires y to be passed, but the target y is None; call fit(X, y)."
        )
    plain = type(y) is np.ndarray and y.dtype.kind in "iub" and y.shape == (n,)
    if plain and 2 * len(np.unique(y)) <= n:  # scikit-learn has a word to say about more classes
        return y  # type: ignore[return-value]
    remedy = "Pass one label for each row, of a few classes; drop the rows that have none."
    try:
        with as_data_errors(owner, remedy):
            labels: NDArray[Any] = column_or_1d(y, warn=True)
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
    except TypeError as error:  # from sorting
        raise DataTypeError(
            f"{owner}: y mixes labels that have no order ({error}); pass labels of one kind, "
            "and drop the rows that have none."
        ) from error
    if len(labels) != n:
        raise DataError(
            f"{owner}: y has {len(labels)} labels but X has {n} rows; pass one for each row."
        )
    return labels


def require_two_classes(owner: str, classes: NDArray[Any]) -> None:
    """Refuse labels of a single class, which tell nothing from anything."""
    if len(classes) < 2:
        raise DataError(
            f"{owner}: y has only one class, {classes.tolist()[0]!r}, among the rows of positive "
            "weight; pass data with at least two classes."
        )


def class_weights(
    owner: str, class_weight: Any, labels: NDArray[Any], rows: NDArray[np.intp]
) -> Float64Array:
    """Weights of the classes that are among some rows; "balanced" counts these rows."""
    classes, codes = np.unique(labels[rows], return_inverse=True)
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(len(codes) / (len(classes) * np.bincount(codes)))
    if not isinstance(class_weight, Mapping):
        raise ParameterError(
            f"{owner}: class_weight = {shown(class_weight)} is neither "
            '"balanced" nor a dict; pass for example {0: 1.0, 1: 2.0}.'
        )
    everything = np.unique(labels)
    with as_data_errors(owner):
        of_all = compute_class_weight(class_weight, classes=everything, y=labels)
    weights: Float64Array = of_all[np.isin(everything, classes)]
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ParameterError(
            f"{owner}: class_weight = {shown(class_weight)} gives weights {weights.tolist()}, "
            'which are not all finite and > 0; pass "balanced", or such a number for each class.'
        )
    return weights


def class_weighted(
    owner: str, class_weight: Any, labels: NDArray[Any], weights: Array | None
) -> tuple[Float64Array, Array | None]:
    """Weights of the classes, and weights of all rows, times those of their classes."""
    rows = np.arange(len(labels)) if weights is None else np.flatnonzero(weights > 0)
    of_classes = class_weights(owner, class_weight, labels, rows)
    if class_weight is None:
        return of_classes, weights
    own = np.zeros(len(labels))
    own[rows] = of_classes[np.unique(labels[rows], return_inverse=True)[1]]
    return of_classes, own if weights is None else own * weights
