"""Points with a kernel matrix and labels, for approximations of latent functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

N = 25
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Z = RNG.normal(size=(4, 2))
WEIGHTS = RNG.integers(1, 4, size=N).astype(float)


def kernel(theta: Array, A: Array, B: Array) -> Array:
    """An amplitude and a length-scale, both as logarithms."""
    squares = ((A[:, None] - B[None]) ** 2).sum(axis=-1)
    return np.asarray(np.exp(theta[0] - squares / (2 * np.exp(2 * theta[1]))))


THETA = np.log([3.0, 1.2])
K = kernel(THETA, X, X)


def labels(n_classes: int) -> Array:
    codes = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=N), np.linspace(-1, 1, n_classes + 1)[1:-1])
    return (codes[:, None] > 0).astype(float) if n_classes == 2 else np.eye(n_classes)[codes]
