"""Linear algebra in blocks on the engine's threads, against NumPy."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

import mercer as mc
from mercer.linalg import blocked
from mercer.parallel import single_blas

Array = NDArray[Any]
TYPES = (np.float64, np.float32)


def error(result: Array, expected: Array) -> float:
    """The largest error, in rounding units of the largest entry."""
    eps = float(np.finfo(result.dtype).eps)
    return float(np.abs(result - expected).max(initial=0)) / (eps * np.abs(expected).max(initial=1))


def matrices(m: int, k: int, n: int, dtype: Any) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


def covariance(n: int, dtype: Any) -> Array:
    root = np.random.default_rng(1).normal(size=(n, n + 5))
    return (root @ root.T / n + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 0, 2), (5, 700, 1), (1, 3, 900), (600, 40, 530), (900, 7, 3)]
)
def test_products(shape: tuple[int, int, int], dtype: Any) -> None:
    a, b = matrices(*shape, dtype)
    # Each entry is a sum of k products: its rounding is at most k units.
    bound = 4 * (shape[1] + 1)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for left in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
        assert error(blocked.multiply(left, b), expected) <= bound
        assert error(blocked.multiply(left, np.asfortranarray(b)), expected) <= bound
    wide = np.ones((len(a), b.shape[1] + 4), dtype)
    blocked.multiply(a, b, wide[:, 2:-2], alpha=-2.0, beta=3.0)
    assert error(wide[:, 2:-2], 3 - 2 * expected) <= bound
    assert (wide[:, [0, 1, -2, -1]] == 1).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_a_triangle_of_a_product(triangle: Any, order: Any) -> None:
    a, _ = matrices(40, 700, 1, np.float64)
    out = np.ones((700, 700), order=order)
    blocked.multiply(a.T, a, out, beta=1.0, triangle=triangle)
    part = np.tril if triangle == "lower" else np.triu
    assert error(part(out), part(a.T @ a + 1)) <= 200


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 100, 255, 256, 257, 700])
def test_factors_and_triangular_solutions(n: int, dtype: Any) -> None:
    matrix = covariance(n, dtype)
    a = np.array(matrix, order="F")
    assert blocked.factorise(a)
    np.testing.assert_array_equal(np.tril(a, -1), np.tril(matrix, -1))
    upper = np.triu(a).astype(np.float64)
    assert error((upper.T @ upper).astype(dtype), matrix) <= 4 * n + 4
    right = np.random.default_rng(2).normal(size=(n, 600)).astype(dtype)
    for transposed in (False, True):
        solved = blocked.solve_triangular(a, np.array(right, order="F"), transposed=transposed)
        back = (upper.T if transposed else upper) @ solved.astype(np.float64)
        assert error(back.astype(dtype), right) <= 40 * n + 40


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [0, 3, 40, 450])
def test_factors_of_matrices_with_zeros_above_the_first_entries_of_columns(
    width: int, dtype: Any
) -> None:
    n, rng = 900, np.random.default_rng(3)
    first = np.maximum(0, np.arange(n) - rng.integers(0, width + 1, size=n))
    first[[500, 899]] = 0  # two columns that reach up to the top
    root = np.where(np.arange(n)[:, None] >= first, np.triu(rng.normal(size=(n, n))), 0.0)
    root[np.diag_indices(n)] = np.sqrt(n)
    matrix = (root.T @ root).astype(dtype)
    a = np.array(matrix, order="F")
    assert blocked.factorise(a)
    upper = np.triu(a).astype(np.float64)
    assert error((upper.T @ upper).astype(dtype), matrix) <= 4 * n
    assert not upper[np.arange(n)[:, None] < first].any()
    np.testing.assert_array_equal(np.tril(a, -1), np.tril(matrix, -1))


def test_entries_below_rounding_do_not_count_in_a_factor() -> None:
    places = np.sort(np.random.default_rng(4).uniform(0, 200, size=700))
    matrix = np.exp(-((places[:, None] - places) ** 2)) + 1e-3 * np.eye(700)
    a = np.array(matrix, order="F")
    assert blocked.factorise(a)
    upper = np.triu(a)
    assert error(upper.T @ upper, matrix) <= 100
    counts = matrix > np.finfo(np.float64).eps ** 1.5 * matrix[0, 0]
    assert not upper[~counts].any()
    a[:] = matrix
    a[650, 650] = -1.0
    assert not blocked.factorise(a)


def test_no_factor() -> None:
    for n, row in ((5, 3), (700, 650)):
        a = np.asfortranarray(np.eye(n))
        a[row, row] = -1
        assert not blocked.factorise(a)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        blocked.cholesky(-np.eye(3))
    upper = blocked.cholesky(covariance(300, np.float64))
    assert error(upper.T @ upper, covariance(300, np.float64)) <= 1200


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 31, 33, 64, 66, 130, 300])
def test_the_tridiagonal_form(n: int, dtype: Any) -> None:
    matrix = covariance(n, dtype)
    basis = np.empty((n, n), dtype, order="F")
    diagonal, beside = blocked.tridiagonalise(np.tril(matrix).copy(order="F"), basis)
    form = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    q = basis.astype(np.float64)
    assert error((q.T @ q).astype(dtype), np.eye(n)) <= 30 + n
    assert error((q @ form @ q.T).astype(dtype), matrix) <= 60 + 4 * n


def test_the_tridiagonal_form_of_a_strided_diagonal_matrix() -> None:
    a = np.zeros((7, 5), order="F")
    a[2:] = np.diag([3.0, 0.0, 2.0, -1.0, 5.0])
    basis = np.full((6, 5), np.nan, order="F")
    diagonal, beside = blocked.tridiagonalise(a[2:], basis[1:])
    np.testing.assert_array_equal(diagonal, [3, 0, 2, -1, 5])
    np.testing.assert_array_equal(np.abs(beside), 0)
    np.testing.assert_array_equal(basis[1:], np.eye(5))


@pytest.mark.parametrize("dtype", TYPES)
def test_leverages(dtype: Any) -> None:
    matrix = covariance(70, dtype)
    basis = np.empty((70, 70), dtype, order="F")
    diagonal, beside = blocked.tridiagonalise(matrix.copy(order="F"), basis)
    pivots, links = np.empty((70, 3), dtype), np.empty((69, 3), dtype)
    for column, alpha in enumerate((0.1, 1.0, 10.0)):
        pivots[0, column] = diagonal[0] + alpha
        for k in range(69):  # L D L' of a tridiagonal matrix
            links[k, column] = beside[k] / pivots[k, column]
            pivots[k + 1, column] = diagonal[k + 1] + alpha - links[k, column] * beside[k]
    found = blocked.leverages(basis[:50], pivots, links)
    for row, alpha in zip(found, (0.1, 1.0, 10.0), strict=True):
        expected = np.linalg.inv(matrix.astype(np.float64) + alpha * np.eye(70)).diagonal()[:50]
        assert error(row, expected) <= 1000


def test_results_depend_on_the_number_of_threads_by_rounding_at_most() -> None:
    a, b = matrices(700, 300, 600, np.float64)
    factor, basis = np.empty((700, 700), order="F"), np.empty((300, 300), order="F")
    matrix, product = np.empty((300, 300), order="F"), np.empty((700, 600))
    results = []
    for threads in (1, 3):
        with threadpool_limits(threads), mc.threads(threads):
            factor[:], matrix[:] = covariance(700, np.float64), covariance(300, np.float64)
            blocked.factorise(factor)
            diagonal, beside = blocked.tridiagonalise(matrix, basis)
            blocked.multiply(a, b, product)
            form = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
            results.append([product.copy(), factor.copy(), basis @ form @ basis.T])
    for one, many in zip(*results, strict=True):
        assert error(one, many) <= 1500  # some BLAS kernels round differently on another thread


def test_blas_keeps_the_limits_of_others() -> None:
    def counts() -> set[int]:
        libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
        return {one["num_threads"] for one in libraries}

    before = counts()
    a, b = matrices(30, 30, 30, np.float64)
    with threadpool_limits(1), mc.threads(2):
        with single_blas() as threads:
            assert threads == 1
        blocked.multiply(a, b)
        assert counts() == {1}
    with threadpool_limits(3), mc.threads(2):
        inside = counts()
        with single_blas() as threads:
            assert threads == 2
            assert counts() == {1}
        blocked.multiply(a, b)
        assert counts() == inside
    assert counts() == before


def test_an_interrupt_ends_a_factor() -> None:
    main = threading.main_thread().ident
    assert main is not None
    matrix, basis = np.eye(6000, order="F"), np.empty((6000, 6000), order="F")
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        blocked.tridiagonalise(matrix, basis)
    timer.join()
