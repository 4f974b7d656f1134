"""Newton's equations solved by products, against dense formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.solvers.newton.curvature import DiagonalHessian, Hessian, SoftmaxHessian
from mercer.solvers.newton.dense import Dense, Equations, Step
from mercer.solvers.newton.products import Products

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15
EPS = float(np.finfo(np.float64).eps)
POINTS = RNG.normal(size=(N, 2))
K = np.exp(-((POINTS[:, None] - POINTS[None]) ** 2).sum(axis=-1))
FACTOR = np.linalg.cholesky(K + 1e-12 * np.eye(N))
SOME = RNG.uniform(0.1, 2, N)
SOME[::4] = 0
HESSIANS: list[Hessian] = [
    DiagonalHessian(RNG.uniform(0.1, 2, N)),
    DiagonalHessian(SOME),
    SoftmaxHessian(RNG.uniform(0.5, 2, N), RNG.dirichlet(np.ones(3), size=N)),
]
IDS = ["curved", "flat in some rows", "softmax"]


def outputs(hessian: Hessian) -> int:
    return 3 if isinstance(hessian, SoftmaxHessian) else 1


def whole(hessian: Hessian) -> Array:
    """W with the outputs of the first row first, from the definition."""
    if isinstance(hessian, DiagonalHessian):
        return np.diag(hessian.weights)
    assert isinstance(hessian, SoftmaxHessian)
    found = np.zeros((3 * N, 3 * N))
    for i, (w, p) in enumerate(zip(hessian.weights, hessian.probabilities, strict=True)):
        found[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = w * (np.diag(p) - np.outer(p, p))
    return found


def matrix(**settings: Any) -> Products:
    return Products(lambda V: K @ V, K.diagonal(), EPS, **settings)


@pytest.mark.parametrize("hessian", HESSIANS, ids=IDS)
def test_roots_make_the_hessian(hessian: Hessian) -> None:
    k = outputs(hessian)
    units = np.eye(N * k).reshape(N * k, N, k)
    root = np.column_stack([hessian.root(unit).ravel() for unit in units])
    transposed = np.column_stack([hessian.root_transposed(unit).ravel() for unit in units])
    product = np.column_stack([hessian.product(unit).ravel() for unit in units])
    assert_allclose(transposed, root.T, atol=1e-15)
    assert_allclose(root @ transposed, whole(hessian), atol=1e-14)
    assert_allclose(product, whole(hessian), atol=1e-14)
    shares = np.linspace(0.5, 2, N)
    blocks = whole(hessian).reshape(N, k, N, k)[np.arange(N), :, np.arange(N)]
    assert_allclose(hessian.summed(shares), np.einsum("i,icd->cd", shares, blocks), atol=1e-14)


def test_the_root_of_a_softmax_maps_constants_to_zero() -> None:
    hessian = HESSIANS[2]
    assert isinstance(hessian, SoftmaxHessian)
    assert_allclose(hessian.root(np.ones((N, 3))), 0, atol=1e-13)
    units = np.eye(3 * N).reshape(3 * N, N, 3)
    root = np.column_stack([hessian.root(unit).ravel() for unit in units])
    squares = (root.T @ root).reshape(N, 3, N, 3)[np.arange(N), :, np.arange(N)]
    assert_allclose(hessian.mean_square(), squares.mean(axis=0), atol=1e-13)


def test_many_classes_take_few_products() -> None:
    """With equal probabilities and the whole factor the preconditioner is the inverse."""
    k, products = 40, []

    def multiply(columns: Array) -> Array:
        products.append(columns.shape)
        return np.asarray(K @ columns)

    hessian = SoftmaxHessian(np.ones(N), np.full((N, k), 1 / k))
    gradient = np.random.default_rng(4).normal(size=(N, k))
    gradient -= gradient.mean(axis=1, keepdims=True)
    matrix = Products(multiply, K.diagonal(), EPS, factor=FACTOR) / 1e-3
    found = matrix.solve(Equations(hessian, gradient, None, 1e-6))
    # The right-hand side, two iterations, their check and the step.
    assert len(products) <= 6
    curvature = (np.eye(k) - 1 / k) / k
    full = np.eye(N * k) + np.kron(K, curvature) / 1e-3
    assert_allclose(found.coef.ravel(), np.linalg.solve(full, -gradient.ravel()), atol=1e-6)


def solved(hessian: Hessian, G: Array, gradient: Array, sums: Array | None) -> Step:
    """The bordered system by least squares, which leaves what it does not determine at zero."""
    k = outputs(hessian)
    W, full = whole(hessian), np.kron(G, np.eye(k))
    ones = np.kron(np.ones((N, 1)), np.eye(k))
    system = np.block([[np.eye(N * k) + W @ full, W @ ones], [ones.T, np.zeros((k, k))]])
    right = np.append(-gradient.ravel(), np.zeros(k) if sums is None else -sums)
    if sums is None:
        system, right = system[:-k, :-k], right[:-k]
    found = np.linalg.lstsq(system, right, rcond=None)[0]
    coef = found[: N * k].reshape(N, k)
    return Step(coef, np.zeros(k) if sums is None else found[N * k :], G @ coef)


@pytest.mark.parametrize("factor", [None, FACTOR, FACTOR[:, :4]], ids=["none", "all", "few"])
@pytest.mark.parametrize("with_intercept", [True, False])
@pytest.mark.parametrize("hessian", HESSIANS, ids=IDS)
def test_a_step_solves_newtons_equations(
    hessian: Hessian, with_intercept: bool, factor: Array | None
) -> None:
    rng, k, alpha = np.random.default_rng(1), outputs(hessian), 0.3
    gradient = rng.normal(size=(N, k))
    gradient -= (k > 1) * gradient.mean(axis=1, keepdims=True)  # as those of a softmax
    sums = np.full(k, 0.25) if with_intercept else None
    if sums is not None and k > 1:
        sums = np.zeros(k)
    equations = Equations(hessian, gradient, sums, 1e-9)
    G = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean() if with_intercept else K
    means = K.mean(axis=0) if with_intercept else None
    found = (matrix(factor=factor, means=means, tol=1e-12) / alpha).solve(equations)
    expected = solved(hessian, G / alpha, gradient, sums)
    for step in (found, Dense(G / alpha).solve(equations)):
        assert_allclose(step.coef, expected.coef, atol=1e-7)
        assert_allclose(step.intercept, expected.intercept, atol=1e-7)
        assert_allclose(step.gram_coef, G @ step.coef / alpha, atol=1e-12)
    assert not found.warning


@pytest.mark.parametrize("residual", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("factor", [None, FACTOR[:, :4]], ids=["none", "few"])
@pytest.mark.parametrize("hessian", HESSIANS, ids=IDS)
def test_the_error_of_a_step_is_what_is_asked_for(
    hessian: Hessian, factor: Array | None, residual: float
) -> None:
    """In the norm of the Hessian G + G W G, relative to the exact step."""
    k, alpha = outputs(hessian), 1e-3
    gradient = np.random.default_rng(2).normal(size=(N, k))
    G = np.kron(K, np.eye(k)) / alpha
    found = (matrix(factor=factor) / alpha).solve(Equations(hessian, gradient, None, residual))
    exact = solved(hessian, K / alpha, gradient, None)
    second = G + G @ whole(hessian) @ G

    def norm(coef: Array) -> float:
        return float(np.sqrt(coef.ravel() @ second @ coef.ravel()))

    assert norm(found.coef - exact.coef) <= 2 * min(0.1, residual) * norm(exact.coef)


def test_what_stops_short_is_a_direction_of_descent_all_the_same() -> None:
    gradient = np.random.default_rng(3).normal(size=(N, 1))
    for most in range(1, 6):
        step = (matrix(max_iter=most) / 1e-4).solve(Equations(HESSIANS[0], gradient, None, 1e-9))
        assert float(np.sum(gradient * step.gram_coef)) < 0
        assert f"stopped after {most} with a relative residual" in step.warning


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
        indefinite.solve(Equations(HESSIANS[0], gradient, None, 1e-3))
