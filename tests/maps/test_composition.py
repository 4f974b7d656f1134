"""Sums and products of feature maps against the Kronecker product of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mercer import features
from mercer.exceptions import DataError
from monte_carlo import points


def kronecker(*maps: np.ndarray) -> np.ndarray:
    rows = []
    for row in zip(*maps, strict=True):
        out = np.ones(1)
        for factor in row:
            out = np.kron(out, factor)
        rows.append(out)
    return np.array(rows)


def holes(n: int, d: int, seed: int) -> np.ndarray:
    """A matrix with zeros, with an empty row."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) * (rng.uniform(size=(n, d)) < 0.5)
    A[1] = 0
    return A


@pytest.mark.parametrize("kinds", [*itertools.product([np.asarray, sparse.csr_array], repeat=3)])
def test_tensor_product_is_the_kronecker_product_of_rows(kinds: tuple) -> None:
    dense = [holes(6, d, d) for d in (2, 3, 4)]
    result = features.tensor_product(*(kind(part) for kind, part in zip(kinds, dense, strict=True)))
    assert sparse.issparse(result) is (sparse.csr_array in kinds)
    values = result.toarray() if sparse.issparse(result) else result
    assert_allclose(values, kronecker(*dense), rtol=1e-14)
    if all(kind is sparse.csr_array for kind in kinds):
        assert result.format == "csr"
        assert result.nnz == np.prod([(A != 0).sum(axis=1) for A in dense], axis=0).sum()


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_any_sparse_format_is_read(container: type) -> None:
    A, B = holes(5, 3, 0), holes(5, 2, 1)
    assert_allclose(features.tensor_product(container(A), B).toarray(), kronecker(A, B))
    assert_allclose(features.concatenate(container(A), B).toarray(), np.hstack([A, B]))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_products_of_small_integers_do_not_wrap_around(container: type) -> None:
    counts = container(np.array([[200, 3]], dtype=np.uint8))
    result = features.tensor_product(counts, counts)
    assert result.max() == 40_000


def test_inner_products_of_sums_and_products_of_maps() -> None:
    A, B = points(5, 3), points(5, 4, 1)
    both, side = features.tensor_product(A, B), features.concatenate(A, B)
    assert_allclose(both @ both.T, (A @ A.T) * (B @ B.T))
    assert_allclose(side @ side.T, A @ A.T + B @ B.T)
    assert_array_equal(features.tensor_product(A), A)
    assert_array_equal(features.concatenate(A), A)


def wide(columns: int) -> sparse.csr_array:
    entries = ([1.0, 2.0], [0, columns - 1], [0, 1, 2])
    return sparse.csr_array(entries, shape=(2, columns))


def test_sparse_products_of_wide_maps() -> None:
    result = features.tensor_product(wide(2 * 10**9), wide(2 * 10**9))
    assert result.shape == (2, 4 * 10**18)
    assert_array_equal(result.indices, [0, 4 * 10**18 - 1])
    assert_array_equal(result.data, [1.0, 4.0])
    with pytest.raises(DataError, match="more than an index can count"):
        features.tensor_product(wide(4 * 10**9), wide(4 * 10**9))


def test_names_of_compositions() -> None:
    assert features.tensor_product_names(["1", "a"], ["1", "b", "b^2"]) == [
        *("1", "b", "b^2", "a", "a*b", "a*b^2"),
    ]
    assert features.concatenate_names(["1", "a"], ["b"]) == ["1", "a", "b"]


@pytest.mark.parametrize("function", [features.tensor_product, features.concatenate])
@pytest.mark.parametrize(
    "maps", [(), (np.ones((2, 2)), np.ones((3, 2))), (np.ones((2, 2)), np.ones(2))]
)
def test_maps_must_share_their_rows(function: type, maps: tuple) -> None:
    with pytest.raises(DataError, match=f"{function.__name__}: got feature matrices of shapes"):
        function(*maps)
