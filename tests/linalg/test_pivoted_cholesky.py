"""Low-rank factors against dense formulas, and pivots against their distribution."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import chisquare

from mercer.exceptions import ParameterError, ValidityError
from mercer.linalg.pivoted_cholesky import LowRank, nystrom, pivoted_cholesky

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
K = np.exp(-cdist(X, X, "sqeuclidean") / 4)
# The chance that a right distribution fails a test of it. Seeds are fixed, so a pass stays one.
FALSE_ALARM = 1e-4


def factor_of(matrix: Array, rank: int, **options: Any) -> LowRank:
    return pivoted_cholesky(lambda cols: matrix[:, cols], matrix.diagonal(), rank, **options)


def residual_of(matrix: Array, pivots: Any) -> Array:
    """The Schur complement of some columns, by the textbook formula."""
    square = matrix[np.ix_(pivots, pivots)]
    return matrix - matrix[:, pivots] @ np.linalg.solve(square, matrix[pivots])


def greedy_pivots(matrix: Array, rank: int) -> list[int]:
    """Partial pivoted Cholesky on the whole matrix."""
    residual, pivots = matrix.copy(), []
    for _ in range(rank):
        j = int(np.argmax(residual.diagonal()))
        residual = residual - np.outer(residual[:, j], residual[j]) / residual[j, j]
        pivots.append(j)
    return pivots


@pytest.mark.parametrize("method", ["random", "greedy"])
@pytest.mark.parametrize("block", [None, 1, 7, 64])
def test_a_factor_is_the_nystrom_approximation_of_its_pivots(method: Any, block: Any) -> None:
    found = factor_of(K, 40, method=method, block=block, rng=1)
    residual = residual_of(K, found.pivots)
    assert (found.rank, len(set(found.pivots.tolist()))) == (40, 40)
    np.testing.assert_allclose(K - found.factor @ found.factor.T, residual, atol=1e-11)
    np.testing.assert_allclose(np.triu(found.factor[found.pivots], 1), 0, atol=1e-7)
    assert found.trace_error == pytest.approx(residual.trace() / K.trace(), rel=1e-8)


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_the_history_is_the_error_after_each_pivot(method: Any) -> None:
    found = factor_of(K, 25, method=method, block=6, rng=2)
    traces = [residual_of(K, found.pivots[:j]).trace() if j else K.trace() for j in range(26)]
    np.testing.assert_allclose(found.history, np.array(traces) / K.trace(), rtol=1e-9)
    assert (np.diff(found.history) <= 0).all()


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_all_rows_give_the_matrix(method: Any) -> None:
    found = factor_of(K, 200, method=method, rng=0)
    np.testing.assert_allclose(found.factor @ found.factor.T, K, atol=1e-10)
    assert found.trace_error <= 1e-13


def test_single_greedy_pivots_are_those_of_partial_pivoting() -> None:
    assert factor_of(K, 30, method="greedy").pivots.tolist() == greedy_pivots(K, 30)


def ordered_triples(matrix: Array) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of three pivots: the definition of adaptive sampling."""
    chances = {}
    for triple in permutations(range(len(matrix)), 3):
        chance = 1.0
        for step, pivot in enumerate(triple):
            left = residual_of(matrix, list(triple[:step])) if step else matrix
            chance *= left[pivot, pivot] / left.trace()
        chances[triple] = chance
    return chances


@pytest.mark.parametrize(("block", "by_entries"), [(1, False), (5, True)])
def test_random_pivots_have_the_distribution_of_adaptive_sampling(
    block: int, by_entries: bool
) -> None:
    root = np.random.default_rng(5).normal(size=(5, 4)) * [[1], [2], [1], [3], [0.5]]
    small = root @ root.T + 0.2 * np.eye(5)
    chances = ordered_triples(small)
    assert sum(chances.values()) == pytest.approx(1)
    rng, draws = np.random.default_rng(6), 2000
    entries = (lambda rows, cols: small[np.ix_(rows, cols)]) if by_entries else None
    seen = Counter(
        tuple(factor_of(small, 3, block=block, rng=rng, entries=entries).pivots.tolist())
        for _ in range(draws)
    )
    expected = np.array([draws * chance for chance in chances.values()])
    observed = np.array([seen[triple] for triple in chances])
    # Cells with few expected counts are joined, so that the statistic has its distribution.
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    assert chisquare(observed, expected).pvalue > FALSE_ALARM


def test_entries_spare_the_columns_of_proposals() -> None:
    asked: list[int] = []

    def columns(cols: Any) -> Array:
        asked.extend(cols)
        return K[:, cols]

    found = pivoted_cholesky(
        columns, K.diagonal(), 50, block=25, rng=0, entries=lambda rows, cols: K[np.ix_(rows, cols)]
    )
    assert asked == found.pivots.tolist()


@pytest.mark.parametrize("method", ["random", "greedy"])
@pytest.mark.parametrize("block", [None, 16])
def test_duplicates_are_never_picked_twice(method: Any, block: Any) -> None:
    repeated = np.repeat(np.arange(10), 20)
    matrix = K[np.ix_(repeated, repeated)]
    found = factor_of(matrix, 150, method=method, block=block, rng=0)
    assert found.rank == 10
    assert len({int(repeated[p]) for p in found.pivots}) == 10
    np.testing.assert_allclose(found.factor @ found.factor.T, matrix, atol=1e-12)


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_rows_without_diagonal_are_never_pivots(method: Any) -> None:
    inside = np.arange(200) % 3 > 0
    found = factor_of(K * np.outer(inside, inside), 120, method=method, block=12, rng=0)
    assert inside[found.pivots].all()


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_the_scale_of_a_matrix_changes_nothing_else(scale: float) -> None:
    plain, scaled = factor_of(K, 30, rng=3), factor_of(scale * K, 30, rng=3)
    assert plain.pivots.tolist() == scaled.pivots.tolist()
    np.testing.assert_allclose(scaled.history, plain.history, rtol=1e-9)


def test_float32_stays_float32() -> None:
    single = K.astype(np.float32)
    found = factor_of(single, 200, rng=0, block=20)
    assert found.factor.dtype == np.float32
    # It stops where residuals are made of rounding errors: twice 128 units in the last place.
    assert found.trace_error <= 256 * np.finfo(np.float32).eps
    np.testing.assert_allclose(found.factor @ found.factor.T, K, atol=5e-4)
    few = factor_of(single, 20, rng=0)
    np.testing.assert_allclose(K - few.factor @ few.factor.T, residual_of(K, few.pivots), atol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [1, 60])
def test_long_length_scales_are_not_taken_for_indefinite(dtype: Any, block: int) -> None:
    for length in (3.0, 30.0, 300.0):
        smooth = np.exp(-cdist(X, X, "sqeuclidean") / length**2).astype(dtype)
        found = factor_of(smooth, 200, block=block, rng=0)
        error = np.abs(found.factor.astype(float) @ found.factor.T.astype(float) - smooth).max()
        assert error < (2e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_degenerate_matrices(method: Any) -> None:
    nothing = factor_of(np.zeros((3, 3)), 2, method=method, rng=0)
    assert (nothing.rank, nothing.trace_error, nothing.factor.shape) == (0, 0.0, (3, 0))
    single = factor_of(np.array([[4.0]]), 5, method=method, rng=0)
    assert (single.factor.tolist(), single.pivots.tolist()) == ([[2.0]], [0])
    constant = factor_of(np.ones((6, 6)), 6, method=method, rng=0)
    assert (constant.rank, constant.trace_error) == (1, 0.0)


@pytest.mark.parametrize("method", ["random", "greedy"])
def test_indefinite_matrices_are_refused(method: Any) -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        factor_of(matrix, 3, method=method, rng=0)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ParameterError, match="one of 'random', 'greedy'"):
        factor_of(K, 3, method="lazy")


def test_given_pivots_with_duplicates() -> None:
    given = np.array([3, 50, 3, 7, 50, 120])
    found = nystrom(lambda cols: K[:, cols], K.diagonal(), given)
    assert sorted(found.pivots.tolist()) == [3, 7, 50, 120]
    residual = residual_of(K, [3, 7, 50, 120])
    np.testing.assert_allclose(K - found.factor @ found.factor.T, residual, atol=1e-13)
    assert found.trace_error == pytest.approx(residual.trace() / K.trace())
    everything = nystrom(lambda cols: K[:, cols], K.diagonal(), np.arange(200))
    np.testing.assert_allclose(everything.factor @ everything.factor.T, K, atol=1e-10)
