"""Ridge regression on features at one alpha against that at every alpha, and plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.rows.moments import Moments
from mercer.solvers.ridge.features import CholeskyRidge, FeatureRidge, feature_equations

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N, M, T = 60, 7, 2
PHI = RNG.normal(size=(N, M)) + 1
Y = RNG.normal(size=(N, T))
ROOT = RNG.normal(size=(M, M)) + 3 * np.eye(M)
PENALTY = ROOT @ ROOT.T
WHITENING = np.linalg.inv(np.linalg.cholesky(PENALTY)).T
EPS = float(np.finfo(np.float64).eps)


def moments(weights: Array | None = None) -> Moments:
    return Moments.of([(PHI.copy(), Y, weights)], M, np.zeros(T))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "weights", [None, RNG.uniform(0.5, 2.0, size=N)], ids=["plain", "weighted"]
)
def test_it_solves_the_normal_equations(fit_intercept: bool, weights: Array | None) -> None:
    alpha, w = 0.7, np.ones(N) if weights is None else weights
    problem = feature_equations(
        moments(weights), WHITENING, alpha, EPS, fit_intercept=fit_intercept
    )
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
    every = FeatureRidge.decompose(moments(weights), WHITENING, fit_intercept=fit_intercept)
    assert problem.explained_trace == pytest.approx(every.explained_trace)


@pytest.mark.parametrize("alpha", [0.0, 1e-16])
def test_below_rounding_every_direction_is_looked_at(alpha: float) -> None:
    problem = feature_equations(moments(), WHITENING, alpha, EPS, fit_intercept=True)
    assert isinstance(problem, FeatureRidge)
