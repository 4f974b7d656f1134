"""Terms of one prediction as bars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 2))
Y = X[:, 0] - X[:, 1] ** 2
RBF = mc.RBF(length_scale=1.0)
MODEL = mc.KernelRidge(RBF, alpha=0.1).fit(X, Y)
draw = mc.plot.ContributionsDisplay.from_estimator


def test_bars_are_terms_that_add_up_to_the_prediction() -> None:
    row = RNG.normal(size=(1, 2))
    display = draw(MODEL, row, top=4)
    widths = np.array([bar.get_width() for bar in display.bars_])
    terms = MODEL.dual_coef_ * RBF(row, X)[0]
    largest = np.argsort(-np.abs(terms))[:4]
    np.testing.assert_allclose(widths[:4], terms[largest])
    np.testing.assert_allclose(widths[4], terms.sum() - terms[largest].sum())
    np.testing.assert_allclose(widths[5], MODEL.intercept_)
    prediction = MODEL.predict(row)[0]
    assert widths.sum() == pytest.approx(prediction)
    assert [label.split(" (")[0] for label in display.labels] == [
        *(f"row {i}" for i in largest),
        "16 others",
        "intercept",
    ]
    assert f"f(x) = {prediction:.4g}" in display.ax_.get_title()


def test_all_terms_leave_no_others() -> None:
    display = draw(MODEL, X[0], top=50)
    assert len(display.values) == 21
    assert display.labels[-2].startswith("row ")


def test_the_class_is_named() -> None:
    data, labels = load_iris(return_X_y=True)
    model = mc.KernelLogisticRegression(mc.RBF("scale"), alpha=0.1).fit(data, labels)
    display = draw(model, data[:3], row=2, output=1)
    assert "f(x) of class 1 = " in display.ax_.get_title()
    value = model.decision_function(data[2:3])[0, 1]
    assert display.values.sum() == pytest.approx(value)


def test_contributions_that_were_computed_are_drawn() -> None:
    contributions = MODEL.contributions(X[:2], top=3)
    display = mc.plot.ContributionsDisplay.from_contributions(contributions, row=1)
    np.testing.assert_array_equal(display.values[:3], contributions.values[1])


def test_bad_input_is_refused() -> None:
    for row in (2, "first", None):
        bad: Any = row
        with pytest.raises(ParameterError, match="is not among the 2 predictions; pass a number"):
            draw(MODEL, X[:2], row=bad)
    with pytest.raises(ParameterError, match=r"is not the result of model\.contributions"):
        mc.plot.ContributionsDisplay.from_contributions(X)  # type: ignore[arg-type]


def test_numbers_stand_beside_their_bars_within_the_axes() -> None:
    display = draw(mc.KernelRidge(RBF, alpha=1e-6).fit(X, 1e4 * Y), X[0])
    display.figure_.canvas.draw()
    frame = display.ax_.get_window_extent()
    numbers = [text for text in display.ax_.texts if text.get_text()]
    assert len(numbers) == len(display.values)
    assert not any("e+" in text.get_text() for text in numbers)
    for text in numbers:
        extent = text.get_window_extent()
        assert frame.x0 <= extent.x0
        assert extent.x1 <= frame.x1
