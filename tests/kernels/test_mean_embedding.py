"""The kernel of bags against a double loop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

import mercer as mc
import references as ref
from mercer.exceptions import DataError, DataTypeError, ParameterError
from words import least_eigenvalue

RNG = np.random.default_rng(8)
BAGS = [RNG.normal(size=(n, 3)) for n in (4, 1, 7, 2, 5)]


def mean(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([[ref.rbf(x, z) for z in b] for x in a]))


def test_the_kernel_is_the_mean_over_pairs() -> None:
    kernel = mc.MeanEmbedding(mc.RBF(1.0))
    wanted = ref.matrix(mean, BAGS)
    assert_allclose(kernel(BAGS), wanted, rtol=1e-12)
    assert_allclose(kernel(BAGS[:2], BAGS), wanted[:2], rtol=1e-12)
    assert_allclose(kernel.diag(BAGS), np.diag(wanted), rtol=1e-12)
    assert least_eigenvalue(wanted) > 0


def test_bags_of_one_vector_have_the_base_kernel() -> None:
    X = RNG.normal(size=(6, 2))
    kernel = mc.MeanEmbedding(mc.Matern(nu=1.5) + mc.Linear())
    assert_allclose(kernel([x[None] for x in X]), kernel.base(X), rtol=1e-12)


def test_a_linear_base_compares_means() -> None:
    means = np.array([bag.mean(axis=0) for bag in BAGS])
    assert_allclose(mc.MeanEmbedding(mc.Linear())(BAGS), means @ means.T, rtol=1e-12)


def test_bags_of_one_shape_may_be_an_array_or_a_column() -> None:
    X = RNG.normal(size=(4, 5, 2))
    kernel = mc.MeanEmbedding(mc.RBF(1.0))
    assert_array_equal(kernel(X), kernel(list(X)))
    frame = pd.DataFrame({"bag": list(X), "age": range(4)})
    assert_array_equal(kernel.on("bag")(frame), kernel(X))


def test_empty_and_missing_bags_have_the_kernel_zero() -> None:
    K = mc.MeanEmbedding(mc.RBF(1.0))([BAGS[0], np.empty((0, 3)), None])
    assert K[0, 0] > 0
    assert K.sum() == K[0, 0]


def test_large_bags_are_compared_in_blocks() -> None:
    bags = [RNG.normal(size=(n, 1)) for n in (3000, 2500)]
    K = mc.MeanEmbedding(mc.RBF(1.0))(bags)
    assert_allclose(K[0, 1], mc.RBF(1.0)(bags[0], bags[1]).mean(), rtol=1e-10)


def test_models_search_over_base_kernels() -> None:
    y = np.array([bag.mean() for bag in BAGS * 3])
    grid = {"kernel__base": [mc.RBF(0.5), mc.RBF(5.0)]}
    model = mc.KernelRidge(mc.MeanEmbedding(mc.RBF(1.0)), alpha=0.1)
    search = GridSearchCV(model, grid, cv=2).fit(BAGS * 3, y)
    assert search.predict(BAGS).shape == (5,)


def test_validity_is_that_of_the_base() -> None:
    assert mc.MeanEmbedding(mc.RBF(1.0)).is_psd
    assert mc.MeanEmbedding(mc.Sigmoid()).is_psd == mc.Sigmoid().is_psd


def test_what_is_no_bag_is_refused() -> None:
    kernel = mc.MeanEmbedding(mc.RBF(1.0))
    with pytest.raises(DataTypeError, match="row 1 is not a bag of vectors"):
        kernel([BAGS[0], [1.0, 2.0]])
    with pytest.raises(DataTypeError, match="row 0 is not a bag of vectors"):
        kernel(["ACGT", "AC"])
    with pytest.raises(DataError, match="from 2 to 3 columns"):
        kernel([BAGS[0], np.ones((2, 2))])
    with pytest.raises(DataError, match="NaN"):
        kernel([BAGS[0], np.full((2, 3), np.nan)])
    with pytest.raises(ParameterError, match="pass a kernel"):
        mc.MeanEmbedding(mc.RBF("median"))
    with pytest.raises(ParameterError, match="pass a kernel"):
        mc.MeanEmbedding("rbf")  # type: ignore[arg-type]
