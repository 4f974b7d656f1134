"""Constant, White and Precomputed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError, ParameterError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(9, 2))
FACTOR = RNG.normal(size=(9, 9))
K = FACTOR @ FACTOR.T


def test_constant_takes_any_data() -> None:
    assert_array_equal(mc.Constant(2.5)(X), np.full((9, 9), 2.5))
    assert_array_equal(mc.Constant(2.5)(["a", "b"]), np.full((2, 2), 2.5))
    with pytest.raises(ParameterError, match=r"Constant: value = -1.0 does not satisfy value >= 0"):
        mc.Constant(-1.0)


def test_white_acts_on_rows_not_on_values() -> None:
    twins = np.zeros((4, 2))
    white = mc.White()
    assert_array_equal(white(twins), np.eye(4))
    assert_array_equal(white(twins, twins), np.zeros((4, 4)))
    assert_array_equal(white.diag(twins), np.ones(4))
    assert_array_equal(white.gram(twins)[1:3, :], np.eye(4)[1:3])
    assert_array_equal(white.gram(twins)[[2, 0], [0, 1, 2]], np.eye(4)[[2, 0]][:, :3])
    assert_array_equal(white.gram(twins) @ np.arange(4.0), np.arange(4.0))
    points = white.prepare(twins)
    assert_array_equal(white(points[[2, 0]]), np.eye(2))
    assert_array_equal(white(points, points), np.zeros((4, 4)))


def test_white_composes() -> None:
    kernel = mc.RBF() + 0.3 * mc.White()
    assert_allclose(kernel(X), mc.RBF()(X) + 0.3 * np.eye(9), rtol=1e-14)
    assert_allclose(kernel(X, X), mc.RBF()(X), rtol=1e-14)
    assert_allclose((mc.White() * mc.Linear())(X), np.diag((X**2).sum(axis=1)), rtol=1e-14)
    assert_allclose(mc.White().exp()(X), 1 + (np.e - 1) * np.eye(9), rtol=1e-14)
    assert_allclose(kernel.diag(X), 1.3)


def test_precomputed_without_a_matrix_takes_it_as_data() -> None:
    kernel = mc.Precomputed()
    assert kernel.input_tags()["pairwise"]
    assert_array_equal(kernel(K), K)
    assert_array_equal(kernel.diag(K), np.diag(K))
    gram = kernel.gram(K)
    assert_array_equal(gram[2:5, [0, 1]], K[2:5, :2])
    assert_allclose(gram @ np.ones(9), K.sum(axis=1), rtol=1e-13)
    assert_allclose((2.0 * kernel + mc.White())(K), 2 * K + np.eye(9), rtol=1e-14)
    training = kernel.prepare(K)
    test_rows = RNG.normal(size=(4, 9))
    assert_array_equal(kernel(test_rows, training), test_rows)
    assert_array_equal(kernel(test_rows, training[[1, 3]]), test_rows[:, [1, 3]])
    with pytest.raises(
        DataError, match=r"Precomputed: X should be a square kernel matrix, got shape \(4, 9\)"
    ):
        kernel(test_rows)


def test_precomputed_with_a_matrix_takes_row_numbers() -> None:
    kernel = mc.Precomputed(K)
    rows, cols = np.array([[3], [0], [3]]), np.array([[1], [2]])
    assert_array_equal(kernel(rows, cols), K[[3, 0, 3]][:, [1, 2]])
    assert_array_equal(kernel.diag(rows), np.diag(K)[[3, 0, 3]])
    table = np.column_stack([np.arange(9.0), X])
    mixed = kernel.on(0) * mc.RBF().on(1, 2)
    assert_allclose(mixed(table), K * mc.RBF()(X), rtol=1e-13)
    assert not kernel.input_tags()["pairwise"]


def test_precomputed_refuses_what_is_no_index_and_no_matrix() -> None:
    kernel = mc.Precomputed(K)
    for bad in ([[9]], [[-1]], [[0.5]], [[0, 1]]):
        with pytest.raises(DataError, match=r"Precomputed\(K\): "):
            kernel(bad)
    with pytest.raises(DataError, match=r"Precomputed: matrix has shape \(2, 3\)"):
        mc.Precomputed(np.ones((2, 3)))
    with pytest.raises(DataError, match="NaN"):
        mc.Precomputed([[np.nan]])


def test_precomputed_copies_its_matrix() -> None:
    matrix = np.eye(3)
    kernel = mc.Precomputed(matrix)
    matrix[:] = 5.0
    assert_array_equal(kernel([[0], [1]]), np.eye(2))
