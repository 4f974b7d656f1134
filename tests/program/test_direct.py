"""Small plain arrays take a short way through the engine, with the results of the long one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.kernels.base import pairs_of
from mercer.program import engine

RNG = np.random.default_rng(0)

KERNELS = [
    mc.RBF(0.7),
    mc.RBF([0.5, 1.0, 2.0]),
    mc.Matern(nu=1.3),
    mc.Laplacian(2.0),
    mc.Linear() ** 2 + 0.5 * mc.RBF() * mc.RationalQuadratic(),
    mc.Anova(degree=2),
    mc.Periodic(period=2.0),
    mc.RBF().normalized(),
    mc.RBF() + 0.3 * mc.White(),
    mc.RBF().on(0) * mc.Linear(),
    mc.SpectralMixture([1.0, 0.5], [[0.5, 1.0, 2.0]] * 2, [[1.0, 2.0, 3.0]] * 2),
    mc.ArcCosine(order=0),
    mc.Categorical(),
]


def by_the_long_way(kernel: mc.Kernel, X: Any, Z: Any = None) -> Any:
    return engine.gram(kernel.expression, pairs_of(kernel, X, Z))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_both_ways_agree_to_the_last_bit(kernel: mc.Kernel, dtype: Any) -> None:
    X = RNG.normal(size=(37, 3)).astype(dtype)
    Z = RNG.normal(size=(5, 3)).astype(dtype)
    for rows, cols in ((X, None), (X, Z), (X[::2], Z), (np.asfortranarray(X), Z), (X[:1], X[:1])):
        kernel(rows, cols)  # the first call of a kind binds the program
        got, expected = kernel(rows, cols), by_the_long_way(kernel, rows, cols)
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def test_errors_are_those_of_the_long_way() -> None:
    kernel = mc.RBF()
    X = RNG.normal(size=(4, 2))
    kernel(X)
    bad = X.copy()
    bad[2, 1] = np.nan
    with pytest.raises(mc.exceptions.DataError, match="row 2"):
        kernel(bad)
    with pytest.raises(mc.exceptions.DataError, match="columns"):
        kernel(X, RNG.normal(size=(4, 3)))
    small = mc.RBF(1e-200)
    small(X * 1e-200)
    with pytest.raises(mc.exceptions.DataError, match="exceed"):
        small(X * 1e200)


def test_changed_data_and_other_types_are_seen() -> None:
    kernel, X = mc.RBF(), RNG.normal(size=(6, 2))
    before = kernel(X).copy()
    X *= 2
    assert not np.allclose(kernel(X), before)
    assert kernel(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(kernel(X.astype(">f8")), kernel(X))
    np.testing.assert_allclose(kernel(X, X.astype(np.float32)), kernel(X), atol=1e-6)
