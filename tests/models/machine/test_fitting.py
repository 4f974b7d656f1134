"""Machines by products with the kernel matrix, against the whole matrix, peers and definitions."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from mercer.program import engine
from mercer.solvers.newton import products as newton_products

Array = NDArray[np.floating[Any]]
S = mc.solvers

RNG = np.random.default_rng(0)
N = 120
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
FEW = S.ConjugateGradient(rank=15, random_state=0)
WHOLE = S.ConjugateGradient(random_state=0)


class LogCosh(mc.losses.RegressionLoss):
    """A loss of a user's own, without a second derivative."""

    def value(self, y: Any, f: Any) -> Array:
        return np.asarray(np.logaddexp(f - y, y - f) - np.log(2))

    def derivative(self, y: Any, f: Any) -> Array:
        return np.asarray(np.tanh(f - y))


LOSSES = [
    ("squared", Y),
    ("huber", Y),
    ("poisson", COUNTS),
    ("gamma", COUNTS + 0.5),
    (LogCosh(), Y),
    ("logistic", BINARY),
    ("squared_hinge", BINARY),
    ("exponential", BINARY),
    ("logistic", THREE),
    ("squared_hinge", THREE),
    ("exponential", THREE),
]


def name(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


def machine(loss: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    of_numbers = y.dtype.kind == "f"
    kind = mc.KernelMachineRegressor if of_numbers else mc.KernelMachineClassifier
    return kind(RBF, loss, *args, **({"tol": 1e-10} | kwargs))


def values(model: Any, points: Any) -> Array:
    return np.asarray(model._function_values(points))


def assert_same(found: Any, exact: Any, points: Any = Z, share: float = 1e-8) -> None:
    wanted = values(exact, points)
    assert found.converged_
    assert_allclose(values(found, points), wanted, rtol=0, atol=share * np.abs(wanted).max())


# The answer of the whole matrix -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit_intercept", "weights"), [(True, W), (False, None)], ids=["weighted", "plain"]
)
@pytest.mark.parametrize("alpha", [1e-3, 10.0])
@pytest.mark.parametrize(("loss", "y"), LOSSES, ids=name)
def test_every_smooth_loss(
    loss: Any, y: Any, alpha: float, fit_intercept: bool, weights: Array | None
) -> None:
    model = machine(loss, y, alpha, fit_intercept)
    exact = clone(model).fit(X, y, weights)
    found = model.set_params(solver=FEW).fit(X, y, weights)
    assert found.solver_ is FEW
    assert len(found.points_) == N
    assert_same(found, exact)
    assert found.residual_ <= 1e-10


@pytest.mark.parametrize(
    "solver",
    [
        WHOLE,
        S.ConjugateGradient("pivoted", rank=10),
        S.ConjugateGradient("nystrom", rank=10, random_state=0),
        S.ConjugateGradient(None),
        S.ConjugateGradient(rank=5, tol=1e-2, random_state=0),
        S.ConjugateGradient(rank=5, tol=1e-12, random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_no_preconditioner_changes_the_answer(solver: Any, y: Any) -> None:
    model = machine("logistic", y, 0.05)
    exact, found = clone(model).fit(X, y), model.set_params(solver=solver).fit(X, y)
    assert_same(found, exact)
    assert hasattr(found, "preconditioner_error_") == (solver.preconditioner is not None)


@pytest.mark.parametrize(
    "kernel",
    [
        mc.Linear(),
        mc.Polynomial(degree=3),
        2.0 * mc.Matern(nu=1.5) + 0.3 * mc.Linear(),
        mc.Constant(1e3) + RBF,
    ],
    ids=str,
)
@pytest.mark.parametrize(("loss", "y"), [("huber", Y), ("logistic", THREE)], ids=name)
def test_kernels(kernel: Any, loss: str, y: Any) -> None:
    model = machine(loss, y, 0.3).set_params(kernel=kernel)
    exact, found = clone(model).fit(X, y, W), model.set_params(solver=FEW).fit(X, y, W)
    assert_same(found, exact)


@pytest.mark.parametrize("alpha", [1e-6, 1e4])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_tiny_and_huge_alphas(alpha: float, y: Any) -> None:
    model = machine("logistic", y, alpha)
    exact, found = clone(model).fit(X, y), model.set_params(solver=WHOLE).fit(X, y)
    assert_same(found, exact)


@pytest.mark.parametrize("penalty", [mc.penalties.Norm(), mc.penalties.Power(exponent=3.0)])
def test_any_penalty_of_the_norm(penalty: Any) -> None:
    model = mc.KernelLogisticRegression(RBF, 0.5, penalty=penalty, tol=1e-10)
    exact, found = clone(model).fit(X, BINARY), model.set_params(solver=FEW).fit(X, BINARY)
    assert found.alpha_ == pytest.approx(exact.alpha_, rel=1e-6)
    assert_same(found, exact, share=1e-6)


def test_a_penalty_may_leave_constants_alone() -> None:
    model = mc.KernelMachineRegressor(RBF, "huber", 1e4, penalty=mc.penalties.Norm(), solver=FEW)
    found = model.fit(X, Y)
    assert np.isinf(found.alpha_)
    assert_array_equal(found.dual_coef_, 0)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, Y)
    assert found.intercept_ == pytest.approx(exact.intercept_, rel=1e-7)


def test_the_factor_is_made_once_for_all_weights_of_the_norm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    factor = S.ConjugateGradient._factor
    monkeypatch.setattr(
        S.ConjugateGradient, "_factor", lambda *args: made.append(1) or factor(*args)
    )
    penalty = mc.penalties.Power(exponent=3.0)
    mc.KernelLogisticRegression(RBF, 0.5, penalty=penalty, solver=FEW).fit(X, BINARY)
    assert len(made) == 1


def test_classes_share_no_constant() -> None:
    f = mc.KernelLogisticRegression(RBF, 1e-4, solver=WHOLE).fit(X, THREE).decision_function(X)
    assert_allclose(f.sum(axis=1), 0, atol=1e-6 * np.abs(f).max())


@pytest.mark.parametrize("alpha", [1e-3, 1e-5, 1e-7])
def test_classes_share_no_constant_where_probabilities_are_certain(alpha: float) -> None:
    wide, labels = np.random.default_rng(0).normal(size=(30, 100)), np.arange(30) % 3
    model = mc.KernelLogisticRegression(mc.Linear(), alpha, solver=WHOLE).fit(wide, labels)
    assert_allclose(model.intercept_.sum(), 0, atol=1e-9)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(wide, labels).decision_function(wide)
    assert_allclose(model.decision_function(wide), exact, atol=1e-6 * np.abs(exact).max())


def test_many_classes_take_fewer_columns_of_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("logistic", THREE, 0.05)
    exact = clone(model).fit(X, THREE)
    monkeypatch.setattr(newton_products, "_COLUMNS", 10)
    assert_same(model.set_params(solver=WHOLE).fit(X, THREE), exact)


# Peers and definitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_a_linear_kernel_is_logistic_regression(y: Any, weights: Any) -> None:
    peer = LogisticRegression(C=1 / 0.2, solver="newton-cholesky", tol=1e-12).fit(X, y, weights)
    model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.2, solver=WHOLE).fit(X, y, weights)
    assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), rtol=1e-6)


def test_coefficients_are_slopes_of_the_loss_over_alpha() -> None:
    """The gradient of the objective vanishes: a = -w l'(y, f) / alpha, and slopes sum to zero."""
    alpha = 0.4
    model = mc.KernelLogisticRegression(RBF, alpha, solver=FEW, tol=1e-10).fit(X, THREE, W)
    f = RBF(X) @ model.dual_coef_ + model.intercept_
    odds = np.exp(f - f.max(axis=1, keepdims=True))
    slopes = W[:, None] * (odds / odds.sum(axis=1, keepdims=True) - np.eye(3)[THREE])
    assert_allclose(model.dual_coef_, -slopes / alpha, atol=1e-8)
    assert_allclose(slopes.sum(axis=0), 0, atol=1e-7)
    assert_array_equal(model.dual_coef_[W == 0], 0)


def test_what_is_reported() -> None:
    """After one step: the norm of the gradient, its share of the terms, and a bound of the gap."""
    alpha, K = 0.05, RBF(X)
    sign = np.where(BINARY == "yes", 1.0, -1.0)
    model = mc.KernelLogisticRegression(RBF, alpha, False, solver=FEW, max_iter=1)
    with pytest.warns(NumericalWarning, match="stopped after 1 steps"):
        short = clone(model).fit(X, BINARY)
    best = model.set_params(max_iter=100).fit(X, BINARY)

    def objective(a: Array) -> float:
        return float(np.logaddexp(0, -sign * (K @ a)).sum() + alpha / 2 * a @ K @ a)

    def norm(a: Array) -> float:
        return float(np.sqrt(a @ K @ a))

    slopes = -sign / (1 + np.exp(sign * (K @ short.dual_coef_)))
    gradient = slopes + alpha * short.dual_coef_
    assert short.gradient_norm_ == pytest.approx(norm(gradient), rel=1e-6)
    terms = norm(slopes) + norm(alpha * short.dual_coef_)
    assert short.residual_ == pytest.approx(norm(gradient) / terms, rel=1e-6)
    gap = objective(short.dual_coef_) - objective(best.dual_coef_)
    assert 0 < gap <= short.dual_gap_
    assert short.dual_gap_ == pytest.approx(norm(gradient) ** 2 / (2 * alpha), rel=1e-6)
    assert not short.converged_
    assert best.converged_
    assert best.residual_ <= 1e-8
    assert 0 < best.preconditioner_error_ < 1


def test_the_share_that_the_factor_leaves_out() -> None:
    solver = S.ConjugateGradient("pivoted", rank=7)
    model = mc.KernelLogisticRegression(RBF, solver=solver).fit(X, BINARY)
    K, left = RBF(X), RBF(X)
    for _ in range(7):  # Cholesky with the largest pivot, by the book
        j = int(np.argmax(left.diagonal()))
        left = left - np.outer(left[:, j], left[j]) / left[j, j]
    assert model.preconditioner_error_ == pytest.approx(np.trace(left) / np.trace(K), rel=1e-8)


# Memory and time ----------------------------------------------------------------------------------


def test_the_matrix_is_never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of one matrix is all that a fit takes; the kernel gives no large block."""
    n, rank = 3000, 10
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 2))
    labels = rows[:, 0] + 0.3 * rng.normal(size=n) > 0
    gram = engine.gram

    def small(root: Any, pairs: Any, **kwargs: Any) -> Array:
        assert min(pairs.shape) <= rank
        return gram(root, pairs, **kwargs)

    monkeypatch.setattr(engine, "gram", small)
    solver = S.ConjugateGradient(rank=rank, random_state=0)
    model = mc.KernelLogisticRegression(RBF, solver=solver)
    tracemalloc.start()
    try:
        model.fit(rows, labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.converged_
    assert peak < 8 * n * n / 20


def test_memory_of_the_factor_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 8 * N * 20)
    model = mc.KernelLogisticRegression(RBF, solver=FEW).fit(X, BINARY)
    with pytest.raises(MemoryForecastError, match=r"rank 30 for 120 rows .* lower the rank"):
        model.set_params(solver__rank=30).fit(X, BINARY)


def test_forecasts() -> None:
    many = np.random.default_rng(0).normal(size=(60_001, 2))
    found = mc.forecast(mc.KernelLogisticRegression(RBF), many)
    assert isinstance(found.chosen, S.NystromSolver)
    (cost,) = (cost for cost in found.costs if isinstance(cost.solver, S.ConjugateGradient))
    assert cost.obstacle == "many rows"
    assert 8 * 60_001 * 1000 < cost.size < 8 * 60_001**2
    asked = mc.forecast(mc.KernelLogisticRegression(RBF, solver=FEW), many)
    assert asked.chosen == FEW
    assert asked.is_possible
    assert "would take NystromSolver" in asked.reason
    noisy = mc.KernelLogisticRegression(RBF + mc.White(), solver=FEW)
    assert mc.forecast(noisy, many).is_possible
    kinks = mc.forecast(mc.KernelMachineClassifier(RBF, "hinge", solver=FEW), many[:99])
    assert not kinks.is_possible
    assert "the loss has kinks" in str(kinks)
    assert not mc.forecast(mc.KernelLogisticRegression(mc.Sigmoid(), solver=FEW), X).is_possible


# Kinds of data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_white_noise_is_on_the_diagonal(y: Any) -> None:
    """Also where rows are alike, and where some do not count."""
    twice, labels, weights = np.tile(X, (2, 1)), np.tile(y, 2), np.tile(W, 2)
    model = mc.KernelLogisticRegression(RBF + 0.5 * mc.White(), 0.01, tol=1e-10)
    exact = clone(model).fit(twice, labels, weights)
    assert_same(model.set_params(solver=FEW).fit(twice, labels, weights), exact)


def test_strings_frames_and_given_matrices() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("ab"), size=6)) for _ in range(40)]
    labels = [word.count("ab") > 1 for word in words]
    exact = mc.KernelLogisticRegression(mc.Spectrum(2), 0.1, tol=1e-10)
    found = clone(exact).set_params(solver=FEW).fit(words, labels)
    assert_same(found, exact.fit(words, labels), words)

    plain = mc.KernelLogisticRegression(RBF, tol=1e-10).fit(X, BINARY, W)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = clone(plain).set_params(kernel=RBF.on("a", "b", "c"), solver=FEW)
    wanted = values(plain, X)
    assert_allclose(values(by_name.fit(frame, BINARY, W), frame), wanted, atol=1e-8)
    numbers = np.arange(N)[:, None]
    held = clone(plain).set_params(kernel=mc.Precomputed(RBF(X)), solver=FEW)
    assert_allclose(values(held.fit(numbers, BINARY, W), numbers), wanted, atol=1e-8)
    given = clone(plain).set_params(kernel=mc.Precomputed(), solver=FEW)
    assert_allclose(values(given.fit(RBF(X), BINARY, W), RBF(X)), wanted, atol=1e-8)


@pytest.mark.parametrize(("loss", "y"), [("huber", Y), ("logistic", THREE)], ids=name)
def test_single_precision(loss: str, y: Any) -> None:
    """The gradient is asked to be 64 units of rounding of its terms, not less."""
    narrow = X.astype(np.float32)
    model = machine(loss, y, 0.1)
    exact, found = clone(model).fit(X, y), model.set_params(solver=FEW).fit(narrow, y)
    assert found.converged_
    assert found.residual_ <= 64 * np.finfo(np.float32).eps
    assert_allclose(values(found, Z.astype(np.float32)), values(exact, Z), atol=1e-3)


@pytest.mark.parametrize(("loss", "y"), [("squared", Y), ("logistic", BINARY)], ids=name)
def test_single_precision_says_what_it_cannot_do(loss: str, y: Any) -> None:
    model = machine(loss, y, 1e-9, solver=WHOLE)
    with pytest.warns(NumericalWarning, match=r"alpha"):
        model.fit(X.astype(np.float32), y)
    assert not model.converged_
    assert model.residual_ > 64 * np.finfo(np.float32).eps


def test_degenerate_data() -> None:
    one = mc.KernelHuberRegressor(RBF, solver=WHOLE).fit(X[:1], [3.0])
    assert one.predict(Z) == pytest.approx(3.0)
    flat = mc.KernelHuberRegressor(RBF, solver=WHOLE).fit(X, np.full(N, 3.0))
    assert flat.predict(Z) == pytest.approx(3.0)
    nothing = mc.KernelMachineRegressor(mc.Linear(), "poisson", solver=WHOLE)
    assert_allclose(nothing.fit(np.zeros((N, 2)), COUNTS).predict(np.zeros((1, 2))), COUNTS.mean())
    model = mc.KernelLogisticRegression(RBF, 0.1, tol=1e-10)
    copies = clone(model).set_params(solver=WHOLE).fit(np.tile(X, (3, 1)), np.tile(BINARY, 3))
    assert_same(copies, model.fit(X, BINARY, np.full(N, 3.0)))


def test_far_targets_bend_nowhere_at_first() -> None:
    """All residuals are beyond delta: the loss is linear at every row."""
    exact = mc.KernelHuberRegressor(RBF, alpha=0.1, fit_intercept=False, tol=1e-10).fit(X, Y + 100)
    found = clone(exact).set_params(solver=FEW).fit(X, Y + 100)
    assert_same(found, exact)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_only_the_ratio_of_weights_and_alpha_matters(scale: float) -> None:
    plain = mc.KernelLogisticRegression(RBF, 0.1, solver=FEW).fit(X, BINARY, W)
    scaled = mc.KernelLogisticRegression(RBF, 0.1 * scale, solver=FEW).fit(X, BINARY, scale * W)
    assert_allclose(values(scaled, Z), values(plain, Z), rtol=1e-7)
    assert scaled.dual_gap_ == pytest.approx(scale * plain.dual_gap_, rel=1e-3)


def test_pickles_clones_and_explains() -> None:
    model = mc.KernelLogisticRegression(RBF, solver=FEW).fit(X, THREE)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
    assert_array_equal(clone(model).fit(X, THREE).dual_coef_, model.dual_coef_)
    assert len(model.contributions(Z[:2], top=3)) == 2


# Iterations that end early ------------------------------------------------------------------------


def test_too_few_iterations_are_told_and_what_they_found_is_kept() -> None:
    short = S.ConjugateGradient(None, max_iter=1)
    model = mc.KernelLogisticRegression(RBF, 1e-3, solver=short, max_iter=5)
    told = r"last step the iterations stopped after 1 with a relative residual .* raise max_iter"
    with pytest.warns(NumericalWarning, match=told):
        model.fit(X, BINARY)
    assert not model.converged_
    assert model.residual_ > 1e-8
    losses = np.logaddexp(0, np.where(BINARY == "yes", -1, 1) * model.decision_function(X))
    assert losses.sum() < 0.99 * N * np.log(2)


def test_few_iterations_do_where_there_are_many_steps() -> None:
    """Steps that are not solved lead down all the same, and the gradient alone says when to end."""
    short = S.ConjugateGradient(None, max_iter=8)
    model = mc.KernelLogisticRegression(RBF, 0.1)
    exact, found = clone(model).fit(X, BINARY), model.set_params(solver=short).fit(X, BINARY)
    assert_same(found, exact, share=1e-6)
    assert found.n_iter_ > exact.n_iter_


def test_an_interrupt_keeps_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    products, solve = [0], newton_products.Products.solve

    def interrupted(self: Any, equations: Any) -> Any:
        products[0] += 1
        if products[0] > 2:
            raise KeyboardInterrupt
        return solve(self, equations)

    monkeypatch.setattr(newton_products.Products, "solve", interrupted)
    model = mc.KernelLogisticRegression(RBF, 1e-3, solver=S.ConjugateGradient(None))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, BINARY)
    assert model.converged_ is False
    assert model.n_iter_ == 2
    assert model.score(X, BINARY) > 0.8


# Bad input ----------------------------------------------------------------------------------------


def test_kinks_are_refused_with_a_smooth_loss_instead() -> None:
    with pytest.raises(ParameterError, match=r"kinks; pass .*squared_hinge.*NystromSolver"):
        mc.KernelMachineClassifier(RBF, "hinge", solver=FEW).fit(X, BINARY)
    for loss in ("absolute", "pinball", "epsilon_insensitive"):
        with pytest.raises(ParameterError, match=r"kinks; pass .*huber.*NystromSolver"):
            mc.KernelMachineRegressor(RBF, loss, solver=FEW).fit(X, Y)


def test_kernels_that_are_none() -> None:
    with pytest.raises(ParameterError, match="needs a valid kernel"):
        mc.KernelLogisticRegression(mc.Sigmoid(), solver=FEW).fit(X, BINARY)
    K = RBF(X)
    K[0, 1] = K[1, 0] = 5.0
    for how in ("rpcholesky", "pivoted", "nystrom", None):
        solver = S.ConjugateGradient(how, random_state=0)
        model = mc.KernelLogisticRegression(mc.Precomputed(), 0.1, solver=solver)
        with pytest.raises(ValidityError, match=r"not positive semi-definite.*is_psd"):
            model.fit(K, BINARY)


def test_values_beyond_numbers() -> None:
    with pytest.raises(DataError, match=r"gives NaN or infinity: the largest k\(x, x\)"):
        mc.KernelHuberRegressor(mc.Polynomial(degree=9), solver=FEW).fit(1e40 * X, Y)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (S.ConjugateGradient("lucky"), "preconditioner = 'lucky' is unknown"),
        (S.ConjugateGradient(tol=0), "tol = 0"),
        (S.ConjugateGradient(rank=0), "rank = 0"),
        (S.ConjugateGradient(max_iter=0), "max_iter = 0"),
        (S.ConjugateGradient(random_state="x"), "random_state"),
        (S.ConjugateGradient, "is a class, and not an object of it"),
    ],
)
def test_wrong_settings(solver: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mc.KernelHuberRegressor(RBF, solver=solver).fit(X, Y)


def test_rows_in_blocks_are_refused() -> None:
    rows = np.zeros((40_000, 500))

    def blocks() -> Any:
        for start in range(0, len(rows), 10_000):
            yield rows[start : start + 10_000], np.arange(10_000) % 2

    model = mc.KernelLogisticRegression(RBF, solver=FEW)
    with pytest.raises(DataError, match=r"needs all 40000 rows in memory.*NystromSolver"):
        model.fit(mc.Blocks(blocks))


def test_few_rows_in_blocks_are_gathered() -> None:
    blocks = mc.Blocks(lambda: iter([(X[:50], THREE[:50]), (X[50:], THREE[50:])]))
    model = mc.KernelLogisticRegression(RBF, 0.1, solver=FEW)
    held, gathered = clone(model).fit(X, THREE), clone(model).fit(blocks)
    assert_allclose(values(gathered, Z), values(held, Z), rtol=1e-10)


@parametrize_with_checks(
    [
        mc.KernelLogisticRegression(mc.Linear(), solver=S.ConjugateGradient(random_state=0)),
        mc.KernelHuberRegressor(mc.Linear(), solver=S.ConjugateGradient(random_state=0)),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
