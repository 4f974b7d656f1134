from __future__ import annotations
from typing import Any
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
import mercer as mc


@parametrize_with_checks(
    [
        mc.GaussianProcessClassifier(),
        mc.GaussianProcessClassifier(2.0 * mc.RBF(), learn=False),
        mc.GaussianProcessClassifier(1.0 * mc.Linear() + 1.0 * mc.Constant()),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
