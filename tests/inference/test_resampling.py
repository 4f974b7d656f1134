from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

import mercer as mc
from mercer.inference import resampling


def rng(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def test_permutations_begin_with_the_identity() -> None:
    orders = resampling.permutations(6, 50, rng())
    assert orders.shape == (51, 6)
    assert orders[0].tolist() == list(range(6))
    assert (np.sort(orders, axis=1) == np.arange(6)).all()


def test_permutations_stay_within_blocks() -> None:
    labels = resampling.block_labels("test", ["a", "b", "a", "c", "b", "a"], 6, "permutation")
    assert labels is not None
    orders = resampling.permutations(6, 200, rng(), labels)
    assert (labels[orders] == labels).all()
    assert len(np.unique(orders, axis=0)) == 6 * 2  # all permutations of three and of two rows


@pytest.mark.parametrize("labels", [[1, 2], [1, 2, 3]])
def test_useless_blocks_are_refused(labels: list[int]) -> None:
    with pytest.raises(mc.exceptions.DataError, match=r"test: (blocks has shape|every block)"):
        resampling.block_labels("test", labels, 3, "permutation")


def test_multipliers_have_the_stated_correlation() -> None:
    signs = resampling.multipliers(4, 10_000, rng(), 0.0)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    series = resampling.multipliers(30, 100_000, rng(), 5.0)
    products = (series[10] * series[10:]).mean(axis=1)
    # Six standard errors of a mean of 100,000 products: a false alarm in 1e9 runs.
    np.testing.assert_allclose(products, np.exp(-np.arange(20) / 5.0), atol=6 * 2**0.5 / 316)


def test_pvalues_count_ties_and_the_observation() -> None:
    statistics = np.array([[2.0], [3.0], [2.0 - 1e-14], [1.0]])
    values, pvalues = resampling.aggregated(statistics, np.ones(1))
    assert pvalues.tolist() == [0.75]
    assert resampling.upper_pvalue(values) == 0.75
    assert resampling.upper_pvalue(np.ones(5)) == 1.0


def test_the_aggregate_is_the_smallest_pvalue_of_each_row() -> None:
    statistics = np.random.default_rng(0).normal(size=(40, 3))
    values, pvalues = resampling.aggregated(statistics, np.ones(3))
    for row, value in zip(statistics, values, strict=True):
        smallest = min(np.mean(statistics >= row, axis=0))
        # The fraction that breaks ties is less than one rank.
        assert smallest - 1 / 40 < 10.0**-value <= smallest + 1e-12
    np.testing.assert_allclose(pvalues, np.mean(statistics >= statistics[0], axis=0))


def test_the_aggregated_pvalue_is_uniform_for_exchangeable_rows() -> None:
    """Each row in turn is the observed one: the p-values are then exactly 1/B, 2/B, ..."""
    statistics = np.random.default_rng(1).normal(size=(50, 4)).cumsum(axis=1)
    values, _ = resampling.aggregated(statistics, np.ones(4))
    pvalues = sorted(np.mean(values >= value) for value in values)
    np.testing.assert_allclose(pvalues, np.arange(1, 51) / 50)


def test_gamma_has_the_moments() -> None:
    quantiles, pvalue = resampling.gamma_null(2.0, 1.5, 0.5, 4000)
    assert pvalue == pytest.approx(gamma(4.5, scale=1 / 3).sf(2.0))
    assert quantiles.mean() == pytest.approx(1.5, rel=1e-3)
    assert resampling.gamma_null(0.0, 0.0, 0.0, 3)[1] == 1.0


def test_rounding_does_not_rank_rows_of_several_kernels() -> None:
    noise = 1e-18 * rng().normal(size=(50, 2))
    values, pvalues = resampling.aggregated(noise, np.ones(2))
    assert len(np.unique(values)) == 1
    assert pvalues.tolist() == [1.0, 1.0]
