"""Irises with labels, numbers, weights and new rows, for machines and their peers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import svm
from sklearn.datasets import load_iris

import mercer as mc

RNG = np.random.default_rng(0)
X, SPECIES = load_iris(return_X_y=True)
X = X + 0.05 * RNG.normal(size=X.shape)  # no row twice: the coefficients are then unique
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
TWO = np.where(SPECIES == 1, "yes", "no")
NUMBERS = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * RNG.normal(size=len(X))
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(X))
Z = X[::3] + 0.05 * RNG.normal(size=(50, 4))
TOL = 1e-8
LINEAR = [Machine(kernel="linear", tol=TOL) for Machine in (mc.SVC, svm.SVC)]


def nearness(model: Any) -> float:
    """By how much two functions may differ whose objectives agree to a part in ten million.

    The objective is strongly convex: within g of its minimum, |f - f*| <= sqrt(2 g) in the norm of
    the kernel, so |f(x) - f*(x)| <= sqrt(2 g k(x, x)); the factor is for the intercept.
    """
    gap = 1e-7 * float(np.abs(model.objective_).max())
    assert np.max(model.dual_gap_) < gap
    return 2 * float(np.sqrt(2 * gap * max(model.kernel_.diag(X).max(), 1.0)))
