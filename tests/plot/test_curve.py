"""Curves of regressors of one column, and their bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.exceptions import DataError, ParameterError

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, size=(40, 1)), axis=0)
Y = np.sin(X).ravel() + 0.1 * RNG.normal(size=40)
RBF = mc.RBF(length_scale=1.0)
draw = mc.plot.CurveDisplay.from_estimator


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(RBF),
        mc.SVR(),
        mc.NadarayaWatson(RBF),
        mc.KernelLMS(RBF),
        mc.KernelHuberRegressor(RBF),
        LinearRegression(),
        make_pipeline(StandardScaler(), mc.KernelRidge(RBF)),
        GridSearchCV(mc.KernelRidge(RBF), {"alpha": [0.1, 1.0]}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_curve_is_the_prediction(model: Any) -> None:
    display = draw(model.fit(X, Y), X, Y, grid_resolution=30)
    assert display.line_ is not None
    np.testing.assert_allclose(display.line_.get_ydata(), model.predict(display.x[:, None]))
    points = display.points or display.others
    assert points is not None
    np.testing.assert_array_equal(points[1], Y)
    best = getattr(model, "best_estimator_", model)
    assert len(display.bands_) == hasattr(best, "predict_interval")
    assert display.ax_.get_title()


@pytest.mark.parametrize(
    ("levels", "labels"),
    [
        ([0.5, 0.1, 0.9], ["10% to 90%"]),
        ([0.05, 0.25, 0.5, 0.75, 0.95], ["5% to 95%", "25% to 75%"]),
        ([0.2, 0.8], ["20% to 80%"]),
    ],
)
def test_quantiles_are_a_fan(levels: list[float], labels: list[str]) -> None:
    model = mc.KernelQuantileRegressor(RBF, quantile=levels, alpha=0.1).fit(X, Y)
    display = draw(model, X, Y, grid_resolution=30)
    values = model.predict(display.x[:, None])[:, np.argsort(levels)]
    assert [label for label, _, _ in display.bands] == labels
    for i, (band, drawn) in enumerate(zip(display.bands, display.bands_, strict=True)):
        np.testing.assert_array_equal(band[1], values[:, i])
        np.testing.assert_array_equal(band[2], values[:, -1 - i])
        ends = drawn.get_paths()[0].vertices[:, 1]
        assert ends.max() == pytest.approx(values[:, -1 - i].max())
    if len(levels) % 2:
        assert display.label == "median"
        np.testing.assert_array_equal(display.curve, values[:, len(levels) // 2])
    else:
        assert display.line_ is None


def test_one_quantile_is_a_curve() -> None:
    model = mc.KernelQuantileRegressor(RBF, quantile=0.9, alpha=0.1).fit(X, Y)
    display = draw(model, X, interval=None)
    assert display.label == "90% quantile"
    assert display.bands == []


def test_a_gaussian_process_has_bands_of_function_and_observations() -> None:
    model = mc.GaussianProcessRegressor(RBF, 0.04, learn=False, normalize_y=False).fit(X, Y)
    display = draw(model, X, Y, interval=0.8)
    mean, std = model.predict(display.x[:, None], return_std=True)
    observations, function = display.bands
    assert (observations[0], function[0]) == ("80% of observations", "80% of the function")
    factor = norm.ppf(0.9)
    np.testing.assert_allclose(function[2], mean + factor * std)
    np.testing.assert_allclose(observations[1], mean - factor * np.sqrt(std**2 + 0.04))
    assert draw(model, X, interval=None).bands == []


class Interval(LinearRegression):
    """A model with an interval of three times the coverage around its prediction."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        mean = self.predict(X)
        return np.column_stack([mean - 3 * coverage, mean + 3 * coverage])


def test_a_model_with_intervals_has_a_band() -> None:
    model = Interval().fit(X, Y)
    ((label, low, high),) = draw(model, X, interval=0.5).bands
    assert label == "50% of observations"
    np.testing.assert_allclose(high - low, 3.0)


def test_bands_are_the_intervals_of_the_model() -> None:
    model = mc.KernelRidge(RBF).fit(X, np.column_stack([Y, 2 * Y]))
    display = draw(model, X, output=1, grid_resolution=20)
    ((_, low, high),) = display.bands
    ends = model.predict_interval(display.x[:, None])[:, :, 1]
    np.testing.assert_array_equal(np.column_stack([low, high]), ends)


def test_a_model_that_has_no_interval_is_drawn_without() -> None:
    landmarks = mc.solvers.NystromSolver(10, random_state=0)
    assert draw(mc.KernelRidge(RBF, solver=landmarks).fit(X, Y), X).bands == []
    assert draw(mc.KernelQuantileRegressor(RBF).fit(X, Y), X).bands == []


def test_one_column_of_several_varies() -> None:
    data = pd.DataFrame({"a": X[:, 0], "b": RNG.normal(size=40), "c": ["u", "v"] * 20})
    model = mc.KernelRidge(RBF.on("a") + mc.Linear().on("b") + mc.Categorical().on("c"))
    display = draw(model.fit(data, Y), data, Y, column="a", grid_resolution=9)
    rows = pd.DataFrame({"a": display.x, "b": sorted(data["b"])[19], "c": "u"})
    np.testing.assert_allclose(display.curve, model.predict(rows))
    assert "other columns at their median (2)" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == "a"


def test_one_of_several_targets() -> None:
    model = mc.KernelRidge(RBF).fit(X, np.column_stack([Y, -Y]))
    display = draw(model, X, output=1, interval=None)
    np.testing.assert_allclose(display.curve, model.predict(display.x[:, None])[:, 1])
    with pytest.raises(ParameterError, match=r"CurveDisplay: output = None .* 2 targets"):
        draw(model, X, interval=None)


def test_bad_input_is_refused() -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    for interval in (0, 1.0, 90, "wide", True):
        with pytest.raises(ParameterError, match=r"between 0 and 1; pass for example 0\.9"):
            draw(model, X, interval=interval)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="SVC is a classifier; pass a regressor"):
        draw(mc.SVC().fit(X, Y > 0), X)
    wide = mc.KernelRidge(RBF).fit(np.column_stack([X, X]), Y)
    with pytest.raises(DataError, match="KernelRidge does not predict these rows"):
        draw(wide, X)


def test_one_point_is_drawn() -> None:
    display = draw(mc.KernelRidge(RBF).fit([[1.0]], [2.0]), [[1.0]], [2.0])
    np.testing.assert_allclose(display.curve, 2.0)
