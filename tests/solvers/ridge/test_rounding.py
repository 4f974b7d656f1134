"""Columns far from zero: an intercept makes their offset immaterial, and rounding does not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

import mercer as mc
from mercer.exceptions import NumericalWarning

Array = NDArray[np.floating[Any]]

S = mc.solvers
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(300, 3)) * 2**20) / 2**20  # multiples of which sums are exact
Y = np.sin(X).sum(axis=1)
W = RNG.uniform(0.5, 2.0, size=300)
ALPHA = 0.1
LINEAR = Ridge(ALPHA).fit(X, Y).predict(X)


def model(solver: Any, alpha: Any = ALPHA) -> mc.KernelRidge:
    return mc.KernelRidge(mc.Linear(), alpha, solver=solver)


def blocks(rows: Array) -> mc.Blocks:
    return mc.Blocks([(rows[at : at + 77], Y[at : at + 77]) for at in range(0, 300, 77)])


@pytest.mark.parametrize("offset", [0.0, 1e5, 2.0**27])
def test_features(offset: float) -> None:
    rows, precision = X + offset, 1e-15 * max(10.0, offset)
    assert_allclose(model(S.Primal()).fit(rows, Y).predict(rows), LINEAR, atol=precision)
    assert_allclose(model(S.Primal()).fit(blocks(rows)).predict(rows), LINEAR, atol=precision)
    wanted = Ridge(ALPHA).fit(X, Y, W).predict(X)
    for solver in (S.Primal(), S.RandomFeatures(FunctionTransformer())):
        found = model(solver).fit(rows, Y, W)
        assert_allclose(found.predict(rows), wanted, atol=precision)
    path = model(S.Primal()).path(rows, Y, [ALPHA, 1e3])
    assert_allclose(path.predict(rows)[0], LINEAR, atol=precision)


def test_features_of_a_map_on_blocks() -> None:
    rows = X + 1e6
    solver = S.RandomFeatures(mc.TensorSketch(n_components=16, random_state=0))
    found = model(solver).fit(blocks(rows))
    phi = found.feature_map_.transform(rows)
    about = phi - phi.mean(axis=0)
    design = np.vstack([about, np.sqrt(ALPHA) * np.eye(phi.shape[1])])
    targets = np.concatenate([Y - Y.mean(), np.zeros(phi.shape[1])])
    wanted = about @ np.linalg.lstsq(design, targets, rcond=None)[0] + Y.mean()
    assert_allclose(found.predict(rows), wanted, atol=1e-8)


def test_leaving_rows_out() -> None:
    alphas = np.array([1e-3, 1.0, 30.0])
    design = np.column_stack([X, np.ones(300)])
    penalty = np.diag([1.0, 1.0, 1.0, 0.0])
    wanted = []
    for alpha in alphas:
        hat = design @ np.linalg.solve(design.T @ design + alpha * penalty, design.T)
        wanted.append(np.mean(((Y - hat @ Y) / (1 - hat.diagonal())) ** 2))
    found = mc.KernelRidge(mc.Linear(), "loo", alphas=alphas, solver=S.Primal()).fit(X + 2.0**27, Y)
    assert_allclose(found.search_errors_[0], wanted, rtol=1e-6)
    assert_allclose(np.mean(found.loo_residuals_**2), min(wanted), rtol=1e-6)


def test_landmarks() -> None:
    solver = S.NystromSolver(20, random_state=0)
    for offset, error in ((0.0, 1e-12), (1e5, 1e-5), (1e6, 1e-3)):
        found = model(solver).fit(X + offset, Y)
        assert_allclose(found.predict(X + offset), LINEAR, atol=error)
        assert_allclose(
            model(solver).fit(blocks(X + offset)).predict(X + offset), LINEAR, atol=error
        )


@pytest.mark.parametrize("alpha", [ALPHA, "gcv"])
def test_landmarks_that_rounding_hides_are_told(alpha: Any) -> None:
    sentence = r"KernelRidge: rounding of kernel values hides .*%.*subtract from each column"
    with pytest.warns(NumericalWarning, match=sentence):
        found = model(S.NystromSolver(20, random_state=0), alpha).fit(X + 1e8, Y)
    assert np.count_nonzero(found.dual_coef_) < 3
    assert found.score(X + 1e8, Y) >= 0  # few directions, but no noise
    with pytest.warns(NumericalWarning, match=sentence):
        model(S.NystromSolver(20, random_state=0)).path(X + 1e8, Y, [ALPHA, 1.0])


@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral()], ids=["Cholesky", "Spectral"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_predictions_that_rounding_reaches_are_told(solver: Any, weights: Array | None) -> None:
    sentence = (
        r"KernelRidge: kernel values of up to 3e\+12 .* 0\.0\d of the spread.*subtract.*Primal"
    )
    with pytest.warns(NumericalWarning, match=sentence):
        model(solver).fit(X + 1e6, Y, weights)
    # Neither the unit of the targets nor their mean is an error of predictions.
    with pytest.warns(NumericalWarning, match=sentence):
        model(solver).fit(X + 1e6, 1e6 * (Y + 1e3), weights)
    with warnings.catch_warnings(action="error"):
        model(solver).fit(X + 1e4, Y, weights)


@pytest.mark.parametrize("solver", [S.NystromSolver(5, random_state=0), S.Primal()])
def test_rows_that_are_all_alike_are_no_reason_to_warn(solver: Any) -> None:
    with warnings.catch_warnings(action="error"):
        found = model(solver).fit(np.full((30, 2), 1e6), Y[:30])
    assert_allclose(found.predict(np.full((1, 2), 1e6)), Y[:30].mean(), rtol=1e-6)
