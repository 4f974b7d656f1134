"""Finite smoothing on plain matrices, against a solver of bounded least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from mercer.solvers.kinks import quantiles, smoothing
from mercer.solvers.kinks.smoothing import Kinks
from mercer.solvers.newton.method import State

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15


def gaussian(n: int = N, length_scale: float = 1.0) -> Array:
    x = np.random.default_rng(1).normal(size=(n, 2))
    return np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * length_scale**2))


def pinball(y: Array, level: float) -> Kinks:
    n = len(y)
    one = np.ones(n)
    return Kinks(np.arange(n), y, -level * one, (1 - level) * one, one)


def solved(G: Array, kinks: Kinks, alpha: float, fit_intercept: bool) -> State:
    start = (np.zeros((len(G), 1)), np.zeros(1))
    *_, last = smoothing.minimise(
        G, kinks, alpha, start, fit_intercept=fit_intercept, tol=1e-10, max_iter=500
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
    np.testing.assert_allclose(state.coef[:, 0], -peer.x, atol=1e-8)


def test_the_gap_bounds_the_distance_to_the_minimum_at_every_width() -> None:
    G, y, alpha = gaussian(40, 0.5), np.random.default_rng(4).normal(size=40), 0.05
    H = np.eye(40) - 1 / 40
    G = H @ G @ H
    kinks = pinball(y, 0.3)
    start = (np.zeros((40, 1)), np.zeros(1))
    states = list(
        smoothing.minimise(G, kinks, alpha, start, fit_intercept=True, tol=1e-12, max_iter=500)
    )

    def objective(state: State) -> float:
        return state.loss + float(state.coef[:, 0] @ G @ state.coef[:, 0]) / (2 * alpha)

    least = objective(states[-1])
    known = [state for state in states if np.isfinite(state.error)]
    assert len(known) > 1
    for state in known:
        assert objective(state) - least <= state.error + 1e-12
    assert states[-1].error <= 1e-10


def test_weights_are_repetitions_of_kinks() -> None:
    G, y = gaussian(), RNG.normal(size=N)
    weights = RNG.integers(1, 4, size=N)
    weighted = pinball(y, 0.4)
    weighted = Kinks(
        weighted.rows,
        y,
        weights * weighted.low,
        weights * weighted.high,
        weights.astype(float),
    )
    rows = np.repeat(np.arange(N), weights)
    many = pinball(y[rows], 0.4)
    repeated = Kinks(rows, many.location, many.low, many.high, many.weight)
    found = [solved(G, kinks, 0.1, True) for kinks in (weighted, repeated)]
    np.testing.assert_allclose(found[0].coef, found[1].coef, atol=1e-9)
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
        np.hstack([part.coef for part in parts]),
        np.concatenate([part.intercept for part in parts]),
        0.0,
        0.0,
        True,
    )
    options = {"fit_intercept": True, "tol": 1e-8, "max_iter": 100}
    levels = np.array([0.2, 0.8])
    (state,) = quantiles.minimise_in_order(G, y, np.ones(N), levels, 1.0, both, **options)
    assert state.converged
    np.testing.assert_array_equal(state.coef, both.coef)
