"""Two half moons, numbers of their rows, and a kernel, for tests of support vector machines."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons

import mercer as mc
from references import matrix, rbf

RNG = np.random.default_rng(1)
X, Y = make_moons(160, noise=0.25, random_state=0)
NUMBERS = np.sin(3 * X[:, 0]) + 0.2 * RNG.normal(size=len(X))
Z = RNG.uniform(-2, 2, size=(40, 2))
RBF = mc.RBF(length_scale=0.5)
K = matrix(rbf, X, length_scale=0.5)
