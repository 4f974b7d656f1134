"""Kernel LMS by mini-batches against a loop over single rows in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1

import mercer as mc
from benchmarks.harness import Contestant, Outcome, Settings, at_least, race, speedup

Array = NDArray[Any]

N = 5_000
D = 10
LENGTH_SCALE = 1.5
STEP = 0.5
ALPHA = 1e-4

BATCHES = 10.0


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    for alpha, note in ((0.0, "no decay"), (ALPHA, "decay")):
        yield _lms(settings, alpha, note)
    yield _budget(settings)
    yield _perceptron(settings)


def _data(settings: Settings) -> tuple[Array, Array]:
    X, y = make_friedman1(settings.size(N), n_features=D, noise=1.0, random_state=0)
    return X, y - y.mean()


def _kernel() -> mc.Kernel:
    return mc.RBF(length_scale=LENGTH_SCALE)


def _values(x: Array, points: Array) -> Array:
    """The kernel of one point with some: what the loop computes for each row."""
    differences = points - x
    squares = np.einsum("ij,ij->i", differences, differences)
    return np.exp(squares * (-0.5 / LENGTH_SCALE**2))


def _lms(settings: Settings, alpha: float, note: str) -> Outcome:
    X, y = _data(settings)

    def loop() -> Array:
        coef = np.zeros(len(y))
        for i in range(len(y)):
            error = y[i] - _values(X[i], X[:i]) @ coef[:i]
            if alpha:
                coef[:i] *= 1 - STEP * alpha
            coef[i] = STEP * error
        return coef

    def batches() -> Array:
        return mc.KernelLMS(_kernel(), STEP, alpha).fit(X, y).dual_coef_

    times = race([Contestant("mercer", batches), Contestant("NumPy loop", loop)], settings)
    parameters = f"float64 d={D} n={len(y)}, one pass, {note}"
    return speedup("KernelLMS.fit", parameters, times, "NumPy loop", at_least(BATCHES))


def _budget(settings: Settings, size: int = 200) -> Outcome:
    X, y = _data(settings)

    def loop() -> Array:
        points, coef = X[:0], y[:0]
        for x, target in zip(X, y, strict=True):
            error = target - _values(x, points) @ coef
            points = np.concatenate([points, x[None]])[-size:]
            coef = np.append(coef, STEP * error)[-size:]
        return coef

    def batches() -> Array:
        budget = mc.budgets.Remove(size)
        return mc.KernelLMS(_kernel(), STEP, budget=budget).fit(X, y).dual_coef_

    times = race([Contestant("mercer", batches), Contestant("NumPy loop", loop)], settings)
    parameters = f"float64 d={D} n={len(y)}, one pass, the last {size} points"
    return speedup("KernelLMS.fit", parameters, times, "NumPy loop")


def _perceptron(settings: Settings) -> Outcome:
    X, y = _data(settings)
    labels = np.where(y > 0, 1.0, -1.0)

    def loop() -> Array:
        points, coef = np.empty_like(X), np.empty(len(y))
        m = 0
        for x, label in zip(X, labels, strict=True):
            if label * (_values(x, points[:m]) @ coef[:m]) <= 0:
                points[m], coef[m] = x, label
                m += 1
        return coef[:m].copy()

    def batches() -> Array:
        model = mc.KernelPerceptron(_kernel())
        return model.partial_fit(X, labels, classes=[-1.0, 1.0]).dual_coef_

    times = race([Contestant("mercer", batches), Contestant("NumPy loop", loop)], settings)
    parameters = f"float64 d={D} n={len(y)}, one pass"
    return speedup("KernelPerceptron", parameters, times, "NumPy loop")
