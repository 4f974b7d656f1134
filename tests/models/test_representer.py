"""Sums over training points: their values, their blocks, and their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from mercer.models import representer
from model_samples import NOISELESS
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, _, _ = NOISELESS
RBF = mc.RBF(length_scale=1.5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_blocks_do_not_change_a_number(fit_intercept: bool, monkeypatch: Any) -> None:
    model = mc.KernelRidge(RBF, fit_intercept=fit_intercept).fit(X, Y)
    whole = model.contributions(Z, top=4)
    sizes = []
    call = mc.RBF.__call__

    def recorded(self: mc.RBF, A: Any, B: Any = None) -> Array:
        block = call(self, A, B)
        sizes.append(block.size)
        return block

    monkeypatch.setattr(representer, "_BLOCK", 65)
    monkeypatch.setattr(mc.RBF, "__call__", recorded)
    parts = model.contributions(Z, top=4)
    assert max(sizes) <= 65
    assert sum(sizes) == 7 * 30
    for name in ("indices", "values", "kernel_values", "rest", "prediction"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_a_model_is_a_sum_over_its_points(y: Array) -> None:
    model = mc.KernelRidge(RBF).fit(X, y)
    expected = matrix(rbf, Z, X, length_scale=1.5) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-10)


@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_coefficients_of_features_are_those_of_points_summed(y: Array) -> None:
    for solver in (mc.solvers.Cholesky(), mc.solvers.Primal()):
        model = mc.KernelRidge(mc.Linear(), solver=solver).fit(X, y)
        found = model.primal_coef()
        np.testing.assert_allclose(found.values, X.T @ model.dual_coef_, atol=1e-10)
        np.testing.assert_allclose(Z @ found.values + found.intercept, model.predict(Z), rtol=1e-9)


def test_rows_in_blocks_have_no_coefficients_of_their_own() -> None:
    blocks = mc.Blocks([(X[:20], Y[:20]), (X[20:], Y[20:])])
    model = mc.KernelRidge(mc.Linear(), solver=mc.solvers.Primal())
    with pytest.raises(AttributeError, match="object has no attribute 'dual_coef_'"):
        _ = model.dual_coef_
    model.fit(blocks)
    with pytest.raises(AttributeError, match=r"rows that come in blocks are not kept.*primal_coef"):
        _ = model.dual_coef_
