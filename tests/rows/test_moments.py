"""Ridge on features from sums over rows, against dense formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.rows.moments import Moments
from mercer.solvers.ridge.features import FeatureRidge

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(7)
N, M, T = 90, 6, 2
PHI = RNG.normal(size=(N, M)) + 2
Y = PHI @ RNG.normal(size=(M, T)) + RNG.normal(size=(N, T)) + 50
W = RNG.uniform(0.2, 2.0, size=N)
ROOT = RNG.normal(size=(M, M))
PENALTY = ROOT @ ROOT.T + 0.1 * np.eye(M)
WHITE = np.linalg.inv(np.linalg.cholesky(PENALTY)).T
ORIGIN = np.array([40.0, 60.0])


def blocks(weights: Array | None, dtype: Any = np.float64) -> Any:
    for rows in (slice(0, 40), slice(40, 41), slice(41, N)):
        part = None if weights is None else weights[rows]
        yield PHI[rows].astype(dtype), Y[rows], part


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
    c, b = ridge.solve(alpha)
    wanted, constant = dense(weights, alpha, fit_intercept=fit_intercept)
    assert_allclose(c, wanted, rtol=1e-8)
    assert_allclose(b, constant, rtol=1e-9)


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
        wanted = np.mean(residual**2) / (1 - np.trace(hat) / N) ** 2
        assert_allclose(ridge.gcv(np.array([alpha])), wanted, rtol=1e-8)


def test_parts_add_up() -> None:
    parts = [Moments.of([block], M, ORIGIN) for block in blocks(W)]
    total, whole = parts[0] + parts[1] + parts[2], Moments.of(blocks(W), M, ORIGIN)
    for name in ("rows", "weight", "plain_features", "targets", "energy"):
        assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12)
    weighted = W[:, None] * PHI
    assert_allclose(total.plain().squares, weighted.T @ PHI, rtol=1e-12)
    assert_allclose(total.plain().products, weighted.T @ (Y - ORIGIN), rtol=1e-12)


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_parts_far_from_zero_add_up(order: int) -> None:
    """Parts have origins of their own, and rows without weight, however far off, have none."""
    far, wild = PHI + 1e8, np.full((3, M), -1e12)
    parts = [(far[:40].copy(), Y[:40], W[:40]), (far[40:].copy(), Y[40:], W[40:])]
    parts.append((wild, np.zeros((3, T)), np.zeros(3)))
    first, second, third = (Moments.of([part], M, ORIGIN) for part in parts[::order])
    used = (first + second + third).used(fit_intercept=True)
    centred = (far - 1e8) - W @ (far - 1e8) / W.sum()
    assert_allclose(used.squares, (W[:, None] * centred).T @ centred, rtol=1e-9, atol=1e-9)
    assert_allclose(used.products, (W[:, None] * centred).T @ Y, rtol=1e-9, atol=1e-9)
    assert_allclose(used.plain_features, W @ far, rtol=1e-14)


def test_a_row_that_is_far_off_does_not_move_the_origin() -> None:
    phi = PHI.copy()
    phi[0] = 1e15
    assert_allclose(Moments.of([(phi, Y, None)], M, ORIGIN).shift, np.median(PHI, axis=0), atol=0.2)


def test_zero_weights_are_no_rows() -> None:
    weights = W.copy()
    weights[:10] = 0
    sums = Moments.of(blocks(weights), M, ORIGIN)
    assert sums.rows == N - 10
    assert_allclose(
        FeatureRidge.decompose(sums, None, fit_intercept=True).solve(1.0)[0],
        FeatureRidge.decompose(
            Moments.of([(PHI[10:].copy(), Y[10:], W[10:])], M, ORIGIN), None, fit_intercept=True
        ).solve(1.0)[0],
        rtol=1e-9,
    )


def test_single_precision_is_summed_in_double() -> None:
    many = [block for _ in range(200) for block in blocks(None, np.float32)]
    sums = Moments.of(many, M, ORIGIN)
    assert sums.squares.dtype == np.float64
    assert_allclose(sums.plain().squares, 200 * PHI.T @ PHI, rtol=1e-6)


def test_no_penalty_gives_the_least_norm() -> None:
    twice = np.column_stack([PHI, PHI[:, :1]])
    sums = Moments.of([(twice.copy(), Y, None)], M + 1, np.zeros(T))
    c, _ = FeatureRidge.decompose(sums, None, fit_intercept=False).solve(0.0)
    assert_allclose(c, np.linalg.lstsq(twice, Y, rcond=1e-10)[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leaving_rows_out(weights: Array | None, fit_intercept: bool) -> None:
    w = np.ones(N) if weights is None else weights
    sums = Moments.of(blocks(weights), M, ORIGIN if fit_intercept else np.zeros(T))
    ridge = FeatureRidge.decompose(sums, WHITE, fit_intercept=fit_intercept)
    for alpha in (0.1, 10.0):
        total = 0.0
        for i in range(N):
            without = w.copy()
            without[i] = 0
            c, b = dense(without, alpha, fit_intercept=fit_intercept)
            total += w[i] * float(np.mean((Y[i] - PHI[i] @ c - b) ** 2))
        found = ridge.loo(blocks(weights), np.array([alpha]))
        assert_allclose(found, total / w.sum(), rtol=1e-8)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e30), (np.float64, 1e200)])
def test_sums_beyond_the_range_are_refused(dtype: Any, unit: float) -> None:
    phi = (unit * PHI).astype(dtype)
    with pytest.raises(OverflowError, match="range of their type"):
        Moments.of([(phi, Y, None)], M, ORIGIN).used(fit_intercept=True)
