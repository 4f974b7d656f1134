"""Tests of hypotheses: the time of aggregated permutations, and levels by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import binom

import mercer as mc
from benchmarks.harness import Contestant, Outcome, Settings, at_most, race

N, D, RESAMPLES = 500, 5, 2_000
SECONDS = 2.0
SIMULATIONS, ALPHA = 2_000, 0.05
OUTSIDE = 0.001  # probability of a share of rejections above the interval


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    yield _aggregated(settings)
    for n in (20, 100):
        yield _level("mmd_test", mc.inference.mmd_test, n, settings)
        yield _level("hsic_test", mc.inference.hsic_test, n, settings)


def _aggregated(settings: Settings) -> Outcome:
    n = settings.size(N)
    x, y = np.random.default_rng(0).normal(size=(2, n, D))

    def run() -> None:
        mc.inference.mmd_test(x, y, n_resamples=RESAMPLES, random_state=0)

    seconds = race([Contestant("mercer", run, threads=2)], settings)["mercer"]
    parameters = f"{n} + {n} rows, 20 kernels, {RESAMPLES} permutations"
    target = at_most(SECONDS)
    return Outcome(
        "mmd_test", parameters, seconds, "", None, seconds, target, threads=2, figure_unit="s"
    )


def _level(name: str, test: Callable[..., Any], n: int, settings: Settings) -> Outcome:
    """The share of rejections of independent samples of whole numbers, which have ties."""
    rng = np.random.default_rng(0)
    count = SIMULATIONS // 20 if settings.quick else SIMULATIONS
    rejections = 0
    for seed in range(count):
        x, y = np.round(rng.normal(size=(2, n, 1)))
        rejections += test(x, y, n_resamples=99, alpha=ALPHA, random_state=seed).reject
    share, bound = 100 * rejections / count, 100 * binom.isf(OUTSIDE / 2, count, ALPHA) / count
    parameters = f"{n} rows of whole numbers, {count} simulations, level {ALPHA:.0%}"
    return Outcome(
        f"{name}, rejections",
        parameters,
        share,
        "",
        None,
        share,
        at_most(bound),
        unit="%",
        figure_unit="%",
    )
