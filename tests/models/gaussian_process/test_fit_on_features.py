"""Fits through features: the search, and the posterior that was planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from model_samples import HELD, QUADRATIC, waves

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, BOTH, Z, W, _ = QUADRATIC
N = len(X)
POLYNOMIAL = mc.Polynomial(2)
RBF = 1.7 * mc.RBF(length_scale=2.0)


def test_auto_is_fitted_by_features() -> None:
    model = GP(POLYNOMIAL).fit(X, Y)
    assert (model.solver_, model.search_solver_) == (S.Primal(), S.Primal())
    exact = GP(POLYNOMIAL, solver=S.Cholesky()).fit(X, Y)
    assert_allclose(model.predict(Z, True), exact.predict(Z, True), rtol=1e-6)


def test_the_map_gets_the_learned_kernel() -> None:
    model = GP(RBF, solver=waves()).fit(X, Y)
    assert isinstance(model.search_solver_, S.NystromSolver)
    assert model.feature_map_.kernel_ == model.kernel_ != RBF
    held = GP(model.kernel_, model.noise_, solver=waves(), learn=False).fit(X, Y)
    assert_allclose(held.predict(Z, True), model.predict(Z, True), rtol=1e-9)
    own = GP(RBF, solver=waves(kernel=RBF)).fit(X, Y)  # the map has the kernel of the model
    assert_allclose(own.predict(Z), model.predict(Z))
    with pytest.raises(ParameterError, match="the map of RandomFeatures has kernel"):
        GP(RBF, solver=waves(kernel=mc.RBF(3.0))).fit(X, Y)


def test_a_kernel_without_random_frequencies_is_refused_before_the_search() -> None:
    with pytest.raises(mc.exceptions.NoFeatureMapError):
        GP(POLYNOMIAL, solver=waves()).fit(X, Y)


@pytest.mark.parametrize(("kernel", "solver"), [(POLYNOMIAL, S.Primal()), (RBF, waves())])
def test_an_interrupt_keeps_the_best_so_far(
    kernel: mc.Kernel, solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = LandmarkObjective.value_and_gradient, 0

    def interrupted(self: Any, theta: Array) -> Any:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise KeyboardInterrupt
        return whole(self, theta)

    start = GP(kernel, noise=0.1 * Y.var(), learn=False, solver=S.Cholesky()).fit(X, Y)
    monkeypatch.setattr(LandmarkObjective, "value_and_gradient", interrupted)
    model = GP(kernel, solver=solver)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    assert model.n_evaluations_ == 5
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_
    assert model.predict(Z, return_std=True)[1].shape == (9,)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_falkons_mean_is_the_best_over_its_landmarks(weights: Any, y: Array) -> None:
    rows = np.unique([2, 5, 9, 40, 71, *np.flatnonzero(W == 0)[:2]])
    solver = S.Falkon(landmarks=rows, tol=1e-12)
    model = GP(RBF, 0.3, solver=solver, **HELD).fit(X, y, weights)
    w = np.ones(N) if weights is None else weights
    C, M = RBF(X, X[rows]), RBF(X[rows])
    dual = np.linalg.solve(C.T @ (C * w[:, None]) + 0.3 * M, C.T @ (y.T * w).T)
    assert_allclose(model.predict(Z), RBF(Z, X[rows]) @ dual, rtol=1e-6)
    assert_array_equal(model.rows_, rows)
    assert model.converged_
    assert model.residual_ < 1e-10
    share = 1 - np.sum(w * np.einsum("ij,ji->i", C, np.linalg.solve(M, C.T))) / (1.7 * w.sum())
    assert model.trace_error_ == pytest.approx(share, rel=0.1)  # of its landmarks, from some rows
    by_landmarks = GP(RBF, 0.3, solver=S.ConjugateGradient(random_state=0), **HELD)
    std = by_landmarks.fit(X, y, weights).predict(Z, return_std=True)[1]
    assert_allclose(model.predict(Z, return_std=True)[1], std, rtol=1e-6)


def test_falkon_learns_and_tells_of_itself() -> None:
    model = GP(RBF, solver=S.Falkon(40, "rpcholesky", random_state=0, tol=1e-8)).fit(X, Y)
    assert isinstance(model.search_solver_, S.NystromSolver)
    assert len(model.points_) == len(model.rows_) == 40
    assert_allclose(model.points_.data, X[model.rows_])
    again = GP(model.kernel_, model.noise_, solver=S.Cholesky(), learn=False).fit(X, Y)
    assert_allclose(model.predict(Z), again.predict(Z), atol=0.1)
    for action in (lambda: model.update(Z, np.zeros(9)), lambda: model.loo_predictions_):
        with pytest.raises(DataError, match="found by iterations"):
            action()
    rows = np.random.default_rng(1).normal(size=(600, 3))
    few = S.Falkon(20, max_iter=1, tol=1e-12, random_state=0)
    with pytest.warns(NumericalWarning, match="residual"):
        assert not GP(RBF, 0.3, solver=few, **HELD).fit(rows, rows[:, 0]).converged_
