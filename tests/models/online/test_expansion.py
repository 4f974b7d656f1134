"""Sums of kernels at rows of a pool, against dense matrices and a loop over single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mercer as mc
from lms_loop import naive
from mercer.models.online.expansion import (
    BudgetedRowPass,
    FeatureExpansion,
    KernelExpansion,
    RowPass,
)
from model_samples import STREAM
from references import matrix, rbf

X, Y, _, _, _, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)
K = matrix(rbf, X, length_scale=1.5)


def test_noise_on_the_identity_of_rows_acts_as_in_the_gram_matrix() -> None:
    kernel = RBF + mc.White()
    coef, _ = naive(K + np.eye(N), Y, 0.5, 0.0, np.ones(N), passes=2)
    for kept in (True, False):
        model = mc.KernelLMS(kernel, 0.5, max_iter=2, batch_size=16)
        if not kept:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(KernelExpansion, "keeping_matrix", lambda self: self)
                model.fit(X, Y)
        else:
            model.fit(X, Y)
        np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-10, atol=1e-13)


def expansion(active: list[int], kernel: mc.Kernel = RBF) -> KernelExpansion:
    rows = np.array(active, dtype=np.intp)
    coef = np.column_stack([np.arange(1.0, len(rows) + 1), np.ones(len(rows))])
    return KernelExpansion(kernel, kernel.prepare(X), np.arange(N), rows, coef)


@pytest.mark.parametrize("kept", [False, True])
def test_values_and_changes_are_those_of_the_gram_matrix(kept: bool) -> None:
    f = expansion([3, 7, 20])
    f = f.keeping_matrix() if kept else f
    coef = np.zeros((N, 2))
    coef[f.active] = f.coef
    rows, increments = np.array([5, 7, 6]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_allclose(f.values(rows), K[rows] @ coef, rtol=1e-10)
    np.testing.assert_allclose(f.gram(rows, f.active), K[np.ix_(rows, f.active)], rtol=1e-10)
    np.testing.assert_allclose(f.diagonal(rows), 1.0)
    changed, coef = f.changed(rows, increments, factor=0.5), 0.5 * coef
    coef[rows] += increments
    assert changed.active.tolist() == [3, 7, 20, 5, 6]
    np.testing.assert_allclose(changed.values(np.arange(N)), K @ coef, rtol=1e-10, atol=1e-12)
    assert f.active.tolist() == [3, 7, 20]  # a state that was reported does not change


def test_features_are_the_kernel_of_their_inner_products() -> None:
    rows, increments = np.array([4, 2]), np.array([[1.0, -1.0], [0.5, 2.0]])
    for features in (X, sp.csr_array(X)):
        f = FeatureExpansion(features, np.ones((3, 2))).changed(rows, increments, factor=0.5)
        weights = 0.5 + X[rows].T @ increments
        np.testing.assert_allclose(f.values(np.arange(N)), X @ weights, rtol=1e-12)
        np.testing.assert_allclose(f.gram(rows, rows), X[rows] @ X[rows].T, rtol=1e-12)
        np.testing.assert_allclose(f.diagonal(rows), (X[rows] ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("budget", [None, mc.budgets.Remove(4)])
def test_a_pass_over_rows_keeps_their_values_up_to_date(budget: Any) -> None:
    f, rows = expansion([3, 7, 20]), np.array([7, 8, 9])
    row_pass = RowPass(f, rows) if budget is None else BudgetedRowPass(f, rows, budget)
    for place in range(3):
        row_pass.add(place, np.array([1.0, -2.0]))
    found = row_pass.result()
    assert found.active.tolist() == ([3, 7, 20, 8, 9] if budget is None else [7, 20, 8, 9])
    np.testing.assert_allclose(row_pass.values, found.values(rows), rtol=1e-10)
