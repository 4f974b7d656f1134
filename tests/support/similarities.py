"""Similarity matrices with given properties."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from monte_carlo import points


def with_eigenvalues(eigenvalues: np.ndarray, seed: int = 0) -> np.ndarray:
    Q = np.linalg.qr(points(len(eigenvalues), len(eigenvalues), seed))[0]
    K = (Q * eigenvalues) @ Q.T
    return (K + K.T) / 2


def rbf(X: np.ndarray, length_scale: float = 1.0) -> np.ndarray:
    return np.exp(-cdist(X, X, "sqeuclidean") / (2 * length_scale**2))
