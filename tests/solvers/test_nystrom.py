"""Landmark solvers against the exact answer, plain least squares, and on a matrix given as X."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import (
    DataError,
    MercerWarning,
    ParameterError,
)
from solver_data import MATERN, TARGET, TRAIN, N, W, Z

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
    given = mc.GaussianProcessRegressor(1.0 * mc.Precomputed(), mc.Fixed(0.1), solver=solver)
    kernel = 1.0 * mc.RBF(mc.Fixed(1.0))
    vectors = mc.GaussianProcessRegressor(kernel, mc.Fixed(0.1), solver=solver)
    given.fit(K, noisy, weights)
    vectors.fit(X, noisy, weights)
    assert_array_equal(given.rows_, vectors.rows_)
    assert_allclose(given.theta_, vectors.theta_, atol=1e-5)  # a search ends near its maximum
    given.set_params(kernel=vectors.kernel_.scale * mc.Precomputed(), learn=False)
    given.fit(K, noisy, weights)
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


Array = NDArray[np.floating[Any]]


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("weights", [None, W[7:]], ids=["plain", "weighted"])
def test_landmarks_choose_alpha_as_the_dense_solver_does(
    criterion: Any, weights: Array | None
) -> None:
    alphas = np.geomspace(1e-3, 10, 7)
    rows, y = TRAIN[7:], TARGET[7:]
    dense = mc.KernelRidge(MATERN, criterion, alphas=alphas).fit(rows, y, weights)
    solver = S.NystromSolver(n_landmarks=len(rows))
    found = mc.KernelRidge(MATERN, criterion, alphas=alphas, solver=solver).fit(rows, y, weights)
    assert_allclose(found.search_errors_, dense.search_errors_, rtol=1e-6)
    assert found.alpha_ == dense.alpha_


def test_length_scales_are_compared_on_landmarks() -> None:
    lengths = [0.1, 1.5, 30.0]
    parameters: dict[str, Any] = {"alpha": 0.1, "length_scales": lengths}
    dense = mc.KernelRidge(mc.RBF(), **parameters).fit(TRAIN, TARGET)
    few = mc.KernelRidge(mc.RBF(), **parameters, solver=S.NystromSolver(N)).fit(TRAIN, TARGET)
    assert few.kernel_ == dense.kernel_
    assert_allclose(few.search_errors_, dense.search_errors_, rtol=1e-5)


@pytest.mark.parametrize("kind", [S.NystromSolver, S.Falkon])
def test_more_landmarks_are_better(kind: Any) -> None:
    exact = mc.KernelRidge(MATERN, 0.1).fit(TRAIN, TARGET).predict(Z)
    errors, left = [], []
    for m in (10, 40, N):
        model = mc.KernelRidge(MATERN, 0.1, solver=kind(n_landmarks=m, random_state=1)).fit(
            TRAIN, TARGET
        )
        errors.append(float(np.abs(model.predict(Z) - exact).max()))
        left.append(getattr(model, "trace_error_", 0.0))
        assert len(model.points_) == m
    assert errors[0] > errors[1] > errors[2]
    assert left == sorted(left, reverse=True)


@pytest.mark.parametrize(
    "how", ["uniform", "kmeans++", "rpcholesky", "leverage", [3, 5, 8], TRAIN[:9]]
)
def test_landmarks_of_all_kinds(how: Any) -> None:
    solver = S.NystromSolver(n_landmarks=9, landmarks=how, random_state=0)
    model = mc.KernelRidge(MATERN, 0.1, solver=solver).fit(TRAIN, TARGET)
    assert model.score(TRAIN, TARGET) > 0
    assert 0 < model.trace_error_ < 1


def test_duplicate_rows_and_landmarks() -> None:
    twice = np.vstack([TRAIN, TRAIN])
    solver = S.NystromSolver(n_landmarks=2 * N)
    model = mc.KernelRidge(MATERN, 0.1, solver=solver).fit(twice, np.append(TARGET, TARGET))
    exact = mc.KernelRidge(MATERN, 0.05).fit(TRAIN, TARGET)
    assert_allclose(model.predict(Z), exact.predict(Z), rtol=1e-6)


def test_diagnostics_that_need_all_rows() -> None:
    model = mc.KernelRidge(MATERN, 0.1, solver=S.NystromSolver(20)).fit(TRAIN, TARGET)
    with pytest.raises(DataError, match=r"kept 20 of the 160 rows.*Cholesky"):
        _ = model.loo_residuals_
    assert 0 < model.effective_dof_ < 20


def test_more_landmarks_than_rows() -> None:
    with pytest.warns(MercerWarning, match="160"):
        model = mc.KernelRidge(MATERN, 0.1, solver=S.NystromSolver(10_000)).fit(TRAIN, TARGET)
    assert len(model.points_) == N


@pytest.mark.parametrize("alpha", [1e-2, 1e-4, 1e-6])
def test_close_landmarks_keep_their_digits(alpha: float) -> None:
    # Squares of kernel values would drown alpha here: the least objective is found all the same.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(X).sum(axis=1)
    kernel, Z = mc.RBF(1.5), X[:150]
    C, M = kernel(X, Z), kernel(Z)
    values, vectors = np.linalg.eigh(M)
    kept = values > 1e-13 * values[-1]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    design = np.vstack([C @ whitening, np.sqrt(alpha) * np.eye(kept.sum())])
    wanted = np.linalg.lstsq(design, np.concatenate([y, np.zeros(kept.sum())]), rcond=None)[0]

    def objective(f: Array, square: float) -> float:
        return float(np.sum((y - f) ** 2) + alpha * square)

    least = objective(C @ whitening @ wanted, float(wanted @ wanted))
    solver = mc.solvers.NystromSolver(landmarks=Z)
    model = mc.KernelRidge(kernel, alpha, fit_intercept=False, solver=solver).fit(X, y)
    c = model.dual_coef_
    assert objective(model.predict(X), float(c @ M @ c)) <= least * (1 + 1e-3) + 1e-9
    path = mc.KernelRidge(kernel, fit_intercept=False, solver=solver).path(X, y, [alpha])
    assert_allclose(path.predict(X)[0], model.predict(X), atol=1e-6)


@pytest.mark.parametrize("length_scale", [1.5, 20.0])
def test_all_rows_as_landmarks_have_the_degrees_of_freedom_of_the_whole(
    length_scale: float,
) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.sin(X).sum(axis=1)
    kernel = mc.RBF(length_scale)
    exact = mc.KernelRidge(kernel, 1e-3, solver=mc.solvers.Cholesky()).fit(X, y)
    solver = mc.solvers.NystromSolver(landmarks=np.arange(200))
    model = mc.KernelRidge(kernel, 1e-3, solver=solver).fit(X, y)
    assert model.effective_dof_ == pytest.approx(exact.effective_dof_, rel=1e-6)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-1, 1e-3, "gcv", "loo"])
def test_close_landmarks_in_single_precision(alpha: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.sin(X).sum(axis=1)
    solver = mc.solvers.NystromSolver(landmarks=np.arange(200))
    single = mc.KernelRidge(mc.RBF(1.2), alpha, solver=solver).fit(
        X.astype(np.float32), y.astype(np.float32)
    )
    double = mc.KernelRidge(mc.RBF(1.2), alpha, solver=solver).fit(X, y)
    errors = [
        float(np.sqrt(np.mean((model.predict(X.astype(dtype)) - y) ** 2)))
        for model, dtype in ((single, np.float32), (double, np.float64))
    ]
    assert errors[0] < 2 * errors[1] + 1e-3


@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("length_scale", [1.1, 1.5652, 2.2])
def test_single_precision_predicts_as_double_does(alpha: float, length_scale: float) -> None:
    rng = np.random.default_rng(0)
    rows, fresh = rng.normal(size=(3000, 5)), rng.normal(size=(1000, 5))
    y, truth = np.sin(rows).sum(axis=1) + 0.1 * rng.normal(size=3000), np.sin(fresh).sum(axis=1)
    errors = []
    for dtype in (np.float32, np.float64):
        solver = S.NystromSolver(landmarks=np.arange(300))
        model = mc.KernelRidge(mc.RBF(length_scale), alpha, solver=solver)
        model.fit(rows.astype(dtype), y.astype(dtype))
        errors.append(float(np.sqrt(np.mean((model.predict(fresh.astype(dtype)) - truth) ** 2))))
    assert errors[0] < 1.01 * errors[1]


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon], ids=lambda s: s.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_nearly_dependent_landmarks_give_least_squares_in_their_span(
    solver: Any, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    rows, fresh = rng.normal(size=(1500, 3)), rng.normal(size=(50, 3))
    y = np.sin(rows).sum(axis=1) + 3
    weights = rng.uniform(0.5, 2.0, size=len(rows)) if weighted else np.ones(len(rows))
    kernel, alpha, landmarks = mc.RBF(1.5), 1.0, np.arange(0, 1500, 10)
    model = mc.KernelRidge(kernel, alpha, solver=solver(landmarks=landmarks))
    found = model.fit(rows, y, weights if weighted else None).predict(fresh)
    # The oracle: coordinates from eigenvectors, and a QR factor of all rows, never their squares.
    values, vectors = np.linalg.eigh(kernel(rows[landmarks]))
    assert values[0] < 1e-9 * values[-1]
    kept = values > 1e-13
    turn = vectors[:, kept] / np.sqrt(values[kept])
    root = np.sqrt(weights)[:, None]
    phi = np.hstack([kernel(rows, rows[landmarks]) @ turn, np.ones((1500, 1))])
    prior = np.sqrt(alpha) * np.eye(phi.shape[1])[:-1]
    stacked = np.vstack([root * phi, prior])
    right = np.append(root[:, 0] * y, np.zeros(len(prior)))
    best = np.linalg.lstsq(stacked, right, rcond=None)[0]
    wanted = kernel(fresh, rows[landmarks]) @ turn @ best[:-1] + best[-1]
    tol = 1e-8 if solver is S.NystromSolver else 1e-6
    assert np.abs(found - wanted).max() <= tol * np.abs(wanted).max()


def test_rows_are_those_of_the_user() -> None:
    for solver in (S.NystromSolver(30, random_state=0), S.Falkon(30, random_state=0)):
        found = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=solver).fit(X, Y)
        np.testing.assert_array_equal(X[found.rows_], found.points_.data)
        terms = found.contributions(X[:4])
        for row in range(4):
            np.testing.assert_array_equal(X[terms.rows[row]], terms.points(row))
    blocks = mc.Blocks([(X[:90], Y[:90]), (X[90:], Y[90:])])
    found = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=S.NystromSolver(30, random_state=0)).fit(blocks)
    np.testing.assert_array_equal(X[found.rows_], found.points_.data)
    # Points that are given are no rows of X, and all rows need no numbers.
    given = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(landmarks=X[:3] + 1)).fit(X, Y)
    assert not hasattr(given, "rows_")
    assert not hasattr(given.set_params(solver=S.Cholesky()).fit(X, Y), "rows_")


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
def test_landmarks_do_not_change_when_the_owner_of_their_memory_writes(solver: Any) -> None:
    owner = X[:10].copy()
    seen = owner.view()
    seen.flags.writeable = False  # as pandas gives it
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver(landmarks=seen)).fit(X, Y)
    before = model.predict(NEW)
    owner[:] = 0.0
    assert_array_equal(model.predict(NEW), before)
