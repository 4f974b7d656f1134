"""Kernel regression against loops over rows, refitting, and its limits."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.models.kernel_regression.local_fits import Smoother
from model_samples import PLANE

RNG = np.random.default_rng(1)
X, Y, _, Z, WEIGHTS, _ = PLANE
RBF = mc.RBF(length_scale=0.8)


@parametrize_with_checks(
    [
        mc.NadarayaWatson(),
        mc.NadarayaWatson(degree=1),
        mc.NadarayaWatson(degree=1, bandwidth=None),
        mc.NadarayaWatson(mc.RBF(length_scale=1.0), bandwidth=None),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# The bandwidth -----------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1])
def test_the_bandwidth_has_the_least_leave_one_out_error(degree: Any) -> None:
    model = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y)
    assert model.converged_
    assert model.loo_error_ == pytest.approx(np.mean(model.loo_residuals_**2))
    for scale in np.geomspace(0.02, 30, 60):
        other = mc.NadarayaWatson(mc.RBF(length_scale=scale), degree=degree, bandwidth=None)
        assert model.loo_error_ <= np.mean(other.fit(X, Y).loo_residuals_ ** 2) * (1 + 1e-6)


@pytest.mark.parametrize("degree", [0, 1])
def test_a_row_is_left_out_with_its_weight(degree: Any) -> None:
    once = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y)
    weighted = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y, np.full(30, 2.0))
    assert weighted.kernel_.length_scale == pytest.approx(once.kernel_.length_scale)


def test_each_column_has_its_own_bandwidth() -> None:
    relevant = RNG.uniform(-2, 2, size=(120, 2))
    target = np.sin(3 * relevant[:, 0])
    model = mc.NadarayaWatson(mc.RBF(length_scale=[1.0, 1.0])).fit(relevant, target)
    first, second = model.kernel_.length_scale
    assert second > 10 * first
    common = mc.NadarayaWatson(mc.RBF()).fit(relevant, target)
    assert model.loo_error_ < common.loo_error_


def test_fixed_and_bounded_length_scales_are_respected() -> None:
    bounded = mc.NadarayaWatson(mc.RBF(length_scale=mc.Bounded(3.0, 2.0, 4.0))).fit(X, Y)
    assert bounded.kernel_.length_scale == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="no free parameter"):
        mc.NadarayaWatson(mc.RBF(length_scale=mc.Fixed(1.0))).fit(X, Y)


# Limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [mc.RBF, mc.Laplacian, mc.Matern, mc.Wendland])
def test_a_tiny_bandwidth_is_the_nearest_neighbour(kernel: Any) -> None:
    peer = KNeighborsRegressor(n_neighbors=1, p=1 if kernel is mc.Laplacian else 2)
    expected = peer.fit(X, Y).predict(Z)
    for degree in (0, 1):
        model = mc.NadarayaWatson(kernel(length_scale=1e-5), degree=degree, bandwidth=None)
        np.testing.assert_allclose(model.fit(X, Y).predict(Z), expected, rtol=1e-12)


def test_a_huge_bandwidth_is_the_mean_or_least_squares() -> None:
    wide = mc.RBF(length_scale=1e6)
    mean = mc.NadarayaWatson(wide, bandwidth=None).fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(mean.predict(Z), np.average(Y, weights=WEIGHTS), rtol=1e-9)
    plane = mc.NadarayaWatson(wide, degree=1, bandwidth=None).fit(X, Y, WEIGHTS)
    peer = LinearRegression().fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(plane.predict(Z), peer.predict(Z), rtol=1e-8)


@pytest.mark.parametrize("degree", [0, 1])
def test_degenerate_data(degree: Any) -> None:
    one = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit([[1.0, 2.0]], [3.0])
    np.testing.assert_allclose(one.predict(Z), 3.0)
    copies = np.repeat([[3.7, 1.1]], 5, axis=0)
    model = mc.NadarayaWatson(degree=degree).fit(copies, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(model.predict(copies[:1] + 0.01), 3.0)
    constant = np.column_stack([X[:, 0], np.full(30, 3.7)])
    flat = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(constant, Y)
    alone = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X[:, :1], Y)
    np.testing.assert_allclose(flat.predict(constant), alone.predict(X[:, :1]), rtol=1e-8)
    same = mc.NadarayaWatson(degree=degree).fit(X, np.full(30, 2.0))
    np.testing.assert_allclose(same.predict(Z), 2.0)


@pytest.mark.parametrize("degree", [0, 1])
def test_units_do_not_matter(degree: Any) -> None:
    once = mc.NadarayaWatson(degree=degree).fit(X, Y)
    other = mc.NadarayaWatson(degree=degree).fit(X * 1e5, Y * 1e-6)
    np.testing.assert_allclose(other.predict(Z * 1e5), once.predict(Z) * 1e-6, rtol=1e-5)


def test_data_frames() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = mc.NadarayaWatson(RBF.on("a"), degree=1, bandwidth=None).fit(frame, Y)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert np.isfinite(model.predict(frame)).all()


# Bad input ---------------------------------------------------------------------------------------


def test_bad_parameters_and_data() -> None:
    with pytest.raises(ParameterError, match="degree = 2"):
        mc.NadarayaWatson(degree=2).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="length_scale"):
        mc.NadarayaWatson(bandwidth=0.5).fit(X, Y)  # type: ignore[arg-type]
    several: Any = np.array([0.5, 1.0])
    for settings in ({"degree": several}, {"bandwidth": several}):
        with pytest.raises(ParameterError, match="array"):
            mc.NadarayaWatson(**settings).fit(X, Y)
    with pytest.raises(ParameterError, match="coordinates"):
        mc.NadarayaWatson(mc.Precomputed(), degree=1).fit(np.eye(3), [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="at least two rows"):
        mc.NadarayaWatson().fit([[1.0]], [1.0])
    with pytest.raises(DataError, match="at least one non-zero"):
        mc.NadarayaWatson().fit(X, Y, np.zeros(30))
    with pytest.raises(DataError):
        mc.NadarayaWatson(mc.Spectrum(2), degree=1, bandwidth=None).fit(["ab", "bc"], [1.0, 2.0])
    with pytest.raises(NotFittedError):
        mc.NadarayaWatson().predict(X)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Smoother.loo_gradient, [0]

    def interrupted(self: Smoother) -> Any:
        calls[0] += 1
        if calls[0] > 4:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(Smoother, "loo_gradient", interrupted)
    model = mc.NadarayaWatson(mc.RBF(length_scale=[0.5, 5.0]))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    assert math.isfinite(model.predict(Z).sum())


# Copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1])
def test_a_row_is_left_out_with_its_copies(degree: Any) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 6, size=(40, 1))
    targets = np.sin(inputs).ravel() + 0.3 * rng.normal(size=40)
    rows = rng.integers(0, 40, size=70)
    once, counts = np.unique(rows, return_counts=True)
    repeated = mc.NadarayaWatson(degree=degree).fit(inputs[rows], targets[rows])
    kernel = repeated.kernel_
    weighted = mc.NadarayaWatson(kernel, degree=degree, bandwidth=None)
    weighted.fit(inputs[once], targets[once], sample_weight=counts.astype(float))
    place = np.searchsorted(once, rows)
    np.testing.assert_allclose(repeated.loo_residuals_, weighted.loo_residuals_[place], atol=1e-9)
    assert repeated.loo_error_ == pytest.approx(weighted.loo_error_)
    for i in (0, 7):
        rest = rows != rows[i]
        other = mc.NadarayaWatson(kernel, degree=degree, bandwidth=None)
        other.fit(inputs[rows[rest]], targets[rows[rest]])
        left_out = targets[rows[i]] - other.predict(inputs[rows[[i]]])[0]
        assert repeated.loo_residuals_[i] == pytest.approx(left_out, abs=1e-9)


def test_rows_measured_again_keep_their_scatter() -> None:
    inputs = np.tile(np.linspace(0, 3, 12)[:, None], (2, 1))
    targets = np.sin(inputs).ravel() + np.repeat([0.1, -0.1], 12)
    model = mc.NadarayaWatson().fit(inputs, targets)
    assert model.loo_error_ == pytest.approx(np.mean(model.loo_residuals_**2))


def test_columns_in_different_units_are_standardised_by_default() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2))
    y = np.sin(rows[:, 0])
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = mc.NadarayaWatson().fit(rows * [1e-3, 1e4], y)
    expected = mc.NadarayaWatson().fit(standard, y).predict(standard)
    np.testing.assert_allclose(model.predict(rows * [1e-3, 1e4]), expected, rtol=1e-6)


def test_a_table_has_its_kernel_by_default() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=30), "b": list("xyz") * 10})
    y = frame["a"].to_numpy() + (frame["b"] == "x")
    model = mc.NadarayaWatson(bandwidth=None).fit(frame, y)
    given = mc.NadarayaWatson(mc.table_kernel(frame), bandwidth=None).fit(frame, y)
    np.testing.assert_allclose(model.predict(frame), given.predict(frame))
