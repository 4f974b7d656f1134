"""Random signature features are unbiased, level by level."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

import mercer as mc
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.features import signature as module
from monte_carlo import assert_mean, estimates
from series_oracles import random_series

X = [0.5 * x for x in random_series(6, 2, seed=0, low=4, high=9)]


# Each fails by chance less than once in 100,000 seeds: see monte_carlo.
@pytest.mark.parametrize(
    "kernel",
    [
        mc.Signature(1, static=mc.RBF(1.0)),
        mc.Signature(3, static=mc.RBF(1.5)),
        mc.Signature(2, static=mc.Matern(1.0) * mc.RBF(3.0) + 0.5 * mc.RBF(2.0).on(0)),
        mc.Signature(3),
        2.0 * mc.Signature(2, time=1.0, lead_lag=True, static=mc.RBF(2.0)) + mc.Signature(1),
    ],
)
def test_features_are_unbiased(kernel: Any) -> None:
    exact = kernel(X)[0, 1:]
    assert_mean(
        estimates(lambda seed: mc.RandomSignature(kernel, 31, random_state=seed), X, 400), exact
    )


def test_each_level_is_unbiased() -> None:
    k = mc.Signature(3, static=mc.RBF(1.0), layout="time,channels")
    kernels = [k.replace(depth=m)(X)[0, 1:] for m in (1, 2, 3)]
    draws = []
    for seed in range(400):
        Phi = mc.RandomSignature(k, 31, random_state=seed).fit_transform(X)[:, 1:].reshape(6, 3, 10)
        draws.append(np.einsum("ilc,lc->li", Phi[1:], Phi[0]))
    levels = np.array(draws)
    assert_mean(levels[:, 0], kernels[0] - 1.0)
    assert_mean(levels[:, 1], kernels[1] - kernels[0])
    assert_mean(levels[:, 2], kernels[2] - kernels[1])


def test_one_linear_channel_has_no_variance() -> None:
    k = mc.Signature(4)
    series = [x[:, 0] for x in X]
    Phi = mc.RandomSignature(k, 5, random_state=0).fit_transform(series)
    assert_allclose(Phi @ Phi.T, k(series), rtol=1e-12)


def test_blocks_of_series_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    k = mc.Signature(3, static=mc.RBF(1.0))
    transformer = mc.RandomSignature(k, 100, random_state=0).fit(X)
    with mc.threads(1):
        one = transformer.transform(X)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    with mc.threads(2):
        assert_allclose(transformer.transform(X), one, rtol=1e-13, atol=1e-15)
    assert_allclose(transformer.transform([x.T for x in X]), one, rtol=1e-13, atol=1e-15)
    assert_array_equal(pickle.loads(pickle.dumps(transformer)).transform(X[2:4]).shape, (2, 100))
    assert len(transformer.get_feature_names_out()) == 100


def test_features_train_a_linear_model() -> None:
    rng = np.random.default_rng(0)
    t, y = np.linspace(0.0, 1.0, 40), np.arange(120) % 2
    series = np.sin(6 * t + 3 * y[:, None] * t) + 0.05 * rng.standard_normal((120, 40))
    model = make_pipeline(mc.RandomSignature(random_state=0), RidgeClassifier())
    assert model.fit(series[:60], y[:60]).score(series[60:], y[60:]) > 0.95
    solver = mc.solvers.RandomFeatures(mc.RandomSignature(n_components=400, random_state=0))
    kernel = mc.Signature(3, static=mc.RBF(1.0))
    ridge = mc.KernelRidge(kernel, alpha=1e-3, solver=solver).fit(series[:60], y[:60])
    assert np.mean((ridge.predict(series[60:]) > 0.5) == y[60:]) > 0.95


def test_series_in_blocks_and_columns_have_features() -> None:
    series = np.random.default_rng(0).standard_normal((20, 8))
    k = mc.Signature(2, static=mc.RBF(1.0))
    whole = mc.RandomSignature(k, 21, random_state=0).fit(series)
    parts = mc.RandomSignature(k, 21, random_state=0).fit(mc.Blocks([series[:9], series[9:]]))
    assert_allclose(parts.transform(series), whole.transform(series), rtol=1e-10, atol=1e-12)
    frame = pd.DataFrame({"curve": list(series), "size": np.arange(20.0)})
    named = mc.RandomSignature(k.on("curve"), 21, random_state=0).fit(frame)
    assert_allclose(named.transform(frame), whole.transform(series), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        mc.Signature(method="pde", refinement=4),
        mc.GlobalAlignment(1.0),
        mc.Signature().normalized(),
        mc.Signature() * mc.Signature(2),
        mc.Signature(static=mc.Polynomial(2)),
    ],
)
def test_kernels_without_such_features_are_refused(kernel: Any) -> None:
    with pytest.raises(NoFeatureMapError):
        mc.RandomSignature(kernel, 50).fit(X)


def test_each_level_needs_a_feature() -> None:
    with pytest.raises(ParameterError, match="depth 3, which needs at least 4"):
        mc.RandomSignature(mc.Signature(3), 3).fit(X)


def test_features_that_overflow_are_refused() -> None:
    huge = [1e90 * np.arange(4.0), np.arange(3.0)]
    with pytest.raises(DataError, match="beyond the range of float64"):
        mc.RandomSignature(mc.Signature(4), 9, random_state=0).fit_transform(huge)
