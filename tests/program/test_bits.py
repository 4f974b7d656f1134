"""Inner products of bits are those of the numbers, and other numbers stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer import _core
from mercer.kernels.base import pairs_of
from mercer.program.bits import in_bits

RNG = np.random.default_rng(2)


def fingerprints(n: int, columns: int, dtype: Any = float) -> Any:
    return (RNG.random((n, columns)) < 0.1).astype(dtype)


def uses_bits(kernel: mc.Kernel, X: Any, Z: Any = None) -> bool:
    pairs = pairs_of(kernel, X, Z)
    return in_bits(kernel.expression, pairs, np.dtype(float)) is not kernel.expression


@pytest.mark.parametrize("columns", [64, 100, 513, 2048, 15000])
def test_common_bits_are_counted(columns: int) -> None:
    a, b = fingerprints(7, columns), (RNG.random((5, columns)) < 0.9).astype(float)
    for dtype in (np.float32, np.float64):
        out = np.empty((7, 5), dtype)
        _core.common_bits(_core.pack_bits(a), _core.pack_bits(b), out, 2)
        assert_array_equal(out, a @ b.T)
    assert_array_equal(np.bitwise_count(_core.pack_bits(a)).sum(axis=1), a.sum(axis=1))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, float])
def test_tanimoto_of_fingerprints_is_that_of_sets(dtype: Any) -> None:
    X, Z = fingerprints(150, 300, dtype), fingerprints(120, 300, dtype)
    X[3] = Z[5] = 0
    assert uses_bits(mc.Tanimoto(), X)
    for other in (X, Z):
        common = X.astype(float) @ other.astype(float).T
        union = X.sum(axis=1)[:, None] + other.sum(axis=1)[None, :].astype(float) - common
        wanted = np.where(union > 0, common / np.where(union > 0, union, 1), 1.0)
        assert_allclose(
            mc.Tanimoto()(X, other), wanted, rtol=1e-6 if dtype == np.float32 else 1e-14
        )
    K = mc.Tanimoto()(X)
    assert_array_equal(mc.Tanimoto()(X, X), K)
    assert_allclose(mc.Tanimoto().gram(X) @ np.ones(150), K.sum(axis=1), rtol=1e-5)


def test_numbers_that_are_not_bits_are_multiplied() -> None:
    X = fingerprints(150, 100)
    X[-1, -1] = 2.0
    assert not uses_bits(mc.Tanimoto(), X)
    assert not uses_bits(mc.Tanimoto(), fingerprints(150, 100), X)
    assert not uses_bits(mc.Linear(), fingerprints(150, 8))
    common = X @ X.T
    union = np.diag(common)[:, None] + np.diag(common) - common
    assert_allclose(mc.Tanimoto()(X), common / np.where(union > 0, union, 1), rtol=1e-12)


def test_other_kernels_of_inner_products_use_bits_too() -> None:
    X = fingerprints(1500, 128)
    assert uses_bits(mc.Linear(), X)
    assert_array_equal(mc.Linear()(X), X @ X.T)
    assert_allclose(mc.Polynomial(2)(X), (X @ X.T + 1) ** 2, rtol=1e-12)
    assert_allclose((2.0 * mc.Tanimoto() + mc.Linear()).diag(X[:200]), 2 + X[:200].sum(axis=1))


def test_models_of_fingerprints_fit() -> None:
    X = fingerprints(200, 256)
    y = X[:, :5].sum(axis=1)
    model = mc.GaussianProcessRegressor(1.0 * mc.Tanimoto()).fit(X[:150], y[:150])
    assert model.predict(X[150:]).shape == (50,)
