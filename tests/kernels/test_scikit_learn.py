"""scikit-learn's kernels of Gaussian processes as kernels here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as theirs

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.kernels.scikit_learn import converted, is_scikit_learns
from mercer.kernels.tree import declared

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(12, 3)), RNG.normal(size=(7, 3))

KERNELS = [
    theirs.RBF(0.7),
    theirs.RBF([0.5, 1.0, 2.0]),
    theirs.RBF([1.5]),
    theirs.Matern(1.3, nu=0.5),
    theirs.Matern(1.3, nu=2.5),
    theirs.Matern([1.0, 2.0, 3.0], nu=np.inf),
    theirs.RationalQuadratic(0.8, 1.7),
    theirs.DotProduct(1.5),
    theirs.ConstantKernel(2.5),
    theirs.WhiteKernel(0.3),
    2.0 * theirs.RBF(0.7) + theirs.WhiteKernel(0.1),
    theirs.RBF(0.7) * theirs.ConstantKernel(3.0) * theirs.Matern(),
    theirs.RBF(2.0) * theirs.DotProduct(),
    theirs.DotProduct(0.5) ** 2,
    theirs.Exponentiation(theirs.RBF(), 3.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_are_those_of_scikit_learn(kernel: Any) -> None:
    ours = converted("Model", kernel, X)
    np.testing.assert_allclose(ours(X), kernel(X), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(ours(X, Z), kernel(X, Z), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(ours.diag(X), kernel.diag(X), rtol=1e-10)


def test_the_periodic_kernel_is_taken_in_one_column() -> None:
    kernel = theirs.ExpSineSquared(0.8, 1.5)
    np.testing.assert_allclose(
        converted("Model", kernel, X[:, :1])(X[:, :1]), kernel(X[:, :1]), rtol=1e-10
    )
    with pytest.raises(ParameterError, match=r"rows of 3 columns.*mercer\.Periodic\(\)"):
        converted("Model", kernel, X)


def test_bounds_stay() -> None:
    fixed = converted("Model", theirs.RBF(2.0, "fixed"))
    assert declared(fixed, "length_scale") == mc.Fixed(2.0)
    bounded = converted("Model", theirs.RBF([1.0, 2.0], [(0.1, 3.0), (0.2, 4.0)]))
    assert declared(bounded, "length_scale") == mc.Bounded([1.0, 2.0], [0.1, 0.2], [3.0, 4.0])
    offset = converted("Model", theirs.DotProduct(2.0, (1.0, 3.0))).get_params()
    assert offset["constant__value"] == mc.Bounded(4.0, 1.0, 9.0)


def test_the_search_stays_within_the_bounds() -> None:
    y = np.sin(X[:, 0])
    kernel = theirs.RBF(1.0, (0.9, 1.1))
    model = mc.GaussianProcessRegressor(kernel, noise=1e-2).fit(X, y)
    assert 0.9 <= model.kernel_.length_scale <= 1.1


def test_kernels_without_a_counterpart_are_refused() -> None:
    for kernel in (theirs.PairwiseKernel(), theirs.CompoundKernel([theirs.RBF()])):
        with pytest.raises(ParameterError, match="has no counterpart here"):
            converted("Model", kernel)
    with pytest.raises(ParameterError, match="whole number"):
        converted("Model", theirs.Exponentiation(theirs.RBF(), 0.5))
    assert is_scikit_learns(theirs.RBF())
    assert not is_scikit_learns(mc.RBF())


@pytest.mark.parametrize(
    "kernel", [theirs.DotProduct(0.0), theirs.ConstantKernel(1e6) * theirs.RBF(1e-7)]
)
def test_values_outside_their_bounds_are_taken(kernel: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(mc.SVC(kernel).fit(rows, [0, 1] * 3).kernel_(rows), kernel(rows))
