"""Features of arc-cosine kernels are unbiased, of the stated variance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from monte_carlo import assert_mean, assert_variance, estimates, points


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_features_are_unbiased_with_the_stated_variance(order: int) -> None:
    kernel, X = mc.ArcCosine(order=order), points(4, 3, seed=11)
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 9, method="iid", random_state=seed), X, 500
    )
    exact = kernel(X)[0, 1:]
    assert_mean(values, exact)
    assert_variance(values, (2 * mc.ArcCosine(order=2 * order)(X)[0, 1:] - exact**2) / 9)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("method", ["orthogonal", "sobol"])
def test_dependent_arc_cosine_features_are_unbiased(order: int, method: str) -> None:
    kernel, X = 0.5 * mc.ArcCosine(order=order).on(0, 1) + mc.ArcCosine(order=1), points(4, 3)
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 15, method=method, random_state=seed), X, 200
    )
    assert_mean(values, kernel(X)[0, 1:])


@pytest.mark.parametrize("method", ["iid", "orthogonal", "sobol"])
def test_thresholds_agree_with_the_kernel_at_zero(method: str) -> None:
    kernel, X = mc.ArcCosine(order=0), np.vstack([np.zeros((2, 3)), points(3, 3, seed=12)])
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 9, method=method, random_state=seed), X, 400
    )
    # 1 - theta / pi, with theta = 0 for zero and itself and pi / 2 for zero and all others.
    exact = np.array([1.0, 0.5, 0.5, 0.5])
    assert_allclose(kernel(X)[0, 1:], exact, rtol=1e-12)
    assert_allclose(kernel.diag(X), 1.0, rtol=1e-12)
    assert_mean(values, exact)
    if method == "iid":
        assert_variance(values, (2 * exact - exact**2) / 9)
