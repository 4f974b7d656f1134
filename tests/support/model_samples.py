"""Rows and targets that the tests of several modules fit, each drawn from a seed of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import mercer as mc

Array = NDArray[np.floating[Any]]


class Sample(NamedTuple):
    """Rows X with one target Y or two in BOTH, new rows Z, and weights or variances of the rows."""

    X: Array
    Y: Array
    BOTH: Array
    Z: Array
    W: Array = np.empty(0)
    VARIANCES: Array = np.empty(0)


def _smooth() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = 3 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=40) + 7
    both = np.column_stack([Y, 100 * X[:, 1] + 10 * rng.normal(size=40)])
    Z = rng.normal(size=(9, 3))
    return Sample(X, Y, both, Z, VARIANCES=rng.uniform(0.1, 0.5, size=40))


def _many() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = 3 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=80) + 7
    both = np.column_stack([Y, 100 * X[:, 1] + 10 * rng.normal(size=80)])
    Z = rng.normal(size=(9, 3))
    variances = rng.uniform(0.1, 0.5, size=80)
    return Sample(X, Y, both, Z, rng.integers(0, 4, size=80).astype(float), variances)


def _quadratic() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = X[:, 0] - 2 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=80) + 5
    both = np.column_stack([Y, 100 * X[:, 1] + 10 * rng.normal(size=80)])
    Z = rng.normal(size=(9, 3))
    weights = rng.integers(0, 4, size=80).astype(float)
    return Sample(X, Y, both, Z, weights, rng.uniform(0.1, 0.5, size=80))


def _plane() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=30)
    both = np.column_stack([Y, X[:, 0] * X[:, 1]])
    Z = rng.normal(size=(7, 2))
    return Sample(X, Y, both, Z, rng.integers(0, 4, size=30).astype(float))


def _noiseless() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    Y = np.sin(X[:, 0]) + 3
    return Sample(X, Y, np.column_stack([Y, np.cos(X[:, 1])]), rng.normal(size=(7, 2)))


def _stream() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=60)
    both = np.column_stack([Y, X[:, 2] ** 2])
    return Sample(X, Y, both, rng.normal(size=(9, 3)), rng.uniform(0.2, 1.5, size=60))


def _path() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=120) + 20
    weights = rng.uniform(0.1, 3.0, size=120)
    weights[:7] = 0
    return Sample(X, Y, np.column_stack([Y, 100 * X[:, 1]]), rng.normal(size=(11, 3)), weights)


def _wave() -> Sample:
    X = np.random.default_rng(0).normal(size=(150, 2))
    Y = np.sin(2 * X[:, 0]) + X[:, 1]
    return Sample(X, Y, np.column_stack([Y, -Y]), X[:9])


class Labelled(NamedTuple):
    """Rows X with labels of two and of three classes, new rows Z, and counts of copies."""

    X: Array
    TWO: NDArray[np.str_]
    THREE: NDArray[np.str_]
    Z: Array
    W: Array


def _labelled() -> Labelled:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    noisy = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=60)
    two = np.where(noisy > 0, "yes", "no")
    three = np.array(["low", "middle", "high"])[np.digitize(noisy, [-0.6, 0.6])]
    Z = rng.normal(size=(9, 2))
    return Labelled(X, two, three, Z, rng.integers(0, 4, size=60).astype(float))


#: Forty rows of which one column matters; and eighty, of which two do.
SMOOTH, MANY = _smooth(), _many()
#: Eighty rows whose target is a polynomial of degree two.
QUADRATIC = _quadratic()
#: Thirty rows in the plane, with noise and without.
PLANE, NOISELESS = _plane(), _noiseless()
#: Rows of kernel ridge: for paths of alpha, and for changes of units.
PATH, WAVE = _path(), _wave()
#: Sixty rows that come one after another.
STREAM = _stream()
#: Sixty rows of overlapping classes.
LABELLED = _labelled()

#: A kernel with a length-scale for each of three columns.
ARD = 1.7 * mc.RBF(length_scale=[1.0, 2.0, 3.0])
#: Twelve rows of `MANY` that have weights, as landmarks.
CHOSEN = np.flatnonzero(MANY.W)[:12]
FEW = mc.solvers.NystromSolver(12, CHOSEN)
#: A Gaussian process of mean zero that is conditioned with its hyper-parameters as they are.
HELD: dict[str, Any] = {"learn": False, "normalize_y": False, "mean": "zero"}


def waves(n_components: int = 200, **settings: Any) -> Any:
    """Random Fourier features of a fixed seed, as a solver."""
    fourier = mc.RandomFourier(n_components=n_components, random_state=0, **settings)
    return mc.solvers.RandomFeatures(fourier)


def drawn(length_scale: float, noise: float = 0.01, n: int = 1_100) -> tuple[Array, Array]:
    """A function drawn from its process, on a line, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    K = np.exp(-0.5 * ((X - X.T) / length_scale) ** 2) + 1e-9 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.normal(size=n) + np.sqrt(noise) * rng.normal(size=n)
    return X, y
