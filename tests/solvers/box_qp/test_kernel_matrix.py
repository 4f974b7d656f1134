"""Kernel matrices that give blocks and products, against their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import mercer as mc
from box_qps import gaussian, points
from mercer import _core
from mercer.solvers.box_qp.kernel_matrix import (
    CachedMatrix,
    LazyMatrix,
    RoundedMatrix,
    StoredMatrix,
    is_seen_invalid,
    kernel_matrix,
)


def test_data_far_from_zero_keep_their_digits() -> None:
    rng = np.random.default_rng(14)
    x = rng.normal(size=(100, 2))
    far = x + 1e6
    narrow = LazyMatrix(mc.RBF().gram(far))
    b = rng.normal(size=5)
    rows = np.arange(5)
    expected = gaussian(far, 0.5)[:, :5] @ b
    assert narrow.times(rows, b, precise=False) == pytest.approx(expected, abs=1e-5)
    values, positions = narrow.block(np.array([3, 1, 3]), precise=False)
    assert values.dtype == np.float32
    exact = gaussian(far, 0.5)[np.ix_([3, 1, 3], [3, 1, 3])]
    assert values[np.ix_(positions, positions)] == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 1500])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_sums_of_rows(dtype: Any, n: int, count: int) -> None:
    rng = np.random.default_rng(19)
    values = rng.normal(size=(9, n + 3)).astype(dtype)[:, :n]
    rows, factors = rng.integers(0, 9, size=count), rng.normal(size=count)
    out = np.ones(n)
    _core.row_sum(values, rows, factors, out, 2)
    assert out == pytest.approx(1.0 + factors @ values[rows].astype(float), abs=1e-13)


@pytest.mark.parametrize("kernel", [mc.RBF(3.0), mc.Polynomial(degree=3), mc.Linear()])
@pytest.mark.parametrize("d", [1, 40, 2000])
def test_rounding_is_bounded(kernel: mc.Kernel, d: int) -> None:
    x = np.random.default_rng(33).standard_t(3.0, size=(600, d)) / np.sqrt(d)
    gram = kernel.gram(x)
    error = np.abs(gram.toarray() - gram.narrowed().toarray()).max()
    assert 0 < 4 * error < LazyMatrix(gram).rounding


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("at", [None, [], [5], [7, 2, 2]])
def test_products_at_some_rows(precise: bool, at: list[int] | None) -> None:
    x, _ = points(34, 30)
    K, rows, factors = gaussian(x, 0.3), np.array([4, 9, 11]), np.array([1.0, -2.0, 0.5])
    expected = K[:, rows] @ factors
    where = None if at is None else np.array(at, np.int64)
    lazy = LazyMatrix(mc.RBF.from_gamma(0.3).gram(x))
    for matrix in (StoredMatrix(K), lazy, RoundedMatrix(lazy, K.astype(np.float32))):
        found = matrix.times(rows, factors, precise=precise, at=where)
        wanted = expected if where is None else expected[where]
        assert found == pytest.approx(wanted, abs=1e-14 if precise else 1e-6)


def test_values_of_some_rows_at_some_columns() -> None:
    x, _ = points(35, 30)
    kernel, rows, at = mc.RBF.from_gamma(0.3), np.array([4, 9, 11]), np.array([7, 2, 2, 9])
    K, lazy = gaussian(x, 0.3), LazyMatrix(kernel.gram(x))
    cached = CachedMatrix(kernel, kernel.prepare(x), 8 * 30 * 2.0)  # room for two rows
    for matrix in (StoredMatrix(K), lazy, RoundedMatrix(lazy, K.astype(np.float32)), cached):
        assert matrix.cross(rows, at) == pytest.approx(K[np.ix_(rows, at)], abs=1e-14)


def test_wide_rows_are_stored_in_float32_if_the_tolerance_is_coarse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mercer.solvers.box_qp.kernel_matrix._SMALL", 100)
    kernel, x = mc.RBF(5.0), np.random.default_rng(0).normal(size=(150, 250))
    rows = kernel.prepare(x)
    coarse, fine = (kernel_matrix(kernel, rows, tol=tol) for tol in (1e-3, 1e-6))
    assert isinstance(coarse, RoundedMatrix)
    assert coarse.values.dtype == np.float32
    assert isinstance(fine, StoredMatrix)
    assert fine.values.dtype == np.float64
    assert coarse.values == pytest.approx(fine.values, abs=coarse.rounding)


def test_blocks_share_their_memory_and_not_their_values() -> None:
    x, _ = points(36, 50)
    K, matrix = gaussian(x, 0.3), LazyMatrix(mc.RBF.from_gamma(0.3).gram(x))
    for rows in (np.arange(3, 40), np.array([5, 1, 5]), np.arange(17), np.array([2])):
        for precise in (False, True):
            values, positions = matrix.block(rows, precise=precise)
            part = values[np.ix_(positions, positions)]
            assert part == pytest.approx(K[np.ix_(rows, rows)], abs=1e-14 if precise else 1e-6)


def narrow_and_wide(n: int) -> dict[str, tuple[Any, bool]]:
    rng = np.random.default_rng(0)
    return {
        "narrow": (rng.normal(size=(n, 30)), False),
        "wide": (rng.normal(size=(n, 250)), True),
        "few numbers": (sparse.random_array((n, 5000), density=0.002, rng=0, format="csr"), False),
        "many numbers": (sparse.random_array((n, 5000), density=0.008, rng=0, format="csr"), True),
    }


@pytest.mark.parametrize("case", narrow_and_wide(1))
def test_values_of_wide_rows_are_stored_where_there_is_room(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 400
    monkeypatch.setattr("mercer.solvers.box_qp.kernel_matrix._SMALL", 100)
    x, is_wide = narrow_and_wide(n)[case]
    kernel = mc.RBF(5.0)
    stored = kernel_matrix(kernel, kernel.prepare(x))
    assert isinstance(stored, StoredMatrix if is_wide else LazyMatrix)
    assert isinstance(kernel_matrix(kernel, kernel.prepare(x), 8 * n * n - 1), LazyMatrix)
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    rows = np.array([3, 7, 7, 250])
    products = stored.times(rows, np.array([1.0, 2.0, -3.0, 0.5]), precise=True)
    distances = ((dense[rows, None] - dense) ** 2).sum(axis=2)
    expected = np.exp(-distances / 50).T @ [1.0, 2.0, -3.0, 0.5]
    np.testing.assert_allclose(products, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_the_unit_of_a_matrix_makes_no_difference(scale: float) -> None:
    skew = np.random.default_rng(0).normal(size=(60, 60))
    x, _ = points(0, 60)
    assert is_seen_invalid(StoredMatrix(scale * (skew + skew.T)))
    assert not is_seen_invalid(StoredMatrix(scale * gaussian(x, 0.5)))
    assert not is_seen_invalid(StoredMatrix(scale * np.zeros((60, 60))))
