"""Kernels of time series from their definitions, one cell of the grid at a time."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def random_series(n: int, channels: int, seed: int, low: int = 1, high: int = 12) -> list[Array]:
    """Random walks of different lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(low, high, n)
    return [rng.standard_normal((length, channels)).cumsum(axis=0) for length in lengths]


def grid(x: Array, y: Array) -> Array:
    """Squared distances between all times."""
    return np.square(x[:, None] - y[None]).sum(axis=-1)


def dtw(x: Array, y: Array, window: int | None = None) -> float:
    costs = grid(x, y)
    n, m = costs.shape
    width = np.inf if window is None else max(window, abs(n - m))
    R = np.full((n + 1, m + 1), np.inf)
    R[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            if abs(i - j) <= width:
                R[i + 1, j + 1] = costs[i, j] + min(R[i, j], R[i + 1, j], R[i, j + 1])
    return float(R[n, m])


def sum_over_alignments(logarithms: Array) -> float:
    """The logarithm of the sum over alignments of products of the local kernel."""
    n, m = logarithms.shape
    R = np.full((n + 1, m + 1), -np.inf)
    R[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            before = [R[i, j], R[i + 1, j], R[i, j + 1]]
            R[i + 1, j + 1] = logarithms[i, j] + np.logaddexp.reduce(before)
    return float(R[n, m])


def soft_dtw(x: Array, y: Array, gamma: float) -> float:
    return -gamma * sum_over_alignments(-grid(x, y) / gamma)


def log_global_alignment(x: Array, y: Array, sigma: float, triangular: int = 0) -> float:
    exponents = -grid(x, y) / (2 * sigma**2)
    gaps = np.abs(np.arange(len(x))[:, None] - np.arange(len(y)))
    weights = np.maximum(0.0, 1 - gaps / triangular) if triangular else np.ones(gaps.shape)
    with np.errstate(divide="ignore"):
        logarithms = exponents + np.log(weights)
    return sum_over_alignments(logarithms - np.log(2 - weights * np.exp(exponents)))


def signature(x: Array, depth: int) -> Array:
    """All entries of the tensors of a path of straight lines, by Chen's identity."""
    tensors = [np.ones(())] + [np.zeros((x.shape[1],) * m) for m in range(1, depth + 1)]
    for step in np.diff(x, axis=0):
        line = [np.ones(())]
        for m in range(1, depth + 1):
            line.append(np.multiply.outer(line[-1], step) / m)
        tensors = [
            np.sum([np.multiply.outer(tensors[k], line[m - k]) for k in range(m + 1)], axis=0)
            for m in range(depth + 1)
        ]
    return np.concatenate([tensor.ravel() for tensor in tensors])


def increments(static: Any, x: Array, y: Array) -> Array:
    """Inner products of increments in the feature space of a kernel of single times."""
    values = np.array([[static(a, b) for b in y] for a in x])
    return np.diff(np.diff(values, axis=0), axis=1)


def static_signature(x: Array, y: Array, static: Any, depth: int) -> float:
    """The truncated kernel as a sum over all words of increments of both series."""
    P, total = increments(static, x, y), 1.0
    for m in range(1, depth + 1):
        words = [list(combinations_with_replacement(range(n), m)) for n in P.shape]
        for a, b in product(*words):
            repeats = math.prod(math.factorial(c) for w in (a, b) for c in Counter(w).values())
            total += math.prod(P[i, j] for i, j in zip(a, b, strict=True)) / repeats
    return total


def static_equation(x: Array, y: Array, static: Any, refinement: int) -> float:
    """The whole kernel by finite differences of its equation."""
    parts = 2**refinement
    P = np.kron(increments(static, x, y), np.ones((parts, parts))) / parts**2
    u = np.ones((P.shape[0] + 1, P.shape[1] + 1))
    for i, j in np.ndindex(*P.shape):
        p = P[i, j]
        sides = (u[i, j + 1] + u[i + 1, j]) * (1 + p / 2 + p**2 / 12)
        u[i + 1, j + 1] = sides - u[i, j] * (1 - p**2 / 12)
    return float(u[-1, -1])


def matrix(function: Any, X: list[Array], Y: list[Array], *options: Any) -> Array:
    return np.array([[function(x, y, *options) for y in Y] for x in X])
