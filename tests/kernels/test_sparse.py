"""Sparse rows give what dense ones give, and are never made dense."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, NotDifferentiableError

RNG = np.random.default_rng(7)


def sparse_rows(n: int, d: int = 30) -> np.ndarray:
    rows = RNG.random((n, d)) * (RNG.random((n, d)) < 0.15)
    rows[0] = 0.0
    return rows


X, Z = sparse_rows(40), sparse_rows(15)
KERNELS = [
    mc.Linear(),
    mc.Polynomial(3, 0.5, 0.3),
    mc.Sigmoid(),
    mc.RBF(),
    mc.RBF(np.linspace(0.5, 2.0, 30)),
    mc.Matern(nu=1.5),
    mc.Matern(nu=1.3),
    mc.RationalQuadratic(),
    mc.Tanimoto(),
    mc.Linear().normalized(),
    mc.RBF() * mc.Polynomial(2) + 0.1 * mc.White() + 1.0,
    mc.Linear().exp(),
]


@pytest.fixture
def never_dense(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a sparse matrix was made dense")

    with monkeypatch.context() as patch:
        for cls in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.coo_matrix):
            patch.setattr(cls, "toarray", refuse)
            patch.setattr(cls, "todense", refuse)
        yield


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: repr(k)[:50])
def test_sparse_equals_dense(kernel: mc.Kernel, never_dense: None) -> None:
    V, W = RNG.normal(size=(40, 2)), RNG.normal(size=(15, 2))
    rows, cols = sp.csr_array(X), sp.csr_matrix(Z)
    close = {"rtol": 1e-11, "atol": 1e-12}
    assert_allclose(kernel(rows), kernel(X), **close)
    assert_allclose(kernel(rows, cols), kernel(X, Z), **close)
    assert_allclose(kernel.diag(rows), kernel.diag(X), **close)
    assert_allclose(kernel.gram(rows) @ V, kernel.gram(X) @ V, **close)
    assert_allclose(kernel.gram(rows, cols) @ W, kernel.gram(X, Z) @ W, **close)
    assert_allclose(kernel.gram(rows)[3:9, [1, 4]], kernel(X)[3:9, [1, 4]], **close)
    for other in (sp.csc_array(X), sp.coo_array(X)):
        assert_allclose(kernel(other), kernel(X), **close)


def test_a_sparse_matrix_of_a_million_columns(never_dense: None) -> None:
    wide = sp.random_array(
        (50, 1_000_000), density=1e-5, rng=np.random.default_rng(0), format="csr"
    )
    K = mc.RBF(2.0)(wide)
    squares = wide.power(2).sum(axis=1)
    dots = np.array([[float((wide[[i]] @ wide[[j]].T).sum()) for j in range(5)] for i in range(5)])
    wanted = np.exp(-(squares[:5, None] + squares[:5] - 2 * dots) / 8)
    assert_allclose(K[:5, :5], wanted, rtol=1e-12)


@pytest.mark.parametrize("kernel", [mc.RBF(), mc.Polynomial(2), 2.0 * mc.Matern()], ids=repr)
def test_sparse_gradients_equal_dense_ones(kernel: mc.Kernel) -> None:
    weights = RNG.normal(size=(40, 15))
    dense, sparse = kernel.gram(X, Z), kernel.gram(sp.csr_array(X), sp.csr_array(Z))
    assert_allclose(sparse.gradient(weights), dense.gradient(weights), rtol=1e-9, atol=1e-10)


def test_a_gradient_for_each_column_needs_dense_columns() -> None:
    rows = sp.csr_array(X)
    with pytest.raises(NotDifferentiableError, match=r"dense columns.*toarray"):
        mc.RBF(np.linspace(0.5, 2, 30)).gram(rows).gradient()
    with pytest.raises(NotDifferentiableError, match=r"dense columns.*toarray"):
        mc.RBF().gram(rows).input_gradient()


@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_the_diagonal_of_a_sparse_rbf_is_exactly_one() -> None:
    assert (np.diag(mc.RBF(1e-3)(sp.csr_array(X * 1e3))) == 1.0).all()


def test_sparse_float32_stays_float32() -> None:
    single = sp.csr_array(X.astype(np.float32))
    assert mc.RBF()(single).dtype == np.float32
    assert_allclose(mc.RBF()(single), mc.RBF()(X), atol=1e-5)


@pytest.mark.parametrize("kernel", [mc.Laplacian(), mc.Chi2(), mc.Anova(), mc.Periodic()], ids=repr)
def test_kernels_of_single_columns_refuse_sparse_rows(kernel: mc.Kernel) -> None:
    name = type(kernel).__name__
    with pytest.raises(DataTypeError, match=rf"{name} needs dense columns.*toarray"):
        kernel(sp.csr_array(X))


def test_infinity_in_sparse_rows_is_found() -> None:
    bad = sp.csr_array(np.array([[0.0, 1.0], [np.inf, 0.0]]))
    with pytest.raises(DataError, match=r"infinity \(first in row 1, column 0\); RBF"):
        mc.RBF()(bad)
