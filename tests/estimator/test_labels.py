"""Labels of classes: which are taken, and how the others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.estimator.labels import (
    checked_labels,
    class_weighted,
    class_weights,
    require_two_classes,
)
from mercer.exceptions import DataError, DataTypeError, ParameterError


@pytest.mark.parametrize("y", [["a", "b", "a"], [1, 0, 1], np.array([True, False, True])])
def test_labels_come_back_as_they_are(y: Any) -> None:
    np.testing.assert_array_equal(checked_labels("SVC", y, 3), y)


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (None, DataError, r"^SVC requires y to be passed"),
        ([0, 1], DataError, r"^SVC: y has 2 labels but X has 3 rows"),
        ([0.1, 0.2, 0.3], DataError, r"(?s)^SVC: .*continuous.*Pass one label for each row"),
        ([0.0, np.nan, 1.0], DataError, r"^SVC: .*NaN.*Pass one label for each row"),
        (np.array(["a", 1, None], object), DataTypeError, r"^SVC: y mixes labels .* no order"),
    ],
)
def test_labels_that_are_refused(y: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        checked_labels("SVC", y, 3)


def test_one_class_is_refused() -> None:
    require_two_classes("SVC", np.array(["a", "b"]))
    with pytest.raises(DataError, match=r"SVC: y has only one class, 'a', among"):
        require_two_classes("SVC", np.array(["a"]))


def test_balanced_weights_give_all_classes_the_same_sum() -> None:
    labels, rows = np.array(["a", "b", "b", "b", "c", "c"]), np.arange(5)
    weights = class_weights("SVC", "balanced", labels, rows)
    np.testing.assert_allclose(weights * [1, 3, 1], 5 / 3)
    assert class_weights("SVC", None, labels, np.arange(4)).tolist() == [1.0, 1.0]


def test_weights_of_rows_are_multiplied_by_those_of_their_classes() -> None:
    labels, weights = np.array(["a", "b", "a", "c"]), np.array([1.0, 2.0, 3.0, 0.0])
    factors = {"a": 5.0, "b": 0.5}
    of_classes, own = class_weighted("SVC", factors, labels, weights)
    assert of_classes.tolist() == [5.0, 0.5]  # no row of "c" has a positive weight
    assert own is not None
    assert own.tolist() == [5.0, 1.0, 15.0, 0.0]
    assert class_weighted("SVC", None, labels, None)[1] is None
    alone = class_weighted("SVC", factors, labels[:3], None)[1]
    assert alone is not None
    assert alone.tolist() == [5.0, 0.5, 5.0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0, 2.0], "SVC: class_weight = .* is neither"),
        ("balance", "SVC: class_weight = 'balance' is neither"),
        ({"a": 0.0}, "not all finite and > 0"),
    ],
)
def test_class_weights_that_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        class_weights("SVC", given, np.array(["a", "b"]), np.arange(2))
