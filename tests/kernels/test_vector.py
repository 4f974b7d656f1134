"""Kernels of rows of numbers: sparse rows give what dense ones give, and are never made dense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    NotDifferentiableError,
    NumericalWarning,
    ParameterError,
)

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


# One side sparse, the other dense ----------------------------------------------------------------

# Far from the origin, so that what is subtracted from one side alone shows.
OFF, FAR = X[:12] + 3.0 * (X[:12] > 0), Z[:9] + 2.0
MIXED = [
    mc.RBF(3.0),
    mc.RBF(np.linspace(2.0, 5.0, 30)),
    mc.Matern(3.0, nu=1.5),
    mc.Matern(3.0, nu=1.3),
    mc.RationalQuadratic(3.0),
    mc.Wendland(40.0, dimension=30),
    mc.RBF(3.0) * mc.Polynomial(2) + 0.1 * mc.White() + 1.0,
    (mc.RBF(3.0) + mc.Linear()).normalized(),
    mc.RBF(2.0).on(slice(0, 7)) + mc.Matern(4.0).on(slice(5, None)),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", MIXED, ids=lambda k: repr(k)[:50])
def test_dense_rows_may_meet_sparse_ones(kernel: mc.Kernel, dtype: type) -> None:
    rows, cols = OFF.astype(dtype), FAR.astype(dtype)
    sides = [(sp.csr_array(rows), cols), (rows, sp.csr_array(cols))]
    dense = kernel(rows, cols)
    exact = kernel(rows.astype(float), cols.astype(float))
    V = RNG.normal(size=(len(cols), 2)).astype(dtype)
    rounding = 100 * np.finfo(dtype).eps
    close = {"rtol": rounding, "atol": rounding * np.abs(exact).max()}
    for a, b in sides:
        assert kernel(a, b).dtype == dense.dtype
        assert_allclose(kernel(a, b), exact, **close)
        assert_allclose(kernel(b, a), exact.T, **close)
        gram = kernel.gram(a, b)
        assert_allclose(gram.T.toarray(), exact.T, **close)
        assert_allclose(gram @ V, exact @ V, rtol=0, atol=10 * len(V) * close["atol"])
        assert_allclose(gram.diagonal(), np.diag(exact), **close)


@pytest.mark.parametrize("kernel", [k for k in MIXED if k is not MIXED[1]], ids=lambda k: repr(k))
def test_gradients_where_one_side_is_sparse(kernel: mc.Kernel) -> None:
    weights = RNG.normal(size=(len(OFF), len(FAR)))
    wanted = kernel.gram(OFF, FAR).gradient(weights)
    for a, b in [(sp.csr_array(OFF), FAR), (OFF, sp.csr_array(FAR))]:
        assert_allclose(kernel.gram(a, b).gradient(weights), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [mc.RBF(3.0), mc.Matern(3.0), mc.Linear()], ids=repr)
def test_a_model_of_sparse_rows_predicts_dense_ones(kernel: mc.Kernel) -> None:
    y = OFF[:, 0]
    dense = mc.KernelRidge(kernel).fit(OFF, y).predict(FAR)
    fitted = mc.KernelRidge(kernel).fit(sp.csr_array(OFF), y)
    assert_allclose(fitted.predict(FAR), dense, rtol=1e-8)
    assert_allclose(fitted.predict(sp.csr_array(FAR)), dense, rtol=1e-8)
    turned = mc.KernelRidge(kernel).fit(OFF, y)
    assert_allclose(turned.predict(sp.csr_array(FAR)), dense, rtol=1e-8)


def test_a_kernel_needs_its_method() -> None:
    class Nothing(mc.Stationary):
        """No profile."""

    with pytest.raises(TypeError, match="profile"):
        Nothing()


def test_sparse_distances_in_float32_keep_their_digits() -> None:
    counts = sp.csr_array(RNG.poisson(0.3, size=(30, 40)).astype(np.float32) * 50)
    K = mc.RBF(0.7)(counts, counts.copy())
    assert K.dtype == np.float32
    assert_allclose(K, mc.RBF(0.7)(counts.toarray()), atol=1e-6)


def test_sparse_rows_far_from_the_origin_are_warned_of() -> None:
    X = sp.csr_array([[1e6], [1e6 + 1e-3]])
    with pytest.warns(NumericalWarning, match="keep less than six digits"):
        mc.RBF(1e-3)(X)


def test_an_unknown_reduction_is_refused() -> None:
    class Mean(mc.Coordinate):
        reduction = "mean"

        def coordinate(self, x: Any, z: Any) -> Any:
            return x * z

    with pytest.raises(ParameterError, match=r"Mean: reduction = 'mean' is not known; set"):
        Mean()(X)
