"""Conjugate gradients on landmarks against the normal equations, formed in the test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import NumericalWarning, ParameterError

Array = NDArray[np.floating[Any]]

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
KERNEL = mc.Matern(1.0, nu=1.5)
ALPHAS = np.array([0.01, 0.1, 1.0, 10.0])


def expected(kernel: Any, points: Array, alpha: float) -> Array:
    """Predictions of the best function over landmarks, from a QR factor: no square of C."""
    centre = np.eye(len(X)) - 1 / len(X)
    values, vectors = np.linalg.eigh(kernel(points))
    kept = values > 1e-10 * values.max()
    features = kernel(X, points) @ vectors[:, kept] / np.sqrt(values[kept])
    stacked = np.vstack([centre @ features, np.sqrt(alpha) * np.eye(kept.sum())])
    right = np.append(Y - Y.mean(), np.zeros(kept.sum()))
    coef = np.linalg.lstsq(stacked, right, rcond=None)[0]
    return np.asarray(Y.mean() + (features - features.mean(axis=0)) @ coef)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_duplicate_landmarks_change_nothing(copies: int) -> None:
    landmarks = np.tile(X[:40], (copies, 1))
    solver = S.Falkon(landmarks=landmarks, tol=1e-9)
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y)
    assert model.converged_
    assert_allclose(model.predict(X), expected(KERNEL, X[:40], 0.1), atol=1e-6)
    assert model.dual_coef_.shape == (40 * copies,)
    assert np.count_nonzero(model.dual_coef_) == 40


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("kernel", [mc.Linear(), mc.Polynomial(2), mc.Constant(1.0)])
def test_more_landmarks_than_dimensions(kernel: Any, alpha: float, dtype: Any) -> None:
    # A landmark matrix of rank 3, 10 and 1: a warning of a breakdown would be an error here.
    rows = X.astype(dtype)
    model = mc.KernelRidge(kernel, alpha, solver=S.Falkon(50, random_state=0)).fit(rows, Y)
    tol = 1e-5 if dtype is np.float64 else 1e-3
    exact = mc.KernelRidge(kernel, alpha, solver=S.Cholesky()).fit(X, Y).predict(X)
    assert_allclose(model.predict(rows), exact, atol=tol)
    assert np.count_nonzero(model.dual_coef_) <= 10


def test_a_kernel_that_is_zero() -> None:
    model = mc.KernelRidge(mc.Linear(), solver=S.Falkon(5, random_state=0))
    assert_allclose(model.fit(np.zeros((20, 2)), Y[:20]).predict([[1.0, 2.0]]), Y[:20].mean())


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_path_is_the_fit_at_each_alpha(fit_intercept: bool) -> None:
    solver = S.Falkon(40, random_state=0, tol=1e-9, max_iter=500)
    targets = np.column_stack([Y, X[:, 0]])
    model = mc.KernelRidge(KERNEL, fit_intercept=fit_intercept, solver=solver)
    path = model.path(X, targets, ALPHAS)
    for alpha, found in zip(ALPHAS, path.predict(X), strict=True):
        one = model.set_params(alpha=alpha).fit(X, targets)
        assert_allclose(found, one.predict(X), atol=1e-6)
    assert np.isnan(path.loo_errors).all()


def test_a_path_against_the_normal_equations() -> None:
    solver = S.Falkon(landmarks=np.vstack([X[:40], X[:10]]), tol=1e-9, max_iter=500)
    path = mc.KernelRidge(KERNEL, solver=solver).path(X, Y, ALPHAS).predict(X)
    for alpha, found in zip(ALPHAS, path, strict=True):
        assert_allclose(found, expected(KERNEL, X[:40], alpha), atol=1e-6)


def test_a_path_that_stops_short() -> None:
    model = mc.KernelRidge(KERNEL, solver=S.Falkon(40, random_state=0, max_iter=2))
    with pytest.warns(NumericalWarning, match="stopped after 2"):
        model.path(X, Y, ALPHAS)
    with pytest.raises(ParameterError, match=r"tol = -1 of the solver"):
        mc.KernelRidge(KERNEL, solver=S.Falkon(5, tol=-1)).path(X, Y, ALPHAS)
