"""Covariances with rounding errors, and normal vectors drawn from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

from mercer.linalg.covariance import Covariance

RNG = np.random.default_rng(0)


def test_a_positive_definite_matrix_stays_as_it_is() -> None:
    values = RNG.normal(size=(8, 20))
    matrix = values @ values.T
    found = Covariance.rounded(matrix.copy(), matrix.diagonal())
    np.testing.assert_array_equal(found.matrix, matrix)
    np.testing.assert_allclose(found.root @ found.root.T, matrix, rtol=1e-9)


def test_negative_eigenvalues_become_zero_and_the_diagonal_is_the_given_one() -> None:
    vectors = ortho_group.rvs(12, random_state=0)
    exact = (vectors[:, :4] * [3.0, 2.0, 1.0, 0.5]) @ vectors[:, :4].T
    rounded = exact - 1e-6 * vectors[:, 5:] @ vectors[:, 5:].T
    assert np.linalg.eigvalsh(rounded)[0] == pytest.approx(-1e-6)
    found = Covariance.rounded(rounded.copy(), exact.diagonal().copy())
    np.testing.assert_allclose(found.matrix.diagonal(), exact.diagonal(), rtol=1e-14)
    assert np.linalg.eigvalsh(found.matrix)[0] > -1e-14
    np.testing.assert_allclose(found.root @ found.root.T, found.matrix, atol=1e-14)
    np.testing.assert_allclose(found.matrix, exact, atol=1e-5)


def test_a_variance_of_zero_is_a_constant() -> None:
    matrix = np.diag([1.0, 0.0, 4.0])
    found = Covariance.rounded(matrix.copy(), matrix.diagonal().copy())
    np.testing.assert_array_equal(found.matrix, matrix)
    draws = found.draws(np.array([[1.0], [2.0], [3.0]]), 5, RNG)
    assert draws.shape == (3, 1, 5)
    np.testing.assert_array_equal(draws[1], np.full((1, 5), 2.0))
