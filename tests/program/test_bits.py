"""Inner products of bits are those of the numbers, and other numbers stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer import _core
from mercer.kernels.base import pairs_of
from mercer.program import reference
from mercer.program.specialise import reads, specialise

RNG = np.random.default_rng(2)


def fingerprints(n: int, columns: int, dtype: Any = float) -> Any:
    return (RNG.random((n, columns)) < 0.1).astype(dtype)


def uses_bits(kernel: mc.Kernel, X: Any, Z: Any = None) -> bool:
    return any(
        slot.bits
        for slot in reads(specialise(kernel.expression, pairs_of(kernel, X, Z)).root).slots
    )


@pytest.mark.parametrize("columns", [64, 100, 513, 2048, 15000])
def test_common_bits_are_counted(columns: int) -> None:
    a, b = fingerprints(70, columns), (RNG.random((37, columns)) < 0.9).astype(float)
    for dtype in (np.float32, np.float64):
        K = mc.Linear()(a.astype(dtype), b.astype(dtype))
        assert K.dtype == dtype
        assert_array_equal(K, a @ b.T)


@pytest.mark.parametrize("columns", [1, 31, 64, 65, 100, 2048])
def test_bits_are_packed_in_their_order(columns: int) -> None:
    X = fingerprints(9, columns)
    for data in (X, X.astype(np.float32), np.asfortranarray(X), -X + 1):
        words = _core.pack_bits(data, 2)
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        assert_array_equal(bits[:, :columns], data)
        assert not bits[:, columns:].any()
    for other in (2.0, 0.5, -1.0):
        for place in (0, columns - 1):
            changed = X.copy()
            changed[-1, place] = other
            assert _core.pack_bits(changed) is None


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


def test_the_reference_counts_the_same_bits() -> None:
    X, Z = fingerprints(20, 130), fingerprints(15, 130)
    kernel = mc.Tanimoto()
    pairs = pairs_of(kernel, X, Z)
    packed = specialise(kernel.expression, pairs).root
    assert_allclose(reference.evaluate(packed, pairs), kernel(X, Z), rtol=1e-14)
    assert_allclose(
        reference.evaluate(kernel.expression, pairs), reference.evaluate(packed, pairs), rtol=1e-14
    )


def test_products_gradients_and_parts_count_bits() -> None:
    X = fingerprints(300, 256)
    K, other = mc.Tanimoto()(X), mc.Tanimoto()(X + 1e-300)  # which are no bits
    assert not uses_bits(mc.Tanimoto(), X + 1e-300)
    assert_allclose(K, other, rtol=1e-13, atol=1e-200)
    v = RNG.normal(size=(300, 2))
    assert_allclose(mc.Tanimoto().gram(X).normal_matmat(v), other.T @ (other @ v), rtol=1e-10)
    assert_allclose(
        mc.Tanimoto().gram(X).input_gradient(v @ v.T),
        mc.Tanimoto().gram(X + 1e-300).input_gradient(v @ v.T),
        rtol=1e-8,
        atol=1e-10,
    )
    assert_allclose(mc.Tanimoto().gram(X) @ v, other @ v, rtol=1e-10)
    kernel = 2.0 * mc.Tanimoto()
    slopes = [kernel.gram(data).gradient(v @ v.T) for data in (X, X + 1e-300)]
    assert_allclose(*slopes, rtol=1e-10)
    y = X[:, :5].sum(axis=1)
    for model in (mc.SVC(mc.Tanimoto()), mc.KernelRidge(mc.Tanimoto(), alpha=0.1)):
        target = (y > 0) if isinstance(model, mc.SVC) else y
        fits = [model.fit(data[:200], target[:200]).predict(X[200:]) for data in (X, X + 1e-300)]
        assert_allclose(*np.asarray(fits, float), rtol=1e-6, atol=1e-8)


def test_a_process_of_fingerprints_learns_a_scale() -> None:
    X = fingerprints(200, 256)
    y = X[:, :5].sum(axis=1)
    fits = [
        mc.GaussianProcessRegressor(1.0 * mc.Tanimoto()).fit(data, y) for data in (X, X + 1e-300)
    ]
    assert_allclose(*(fit.log_marginal_likelihood_ for fit in fits), rtol=1e-8)
