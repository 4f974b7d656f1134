from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import mercer as mc
from inference_levels import FALSE_ALARM, require_level
from mercer.inference import mmd_test
from mercer.inference.resampling import permutations


def naive_mmd(K: Any, n: int) -> float:
    """The unbiased estimate by double loops."""
    size = len(K)
    total = 0.0
    for i in range(size):
        for j in range(size):
            if i != j and (i < n) == (j < n):
                rows = n if i < n else size - n
                total += K[i, j] / (rows * (rows - 1))
            elif i != j:
                total -= K[i, j] / (n * (size - n))
    return total


def data(n: int = 13, m: int = 9, shift: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + shift


def test_statistics_are_those_of_explicit_permutations() -> None:
    x, y = data()
    result = mmd_test(x, y, mc.RBF(1.5), n_resamples=40, random_state=3)
    K = mc.RBF(1.5)(np.vstack([x, y]))
    orders = permutations(22, 40, np.random.RandomState(3))
    expected = [naive_mmd(K[np.ix_(p, p)], 13) for p in orders]
    assert result.statistic == pytest.approx(expected[0])
    np.testing.assert_allclose(result.null_distribution, expected[1:], atol=1e-11)
    assert result.pvalue == np.mean(np.array(expected) >= expected[0] - 1e-12)
    assert result.estimates.tolist() == pytest.approx([expected[0]])


def test_pvalues_are_those_of_all_splits() -> None:
    x, y = data(4, 4, shift=1.0)
    K = mc.RBF()(np.vstack([x, y]))
    values = []
    for rows in combinations(range(8), 4):
        order = [*rows, *(i for i in range(8) if i not in rows)]
        values.append(naive_mmd(K[np.ix_(order, order)], 4))
    exact = np.mean(np.array(values) >= values[0] - 1e-12)
    pvalue = mmd_test(x, y, mc.RBF(), n_resamples=20_000, random_state=0).pvalue
    # Five standard errors: a false alarm in two million runs.
    assert abs(pvalue - exact) < 5 * np.sqrt(exact * (1 - exact) / 20_000)


def test_wild_bootstrap_is_a_form_of_centred_weights() -> None:
    x, y = data()
    result = mmd_test(x, y, mc.RBF(), null="wild", n_resamples=500, dependence=3.0, random_state=0)
    K = mc.RBF()(np.vstack([x, y]))
    s = np.repeat([1 / 13, -1 / 9], [13, 9])
    assert result.statistic == pytest.approx(s @ K @ s)
    assert (result.null_distribution >= 0).all()
    assert result.details["null"] == "wild"


def test_gamma_agrees_with_permutations() -> None:
    x, y = data(60, 50, shift=0.55)
    kernel = mc.RBF("median")
    gamma = mmd_test(x, y, kernel, null="gamma")
    permuted = mmd_test(x, y, kernel, n_resamples=4000, random_state=0)
    assert abs(gamma.pvalue - permuted.pvalue) < 0.02
    assert "gamma distribution" in str(gamma)
    assert len(mmd_test(x, y, null="gamma").kernels) == 1


def test_blocks_remove_the_difference_between_blocks() -> None:
    """Days differ, and x and y have unequal shares of days; within days nothing differs."""
    rng = np.random.default_rng(0)
    x_day, y_day = np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [10, 30])
    x, y = (10.0 * day[:, None] + rng.normal(size=(40, 1)) for day in (x_day, y_day))
    days = np.concatenate([x_day, y_day])
    assert mmd_test(x, y, random_state=0).pvalue < 0.01
    assert mmd_test(x, y, blocks=days, random_state=0).pvalue > 0.05
    with pytest.raises(mc.exceptions.ParameterError, match="blocks needs permutations"):
        mmd_test(x, y, blocks=days, null="wild")


@pytest.mark.parametrize("draw", ["normal", "discrete", "ties"])
def test_level(draw: str) -> None:
    """200 simulations at 20 rows; the probability of a false alarm is 1e-6 for each case."""
    rng = np.random.default_rng(5)
    draws = {
        "normal": lambda n: rng.normal(size=(n, 2)),
        "discrete": lambda n: rng.integers(3, size=(n, 1)).astype(float),
        "ties": lambda n: np.repeat(rng.normal(size=(n // 2, 2)), 2, axis=0)[rng.permutation(n)],
    }
    count = 0
    for seed in range(200):
        pooled = draws[draw](24)
        result = mmd_test(pooled[:14], pooled[14:], n_resamples=99, random_state=seed)
        count += result.pvalue <= 0.05
    require_level(count, 200, 0.05)


def test_pvalues_at_the_null_are_not_conservative() -> None:
    """The level is exact, not only a bound: p-values <= 0.5 come in half of 200 simulations."""
    rng = np.random.default_rng(0)
    test = partial(mmd_test, n_resamples=49)
    small = sum(
        test(rng.normal(size=(12, 1)), rng.normal(size=(12, 1)), random_state=s).pvalue <= 0.5
        for s in range(200)
    )
    assert binom.ppf(FALSE_ALARM, 200, 0.5) <= small <= binom.isf(FALSE_ALARM, 200, 0.5)


def test_dependent_series_need_the_wild_bootstrap() -> None:
    """Two autoregressions: permutations reject often, the wild bootstrap rarely."""
    rng = np.random.default_rng(0)

    def series() -> Any:
        noise, values = rng.normal(size=300), np.zeros(300)
        for t in range(1, 300):
            values[t] = 0.8 * values[t - 1] + noise[t]
        return values[50:, None]

    kernel = mc.RBF(2.0)
    wild = permuted = 0
    for seed in range(40):
        x, y = series(), series()
        settings = {"n_resamples": 99, "random_state": seed}
        wild += mmd_test(x, y, kernel, null="wild", **settings).reject  # type: ignore[arg-type]
        permuted += mmd_test(x, y, kernel, **settings).reject  # type: ignore[arg-type]
    assert permuted > 15
    assert wild <= 10


def test_any_kernel_and_reproducible() -> None:
    words, others = ["abab", "abba", "aabb", "baba"], ["cdcd", "ccdd", "dcdc", "dddc"]
    kernel = mc.Spectrum(2).normalized()
    first = mmd_test(words, others, kernel, random_state=1)
    assert first.pvalue == mmd_test(words, others, kernel, random_state=1).pvalue
    assert first.pvalue == pytest.approx(2 / 70, abs=0.02)  # the split, and its mirror image


def test_the_kernel_that_rejected() -> None:
    """Samples that differ at a short distance alone: the shortest bandwidths show it."""
    rng = np.random.default_rng(0)
    grid = rng.integers(40, size=(150, 1)).astype(float)
    x, y = grid + 0.02 * rng.normal(size=(150, 1)), 40.0 * rng.random((150, 1)) - 0.5
    kernels = [mc.RBF(0.1), mc.RBF(30.0)]
    result = mmd_test(x, y, kernels, random_state=0)
    assert result.reject
    assert result.kernel == kernels[0]
    assert "RBF(length_scale=0.1) shows it most clearly." in str(result)


def test_bad_input() -> None:
    x, y = data()
    with pytest.raises(mc.exceptions.DataError, match=r"x has 1 row\(s\)"):
        mmd_test(x[:1], y)
    with pytest.raises(mc.exceptions.DataError, match="zero at every row"):
        mmd_test(x, y, mc.FunctionKernel(lambda A, B: np.zeros((len(A), len(B)))))
    with pytest.raises(mc.exceptions.ParameterError, match="null = 'normal'"):
        mmd_test(x, y, null="normal")
    assert mmd_test(np.ones((5, 1)), np.ones((6, 1)), random_state=0).pvalue == 1.0
    assert mmd_test(np.ones((5, 1)), np.ones((6, 1)), null="gamma").pvalue == 1.0
