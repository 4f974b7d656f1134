"""Diagnostics of ridge on features, against those of the matrix of pairs of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import MemoryForecastError
from mercer.rows.left_out import LeftOut
from mercer.rows.rows import RowBlock
from mercer.solvers.ridge.feature_problem import FeatureProblem, InnerProducts, feature_problem
from mercer.solvers.ridge.gram import RidgeProblem

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 2))
W = RNG.uniform(0.5, 2.0, size=30)


def features(points: mc.Points) -> Any:
    return points.data.copy()


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_it_is_the_problem_of_all_pairs(weights: Any, fit_intercept: bool) -> None:
    part = LeftOut(RowBlock(mc.Points(X), Y, weights))
    few = feature_problem("Owner", part, features, 4, fit_intercept=fit_intercept)
    assert isinstance(few, FeatureProblem)

    def pairs() -> RidgeProblem:
        return RidgeProblem(X @ X.T, Y, weights, fit_intercept)

    found, expected = few.leave_one_out(0.3), pairs().leave_one_out(0.3)
    assert_allclose(found.residuals, expected.residuals, rtol=1e-8)
    assert found.effective_dof == pytest.approx(expected.effective_dof)
    assert_allclose(few.eigenvalues(), pairs().eigenvalues(), atol=1e-11)
    for criterion in ("loo", "gcv"):
        alphas = np.array([0.1, 10.0])
        assert_allclose(few.errors(alphas, criterion), pairs().errors(alphas, criterion), rtol=1e-8)


def test_more_features_than_rows_are_a_problem_of_pairs() -> None:
    part = LeftOut(RowBlock(mc.Points(X[:3]), Y[:3]))
    assert isinstance(feature_problem("Owner", part, features, 4, fit_intercept=True), RidgeProblem)


def test_inner_products_are_dense_and_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mc.Points(X)
    products = InnerProducts.within_memory(lambda p: sp.csr_array(p.data), rows, 4, "Owner")
    assert_allclose(products(mc.Points(X[:5])), X[:5] @ X.T)
    monkeypatch.setattr("mercer.memory.available", lambda: 1000)
    with pytest.raises(MemoryForecastError, match="Owner: 4 features of 30 training points"):
        InnerProducts.within_memory(features, rows, 4, "Owner")
