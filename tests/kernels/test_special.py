"""Constants, noise, given matrices, and kernels of features, pairs and functions."""

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    ParameterError,
    ValidityError,
)

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


ROWS, COLUMNS = RNG.normal(size=(14, 3)), RNG.normal(size=(8, 3))


def test_functions_of_matrices_and_of_pairs() -> None:
    wanted = ROWS @ COLUMNS.T + 1
    assert_allclose(mc.FunctionKernel(lambda A, B: A @ B.T + 1)(ROWS, COLUMNS), wanted)
    pairwise = mc.FunctionKernel(lambda a, b: float(a @ b) + 1, pairwise=True)
    assert_allclose(pairwise(ROWS, COLUMNS), wanted)
    assert_allclose(pairwise.diag(ROWS), (ROWS**2).sum(axis=1) + 1)
    words = mc.FunctionKernel(lambda a, b: len(set(a) & set(b)), pairwise=True)
    assert_array_equal(words(["abc", "bcd"]), [[3, 2], [2, 3]])
    assert_allclose(
        (pairwise * mc.RBF())(ROWS, COLUMNS), wanted * mc.RBF()(ROWS, COLUMNS), rtol=1e-13
    )


def test_functions_run_in_blocks_and_multiply() -> None:
    many = RNG.normal(size=(1100, 2))
    kernel = mc.FunctionKernel(lambda A, B: np.tanh(A) @ np.tanh(B).T) + mc.RBF()
    V = RNG.normal(size=(1100, 3))
    K = np.tanh(many) @ np.tanh(many).T + mc.RBF()(many)
    assert_allclose(kernel(many), K, rtol=1e-12, atol=1e-12)
    assert_allclose(kernel.gram(many) @ V, K @ V, rtol=1e-9, atol=1e-9)
    assert_allclose(kernel.gram(many).normal_matmat(V), K.T @ (K @ V), rtol=1e-9, atol=1e-8)
    assert_allclose(kernel.gram(many).gradient(), mc.RBF().gram(many).gradient(), rtol=1e-9)


def test_functions_that_return_the_wrong_thing() -> None:
    with pytest.raises(
        DataError,
        match=r"FunctionKernel returned shape \(2, 2\).*must return a matrix of shape \(14, 8\)",
    ):
        mc.FunctionKernel(lambda A, B: np.ones((2, 2)))(ROWS, COLUMNS)
    with pytest.raises(DataError, match=r"returned nan for row 0 and column 0; .* finite"):
        mc.FunctionKernel(lambda A, B: np.full((len(A), len(B)), math.nan))(ROWS)
    with pytest.raises(DataTypeError, match=r"FunctionKernel"):
        mc.FunctionKernel(lambda A, B: "matrix")(ROWS)
    with pytest.raises(DataTypeError, match=r"FunctionKernel"):
        mc.FunctionKernel(lambda a, b: "number", pairwise=True)(ROWS)


def test_functions_that_are_not_symmetric() -> None:
    with pytest.raises(
        ValidityError, match=r"FunctionKernel is not symmetric: k\(x_\d+, x_\d+\) .* so return"
    ):
        mc.FunctionKernel(lambda A, B: A[:, :1] + 2 * B[:, 0])(ROWS)
    with pytest.raises(ValidityError, match="not symmetric"):
        mc.FunctionKernel(lambda a, b: a[0] - b[0], pairwise=True)(ROWS)


def test_a_given_matrix_cannot_be_normalised() -> None:
    with pytest.raises(ParameterError, match="normalise the matrix itself"):
        mc.Precomputed().normalized()


def test_a_given_matrix_must_be_square_symmetric_and_numeric() -> None:
    with pytest.raises(DataError, match="should be a square kernel matrix"):
        (2.0 * mc.Precomputed())(np.ones((2, 5)))
    with pytest.raises(ValidityError, match="not symmetric"):
        mc.Precomputed([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(DataTypeError, match="Precomputed"):
        mc.Precomputed("a")


def test_asymmetry_is_found_beyond_the_first_block() -> None:
    X = np.arange(1500.0)[:, None]
    kernel = mc.FunctionKernel(lambda A, B: (A > 1200) * 1.0 * (B.T < 100) + 0.0 * A * B.T)
    with pytest.raises(ValidityError, match="not symmetric"):
        kernel(X)


def test_blocks_of_a_symmetric_matrix_are_mirrored() -> None:
    X = RNG.normal(size=(1100, 2))
    calls = []

    def dot(A: Any, B: Any) -> Any:
        calls.append(A.shape[0] * B.shape[0])
        return A @ B.T

    K = mc.FunctionKernel(dot)(X)
    assert_allclose(K, X @ X.T, atol=1e-12)
    assert sum(calls) < 1.1 * 1100 * 1100 - 1024 * 70


def test_a_function_of_two_objects_is_called_once_for_each_pair() -> None:
    X = RNG.normal(size=(300, 2))
    calls = 0

    def dot(a: Any, b: Any) -> float:
        nonlocal calls
        calls += 1
        return float(a @ b)

    kernel = mc.FunctionKernel(dot, pairwise=True)
    assert_allclose(kernel(X), X @ X.T, atol=1e-12)
    assert calls == 300 * 301 / 2 + 8 * 8  # and a sample of both orders
    calls = 0
    assert_allclose(kernel.diag(X), (X**2).sum(axis=1), atol=1e-12)
    assert calls == 300
    with pytest.raises(ValidityError, match=r"not symmetric: k\(x_\d+, x_\d+\)"):
        mc.FunctionKernel(lambda a, b: a[0] - b[0], pairwise=True)(X)
    with pytest.raises(DataError, match=r"returned shape \(300, 300, 1\)"):
        mc.FunctionKernel(lambda a, b: [1.0], pairwise=True)(X)


def test_rows_of_any_kind_for_kernels_that_do_not_look_at_them() -> None:
    ragged = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    for kernel, wanted in ((mc.Constant(2.0), np.full((3, 3), 2.0)), (mc.White(), np.eye(3))):
        assert_allclose(kernel(ragged), wanted)
        assert_allclose(kernel.diag(ragged), wanted.diagonal())
        assert_allclose(kernel.gram(ragged) @ np.ones(3), wanted.sum(axis=1))
        assert_allclose(mc.KernelRidge(kernel).fit(ragged, [1.0, 2.0, 3.0]).intercept_, 2.0)


class Letters(mc.PairKernel):
    def pairs(self, A: Any, B: Any) -> Any:
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


class Counts(mc.FeatureKernel):
    weight = mc.Positive(1.0)

    def features(self, objects: list[Any]) -> Any:
        return np.array([[self.weight * len(o)] for o in objects])


class Untraced(mc.Stationary):
    def profile(self, r2: Any) -> Any:
        return np.exp(-np.asarray(r2))


TEXTS = ["ab", "abc", "b"]
EVALUATED_BY_PYTHON = {
    "precomputed": (lambda i: mc.Precomputed(K + i * np.eye(9)), np.arange(5).reshape(-1, 1)),
    "function": (lambda i: mc.FunctionKernel(lambda A, B: A @ B.T + i), X),
    "pairs": (lambda i: i * Letters(), TEXTS),
    "features": (lambda i: Counts(weight=i), TEXTS),
    "untraced": (lambda i: Untraced(length_scale=float(i)), X),
    "sum": (lambda i: mc.Precomputed(K + i * np.eye(9)) + mc.RBF(), np.arange(5).reshape(-1, 1)),
    "warp": (lambda i: mc.RBF().warp(lambda data: data * i), X),
    "built in": (lambda i: mc.RBF(float(i)), X),
}


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
@pytest.mark.parametrize("name", EVALUATED_BY_PYTHON)
def test_kernels_are_freed_when_nobody_holds_them(name: str) -> None:
    make, data = EVALUATED_BY_PYTHON[name]

    def used(i: int) -> weakref.ref[mc.Kernel]:
        kernel = make(i)
        kernel(data)
        kernel.diag(data)
        kernel.gram(data) @ np.ones(len(data))
        return weakref.ref(kernel)

    gc.collect()
    gc.disable()
    try:
        references = [used(i) for i in range(1, 6)]
        assert [reference() for reference in references] == [None] * 5
    finally:
        gc.enable()


def test_the_matrix_of_a_kernel_is_freed_with_it() -> None:
    def used() -> weakref.ref[Any]:
        kernel = mc.Precomputed(K)
        kernel(np.arange(5).reshape(-1, 1))
        return weakref.ref(kernel.matrix)

    reference = used()
    gc.collect()
    assert reference() is None


@dataclass
class Scaled:
    """A callable without a hash."""

    factor: float

    def __call__(self, A: Any, B: Any) -> Any:
        return self.factor * A @ B.T


def test_a_callable_needs_no_hash() -> None:
    kernel = mc.FunctionKernel(Scaled(2.0))
    assert_allclose(kernel(X), 2.0 * X @ X.T)
    assert kernel == mc.FunctionKernel(Scaled(2.0)) != mc.FunctionKernel(Scaled(3.0))
    assert hash(kernel) == hash(mc.FunctionKernel(Scaled(2.0)))

    class Halved(list[float]):
        def __call__(self, data: Any) -> Any:
            return data / 2

    assert_allclose(mc.Linear().warp(Halved())(X), X @ X.T / 4)


def test_a_function_of_two_objects_is_told_of_pairwise() -> None:
    with pytest.raises(DataTypeError, match="pass pairwise=True"):
        mc.FunctionKernel(lambda a, b: float(a @ b))(X)
    with pytest.raises(DataError, match=r"shape \(\) .*pass pairwise=True"):
        mc.FunctionKernel(lambda a, b: 1.0)(X)


def test_asymmetry_between_blocks_is_reported_by_row_numbers() -> None:
    data = np.arange(1100.0).reshape(-1, 1)

    def function(A: Any, B: Any) -> Any:
        return (A < 1024) * (B.T >= 1024) * 1.0

    with pytest.raises(ValidityError, match=r"k\(x_0, x_1024\) = 1 but k\(x_1024, x_0\) = 0"):
        mc.FunctionKernel(function)(data)
