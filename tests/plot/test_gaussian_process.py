"""Gaussian processes of one input: mean, bands, samples, points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, size=(12, 1))
Y = np.sin(X).ravel()
MODEL = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None).fit(X, Y)
draw = mc.plot.GaussianProcessDisplay.from_estimator


def test_mean_and_bands_are_the_models() -> None:
    display = draw(MODEL, X, Y, grid_resolution=50, coverage=(0.5, 0.9))
    mean, std = MODEL.predict(display.x[:, None], return_std=True)
    np.testing.assert_allclose(display.line_.get_ydata(), mean)
    assert len(display.bands_) == 2
    for band, level in zip(display.bands_, (0.9, 0.5), strict=True):
        reached = band.get_paths()[0].vertices[:, 1].max()  # type: ignore[index]
        assert reached == pytest.approx(np.max(mean + norm.interval(level)[1] * std))
        assert band.get_label() == f"{100 * level:g}% of the function"
    width = X.max() - X.min()
    np.testing.assert_allclose(display.x[[0, -1]], [X.min() - 0.05 * width, X.max() + 0.05 * width])
    assert display.points_ is not None
    np.testing.assert_array_equal(display.points_.get_xdata(), X[:, 0])
    np.testing.assert_array_equal(display.points_.get_ydata(), Y)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x", "y")


def test_samples_are_the_models_own() -> None:
    display = draw(MODEL, X, n_samples=3, random_state=7, grid_resolution=20)
    assert display.points_ is None
    assert display.others_ is not None
    assert display.others_.get_label() == "inputs"
    assert len(display.sample_lines_) == 3
    np.testing.assert_array_equal(
        display.samples, MODEL.sample_y(display.x[:, None], 3, random_state=7)
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(frame: Any) -> None:
    data = frame({"time": X[:, 0]})
    model = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None).fit(data, Y)
    display = draw(model, data, pd.Series(Y, name="height"))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("time", "height")


def test_a_pipeline_is_drawn() -> None:
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF(), optimizer=None))
    model.fit(X, Y)
    assert draw(model, X).std.shape == (200,)


def test_one_of_several_targets() -> None:
    model = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
    model.fit(X, np.column_stack([Y, -Y]))
    first, second = (draw(model, X, output=i, n_samples=2) for i in range(2))
    np.testing.assert_allclose(first.mean, -second.mean)
    assert second.samples is not None
    assert second.samples.shape == (200, 2)
    with pytest.raises(ParameterError, match=r"output = None .* 2 targets"):
        draw(model, X)


class Noisy(GaussianProcessRegressor):
    """A model that can add the noise of observations."""

    def predict(self, X: Any, return_std: bool = False, include_noise: bool = False) -> Any:
        mean, std = super().predict(X, return_std=True)
        return mean, np.sqrt(std**2 + 0.01 * include_noise)


def test_noise_is_included_on_demand() -> None:
    model = Noisy(RBF(), alpha=0.01, optimizer=None).fit(X, Y)
    without, with_noise = draw(model, X), draw(model, X, include_noise=True)
    np.testing.assert_allclose(with_noise.std**2, without.std**2 + 0.01)
    with pytest.raises(ParameterError, match="takes no include_noise; pass a model that does"):
        draw(MODEL, X, include_noise=True)


@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, X[:, 0]])])
def test_the_models_of_mercer(targets: Any) -> None:
    model = mc.GaussianProcessRegressor(
        mc.RBF(length_scale=1.0), noise=0.01, learn=False, normalize_y=False
    )
    model.fit(X, targets)
    display = draw(model, X, Y, output=0, n_samples=2, grid_resolution=20)
    noisy = draw(model, X, output=0, include_noise=True, grid_resolution=20)
    mean, std = model.predict(display.x[:, None], return_std=True)
    np.testing.assert_allclose(display.mean, mean.reshape(20, -1)[:, 0])
    np.testing.assert_allclose(display.std, std.reshape(20, -1)[:, 0])
    assert np.all(noisy.std > display.std)
    assert display.samples is not None
    assert display.samples.shape == (20, 2)


def test_a_model_without_standard_deviations_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge\.predict takes no return_std; pass"):
        draw(mc.KernelRidge(mc.RBF()).fit(X, Y), X)


def test_one_column_may_be_a_vector() -> None:
    np.testing.assert_array_equal(draw(MODEL, X.ravel()).mean, draw(MODEL, X).mean)


@pytest.mark.parametrize("data", [np.zeros((4, 2)), np.zeros((2, 1, 1))])
def test_one_input_is_needed(data: Any) -> None:
    with pytest.raises(DataError, match=r"1 column can be drawn; pass data of shape \(n, 1\)"):
        draw(MODEL, data)


def test_bad_values_are_refused() -> None:
    with pytest.raises(DataTypeError, match="does not hold numbers"):
        draw(MODEL, [["a"], ["b"]])
    with pytest.raises(DataError, match="NaN or infinity"):
        draw(MODEL, [[np.nan]])
    with pytest.raises(DataError, match="y has shape"):
        draw(MODEL, X, Y[:3])
    for argument in ({"grid_resolution": 1}, {"n_samples": -1}, {"margin": -1.0}):
        with pytest.raises(ParameterError, match=r"GaussianProcessDisplay: .*; pass"):
            draw(MODEL, X, **argument)  # type: ignore[arg-type]
    for coverage in ((0.0,), (1.0,), (95,), ("a",)):
        with pytest.raises(ParameterError, match="strictly between 0 and 1"):
            draw(MODEL, X, coverage=coverage)


def test_one_training_point() -> None:
    model = GaussianProcessRegressor(RBF(), optimizer=None).fit([[1.0]], [2.0])
    np.testing.assert_allclose(draw(model, [[1.0]]).x[[0, -1]], [0.95, 1.05])


def test_points_that_the_model_has_not_seen_are_told_apart() -> None:
    fresh = np.vstack([X[:4], [[9.0], [10.0]]])
    targets = np.arange(6.0)
    for model in (MODEL, mc.GaussianProcessRegressor(mc.RBF(), 0.1, learn=False).fit(X, Y)):
        display = draw(model, fresh, targets)
        assert display.points_ is not None
        assert display.others_ is not None
        np.testing.assert_array_equal(display.points_.get_ydata(), targets[:4])
        np.testing.assert_array_equal(display.others_.get_ydata(), targets[4:])
        labels = (display.points_.get_label(), display.others_.get_label())
        assert labels == ("training points", "other points")
    pipeline = make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF(), optimizer=None))
    display = draw(pipeline.fit(X, Y), X, Y)
    assert display.points_ is None
    assert display.others_ is not None
    assert display.others_.get_label() == "points"


def test_bands_say_of_what_and_a_prior_is_drawn() -> None:
    model = mc.GaussianProcessRegressor(mc.RBF(length_scale=1.0), 0.1)
    display = draw(model, X, include_noise=True, n_samples=2)
    assert [band.get_label() for band in display.bands_] == [
        "95% of observations",
        "50% of observations",
    ]
    np.testing.assert_array_equal(display.mean, np.zeros(200))
    np.testing.assert_allclose(display.std, np.sqrt(1.1))
    assert len(display.sample_lines_) == 2


def test_titles_name_the_kernel_and_the_prior() -> None:
    model = mc.GaussianProcessRegressor(mc.RBF(length_scale=1.23456), 0.1, learn=False)
    prior = draw(model, X)
    assert prior.ax_.get_title() == "Prior of GaussianProcessRegressor,\nRBF(length_scale=1.23)"
    assert prior.others_ is None
    posterior = draw(model.fit(X, Y), X)
    assert posterior.ax_.get_title() == "GaussianProcessRegressor, RBF(length_scale=1.23)"


@pytest.mark.parametrize("form", ["pandas", "polars", "numpy"])
def test_dates_have_an_axis_of_dates(form: str) -> None:
    days = np.array("2020-01-01", "M8[D]") + np.arange(12)
    data: Any = {
        "pandas": lambda: pd.DataFrame({"day": days.astype("M8[ns]")}),
        "polars": lambda: pl.DataFrame({"day": days}),
        "numpy": lambda: days[:, None],
    }[form]()
    model = mc.GaussianProcessRegressor(mc.RBF(length_scale=3.0), 0.1, learn=False).fit(data, Y)
    display = draw(model, data, Y, grid_resolution=12, margin=0.0, n_samples=1)
    np.testing.assert_array_equal(display.x, days.astype("M8[us]"))
    numbers = np.arange(12.0)[:, None] + 18262.0
    same = mc.GaussianProcessRegressor(mc.RBF(length_scale=3.0), 0.1, learn=False)
    mean, std = same.fit(numbers, Y).predict(numbers, return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.std, std)
    assert display.points_ is not None
    np.testing.assert_array_equal(display.points_.get_xdata(), days.astype("M8[us]"))
    assert display.ax_.xaxis.get_converter() is not None
    display.figure_.canvas.draw()


def test_the_best_of_a_search_is_drawn() -> None:
    search = GridSearchCV(GaussianProcessRegressor(RBF(), optimizer=None), {"alpha": [0.01, 0.1]})
    display = draw(search.fit(X, Y), X, Y)
    mean = search.best_estimator_.predict(display.x[:, None])
    np.testing.assert_allclose(display.mean, mean)
