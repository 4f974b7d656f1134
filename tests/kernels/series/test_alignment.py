"""Alignment kernels against dynamic programmes of single cells, and against peers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

import mercer as mc
from mercer.exceptions import UnresolvedParameterError, ValidityError
from mercer.testing import check_kernel
from series_oracles import dtw, log_global_alignment, matrix, random_series, soft_dtw

X = random_series(11, 2, seed=0)
Y = random_series(40, 2, seed=1)


def normalised(sigma: float, triangular: int = 0) -> np.ndarray:
    logs = matrix(log_global_alignment, X, Y, sigma, triangular)
    rows, cols = (
        np.array([log_global_alignment(x, x, sigma, triangular) for x in Z]) for Z in (X, Y)
    )
    return np.exp(logs - 0.5 * (rows[:, None] + cols))


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.0, 50.0])
@pytest.mark.parametrize("triangular", [0, 1, 3, 20])
def test_global_alignment_is_a_sum_over_alignments(sigma: float, triangular: int) -> None:
    k = mc.GlobalAlignment(sigma, triangular, layout="time,channels")
    assert_allclose(k(X, Y), normalised(sigma, triangular), rtol=1e-9, atol=1e-300)
    assert_array_equal(k.diag(X), np.ones(len(X)))
    assert_allclose(k(X), k(X, list(X)), rtol=1e-9, atol=1e-300)


def test_global_alignment_of_unlike_series_is_exact_in_logarithms() -> None:
    # Prefixes of one row differ by more than the range of float64.
    x = np.r_[np.zeros(40), np.full(40, 60.0), np.zeros(3)]
    z = np.r_[np.zeros(3), np.full(2, 60.0), np.zeros(90)]
    k = mc.GlobalAlignment(1.0)
    logs = [log_global_alignment(a[:, None], b[:, None], 1.0) for a, b in ((x, z), (x, x), (z, z))]
    wanted = np.exp(logs[0] - 0.5 * (logs[1] + logs[2]))
    assert wanted > 1e-300
    assert_allclose(k([x], [z]), [[wanted]], rtol=1e-9)


def test_long_series_neither_overflow_nor_underflow() -> None:
    rng = np.random.default_rng(0)
    t = np.linspace(0, 60, 3000)
    series = [np.sin(t), np.sin(t + 0.3), np.sin(1.1 * t[:2500]), rng.standard_normal(2000)]
    K = mc.GlobalAlignment().resolve(series)(series)
    assert np.isfinite(K).all()
    assert_array_equal(K.diagonal(), np.ones(4))
    assert K[0, 1] > K[0, 3]


@pytest.mark.parametrize("window", [None, 0, 2, 100])
def test_dtw_is_the_least_cost(window: int | None) -> None:
    k = mc.DTW(window, scale=20.0, layout="time,channels")
    assert_allclose(k(X, Y), np.exp(-matrix(dtw, X, Y, window) / 20.0), rtol=1e-12)
    assert_allclose(k(X), np.exp(-matrix(dtw, X, X, window) / 20.0), rtol=1e-12)


@pytest.mark.parametrize("gamma", [1e-4, 0.1, 1.0, 30.0])
def test_soft_dtw_is_a_divergence(gamma: float) -> None:
    rows, cols = (np.array([soft_dtw(x, x, gamma) for x in Z]) for Z in (X, Y))
    divergence = matrix(soft_dtw, X, Y, gamma) - 0.5 * (rows[:, None] + cols)
    k = mc.SoftDTW(gamma, scale=20.0, layout="time,channels")
    assert_allclose(k(X, Y), np.exp(-divergence / 20.0), rtol=1e-10)
    assert_array_equal(k(X).diagonal(), np.ones(len(X)))


def test_soft_dtw_of_little_softness_is_dtw() -> None:
    hard, soft = mc.DTW(scale=20.0, layout="time,channels"), mc.SoftDTW(1e-7, 20.0, "time,channels")
    assert_allclose(soft(X, Y), hard(X, Y), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_global_alignment_is_positive_semi_definite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = random_series(30, int(rng.integers(1, 4)), seed, high=25)
    for triangular in (0, int(rng.integers(1, 30))):
        k = mc.GlobalAlignment(10 ** rng.uniform(-1, 2), triangular, layout="time,channels")
        assert np.linalg.eigvalsh(k(series))[0] > -1e-10
    assert k.is_psd is True


def test_dtw_says_that_it_is_not_valid() -> None:
    assert mc.DTW(scale=1.0).is_psd is False
    assert mc.SoftDTW(scale=1.0).is_psd is None
    series = np.random.default_rng(0).standard_normal((30, 20)).cumsum(axis=1)
    with pytest.raises(ValidityError, match="is not valid"):
        mc.SVC(mc.DTW()).fit(series, np.arange(30) % 2)
    assert mc.SVC(mc.DTW(), psd="clip").fit(series, np.arange(30) % 2).predict(series).shape == (
        30,
    )


def test_rules_are_medians_of_the_series() -> None:
    series = [np.arange(4.0), np.arange(9.0) ** 2, np.full(5, 3.0)]
    sigma = mc.GlobalAlignment().resolve(series).sigma
    distances = pdist(np.concatenate(series)[:, None])
    assert_allclose(sigma, np.median(distances[distances > 0]) * np.sqrt(5))
    costs = [dtw(series[i][:, None], series[j][:, None]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert_allclose(mc.DTW().resolve(series).scale, np.median(costs))
    assert mc.DTW().resolve([[1.0, 1.0]] * 3).scale == 1.0
    with pytest.raises(UnresolvedParameterError, match="sigma = 'median' is not resolved"):
        mc.GlobalAlignment()(series)


def test_threads_do_not_change_values() -> None:
    series = np.random.default_rng(0).standard_normal((60, 50))
    for k in (mc.GlobalAlignment(5.0), mc.DTW(scale=1.0), mc.SoftDTW(scale=1.0)):
        with mc.threads(1):
            one = k(series)
        with mc.threads(2):
            assert_array_equal(k(series), one)


def test_alignment_kernels_pass_the_checks_of_kernels() -> None:
    for k in (mc.GlobalAlignment(2.0), mc.DTW(scale=5.0), mc.SoftDTW(scale=5.0)):
        check_kernel(k, [x[:, 0] for x in X])


def test_alignment_kernels_agree_with_tslearn() -> None:
    tslearn = pytest.importorskip("tslearn.metrics")
    Z = np.random.default_rng(0).standard_normal((9, 20, 2))
    wanted = tslearn.cdist_gak(Z, sigma=3.0)
    assert_allclose(mc.GlobalAlignment(3.0, layout="time,channels")(Z), wanted, rtol=1e-8)
    wanted = np.exp(-np.square(tslearn.cdist_dtw(Z)))
    assert_allclose(mc.DTW(scale=1.0, layout="time,channels")(Z), wanted, rtol=1e-8)
