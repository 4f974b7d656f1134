"""What a model of two inputs decides, and the response at which it decides otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.svm import SVC

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.plot.canvas import Numbers
from mercer.plot.decision import Decision

X, LABELS = make_moons(40, noise=0.2, random_state=0)

draw = mc.plot.BoundaryDisplay.from_estimator


@pytest.mark.parametrize("size", [3, 5, 60])
def test_the_level_of_two_classes_is_where_the_probability_is_a_half(size: int) -> None:
    labels = (X[:, 0] > 1.0).astype(int)
    model = mc.SVC(C=0.5, probability=True, random_state=0).fit(X, labels)
    display = draw(model, X, labels, grid_resolution=size)
    # The logarithm of the odds is a line in the decision function.
    logs = model.predict_log_proba(X)
    slope, offset = np.polyfit(model.decision_function(X), logs[:, 1] - logs[:, 0], 1)
    assert abs(offset / slope) > 0.05
    assert display.threshold == pytest.approx(-offset / slope, abs=1e-4)


def test_a_response_that_does_not_tell_two_classes() -> None:
    class Contrary(SVC):
        """Predicts by the first column, whatever its decision function says."""

        def predict(self, X: Any) -> Any:
            return np.asarray(X)[:, 0] > 0.5

    model = Contrary().fit(X, LABELS == 1)
    assert draw(model, X).method == "predict"
    with pytest.raises(ParameterError, match="is not everywhere larger where the second class"):
        draw(model, X, response_method="decision_function")


def test_predictions_of_one_class_have_no_line() -> None:
    for threshold in (-50.0, 50.0):
        model = FixedThresholdClassifier(
            mc.SVC(), threshold=threshold, response_method="decision_function"
        )
        display = draw(model.fit(X, LABELS), X, LABELS)
        assert display.boundary_ == []
        assert display.margin_ is not None


def test_the_threshold_is_where_predictions_change() -> None:
    plain = LogisticRegression().fit(X, LABELS)
    moved = FixedThresholdClassifier(plain, threshold=0.3, response_method="predict_proba")
    moved.fit(X, LABELS)
    table = Numbers.read(X, 2, "Test")
    decision = Decision.shown(moved, table, "predict_proba", 20, 0.1)
    np.testing.assert_array_equal(decision.classes, [0, 1])
    assert decision.threshold == pytest.approx(0.3, abs=1e-3)
    assert Decision.shown(moved.estimator_, table, "auto", 20, 0.1).threshold == 0.0
