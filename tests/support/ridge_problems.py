"""Kernel ridge problems, and their solutions by dense linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
ALPHAS = np.array([1e-3, 0.1, 1.0, 30.0])
VARIANTS = pytest.mark.parametrize(
    ("weighted", "fit_intercept"), [(False, False), (False, True), (True, False), (True, True)]
)


def gaussian(n: int, length_scale: float = 1.0, seed: int = 0) -> Array:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-squares / (2 * length_scale**2))


def problem(n: int, weighted: bool, seed: int = 0) -> tuple[Array, Array, Array | None]:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3.0, n) if weighted else None
    return gaussian(n, seed=seed), 100 + rng.normal(size=(n, 2)), weights


def naive(
    K: Array, y: Array, alpha: float, weights: Array | None, fit_intercept: bool
) -> tuple[Array, Array]:
    """Solve (K + alpha W^-1) a + b 1 = y with 1'a = 0 as one bordered system."""
    n = len(K)
    inverse = np.eye(n) if weights is None else np.diag(1 / weights)
    if not fit_intercept:
        return np.linalg.solve(K + alpha * inverse, y), np.zeros(y.shape[1])
    one = np.ones((n, 1))
    bordered = np.block([[K + alpha * inverse, one], [one.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return solved[:n], solved[n]


def refitted_residuals(
    K: Array, y: Array, alpha: float, weights: Array | None, fit_intercept: bool
) -> Array:
    """Leave-one-out residuals by leaving one out."""
    found = np.empty_like(y)
    for i in range(len(K)):
        kept = np.arange(len(K)) != i
        part = None if weights is None else weights[kept]
        a, b = naive(K[np.ix_(kept, kept)], y[kept], alpha, part, fit_intercept)
        found[i] = y[i] - K[i, kept] @ a - b
    return found
