"""Newton's method and finite smoothing on plain matrices, against dense formulas and a solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize

from mercer.exceptions import ValidityError
from mercer.solvers.kinks import quantiles, smoothing
from mercer.solvers.kinks.smoothing import Terms
from mercer.solvers.newton import dense
from mercer.solvers.newton.curvature import Diagonal, Softmax, factorised
from mercer.solvers.newton.dense import State

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15


def gaussian(n: int = N, length_scale: float = 1.0) -> Array:
    x = np.random.default_rng(1).normal(size=(n, 2))
    return np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * length_scale**2))


# Newton -------------------------------------------------------------------------------------------


def test_the_operator_of_a_diagonal_curvature() -> None:
    G = gaussian()
    weights = RNG.uniform(0.1, 2, N)
    expected = np.linalg.inv(G + np.diag(1 / weights))
    np.testing.assert_allclose(Diagonal(weights).operator(G)(np.eye(N)[:, :1]), expected[:, :1])
    weights[::3] = 0  # such rows drop out
    rows = np.flatnonzero(weights)
    inner = np.linalg.inv(G[np.ix_(rows, rows)] + np.diag(1 / weights[rows]))
    column = RNG.normal(size=(N, 1))
    found = Diagonal(weights).operator(G)(column)
    np.testing.assert_allclose(found[rows], inner @ column[rows])
    assert np.all(found[::3] == 0)


def test_the_operator_of_a_softmax_is_w_times_the_inverse_of_one_plus_gw() -> None:
    """(G + W^-1)^-1 = W (I + G W)^-1, which also has a meaning for the singular W."""
    k, G = 3, gaussian()
    weights = RNG.uniform(0.5, 2, N)
    probabilities = RNG.dirichlet(np.ones(k), size=N)
    W = np.zeros((N * k, N * k))  # class after class
    for i in range(N):
        p = probabilities[i]
        block = weights[i] * (np.diag(p) - np.outer(p, p))
        W[np.ix_(np.arange(k) * N + i, np.arange(k) * N + i)] = block
    full = np.kron(np.eye(k), G)
    expected = W @ np.linalg.inv(np.eye(N * k) + full @ W)
    columns = RNG.normal(size=(N, k))
    found = Softmax(weights, probabilities).operator(G)(columns)
    np.testing.assert_allclose(found.T.ravel(), expected @ columns.T.ravel(), atol=1e-12)


class Quartic:
    """Smooth, with a curvature that vanishes at the minimum."""

    def __init__(self, targets: Array) -> None:
        self.targets = targets

    def value(self, values: Array) -> float:
        return float(np.sum((values[:, 0] - self.targets) ** 4) / 4)

    def derivative(self, values: Array) -> Array:
        return (values[:, 0] - self.targets)[:, None] ** 3

    def curvature(self, values: Array) -> Diagonal:
        return Diagonal(3 * (values[:, 0] - self.targets) ** 2)


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
    energy = float(last.scaled[:, 0] @ G @ last.scaled[:, 0]) / alpha
    assert last.converged
    assert last.loss + energy / 2 == pytest.approx(found.fun, rel=1e-7)
    errors = [state.error for state in states]
    assert errors[-1] < 1e-6 * errors[0]


def test_a_matrix_that_is_far_from_positive_is_refused() -> None:
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        factorised(np.array([[1.0, 5.0], [5.0, 1.0]]))


# Smoothing ----------------------------------------------------------------------------------------


def pinball(y: Array, level: float) -> Terms:
    n = len(y)
    one = np.ones(n)
    return Terms(np.arange(n), y, -level * one, (1 - level) * one, one)


def solved(G: Array, terms: Terms, alpha: float, fit_intercept: bool) -> State:
    start = (np.zeros((len(G), 1)), np.zeros(1))
    *_, last = smoothing.minimise(
        G, terms, alpha, start, fit_intercept=fit_intercept, tol=1e-10, max_iter=500
    )
    return last


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("level", [0.2, 0.5])
def test_without_intercept_it_is_bounded_least_squares(alpha: float, level: float) -> None:
    """The dual is min |L' s|^2 / (2 alpha) + y's over a box: bounded least squares."""
    G, y = gaussian() + 0.01 * np.eye(N), RNG.normal(size=N)
    root = np.linalg.cholesky(G) / np.sqrt(alpha)
    peer = lsq_linear(
        root.T, -np.linalg.solve(root, y), bounds=(-level, 1 - level), tol=1e-14, method="bvls"
    )
    state = solved(G, pinball(y, level), alpha, fit_intercept=False)
    assert state.converged
    np.testing.assert_allclose(state.scaled[:, 0], -peer.x, atol=1e-8)


def test_the_gap_bounds_the_distance_to_the_minimum_at_every_width() -> None:
    G, y, alpha = gaussian(40, 0.5), np.random.default_rng(4).normal(size=40), 0.05
    H = np.eye(40) - 1 / 40
    G = H @ G @ H
    terms = pinball(y, 0.3)
    start = (np.zeros((40, 1)), np.zeros(1))
    states = list(
        smoothing.minimise(G, terms, alpha, start, fit_intercept=True, tol=1e-12, max_iter=500)
    )

    def objective(state: State) -> float:
        return state.loss + float(state.scaled[:, 0] @ G @ state.scaled[:, 0]) / (2 * alpha)

    least = objective(states[-1])
    known = [state for state in states if np.isfinite(state.error)]
    assert len(known) > 1
    for state in known:
        assert objective(state) - least <= state.error + 1e-12
    assert states[-1].error <= 1e-10


def test_weights_are_repetitions_of_terms() -> None:
    G, y = gaussian(), RNG.normal(size=N)
    weights = RNG.integers(1, 4, size=N)
    weighted = pinball(y, 0.4)
    weighted = Terms(
        weighted.rows,
        y,
        weights * weighted.low,
        weights * weighted.high,
        weights.astype(float),
    )
    rows = np.repeat(np.arange(N), weights)
    many = pinball(y[rows], 0.4)
    repeated = Terms(rows, many.location, many.low, many.high, many.weight)
    found = [solved(G, terms, 0.1, True) for terms in (weighted, repeated)]
    np.testing.assert_allclose(found[0].scaled, found[1].scaled, atol=1e-9)
    np.testing.assert_allclose(found[0].intercept, found[1].intercept, atol=1e-9)


def test_only_an_intercept_is_a_quantile() -> None:
    y = RNG.normal(size=31)
    for level in (0.1, 0.5, 0.77):
        state = solved(np.zeros((31, 31)), pinball(y, level), 1.0, fit_intercept=True)
        assert state.converged
        assert state.intercept[0] == pytest.approx(np.quantile(y, level, method="inverted_cdf"))


def test_outputs_in_order_are_left_alone() -> None:
    G, y = np.zeros((N, N)), RNG.normal(size=N)
    parts = [solved(G, pinball(y, level), 1.0, fit_intercept=True) for level in (0.2, 0.8)]
    both = State(
        np.hstack([part.scaled for part in parts]),
        np.concatenate([part.intercept for part in parts]),
        0.0,
        0.0,
        True,
    )
    options = {"fit_intercept": True, "tol": 1e-8, "max_iter": 100}
    levels = np.array([0.2, 0.8])
    assert not list(quantiles.minimise_in_order(G, y, np.ones(N), levels, 1.0, both, **options))
