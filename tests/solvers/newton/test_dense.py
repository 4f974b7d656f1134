"""Newton's method on plain matrices, against a general optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from mercer.solvers.newton import dense
from mercer.solvers.newton.curvature import DiagonalHessian

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15


def gaussian(n: int = N, length_scale: float = 1.0) -> Array:
    x = np.random.default_rng(1).normal(size=(n, 2))
    return np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * length_scale**2))


class Quartic:
    """Smooth, with a curvature that vanishes at the minimum."""

    def __init__(self, targets: Array) -> None:
        self.targets = targets

    def value(self, values: Array) -> float:
        return float(np.sum((values[:, 0] - self.targets) ** 4) / 4)

    def derivative(self, values: Array) -> Array:
        return (values[:, 0] - self.targets)[:, None] ** 3

    def hessian(self, values: Array) -> DiagonalHessian:
        return DiagonalHessian(3 * (values[:, 0] - self.targets) ** 2)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_newton_finds_the_minimum_of_a_quartic(fit_intercept: bool) -> None:
    G, alpha = gaussian(), 0.3
    if fit_intercept:
        H = np.eye(N) - 1 / N
        G = H @ G @ H
    targets = RNG.normal(size=N) + 2
    start = (np.zeros((N, 1)), np.array([float(targets.mean()) if fit_intercept else 0.0]))
    states = list(
        dense.minimise(
            G, Quartic(targets), alpha, start, fit_intercept=fit_intercept, tol=1e-10, max_iter=100
        )
    )
    root = np.linalg.cholesky(G + 1e-13 * np.eye(N))

    def value(v: Array) -> float:
        f = root @ v[:N] + v[N] * fit_intercept
        return float(np.sum((f - targets) ** 4) / 4 + alpha / 2 * v[:N] @ v[:N])

    found = minimize(value, np.zeros(N + 1), method="BFGS", options={"gtol": 1e-9})
    last = states[-1]
    energy = float(last.coef[:, 0] @ G @ last.coef[:, 0]) / alpha
    assert last.converged
    assert last.loss + energy / 2 == pytest.approx(found.fun, rel=1e-7)
    errors = [state.error for state in states]
    assert errors[-1] < 1e-6 * errors[0]
