"""Machines over landmarks against the whole matrix, peers, and a general optimiser."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    MercerWarning,
    NumericalWarning,
    ParameterError,
)

Array = NDArray[np.floating[Any]]
S = mc.solvers

RNG = np.random.default_rng(0)
N = 150
X = RNG.normal(size=(N, 3))
F = np.sin(2 * X[:, 0]) + X[:, 1]
Y = F + 0.3 * RNG.standard_t(2, size=N) + 3
COUNTS = RNG.poisson(np.exp(F / 2)).astype(float)
BINARY = np.where(F + 0.5 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(F + 0.5 * RNG.normal(size=N), [-0.7, 0.7])
W = RNG.uniform(0.2, 3.0, size=N)
W[:9] = 0
Z = RNG.normal(size=(17, 3))
RBF = mc.RBF(length_scale=1.5)
SOME = np.arange(10, 40)

DIRECT = [
    S.NystromSolver(landmarks=np.arange(N)),
    S.Falkon(landmarks=np.arange(N), tol=1e-10),
]


class LogCosh(mc.losses.RegressionLoss):
    """A loss of a user's own, without a second derivative."""

    def value(self, y: Any, f: Any) -> Array:
        return np.asarray(np.logaddexp(f - y, y - f) - np.log(2))

    def derivative(self, y: Any, f: Any) -> Array:
        return np.asarray(np.tanh(f - y))


REGRESSION = [
    ("squared", Y),
    ("huber", Y),
    ("poisson", COUNTS),
    ("gamma", COUNTS + 0.5),
    (LogCosh(), Y),
]
CLASSES = [
    ("logistic", BINARY),
    ("squared_hinge", BINARY),
    ("exponential", BINARY),
    ("logistic", THREE),
    ("squared_hinge", THREE),
]


def name(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


def values(model: Any, points: Any) -> Array:
    return np.asarray(model._function_values(points))


# All rows as landmarks ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", DIRECT, ids=name)
@pytest.mark.parametrize(
    ("fit_intercept", "weights"), [(True, W), (False, None)], ids=["weighted", "plain"]
)
@pytest.mark.parametrize(("loss", "y"), REGRESSION, ids=name)
def test_regression_on_all_rows_is_exact(
    loss: Any, y: Array, fit_intercept: bool, weights: Array | None, solver: Any
) -> None:
    model = mc.KernelMachineRegressor(RBF, loss, 0.3, fit_intercept)
    exact = clone(model).fit(X, y, weights)
    found = clone(model).set_params(solver=solver).fit(X, y, weights)
    assert repr(exact.solver_) == "Cholesky()"
    assert found.solver_ is solver
    assert found.converged_
    assert_allclose(values(found, Z), values(exact, Z), rtol=1e-7, atol=1e-7)
    assert found.trace_error_ < 1e-9


@pytest.mark.parametrize("solver", DIRECT, ids=name)
@pytest.mark.parametrize(
    ("fit_intercept", "weights"), [(True, W), (False, None)], ids=["weighted", "plain"]
)
@pytest.mark.parametrize(("loss", "y"), CLASSES, ids=name)
def test_classification_on_all_rows_is_exact(
    loss: Any, y: Any, fit_intercept: bool, weights: Array | None, solver: Any
) -> None:
    model = mc.KernelMachineClassifier(RBF, loss, 0.3, fit_intercept)
    exact = clone(model).fit(X, y, weights)
    found = clone(model).set_params(solver=solver).fit(X, y, weights)
    assert_allclose(values(found, Z), values(exact, Z), rtol=1e-7, atol=1e-7)
    assert_array_equal(found.predict(Z), exact.predict(Z))
    if loss == "logistic":
        assert_allclose(found.predict_proba(Z), exact.predict_proba(Z), atol=1e-7)


@pytest.mark.parametrize("alpha", [1e-6, 1e3])
@pytest.mark.parametrize(("loss", "y"), CLASSES, ids=name)
def test_small_and_large_alphas(loss: Any, y: Any, alpha: float) -> None:
    model = mc.KernelMachineClassifier(RBF, loss, alpha)
    exact, found = clone(model).fit(X, y), model.set_params(solver=DIRECT[0]).fit(X, y)
    assert found.converged_
    size = np.abs(values(exact, Z)).max()
    assert_allclose(values(found, Z), values(exact, Z), atol=1e-6 * size)


@pytest.mark.parametrize("solver", [S.Cholesky(), DIRECT[0]], ids=name)
def test_classes_share_no_constant(solver: Any) -> None:
    """A multinomial likelihood does not see one; it is to be zero, not what rounding makes it."""
    model = mc.KernelLogisticRegression(RBF, 1e-6, solver=solver).fit(X, THREE)
    f = model.decision_function(X)
    assert_allclose(f.sum(axis=1), 0, atol=1e-6 * np.abs(f).max())


@pytest.mark.parametrize("penalty", [mc.penalties.Norm(), mc.penalties.Power(exponent=3.0)])
def test_any_penalty_of_the_norm(penalty: Any) -> None:
    model = mc.KernelLogisticRegression(RBF, 0.5, penalty=penalty)
    exact, found = clone(model).fit(X, BINARY), model.set_params(solver=DIRECT[0]).fit(X, BINARY)
    assert found.alpha_ == pytest.approx(exact.alpha_, rel=1e-6)
    assert_allclose(values(found, Z), values(exact, Z), atol=1e-6)


def test_a_penalty_may_leave_constants_alone() -> None:
    model = mc.KernelMachineRegressor(RBF, "huber", 1e4, penalty=mc.penalties.Norm())
    found = model.set_params(solver=S.NystromSolver(landmarks=SOME)).fit(X, Y)
    assert np.isinf(found.alpha_)
    assert_array_equal(found.dual_coef_, 0)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, Y)
    assert found.intercept_ == pytest.approx(exact.intercept_, rel=1e-7)


# Peers and definitions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(landmarks=range(5)), S.Falkon(landmarks=range(5))]
)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_a_linear_kernel_is_logistic_regression(y: Any, weights: Any, solver: Any) -> None:
    """Five landmarks span three dimensions, two of them in vain."""
    peer = LogisticRegression(C=1 / 0.2, solver="newton-cholesky", tol=1e-12).fit(X, y, weights)
    if weights is not None:
        solver = type(solver)(landmarks=range(20, 25))
    model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.2, solver=solver).fit(X, y, weights)
    assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), rtol=1e-6)
    assert model.trace_error_ < 1e-12


def test_a_linear_kernel_is_poisson_regression() -> None:
    peer = PoissonRegressor(alpha=0.3 / N, tol=1e-10, max_iter=10_000).fit(X, COUNTS)
    solver = S.NystromSolver(3, random_state=0)
    model = mc.KernelMachineRegressor(mc.Linear(), "poisson", 0.3, solver=solver).fit(X, COUNTS)
    assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-4)


def objective(parameters: Array, C: Array, M: Array, alpha: float, loss: Any) -> float:
    c, b = parameters[:-1], parameters[-1]
    return float(loss(C @ c + b).sum() + alpha / 2 * c @ M @ c)


@pytest.mark.parametrize(
    ("loss", "y", "term"),
    [
        ("logistic", BINARY, lambda f: np.logaddexp(0, np.where(BINARY == "yes", -f, f))),
        ("poisson", COUNTS, lambda f: np.exp(f) - COUNTS * f),
        ("huber", Y, lambda f: mc.losses.Huber().value(Y, f)),
    ],
)
@pytest.mark.parametrize(
    "solver", [S.NystromSolver(landmarks=SOME), S.Falkon(landmarks=SOME)], ids=name
)
def test_no_general_optimiser_finds_less(loss: str, y: Any, term: Any, solver: Any) -> None:
    """Of functions over 30 landmarks the objective is no more than what BFGS reaches."""
    machine = mc.KernelMachineClassifier if y is BINARY else mc.KernelMachineRegressor
    model = machine(RBF, loss, 0.4, solver=solver).fit(X, y)
    C, M = RBF(X, X[SOME]), RBF(X[SOME])
    mine = objective(np.append(model.dual_coef_, model.intercept_), C, M, 0.4, term)
    features = np.linalg.cholesky(M + 1e-10 * np.eye(len(M)))
    start = np.zeros(len(M) + 1)

    def in_coordinates(parameters: Array) -> float:
        turned = np.append(np.linalg.solve(features.T, parameters[:-1]), parameters[-1])
        return objective(turned, C, M, 0.4, term)

    theirs = minimize(in_coordinates, start, method="L-BFGS-B", options={"maxfun": 10**5})
    assert mine <= theirs.fun + 1e-7 * abs(theirs.fun)
    assert theirs.fun - mine < 1e-3 * abs(theirs.fun)


def test_the_multinomial_gradient_vanishes() -> None:
    model = mc.KernelLogisticRegression(RBF, 0.4, solver=S.NystromSolver(landmarks=SOME)).fit(
        X, THREE
    )
    f = model.decision_function(X)
    slopes = np.exp(f - logsumexp(f, axis=1, keepdims=True)) - np.eye(3)[THREE]
    pull = RBF(X[SOME], X) @ slopes + 0.4 * RBF(X[SOME]) @ model.dual_coef_
    assert_allclose(pull, 0, atol=1e-7)
    assert_allclose(slopes.sum(axis=0), 0, atol=1e-7)


def test_more_landmarks_come_nearer_to_the_exact_answer() -> None:
    exact = mc.KernelLogisticRegression(RBF, 0.05).fit(X, BINARY).decision_function(X)
    order, distances, left_out = RNG.permutation(N), [], []
    for m in (5, 20, 60, N):
        solver = S.NystromSolver(landmarks=order[:m])
        model = mc.KernelLogisticRegression(RBF, 0.05, solver=solver).fit(X, BINARY)
        distances.append(np.abs(model.decision_function(X) - exact).max())
        left_out.append(model.trace_error_)
    assert distances == sorted(distances, reverse=True)
    assert left_out == sorted(left_out, reverse=True)
    assert distances[-1] < 1e-7


def test_rows_that_come_in_turns_are_sampled() -> None:
    """Four places in turn, of which the landmarks know one: three quarters are left out."""
    n = 40_000
    place = np.arange(n) % 4
    rows = 0.3 * RNG.normal(size=(n, 2)) + 10.0 * np.stack([place % 2, place // 2], axis=1)
    labels = rows.sum(axis=1) + RNG.normal(size=n) > 10
    solver = S.NystromSolver(landmarks=np.arange(0, 400, 4))
    model = mc.KernelMachineClassifier(mc.RBF(1.0), solver=solver).fit(rows, labels)
    assert model.trace_error_ == pytest.approx(0.75, abs=0.02)


def test_what_is_reported() -> None:
    """The gap is that of the best function with the same constant, at most; here at one step."""
    solver, alpha = S.NystromSolver(landmarks=SOME), 0.4
    model = mc.KernelLogisticRegression(RBF, alpha, False, solver=solver, max_iter=1, tol=1e-8)
    with pytest.warns(NumericalWarning, match="stopped after 1 steps"):
        short = clone(model).fit(X, BINARY)
    best = model.set_params(max_iter=100).fit(X, BINARY)
    C, M = RBF(X, X[SOME]), RBF(X[SOME])
    term = lambda f: np.logaddexp(0, np.where(BINARY == "yes", -f, f))  # noqa: E731
    above = [objective(np.append(m.dual_coef_, 0.0), C, M, alpha, term) for m in (short, best)]
    assert 0 < above[0] - above[1] <= short.dual_gap_
    assert short.residual_ > 1e-8 >= best.residual_
    assert not short.converged_
    assert best.dual_gap_ < 1e-12
    share = np.sum(np.linalg.solve(np.linalg.cholesky(M), C.T) ** 2) / N
    assert best.trace_error_ == pytest.approx(1 - share, abs=1e-9)
    slopes = np.where(BINARY == "yes", -1, 1) / (
        1 + np.exp(np.where(BINARY == "yes", 1, -1) * (short.decision_function(X)))
    )
    gradient = np.linalg.solve(np.linalg.cholesky(M), C.T @ slopes + alpha * M @ short.dual_coef_)
    assert short.gradient_norm_ == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


# Many rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 1e-4])
def test_samples_of_rows_lead_to_the_same_minimum(
    monkeypatch: pytest.MonkeyPatch, alpha: float
) -> None:
    """First steps on few rows, with alphas that fall, change the way but not the end."""
    solver = S.NystromSolver(landmarks=SOME)
    model = mc.KernelLogisticRegression(RBF, alpha, solver=solver, tol=1e-10)
    plain = clone(model).fit(X, BINARY, W)
    monkeypatch.setattr("mercer.solvers.newton.span._FEWEST", 10)
    monkeypatch.setattr("mercer.solvers.newton.span._ROWS_PER_COORDINATE", 0)
    sampled = clone(model).fit(X, BINARY, W)
    assert sampled.n_iter_ != plain.n_iter_
    assert_allclose(values(sampled, Z), values(plain, Z), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "solver", [S.NystromSolver(landmarks=SOME), S.Falkon(landmarks=SOME)], ids=name
)
def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch, solver: Any) -> None:
    model = mc.KernelLogisticRegression(RBF, 0.1, solver=solver)
    plain = clone(model).fit(np.tile(X, (4, 1)), np.tile(THREE, 4))
    monkeypatch.setattr("mercer.solvers.newton.spans._BLOCK_BYTES", 1)  # 256 rows at a time
    assert_allclose(
        values(clone(model).fit(np.tile(X, (4, 1)), np.tile(THREE, 4)), Z),
        values(plain, Z),
        rtol=1e-7,
    )


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize(("loss", "y"), CLASSES, ids=name)
def test_features_that_are_not_held_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, loss: Any, y: Any, weights: Any
) -> None:
    solver = S.NystromSolver(landmarks=SOME)
    model = mc.KernelMachineClassifier(RBF, loss, 0.1, solver=solver, tol=1e-10)
    held = clone(model).fit(X, y, weights)
    monkeypatch.setattr("mercer.solvers.newton.on_landmarks.may_hold", lambda size: False)
    made = clone(model).fit(X, y, weights)
    assert_allclose(values(held, Z), values(made, Z), rtol=1e-8, atol=1e-9)


def test_auto_takes_landmarks_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    many = np.zeros((100_000, 2))
    forecast = mc.forecast(mc.KernelLogisticRegression(RBF), many)
    assert repr(forecast.chosen).startswith("NystromSolver(n_landmarks=2000")
    assert "too many for the whole matrix" in str(forecast)
    kinks = mc.KernelMachineClassifier(RBF, "hinge")
    assert repr(mc.forecast(kinks, many[:20_000]).chosen).startswith("NystromSolver(")
    assert "kinks" in str(mc.forecast(kinks, many[:20_000]))
    assert repr(mc.forecast(mc.KernelMachineRegressor(RBF, "gamma"), many[:99]).chosen) == (
        "Cholesky()"
    )
    labels = np.arange(100_000) % 20
    several = mc.forecast(mc.KernelLogisticRegression(RBF), many, labels)
    assert several.chosen.n_landmarks == 300
    noisy = mc.KernelLogisticRegression(RBF + mc.White())
    assert "White" in mc.forecast(noisy, many).reason
    for limit in ("dense_rows", "product_rows"):
        monkeypatch.setattr(f"mercer.solvers.machine_fit.MachineFit.{limit}", 100)
    model = mc.KernelLogisticRegression(RBF, 0.1).fit(X, BINARY)
    assert model.solver_.n_landmarks == len(model.points_) == N
    again = mc.KernelLogisticRegression(RBF, 0.1).fit(X, BINARY)
    assert_array_equal(again.rows_, model.rows_)


def test_landmarks_of_auto_that_explain_little_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("dense_rows", "product_rows"):
        monkeypatch.setattr(f"mercer.solvers.machine_fit.MachineFit.{limit}", 100)
    monkeypatch.setattr("mercer.solvers.machine_fit.MachineFit.most_landmarks", 15)
    with pytest.warns(NumericalWarning, match=r"15 landmarks of \"auto\".*ConjugateGradient"):
        model = mc.KernelHuberRegressor(mc.RBF(0.5)).fit(X, Y)
    assert model.trace_error_ > 0.1
    with warnings.catch_warnings(action="error"):
        mc.KernelHuberRegressor(mc.RBF(9.0)).fit(X, Y)
        mc.KernelHuberRegressor(mc.RBF(0.5), solver=model.solver_).fit(X, Y)  # as asked for


KINKED = ("absolute", "pinball", "epsilon_insensitive")


@pytest.mark.parametrize("solver", DIRECT, ids=name)
@pytest.mark.parametrize("loss", KINKED)
def test_losses_with_kinks_over_all_rows_are_exact(loss: str, solver: Any) -> None:
    exact = mc.KernelMachineRegressor(RBF, loss, 0.2, solver=S.Cholesky()).fit(X, Y, W)
    model = mc.KernelMachineRegressor(RBF, loss, 0.2, solver=solver).fit(X, Y, W)
    assert model.converged_
    assert model.trace_error_ < 1e-9
    assert_allclose(model.predict(Z), exact.predict(Z), atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", KINKED)
def test_losses_with_kinks_over_few_landmarks(loss: str, fit_intercept: bool) -> None:
    """The best function of the landmarks is that of the kernel k(x, Z) k(Z, Z)^-1 k(Z, x')."""
    few = np.arange(12, 24)
    settings: Any = {"alpha": 0.2, "fit_intercept": fit_intercept}
    model = mc.KernelMachineRegressor(
        RBF, loss, solver=S.NystromSolver(landmarks=few), **settings
    ).fit(X, Y)
    root = np.linalg.cholesky(RBF(X[few]))
    features, others = (np.linalg.solve(root, RBF(X[few], at)).T for at in (X, Z))
    oracle = mc.KernelMachineRegressor(mc.Linear(), loss, solver=S.Cholesky(), **settings)
    assert_allclose(model.predict(Z), oracle.fit(features, Y).predict(others), atol=1e-6)
    assert model.converged_
    assert len(model.dual_coef_) == len(few)
    assert_array_equal(model.rows_, few)
    assert 0 < model.trace_error_ < 1


def test_quantiles_over_landmarks_do_not_cross() -> None:
    levels, few = [0.1, 0.5, 0.9], np.arange(12, 30)
    rng = np.random.default_rng(1)
    noise = Y + 0.3 * rng.normal(size=N)
    model = mc.KernelQuantileRegressor(
        RBF, levels, 0.01, solver=S.NystromSolver(landmarks=few)
    ).fit(X, noise)
    values = model._function_values(X)
    assert model.converged_
    assert (np.diff(values, axis=1) >= -1e-8).all()
    root = np.linalg.cholesky(RBF(X[few]))
    features = np.linalg.solve(root, RBF(X[few], X)).T
    exact = mc.KernelQuantileRegressor(mc.Linear(), levels, 0.01, solver=S.Cholesky())
    assert_allclose(values, exact.fit(features, noise)._function_values(features), atol=1e-5)


def test_memory_of_many_classes_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 200_000)
    model = mc.KernelLogisticRegression(RBF, solver=S.NystromSolver(landmarks=SOME))
    model.fit(X, BINARY)
    with pytest.raises(MemoryForecastError, match=r"30 landmarks and 3 .*Falkon"):
        model.fit(X, THREE)
    model.set_params(solver=S.Falkon(landmarks=SOME)).fit(X, THREE)


# Kinds of data ------------------------------------------------------------------------------------


def test_single_precision() -> None:
    model = mc.KernelLogisticRegression(RBF, 0.1, solver=S.NystromSolver(landmarks=SOME))
    double, single = clone(model).fit(X, THREE), clone(model).fit(X.astype(np.float32), THREE)
    assert single.converged_
    assert_allclose(single.predict_proba(Z.astype(np.float32)), double.predict_proba(Z), atol=1e-4)


def test_strings_and_frames_and_given_matrices() -> None:
    words = ["".join(RNG.choice(list("ab"), size=6)) for _ in range(40)]
    labels = [word.count("ab") > 1 for word in words]
    model = mc.KernelLogisticRegression(
        mc.Spectrum(2), 0.1, solver=S.NystromSolver(10, random_state=0)
    )
    assert model.fit(words, labels).score(words, labels) > 0.8
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    solver = S.NystromSolver(landmarks=SOME)
    by_name = mc.KernelLogisticRegression(RBF.on("a", "b", "c"), solver=solver).fit(frame, BINARY)
    plain = mc.KernelLogisticRegression(RBF, solver=solver).fit(X, BINARY)
    assert_allclose(values(by_name, frame), values(plain, X), rtol=1e-9)
    given = mc.KernelLogisticRegression(mc.Precomputed(RBF(X)), solver=solver)
    numbers = np.arange(N)[:, None]
    assert_allclose(values(given.fit(numbers, BINARY), numbers), values(plain, X), rtol=1e-9)


def test_pickles_clones_and_explains() -> None:
    model = mc.KernelLogisticRegression(RBF, solver=S.NystromSolver(landmarks=SOME)).fit(X, THREE)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
    explained = model.contributions(Z[:2], top=3)
    assert set(explained.rows.ravel()) <= set(SOME)


# Bad input ----------------------------------------------------------------------------------------


def test_kinks_in_blocks_are_refused_with_a_smooth_loss_instead() -> None:
    blocks = mc.Blocks([(X, Y)])
    solver = S.NystromSolver(10)
    with pytest.raises(ParameterError, match=r"blocks needs a smooth loss.*huber.*arrays"):
        mc.KernelMachineRegressor(RBF, "absolute", solver=solver).fit(blocks)


@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral()], ids=name)
def test_exact_solvers_by_name(solver: Any) -> None:
    auto = mc.KernelMachineRegressor(RBF, "absolute").fit(X, Y)
    named = mc.KernelMachineRegressor(RBF, "absolute", solver=solver).fit(X, Y)
    assert named.solver_ is solver
    assert_array_equal(named.predict(Z), auto.predict(Z))


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("newton", "is unknown"),
        (None, "is unknown"),
        (S.NystromSolver, "is a class, and not an object of it"),
    ],
)
def test_other_solvers_are_refused(solver: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mc.KernelHuberRegressor(RBF, solver=solver).fit(X, Y)


def test_what_landmarks_cannot_do() -> None:
    with pytest.raises(ParameterError, match="contains White"):
        mc.KernelHuberRegressor(RBF + mc.White(), solver=S.NystromSolver(5)).fit(X, Y)
    with pytest.raises(ParameterError, match="valid kernel"):
        mc.KernelHuberRegressor(mc.Sigmoid(), solver=S.NystromSolver(5)).fit(X, Y)
    with pytest.raises(DataError, match=r"k\(x, x\), inf"):
        mc.KernelHuberRegressor(mc.Polynomial(degree=9), solver=S.NystromSolver(5)).fit(1e40 * X, Y)
    with pytest.warns(MercerWarning, match="more than the 150 rows"):
        mc.KernelHuberRegressor(RBF, solver=S.NystromSolver(999)).fit(X, Y)


@pytest.mark.parametrize("solver", [S.NystromSolver(1), S.Falkon(1)], ids=name)
def test_degenerate_data(solver: Any) -> None:
    one = mc.KernelHuberRegressor(RBF, solver=solver).fit(X[:1], [3.0])
    assert one.predict(Z) == pytest.approx(3.0)
    flat = mc.KernelHuberRegressor(RBF, solver=solver).fit(X, np.full(N, 3.0))
    assert flat.predict(Z) == pytest.approx(3.0)
    double = type(solver)(landmarks=np.zeros((4, 3)))
    assert mc.KernelLogisticRegression(RBF, solver=double).fit(X, BINARY).converged_
    nothing = mc.KernelMachineRegressor(mc.Linear(), "poisson", solver=solver)
    assert_allclose(nothing.fit(np.zeros((N, 2)), COUNTS).predict(np.zeros((1, 2))), COUNTS.mean())


def test_far_targets_bend_nowhere_at_first() -> None:
    """All residuals are beyond delta: the loss is linear at every row."""
    exact = mc.KernelHuberRegressor(RBF, alpha=0.1, fit_intercept=False).fit(X, Y + 100)
    found = clone(exact).set_params(solver=DIRECT[0]).fit(X, Y + 100)
    assert_allclose(found.predict(Z), exact.predict(Z), rtol=1e-6)


def _expected(estimator: Any) -> dict[str, str]:
    reason = "a row repeated has other chances to be a landmark than a row of weight two"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@parametrize_with_checks(
    [
        mc.KernelLogisticRegression(mc.Linear(), solver=S.NystromSolver(10, random_state=0)),
        mc.KernelHuberRegressor(mc.Linear(), solver=S.Falkon(10, random_state=0)),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
