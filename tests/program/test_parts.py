"""Parts of a symmetric matrix against the NumPy executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer import _core
from mercer.exceptions import DataError
from mercer.program import reference
from mercer.program.parts import Parts

RNG = np.random.default_rng(17)
KERNELS = [
    mc.RBF([0.7, 1.0, 2.0]),
    mc.Laplacian() + mc.Linear(),
    mc.Periodic() * mc.RBF(2.0),
    mc.Linear() ** 2 + 0.3 * mc.White(),  # knows its rows
    mc.RBF().scaled_by(lambda X: 1.0 + np.asarray(X)[:, 0] ** 2),  # a number for each row
    mc.Polynomial(degree=3).normalized(),
]
SPARSE = [mc.RBF(), mc.Linear() ** 2, mc.Polynomial(degree=3).normalized()]
CASES = [(k, False) for k in KERNELS] + [(k, True) for k in SPARSE]
ROWS = [np.array([5]), np.array([7, 2, 2, 30]), np.arange(40)[::-1].copy()]


def data(sparse: bool) -> Any:
    X = RNG.normal(size=(40, 3)) + 5.0
    return sp.csr_array(X * (RNG.random(X.shape) < 0.5)) if sparse else X


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("kernel", "sparse"), CASES, ids=range(len(CASES)))
def test_blocks_and_products_are_those_of_the_matrix(
    kernel: mc.Kernel, sparse: bool, narrow: bool
) -> None:
    pairs = kernel.gram(data(sparse)).pairs
    K = np.asarray(reference.evaluate(kernel.expression, pairs))
    tolerance = (1e-5 if narrow else 1e-12) * np.abs(K).max()
    parts = Parts(kernel.expression, pairs, narrow=narrow)
    for rows in ROWS:
        block = np.empty((len(rows), len(rows)), parts.dtype)
        parts.fill(block, rows)
        assert_allclose(block, K[np.ix_(rows, rows)], rtol=0, atol=tolerance)
        assert_array_equal(block, block.T)
        factors = RNG.normal(size=len(rows))
        total, size = K[:, rows] @ factors, np.abs(factors).sum()
        assert_allclose(parts.product(rows, factors), total, rtol=0, atol=tolerance * size)
        at = np.array([3, 11, 3])
        assert_allclose(parts.product(rows, factors, at), total[at], rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(("kernel", "sparse"), CASES, ids=range(len(CASES)))
def test_many_products_are_those_of_the_matrix(kernel: mc.Kernel, sparse: bool) -> None:
    pairs = kernel.gram(data(sparse)).pairs
    K = np.asarray(reference.evaluate(kernel.expression, pairs))
    tasks = [(rows, RNG.normal(size=len(rows)), at) for rows in ROWS for at in (rows, ROWS[1])]
    parts = Parts(kernel.expression, pairs)
    for threads in (1, 3):
        with mc.threads(threads):
            products = parts.products(tasks)
        for (rows, factors, at), product in zip(tasks, products, strict=True):
            atol = 1e-12 * np.abs(K).max() * np.abs(factors).sum()
            assert_allclose(product, K[np.ix_(at, rows)] @ factors, rtol=0, atol=atol)
    assert parts.products([]) == []


def test_what_float32_cannot_hold_is_refused() -> None:
    kernel = mc.Linear()
    pairs = kernel.gram(np.array([[1e200], [1.0]])).pairs
    assert Parts(kernel.expression, pairs).product(np.array([1]), np.ones(1))[1] == 1.0
    with pytest.raises(DataError, match="exceed the range of float32"):
        _ = Parts(kernel.expression, pairs, narrow=True).everything


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_out_of_range_are_refused(order: Any) -> None:
    X = np.asarray(RNG.normal(size=(9, 2)), order=order)
    for rows in ([-1], [9], [0, 2**62]):
        with pytest.raises(ValueError, match="positions in X"):
            _core.pack(X, rows=np.array(rows))
