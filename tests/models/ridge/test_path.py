"""Paths of kernel ridge by every solver, against the dense one and against single fits."""

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
N = 120
X = RNG.normal(size=(N, 3))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=N) + 20
BOTH = np.column_stack([Y, 100 * X[:, 1]])
W = RNG.uniform(0.1, 3.0, size=N)
W[:7] = 0
Z = RNG.normal(size=(11, 3))
KERNEL = mc.Matern(1.5)
ALPHAS = np.array([3.0, 1e-2, 0.3, 100.0])
SOME = np.arange(20, 50)
MAP = mc.RandomFourier(mc.RBF(1.5), n_components=60, random_state=0)


def name(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(landmarks=np.arange(N)), S.ConjugateGradient(tol=1e-11)], ids=name
)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_complete_solvers_give_the_exact_path(
    y: Array, fit_intercept: bool, weights: Array | None, solver: Any
) -> None:
    exact = mc.KernelRidge(KERNEL, fit_intercept=fit_intercept).path(X, y, ALPHAS, weights)
    model = mc.KernelRidge(KERNEL, fit_intercept=fit_intercept, solver=solver)
    path = model.path(X, y, ALPHAS, weights)
    assert path.solver is not None
    assert_allclose(path.predict(Z), exact.predict(Z), rtol=1e-6, atol=1e-6)
    assert path.dual_coef.shape == exact.dual_coef.shape
    assert path.intercept.shape == exact.intercept.shape
    if isinstance(solver, S.NystromSolver):
        assert_allclose(path.effective_dof, exact.effective_dof, rtol=1e-6)
        assert_allclose(path.gcv_errors, exact.gcv_errors, rtol=1e-5)
        assert_allclose(path.loo_errors, exact.loo_errors, rtol=1e-5)
    else:
        assert np.isnan(path.loo_errors).all()


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [
        (KERNEL, S.NystromSolver(landmarks=SOME)),
        (mc.Polynomial(2), S.Primal()),
        (mc.RBF(1.5), S.RandomFeatures(MAP)),
        (KERNEL, S.ConjugateGradient(tol=1e-11)),
        (KERNEL, S.ConjugateGradient("nystrom", tol=1e-11, random_state=0)),
    ],
    ids=name,
)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_every_point_of_a_path_is_a_fit(kernel: Any, solver: Any, weights: Any, y: Array) -> None:
    model = mc.KernelRidge(kernel, solver=solver)
    path = model.path(X, y, ALPHAS, weights)
    assert not hasattr(model, "dual_coef_")
    for alpha, found in zip(ALPHAS, path.predict(Z), strict=True):
        single = mc.KernelRidge(kernel, alpha, solver=solver).fit(X, y, weights)
        assert_allclose(found, single.predict(Z), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(landmarks=SOME), S.RandomFeatures(MAP)], ids=name
)
def test_errors_on_a_path_are_those_of_a_search(solver: Any) -> None:
    path = mc.KernelRidge(mc.RBF(1.5), solver=solver).path(X, Y, ALPHAS)
    for criterion, errors in (("loo", path.loo_errors), ("gcv", path.gcv_errors)):
        model = mc.KernelRidge(mc.RBF(1.5), criterion, alphas=ALPHAS, solver=solver).fit(X, Y)
        assert_allclose(errors, model.search_errors_[0], rtol=1e-9)


def test_auto_takes_what_a_search_would(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(mc.KernelRidge(KERNEL).path(X, Y, [1.0]).solver) == "Spectral()"
    monkeypatch.setattr("mercer.solvers.forecast.RidgeFit.dense_rows", 10)
    monkeypatch.setattr("mercer.solvers.forecast.RidgeFit.product_rows", 20)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 30)
    path = mc.KernelRidge(KERNEL).path(X, Y, ALPHAS)
    assert isinstance(path.solver, S.NystromSolver)
    assert path.dual_coef.shape == (4, 30)


def test_single_precision() -> None:
    solver = S.NystromSolver(landmarks=SOME)
    double = mc.KernelRidge(KERNEL, solver=solver).path(X, Y, ALPHAS)
    single = mc.KernelRidge(KERNEL, solver=solver).path(
        X.astype(np.float32), Y.astype(np.float32), ALPHAS
    )
    assert_allclose(single.predict(Z), double.predict(Z), rtol=1e-4)


def test_what_a_path_cannot_do() -> None:
    for solver in (S.ConjugateGradient(), S.Primal()):
        with pytest.raises(ParameterError, match="alpha = 0"):
            mc.KernelRidge(mc.Linear(), solver=solver).path(X, Y, [0.0, 1.0])
    short = S.ConjugateGradient(None, max_iter=2)
    with pytest.warns(NumericalWarning, match="stopped after 2"):
        mc.KernelRidge(KERNEL, solver=short).path(X, Y, [1e-3])
