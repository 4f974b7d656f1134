"""Newton's steps by products against dense formulas, with matrices that are plain arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.solvers.newton.curvature import Curvature, Diagonal, Softmax
from mercer.solvers.newton.products import Products
from mercer.solvers.newton.steps import Dense, Equations, Step

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15
EPS = float(np.finfo(np.float64).eps)
POINTS = RNG.normal(size=(N, 2))
K = np.exp(-((POINTS[:, None] - POINTS[None]) ** 2).sum(axis=-1))
FACTOR = np.linalg.cholesky(K + 1e-12 * np.eye(N))
SOME = RNG.uniform(0.1, 2, N)
SOME[::4] = 0
CURVATURES: list[Curvature] = [
    Diagonal(RNG.uniform(0.1, 2, N)),
    Diagonal(SOME),
    Softmax(RNG.uniform(0.5, 2, N), RNG.dirichlet(np.ones(3), size=N)),
]
IDS = ["curved", "flat in some rows", "softmax"]


def outputs(curvature: Curvature) -> int:
    return 3 if isinstance(curvature, Softmax) else 1


def whole(curvature: Curvature) -> Array:
    """W with the outputs of the first row first, from the definition."""
    if isinstance(curvature, Diagonal):
        return np.diag(curvature.weights)
    assert isinstance(curvature, Softmax)
    found = np.zeros((3 * N, 3 * N))
    for i, (w, p) in enumerate(zip(curvature.weights, curvature.probabilities, strict=True)):
        found[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = w * (np.diag(p) - np.outer(p, p))
    return found


def matrix(**settings: Any) -> Products:
    return Products(lambda V: K @ V, K.diagonal(), EPS, **settings)


@pytest.mark.parametrize("curvature", CURVATURES, ids=IDS)
def test_halves_make_the_curvature(curvature: Curvature) -> None:
    k = outputs(curvature)
    units = np.eye(N * k).reshape(N * k, N, k)
    half = np.column_stack([curvature.half(unit).ravel() for unit in units])
    turned = np.column_stack([curvature.half_turned(unit).ravel() for unit in units])
    assert_allclose(turned, half.T, atol=1e-15)
    assert_allclose(half @ turned, whole(curvature), atol=1e-14)
    for c in range(k):
        for d in range(k):
            rows = np.arange(N) * k
            expected = whole(curvature)[rows + c, rows + d]
            assert_allclose(curvature.between(c, d), expected, atol=1e-15)


def solved(curvature: Curvature, G: Array, gradient: Array, sums: Array | None) -> Step:
    """The bordered system by least squares, which leaves what it does not determine at zero."""
    k = outputs(curvature)
    W, full = whole(curvature), np.kron(G, np.eye(k))
    ones = np.kron(np.ones((N, 1)), np.eye(k))
    system = np.block([[np.eye(N * k) + W @ full, W @ ones], [ones.T, np.zeros((k, k))]])
    right = np.append(-gradient.ravel(), np.zeros(k) if sums is None else -sums)
    if sums is None:
        system, right = system[:-k, :-k], right[:-k]
    found = np.linalg.lstsq(system, right, rcond=None)[0]
    scaled = found[: N * k].reshape(N, k)
    return Step(scaled, np.zeros(k) if sums is None else found[N * k :], G @ scaled)


@pytest.mark.parametrize("factor", [None, FACTOR, FACTOR[:, :4]], ids=["none", "all", "few"])
@pytest.mark.parametrize("with_intercept", [True, False])
@pytest.mark.parametrize("curvature", CURVATURES, ids=IDS)
def test_a_step_solves_newtons_equations(
    curvature: Curvature, with_intercept: bool, factor: Array | None
) -> None:
    rng, k, alpha = np.random.default_rng(1), outputs(curvature), 0.3
    gradient = rng.normal(size=(N, k))
    gradient -= (k > 1) * gradient.mean(axis=1, keepdims=True)  # as those of a softmax
    sums = np.full(k, 0.25) if with_intercept else None
    if sums is not None and k > 1:
        sums = np.zeros(k)
    equations = Equations(curvature, gradient, sums, 1e-9)
    G = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean() if with_intercept else K
    means = K.mean(axis=0) if with_intercept else None
    found = (matrix(factor=factor, means=means, tol=1e-12) / alpha).solve(equations)
    expected = solved(curvature, G / alpha, gradient, sums)
    for step in (found, Dense(G / alpha).solve(equations)):
        assert_allclose(step.scaled, expected.scaled, atol=1e-7)
        assert_allclose(step.intercept, expected.intercept, atol=1e-7)
        assert_allclose(step.spread, G @ step.scaled / alpha, atol=1e-12)
    assert not found.doubt


@pytest.mark.parametrize("left", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("factor", [None, FACTOR[:, :4]], ids=["none", "few"])
@pytest.mark.parametrize("curvature", CURVATURES, ids=IDS)
def test_the_error_of_a_step_is_what_is_asked_for(
    curvature: Curvature, factor: Array | None, left: float
) -> None:
    """In the norm of the second derivative, G + G W G, relative to the exact step."""
    k, alpha = outputs(curvature), 1e-3
    gradient = np.random.default_rng(2).normal(size=(N, k))
    G = np.kron(K, np.eye(k)) / alpha
    found = (matrix(factor=factor) / alpha).solve(Equations(curvature, gradient, None, left))
    exact = solved(curvature, K / alpha, gradient, None)
    bend = G + G @ whole(curvature) @ G

    def length(scaled: Array) -> float:
        return float(np.sqrt(scaled.ravel() @ bend @ scaled.ravel()))

    assert length(found.scaled - exact.scaled) <= 2 * min(0.1, left) * length(exact.scaled)


def test_what_stops_short_is_a_direction_of_descent_all_the_same() -> None:
    gradient = np.random.default_rng(3).normal(size=(N, 1))
    for most in range(1, 6):
        step = (matrix(max_iter=most) / 1e-4).solve(Equations(CURVATURES[0], gradient, None, 1e-9))
        assert float(np.sum(gradient * step.spread)) < 0
        assert f"stopped after {most} with a relative residual" in step.doubt


def test_products_scale_and_centre() -> None:
    columns = np.random.default_rng(4).normal(size=(N, 2))
    H = np.eye(N) - 1 / N
    plain, centred = matrix() * 3.0 / 2.0, matrix(means=K.mean(axis=0)) / 0.5
    assert_allclose(plain @ columns, 1.5 * K @ columns)
    assert_allclose(plain.diagonal(), 1.5 * K.diagonal())
    assert_allclose(centred @ columns, 2 * H @ K @ H @ columns, atol=1e-14)
    assert_allclose(centred.diagonal(), 2 * (H @ K @ H).diagonal(), atol=1e-14)
    nothing = replace(centred, multiply=lambda V: V / 0) * 0.0
    assert not (nothing @ columns).any()


def test_negative_directions_are_refused() -> None:
    indefinite = Products(lambda V: (K - np.eye(N)) @ V, K.diagonal(), EPS)
    gradient = np.random.default_rng(5).normal(size=(N, 1))
    with pytest.raises(ValidityError, match="negative squared norm"):
        indefinite.solve(Equations(CURVATURES[0], gradient, None, 1e-3))
