"""Sums over rows against products of whole matrices; parts add up to the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.rows.rows import RowBlock
from mercer.rows.sums import (
    CentredProduct,
    Columns,
    CrossProducts,
    FeatureMoments,
    NormalProduct,
    RowDraw,
    Trace,
    among,
    blocks_of,
    gram_among,
)

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(50, 2)), mc.Points(RNG.normal(size=(4, 2)))
Y = RNG.normal(size=(50, 2))
W = RNG.uniform(0.5, 2.0, size=50)
W[[0, 30]] = 0.0
KERNEL = 2.0 * mc.RBF(1.0)
C = KERNEL(mc.Points(X), Z)
COEF = RNG.normal(size=(4, 2))
MIDDLE = np.array([0.3, -0.2])


def part(rows: slice, weights: Any) -> RowBlock:
    some = None if weights is None else weights[rows]
    return RowBlock(mc.Points(X[rows]), Y[rows], some, rows.start or 0)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_products_with_the_kernel(weights: Any) -> None:
    mass = (np.ones(50) if weights is None else weights)[:, None]
    centred = mass * (C @ COEF - MIDDLE)
    for summand, expected in (
        (NormalProduct(KERNEL, Z, COEF), C.T @ (mass * (C @ COEF))),
        (CentredProduct(KERNEL, Z, COEF, MIDDLE), np.vstack([C.T @ centred, centred.sum(axis=0)])),
        (CrossProducts(KERNEL, Z, MIDDLE), C.T @ np.hstack([mass, mass * (Y - MIDDLE)])),
        (Trace(KERNEL), 2.0 * mass.sum()),
    ):
        assert_allclose(summand(part(slice(0, 50), weights)), expected, rtol=1e-10)
        halves = [summand(part(rows, weights)) for rows in (slice(0, 20), slice(20, 50))]
        assert_allclose(halves[0] + halves[1], expected, rtol=1e-10)


def test_moments_of_features_and_the_trace() -> None:
    summand = FeatureMoments(Columns(KERNEL, Z), 4, MIDDLE, KERNEL)
    moments, trace = (summand(part(slice(0, 20), W)) + summand(part(slice(20, 50), W))).terms
    assert trace == pytest.approx(2.0 * W.sum())
    assert_allclose(moments.plain().squares, C.T @ (W[:, None] * C), rtol=1e-10)
    assert_allclose(moments.plain().products, C.T @ (W[:, None] * (Y - MIDDLE)), rtol=1e-10)


def test_blocks_of_sparse_features_are_dense() -> None:
    blocks = list(blocks_of(part(slice(0, 50), W), lambda points: sp.csr_array(points.data), 2))
    assert_array_equal(np.concatenate([phi for phi, _, _ in blocks]), X)
    assert_array_equal(np.concatenate([weights for _, _, weights in blocks]), W)


def test_landmarks_of_single_precision_have_a_matrix_of_double() -> None:
    single = mc.Points(Z.data.astype(np.float32))
    wide = mc.Points(single.data.astype(np.float64))
    assert_array_equal(among(KERNEL, single), KERNEL(wide))
    assert_allclose(gram_among(KERNEL, Z).toarray(), KERNEL(Z))
    square = KERNEL(X)
    rows = mc.Precomputed().prepare(square)[np.array([3, 8])]
    assert_allclose(among(mc.Precomputed(), rows), square[np.ix_([3, 8], [3, 8])])


@pytest.mark.parametrize("equal", [False, True])
def test_draws_of_parts_are_those_of_the_whole(equal: bool) -> None:
    draw = RowDraw(10, seed=3, equal=equal)
    whole = draw(part(slice(0, 50), W))
    halves = draw(part(slice(0, 20), W)) + draw(part(slice(20, 50), W))
    assert_array_equal(halves.rows, whole.rows)
    assert len(set(whole.rows.tolist())) == 10
    assert not {0, 30} & set(draw(part(slice(0, 50), W)).rows.tolist())
