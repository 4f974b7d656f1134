"""Data, losses and the objective of kernel machines, for tests of their models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import mercer as mc

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_t(2, size=N) + 7
COUNTS = RNG.poisson(np.exp(X[:, 0] + 0.5)).astype(float)
BINARY = np.where(X[:, 0] + 0.7 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.7 * RNG.normal(size=N), [-0.5, 0.5])
Z = RNG.normal(size=(9, 3))
WEIGHTS = RNG.integers(0, 4, size=N).astype(float)
RBF = mc.RBF(length_scale=1.5)


def objective(model: Any, kernel: mc.Kernel, x: Any, y: Array, weights: Any = None) -> float:
    """The objective of a fitted machine with one output, from its definition."""
    K, a = kernel(x), model.dual_coef_
    f = K @ a + model.intercept_
    w = np.ones(len(f)) if weights is None else weights
    return float(w @ model.loss_.value(y, f) + model.alpha / 2 * a @ K @ a)
