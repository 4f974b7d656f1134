"""Two threads against one: on idle cores at many sizes, and beside a process that computes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

import mercer as mc
from benchmarks.harness import Contestant, Outcome, Settings, at_least, at_most, race, speedup
from mercer import solvers

Array = NDArray[Any]

D = 8
#: Models with the number of rows at which the second thread has to bring half of itself.
MODELS: dict[str, tuple[Any, int]] = {
    "KernelRidge(solver=NystromSolver(1000))": (
        mc.KernelRidge(mc.RBF(2.0), solver=solvers.NystromSolver(1000, random_state=0)),
        20_000,
    ),
    "KernelRidge(solver=Falkon(1000))": (
        mc.KernelRidge(mc.RBF(2.0), solver=solvers.Falkon(1000, random_state=0)),
        20_000,
    ),
    "KernelRidge(solver=ConjugateGradient())": (
        mc.KernelRidge(mc.RBF(2.0), solver=solvers.ConjugateGradient(random_state=0)),
        10_000,
    ),
    'KernelRidge(alpha="loo")': (
        mc.KernelRidge(mc.RBF(2.0), alpha="loo", solver=solvers.Cholesky()),
        1_500,
    ),
    "KernelLogisticRegression()": (
        mc.KernelLogisticRegression(mc.RBF(2.0), solver=solvers.Cholesky()),
        2_000,
    ),
    "GaussianProcessRegressor()": (mc.GaussianProcessRegressor(), 1_000),
}
#: Sizes at which the second thread must not cost anything, as far as they are below the one above.
SIZES = (50, 200, 500, 1_000, 1_490, 1_510, 5_000)
BESIDE = 2.5  # times as long, where another process takes a core
WITHIN_NOISE = 0.95
SPINNER = "while True: pass"


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    for name, (model, n) in MODELS.items():
        yield _two_threads(settings, name, model, settings.size(n), 1.5)
        yield _beside(settings, name, model, settings.size(n))
    for name, (model, most) in MODELS.items():
        for n in SIZES:
            if n < most:
                yield _two_threads(settings, name, model, settings.size(n), WITHIN_NOISE)
    yield _two_threads(settings, "SVC()", mc.SVC(), settings.size(2_000), WITHIN_NOISE)


def _two_threads(settings: Settings, name: str, model: Any, n: int, least: float) -> Outcome:
    fit = _fit(model, n)
    contestants = [Contestant("mercer", fit, 2), Contestant("one thread", fit, 1)]
    times = race(contestants, settings)
    return speedup(f"{name}.fit", f"n={n} d={D}", times, "one thread", at_least(least), threads=2)


def _beside(settings: Settings, name: str, model: Any, n: int) -> Outcome:
    """The time beside another process, relative to the time alone."""
    fit = _fit(model, n)
    alone = race([Contestant("mercer", fit, 2)], settings)["mercer"]
    with _spinner():
        beside = race([Contestant("mercer", fit, 2)], settings)["mercer"]
    return Outcome(
        f"{name}.fit beside another process",
        f"n={n} d={D}",
        beside,
        "alone",
        alone,
        beside / alone,
        at_most(BESIDE),
        threads=2,
    )


@contextmanager
def _spinner() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", SPINNER])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _fit(model: Any, n: int) -> Callable[[], None]:
    X, y = _data(n)
    if is_classifier(model):
        y = (y > np.median(y)).astype(int)

    def fit() -> None:
        clone(model).fit(X, y)

    return fit


def _data(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=n)
