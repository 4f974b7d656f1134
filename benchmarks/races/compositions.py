"""Composed kernels, kernels of a user's own, and what a call costs before any work is done."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

import mercer as mc
from benchmarks import numpy_tiles
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    at_most,
    limited,
    race,
    slowdown,
    speedup,
)
from benchmarks.races.products import points

N = 10_000
DIMENSIONS = (3, 8)
LENGTH_SCALE = 2.0
PERIOD = 3.0
CALLS = 2_000

OVER_NUMPY = 4.0
TRACED = 1.2
OVERHEAD = 50e-6


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    for dtype in ("float32", "float64"):
        for d in DIMENSIONS:
            yield _composition(settings, d, dtype)
    for dtype in ("float32", "float64"):
        yield from _traced(settings, dtype)
    yield from _overhead(settings)


# Compositions -------------------------------------------------------------------------------------


def _composition(settings: Settings, d: int, dtype: str) -> Outcome:
    n = settings.size(N)
    X, Z, v = points(n, d, dtype)
    K = _composed().gram(X, Z)

    def tiles() -> Any:
        scales = {"length_scale": LENGTH_SCALE, "period": PERIOD}
        return numpy_tiles.composed_product(X, Z, v, **scales)

    contestants = [Contestant("mercer", lambda: K @ v), Contestant("NumPy tiles", tiles)]
    times = race(contestants, settings)
    name = "(RBF*Periodic/2 + Matern + Linear**2) @ v"
    target = at_least(OVER_NUMPY) if d == DIMENSIONS[0] else None
    return speedup(name, f"{dtype} d={d} n={n}", times, "NumPy tiles", target)


def _composed() -> mc.Kernel:
    smooth = mc.RBF(length_scale=LENGTH_SCALE)
    rough = mc.Matern(nu=1.5, length_scale=LENGTH_SCALE)
    return 0.5 * smooth * mc.Periodic(period=PERIOD) + rough + mc.Linear() ** 2


# A user's kernels, each against the same form built in --------------------------------------------


class Gaussian(mc.Stationary):
    """exp(-r^2 / 2)."""

    def profile(self, r2: Any) -> Any:
        return np.exp(-r2 / 2)


class Cauchy(mc.Stationary):
    """1 / (1 + r^2 / alpha)."""

    alpha = mc.Positive(1.0)

    def profile(self, r2: Any) -> Any:
        return 1 / (1 + r2 / self.alpha)


class Mixture(mc.Stationary):
    """(1 + r^2 / (2 alpha))^-alpha."""

    alpha = mc.Positive(1.0)

    def profile(self, r2: Any) -> Any:
        return np.exp(-self.alpha * np.log1p(r2 / (2 * self.alpha)))


def _traced(settings: Settings, dtype: str) -> Iterator[Outcome]:
    yield _against_built_in(settings, dtype, Gaussian(), mc.RBF())
    yield _against_built_in(settings, dtype, Mixture(alpha=0.7), mc.RationalQuadratic(alpha=0.7))
    # The same function, at alpha = 1, where the built-in form takes a logarithm.
    yield _against_built_in(settings, dtype, Cauchy(alpha=2.0), mc.RationalQuadratic(alpha=1.0))


def _against_built_in(
    settings: Settings, dtype: str, kernel: mc.Kernel, built_in: mc.Kernel
) -> Outcome:
    n, d = settings.size(N), 3
    X, Z, v = points(n, d, dtype)
    mine, other = kernel.gram(X, Z), built_in.gram(X, Z)
    peer = type(built_in).__name__
    contestants = [Contestant("mercer", lambda: mine @ v), Contestant(peer, lambda: other @ v)]
    times = race(contestants, settings)
    name = f"a user's {type(kernel).__name__} @ v"
    return slowdown(name, f"{dtype} d={d} n={n}", times, peer, at_most(TRACED))


# Overhead -----------------------------------------------------------------------------------------


def _overhead(settings: Settings) -> Iterator[Outcome]:
    X, Z, _ = points(16, 16, "float64")
    kernel = mc.RBF()
    calls: dict[str, Callable[[], Any]] = {
        "k(X)": lambda: kernel(X),
        "k(X, Z)": lambda: kernel(X, Z),
        "check_array": lambda: check_array(X),
    }
    samples = _durations(calls, CALLS // 10 if settings.quick else CALLS)
    for name in ("k(X)", "k(X, Z)"):
        for statistic in (min, statistics.median):
            mine, peer = statistic(samples[name]), statistic(samples["check_array"])
            yield Outcome(
                f"overhead of {name}",
                f"float64 16 x 16, {'best' if statistic is min else 'median'} call",
                mine,
                "check_array",
                peer,
                1e6 * mine,
                at_most(1e6 * OVERHEAD),
                figure_unit="µs",
            )


def _durations(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """The time of every single call, the functions taking turns."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with limited(1):
        for call in calls.values():
            call()
        for _ in range(repeats):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                samples[name].append(time.perf_counter() - start)
    return samples
