"""Fits of few rows against scikit-learn: what a call costs before there is work to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

import mercer as mc
from benchmarks.harness import Contestant, Outcome, Settings, at_most, race, slowdown

SIZES = (20, 50, 150)
D = 3
#: How many times a peer's time a small fit may take.
TIMES = 2.0
#: Calls in a row: a single one is too short for the clock.
CALLS = 20


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    for n in SIZES:
        X = np.random.default_rng(0).normal(size=(n, D))
        y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=n)
        labels = (y > 0).astype(int)
        ridge, peer = mc.KernelRidge(mc.RBF(1.0)), KernelRidge(kernel="rbf", gamma=0.5)
        loo = mc.KernelRidge(mc.RBF(1.0), alpha="loo")
        svc, their_svc = mc.SVC(), SVC()
        logistic, process = mc.KernelLogisticRegression(), GaussianProcessClassifier(optimizer=None)
        for name, mine, other, target in (
            ("KernelRidge.fit", (ridge.fit, X, y), (peer.fit, X, y), TIMES),
            ('KernelRidge(alpha="loo").fit', (loo.fit, X, y), (peer.fit, X, y), None),
            ("SVC.fit", (svc.fit, X, labels), (their_svc.fit, X, labels), TIMES),
            ("SVR.fit", (mc.SVR().fit, X, y), (SVR().fit, X, y), TIMES),
            (
                "KernelLogisticRegression.fit",
                (logistic.fit, X, labels),
                (process.fit, X, labels),
                TIMES,
            ),
            ("KernelRidge.predict", (ridge.predict, X), (peer.predict, X), TIMES),
            ("SVC.predict", (svc.predict, X), (their_svc.predict, X), TIMES),
        ):
            yield _outcome(name, n, mine, other, target, settings)


def _outcome(
    name: str, n: int, mine: Any, other: Any, target: float | None, settings: Settings
) -> Outcome:
    contestants = [
        Contestant("mercer", _repeated(*mine)),
        Contestant("scikit-learn", _repeated(*other)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        times = {who: time / CALLS for who, time in race(contestants, settings).items()}
    bound = None if target is None else at_most(target)
    return slowdown(name, f"float64 d={D} n={n}", times, "scikit-learn", bound)


def _repeated(call: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(CALLS):
            call(*arguments)

    return calls
