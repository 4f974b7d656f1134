"""Positive features are unbiased, of the stated variance, and do not overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError
from monte_carlo import assert_mean, assert_variance, estimates, points


@pytest.mark.parametrize("n_components", [10, 1])
def test_positive_features_are_unbiased_with_the_stated_variance(n_components: int) -> None:
    X = 0.4 * points(4, 3, seed=8)
    kernel = 2.0 * (mc.Linear() / 1.5).exp()
    values = estimates(
        lambda seed: mc.PositiveFeatures(kernel, n_components, method="iid", random_state=seed),
        X,
        500,
    )
    exact = kernel(X)[0, 1:]
    assert_mean(values, exact)
    t = ((X[0] + X[1:]) ** 2).sum(axis=1) / 1.5
    if n_components == 1:
        assert_variance(values, exact**2 * (np.exp(t) - 1))
    else:
        assert_variance(values, exact**2 * (np.cosh(t) - 1) / (n_components / 2))


@pytest.mark.parametrize("method", ["orthogonal", "sobol"])
def test_dependent_positive_features_are_unbiased(method: str) -> None:
    X = 0.5 * points(4, 3, seed=9)
    kernel = (mc.Linear().on(0) + 0.5 * mc.Linear().on(1, 2) + 0.3).exp() + 0.5 * mc.Linear().exp()
    values = estimates(
        lambda seed: mc.PositiveFeatures(kernel, 21, method=method, random_state=seed), X, 200
    )
    assert_mean(values, kernel(X)[0, 1:])


def test_positive_features_do_not_overflow_on_the_way() -> None:
    """Attention at norms where exp(w.x), exp(-|x|^2 / 2) and the kernel are out of range."""
    X = 40.0 * points(5, 64, seed=10)
    transformer = mc.PositiveFeatures(n_components=200, random_state=0).fit(X)
    logs = transformer.log_transform(X)
    assert np.isfinite(logs).all()
    small = 0.01 * X
    assert_allclose(np.log(transformer.transform(small)), transformer.log_transform(small))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 16.0), (np.float32, 5.5)])
def test_positive_features_that_vanish_are_refused(dtype: Any, scale: float) -> None:
    X = points(20, 16)
    long = (scale * X).astype(dtype)
    kernel = (mc.Linear() / 4).exp() + 0.5
    transformer = mc.PositiveFeatures(kernel, 500, random_state=0).fit(X)
    # In logarithms nothing is lost: a loop over float64 says which rows have nothing in range.
    W = transformer.maps_[0].matrices[0]
    signed = np.hstack([W, -W[:, :-1]])  # 499 features, and that of the constant
    largest = np.array([(x @ signed).max() / 2 - x @ x / 8 for x in scale * X]) - np.log(499) / 2
    gone = np.flatnonzero(2 * largest < np.log(np.finfo(dtype).tiny))
    assert 0 < len(gone) < 20
    with pytest.raises(DataError, match=rf"features of row {gone[0]} are below .* log_transform"):
        transformer.transform(long)
    kept = np.delete(long, gone, axis=0)
    Phi, logs = transformer.transform(kept), transformer.log_transform(kept)
    assert ((Phi[:, :-1] ** 2).sum(axis=1) > 0).all()
    rtol = np.sqrt(np.finfo(dtype).eps)
    assert_allclose(np.log(Phi.max(axis=1)), logs.max(axis=1), rtol=rtol)
    assert_allclose(transformer.log_transform(long)[:, :-1].max(axis=1), largest, rtol=rtol)


def test_positive_features_beyond_the_upper_end_are_refused_too() -> None:
    X = 60.0 * points(3, 1)
    transformer = mc.PositiveFeatures(mc.Linear().exp() * np.exp(600.0), 50, random_state=0).fit(X)
    transformer.maps_[0].matrices[0][:] = 60.0  # w.x - |x|^2 / 2 is largest, 1800, at x = w
    with pytest.raises(DataError, match=r"beyond the range of float64.* log_transform"):
        transformer.transform(np.array([[60.0]]))
