"""Signature kernels against explicit tensors, closed forms and invariances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import iv

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.testing import check_kernel
from series_oracles import random_series, signature

X = [0.3 * x for x in random_series(9, 2, seed=0)]
Y = [0.3 * x for x in random_series(37, 2, seed=1)]


def tensors(series: list[np.ndarray], depth: int) -> np.ndarray:
    return np.array([signature(x, depth) for x in series])


@pytest.mark.parametrize("depth", range(1, 7))
def test_truncated_kernels_are_inner_products_of_tensors(depth: int) -> None:
    k = mc.Signature(depth, layout="time,channels")
    wanted = tensors(X, depth) @ tensors(Y, depth).T
    assert_allclose(k(X, Y), wanted, rtol=1e-10, atol=1e-10)
    assert_allclose(k(X), tensors(X, depth) @ tensors(X, depth).T, rtol=1e-10, atol=1e-10)
    assert_allclose(k.diag(X), np.square(tensors(X, depth)).sum(axis=1), rtol=1e-10)


def test_the_equation_sums_all_levels() -> None:
    wanted = tensors(X, 9) @ tensors(Y, 9).T
    errors = []
    for refinement in (2, 3, 4):
        k = mc.Signature(method="pde", refinement=refinement, layout="time,channels")
        errors.append(np.abs(k(X, Y) - wanted).max())
    assert errors[2] < errors[1] / 3 < errors[0] / 9
    assert errors[2] < 1e-3


@pytest.mark.parametrize("product", [-0.5, 0.1, 2.0])
def test_straight_lines_have_a_bessel_function(product: float) -> None:
    lines = [[0.0, 1.0]], [[0.0, product]]
    root = np.sqrt(complex(product))
    wanted = iv(0, 2 * root).real
    assert_allclose(mc.Signature(6)(*lines), [[wanted]], rtol=2e-5)
    assert_allclose(mc.Signature(method="pde", refinement=8)(*lines), [[wanted]], rtol=1e-5)


@pytest.mark.parametrize("base", ["linear", "rbf"])
def test_repeated_points_and_shifts_change_nothing(base: str) -> None:
    k = mc.Signature(base=base, layout="time,channels")
    slow = [np.repeat(x, 1 + np.arange(len(x)) % 3, axis=0) for x in X]
    assert_allclose(k(slow, Y), k(X, Y), rtol=1e-12)
    if base == "linear":
        assert_allclose(k([x + 5.0 for x in X], Y), k(X, Y), rtol=1e-10, atol=1e-12)
    whole = mc.Signature(method="pde", refinement=2, base=base, layout="time,channels")
    assert_allclose(whole(slow, Y), whole(X, Y), rtol=1e-12)


def test_the_gaussian_base_is_the_kernel_of_its_features() -> None:
    # Random cosines, whose inner products are close to the Gaussian kernel.
    centres = np.random.default_rng(0)
    frequencies, phases = centres.standard_normal((2, 4000)) / 2.0, centres.uniform(0, 7, 4000)
    lifted = [np.cos(x @ frequencies + phases) * np.sqrt(2 / 4000) for x in X]
    k = mc.Signature(3, base="rbf", length_scale=2.0, layout="time,channels")
    wide = mc.Signature(3, layout="time,channels")
    assert_allclose(k(X), wide(lifted), rtol=0.1)


def test_time_and_lead_lag_are_channels() -> None:
    timed = [np.column_stack([x, np.linspace(0.0, 2.0, len(x))]) for x in X]
    k = mc.Signature(3, layout="time,channels")
    assert_allclose(k.replace(time=2.0)(X), k(timed))
    pairs = []
    for x in X:
        path = [(x[0], x[0])]
        for before, after in pairwise(x):
            path += [(after, before), (after, after)]
        pairs.append(np.array([np.concatenate(point) for point in path]))
    assert_allclose(k.replace(lead_lag=True)(X), k(pairs))


def test_series_of_one_time_have_the_trivial_signature() -> None:
    for method in ("truncated", "pde"):
        assert_array_equal(mc.Signature(method=method)([[1.0], [3.0]]), np.ones((2, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_signature_kernels_are_positive_semi_definite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = random_series(30, int(rng.integers(1, 4)), seed, high=25)
    depth, base = int(rng.integers(1, 6)), ("linear", "rbf")[seed % 2]
    k = mc.Signature(depth, base=base, length_scale=3.0, layout="time,channels").normalized()
    assert np.linalg.eigvalsh(k(series))[0] > -1e-9
    assert k.is_psd is True
    check_kernel(k, series[:8])


def test_long_series_need_memory_for_one_row() -> None:
    t = np.linspace(0.0, 1.0, 3000)
    circle = np.column_stack([np.cos(6 * t), np.sin(6 * t)])
    K = mc.Signature(layout="time,channels")([circle, circle[::2], circle[::-1]])
    # Every second point of a fine curve is nearly the same path.
    assert_allclose(K[0, 0], K[0, 1], rtol=1e-3)


def test_the_median_scales_series() -> None:
    series = [np.arange(5.0), np.zeros(3)]
    assert mc.Signature(length_scale="median").resolve(series).length_scale == 2.0
    with pytest.raises(ParameterError, match="depth"):
        mc.Signature(7)
