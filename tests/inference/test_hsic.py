from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from inference_levels import require_level
from mercer.inference import hsic, hsic_test
from mercer.inference.resampling import permutations


def data(n: int = 12, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(n, 1))


def naive_hsic(K: Any, L: Any) -> float:
    """The estimate of Gretton et al. (2005) by sums over two, three and four rows."""
    n = len(K)
    pairs = sum(K[i, j] * L[i, j] for i in range(n) for j in range(n)) / n**2
    triples = sum(K[i, j] * L[i, k] for i in range(n) for j in range(n) for k in range(n)) / n**3
    return float(pairs - 2 * triples + K.mean() * L.mean())


def test_statistics_are_those_of_explicit_permutations() -> None:
    x, y = data()
    result = hsic_test(x, y, mc.RBF(), mc.Laplacian(), n_resamples=20, random_state=1)
    K, L = mc.RBF()(x), mc.Laplacian()(y)
    orders = permutations(12, 20, np.random.RandomState(1))
    expected = [naive_hsic(K, L[np.ix_(p, p)]) for p in orders]
    assert result.statistic == pytest.approx(expected[0])
    np.testing.assert_allclose(result.null_distribution, expected[1:], atol=1e-11)
    assert result.kernel == (mc.RBF(), mc.Laplacian())


def test_features_give_what_matrices_give(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(30)
    kernels = [mc.RBF(2.0), mc.RBF(5.0)], [mc.RBF(1.0), mc.RBF(3.0)]
    exact = hsic_test(x, y, *kernels, n_resamples=30, random_state=1)
    monkeypatch.setattr(hsic, "_DENSE", 10)
    monkeypatch.setattr(hsic, "_LEFT_OUT", 1e-13)
    features = hsic_test(x, y, *kernels, n_resamples=30, random_state=1)
    np.testing.assert_allclose(features.estimates, exact.estimates, rtol=1e-6)
    assert features.pvalue == exact.pvalue


def test_gamma_and_wild() -> None:
    x, y = data(60)
    y = y + 0.4 * x[:, :1]
    permuted = hsic_test(x, y, mc.RBF(1.5), mc.RBF(1.0), n_resamples=2000, random_state=0)
    gamma = hsic_test(x, y, mc.RBF(1.5), mc.RBF(1.0), null="gamma")
    assert gamma.statistic == pytest.approx(permuted.statistic)
    assert abs(gamma.pvalue - permuted.pvalue) < 0.02
    wild = hsic_test(x, y, mc.RBF(1.5), mc.RBF(1.0), null="wild", dependence=0.0, random_state=0)
    assert wild.statistic == pytest.approx(permuted.statistic)
    assert abs(wild.pvalue - permuted.pvalue) < 0.05


@pytest.mark.parametrize("discrete", [False, True])
def test_level(discrete: bool) -> None:
    """200 simulations at 20 rows; a false alarm has probability 1e-6 for each case."""
    rng = np.random.default_rng(0)
    rejections = 0
    for seed in range(200):
        x, y = rng.normal(size=(2, 20, 1))
        if discrete:
            x, y = np.round(x), np.round(y)
        rejections += hsic_test(x, y, n_resamples=49, random_state=seed).pvalue <= 0.1
    require_level(rejections, 200, 0.1)


def test_dependence_is_found_between_any_objects() -> None:
    words = ["ab" * (i % 2) + "ba" * (1 - i % 2) + "c" * (i // 4) for i in range(24)]
    numbers = np.array([float(i % 2) for i in range(24)])
    assert hsic_test(words, numbers, mc.Spectrum(2).normalized(), random_state=0).reject


def test_blocks_remove_a_common_cause() -> None:
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(10), 8)
    x, y = (5.0 * day[:, None] + rng.normal(size=(80, 1)) for _ in range(2))
    assert hsic_test(x, y, random_state=0).reject
    assert not hsic_test(x, y, blocks=day, random_state=0).reject


def test_bad_input() -> None:
    x, y = data()
    with pytest.raises(mc.exceptions.DataError, match="x has 12, y has 11 rows"):
        hsic_test(x, y[:11])
    with pytest.raises(mc.exceptions.DataError, match=r"x has 1 row\(s\)"):
        hsic_test(x[:1], y[:1])
    assert hsic_test(x, np.ones((12, 1)), random_state=0).pvalue == 1.0
