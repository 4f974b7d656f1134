"""Support vector machines against LIBSVM, which is what scikit-learn has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.svm
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_classification, make_friedman1

import mercer as mc
from benchmarks.harness import Contestant, Outcome, Settings, Target, at_least, race, speedup

Array = NDArray[Any]

N, D = 10_000, 30
N_REGRESSION, D_REGRESSION = 5_000, 20
N_THREADS = 20_000
NEW_ROWS = 2_000

# How close the objectives have to be, relative to themselves.
AGREEMENT = 1e-3


@dataclass(frozen=True)
class Machine:
    """The same machine twice, the data, and the dual objective of coefficients of all rows."""

    mine: Any
    peer: Any
    arguments: tuple[Any, ...]
    objective: Callable[[Any], float]


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    for C, target in ((1.0, 8.0), (100.0, 4.0)):
        yield from _classification(settings, C, at_least(target))
    for C in (1.0, 100.0):
        yield _fit("SVR.fit", _regression(settings, C), settings, at_least(4.0), f"C={C:g}")
    yield _fit("OneClassSVM.fit", _novelty(settings), settings, at_least(3.0), "nu=0.1")
    yield _fit("SVC.fit, precomputed", _given(settings), settings, at_least(1.5), "C=1")
    yield _digits(settings)
    yield _threads(settings)


def _classes(n: int, d: int) -> tuple[Array, Array]:
    X, y = make_classification(
        n, d, n_informative=d // 2, class_sep=1.0, flip_y=0.05, random_state=0
    )
    return X, y


def _classification(settings: Settings, C: float, target: Target) -> Iterator[Outcome]:
    X, y = _classes(settings.size(N), D)
    machine = Machine(
        mc.SVC(C=C), sklearn.svm.SVC(C=C), (X, y), lambda model: _hinge_dual(model, X, y)
    )
    yield _fit("SVC.fit", machine, settings, target, f"C={C:g}")
    new = _classes(settings.size(N) + settings.size(NEW_ROWS), D)[0][-settings.size(NEW_ROWS) :]
    mine, peer = machine.mine.fit(X, y), machine.peer.fit(X, y)
    contestants = [
        Contestant("mercer", lambda: (mine.decision_function(new) > 0).astype(float)),
        Contestant("SVC", lambda: (peer.decision_function(new) > 0).astype(float)),
    ]
    times = race(contestants, settings)
    parameters = f"RBF n={len(X)} d={D} C={C:g}, {len(new)} rows"
    yield speedup("SVC.predict", parameters, times, "SVC", at_least(10.0))


def _regression(settings: Settings, C: float) -> Machine:
    X, y = make_friedman1(settings.size(N_REGRESSION), D_REGRESSION, noise=1.0, random_state=0)

    def objective(model: Any) -> float:
        b = _coefficients(model, len(X))
        return _quadratic(model, X, b) - float(b @ y) + 0.1 * float(np.abs(b).sum())

    return Machine(mc.SVR(C=C), sklearn.svm.SVR(C=C), (X, y), objective)


def _novelty(settings: Settings) -> Machine:
    X, _ = _classes(settings.size(N_REGRESSION), D_REGRESSION)
    return Machine(
        mc.OneClassSVM(nu=0.1),
        sklearn.svm.OneClassSVM(nu=0.1),
        (X,),
        lambda model: _quadratic(model, X, _coefficients(model, len(X))),
    )


def _given(settings: Settings) -> Machine:
    X, y = _classes(settings.size(N_REGRESSION), D_REGRESSION)
    K = mc.RBF(length_scale="scale").resolve(mc.RBF().prepare(X))(X)
    return Machine(
        mc.SVC("precomputed"),
        sklearn.svm.SVC(kernel="precomputed"),
        (K, y),
        lambda model: _hinge_dual(model, X, y),
    )


def _digits(settings: Settings) -> Outcome:
    X, y = load_digits(return_X_y=True)
    contestants = [
        Contestant("mercer", lambda: _nothing(mc.SVC().fit(X, y))),
        Contestant("SVC", lambda: _nothing(sklearn.svm.SVC().fit(X, y))),
    ]
    times = race(contestants, settings)
    return speedup("SVC.fit, digits", "10 classes, 45 pairs", times, "SVC", at_least(1.0))


def _threads(settings: Settings) -> Outcome:
    X, y = _classes(settings.size(N_THREADS), D)
    contestants = [
        Contestant("mercer", lambda: _nothing(mc.SVC().fit(X, y)), threads=2),
        Contestant("one thread", lambda: _nothing(mc.SVC().fit(X, y)), threads=1),
    ]
    times = race(contestants, settings)
    parameters = f"RBF n={len(X)} d={D} C=1"
    return speedup("SVC.fit", parameters, times, "one thread", at_least(1.6), threads=2)


def _fit(
    name: str, machine: Machine, settings: Settings, target: Target, parameters: str
) -> Outcome:
    contestants = [
        Contestant("mercer", lambda: _nothing(machine.mine.fit(*machine.arguments))),
        Contestant("LIBSVM", lambda: _nothing(machine.peer.fit(*machine.arguments))),
    ]
    times = race(contestants, settings)
    mine, peer = machine.objective(machine.mine), machine.objective(machine.peer)
    apart = (mine - peer) / abs(peer)
    if apart > AGREEMENT:
        raise AssertionError(f"{name}: the objective is {apart:.1e} of itself above LIBSVM's")
    n, d = machine.arguments[0].shape
    note = f"the objective is {apart:+.0e} of LIBSVM's away from it"
    return speedup(name, f"n={n} d={d} {parameters}", times, "LIBSVM", target, note=note)


def _nothing(model: Any) -> None:
    """Times are compared, and objectives afterwards."""


# Objectives ---------------------------------------------------------------------------------------


def _coefficients(model: Any, n: int) -> Array:
    found = np.zeros(n)
    found[model.support_] = model.dual_coef_[0]
    return found


def _quadratic(model: Any, X: Array, b: Array) -> float:
    kernel = mc.RBF(length_scale="scale").resolve(mc.RBF().prepare(X))
    carries = np.flatnonzero(b)
    part = b[carries]
    return float(part @ (kernel.gram(X[carries]) @ part)) / 2


def _hinge_dual(model: Any, X: Array, y: Array) -> float:
    b = _coefficients(model, len(X))
    return _quadratic(model, X, b) - float(np.abs(b).sum())
