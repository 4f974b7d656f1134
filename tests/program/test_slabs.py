"""Matrices of very many columns against naive loops over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.kernels.base import pairs_of
from mercer.program.slabs import MANY_COLUMNS, in_slabs

RNG = np.random.default_rng(0)
D = 25_001


def naive(function: Any, A: Any, B: Any) -> Any:
    """One row against all others, in extended precision."""
    return np.array([function(a, B.astype(np.longdouble)) for a in A.astype(np.longdouble)])


def squared(a: Any, B: Any) -> Any:
    return np.sum((a - B) ** 2, axis=1)


KERNELS = [
    (mc.Linear(), lambda a, B: B @ a),
    (mc.RBF(150.0), lambda a, B: np.exp(-squared(a, B) / (2 * 150.0**2))),
    (mc.Laplacian(2e4), lambda a, B: np.exp(-np.sum(np.abs(a - B), axis=1) / 2e4)),
    (
        0.5 * mc.RBF(150.0) + mc.Linear() * mc.RationalQuadratic(100.0),
        lambda a, B: (
            np.exp(-squared(a, B) / (2 * 150.0**2)) / 2 + (B @ a) / (1 + squared(a, B) / 2e4)
        ),
    ),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("kernel", "function"), KERNELS, ids=[repr(k) for k, _ in KERNELS])
def test_matrices_and_products(kernel: mc.Kernel, function: Any, dtype: Any) -> None:
    # Columns far from zero: distances are taken of differences, not of products.
    X, Z = ((RNG.normal(size=(n, D)) + 3.0).astype(dtype) for n in (19, 33))
    v = RNG.normal(size=19).astype(dtype)
    exact, square = naive(function, X, Z), naive(function, X, X)
    error = 40 * np.finfo(dtype).eps * max(1.0, np.abs(exact).max())
    np.testing.assert_allclose(kernel(X, Z), exact, rtol=0, atol=error)
    K = kernel(X)
    assert_array_equal(K, K.T)
    error = 40 * np.finfo(dtype).eps * max(1.0, np.abs(square).max())
    np.testing.assert_allclose(K, square, rtol=0, atol=error)
    product, total = kernel.gram(X) @ v, np.abs(v).sum()
    assert product.dtype == dtype
    np.testing.assert_allclose(product, square @ v, rtol=0, atol=error * total)


def test_results_do_not_depend_on_threads() -> None:
    X = RNG.normal(size=(40, D))
    kernel = mc.RBF(150.0)
    with mc.threads(1):
        K, product = kernel(X), kernel.gram(X) @ np.ones(40)
    with mc.threads(3):
        assert_array_equal(kernel(X), K)
        assert_array_equal(kernel.gram(X) @ np.ones(40), product)


def test_few_columns_and_other_leaves_stay_as_they_are() -> None:
    kernel, dtype = mc.RBF(), np.dtype(float)
    few = pairs_of(kernel, np.ones((3, MANY_COLUMNS - 1)))
    assert in_slabs(kernel.expression, few, dtype) is kernel.expression
    histogram = mc.HistogramIntersection()
    many = pairs_of(histogram, np.ones((3, MANY_COLUMNS)))
    assert in_slabs(histogram.expression, many, dtype) is histogram.expression


def test_values_that_are_not_finite_are_refused() -> None:
    X = RNG.normal(size=(4, D))
    X[2, 7] = np.nan
    with pytest.raises(mc.exceptions.DataError, match="row 2"):
        mc.RBF()(X)
