"""Ridge regression on features: at one alpha, at every alpha, and by plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from feature_moments import ORIGIN, PHI, M, N, T, W, Y, blocks
from mercer.rows.moments import Moments
from mercer.solvers.ridge.features import CholeskyRidge, FeatureRidge, feature_equations

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(M, M))
PENALTY = ROOT @ ROOT.T + 0.1 * np.eye(M)
WHITE = np.linalg.inv(np.linalg.cholesky(PENALTY)).T
EPS = float(np.finfo(np.float64).eps)


def moments(weights: Array | None = None) -> Moments:
    return Moments.of([(PHI.copy(), Y, weights)], M, np.zeros(T))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "weights", [None, RNG.uniform(0.5, 2.0, size=N)], ids=["plain", "weighted"]
)
def test_it_solves_the_normal_equations(fit_intercept: bool, weights: Array | None) -> None:
    alpha, w = 0.7, np.ones(N) if weights is None else weights
    problem = feature_equations(moments(weights), WHITE, alpha, EPS, fit_intercept=fit_intercept)
    assert isinstance(problem, CholeskyRidge)
    c = problem.apply(problem.moments.products, alpha)
    border = np.ones((N, 1)) if fit_intercept else np.zeros((N, 0))
    design = np.hstack([PHI, border])
    penalty = np.zeros((design.shape[1], design.shape[1]))
    penalty[:M, :M] = alpha * PENALTY
    system = design.T @ (w[:, None] * design) + penalty
    wanted = np.linalg.solve(system, design.T @ (w[:, None] * Y))
    assert_allclose(c, wanted[:M], rtol=1e-9)
    assert_allclose(problem.intercept(c), wanted[M:].sum(axis=0), rtol=1e-9, atol=1e-12)
    hat = design @ np.linalg.solve(system, design.T * w)
    assert problem.effective_dof(alpha) == pytest.approx(float(np.trace(hat)))
    every = FeatureRidge.decompose(moments(weights), WHITE, fit_intercept=fit_intercept)
    assert problem.explained_trace == pytest.approx(every.explained_trace)


@pytest.mark.parametrize("alpha", [0.0, 1e-16])
def test_below_rounding_every_direction_is_looked_at(alpha: float) -> None:
    problem = feature_equations(moments(), WHITE, alpha, EPS, fit_intercept=True)
    assert isinstance(problem, FeatureRidge)


def dense(weights: Array | None, alpha: float, *, fit_intercept: bool) -> tuple[Array, Array]:
    w = np.ones(N) if weights is None else weights
    design = np.column_stack([PHI, np.ones(N)]) if fit_intercept else PHI
    penalty = np.zeros((design.shape[1],) * 2)
    penalty[:M, :M] = alpha * PENALTY
    found = np.linalg.solve(design.T @ (w[:, None] * design) + penalty, design.T @ (w[:, None] * Y))
    return found[:M], found[M] if fit_intercept else np.zeros(T)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 100.0])
def test_coefficients(weights: Array | None, fit_intercept: bool, alpha: float) -> None:
    sums = Moments.of(blocks(weights), M, ORIGIN if fit_intercept else np.zeros(T))
    ridge = FeatureRidge.decompose(sums, WHITE, fit_intercept=fit_intercept)
    c = ridge.solve(alpha)
    b = ridge.intercept(c)
    wanted, constant = dense(weights, alpha, fit_intercept=fit_intercept)
    assert_allclose(c, wanted, rtol=1e-8)
    assert_allclose(b, constant, rtol=1e-9)


def shares(w: Array, fit_intercept: bool) -> Array:
    """Shares of targets in averages: inverse variances, about zero without an intercept."""
    middle = np.average(Y, axis=0, weights=w) if fit_intercept else 0.0
    inverse = 1 / np.average((Y - middle) ** 2, axis=0, weights=w)
    return inverse / inverse.sum()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_degrees_of_freedom_and_gcv(fit_intercept: bool) -> None:
    sums = Moments.of(blocks(None), M, ORIGIN if fit_intercept else np.zeros(T))
    ridge = FeatureRidge.decompose(sums, WHITE, fit_intercept=fit_intercept)
    for alpha in (0.1, 10.0):
        design = np.column_stack([PHI, np.ones(N)]) if fit_intercept else PHI
        penalty = np.zeros((design.shape[1],) * 2)
        penalty[:M, :M] = alpha * PENALTY
        hat = design @ np.linalg.solve(design.T @ design + penalty, design.T)
        assert ridge.effective_dof(alpha) == pytest.approx(np.trace(hat))
        residual = Y - hat @ Y
        wanted = (
            np.mean(residual**2 @ shares(np.ones(N), fit_intercept)) / (1 - np.trace(hat) / N) ** 2
        )
        assert_allclose(ridge.gcv(np.array([alpha])), wanted, rtol=1e-8)


def test_no_penalty_gives_the_least_norm() -> None:
    twice = np.column_stack([PHI, PHI[:, :1]])
    sums = Moments.of([(twice.copy(), Y, None)], M + 1, np.zeros(T))
    c = FeatureRidge.decompose(sums, None, fit_intercept=False).solve(0.0)
    assert_allclose(c, np.linalg.lstsq(twice, Y, rcond=1e-10)[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leaving_rows_out(weights: Array | None, fit_intercept: bool) -> None:
    w = np.ones(N) if weights is None else weights
    sums = Moments.of(blocks(weights), M, ORIGIN if fit_intercept else np.zeros(T))
    ridge = FeatureRidge.decompose(sums, WHITE, fit_intercept=fit_intercept)
    for alpha in (0.1, 10.0):
        total = np.zeros(T)
        for i in range(N):
            without = w.copy()
            without[i] = 0
            c, b = dense(without, alpha, fit_intercept=fit_intercept)
            total = total + w[i] * (Y[i] - PHI[i] @ c - b) ** 2
        grouped = ((block, None) for block in blocks(weights))
        sums = ridge.loo_sums(grouped, np.array([alpha]))
        assert_allclose(sums, total[None], rtol=1e-8)
        assert_allclose(ridge.loo_errors(sums), total @ shares(w, fit_intercept) / w.sum())
