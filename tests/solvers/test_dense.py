"""Solvers that store the matrix of all pairs of rows, against plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import ValidityError
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers.protocol import RidgeTask

S = mc.solvers
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=(20, 2))
KERNEL = mc.RBF(0.5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("alpha", ["gcv", "loo", 1.0, 0.0])
def test_rows_that_are_all_alike(alpha: Any, dtype: Any) -> None:
    # Once the mean is out, nothing is left but rounding. All candidates have the same error up to
    # rounding, so that any may be chosen; coefficients are at most 30 / alpha, and values of the
    # function are off by their rounding.
    rows = np.tile(np.array([0.3, 1.7], dtype), (60, 1))
    y = np.arange(60.0)
    model = mc.KernelRidge(mc.RBF(3.0), alpha, alphas=[1.0, 10.0, 60.0], solver=S.Spectral())
    model.fit(rows, y)
    assert_allclose(model.predict(rows[:1]), 29.5, rtol=1e-5)
    assert_allclose(model.effective_dof_, 1.0, atol=1e-4)


def task(alphas: Any, psd: str = "raise", kernel: Any = KERNEL, data: Any = X) -> RidgeTask:
    rows = InMemory(RowBlock(kernel.prepare(data), Y))
    return RidgeTask("Owner", kernel, rows, False, np.array(alphas), psd=psd)


@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral()], ids=["cholesky", "spectral"])
def test_a_path_and_a_search_solve_the_equations(solver: Any) -> None:
    alphas, K = [0.1, 1.0], KERNEL(X)
    inverses = [np.linalg.inv(K + alpha * np.eye(20)) for alpha in alphas]
    path = solver._path(task(alphas))
    assert_allclose(path.dual, [inverse @ Y for inverse in inverses], rtol=1e-9)
    # Leave-one-out residuals are a_i / G_ii with G the inverse.
    shares = 1 / np.mean(Y**2, axis=0)  # there is no intercept: variances are about zero
    shares /= shares.sum()
    left_out = [inverse @ Y / np.diag(inverse)[:, None] for inverse in inverses]
    errors = [np.mean(residuals**2, axis=0) @ shares for residuals in left_out]
    found = solver.search([task(alphas)])
    assert_allclose(found.errors[0], errors, rtol=1e-9)
    assert found.answer.alpha == alphas[int(np.argmin(errors))]
    assert_allclose(found.answer.dual, inverses[int(np.argmin(errors))] @ Y, rtol=1e-9)


def test_a_repair_is_folded_into_the_coefficients() -> None:
    values, vectors = np.linalg.eigh(KERNEL(X))
    values[:5] = -0.5
    indefinite = (vectors * values) @ vectors.T
    found = S.Cholesky()._ridge(task([0.1], "clip", mc.Precomputed(), indefinite))
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    expected = clipped @ np.linalg.solve(clipped + 0.1 * np.eye(20), Y)
    assert_allclose(indefinite @ found.dual, expected, atol=1e-9)
    with pytest.raises(ValidityError):
        S.Cholesky()._ridge(task([0.1], "raise", mc.Precomputed(), indefinite))
