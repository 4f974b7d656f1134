"""Labels of classes: which are taken, and how the others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.estimator.labels import checked_labels, require_two_classes
from mercer.exceptions import DataError, DataTypeError


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
