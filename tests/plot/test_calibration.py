"""Stated probabilities against observed shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import mercer as mc
from mercer.exceptions import DataError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, size=(80, 1))
Y = np.sin(X).ravel() + 0.3 * RNG.normal(size=80)
RBF = mc.RBF(length_scale=1.0)
draw = mc.plot.CalibrationDisplay.from_estimator


def test_coverage_of_a_gaussian_process_is_counted() -> None:
    model = mc.GaussianProcessRegressor(RBF, 0.05, learn=False).fit(X[:40], Y[:40])
    display = draw(model, X[40:], Y[40:])
    mean, std = model.predict(X[40:], return_std=True, include_noise=True)
    for level, observed in zip(*display.line_.get_data(), strict=True):
        low, high = norm.interval(level, mean, std)
        assert observed == pytest.approx(np.mean((low <= Y[40:]) & (Y[40:] <= high)))
    assert display.kind == "interval"
    assert display.title.endswith("calibration on 40 rows")
    other = GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(X, Y)
    assert draw(other, X, Y).observed.shape == display.observed.shape


def test_targets_below_quantiles_are_counted() -> None:
    levels = [0.9, 0.1, 0.5]
    model = mc.KernelQuantileRegressor(RBF, quantile=levels, alpha=0.1).fit(X[:40], Y[:40])
    display = draw(model, X[40:], Y[40:])
    np.testing.assert_array_equal(display.nominal, np.sort(levels))
    below = np.mean(Y[40:, None] <= model.predict(X[40:])[:, [1, 2, 0]], axis=0)
    np.testing.assert_allclose(display.observed, below)
    assert display.ax_.get_ylabel() == "share of targets below"


class Interval(LinearRegression):
    """A model with intervals of a normal distribution."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        return norm.interval(coverage, self.predict(X), 0.5)


def test_intervals_of_a_model_are_counted() -> None:
    model = Interval().fit(X, Y)
    display = draw(model, X, Y)
    errors = np.abs(Y - model.predict(X))
    expected = [np.mean(errors <= 0.5 * norm.ppf((1 + p) / 2)) for p in display.nominal]
    np.testing.assert_allclose(display.observed, expected)


def test_two_classes_are_as_in_scikit_learn() -> None:
    data, labels = make_moons(200, noise=0.3, random_state=0)
    names = np.where(labels == 1, "yes", "no")
    model = LogisticRegression().fit(data, names)
    display = draw(model, data, names, n_bins=7)
    observed, stated = calibration_curve(
        names, model.predict_proba(data)[:, 1], pos_label="yes", n_bins=7, strategy="quantile"
    )
    np.testing.assert_allclose(display.line_.get_xdata(), stated)
    np.testing.assert_allclose(display.line_.get_ydata(), observed)
    assert display.counts.sum() == 200
    assert display.ax_.get_xlabel() == "probability of yes"


def test_several_classes_are_judged_by_the_predicted_one() -> None:
    data, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(data[:, :2], labels)
    display = draw(model, data[:, :2], labels, n_bins=1)
    largest = model.predict_proba(data[:, :2]).max(axis=1)
    np.testing.assert_allclose(display.nominal, [largest.mean()])
    np.testing.assert_allclose(display.observed, [model.score(data[:, :2], labels)])


def test_the_band_is_that_of_counts() -> None:
    display = mc.plot.CalibrationDisplay(
        nominal=np.array([0.2, 0.8]), observed=np.array([0.2, 0.9]), counts=np.array([50, 50])
    ).plot()
    ends = display.band_.get_paths()[0].vertices[:, 1]
    low, high = binom.ppf([0.025, 0.975], 50, 0.8) / 50
    assert low in ends
    assert high in ends


def test_probabilities_that_are_all_equal_have_one_bin() -> None:
    model = LogisticRegression(C=1e-12).fit(X, Y > 0)
    display = draw(model, np.zeros((9, 1)), np.arange(9) > 4)
    assert display.counts.tolist() == [9]


def test_models_without_probabilities_are_refused() -> None:
    with pytest.raises(ParameterError, match="LinearRegression states no probabilities; pass"):
        draw(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises(ParameterError, match="SVC has no predict_proba; pass"):
        draw(mc.SVC().fit(X, Y > 0), X, Y > 0)
    model = mc.GaussianProcessRegressor(RBF, 0.1, learn=False).fit(X, Y)
    with pytest.raises(DataError, match="y has shape"):
        draw(model, X, Y[:3])
    with pytest.raises(DataError, match="y does not hold numbers"):
        draw(model, X, ["a"] * len(X))
