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
HELD_OUT = 4_000
D = 10
LENGTH_SCALE = 1.5

ALPHAS = np.logspace(-4, 2, 10)
LENGTH_SCALES = np.logspace(-0.5, 1.0, 5)

FIT = 1.4
MEMORY = 1.3
SEARCH = 4.0
DRAWS = 8


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
    X, y = _centred(n, seed=0)

    def fit(model: Any) -> None:
        model.fit(X, y)

    models = {
        "mercer": _mercer_search(fit_intercept=False),
        "with intercept": _mercer_search(fit_intercept=True),
        "GridSearchCV": _peer_search(),
    }
    contestants = [Contestant(name, partial(fit, model)) for name, model in models.items()]
    times = race(contestants, settings)
    grid = f"d={D} n={n}, {len(ALPHAS)} alphas x {len(LENGTH_SCALES)} length-scales"
    for name, intercept in (("mercer", "no intercept"), ("with intercept", "intercept")):
        own = times | {"mercer": times[name]}
        yield speedup(
            "choice by leave-one-out",
            f"{grid}, {intercept}",
            own,
            "GridSearchCV",
            at_least(SEARCH),
        )
    yield _held_out_error(grid, n, settings)


def _centred(n: int, seed: int) -> tuple[Array, Array]:
    """Data with targets of mean zero: the peer has no intercept."""
    X, y = _data(n, seed)
    return X, y - y.mean()


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


def _held_out_error(grid: str, n: int, settings: Settings) -> Outcome:
    """Mean error on fresh data over several draws: one draw alone decides by the luck of a tie.

    Required is that it is not worse by two standard errors, which happens to an equal method once
    in forty runs.
    """
    draws = 2 if settings.quick else DRAWS
    errors = np.array([_errors_of_choice(n, seed) for seed in range(draws)])
    worse = 100 * (errors[:, 0] / errors[:, 1] - 1)
    standard_error = float(worse.std(ddof=1) / math.sqrt(draws))
    return Outcome(
        "held-out error of the choice",
        f"{grid}, mean of {draws} draws",
        float(errors[:, 0].mean()),
        "GridSearchCV",
        float(errors[:, 1].mean()),
        float(worse.mean()),
        at_most(2 * standard_error),
        unit="MSE",
        figure_unit="%",
        note=f"standard error of the difference {standard_error:.2f}%",
    )


def _errors_of_choice(n: int, seed: int) -> tuple[float, float]:
    X, y = _data(n, seed)
    fresh_X, fresh_y = _data(HELD_OUT, 1000 + seed)
    offset = y.mean()
    models = (_mercer_search(fit_intercept=False), _peer_search())
    mine, peer = (
        mean_squared_error(fresh_y - offset, model.fit(X, y - offset).predict(fresh_X))
        for model in models
    )
    return mine, peer
