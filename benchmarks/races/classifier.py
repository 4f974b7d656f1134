"""Gaussian-process classification against scikit-learn: a whole fit with learned parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier, kernels
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    limited,
    race,
    speedup,
)

Array = NDArray[Any]

FIT = 3.0
SPLITS = 5
PEER = "GaussianProcessClassifier"


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    yield _fit(settings, "breast cancer", X, y, at_least(FIT))
    half, _, labels, _ = _split(X, y, 0)
    yield _fit(settings, "breast cancer, half of it", half, labels, None)
    yield from _quality(X, y, 2 if settings.quick else SPLITS)
    X, y = load_iris(return_X_y=True)
    yield _fit(settings, "iris, 3 classes", StandardScaler().fit_transform(X), y, None)


def _mercer() -> mc.GaussianProcessClassifier:
    return mc.GaussianProcessClassifier(1.0 * mc.RBF(length_scale=1.0))


def _peer() -> GaussianProcessClassifier:
    return GaussianProcessClassifier(kernels.ConstantKernel(1.0) * kernels.RBF(1.0))


def _split(X: Array, y: Array, seed: int) -> list[Array]:
    split: list[Array] = train_test_split(X, y, test_size=0.5, random_state=seed)
    return split


def _fit(settings: Settings, name: str, X: Array, y: Array, target: Any) -> Outcome:
    """The same kernel, from the same start, each with its own search."""

    def fit(model: Any) -> None:
        model.fit(X, y)

    contestants = [
        Contestant("mercer", lambda: fit(_mercer())),
        Contestant(PEER, lambda: fit(_peer())),
    ]
    times = race(contestants, settings)
    n, d = X.shape
    note = "" if len(np.unique(y)) == 2 else "softmax; the peer: one against the rest"
    return speedup("GP classifier, fit", f"{name}: n={n} d={d}", times, PEER, target, note=note)


def _quality(X: Array, y: Array, splits: int) -> Iterator[Outcome]:
    """Accuracy on the other half and the evidence, over several splits."""
    scores = np.array([_scores(X, y, seed) for seed in range(splits)])
    accuracy, evidence = scores[:, 0].mean(axis=0), scores[:, 1].mean(axis=0)
    parameters = f"breast cancer, mean of {splits} splits"
    yield Outcome(
        "GP classifier, accuracy",
        parameters,
        100 * accuracy[0],
        PEER,
        100 * accuracy[1],
        100 * (accuracy[0] - accuracy[1]),
        at_least(0.0),
        unit="%",
        figure_unit="%",
    )
    yield Outcome(
        "GP classifier, log evidence",
        parameters,
        evidence[0],
        PEER,
        evidence[1],
        evidence[0] - evidence[1],
        at_least(-1e-3),
        unit="",
        figure_unit="",
    )


def _scores(X: Array, y: Array, seed: int) -> Array:
    X_train, X_test, y_train, y_test = _split(X, y, seed)
    with limited(1):
        mine, peer = _mercer().fit(X_train, y_train), _peer().fit(X_train, y_train)
    return np.array(
        [
            [mine.score(X_test, y_test), peer.score(X_test, y_test)],
            [mine.log_marginal_likelihood_, peer.log_marginal_likelihood_value_],
        ]
    )
