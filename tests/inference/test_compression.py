from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from inference_levels import require_level
from mercer.inference import mmd_test
from mercer.inference.compression import bin_matrix, bin_size, coresets


def test_bins_have_the_same_size_and_rows_of_one_sample() -> None:
    points = mc.Points(np.random.default_rng(0).normal(size=(1730, 2)))
    bins, first = coresets(mc.RBF(), points, 1300, np.random.RandomState(0))
    assert bin_size(1300, 430) == 17
    assert bins.shape == (1300 // 17 + 430 // 17, 9)
    assert first == 1300 // 17
    assert bins[:first].max() < 1300 <= bins[first:].min()
    assert len(np.unique(bins)) == bins.size


def test_coresets_represent_their_samples() -> None:
    """Thinned bins are closer to all rows than random rows are, in the mean of 20 subsets."""
    x = np.random.default_rng(0).normal(size=(4000, 2))
    y = x + 0.5
    points = mc.Points(np.vstack([x, y]))
    bins, first = coresets(mc.RBF(), points, 4000, np.random.RandomState(0))
    everything = mc.inference.mean_embedding(x, mc.RBF())
    rng = np.random.default_rng(0)
    some = [x[rng.choice(4000, bins[:first].size, replace=False)] for _ in range(20)]
    chosen, *random = (
        (mc.inference.mean_embedding(rows, mc.RBF()) - everything).norm
        for rows in (x[bins[:first].ravel()], *some)
    )
    assert chosen < 0.5 * np.mean(random)


def test_the_matrix_has_means_of_kernel_values() -> None:
    x = np.random.default_rng(0).normal(size=(12, 2))
    bins = np.random.default_rng(1).permutation(12).reshape(4, 3)
    matrix = bin_matrix(mc.RBF(), mc.Points(x), bins).block(slice(0, 4), slice(0, 4))
    K = mc.RBF()(x)
    expected = [[K[np.ix_(a, b)].mean() for b in bins] for a in bins]
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)


def test_level_and_power() -> None:
    """60 simulations of 600 rows; the false alarm of the level is 1e-6."""
    rng = np.random.default_rng(0)
    null = other = 0
    for seed in range(60):
        x, y = np.round(rng.normal(size=(2, 300, 2)), 1)
        options: dict[str, Any] = {"compress": True, "n_resamples": 39, "random_state": seed}
        null += mmd_test(x, y, mc.RBF("columns"), **options).reject
        other += mmd_test(x, y + 0.4, mc.RBF("columns"), **options).reject
    require_level(null, 60, 0.05)
    assert other > 50


def test_many_rows_are_compressed() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 2600, 1))
    result = mmd_test(x, y + 0.2, n_resamples=99, random_state=0)
    assert result.details["compressed_rows"] < 2000
    assert result.reject
    assert len(result.kernels) == 20
    few = mmd_test(x[:300], y[:300], mc.RBF(), n_resamples=9, random_state=0)
    assert "compressed_rows" not in few.details


def test_several_kernels_share_coresets() -> None:
    x, y = ["ab", "ba", "aab"] * 10, ["bc", "cb", "bbc"] * 10
    kernels = [mc.Spectrum(1), mc.Spectrum(2)]
    assert mmd_test(x, y, kernels, compress=True, n_resamples=99, random_state=0).reject


def test_bad_input() -> None:
    x = np.arange(20.0)
    with pytest.raises(mc.exceptions.ParameterError, match="compress = True needs permutations"):
        mmd_test(x, x, compress=True, null="wild")
    with pytest.raises(mc.exceptions.ParameterError, match="blocks are given"):
        mmd_test(x, x, compress=True, blocks=np.arange(40) // 4)
    with pytest.raises(mc.exceptions.ParameterError, match="compress = 'yes'"):
        mmd_test(x, x, compress="yes")  # type: ignore[arg-type]
