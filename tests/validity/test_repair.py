"""Embeddings and repairs of similarity matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from mercer import validity
from mercer.exceptions import DataError, ParameterError, ValidityError
from monte_carlo import points
from similarities import rbf, with_eigenvalues

# --------------------------------------------------------------------------------------------------
# embed


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 12), rank=st.integers(0, 12), seed=st.integers(0, 100))
def test_embedding_has_the_given_inner_products(n: int, rank: int, seed: int) -> None:
    A = points(n, rank, seed)
    K = A @ A.T
    Phi = validity.embed(K)
    assert Phi.shape == (n, min(n, rank))
    assert_allclose(Phi @ Phi.T, K, atol=1e-13 * n * max(1, np.abs(K).max()))


def test_embedding_keeps_the_data_type_and_fixes_signs() -> None:
    K = rbf(points(6, 2))
    Phi = validity.embed(K)
    single = validity.embed(K.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(np.abs(single[:, 0]), np.abs(Phi[:, 0]), rtol=1e-5)
    assert (Phi[np.abs(Phi).argmax(axis=0), np.arange(Phi.shape[1])] > 0).all()
    assert validity.embed(np.zeros((3, 3))).shape == (3, 0)


def test_embedding_of_an_indefinite_matrix_is_refused_with_the_witness() -> None:
    with pytest.raises(ValidityError, match=r"a'Ka = -2 .* a = \[-?0\., +1\.\]; .*repair"):
        validity.embed(np.diag([1.0, -2.0]))
    with pytest.raises(ValidityError, match="not symmetric"):
        validity.embed([[1.0, 0.5], [0.0, 1.0]])


# --------------------------------------------------------------------------------------------------
# repair


def expected_repair(K: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
    """The repaired matrix and the matrix T with test rows K_t T, from the definitions."""
    s, U = np.linalg.eigh(K)
    if method == "clip":
        return (U * np.maximum(s, 0)) @ U.T, U[:, s > 0] @ U[:, s > 0].T
    if method == "flip":
        return (U * np.abs(s)) @ U.T, (U * np.sign(s)) @ U.T
    return K - min(s[0], 0) * np.eye(len(K)), np.eye(len(K))


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
@pytest.mark.parametrize("seed", range(5))
def test_repair_follows_its_definition(method: validity.Method, seed: int) -> None:
    K = with_eigenvalues(np.random.default_rng(seed).uniform(-3, 5, 12), seed)
    rows = points(4, 12, seed + 100)
    matrix, change = expected_repair(K, method)
    repaired = validity.repair(K, method)
    assert repaired.method == method
    assert_allclose(repaired.matrix, matrix, atol=1e-13)
    assert_allclose(repaired.transform(rows), rows @ change, atol=1e-13)
    assert_allclose(repaired.min_eigenvalue, np.linalg.eigvalsh(K)[0], atol=1e-13)
    assert validity.check(repaired.matrix)
    if method != "shift":
        assert repaired.shift == 0
        assert_allclose(repaired.transform(K), repaired.matrix, atol=1e-13)
    else:
        assert_allclose(repaired.transform(K) + repaired.shift * np.eye(12), repaired.matrix)


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_a_valid_matrix_and_its_test_rows_come_back_unchanged(method: validity.Method) -> None:
    K = rbf(points(30, 1), 5.0)  # numerically singular: half of its eigenvalues are noise
    rows = points(3, 30)
    repaired = validity.repair(K, method)
    assert_array_equal(repaired.matrix, K)
    assert_array_equal(repaired.transform(rows), rows)
    assert repaired.shift == 0


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_repaired_similarities_are_valid_in_any_type_and_scale(
    method: validity.Method, dtype: type[np.floating], scale: float
) -> None:
    K = (scale * np.cos(cdist(points(25, 2), points(25, 2)))).astype(dtype)
    repaired = validity.repair(K, method)
    assert repaired.matrix.dtype == dtype
    assert repaired.transform(K).dtype == dtype
    assert validity.check(repaired.matrix)
    assert_array_equal(repaired.matrix, repaired.matrix.T)


def test_clip_is_the_nearest_valid_matrix() -> None:
    K = with_eigenvalues(np.linspace(-1, 2, 8))
    clipped = np.linalg.norm(validity.repair(K, "clip").matrix - K)
    for other in ("flip", "shift"):
        assert clipped < np.linalg.norm(validity.repair(K, other).matrix - K)


def test_repair_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(ParameterError, match="method = 'truncate' is unknown"):
        validity.repair(np.eye(2), "truncate")  # type: ignore[arg-type]
    with pytest.raises(ValidityError, match=r"\(K \+ K.T\) / 2"):
        validity.repair([[1.0, 0.5], [0.0, 1.0]])
    repaired = validity.repair(np.diag([1.0, -1.0]))
    with pytest.raises(DataError, match=r"shape \(2, 3\).*2 training points"):
        repaired.transform(np.ones((2, 3)))
    with pytest.raises(DataError, match="nan"):
        repaired.transform([[np.nan, 1.0]])


def test_what_is_left_of_a_mostly_negative_matrix_is_valid() -> None:
    rng = np.random.default_rng(4)
    for n in (2, 3, 8):
        for _ in range(50):
            factor = rng.normal(size=(n, n))
            K = 1e-9 * np.outer(factor[0], factor[0]) - factor @ factor.T
            assert validity.check(validity.repair(K, "clip").matrix)
    assert_array_equal(validity.repair(-np.eye(2), "clip").matrix, np.zeros((2, 2)))
    repaired = validity.repair(-np.array([[1.0, 0.3], [0.3, 1.0]]), "clip")
    assert validity.check(repaired.matrix)


def test_a_repair_is_shown_as_a_sentence() -> None:
    K = with_eigenvalues([3.0, 1.0, -0.5])
    clipped = repr(validity.repair(K, method="clip"))
    assert "3 rows by clip: 1 negative eigenvalues are changed; the smallest" in clipped
    assert clipped.endswith("eigenvalue was -0.5.")
    assert "by shift: 0.5 is added to the diagonal" in repr(validity.repair(K, method="shift"))
