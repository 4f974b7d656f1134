"""Panels of effects: curves with bands, bars, points and histograms."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.collections import PathCollection
from scipy.special import ndtri
from sklearn.linear_model import LinearRegression

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(30, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
GROUPS = np.array(["a", "b", "c"])[np.arange(30) % 3]
draw = mc.plot.EffectsDisplay.from_estimator


def test_one_number_is_a_curve_with_a_band() -> None:
    kernel = mc.RBF().on(0) + mc.Linear().on(1)
    model = mc.GaussianProcessRegressor(kernel, 0.1, learn=False).fit(X, Y)
    display = draw(model, X, coverage=0.9)
    effects, order = model.effects(X), np.argsort(X[:, 0])
    (line, _) = display.axes_[0].lines
    np.testing.assert_allclose(line.get_ydata(), effects.values[order, 0])
    reached = display.axes_[0].collections[0].get_paths()[0].vertices[:, 1].max()
    upper = effects.values[:, 0] + ndtri(0.95) * effects.std[:, 0]
    assert reached == pytest.approx(upper.max())
    assert display.axes_[0].get_title() == f"RBF.on(0), dof {effects.dof[0]:.1f}"
    assert display.figure_.get_suptitle() == "GaussianProcessRegressor: effects of 2 terms"
    assert display.axes_[0].get_xlabel() == "x0"
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_categories_are_bars_and_dates_are_curves(frame: Any) -> None:
    dates = pd.date_range("2020-01-01", periods=30).to_numpy()
    data = frame({"day": dates, "group": list(GROUPS)})
    kernel = mc.RBF(10.0).on("day") + mc.Categorical(0.5).on("group")
    model = mc.KernelRidge(kernel).fit(data, Y)
    display = draw(model, data)
    bars = display.axes_[1].patches
    effect = model.effects(data).values[:, 1]
    expected = sorted((effect[i] for i in range(3)), reverse=True)
    np.testing.assert_allclose([bar.get_height() for bar in bars], expected)
    assert [ax.get_xlabel() for ax in display.axes_] == ["day", "group"]
    display.figure_.canvas.draw()


def test_two_columns_are_points_and_more_are_a_histogram() -> None:
    model = mc.KernelRidge(mc.RBF().on(1, 2) + mc.RBF() + 2.0).fit(X, Y)
    display = draw(model, X)
    assert len(display.axes_) == 2  # the constant is not drawn
    (dots,) = (c for c in display.axes_[0].collections if isinstance(c, PathCollection))
    np.testing.assert_allclose(dots.get_array(), model.effects(X).values[:, 0])
    assert sum(bar.get_height() for bar in display.axes_[1].patches) == 30


def test_strings_are_a_histogram() -> None:
    texts = ["".join(RNG.choice(list("abc"), 6)) for _ in range(20)]
    model = mc.KernelRidge(mc.Spectrum(1) + mc.Spectrum(2)).fit(texts, np.arange(20.0))
    display = draw(model, texts)
    assert len(display.axes_) == 2


def test_axes_may_be_given() -> None:
    model = mc.KernelRidge(mc.RBF().on(0) + mc.RBF().on(1)).fit(X, Y)
    _, axes = plt.subplots(1, 2)
    display = draw(model, X, ax=axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_.get_suptitle() == ""  # the figure is the caller's
    with pytest.raises(ParameterError, match="1 axes are given for 2 panels"):
        draw(model, X, ax=axes[0])
    with pytest.raises(ParameterError, match="coverage = 2"):
        draw(model, X, coverage=2)


def test_a_model_without_effects_is_refused() -> None:
    with pytest.raises(ParameterError, match="LinearRegression has no effects"):
        draw(LinearRegression().fit(X, Y), X)
