"""Learning curves of online models, by stand-ins that have the attributes of such models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import mercer as mc
from mercer.exceptions import DataError, ParameterError

RNG = np.random.default_rng(0)
ERRORS = RNG.normal(size=60) / np.sqrt(np.arange(1, 61))
MISTAKES = RNG.uniform(size=60) < 1 / np.sqrt(np.arange(1, 61))
draw = mc.plot.LearningCurveDisplay.from_estimator


class Regressor(RegressorMixin, BaseEstimator):
    def __init__(self, curve: Any = None, method: str = "stochastic") -> None:
        self.curve = curve
        self.method = method

    def fit(self) -> Any:
        self.learning_curve_ = self.curve
        return self


class Classifier(ClassifierMixin, Regressor):
    pass


def trailing(values: Any, window: int) -> list[float]:
    """The mean of the last values, in plain Python."""
    starts = [max(0, i + 1 - window) for i in range(len(values))]
    return [sum(values[s : i + 1]) / (i + 1 - s) for i, s in enumerate(starts)]


@pytest.mark.parametrize("window", [1, 7, 60, 100])
def test_errors_of_a_regressor(window: int) -> None:
    display = draw(Regressor(ERRORS).fit(), window=window)
    expected = np.sqrt(trailing(ERRORS**2, window))
    np.testing.assert_allclose(display.recent, expected, rtol=1e-9)
    full = np.arange(min(window, 60), 61)
    np.testing.assert_array_equal(display.line_.get_xdata(), full)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.recent[full - 1])
    assert display.overall is not None
    assert display.overall[-1] == pytest.approx(np.sqrt(np.mean(ERRORS**2)))
    assert display.ax_.get_ylabel() == "root mean square error"
    assert display.ax_.get_xlabel() == "rows seen"
    assert display.ax_.get_yscale() == "log"
    legend = display.ax_.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == [f"last {window} rows", "all rows so far"]


def test_several_targets_are_averaged() -> None:
    display = draw(Regressor(np.column_stack([ERRORS, 2 * ERRORS])).fit(), window=1)
    np.testing.assert_allclose(display.recent, np.sqrt(2.5) * np.abs(ERRORS), rtol=1e-6)


def test_mistakes_of_a_classifier() -> None:
    display = draw(Classifier(np.cumsum(MISTAKES)).fit(), window=10)
    np.testing.assert_allclose(display.recent, trailing(MISTAKES, 10), atol=1e-12)
    assert display.overall is not None
    np.testing.assert_allclose(display.overall, np.cumsum(MISTAKES) / np.arange(1, 61))
    assert display.ax_.get_ylabel() == "share of mistakes"
    assert display.ax_.get_yscale() == "linear"


def test_steps_of_a_batch_are_drawn_as_they_are() -> None:
    display = draw(Regressor(np.abs(ERRORS), method="batch").fit())
    np.testing.assert_array_equal(display.line_.get_ydata(), np.abs(ERRORS))
    assert display.overall_line_ is None
    assert display.ax_.get_xlabel() == "step"


@pytest.mark.parametrize("window", [0, -3, 2.5])
def test_a_window_is_a_positive_whole_number(window: Any) -> None:
    with pytest.raises(ParameterError, match=r"window = .* >= 1; pass"):
        draw(Regressor(ERRORS).fit(), window=window)


@pytest.mark.parametrize("errors", [[], [1.0, np.nan]])
def test_errors_are_finite_numbers(errors: Any) -> None:
    with pytest.raises(DataError, match="errors are empty, or have NaN or infinity; pass"):
        mc.plot.LearningCurveDisplay.from_errors(errors)


def test_one_row() -> None:
    assert draw(Regressor(ERRORS[:1]).fit()).recent.shape == (1,)


def test_a_model_that_had_nothing_to_learn_is_refused_with_the_reason() -> None:
    model = mc.KernelLMS(method="batch", alpha=1.0).fit([[0.0], [1.0]], [0.0, 0.0])
    with pytest.raises(DataError, match="KernelLMS took no step"):
        draw(model)


def test_few_decades_are_labelled_by_plain_numbers() -> None:
    display = mc.plot.LearningCurveDisplay.from_errors([1.0] * 50 + [0.1] * 150, window=10)
    display.figure_.draw_without_rendering()
    shown = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert {"0.1", "0.2", "0.5", "1"} <= set(shown)
    assert not any(tick.get_text() for tick in display.ax_.get_yticklabels(minor=True))


def test_a_known_noise_is_a_line() -> None:
    display = draw(Regressor(ERRORS).fit(), floor=0.1)
    assert display.floor_line_ is not None
    assert list(display.floor_line_.get_ydata()) == [0.1, 0.1]  # type: ignore[arg-type]
    assert draw(Regressor(ERRORS).fit()).floor_line_ is None
    with pytest.raises(ParameterError, match=r"floor = -1 is not a finite number >= 0; pass"):
        draw(Regressor(ERRORS).fit(), floor=-1)


def test_mistakes_have_a_linear_axis_and_start_with_a_few_rows() -> None:
    mistakes = np.cumsum(np.ones(60))
    display = draw(Classifier(mistakes).fit(), window=20)
    assert display.ax_.get_yscale() == "linear"
    assert display.overall_line_ is not None
    assert display.overall_line_.get_xdata()[0] == 10  # type: ignore[index]
