"""The lazy Gram matrix as an operator: products, blocks, solvers, ridges, sums and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh, expm_multiply

import mercer as mc
import references as ref
from mercer import memory
from mercer.exceptions import (
    DataError,
    DataTypeError,
    MemoryForecastError,
    NotDifferentiableError,
    ParameterError,
)
from mercer.gram import Gram
from mercer.linalg.symmetric import LowerTriangle

RNG = np.random.default_rng(11)
X, Z = RNG.normal(size=(60, 3)), RNG.normal(size=(25, 3))
KERNEL = 1.5 * mc.RBF([0.7, 1.0, 2.0]) + mc.Linear() * mc.Matern(nu=1.3)
K, C = KERNEL(X), KERNEL(X, Z)
V, U = RNG.normal(size=(25, 4)), RNG.normal(size=(60, 4))
CLOSE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-11}


def test_it_is_a_linear_operator() -> None:
    gram = KERNEL.gram(X, Z)
    assert isinstance(gram, mc.Gram)
    assert isinstance(gram, LinearOperator)
    assert gram.shape == (60, 25)
    assert gram.dtype == np.float64
    assert aslinearoperator(gram) is gram


def test_products() -> None:
    gram = KERNEL.gram(X, Z)
    assert_allclose(gram @ V, C @ V, **CLOSE)
    assert_allclose(gram @ V[:, 0], C @ V[:, 0], **CLOSE)
    assert_allclose(gram @ V[:, :1], C @ V[:, :1], **CLOSE)
    assert_allclose(gram @ V[:, ::-2], C @ V[:, ::-2], **CLOSE)
    assert_allclose(gram @ np.asfortranarray(V), C @ V, **CLOSE)
    assert_allclose(gram @ np.ones(25, dtype=int), C.sum(axis=1), **CLOSE)
    assert_allclose(gram.matvec(V[:, 0]), C @ V[:, 0], **CLOSE)
    assert_allclose(gram.rmatvec(U[:, 0]), C.T @ U[:, 0], **CLOSE)
    assert_allclose(gram.rmatmat(U), C.T @ U, **CLOSE)
    assert_allclose((2.0 * gram) @ V, 2 * C @ V, **CLOSE)


def test_transpose() -> None:
    gram = KERNEL.gram(X, Z)
    assert gram.T.shape == (25, 60)
    assert_allclose(gram.T @ U, C.T @ U, **CLOSE)
    assert_allclose(gram.H @ U, C.T @ U, **CLOSE)
    assert_allclose(gram.T[1:3, 5], C.T[1:3, 5], **CLOSE)
    square = KERNEL.gram(X)
    assert square.T is square
    given = mc.Precomputed().gram(K)
    assert_allclose(given.T @ U, K @ U, **CLOSE)


def test_the_normal_product_in_one_pass() -> None:
    assert_allclose(KERNEL.gram(X, Z).normal_matmat(V), C.T @ (C @ V), rtol=1e-10, atol=1e-9)
    assert_allclose(KERNEL.gram(X).normal_matmat(U[:, 0]), K @ (K @ U[:, 0]), rtol=1e-10, atol=1e-9)
    with pytest.raises(DataError, match=r"V has shape \(60, 4\), but K has 25 columns"):
        KERNEL.gram(X, Z).normal_matmat(U)


def test_the_normal_product_of_an_infinite_number() -> None:
    v = np.full(len(Z), np.inf)
    assert np.isposinf(mc.RBF().gram(X, Z).normal_matmat(v)).all()


@pytest.mark.parametrize(
    "key",
    [
        (0, 0),
        (-1, -1),
        (3, slice(None)),
        (slice(2, 9), 4),
        (slice(None), slice(None, None, 3)),
        ([5, 1, 1], [0, 2]),
        (np.arange(60) % 7 == 0, slice(0, 3)),
        (np.array([2, 3]), 7),
        5,
        slice(4, 6),
        (slice(0, 0), slice(None)),
    ],
    ids=str,
)
def test_blocks_on_demand(key: Any) -> None:
    rows, cols = key if isinstance(key, tuple) else (key, slice(None))
    block = KERNEL.gram(X, Z)[key]
    wanted = C[rows][..., cols]
    assert np.shape(block) == np.shape(wanted)
    assert_allclose(block, wanted, **CLOSE)


def test_bad_indices() -> None:
    gram = KERNEL.gram(X, Z)
    with pytest.raises(IndexError):
        gram[60, 0]
    with pytest.raises(DataError, match="one-dimensional"):
        gram[np.zeros((2, 2), int), 0]


def test_diagonal_and_array() -> None:
    gram = KERNEL.gram(X)
    assert_allclose(gram.diagonal(), np.diag(K), **CLOSE)
    assert_array_equal(gram.toarray(), K)
    assert_allclose(KERNEL.gram(X, Z).diagonal(), np.diag(C), **CLOSE)


def _overlap(a: Any, b: Any) -> Any:
    return float(np.minimum(np.abs(a), np.abs(b)).sum())


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF() + mc.White(),
        (mc.Linear() + mc.White()).normalized(),
        mc.Periodic() * mc.Laplacian(),
        mc.FunctionKernel(_overlap, pairwise=True) + mc.White(),
    ],
    ids=["noise", "normalized", "product", "function"],
)
def test_the_diagonal_is_that_of_the_matrix(kernel: mc.Kernel) -> None:
    points = kernel.prepare(X)
    grams = [
        kernel.gram(X),
        kernel.gram(points, points),
        kernel.gram(points, kernel.prepare(X)),
        kernel.gram(X, X[::-1].copy()),
        kernel.gram(X, Z),
        kernel.gram(Z, X),
    ]
    pairs = grams[0].pairs
    grams.append(Gram(kernel, pairs.block(slice(0, 9), slice(4, 20))))
    grams.append(Gram(kernel, pairs.block(slice(0, 9), [0, 1, 5, 3])))
    for gram in grams:
        assert_allclose(gram.diagonal(), np.diag(gram.toarray()), **CLOSE)


def test_the_diagonal_of_a_precomputed_matrix() -> None:
    given, lookup = mc.Precomputed(), mc.Precomputed(K)
    assert_allclose(given.gram(K).diagonal(), np.diag(K))
    assert_allclose(given.gram(K[3:9], K).diagonal(), np.diag(K[3:9]))
    numbers = np.arange(60)[:, None]
    assert_allclose(lookup.gram(numbers[7:], numbers[:9]).diagonal(), np.diag(K[7:, :9]))


def test_memory_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    gram = mc.RBF().gram(np.zeros((20_000, 1)))
    monkeypatch.setattr(memory, "available", lambda: 2**20)
    words = r"Gram matrix of shape \(20000, 20000\) needs 2\.98 GiB, but only 1 MiB .*lazy"
    with pytest.raises(MemoryForecastError, match=words):
        gram.toarray()
    assert_allclose(gram[:2, :2], 1.0)


def test_conjugate_gradients() -> None:
    y = RNG.normal(size=60)
    system = KERNEL.gram(X).ridge(0.5)
    solution, info = cg(system, y, rtol=1e-12, maxiter=500)
    assert info == 0
    assert_allclose(solution, np.linalg.solve(K + 0.5 * np.eye(60), y), rtol=1e-7, atol=1e-8)


def test_lanczos() -> None:
    found = eigsh(KERNEL.gram(X), k=4, return_eigenvectors=False)
    assert_allclose(np.sort(found), np.linalg.eigvalsh(K)[-4:], rtol=1e-9)


@pytest.mark.parametrize(
    "identity", [sp.identity(60), sp.eye_array(60), sp.diags_array(np.ones(60))]
)
def test_a_ridge_without_a_copy(identity: Any) -> None:
    gram = KERNEL.gram(X)
    wanted = K + 0.3 * np.eye(60)
    for ridged in (gram + 0.3 * identity, 0.3 * identity + gram, gram.ridge(0.3)):
        assert_allclose(ridged @ U, wanted @ U, **CLOSE)
        assert_allclose(ridged @ U[:, 0], wanted @ U[:, 0], **CLOSE)
        assert_allclose(ridged.T @ U, wanted @ U, **CLOSE)
        assert_allclose(ridged.diagonal(), np.diag(wanted), **CLOSE)
        assert_allclose(ridged.toarray(), wanted, **CLOSE)


def test_a_ridge_of_one_number_for_each_row() -> None:
    noise = RNG.random(60)
    assert_allclose(KERNEL.gram(X).ridge(noise) @ U, K @ U + noise[:, None] * U, **CLOSE)


def test_ridges_that_make_no_sense() -> None:
    with pytest.raises(DataError, match="square"):
        KERNEL.gram(X, Z).ridge(0.1)
    with pytest.raises(DataError, match="shape"):
        KERNEL.gram(X) + sp.eye_array(7)
    with pytest.raises(DataTypeError, match="diagonal"):
        KERNEL.gram(X) + sp.csr_array(np.ones((60, 60)))


def test_operators_add() -> None:
    total = KERNEL.gram(X) + mc.RBF().gram(X)
    assert_allclose(total @ U, (K + mc.RBF()(X)) @ U, **CLOSE)


def test_sums() -> None:
    gram = KERNEL.gram(X, Z)
    assert_allclose(gram.row_sums(), C.sum(axis=1), **CLOSE)
    assert_allclose(gram.frobenius(), np.linalg.norm(C), rtol=1e-12)
    assert_allclose(gram.against(U, V), np.einsum("ir,ij,jr->", U, C, V), rtol=1e-10)
    y = U[:, 0]
    assert_allclose(KERNEL.gram(X).against(y), y @ K @ y, rtol=1e-10)


@pytest.mark.parametrize("cols", [None, Z])
def test_gradients_with_all_kinds_of_weights(cols: Any) -> None:
    gram = KERNEL.gram(X, cols)
    right = U if cols is None else V
    weights = {"ones": None, "dense": U @ right.T, "low-rank": (U, right)}
    slopes = [
        ref.derivative(lambda t, i=i: KERNEL.with_theta(KERNEL.theta + t * np.eye(5)[i])(X, cols))
        for i in range(5)
    ]
    for form, given in weights.items():
        dense = np.ones(gram.shape) if form == "ones" else U @ right.T
        wanted = [(dense * slope).sum() for slope in slopes]
        assert_allclose(gram.gradient(given), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "kernel", [KERNEL, KERNEL * mc.FunctionKernel(np.inner)], ids=["folded", "in blocks"]
)
def test_gradients_with_a_triangle_of_the_weights(kernel: mc.Kernel) -> None:
    dense = U @ U.T
    triangle = np.where(np.tri(len(dense), dtype=bool), dense, np.inf)  # infinity is not read
    gram = kernel.gram(X)
    wanted = gram.gradient(dense)
    assert_allclose(gram.gradient(LowerTriangle(triangle)), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * mc.RBF([1.0, 2.0, 3.0]),
        0.5 * mc.Matern(nu=1.5) + 0.3 * mc.Polynomial(2, gain=0.5),
        3.0 * (mc.Linear() + mc.Constant(0.5)).normalized(),
        1.5 * mc.Polynomial(2) * mc.Periodic(period=2.0),
    ],
)
def test_gradient_of_the_diagonal(kernel: mc.Kernel) -> None:
    weights = np.linspace(-1.0, 2.0, len(X))
    gram = kernel.gram(X)
    assert_allclose(
        gram.diagonal_gradient(weights), gram.gradient(np.diag(weights)), rtol=1e-9, atol=1e-12
    )
    with pytest.raises(DataError, match="one weight for each"):
        gram.diagonal_gradient(weights[1:])
    with pytest.raises(DataError, match="NaN or infinity"):
        gram.diagonal_gradient(weights * np.nan)


def test_gradient_in_the_inputs() -> None:
    weights = RNG.normal(size=C.shape)
    wanted = np.empty_like(X)
    for j in range(3):
        step = np.eye(3)[j]
        slope = ref.derivative(lambda t, step=step: KERNEL(X + t * step, Z))
        wanted[:, j] = (weights * slope).sum(axis=1)
    gram = KERNEL.gram(X, Z)
    assert_allclose(gram.input_gradient(weights), wanted, rtol=1e-7, atol=1e-7)
    low_rank = gram.input_gradient((U, V))
    assert_allclose(low_rank, gram.input_gradient(U @ V.T), rtol=1e-9, atol=1e-9)


def test_gradient_in_the_inputs_of_selected_columns_lands_in_the_data() -> None:
    gram = mc.RBF().on(2, 0).gram(X, Z)
    inside = mc.RBF().gram(X[:, [2, 0]], Z[:, [2, 0]]).input_gradient()
    wanted = np.column_stack([inside[:, 1], np.zeros(60), inside[:, 0]])
    assert_allclose(gram.input_gradient(), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [mc.RBF().warp(np.tanh), mc.Linear().scaled_by(lambda X: X[:, 0]), mc.Categorical(1.0)],
    ids=repr,
)
def test_inputs_without_a_gradient(kernel: mc.Kernel) -> None:
    with pytest.raises(NotDifferentiableError):
        kernel.gram(X, Z).input_gradient()


def test_weights_of_the_wrong_shape() -> None:
    gram = KERNEL.gram(X, Z)
    for bad in (np.ones((2, 2)), (U, U), (U, V, V)):
        with pytest.raises(DataError, match="Gram: "):
            gram.gradient(bad)


def test_products_with_complex_vectors() -> None:
    W, gram = U + 1j * RNG.normal(size=U.shape), KERNEL.gram(X)
    assert_allclose(gram @ W, K @ W, **CLOSE)
    assert_allclose(gram @ W[:, 0], K @ W[:, 0], **CLOSE)
    assert_allclose(KERNEL.gram(X, Z).T @ W, C.T @ W, **CLOSE)
    assert_allclose(gram.normal_matmat(W), K @ (K @ W), rtol=1e-10, atol=1e-9)
    assert_allclose(gram.ridge(2.0) @ W, K @ W + 2.0 * W, **CLOSE)
    wanted = expm_multiply(-0.01j * K, np.ones(60))
    assert_allclose(expm_multiply(gram * -0.01j, np.ones(60), traceA=0.0), wanted, **CLOSE)


def test_complex_weights_and_mismatched_vectors() -> None:
    with pytest.raises(DataTypeError, match=r"complex128; pass real numbers"):
        KERNEL.gram(X).gradient((1j * U, U))
    with pytest.raises(DataError, match=r"Gram @ V: V has shape \(25, 4\).*60 columns; pass"):
        KERNEL.gram(X) @ V


def test_fixed_parameters_have_no_gradient() -> None:
    kernel = mc.Fixed(2.0) * mc.RBF(0.8)
    assert kernel.gram(X).gradient().shape == (1,)


SIZES = (1, 2, 15, 16, 17, 33, 200)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_products_of_all_sizes(n: int, m: int, dtype: Any) -> None:
    # Around the widths of vectors and tiles, against the whole matrix by NumPy.
    rng = np.random.default_rng(n + 1000 * m)
    rows, cols = (rng.normal(size=(k, 3)).astype(dtype) for k in (n, m))
    distances = np.square(rows[:, None].astype(float) - cols[None].astype(float)).sum(axis=2)
    dense = np.exp(-distances / 2)
    off = 1e-5 if dtype == np.float32 else 1e-13
    gram = mc.RBF(1.0).gram(rows, cols)
    for shape in ((m,), (m, 1), (m, 3)):
        right = rng.normal(size=shape).astype(dtype)
        expected = dense.T @ (dense @ right)
        found = gram.normal_matmat(right)
        assert found.dtype == dtype
        size = np.abs(dense.T) @ (dense @ np.abs(right))
        assert (np.abs(found - expected) <= off * size).all()
        narrow = gram.narrowed().normal_matmat(right)
        assert narrow.dtype == np.float32
        assert narrow.shape == shape
        assert (np.abs(narrow - expected) <= 1e-5 * size).all()


def test_a_narrowed_normal_product_of_a_kernel_in_python() -> None:
    kernel = mc.FunctionKernel(lambda A, B: np.exp(A @ B.T))
    dense = np.exp(X @ Z.T)
    found = kernel.gram(X, Z).narrowed().normal_matmat(V)
    assert found.dtype == np.float32
    assert_allclose(found, dense.T @ (dense @ V), rtol=1e-4, atol=1e-4 * np.abs(dense).max() ** 2)


def test_frobenius_norm_of_small_float32_values() -> None:
    X = np.full((3, 1), 1e-12, dtype=np.float32)
    assert_allclose(mc.Linear().gram(X).frobenius(), 3e-24, rtol=1e-5)


def test_a_ridged_matrix_has_blocks_and_adds() -> None:
    X = RNG.normal(size=(6, 2))
    identity = sp.identity(6)
    K = mc.RBF().gram(X) + 0.5 * identity + 0.25 * identity
    wanted = mc.RBF()(X) + 0.75 * np.eye(6)
    assert_allclose(K.toarray(), wanted)
    assert_allclose(K[1:4, [0, 2]], wanted[1:4][:, [0, 2]])
    for bad in (-1.0, np.nan, np.ones(3)):
        with pytest.raises(ParameterError, match=r"Gram\.ridge"):
            mc.RBF().gram(X).ridge(bad)


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10_000_000)
    big = np.zeros((20_000, 1), np.float32)
    for act in (lambda: mc.RBF()(big), lambda: mc.RBF().gram(big).toarray()):
        with pytest.raises(
            MemoryForecastError, match=r"20000.*1\.49 GiB.*9\.54 MiB.*(lazy|float32)"
        ):
            act()
    assert mc.RBF().gram(big)[:2, :2].tolist() == [[1.0, 1.0], [1.0, 1.0]]
