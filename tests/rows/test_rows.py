"""Rows in memory and their statistics, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.rows.rows import (
    InMemory,
    RowBlock,
    RowStatistics,
    Sums,
    as_float64,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = RNG.normal(size=(30, 2))
W = RNG.uniform(0.5, 2.0, size=30)
W[[3, 17]] = 0.0


def test_statistics_of_parts_add_up_to_those_of_the_whole() -> None:
    first, second = RowStatistics.of(Y[:12], W[:12]), RowStatistics.of(Y[12:], W[12:])
    for found in (RowStatistics.of(Y, W), first + second):
        assert (found.rows, found.weighted, found.equal_weights) == (28, True, False)
        assert found.weight == pytest.approx(W.sum())
        assert_allclose(found.targets, W @ Y)
        assert_array_equal(found.largest, np.abs(Y[W > 0]).max(axis=0))
        assert (found.min_weight, found.max_weight) == (0.0, W.max())
        assert found.min_positive_weight == W[W > 0].min()
    plain = RowStatistics.of(Y, None)
    assert (plain.rows, plain.weight, plain.weighted, plain.equal_weights) == (30, 30, False, True)


def test_rows_in_memory_are_one_block() -> None:
    rows, some = InMemory(RowBlock(mc.Points(X), Y, W)), np.array([5, 2, 9])
    assert len(rows) == rows.rows_within(0, 10**9) == 30
    assert_array_equal(rows.first_row.data, X[:1])
    assert_array_equal(rows.points_at(some).data, X[some])
    block = rows.rows_at(some)
    assert_array_equal(block.targets, Y[some])
    assert_array_equal(block.mass, W[some])
    assert rows.apply_to(some, len) == 3
    assert_allclose(rows.map_sum(lambda part: part.mass @ part.targets), W @ Y)
    assert_array_equal(RowBlock(mc.Points(X), Y).mass, np.ones(30))
    assert rows.resolve(mc.RBF("median")) == mc.RBF("median").resolve(mc.Points(X), W)


def test_sums_add_term_by_term() -> None:
    total = Sums((1.0, np.ones(2))) + Sums((2.0, np.arange(2.0)))
    assert total.terms[0] == 3.0
    assert_array_equal(total.terms[1], [1.0, 2.0])


def test_points_are_widened_and_given_matrices_are_not() -> None:
    single = X.astype(np.float32)
    assert as_float64(mc.RBF(1.0), mc.Points(single)).data.dtype == np.float64
    square = mc.RBF(1.0)(single)
    assert as_float64(mc.Precomputed(), mc.Points(square)).data.dtype == np.float32
