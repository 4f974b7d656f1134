"""Sketches of matrices, against their eigenvalues, and as preconditioners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.exceptions import ValidityError
from mercer.linalg.low_rank import (
    LowRankInverse,
    LowRankMatrix,
    nystrom_sketch,
    solve_plus_diagonal,
)

RNG = np.random.default_rng(0)
Q = np.linalg.qr(RNG.normal(size=(60, 60)))[0]


def matrix(values: Any) -> Any:
    return (Q[:, : len(values)] * values) @ Q[:, : len(values)].T


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_matrix_of_low_rank_is_found(scale: float) -> None:
    values = scale * np.array([5.0, 3.0, 1.0, 0.01])
    A = matrix(values)
    found = nystrom_sketch(lambda V: A @ V, A.diagonal(), 8, rng=np.random.RandomState(0))
    assert_allclose(found.values[:4], values, rtol=1e-9)
    assert_allclose(found.values[4:], 0, atol=1e-12 * scale)
    assert_allclose(found.factor @ found.factor.T, A, atol=1e-10 * scale)
    assert found.trace_error < 1e-10


def test_it_is_never_above_the_matrix_and_complete_at_full_rank() -> None:
    values = 2.0 ** -np.arange(60)
    A = matrix(values)
    for rank in (5, 20):
        found = nystrom_sketch(lambda V: A @ V, A.diagonal(), rank, rng=np.random.RandomState(1))
        assert (found.values <= values[:rank] * (1 + 1e-10)).all()
        left = np.linalg.eigvalsh(A - found.factor @ found.factor.T)
        assert left.min() > -1e-12
        assert found.trace_error == pytest.approx(left.sum() / values.sum(), abs=1e-12)
    whole = nystrom_sketch(lambda V: A @ V, A.diagonal(), 99, rng=np.random.RandomState(1))
    assert_allclose(whole.values[:30], values[:30], rtol=1e-5)


def test_the_condition_number_that_is_left() -> None:
    """It is about 1 + (what is left out) / shift, where without it would be 1 / shift."""
    A, shift = matrix(2.0 ** -np.arange(60)), 1e-5
    found = nystrom_sketch(lambda V: A @ V, A.diagonal(), 25, rng=np.random.RandomState(0))
    inverse = LowRankInverse.of(found.factor.copy(), float(found.values[-1]))
    product = inverse(A + shift * np.eye(60), np.full(60, shift))
    values = np.sort(np.linalg.eigvals(product).real)
    assert values[-1] / values[0] < 3
    assert 1 / shift > 1e4


def test_a_zero_matrix_and_an_indefinite_one() -> None:
    zero = nystrom_sketch(np.zeros_like, np.zeros(5), 3, rng=np.random.RandomState(0))
    assert zero.values.max() < 1e-300
    A = matrix(np.array([1.0, -1.0]))
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        nystrom_sketch(lambda V: A @ V, A.diagonal(), 20, rng=np.random.RandomState(0))


def test_a_low_rank_matrix_is_the_product_of_its_factor() -> None:
    factor = RNG.normal(size=(20, 3))
    matrix, dense = LowRankMatrix(factor), factor @ factor.T
    columns = RNG.normal(size=(20, 2))
    assert (len(matrix), matrix.rank) == (20, 3)
    assert_allclose(matrix @ columns, dense @ columns, atol=1e-13)
    assert_allclose((matrix * 0.25) @ columns, dense @ columns / 4, atol=1e-13)
    assert_allclose(matrix.diagonal(), dense.diagonal())
    some, others = np.array([3, 1, 3]), np.array([0, 19])
    assert_allclose(matrix[np.ix_(some, others)], dense[np.ix_(some, others)])


@pytest.mark.parametrize("least", [1.0, 1e-6])
def test_equations_with_a_diagonal(least: float) -> None:
    factor, ridge = RNG.normal(size=(40, 3)), least * RNG.uniform(1, 5, size=40)
    right = RNG.normal(size=(40, 2))
    found = solve_plus_diagonal(factor, ridge, right)
    expected = np.linalg.solve(factor @ factor.T + np.diag(ridge), right)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9 / least)


def test_equations_without_a_ridge_are_solved_where_they_can_be() -> None:
    factor = RNG.normal(size=(40, 3))
    right = factor @ RNG.normal(size=(3, 1))
    found = solve_plus_diagonal(factor, np.zeros(40), right)
    assert_allclose(factor @ (factor.T @ found), right, atol=1e-6)
