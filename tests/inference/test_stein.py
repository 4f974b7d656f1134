from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from inference_levels import require_level
from mercer.inference import goodness_of_fit_test
from mercer.inference.stein import SteinKernel


def naive_stein(kernel: mc.Kernel, x: Any, y: Any, s: Any, t: Any, h: float = 1e-4) -> float:
    """The Stein kernel of two rows by central differences."""

    def k(a: Any, b: Any) -> float:
        return float(kernel(a[None], b[None])[0, 0])

    total = float(s @ t) * k(x, y)
    for j, e in enumerate(h * np.eye(len(x))):
        total += s[j] * (k(x, y + e) - k(x, y - e)) / (2 * h)
        total += t[j] * (k(x + e, y) - k(x - e, y)) / (2 * h)
        mixed = k(x + e, y + e) - k(x + e, y - e) - k(x - e, y + e) + k(x - e, y - e)
        total += mixed / (4 * h**2)
    return total


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF(1.3),
        mc.RBF([0.7, 2.0]),
        mc.RationalQuadratic(1.5, alpha=0.5),
        mc.RationalQuadratic(2.0, alpha=3.0),
    ],
)
def test_the_stein_kernel_is_that_of_differences(kernel: mc.Kernel) -> None:
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(2, 4, 2))
    stein = SteinKernel.of(kernel, x, s)
    block = stein.block(slice(0, 2), slice(0, 4))
    expected = [[naive_stein(kernel, x[i], x[j], s[i], s[j]) for j in range(4)] for i in range(2)]
    np.testing.assert_allclose(block, expected, atol=1e-6)
    np.testing.assert_allclose(stein.diagonal()[:2], block.diagonal(), rtol=1e-12)


def test_the_statistic_is_the_mean_over_pairs() -> None:
    x = np.random.default_rng(0).normal(size=(15, 2))
    result = goodness_of_fit_test(x, -x, mc.RBF(), random_state=0)
    U = SteinKernel.of(mc.RBF(), x, -x).block(slice(0, 15), slice(0, 15))
    assert result.statistic == pytest.approx((U.sum() - np.trace(U)) / (15 * 14))


def test_level_and_power() -> None:
    """150 simulations of 50 rows; a false alarm has probability 1e-6."""
    rng = np.random.default_rng(0)
    null = other = 0
    for seed in range(150):
        x = rng.normal(size=(50, 1))
        options: dict[str, Any] = {"n_resamples": 99, "alpha": 0.1, "random_state": seed}
        null += goodness_of_fit_test(x, lambda X: -X, **options).reject
        other += goodness_of_fit_test(x, lambda X: 1.0 - X, **options).reject
    require_level(null, 150, 0.1)
    assert other > 140


def test_chains_take_dependent_multipliers() -> None:
    rng = np.random.default_rng(1)
    x = np.zeros((400, 1))
    for t in range(1, 400):
        x[t] = 0.9 * x[t - 1] + np.sqrt(1 - 0.81) * rng.normal()
    assert goodness_of_fit_test(x, lambda X: -X, dependence=30.0, random_state=0).pvalue > 0.01


def test_bad_input() -> None:
    x = np.ones((5, 2))
    with pytest.raises(mc.exceptions.DataError, match="the score has shape"):
        goodness_of_fit_test(x, lambda X: X[:, 0])
    with pytest.raises(mc.exceptions.ParameterError, match="no Stein kernel"):
        goodness_of_fit_test(x, -x, mc.Linear())
    with pytest.raises(mc.exceptions.DataError, match=r"1 row\(s\)"):
        goodness_of_fit_test(x[:1], -x[:1])
