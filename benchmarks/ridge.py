"""Kernel ridge regression against scikit-learn: one fit, and a search over a grid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import GridSearchCV

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
    touch_memory,
)

Array = NDArray[Any]

N = 4_000
SEARCH_N = 1_500
HELD_OUT = 2_000
D = 10
LENGTH_SCALE = 1.5

ALPHAS = np.logspace(-4, 2, 10)
LENGTH_SCALES = np.logspace(-0.5, 1.0, 5)

FIT = 1.4
MEMORY = 1.3
SEARCH = 4.0
WORSE = 0.0


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(3 * settings.size(N) ** 2 * 8)
    for threads in (1, 2):
        yield from _fits(settings, threads)
    yield _memory(settings, fit_intercept=False)
    yield _memory(settings, fit_intercept=True)
    yield from _searches(settings)


def _data(n: int, seed: int = 0) -> tuple[Array, Array]:
    X, y = make_friedman1(n, n_features=D, noise=1.0, random_state=seed)
    return X, y


def _mercer(fit_intercept: bool) -> mc.KernelRidge:
    return mc.KernelRidge(mc.RBF(length_scale=LENGTH_SCALE), fit_intercept=fit_intercept)


def _peer() -> KernelRidge:
    return KernelRidge(kernel="rbf", gamma=_gamma(LENGTH_SCALE))


def _gamma(length_scale: float) -> float:
    return 1 / (2 * length_scale**2)


# One fit ------------------------------------------------------------------------------------------


def _fits(settings: Settings, threads: int) -> Iterator[Outcome]:
    n = settings.size(N)
    X, y = _data(n)

    def with_intercept() -> None:
        _mercer(True).fit(X, y)

    contestants = [
        Contestant("mercer", lambda: _mercer(False).fit(X, y).dual_coef_, threads),
        Contestant("with intercept", with_intercept, threads),
        Contestant("KernelRidge", lambda: _peer().fit(X, y).dual_coef_, threads),
    ]
    times = race(contestants, settings)
    target = at_least(FIT) if threads == 1 else None
    parameters = f"float64 d={D} n={n}"
    yield speedup(
        "KernelRidge.fit",
        f"{parameters}, no intercept",
        times,
        "KernelRidge",
        target,
        threads=threads,
    )
    times = times | {"mercer": times["with intercept"]}
    yield speedup(
        "KernelRidge.fit", f"{parameters}, intercept", times, "KernelRidge", target, threads=threads
    )


def _memory(settings: Settings, fit_intercept: bool) -> Outcome:
    n = settings.size(N)
    gram = n * n * 8
    mine = peak_bytes(mercer_fit, n=n, fit_intercept=fit_intercept) / gram
    peer = peak_bytes(peer_fit, n=n) / gram
    intercept = "intercept" if fit_intercept else "no intercept"
    return Outcome(
        "KernelRidge.fit, peak memory",
        f"float64 d={D} n={n}, {intercept}, in Gram matrices",
        mine,
        "KernelRidge",
        peer,
        mine,
        at_most(MEMORY),
        unit="Grams",
    )


def mercer_fit(n: int, fit_intercept: bool) -> Any:
    """The fit whose memory is measured."""
    X, y = _data(n)
    return lambda: _mercer(fit_intercept).fit(X, y)


def peer_fit(n: int) -> Any:
    """The peer's fit."""
    X, y = _data(n)
    return lambda: _peer().fit(X, y)


# A search -----------------------------------------------------------------------------------------


def _searches(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(SEARCH_N)
    X, y = _data(n)
    y = y - y.mean()  # the peer has no intercept
    models = {
        "mercer": _mercer_search(fit_intercept=False),
        "with intercept": _mercer_search(fit_intercept=True),
        "GridSearchCV": _peer_search(),
    }

    def fit(model: Any) -> None:
        model.fit(X, y)

    contestants = [Contestant(name, partial(fit, model)) for name, model in models.items()]
    times = race(contestants, settings)
    grid = f"d={D} n={n}, {len(ALPHAS)} alphas x {len(LENGTH_SCALES)} length-scales"
    offset = _data(n)[1].mean()
    for name, intercept in (("mercer", "no intercept"), ("with intercept", "intercept")):
        parameters = f"{grid}, {intercept}"
        own = times | {"mercer": times[name]}
        yield speedup("choice by leave-one-out", parameters, own, "GridSearchCV", at_least(SEARCH))
        yield _held_out_error(parameters, models[name], models["GridSearchCV"], offset)


def _mercer_search(fit_intercept: bool) -> mc.KernelRidge:
    return mc.KernelRidge(
        mc.RBF(),
        alpha="loo",
        fit_intercept=fit_intercept,
        alphas=ALPHAS,
        length_scales=list(LENGTH_SCALES),
    )


def _peer_search() -> GridSearchCV:
    grid = {"alpha": ALPHAS, "gamma": [_gamma(length) for length in LENGTH_SCALES]}
    return GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=5, scoring="neg_mean_squared_error")


def _held_out_error(parameters: str, mine: Any, peer: Any, offset: float) -> Outcome:
    X, y = _data(HELD_OUT, seed=1)
    errors = [mean_squared_error(y - offset, model.predict(X)) for model in (mine, peer)]
    chosen = f"alpha {mine.alpha_:.3g}, length-scale {mine.kernel_.length_scale:.3g}"
    other = f"alpha {peer.best_params_['alpha']:.3g}, length-scale {_length(peer):.3g}"
    return Outcome(
        "held-out error of the choice",
        parameters,
        errors[0],
        "GridSearchCV",
        errors[1],
        100 * (errors[0] / errors[1] - 1),
        at_most(WORSE),
        unit="MSE",
        figure_unit="%",
        note=f"{chosen}; peer {other}",
    )


def _length(peer: Any) -> float:
    return 1 / math.sqrt(2 * peer.best_params_["gamma"])
