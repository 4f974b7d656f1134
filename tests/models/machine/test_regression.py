"""Regressors of any convex loss against peers, general optimisers and optimality conditions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, linprog, minimize
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.svm import SVR

import mercer as mc
from machine_problems import COUNTS, RBF, WEIGHTS, N, X, Y, Z, objective
from mercer import losses
from mercer.exceptions import ParameterError

Array = NDArray[np.floating[Any]]
SMOOTH = ["squared", "huber"]
KINKED = ["absolute", "pinball", "epsilon_insensitive"]


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


@pytest.mark.parametrize("c", [1e-6, 1e6])
@pytest.mark.parametrize(
    "model", [mc.KernelQuantileRegressor(RBF), mc.KernelHuberRegressor(RBF)], ids=repr
)
def test_defaults_follow_the_unit_of_the_targets(model: Any, c: float) -> None:
    one, other = model.fit(X, Y, WEIGHTS).predict(Z), model.fit(X, c * Y, WEIGHTS).predict(Z)
    np.testing.assert_allclose(other, c * one, rtol=1e-7, atol=1e-7 * c)
    assert np.ptp(one) > 0.1 * np.ptp(Y)


def test_the_spread_is_that_of_the_quartiles() -> None:
    y = np.random.default_rng(0).normal(5, 3, size=4001)
    quartiles = np.percentile(y, [25, 75])
    expected = (quartiles[1] - quartiles[0]) / (norm.ppf(0.75) - norm.ppf(0.25))
    y[:20] = 1e9
    assert losses.base.spread(y, np.ones(4001)) == pytest.approx(expected, rel=0.02)
    counts = np.random.default_rng(1).integers(1, 4, size=4001)
    repeated = losses.base.spread(np.repeat(y, counts), np.ones(counts.sum()))
    assert losses.base.spread(y, counts.astype(float)) == repeated
    assert losses.base.spread(np.r_[np.zeros(9), 1.0], np.ones(10)) == pytest.approx(0.3)
    assert losses.base.spread(np.full(7, 4.0), np.ones(7)) == 1.0


def test_the_numbers_that_defaults_become_are_shown() -> None:
    unit = losses.base.spread(Y, np.ones(N))
    quantile = mc.KernelQuantileRegressor(RBF).fit(X, Y)
    assert quantile.alpha_ == pytest.approx(1 / unit)
    given = mc.KernelQuantileRegressor(RBF, alpha=1 / unit).fit(X, Y)
    np.testing.assert_allclose(quantile.predict(Z), given.predict(Z), rtol=1e-9)
    huber = mc.KernelHuberRegressor(RBF).fit(X, Y)
    assert huber.loss_ == losses.Huber(delta=1.35 * unit)
    with pytest.raises(ParameterError, match=r"alpha = 'wide' is not .* or .scale."):
        mc.KernelQuantileRegressor(RBF, alpha="wide").fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="alpha = 'scale' is not a finite number > 0"):
        mc.KernelHuberRegressor(RBF, alpha="scale").fit(X, Y)  # type: ignore[arg-type]


def test_the_spread_of_a_stream() -> None:
    blocks = mc.Blocks([(X[:30], Y[:30]), (X[30:], Y[30:])])
    solver = mc.solvers.NystromSolver(landmarks=np.arange(N))
    by_blocks = mc.KernelHuberRegressor(RBF, solver=solver).fit(blocks)
    held = mc.KernelHuberRegressor(RBF).fit(X, Y)
    assert by_blocks.loss_ == held.loss_
    np.testing.assert_allclose(by_blocks.predict(Z), held.predict(Z), rtol=1e-6)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.85])
def test_a_linear_kernel_is_quantile_regression_as_alpha_vanishes(quantile: float) -> None:
    peer = QuantileRegressor(quantile=quantile, alpha=0).fit(X, Y)
    model = mc.KernelQuantileRegressor(mc.Linear(), quantile=quantile, alpha=1e-3).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-7)


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


def test_epsilon_insensitive_is_support_vector_regression() -> None:
    alpha, gamma = 0.2, 1 / (2 * 1.5**2)
    peer = SVR(C=1 / alpha, gamma=gamma, epsilon=0.25, tol=1e-9).fit(X, Y)
    loss = losses.EpsilonInsensitive(epsilon=0.25)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=alpha).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), atol=1e-6)


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


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED, "poisson", "gamma"])
def test_integer_weights_are_repeated_rows_and_zero_removes(loss: str) -> None:
    targets = COUNTS + 0.5 if loss in ("poisson", "gamma") else Y
    rows = np.repeat(np.arange(N), WEIGHTS.astype(int))
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.5)
    weighted = model.fit(X, targets, WEIGHTS).predict(Z)
    assert np.all(model.dual_coef_[WEIGHTS == 0] == 0)
    np.testing.assert_allclose(weighted, model.fit(X[rows], targets[rows]).predict(Z), rtol=1e-6)


class LogCosh(losses.RegressionLoss):
    scale = mc.Positive(1.0, learned=False)

    def value(self, y: Any, f: Any) -> Any:
        r = (f - y) / self.scale
        return np.logaddexp(r, -r) - np.log(2)

    def derivative(self, y: Any, f: Any) -> Any:
        return np.tanh((f - y) / self.scale) / self.scale


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


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_means_are_positive(loss: str) -> None:
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.1).fit(X, COUNTS + 0.5)
    assert np.all(model.predict(Z) > 0)


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


def test_a_tiny_delta_is_the_absolute_loss() -> None:
    """Huber(delta) / delta tends to the absolute value, and alpha / delta stays."""
    median = mc.KernelMachineRegressor(RBF, loss="absolute", alpha=0.1).fit(X, Y)
    model = mc.KernelHuberRegressor(RBF, delta=1e-7, alpha=1e-8).fit(X, Y)
    assert model.converged_
    np.testing.assert_allclose(model.predict(Z), median.predict(Z), atol=1e-5)


@pytest.mark.parametrize("loss", ["absolute", "huber", "squared", "pinball"])
@pytest.mark.parametrize("unit", [2.0**20, 2.0**-20])
def test_the_default_alpha_follows_the_unit_of_targets(loss: str, unit: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=60)
    model = mc.KernelMachineRegressor(mc.RBF(1.0), loss)
    one, other = clone(model).fit(X, y), clone(model).fit(X, unit * y)
    if loss != "huber":  # whose delta is a number in the unit of y
        wanted = unit * one.predict(X)
        np.testing.assert_allclose(other.predict(X), wanted, rtol=1e-5, atol=1e-5 * unit)
    assert other.score(X, unit * y) > 0.8 * one.score(X, y) > 0.4


def test_intervals_are_two_of_the_quantiles() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(60, 1))
    y = x.ravel() + rng.normal(size=60)
    model = mc.KernelQuantileRegressor(quantile=[0.9, 0.5, 0.1], alpha=1.0).fit(x, y)
    np.testing.assert_array_equal(model.predict_interval(x, 0.8), model.predict(x)[:, [2, 0]])
    with pytest.raises(ParameterError, match=r"fitted are 0.9, 0.5, 0.1; fit with quantile=\[0.05"):
        model.predict_interval(x, 0.9)
    with pytest.raises(ParameterError, match="is not a probability"):
        model.predict_interval(x, 1.0)


def test_calibration_moves_the_ends_of_quantiles_by_one_distance() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(80, 1))
    y = x.ravel() + rng.normal(size=80)
    model = mc.KernelQuantileRegressor(quantile=[0.25, 0.75], alpha=1.0).fit(x[:40], y[:40])
    held = (x[40:], y[40:])
    low, high = model.predict(x[40:]).T
    distance = np.sort(np.maximum(low - y[40:], y[40:] - high))[20]  # ceil(0.5 * 41) = 21st
    found = model.predict_interval(x, 0.5, calibration=held)
    np.testing.assert_allclose(found, model.predict(x) + distance * np.array([-1.0, 1.0]))
    inside = (found[40:, 0] <= y[40:]) & (y[40:] <= found[40:, 1])
    assert inside.sum() >= 21
