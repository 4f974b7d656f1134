"""Components and clusters against scikit-learn and a NumPy loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    at_most,
    peak_bytes,
    race,
    speedup,
)

D, COMPONENTS, CLUSTERS = 10, 10, 10


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    yield from _components(settings)
    yield _components_of_many_rows(settings)
    yield from _clusters(settings)


def _rows(n: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, D)) + 3 * rng.integers(0, 3, size=(n, D)) * (np.arange(D) < 3)


def _components(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(3000)
    X, gamma = _rows(n), 0.05
    mine = partial(mc.KernelPCA, "rbf", COMPONENTS, gamma=gamma)
    peer = partial(KernelPCA, COMPONENTS, kernel="rbf", gamma=gamma)
    for threads in (1, 2):
        times = race(
            [
                Contestant("mercer", lambda: _values(mine(), X), threads),
                Contestant("scikit-learn", lambda: _values(peer(), X), threads),
                Contestant("arpack", lambda: _values(peer(eigen_solver="arpack"), X), threads),
            ],
            settings,
        )
        parameters = f"float64 d={D} n={n}, {COMPONENTS} components"
        for other, target in (("scikit-learn", 6.0), ("arpack", 1.2)):
            yield speedup(
                "KernelPCA.fit", parameters, times, other, at_least(target), threads=threads
            )


def _values(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = model.fit(X).eigenvalues_
    return values


def _components_of_many_rows(settings: Settings) -> Outcome:
    n = settings.size(50_000)
    used = peak_bytes(many_components, n=n) / 1e9
    return Outcome(
        "KernelPCA.fit, peak memory",
        f"float64 d={D} n={n}, landmarks",
        used,
        "the matrix",
        8 * n * n / 1e9,
        used,
        at_most(3.0),
        unit="GB",
        figure_unit="GB",
    )


def many_components(n: int) -> Any:
    """The fit whose memory is measured."""
    X = _rows(n)
    return lambda: mc.KernelPCA(mc.RBF(3.0), COMPONENTS, solver="landmarks").fit(X)


def _clusters(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(20_000)
    X = _rows(n)
    for threads in (1, 2):
        mine = mc.KernelKMeans("rbf", CLUSTERS, gamma=0.05, n_init=1, random_state=0)
        times = race(
            [
                Contestant("mercer", lambda mine=mine: float(mine.fit(X).inertia_), threads),
                Contestant("NumPy", lambda: _stored_k_means(X, 0.05), threads),
            ],
            settings,
        )
        yield speedup(
            "KernelKMeans.fit",
            f"float64 d={D} n={n}, {CLUSTERS} clusters, one start",
            times,
            "NumPy",
            at_least(10.0),
            threads=threads,
        )


def _stored_k_means(X: NDArray[np.float64], gamma: float) -> float:
    """Kernel k-means with the whole matrix and a product for each iteration."""
    K = rbf_kernel(X, gamma=gamma)
    labels = np.argmax(K[:, np.random.default_rng(0).choice(len(X), CLUSTERS)], axis=1)
    for _ in range(300):
        members = np.eye(CLUSTERS)[labels]
        means = members / np.maximum(members.sum(axis=0), 1)
        sums = K @ means
        distances = 1 - 2 * sums + np.einsum("ic,ic->c", means, sums)
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
    return float(distances.min(axis=1).sum())
