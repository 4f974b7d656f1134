"""Labels of classes as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.exceptions import DataError, DataTypeError, as_data_errors


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
