"""The joint problem of quantiles: both sides of its gap against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.solvers.kinks.joint_quantiles import Problem

RNG = np.random.default_rng(0)
N, LEVELS, ALPHA = 12, np.array([0.2, 0.5, 0.9]), 0.3
ROOT = RNG.normal(size=(N, 4))
GRAM = ROOT @ ROOT.T
Y = RNG.normal(size=N)
W = RNG.uniform(0.5, 2.0, size=N)


def problem(*, fit_intercept: bool = True) -> Problem:
    return Problem(GRAM, Y, W, LEVELS, ALPHA, fit_intercept)


def test_the_primal_is_the_pinball_loss_and_half_the_squared_norm() -> None:
    coef, intercept = 0.01 * RNG.normal(size=(N, 1)) * np.ones(3), np.array([-1.0, 0.0, 1.0])
    joint = problem()
    state, objective = joint.primal(joint.at(coef, intercept))
    values = GRAM @ coef / ALPHA + intercept
    loss = sum(
        W[i] * max(level * (Y[i] - values[i, j]), (level - 1) * (Y[i] - values[i, j]))
        for i in range(N)
        for j, level in enumerate(LEVELS)
    )
    assert state.loss == pytest.approx(loss)
    assert objective == pytest.approx(loss + np.sum(coef * (GRAM @ coef)) / (2 * ALPHA))


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_dual_is_feasible_and_below_every_primal(fit_intercept: bool) -> None:
    joint = problem(fit_intercept=fit_intercept)
    for _ in range(5):
        coef, bound, _ = joint.dual(RNG.normal(size=(N, 3)))
        # Row by row, the first coefficients sum to at most the sum of their levels, and the last
        # ones to at least minus the sum of one minus their levels.
        shares = np.cumsum(coef / W[:, None], axis=1)
        assert (shares <= np.cumsum(LEVELS) + 1e-12).all()
        assert (
            shares[:, -1:] - shares + coef / W[:, None]
            >= -np.cumsum(1 - LEVELS[::-1])[::-1] - 1e-12
        ).all()
        if fit_intercept:
            assert_allclose(coef.sum(axis=0), 0, atol=1e-12)
        square = np.sum(coef * (GRAM @ coef)) / ALPHA
        assert bound == pytest.approx(Y @ coef.sum(axis=1) - square / 2)
        shared = RNG.normal(size=(N, 1)) * np.ones(3)
        start = np.sort(RNG.normal(size=3)) if fit_intercept else np.zeros(3)
        assert bound <= joint.primal(joint.at(0.1 * shared, start))[1]


def test_crossing_functions_are_separated_and_others_are_left_alone() -> None:
    joint = problem()
    crossing = joint.at(0.1 * RNG.normal(size=(N, 3)), np.zeros(3))
    assert not joint.is_in_order(crossing)
    apart = joint.separated(crossing)
    assert (np.diff(apart.residuals, axis=1) >= 0).all()
    assert apart.intercept.mean() == pytest.approx(0.0, abs=1e-12)
    assert_allclose(joint.separated(apart).intercept, apart.intercept, atol=1e-9)


def test_shifts_balance_the_slopes() -> None:
    joint, residuals = problem(), RNG.normal(size=(N, 3))
    shift = joint.balance(residuals, 0.5)
    slopes = joint.envelope(residuals + shift, 0.5).slopes
    assert_allclose(slopes.sum(axis=0), 0, atol=1e-12 * W.sum())


def test_the_loss_of_constants_is_that_of_sample_quantiles() -> None:
    even = Problem(GRAM, Y, np.ones(N), np.array([0.5]), ALPHA, True)
    assert even.constant_loss == pytest.approx(np.abs(Y - np.median(Y)).sum() / 2)
