"""Values without some rows, against the quadratic model of the objective without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.newton.curvature import DiagonalHessian, Hessian, SoftmaxHessian
from mercer.solvers.newton.left_out import changes, changes_on_features, several

Array = NDArray[np.floating[Any]]
N, RANK = 14, 6
GROUPS = {"rows alone": None, "groups": np.array([0, 1, 1, 2, 3, 4, 5, 0, 6, 7, 7, 8, 7, 9])}


def problem(outputs: int, flat: bool = False) -> tuple[Array, Hessian, Array, Array]:
    """Draw a factor of G, a Hessian, slopes at a minimum, and the Hessian as blocks."""
    rng = np.random.default_rng(outputs)
    factor, weights = rng.normal(size=(N, RANK)), rng.uniform(0.2, 2.0, N)
    if outputs == 1:
        weights[:3] *= not flat
        slopes = rng.normal(size=(N, 1))
        slopes -= slopes.mean()
        return factor, DiagonalHessian(weights), slopes, weights[:, None, None]
    p = rng.dirichlet(np.ones(outputs), size=N)
    slopes = rng.normal(size=(N, outputs))
    slopes -= slopes.mean(axis=1, keepdims=True)
    slopes -= slopes.mean(axis=0)
    blocks = weights[:, None, None] * (p[:, :, None] * np.eye(outputs) - p[:, :, None] * p[:, None])
    return factor, SoftmaxHessian(weights, p), slopes, blocks


def naive(
    gram: Array, blocks: Array, slopes: Array, codes: NDArray[Any] | None, intercept: bool
) -> Array:
    """Minimise the quadratic model without each group: T = -(d + W dF), F = G T + 1 b."""
    n, k = slopes.shape
    codes = np.arange(n) if codes is None else codes
    G = np.kron(gram, np.eye(k))
    ones = np.kron(np.ones((n, 1)), np.eye(k))
    values = G @ -slopes.ravel()
    changed = np.zeros((n, k))
    for code in np.unique(codes):
        kept = codes != code
        W = np.zeros((n * k, n * k))
        for i in np.flatnonzero(kept):
            W[i * k : (i + 1) * k, i * k : (i + 1) * k] = blocks[i]
        d = (slopes * kept[:, None]).ravel()
        system = np.block([[np.eye(n * k) + W @ G, W @ ones], [ones.T, np.zeros((k, k))]])
        right = np.append(-d + W @ values, np.zeros(k))
        if not intercept:
            system, right = system[: n * k, : n * k], right[: n * k]
        solution = np.linalg.lstsq(system, right, rcond=1e-12)[0]
        moved = G @ solution[: n * k] - values
        moved += ones @ solution[n * k :] if intercept else 0.0
        changed[~kept] = moved.reshape(n, k)[~kept]
    return changed - (k > 1) * changed.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("codes", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("outputs", "flat"), [(1, False), (1, True), (3, False)])
def test_a_newton_step_without_rows(
    outputs: int, flat: bool, intercept: bool, codes: NDArray[Any] | None
) -> None:
    factor, hessian, slopes, blocks = problem(outputs, flat)
    gram = factor @ factor.T
    expected = naive(gram, blocks, slopes, codes, intercept)
    settings = slopes, several(codes), intercept
    dense = changes(gram, hessian.resolvent(gram), *settings)
    np.testing.assert_allclose(dense, expected, rtol=1e-7, atol=1e-8)
    on_features = changes_on_features(LowRankMatrix(factor), hessian, *settings)
    on_features -= (outputs > 1) * on_features.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(on_features, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("codes", GROUPS.values(), ids=GROUPS)
def test_classes_that_are_ruled_out_change_nothing(codes: NDArray[Any] | None) -> None:
    factor, _, _, _ = problem(3)
    gram, rng = factor @ factor.T, np.random.default_rng(1)
    p = np.append(rng.uniform(0.2, 0.8, size=(N, 1)), np.full((N, 1), 1e-40), axis=1)
    p = np.insert(p, 1, 1 - p[:, 0], axis=1)
    labels = np.eye(3)[rng.integers(2, size=N)]
    slopes, hessian = p - labels, SoftmaxHessian(np.ones(N), p)
    found = changes(gram, hessian.resolvent(gram), slopes, several(codes), False)
    # Two classes that differ by f have the logistic loss, whose matrix is twice G.
    q = DiagonalHessian(p[:, 0] * p[:, 1])
    two = changes(2 * gram, q.resolvent(2 * gram), slopes[:, :1], several(codes), False)
    np.testing.assert_allclose(found[:, :1] - found[:, 1:2], two, rtol=1e-7, atol=1e-9)


def test_without_curvature_there_is_only_the_slope_of_the_row_itself() -> None:
    factor, _, slopes, _ = problem(1)
    gram, none = factor @ factor.T, DiagonalHessian(np.zeros(N))
    expected = gram.diagonal()[:, None] * slopes
    np.testing.assert_allclose(changes(gram, none.resolvent(gram), slopes, [], True), expected)
    found = changes_on_features(LowRankMatrix(factor), none, slopes, [], True)
    np.testing.assert_allclose(found, expected)


def test_groups_of_one_row_are_no_groups() -> None:
    assert several(None) == []
    groups = several(np.array([3, 1, 3, 2, 1, 0]))
    assert [group.tolist() for group in groups] == [[1, 4], [0, 2]]
