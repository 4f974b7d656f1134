"""Hessians of losses against dense formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.solvers.newton.curvature import DiagonalHessian, SoftmaxHessian, factorised

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 15


def gaussian(n: int = N, length_scale: float = 1.0) -> Array:
    x = np.random.default_rng(1).normal(size=(n, 2))
    return np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * length_scale**2))


def test_the_resolvent_of_a_diagonal_hessian() -> None:
    G = gaussian()
    weights = RNG.uniform(0.1, 2, N)
    expected = np.linalg.inv(G + np.diag(1 / weights))
    np.testing.assert_allclose(
        DiagonalHessian(weights).resolvent(G)(np.eye(N)[:, :1]), expected[:, :1]
    )
    weights[::3] = 0  # such rows drop out
    rows = np.flatnonzero(weights)
    inner = np.linalg.inv(G[np.ix_(rows, rows)] + np.diag(1 / weights[rows]))
    column = RNG.normal(size=(N, 1))
    found = DiagonalHessian(weights).resolvent(G)(column)
    np.testing.assert_allclose(found[rows], inner @ column[rows])
    assert np.all(found[::3] == 0)


def test_the_resolvent_of_a_softmax_is_w_times_the_inverse_of_one_plus_gw() -> None:
    """(G + W^-1)^-1 = W (I + G W)^-1, which also has a meaning for the singular W."""
    k, G = 3, gaussian()
    weights = RNG.uniform(0.5, 2, N)
    probabilities = RNG.dirichlet(np.ones(k), size=N)
    W = np.zeros((N * k, N * k))  # class after class
    for i in range(N):
        p = probabilities[i]
        block = weights[i] * (np.diag(p) - np.outer(p, p))
        W[np.ix_(np.arange(k) * N + i, np.arange(k) * N + i)] = block
    full = np.kron(np.eye(k), G)
    expected = W @ np.linalg.inv(np.eye(N * k) + full @ W)
    columns = RNG.normal(size=(N, k))
    found = SoftmaxHessian(weights, probabilities).resolvent(G)(columns)
    np.testing.assert_allclose(found.T.ravel(), expected @ columns.T.ravel(), atol=1e-12)


def test_a_matrix_that_is_far_from_positive_is_refused() -> None:
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        factorised(np.array([[1.0, 5.0], [5.0, 1.0]]))
