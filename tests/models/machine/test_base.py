"""Machines of any convex loss against peers, general optimisers and their optimality conditions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, linprog, minimize
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import losses, memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from mercer.solvers.kinks import smoothing
from mercer.solvers.newton import dense

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_t(2, size=N) + 7
COUNTS = RNG.poisson(np.exp(X[:, 0] + 0.5)).astype(float)
BINARY = np.where(X[:, 0] + 0.7 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.7 * RNG.normal(size=N), [-0.5, 0.5])
Z = RNG.normal(size=(9, 3))
WEIGHTS = RNG.integers(0, 4, size=N).astype(float)
RBF = mc.RBF(length_scale=1.5)

SMOOTH = ["squared", "huber"]
KINKED = ["absolute", "pinball", "epsilon_insensitive"]
LABELLED = ["logistic", "hinge", "squared_hinge", "exponential"]


@parametrize_with_checks(
    [
        mc.KernelMachineRegressor(),
        mc.KernelHuberRegressor(),
        mc.KernelQuantileRegressor(alpha=0.1),
        mc.KernelMachineClassifier(),
        mc.KernelMachineClassifier(loss="hinge"),
        mc.KernelLogisticRegression(),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def objective(model: Any, kernel: mc.Kernel, x: Any, y: Array, weights: Any = None) -> float:
    """The objective of a fitted machine with one output, from its definition."""
    K, a = kernel(x), model.dual_coef_
    f = K @ a + model.intercept_
    w = np.ones(len(f)) if weights is None else weights
    return float(w @ model.loss_.value(y, f) + model.alpha / 2 * a @ K @ a)


# Peers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_squared_loss_is_kernel_ridge(fit_intercept: bool, weights: Array | None) -> None:
    ridge = mc.KernelRidge(RBF, alpha=0.3, fit_intercept=fit_intercept).fit(X, Y, weights)
    model = mc.KernelMachineRegressor(RBF, alpha=0.3, fit_intercept=fit_intercept)
    model.fit(X, Y, weights)
    np.testing.assert_allclose(model.predict(Z), ridge.predict(Z), rtol=1e-9)
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, rtol=1e-6, atol=1e-9)
    assert (model.n_iter_, model.converged_, model.alpha_) == (1, True, 0.3)


def test_a_linear_kernel_is_ridge() -> None:
    peer = Ridge(alpha=0.7).fit(X, Y)
    model = mc.KernelMachineRegressor(mc.Linear(), alpha=0.7).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-9)


def test_huber_with_a_delta_above_every_residual_is_kernel_ridge() -> None:
    ridge = mc.KernelRidge(RBF, alpha=0.3).fit(X, Y, WEIGHTS)
    model = mc.KernelHuberRegressor(RBF, delta=1e3, alpha=0.3).fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(model.predict(Z), ridge.predict(Z), rtol=1e-9)


def test_a_linear_kernel_is_huber_regression_at_its_scale() -> None:
    peer = HuberRegressor(alpha=0.4, epsilon=1.2, tol=1e-10, max_iter=10_000).fit(X, Y)
    model = mc.KernelHuberRegressor(
        mc.Linear(), delta=1.2 * peer.scale_, alpha=0.4 * peer.scale_
    ).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-5)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.85])
def test_a_linear_kernel_is_quantile_regression_as_alpha_vanishes(quantile: float) -> None:
    peer = QuantileRegressor(quantile=quantile, alpha=0).fit(X, Y)
    model = mc.KernelQuantileRegressor(mc.Linear(), quantile=quantile, alpha=1e-3).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["binary", "multinomial"])
def test_a_linear_kernel_is_logistic_regression(
    fit_intercept: bool, weights: Array | None, labels: NDArray[Any]
) -> None:
    peer = LogisticRegression(
        C=1 / 0.2, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12
    ).fit(X, labels, weights)
    model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.2, fit_intercept=fit_intercept)
    model.fit(X, labels, weights)
    np.testing.assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(Z), peer.predict(Z))
    if labels is BINARY:
        np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "peer", "targets"),
    [("poisson", PoissonRegressor, COUNTS), ("gamma", GammaRegressor, COUNTS + 0.5)],
)
def test_a_linear_kernel_is_a_generalised_linear_model(
    loss: str, peer: Any, targets: Array
) -> None:
    """The peers divide the loss by the number of rows."""
    other = peer(alpha=0.3 / N, tol=1e-10, max_iter=10_000, solver="newton-cholesky")
    model = mc.KernelMachineRegressor(mc.Linear(), loss=loss, alpha=0.3).fit(X, targets)
    np.testing.assert_allclose(model.predict(Z), other.fit(X, targets).predict(Z), rtol=1e-6)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5])
def test_hinge_is_the_support_vector_machine(weights: Array | None) -> None:
    alpha, gamma = 0.4, 1 / (2 * 1.5**2)
    peer = SVC(C=1 / alpha, gamma=gamma, tol=1e-9).fit(X, BINARY, weights)
    model = mc.KernelMachineClassifier(RBF, loss="hinge", alpha=alpha).fit(X, BINARY, weights)
    np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), atol=1e-6)
    w = np.ones(N) if weights is None else weights
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    K = RBF(X)
    dual = np.zeros(N)
    dual[peer.support_] = peer.dual_coef_[0]
    peers = (
        w @ np.maximum(1 - signs * (K @ dual + peer.intercept_), 0) + alpha / 2 * dual @ K @ dual
    )
    own = objective(model, RBF, X, signs, weights)
    assert own <= peers * (1 + 1e-9)
    assert own == pytest.approx(peers, rel=1e-6)


def test_epsilon_insensitive_is_support_vector_regression() -> None:
    alpha, gamma = 0.2, 1 / (2 * 1.5**2)
    peer = SVR(C=1 / alpha, gamma=gamma, epsilon=0.25, tol=1e-9).fit(X, Y)
    loss = losses.EpsilonInsensitive(epsilon=0.25)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=alpha).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), atol=1e-6)


def test_squared_hinge_has_half_the_peers_c() -> None:
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    peer = LinearSVC(C=1 / (2 * 0.3), fit_intercept=False, tol=1e-10, max_iter=100_000)
    model = mc.KernelMachineClassifier(
        mc.Linear(), loss="squared_hinge", alpha=0.3, fit_intercept=False
    )
    expected = peer.fit(X, signs).decision_function(Z)
    np.testing.assert_allclose(model.fit(X, signs).decision_function(Z), expected, rtol=1e-6)


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA is not set: Engel's data")
def test_engels_median_regression() -> None:
    """Koenker and Bassett's food expenditure: slope .5601805, intercept 81.48233."""
    data = np.load(Path(os.environ["MERCER_DATA"]) / "regression" / "engel.npz")
    income, food = data["X"], data["y"]
    model = mc.KernelQuantileRegressor(mc.Linear(), alpha=1e-2).fit(income, food)
    intercept, one = model.predict([[0.0], [1.0]])
    assert len(food) == 235
    assert one - intercept == pytest.approx(0.5601805, abs=1e-7)
    assert intercept == pytest.approx(81.48233, abs=1e-4)
    # The linear programme itself: b, b', slope, slope', then residuals above and below.
    n = len(food)
    ones, eye = np.ones((n, 1)), np.eye(n)
    design = np.hstack([ones, -ones, income, -income, eye, -eye])
    found = linprog(np.r_[np.zeros(4), np.full(2 * n, 0.5)], A_eq=design, b_eq=food)
    assert one - intercept == pytest.approx(found.x[2] - found.x[3], rel=1e-9)
    assert intercept == pytest.approx(found.x[0] - found.x[1], rel=1e-7)


@pytest.mark.parametrize("labels", [BINARY, THREE])
def test_the_multinomial_loss_is_the_logistic_one(labels: Any) -> None:
    model = mc.KernelMachineClassifier(RBF, loss=losses.Multinomial(), alpha=0.3).fit(X, labels)
    other = mc.KernelLogisticRegression(RBF, alpha=0.3).fit(X, labels)
    np.testing.assert_array_equal(model.predict_proba(Z), other.predict_proba(Z))


# Optimality ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED, "poisson", "gamma"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_step_in_any_direction_lowers_the_objective(loss: str, fit_intercept: bool) -> None:
    targets = COUNTS + 0.5 if loss in ("poisson", "gamma") else Y
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1, fit_intercept=fit_intercept)
    model.fit(X, targets, WEIGHTS)
    least = objective(model, RBF, X, targets, WEIGHTS)
    rng = np.random.default_rng(1)
    dual, intercept = model.dual_coef_, model.intercept_
    for size in np.geomspace(1e-4, 1, 20):
        model.dual_coef_ = dual + size * rng.normal(size=N)
        model.intercept_ = intercept + size * rng.normal() * fit_intercept
        assert objective(model, RBF, X, targets, WEIGHTS) >= least * (1 - 1e-12)
    assert model.converged_


@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_conjugates_give_a_lower_bound_that_meets_the_objective(
    loss: str, fit_intercept: bool
) -> None:
    """-sum w l*(y, -alpha a / w) - alpha a'Ka / 2 is the dual objective, with 1'a = 0."""
    alpha, weights = 0.1, WEIGHTS + 1
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=alpha, fit_intercept=fit_intercept)
    model.fit(X, Y, weights)
    a, K = model.dual_coef_, RBF(X)
    bound = -weights @ model.loss_.conjugate(Y, -alpha * a / weights) - alpha / 2 * a @ K @ a
    primal = objective(model, RBF, X, Y, weights)
    assert primal - bound <= 1e-8 * primal
    if fit_intercept:
        assert abs(a.sum()) <= 1e-12 * np.abs(a).sum()
    if not model.loss_.smooth:
        assert model.dual_gap_ <= 1e-8 * primal


@pytest.mark.parametrize("loss", LABELLED)
def test_classifiers_meet_their_dual_bound(loss: str) -> None:
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.1).fit(X, BINARY)
    a, K = model.dual_coef_, RBF(X)
    bound = -np.sum(model.loss_.conjugate(signs, -0.1 * a)) - 0.05 * a @ K @ a
    primal = objective(model, RBF, X, signs)
    assert 0 <= primal - bound + 1e-9 * primal <= 2e-8 * primal


def test_the_gradient_norm_is_the_gradients() -> None:
    model = mc.KernelMachineClassifier(RBF, alpha=0.1, max_iter=2, tol=1e-12)
    with pytest.warns(NumericalWarning, match="stopped after 2 steps with a norm of the gradient"):
        model.fit(X, BINARY)
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    K, a = RBF(X), model.dual_coef_
    slopes = losses.Logistic().derivative(signs, K @ a + model.intercept_)
    gradient = 0.1 * a + slopes
    # With an intercept, f is orthogonal to the mean of the kernel; the sum is the intercept's part.
    centred = gradient - gradient.mean()
    expected = np.sqrt(centred @ K @ centred + slopes.sum() ** 2)
    assert model.gradient_norm_ == pytest.approx(expected, rel=1e-6)


def test_a_multinomial_machine_is_at_its_minimum() -> None:
    model = mc.KernelLogisticRegression(RBF, alpha=0.05).fit(X, THREE, WEIGHTS + 1)
    K, codes = RBF(X), THREE
    shape = (N + 1, 3)

    def function(flat: Array) -> float:
        a, b = flat.reshape(shape)[:-1], flat.reshape(shape)[-1]
        value = (WEIGHTS + 1) @ losses.Multinomial().value(codes, K @ a + b)
        return float(value + 0.025 * np.sum(a * (K @ a)))

    start = np.vstack([model.dual_coef_, model.intercept_]).ravel()
    rng = np.random.default_rng(2)
    least = function(start)
    for size in np.geomspace(1e-4, 1, 20):
        assert function(start + size * rng.normal(size=start.size)) >= least * (1 - 1e-12)
    np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-9)
    slopes = (WEIGHTS + 1)[:, None] * losses.Multinomial().derivative(
        codes, K @ model.dual_coef_ + model.intercept_
    )
    np.testing.assert_allclose(-0.05 * model.dual_coef_, slopes, atol=1e-7)


# Quantiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 10.0])
def test_quantiles_cover_their_share_of_the_training_points(alpha: float) -> None:
    """With an intercept, at most q n targets lie below and at least q n on or below: no chance."""
    levels = [0.1, 0.35, 0.5, 0.8]
    for level in levels:
        model = mc.KernelQuantileRegressor(RBF, quantile=level, alpha=alpha).fit(X, Y)
        below = Y - model.predict(X)
        assert np.sum(below < -1e-7) <= level * N <= np.sum(below <= 1e-7)


def test_quantiles_that_do_not_cross_are_those_fitted_alone() -> None:
    levels = [0.1, 0.5, 0.9]
    model = mc.KernelQuantileRegressor(RBF, quantile=levels, alpha=10.0).fit(X, Y)
    alone = [
        mc.KernelQuantileRegressor(RBF, quantile=level, alpha=10.0).fit(X, Y).predict(Z)
        for level in levels
    ]
    assert np.all(np.diff(model.predict(X), axis=1) > 0)
    np.testing.assert_allclose(model.predict(Z), np.column_stack(alone), rtol=1e-9)


@pytest.mark.parametrize("alpha", [1e-4, 1e-3, 1e-2])
def test_quantiles_never_cross_at_the_training_points(alpha: float) -> None:
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-3, 3, size=(80, 1)), axis=0)
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=80)
    kernel, levels = mc.RBF(length_scale=0.2), [0.9, 0.05, 0.5, 0.25]
    alone = [
        mc.KernelQuantileRegressor(kernel, quantile=level, alpha=alpha).fit(x, y).predict(x)
        for level in sorted(levels)
    ]
    assert np.diff(alone, axis=0).min() < -1e-3  # without the constraint they do
    model = mc.KernelQuantileRegressor(kernel, quantile=levels, alpha=alpha).fit(x, y)
    assert model.converged_
    order = np.argsort(levels)
    assert np.all(np.diff(model._function_values(x)[:, order], axis=1) >= 0)
    fresh = rng.uniform(-4, 4, size=(300, 1))
    values = model._function_values(fresh)[:, order]
    assert np.diff(values, axis=1).min() < 0  # between the training points the functions cross,
    assert np.all(np.diff(model.predict(fresh)[:, order], axis=1) >= 0)  # predictions do not
    np.testing.assert_array_equal(model.predict(fresh)[:, order], np.sort(values, axis=1))


def test_crossing_quantiles_are_those_of_a_general_solver() -> None:
    rng = np.random.default_rng(7)
    n, alpha, levels = 12, 1e-2, np.array([0.3, 0.5])
    x = np.sort(rng.uniform(-2, 2, size=(n, 1)), axis=0)
    y = rng.normal(size=n)
    kernel = mc.RBF(length_scale=0.4)
    K = kernel(x)
    root = np.linalg.cholesky(K + 1e-12 * np.eye(n))
    model = mc.KernelQuantileRegressor(kernel, quantile=levels, alpha=alpha).fit(x, y)

    # Variables: root' a and b for each quantile, then the losses; a quadratic programme.
    def value(v: Array) -> float:
        return float(
            alpha / 2 * (v[:n] @ v[:n] + v[n + 1 : 2 * n + 1] @ v[n + 1 : 2 * n + 1])
            + v[-2 * n :].sum()
        )

    def gradient(v: Array) -> Array:
        slope = np.ones_like(v)
        slope[: 2 * n + 2] = alpha * v[: 2 * n + 2]
        slope[[n, 2 * n + 1]] = 0
        return slope

    block = np.column_stack([root, np.ones(n)])
    zero, eye, none = np.zeros_like(block), np.eye(n), np.zeros((n, n))
    first, second = np.hstack([block, zero]), np.hstack([zero, block])
    rows, lower = [], []
    for f, level, mine, other in ((first, levels[0], eye, none), (second, levels[1], none, eye)):
        rows += [np.hstack([level * f, mine, other]), np.hstack([(level - 1) * f, mine, other])]
        lower += [level * y, (level - 1) * y]
    rows.append(np.hstack([second - first, none, none]))
    lower.append(np.zeros(n))
    start = np.zeros(4 * n + 2)
    start[-2 * n :] = np.abs(y).repeat(2)[: 2 * n].max()
    found = minimize(
        value,
        start,
        jac=gradient,
        method="SLSQP",
        constraints=LinearConstraint(np.vstack(rows), np.concatenate(lower), np.inf),
        options={"maxiter": 1000, "ftol": 1e-11},
    )
    assert found.success
    f = model.predict(x)
    own = sum(
        losses.Pinball(quantile=float(level)).value(y, f[:, q]).sum()
        + alpha / 2 * model.dual_coef_[:, q] @ K @ model.dual_coef_[:, q]
        for q, level in enumerate(levels)
    )
    assert np.any(np.diff(f, axis=1) < 1e-6)  # the constraint binds
    assert own == pytest.approx(found.fun, rel=1e-6)


def test_quantiles_of_a_constant_are_the_constant() -> None:
    model = mc.KernelQuantileRegressor(RBF, quantile=[0.2, 0.5, 0.9], alpha=0.1)
    for rows in (1, N):
        model.fit(X[:rows], np.full(rows, 3.0))
        np.testing.assert_allclose(model.predict(Z), 3.0, rtol=1e-9)
        assert np.all(np.diff(model.predict(X[:rows]), axis=1) >= 0)
        assert model.converged_


def test_without_an_intercept_quantiles_keep_their_order_up_to_rounding() -> None:
    model = mc.KernelQuantileRegressor(
        mc.RBF(length_scale=0.3), quantile=[0.2, 0.5, 0.9], alpha=1e-3, fit_intercept=False
    ).fit(X, Y)
    assert model.converged_
    assert np.diff(model.predict(X), axis=1).min() >= -1e-9 * Y.std()


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_score_of_quantiles_is_the_share_of_the_pinball_loss(weights: Array | None) -> None:
    shares = [
        mc.KernelQuantileRegressor(RBF, quantile=q).fit(X, Y).score(X, Y, weights)
        for q in (0.2, 0.9)
    ]
    for q, share in zip((0.2, 0.9), shares, strict=True):
        model = mc.KernelMachineRegressor(RBF, loss=losses.Pinball(quantile=q)).fit(X, Y)
        expected = d2_pinball_score(Y, model.predict(X), alpha=q, sample_weight=weights)
        assert share == model.score(X, Y, weights) == pytest.approx(expected)
    both = mc.KernelQuantileRegressor(RBF, quantile=[0.2, 0.9]).fit(X, Y)
    assert both.score(X, Y, weights) == pytest.approx(np.mean(shares), rel=1e-6)
    other = mc.KernelHuberRegressor(RBF).fit(X, Y)
    assert other.score(X, Y, weights) == pytest.approx(
        r2_score(Y, other.predict(X), sample_weight=weights)
    )


def test_several_quantiles_have_a_score_and_one_in_a_list_a_column() -> None:
    model = mc.KernelQuantileRegressor(RBF, quantile=[0.5], alpha=0.1).fit(X, Y)
    assert model.predict(Z).shape == (9, 1)
    assert model.intercept_.shape == (1,)
    three = mc.KernelQuantileRegressor(RBF, quantile=[0.2, 0.5, 0.8], alpha=0.1).fit(X, Y)
    assert 0 < three.score(X, Y) < 1
    assert mc.KernelQuantileRegressor(RBF, quantile=0.5).fit(X, Y).predict(Z).shape == (9,)


# Weights, penalties, users' classes ---------------------------------------------------------------


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED, "poisson", "gamma"])
def test_integer_weights_are_repeated_rows_and_zero_removes(loss: str) -> None:
    targets = COUNTS + 0.5 if loss in ("poisson", "gamma") else Y
    rows = np.repeat(np.arange(N), WEIGHTS.astype(int))
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.5)
    weighted = model.fit(X, targets, WEIGHTS).predict(Z)
    assert np.all(model.dual_coef_[WEIGHTS == 0] == 0)
    np.testing.assert_allclose(weighted, model.fit(X[rows], targets[rows]).predict(Z), rtol=1e-6)


@pytest.mark.parametrize("loss", LABELLED)
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_integer_weights_are_repeated_rows_for_classes_too(loss: str, labels: Any) -> None:
    rows = np.repeat(np.arange(N), WEIGHTS.astype(int))
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.5)
    weighted = model.fit(X, labels, WEIGHTS).decision_function(Z)
    repeated = model.fit(X[rows], labels[rows]).decision_function(Z)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-7)


def test_a_class_whose_rows_have_no_weight_is_no_class() -> None:
    weights = (THREE != 1).astype(float)
    model = mc.KernelMachineClassifier(RBF).fit(X, THREE, weights)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    with pytest.raises(DataError, match="only one class"):
        model.fit(X, THREE, (THREE == 1).astype(float))


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
@pytest.mark.parametrize(
    "penalty",
    [mc.penalties.Norm(), mc.penalties.Power(exponent=3.0), mc.penalties.Power(exponent=0.7)],
)
def test_a_penalty_is_minimised_over_all_weights_of_the_square(loss: str, penalty: Any) -> None:
    alpha, K = 0.5, RBF(X)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=alpha, penalty=penalty).fit(X, Y)

    def value(fitted: Any) -> float:
        a = fitted.dual_coef_
        norm = np.sqrt(max(a @ K @ a, 0.0))
        return float(
            fitted.loss_.value(Y, K @ a + fitted.intercept_).sum() + alpha * penalty.value(norm)
        )

    others = [
        value(mc.KernelMachineRegressor(RBF, loss=loss, alpha=beta).fit(X, Y))
        for beta in np.append(np.geomspace(1e-3, 1e3, 25), model.alpha_ * np.array([0.99, 1.01]))
        if np.isfinite(beta)
    ]
    assert value(model) <= min(others) * (1 + 1e-9)
    assert value(model) >= min(others) * (1 - 1e-3)


def test_the_default_penalty_is_the_power_of_two() -> None:
    model = mc.KernelMachineRegressor(RBF, loss="huber", alpha=0.3)
    plain = model.fit(X, Y).predict(Z)
    power = clone(model).set_params(penalty=mc.penalties.Power(exponent=2.0)).fit(X, Y)
    np.testing.assert_allclose(power.predict(Z), plain, rtol=1e-7)
    assert power.alpha_ == pytest.approx(0.3, rel=1e-7)


def test_a_norm_that_is_penalised_enough_is_zero() -> None:
    penalty = mc.penalties.Norm()
    model = mc.KernelMachineRegressor(RBF, alpha=1e4, penalty=penalty).fit(X, Y)
    assert np.isinf(model.alpha_)
    assert np.all(model.dual_coef_ == 0)
    np.testing.assert_allclose(model.predict(Z), Y.mean(), rtol=1e-9)


class LogCosh(losses.RegressionLoss):
    scale = mc.Positive(1.0, learned=False)

    def value(self, y: Any, f: Any) -> Any:
        r = (f - y) / self.scale
        return np.logaddexp(r, -r) - np.log(2)

    def derivative(self, y: Any, f: Any) -> Any:
        return np.tanh((f - y) / self.scale) / self.scale


class Cauchy(losses.RegressionLoss):
    def value(self, y: Any, f: Any) -> Any:
        return np.log1p((f - y) ** 2)

    def derivative(self, y: Any, f: Any) -> Any:
        return 2 * (f - y) / (1 + (f - y) ** 2)


class Modified(losses.ClassificationLoss):
    """Huber's loss of the margin, a class of a user."""

    def value(self, y: Any, f: Any) -> Any:
        m = y * f
        return np.where(m < 0, 1 - 2 * m, np.maximum(1 - m, 0) ** 2)

    def derivative(self, y: Any, f: Any) -> Any:
        m = y * f
        return -2 * y * np.where(m < 0, 1.0, np.maximum(1 - m, 0))


class Tube(losses.RegressionLoss, losses.PiecewiseLinear):
    """A user's own loss with kinks: more below the tube than above it."""

    above = mc.Positive(1.0, learned=False)

    def kinks(self, y: Array) -> list[losses.Kink]:
        one, above = np.ones(len(y)), np.array(self.above)
        return [losses.Kink(y - 0.25, -one, 0 * one), losses.Kink(y + 0.25, 0 * above, above)]


def test_a_users_loss_with_kinks_is_minimised_exactly() -> None:
    even = mc.KernelMachineRegressor(RBF, loss=Tube(), alpha=0.2).fit(X, Y)
    known = losses.EpsilonInsensitive(epsilon=0.25)
    peer = mc.KernelMachineRegressor(RBF, loss=known, alpha=0.2).fit(X, Y)
    np.testing.assert_allclose(even.predict(Z), peer.predict(Z), rtol=1e-9)
    model = mc.KernelMachineRegressor(RBF, loss=Tube(above=3.0), alpha=0.2).fit(X, Y)
    assert model.dual_gap_ <= 1e-8 * objective(model, RBF, X, Y)
    assert model.predict(X).mean() < even.predict(X).mean()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_users_loss_is_minimised(fit_intercept: bool) -> None:
    model = mc.KernelMachineRegressor(
        mc.Linear(), loss=LogCosh(scale=0.5), alpha=0.3, fit_intercept=fit_intercept
    ).fit(X, Y)

    def value(v: Array) -> float:
        f = X @ v[:3] + v[3] * fit_intercept
        return float(model.loss_.value(Y, f).sum() + 0.15 * v[:3] @ v[:3])

    found = minimize(value, np.array([0.0, 0, 0, 5]), options={"gtol": 1e-8}, method="BFGS")
    expected = Z @ found.x[:3] + found.x[3] * fit_intercept
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-5, atol=1e-5)


def test_a_users_loss_of_classes_is_minimised() -> None:
    model = mc.KernelMachineClassifier(RBF, loss=Modified(), alpha=0.3).fit(X, BINARY)
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    least = objective(model, RBF, X, signs)
    dual = model.dual_coef_
    for size in np.geomspace(1e-4, 1, 10):
        model.dual_coef_ = dual + size * np.random.default_rng(3).normal(size=N)
        assert objective(model, RBF, X, signs) >= least * (1 - 1e-12)
    assert not hasattr(model, "predict_proba")


def test_a_loss_that_is_not_convex_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"KernelMachineRegressor: loss = Cauchy\(\) is not convex"
    ):
        mc.KernelMachineRegressor(RBF, loss=Cauchy()).fit(X, Y)


# Probabilities and predictions --------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_probabilities_sum_to_one_and_agree_with_predict(loss: str, labels: Any) -> None:
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.1).fit(X, labels)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    assert model.score(X, labels) > 0.7


def test_losses_without_probabilities_have_no_predict_proba() -> None:
    model = mc.KernelMachineClassifier(RBF, loss="hinge").fit(X, BINARY)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


def test_logistic_probabilities_average_to_the_share_of_the_class() -> None:
    model = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X, THREE)
    shares = [np.mean(c == THREE) for c in range(3)]
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), shares, rtol=1e-7)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_means_are_positive(loss: str) -> None:
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1).fit(X, COUNTS + 0.5)
    assert np.all(model.predict(Z) > 0)


# Data, parameters, interrupts ---------------------------------------------------------------------


def test_data_frames_strings_and_matrices() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = mc.RBF(length_scale=1.5).on("a", "b") + mc.Linear().on("c")
    model = mc.KernelQuantileRegressor(kernel, alpha=0.1).fit(frame, Y)
    assert model.predict(frame).shape == (N,)
    words = ["abab", "abba", "baba", "cdcd", "dcdc", "ccdd"]
    labels = [0, 0, 0, 1, 1, 1]
    text = mc.KernelLogisticRegression(mc.Spectrum(2), alpha=0.1).fit(words, labels)
    np.testing.assert_array_equal(text.predict(["abab", "cdcd"]), [0, 1])
    given = mc.KernelMachineClassifier(mc.Precomputed(), loss="hinge", alpha=0.1).fit(
        RBF(X), BINARY
    )
    plain = mc.KernelMachineClassifier(RBF, loss="hinge", alpha=0.1).fit(X, BINARY)
    np.testing.assert_allclose(given.decision_function(RBF(Z, X)), plain.decision_function(Z))


def test_float32_data_are_solved_in_double_precision() -> None:
    single = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X.astype(np.float32), BINARY)
    double = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X, BINARY)
    np.testing.assert_allclose(single.predict_proba(Z), double.predict_proba(Z), atol=1e-4)


def test_parameters_of_the_loss_are_searched() -> None:
    model = mc.KernelMachineRegressor(RBF, loss="huber", alpha=0.1)
    model.set_params(loss__delta=2.0, kernel__length_scale=3.0)
    assert (model.loss, model.kernel) == (losses.Huber(delta=2.0), mc.RBF(length_scale=3.0))
    search = GridSearchCV(model, {"loss__delta": [0.01, 1.0], "alpha": [0.1]}, cv=3).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    power = mc.KernelMachineRegressor(RBF, penalty=mc.penalties.Power(exponent=3.0))
    assert power.set_params(penalty__exponent=1.5).penalty == mc.penalties.Power(exponent=1.5)
    names = mc.KernelQuantileRegressor(RBF).get_params(deep=False)
    assert "loss" not in names
    assert "quantile" in names


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (mc.KernelMachineRegressor(alpha=0), "alpha = 0 is not a finite number > 0"),
        (mc.KernelMachineRegressor(alpha=-1.0), "alpha = -1.0"),
        (mc.KernelMachineRegressor(alpha="loo"), "alpha = 'loo'"),
        (mc.KernelMachineRegressor(alpha=np.inf), "alpha = inf"),
        (mc.KernelMachineRegressor(tol=0.0), "tol = 0.0"),
        (mc.KernelMachineRegressor(max_iter=0), "max_iter = 0"),
        (
            mc.KernelMachineRegressor(loss="hinge"),
            r"loss = Hinge\(\) is not for real targets.*Class",
        ),
        (mc.KernelMachineRegressor(loss="nonsense"), "is not a loss"),
        (mc.KernelMachineRegressor(penalty="norm"), "is not a penalty"),
        (mc.KernelQuantileRegressor(quantile=1.0), "0 < quantile < 1"),
        (mc.KernelQuantileRegressor(quantile=[0.2, -0.1]), "0 < quantile < 1"),
        (mc.KernelHuberRegressor(delta=-1), "delta > 0"),
        (mc.KernelMachineRegressor("rbf"), "is not a kernel"),
    ],
)
def test_bad_parameters_are_refused(model: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        model.fit(X, Y)


def test_bad_data_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"y\[\d+\] = -\S+, but loss = Poisson\(\) needs targets >= 0"
    ):
        mc.KernelMachineRegressor(RBF, loss="poisson").fit(X, Y - 7)
    with pytest.raises(DataError, match="all targets of positive weight are 0"):
        mc.KernelMachineRegressor(RBF, loss="poisson").fit(X, np.zeros(N))
    with pytest.raises(DataError, match="only one class, 'a'"):
        mc.KernelMachineClassifier(RBF).fit(X, ["a"] * N)
    with pytest.raises(
        ParameterError, match=r"Huber\(\) is not for classes.*KernelMachineRegressor"
    ):
        mc.KernelMachineClassifier(RBF, loss="huber").fit(X, BINARY)
    with pytest.raises(DataError, match="Unknown label type"):
        mc.KernelMachineClassifier(RBF).fit(X, Y)
    with pytest.raises(DataError):
        mc.KernelMachineRegressor(RBF).fit(X, BINARY)
    with pytest.raises(DataError, match="at least one non-zero"):
        mc.KernelMachineRegressor(RBF).fit(X, Y, np.zeros(N))
    with pytest.raises(DataError, match="59 labels"):
        mc.KernelMachineClassifier(RBF).fit(X, BINARY[:-1])
    with pytest.raises(ValidityError, match=r"no minimum: .*mercer\.validity\.repair"):
        mc.KernelMachineRegressor(mc.Precomputed()).fit(np.array([[1.0, 2], [2, 1]]), [0.0, 1.0])
    with pytest.raises(DataError, match="NaN or infinity"):
        mc.KernelMachineRegressor(mc.Linear()).fit(1e200 * X, Y)


def test_memory_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryForecastError, match="KernelMachineRegressor on 60 rows"):
        mc.KernelMachineRegressor(RBF).fit(X, Y)


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED, "poisson", "gamma"])
def test_degenerate_data(loss: str) -> None:
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1)
    np.testing.assert_allclose(model.fit(X[:1], [3.0]).predict(Z), 3.0, atol=0.11)
    np.testing.assert_allclose(model.fit(X, np.full(N, 3.0)).predict(Z), 3.0, atol=0.11)
    same = model.fit(np.zeros((N, 2)), COUNTS + 0.5)
    assert np.ptp(same.predict(np.zeros((3, 2)))) == 0
    double = np.vstack([X, X])
    assert model.fit(double, np.concatenate([COUNTS, COUNTS]) + 0.5).converged_


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("loss", ["absolute", "pinball"])
def test_units_of_the_target_do_not_matter(loss: str, scale: float) -> None:
    """The loss scales like y, the penalty like its square: alpha has to scale the other way."""
    plain = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1).fit(X, Y).predict(Z)
    scaled = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1 / scale).fit(X, scale * Y)
    np.testing.assert_allclose(scaled.predict(Z), scale * plain, rtol=1e-6)


def test_poisson_starts_where_exponents_are_small() -> None:
    big = 1e6 * (COUNTS + 1)
    model = mc.KernelMachineRegressor(RBF, loss="poisson", alpha=1e-3).fit(X, big)
    assert model.converged_
    assert np.corrcoef(np.log(model.predict(X)), np.log(big))[0, 1] > 0.9


@pytest.mark.parametrize(
    ("loss", "module", "name"),
    [("poisson", dense, "step"), ("pinball", smoothing, "step")],
)
def test_an_interrupt_keeps_the_last_step(
    loss: str, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = getattr(module._Problem, name), []

    def step(self: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(module._Problem, name, step)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.01)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, COUNTS)
    assert model.converged_ is False
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict(Z)).all()


def test_a_tiny_delta_is_the_absolute_loss() -> None:
    """Huber(delta) / delta tends to the absolute value, and alpha / delta stays."""
    median = mc.KernelMachineRegressor(RBF, loss="absolute", alpha=0.1).fit(X, Y)
    model = mc.KernelHuberRegressor(RBF, delta=1e-7, alpha=1e-8).fit(X, Y)
    assert model.converged_
    np.testing.assert_allclose(model.predict(Z), median.predict(Z), atol=1e-5)


def test_a_kernel_far_too_large_for_its_alpha_is_announced() -> None:
    """Terms of rows that cancel to the last digit leave no function: better said than found out."""
    for loss in ("huber", "absolute"):
        model = mc.KernelMachineRegressor(
            mc.Linear(), loss=loss, alpha=1e-6, solver=mc.solvers.Cholesky()
        )
        with pytest.warns(NumericalWarning, match="scale the data"):
            model.fit(1e8 * X, Y)
        assert not model.converged_


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "exponential"])
def test_a_function_that_is_zero_is_no_reason_for_alarm(loss: str) -> None:
    model = mc.KernelMachineClassifier(mc.RBF(length_scale=1.0), loss=loss)
    model.fit(np.ones((10, 1)), [0, 1] * 5)
    assert model.converged_
    np.testing.assert_allclose(model.decision_function(np.ones((1, 1))), 0, atol=1e-12)


def test_advice_after_rounding_is_not_to_go_on() -> None:
    model = mc.KernelHuberRegressor(RBF, tol=1e-20)
    with pytest.warns(NumericalWarning, match="rounding: scale the data, or raise alpha or tol"):
        model.fit(X, Y)
    assert model.n_iter_ < 20
    with pytest.warns(NumericalWarning, match=r"raise alpha, tol or max_iter \(1\)"):
        model.set_params(max_iter=1).fit(X, Y)


class StopAfter:
    """A callback that asks for a stop."""

    def __init__(self, steps: int) -> None:
        self.steps, self.seen = steps, 0

    def setup(self, estimator: Any, context: Any) -> None:
        self.seen = 0

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> bool:
        if context.parent is None:
            return False
        self.seen += 1
        return self.seen >= self.steps


def test_a_callback_may_stop_the_fit() -> None:
    callback = StopAfter(2)
    model = mc.KernelLogisticRegression(RBF, alpha=1e-6).set_callbacks(callback)
    model.fit(X, BINARY)
    assert (model.n_iter_, model.converged_, callback.seen) == (2, False, 2)


def test_short_fits_with_kinks_are_announced() -> None:
    with pytest.warns(NumericalWarning, match="duality gap of .*max_iter") as caught:
        model = mc.KernelQuantileRegressor(RBF, alpha=1e-3, max_iter=3).fit(X, Y)
    assert not model.converged_
    assert model.dual_gap_ > 0
    assert caught[0].filename == __file__  # the line to change, not one of the library


class Logarithm(mc.penalties.Penalty):
    """log(1 + t): increasing, but not convex."""

    def value(self, t: Any) -> Any:
        return np.log1p(t)

    def derivative(self, t: Any) -> Any:
        return 1 / (1 + np.asarray(t))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_a_penalty_that_is_not_convex_finds_the_best_of_all_weights(loss: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 2))
    targets = rng.poisson(np.exp(np.sin(rows[:, 0]))).astype(float)
    kernel, alpha = mc.RBF(length_scale=1.0), 0.1
    model = mc.KernelMachineRegressor(kernel, loss, alpha, penalty=Logarithm()).fit(rows, targets)
    assert model.converged_
    K, pointwise = kernel(rows), losses.Squared() if loss == "squared" else losses.Poisson()

    def objective(fit: Any) -> float:
        norm = np.sqrt(fit.dual_coef_ @ K @ fit.dual_coef_)
        value = pointwise.value(targets, K @ fit.dual_coef_ + fit.intercept_).sum()
        return float(value + alpha * np.log1p(norm))

    others = [
        mc.KernelMachineRegressor(kernel, loss, beta).fit(rows, targets)
        for beta in np.logspace(-6, 3, 28)
    ]
    best = min(objective(fit) for fit in others if fit.converged_)
    assert objective(model) <= best * (1 + 1e-6) + 1e-9
