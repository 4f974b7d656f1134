"""Statistical tests of estimates, with fixed seeds.

Each compares a mean, or a variance, with its expectation in standard errors. It fails beyond 4.9 of
them, which happens to a right program once in a million.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LIMIT = 4.9
SEEDS = 100


def points(n: int = 30, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def estimates(make: Callable[[int], Any], X: np.ndarray, seeds: int = SEEDS) -> np.ndarray:
    """Estimate k(x, z) for the first row and all the others, with many seeds."""
    maps = (make(seed).fit_transform(X) for seed in range(seeds))
    return np.array([Phi[1:] @ Phi[0] for Phi in maps])


def assert_mean(values: np.ndarray, expected: np.ndarray) -> None:
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (values.mean(axis=0) - expected) / np.maximum(error, 1e-12)
    assert abs(z).max() < LIMIT, z


def assert_variance(values: np.ndarray, expected: np.ndarray) -> None:
    squares = (values - values.mean(axis=0)) ** 2
    error = squares.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (squares.mean(axis=0) * len(values) / (len(values) - 1) - expected) / error
    assert abs(z).max() < LIMIT, z
