"""Sums over rows of features and targets, against products of whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from feature_moments import ORIGIN, PHI, M, N, T, W, Y, blocks
from mercer.rows.moments import Moments
from mercer.solvers.ridge.features import FeatureRidge

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(7)


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


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e30), (np.float64, 1e200)])
def test_sums_beyond_the_range_are_refused(dtype: Any, unit: float) -> None:
    phi = (unit * PHI).astype(dtype)
    with pytest.raises(OverflowError, match="range of their type"):
        Moments.of([(phi, Y, None)], M, ORIGIN).used(fit_intercept=True)
