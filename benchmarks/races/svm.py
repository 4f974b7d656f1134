"""Support vector machines against LIBSVM, which is what scikit-learn has.

LIBSVM's own package, scikit-learn-intelex and ThunderSVM take part where they are installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.svm
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.model_selection import GridSearchCV

import mercer as mc
from benchmarks.environment import installed
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    Target,
    at_least,
    one_core,
    race,
    speedup,
)

Array = NDArray[Any]

N, D = 10_000, 30
N_REGRESSION, D_REGRESSION = 5_000, 20
N_THREADS = 20_000
N_CLASSES, OF_CLASS = 100, 30
NEW_ROWS = 2_000
SAME = 0.998  # of the rows are to have the same class
N_GRID, COSTS, MULTIPLES = 2_000, (0.1, 1.0, 10.0, 100.0, 1000.0), (0.25, 0.5, 1.0, 2.0, 4.0)

# Other machines with scikit-learn's interface: their names, and the modules with an SVC.
OTHERS = {"scikit-learn-intelex": "sklearnex.svm", "ThunderSVM": "thundersvm"}
OFFICIAL = "libsvm-official"

# How close the objectives have to be, relative to themselves.
AGREEMENT = 1e-3
# How far apart mean scores of the grid may be: machines within the tolerance are not the same.
SCORES = 5e-3


@dataclass(frozen=True)
class Machine:
    """The same machine twice, the data, and the dual objective of coefficients of all rows."""

    mine: Any
    peer: Any
    arguments: tuple[Any, ...]
    objective: Callable[[Any], float]


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    yield _threads(settings)  # before peers bring threads of their own
    for C, target in ((1.0, 8.0), (100.0, 4.0)):
        yield from _classification(settings, C, at_least(target))
    for C in (1.0, 100.0):
        yield _fit("SVR.fit", _regression(settings, C), settings, at_least(4.0), f"C={C:g}")
    yield _fit("OneClassSVM.fit", _novelty(settings), settings, at_least(3.0), "nu=0.1")
    yield _fit("SVC.fit, precomputed", _given(settings), settings, at_least(1.5), "C=1")
    yield from _digits(settings)
    yield from _small(settings)
    yield from _many_classes(settings)
    yield _grid(settings)


def _classes(n: int, d: int) -> tuple[Array, Array]:
    X, y = make_classification(
        n, d, n_informative=d // 2, class_sep=1.0, flip_y=0.05, random_state=0
    )
    return X, y


def _classification(settings: Settings, C: float, target: Target) -> Iterator[Outcome]:
    X, y = _classes(settings.size(N), D)
    gamma = _gamma(X)
    machine = Machine(
        mc.SVC(C=C, gamma=gamma),
        sklearn.svm.SVC(C=C, gamma=gamma),
        (X, y),
        lambda model: _hinge_dual(model, X),
    )
    yield _fit("SVC.fit", machine, settings, target, f"C={C:g}")
    if C == 100.0:
        yield _with_room(settings, machine, C)
    with one_core():
        yield from _others(settings, machine, C, gamma)
    new = _classes(settings.size(N) + settings.size(NEW_ROWS), D)[0][-settings.size(NEW_ROWS) :]
    mine, peer = machine.mine.fit(X, y), machine.peer.fit(X, y)
    parameters = f"RBF n={len(X)} d={D} C={C:g}, {len(new)} rows"
    yield _predictions("SVC.predict", parameters, (mine, peer), new, settings, at_least(10.0))


def _predictions(
    name: str,
    parameters: str,
    machines: tuple[Any, Any],
    X: Array,
    settings: Settings,
    target: Target | None = None,
) -> Outcome:
    """Classes of rows; at the boundary they depend on where within `tol` a fit ends."""
    mine, peer = machines
    same = float(np.mean(mine.predict(X) == peer.predict(X)))
    if same < SAME:
        raise RuntimeError(f"{name}: {same:.2%} of the rows have the same class")
    contestants = [
        Contestant("mercer", lambda: _nothing(mine.predict(X))),
        Contestant("SVC", lambda: _nothing(peer.predict(X))),
    ]
    times, note = race(contestants, settings), f"{same:.2%} of the rows have the same class"
    return speedup(name, parameters, times, "SVC", target, note=note)


def _with_room(settings: Settings, machine: Machine, C: float) -> Outcome:
    """LIBSVM with a cache for the whole matrix."""
    roomy = replace(machine, peer=clone(machine.peer).set_params(cache_size=1000))
    return _fit("SVC.fit, cache_size=1000", roomy, settings, None, f"C={C:g}")


def _others(settings: Settings, machine: Machine, C: float, gamma: float) -> Iterator[Outcome]:
    """Machines that may not be installed."""
    fits = {
        name: import_module(module).SVC(C=C, gamma=gamma).fit
        for name, module in OTHERS.items()
        if installed(module.split(".")[0])
    }
    if installed("libsvm"):
        fits[OFFICIAL] = _official(C, gamma)
    X, y = machine.arguments
    for name, fit in fits.items():
        contestants = [
            Contestant("mercer", lambda: _nothing(machine.mine.fit(X, y))),
            Contestant(name, lambda fit=fit: _nothing(fit(X, y))),
        ]
        times = race(contestants, settings)
        note = _agreement("SVC.fit", machine.objective, machine.mine, fit(X, y), name)
        yield speedup("SVC.fit", f"n={len(X)} d={D} C={C:g}", times, name, note=note)


def _official(C: float, gamma: float) -> Callable[[Array, Array], Any]:
    train = import_module("libsvm.svmutil").svm_train

    def fit(X: Array, y: Array) -> Any:
        return train(y.astype(float), X, f"-q -c {C:g} -g {gamma:.17g} -e 1e-3 -m 200")

    return fit


def _absent() -> str:
    """Those that cannot take part, by name."""
    modules = {name: module.split(".")[0] for name, module in OTHERS.items()} | {OFFICIAL: "libsvm"}
    names = [name for name, module in modules.items() if not installed(module)]
    return f"; not installed: {', '.join(names)}" if names else ""


def _regression(settings: Settings, C: float) -> Machine:
    X, y = make_friedman1(settings.size(N_REGRESSION), D_REGRESSION, noise=1.0, random_state=0)

    def objective(model: Any) -> float:
        b = _coefficients(model, len(X))
        return _quadratic(X, b) - float(b @ y) + 0.1 * float(np.abs(b).sum())

    gamma = _gamma(X)
    return Machine(mc.SVR(C=C, gamma=gamma), sklearn.svm.SVR(C=C, gamma=gamma), (X, y), objective)


def _novelty(settings: Settings) -> Machine:
    X, _ = _classes(settings.size(N_REGRESSION), D_REGRESSION)
    gamma = _gamma(X)
    return Machine(
        mc.OneClassSVM(nu=0.1, gamma=gamma),
        sklearn.svm.OneClassSVM(nu=0.1, gamma=gamma),
        (X,),
        lambda model: _quadratic(X, _coefficients(model, len(X))),
    )


def _given(settings: Settings) -> Machine:
    X, y = _classes(settings.size(N_REGRESSION), D_REGRESSION)
    K = mc.RBF.from_gamma(_gamma(X))(X)
    return Machine(
        mc.SVC("precomputed"),
        sklearn.svm.SVC(kernel="precomputed"),
        (K, y),
        lambda model: _hinge_dual(model, X),
    )


def _digits(settings: Settings) -> Iterator[Outcome]:
    """The digits that are bundled with scikit-learn, and those of USPS where they are stored."""
    X, y = load_digits(return_X_y=True)
    yield from _pairs("digits", X, y, settings, 1.0, _gamma(X), (at_least(1.0), None))
    if "MERCER_DATA" not in os.environ:
        return
    usps = np.load(Path(os.environ["MERCER_DATA"]) / "classification" / "usps.npz")
    targets = at_least(2.5), at_least(1.5)
    yield from _pairs("USPS", usps["X_train"], usps["y_train"], settings, 10.0, 1 / 128, targets)


def _pairs(
    name: str,
    X: Array,
    y: Array,
    settings: Settings,
    C: float,
    gamma: float,
    targets: tuple[Target | None, Target | None],
) -> Iterator[Outcome]:
    """The 45 pairs of ten classes, on one thread and on two."""
    mine, both = mc.SVC(C=C, gamma=gamma), mc.SVC(C=C, gamma=gamma)
    peer = sklearn.svm.SVC(C=C, gamma=gamma)
    contestants = [
        Contestant("mercer", lambda: _nothing(mine.fit(X, y))),
        Contestant("SVC", lambda: _nothing(peer.fit(X, y))),
    ]
    times = race(contestants, settings)
    name, parameters = f"SVC.fit, {name}", f"n={len(X)} d={X.shape[1]} C={C:g}, 45 pairs"
    note = _agreement(name, lambda model: _pairs_dual(model, X, gamma), mine, peer, "LIBSVM")
    yield speedup(name, parameters, times, "SVC", targets[0], note=note)
    if targets[1] is None:
        return
    contestants = [
        Contestant("mercer", lambda: _nothing(both.fit(X, y)), threads=2),
        Contestant("one thread", lambda: _nothing(mine.fit(X, y)), threads=1),
    ]
    times = race(contestants, settings)
    yield speedup(name, parameters, times, "one thread", targets[1], threads=2)


def _many_classes(settings: Settings) -> Iterator[Outcome]:
    """Machines for thousands of pairs of classes, one thread each."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), OF_CLASS)
    X = 2 * rng.normal(size=(N_CLASSES, 10))[y] + rng.normal(size=(len(y), 10))
    gamma = _gamma(X)
    mine, peer = mc.SVC(gamma=gamma), sklearn.svm.SVC(gamma=gamma)
    parameters = f"{N_CLASSES} classes, n={len(X)} d=10 C=1"
    fits = [
        Contestant("mercer", lambda: _nothing(mine.fit(X, y))),
        Contestant("SVC", lambda: _nothing(peer.fit(X, y))),
    ]
    times, name = race(fits, settings), "SVC.fit, many classes"
    note = _agreement(name, lambda model: _pairs_dual(model, X, gamma), mine, peer, "LIBSVM")
    yield speedup(name, parameters, times, "SVC", note=note)
    yield _predictions("SVC.predict, many classes", parameters, (mine, peer), X, settings)


def _small(settings: Settings) -> Iterator[Outcome]:
    """Fits of few rows, which loops and cross-validation make by the thousand."""
    X, y = _classes(150, 5)
    for n in (50, 150):
        yield _small_fit("SVC", X[:n], y[:n], settings)
        yield _small_fit("SVR", X[:n], X[:n, 0], settings)


def _small_fit(machine: str, X: Array, y: Array, settings: Settings) -> Outcome:
    mine, peer = getattr(mc, machine)(), getattr(sklearn.svm, machine)()
    fits = [
        Contestant("mercer", lambda: _nothing(mine.fit(X, y))),
        Contestant("LIBSVM", lambda: _nothing(peer.fit(X, y))),
    ]
    times, parameters = race(fits, settings), f"n={len(X)} d={X.shape[1]}"
    return speedup(f"{machine}.fit, small", parameters, times, "LIBSVM", at_least(0.5))


def _grid(settings: Settings) -> Outcome:
    """All candidates on all folds, one thread each, without a machine of the best."""
    X, y = _classes(settings.size(N_GRID), D)
    lengths = [multiple * float(np.sqrt(D * X.var() / 2)) for multiple in MULTIPLES]
    mine = mc.SVCSearch(Cs=COSTS, length_scales=lengths, cv=5, refit=False)
    candidates = {"gamma": [1 / (2 * length**2) for length in lengths], "C": list(COSTS)}
    peer = GridSearchCV(sklearn.svm.SVC(), candidates, cv=5, refit=False)
    contestants = [
        Contestant("mercer", lambda: _nothing(mine.fit(X, y))),
        Contestant("GridSearchCV(SVC)", lambda: _nothing(peer.fit(X, y))),
    ]
    times = race(contestants, settings)
    apart = _table(mine, "kernel__length_scale") - _table(peer, "gamma")
    if np.abs(apart).max() > SCORES:
        raise AssertionError(f"SVCSearch: mean scores differ by {np.abs(apart).max():.1e}")
    parameters = f"n={len(X)} d={D}, {len(COSTS)} C x {len(lengths)} length-scales x 5 folds"
    note = f"mean scores differ by {np.abs(apart).max():.0e} at most"
    return speedup(
        "SVCSearch.fit", parameters, times, "GridSearchCV(SVC)", at_least(8.0), note=note
    )


def _table(search: Any, width: str) -> Array:
    """Mean scores, wider kernels later, then larger C."""
    results = search.cv_results_
    widths = np.asarray(results[f"param_{width}"], float)
    order = np.lexsort([np.asarray(results["param_C"], float), widths])
    if width == "gamma":
        order = order.reshape(len(MULTIPLES), -1)[::-1].ravel()
    return np.asarray(results["mean_test_score"])[order]


def _threads(settings: Settings) -> Outcome:
    X, y = _classes(settings.size(N_THREADS), D)
    gamma = _gamma(X)
    both, one = mc.SVC(gamma=gamma), mc.SVC(gamma=gamma)
    contestants = [
        Contestant("mercer", lambda: _nothing(both.fit(X, y)), threads=2),
        Contestant("one thread", lambda: _nothing(one.fit(X, y)), threads=1),
    ]
    # What delays either of two threads delays both: rounds without such noise are rare.
    times = race(contestants, replace(settings, rounds=40))
    parameters = f"RBF n={len(X)} d={D} C=1"
    note = _agreement("SVC.fit", lambda model: _hinge_dual(model, X), both, one, "one thread")
    return speedup("SVC.fit", parameters, times, "one thread", at_least(1.6), threads=2, note=note)


def _fit(
    name: str, machine: Machine, settings: Settings, target: Target | None, parameters: str
) -> Outcome:
    contestants = [
        Contestant("mercer", lambda: _nothing(machine.mine.fit(*machine.arguments))),
        Contestant("LIBSVM", lambda: _nothing(machine.peer.fit(*machine.arguments))),
    ]
    times = race(contestants, settings)
    n, d = machine.arguments[0].shape
    note = _agreement(name, machine.objective, machine.mine, machine.peer, "LIBSVM")
    if name == "SVC.fit":
        note += _absent()
    return speedup(name, f"n={n} d={d} {parameters}", times, "LIBSVM", target, note=note)


def _nothing(model: Any) -> None:
    """Times are compared, and objectives afterwards."""


# Objectives ---------------------------------------------------------------------------------------


def _gamma(X: Array) -> float:
    """What "scale" stands for, so that all have the same number."""
    return float(1 / (X.shape[1] * X.var()))


def _agreement(
    name: str, objective: Callable[[Any], float], mine: Any, other: Any, peer: str
) -> str:
    """Both objectives; mercer's may be the smaller one, and hardly larger."""
    ours, theirs = objective(mine), objective(other)
    apart = (ours - theirs) / abs(theirs)
    if apart > AGREEMENT:
        raise AssertionError(f"{name}: the objective is {apart:.1e} of itself above {peer}'s")
    return f"objective {ours:.8g}, {peer} {theirs:.8g} ({apart:+.0e})"


def _coefficients(model: Any, n: int) -> Array:
    """Those of all rows for one function, of scikit-learn's interface or of LIBSVM's own."""
    found = np.zeros(n)
    if hasattr(model, "get_sv_coef"):
        found[np.array(model.get_sv_indices()) - 1] = np.array(model.get_sv_coef())[:, 0]
        return found
    dual = model.dual_coef_
    found[model.support_] = np.ravel(dual.toarray() if issparse(dual) else dual)
    return found


def _quadratic(X: Array, b: Array) -> float:
    carries = np.flatnonzero(b)
    part = b[carries]
    return float(part @ (mc.RBF.from_gamma(_gamma(X)).gram(X[carries]) @ part)) / 2


def _hinge_dual(model: Any, X: Array) -> float:
    b = _coefficients(model, len(X))
    return _quadratic(X, b) - float(np.abs(b).sum())


def _pairs_dual(model: Any, X: Array, gamma: float) -> float:
    """The sum of the objectives of all pairs of classes."""
    gram = mc.RBF.from_gamma(gamma)(X[model.support_])
    codes = np.repeat(np.arange(len(model.n_support_)), model.n_support_)
    total = 0.0
    for first, second in combinations(range(len(model.n_support_)), 2):
        mine, other = codes == first, codes == second
        b = np.where(mine, model.dual_coef_[second - 1], 0.0)
        b = np.where(other, model.dual_coef_[first], b)
        total += float(b @ gram @ b) / 2 - float(np.abs(b).sum())
    return total
