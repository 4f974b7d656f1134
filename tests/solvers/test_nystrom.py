"""Landmark solvers: on a matrix that is given as X, against the same kernel on vectors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError, ParameterError

S = mc.solvers
RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(150, 3)), RNG.normal(size=(20, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.digitize(Y, [-0.5, 0.5])
KERNEL = mc.RBF(1.0)
K, CROSS = KERNEL(X), KERNEL(NEW, X)
ROWS = np.array([3, 141, 5, 92, 65, 35])
SOLVERS = [
    solver(20, how, random_state=0)
    for solver in (S.NystromSolver, S.Falkon)
    for how in ("uniform", "rpcholesky", "kmeans++", "leverage", ROWS)
]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge(solver: Any, weighted: bool) -> None:
    weights = RNG.uniform(0.5, 2.0, size=150) if weighted else None
    given = mc.KernelRidge(mc.Precomputed(), 0.1, solver=solver).fit(K, Y, weights)
    vectors = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y, weights)
    assert_array_equal(given.rows_, vectors.rows_)
    assert_allclose(given.predict(CROSS), vectors.predict(NEW), atol=1e-7)
    assert_allclose(given.trace_error_, vectors.trace_error_, atol=1e-10)


def test_the_columns_of_landmarks_are_read() -> None:
    # The best function over the landmarks, from normal equations that are written out.
    model = mc.KernelRidge(
        mc.Precomputed(), 0.1, False, solver=S.NystromSolver(landmarks=ROWS)
    ).fit(K, Y)
    C, M = K[:, ROWS], K[np.ix_(ROWS, ROWS)]
    coef = np.linalg.solve(C.T @ C + 0.1 * M, C.T @ Y)
    assert_allclose(model.dual_coef_, coef, rtol=1e-8)
    others = np.full_like(CROSS, 1e6)
    others[:, ROWS] = CROSS[:, ROWS]
    assert_allclose(model.predict(others), CROSS[:, ROWS] @ coef, rtol=1e-8)
    kept = pickle.loads(pickle.dumps(model))
    assert_array_equal(kept.predict(CROSS), model.predict(CROSS))


@pytest.mark.parametrize("alpha", ["loo", "gcv"])
def test_a_choice_and_a_path(alpha: str) -> None:
    solver, alphas = S.NystromSolver(20, random_state=0), [0.01, 0.1, 1.0]
    given = mc.KernelRidge(mc.Precomputed(), alpha, alphas=alphas, solver=solver).fit(K, Y)
    vectors = mc.KernelRidge(KERNEL, alpha, alphas=alphas, solver=solver).fit(X, Y)
    assert given.alpha_ == vectors.alpha_
    assert_allclose(given.search_errors_, vectors.search_errors_, rtol=1e-8)
    path = given.path(K, Y, alphas)
    assert_allclose(path.predict(CROSS), vectors.path(X, Y, alphas).predict(NEW), atol=1e-9)


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(20, random_state=0), S.Falkon(20, random_state=0)]
)
def test_single_precision(solver: Any) -> None:
    given = mc.KernelRidge(mc.Precomputed(), 0.1, solver=solver).fit(K.astype(np.float32), Y)
    vectors = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y)
    assert_allclose(given.predict(CROSS.astype(np.float32)), vectors.predict(NEW), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_machines(solver: Any) -> None:
    given = mc.KernelMachineClassifier(mc.Precomputed(), "logistic", 0.1, solver=solver)
    vectors = mc.KernelMachineClassifier(KERNEL, "logistic", 0.1, solver=solver)
    given.fit(K, LABELS)
    vectors.fit(X, LABELS)
    assert_allclose(given.decision_function(CROSS), vectors.decision_function(NEW), atol=1e-6)
    assert_allclose(given.trace_error_, vectors.trace_error_, atol=1e-10)
    huber = [
        mc.KernelHuberRegressor(kernel, solver=solver).fit(data, Y)
        for kernel, data in ((mc.Precomputed(), K), (KERNEL, X))
    ]
    assert_allclose(huber[0].predict(CROSS), huber[1].predict(NEW), atol=1e-6)


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(20, random_state=0), S.Falkon(20, random_state=0)]
)
def test_support_vector_machines(solver: Any) -> None:
    given = mc.SVC(mc.Precomputed(), solver=solver).fit(K, LABELS)
    vectors = mc.SVC(KERNEL, solver=solver).fit(X, LABELS)
    assert_array_equal(given.support_, vectors.support_)
    assert_allclose(given.decision_function(CROSS), vectors.decision_function(NEW), atol=1e-9)


GP_SOLVERS = [
    S.NystromSolver(20, random_state=0),
    S.NystromSolver(20, "rpcholesky", random_state=0),
    S.NystromSolver(landmarks=ROWS),
    S.Falkon(20, random_state=0),
    S.Falkon(landmarks=ROWS),
    S.ConjugateGradient(random_state=0),
]


@pytest.mark.parametrize("solver", GP_SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_processes(solver: Any, weighted: bool) -> None:
    noisy = Y + 0.3 * RNG.normal(size=150)
    weights = RNG.integers(0, 3, size=150).astype(float) if weighted else None
    if weights is not None:
        weights[[3, 5]] = 0  # landmarks that are given need not count
    given = mc.GaussianProcessRegressor(1.0 * mc.Precomputed(), solver=solver)
    kernel = 1.0 * mc.RBF(mc.Fixed(1.0))
    vectors = mc.GaussianProcessRegressor(kernel, solver=solver)
    given.fit(K, noisy, weights)
    vectors.fit(X, noisy, weights)
    assert_array_equal(given.rows_, vectors.rows_)
    assert_allclose(given.theta_, vectors.theta_, atol=1e-7)
    assert_allclose(given.predict(CROSS), vectors.predict(NEW), atol=1e-7)
    assert_allclose(given.lower_bound_, vectors.lower_bound_, rtol=1e-9)
    assert_allclose(given.trace_error_, vectors.trace_error_, atol=1e-10)
    theta = given.theta_ + 0.1
    for model in (given, pickle.loads(pickle.dumps(given))):
        assert_allclose(model.predict(CROSS), vectors.predict(NEW), atol=1e-7)
        value, slope = model.log_marginal_likelihood_gradient(theta)
        wanted_value, wanted = vectors.log_marginal_likelihood_gradient(theta)
        assert value == pytest.approx(wanted_value, rel=1e-9)
        assert_allclose(slope, wanted, rtol=1e-6)
    if isinstance(solver, S.NystromSolver):
        loo, others = given.loo_predictions_, vectors.loo_predictions_
        assert_allclose(loo.mean, others.mean, atol=1e-7)
        assert_allclose(loo.variance, others.variance, rtol=1e-7)


def test_gaussian_processes_in_single_precision() -> None:
    noisy = Y + 0.3 * RNG.normal(size=150)
    for solver in GP_SOLVERS:
        settings: dict[str, Any] = {"noise": 0.1, "learn": False, "solver": solver}
        single = mc.GaussianProcessRegressor(mc.Precomputed(), **settings)
        double = mc.GaussianProcessRegressor(mc.Precomputed(), **settings)
        single.fit(K.astype(np.float32), noisy)
        double.fit(K, noisy)
        assert_allclose(single.predict(CROSS.astype(np.float32)), double.predict(CROSS), atol=1e-4)


@pytest.mark.parametrize("solver", [*GP_SOLVERS, S.Cholesky(), S.Spectral()])
def test_variances_of_rows_whose_own_value_is_not_known(solver: Any) -> None:
    model = mc.GaussianProcessRegressor(mc.Precomputed(), 0.1, learn=False, solver=solver)
    model.fit(K, Y)
    for action in (
        lambda: model.predict(CROSS, return_std=True),
        lambda: model.predict(CROSS, return_cov=True),
        lambda: model.sample_y(CROSS),
        lambda: model.update(CROSS, np.zeros(20)),
    ):
        with pytest.raises(DataError, match=r"needs k\(x, x\) of the new rows"):
            action()


@pytest.mark.parametrize("removed", [ROWS, np.arange(140, 150)], ids=["anywhere", "last"])
def test_a_pickled_process_has_the_likelihood_of_the_rows_that_count(removed: Any) -> None:
    weights = np.ones(150)
    weights[removed] = 0.0
    settings = {"noise": 0.1, "learn": False}
    given = mc.GaussianProcessRegressor(1.0 * mc.Precomputed(), **settings).fit(K, Y, weights)
    vectors = mc.GaussianProcessRegressor(mc.Fixed(1.0) * KERNEL, **settings)
    vectors.fit(np.delete(X, removed, axis=0), np.delete(Y, removed))
    for _ in range(2):
        given = pickle.loads(pickle.dumps(given))
        value, gradient = given.log_marginal_likelihood_gradient()
        assert_allclose(value, vectors.log_marginal_likelihood_, rtol=1e-9)
        for slope, step in zip(gradient, 1e-5 * np.eye(2), strict=True):
            ahead, behind = (given.log_marginal_likelihood(given.theta_ + h) for h in (step, -step))
            assert_allclose(slope, (ahead - behind) / 2e-5, rtol=1e-6)


def test_what_a_matrix_does_not_have() -> None:
    for solver, sentence in (
        (S.NystromSolver(20, "learn"), "got a kernel matrix"),
        (S.NystromSolver(landmarks=K[:5]), "pass their row numbers"),
        (S.Falkon(landmarks=K[:5]), "pass their row numbers"),
        (S.Primal(), "no finite features"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            mc.GaussianProcessRegressor(1.0 * mc.Precomputed(), solver=solver).fit(K, Y)
    with pytest.raises(DataError, match="square kernel matrix"):
        mc.GaussianProcessRegressor(mc.Precomputed(), solver=S.NystromSolver(20)).fit(K[:, :20], Y)
    chosen = mc.forecast(mc.GaussianProcessRegressor(mc.Precomputed()), K).chosen
    assert chosen == S.Cholesky()  # the matrix is not known to be valid


def test_bad_input() -> None:
    model = mc.KernelRidge(mc.Precomputed(), solver=S.NystromSolver(20, random_state=0))
    with pytest.raises(DataError, match="square kernel matrix"):
        model.fit(K[:, :20], Y)
    with pytest.raises(DataError, match="150 features"):
        model.fit(K, Y).predict(CROSS[:, :20])
    with pytest.raises(ParameterError, match="pass their row numbers"):
        mc.KernelRidge(mc.Precomputed(), solver=S.NystromSolver(landmarks=K[:5])).fit(K, Y)
