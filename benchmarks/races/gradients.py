"""The gradient in all parameters at once, against one plain product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_most,
    race,
    slowdown,
    touch_memory,
)
from benchmarks.races.products import points

D = 20
#: Rank-one weights cost nothing to hold; dense ones are a matrix.
LOW_RANK_N = 10_000
DENSE_N = 5_000

OVER_PRODUCT = 2.5


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(2 * settings.size(DENSE_N) ** 2 * 8)
    for dtype in ("float32", "float64"):
        yield _low_rank(settings, dtype)
        yield _dense(settings, dtype)


def _low_rank(settings: Settings, dtype: str) -> Outcome:
    n = settings.size(LOW_RANK_N)
    X, _, v = points(n, D, dtype)
    return _contraction(settings, X, v, (v, v), f"{dtype} d={D} n={n}, rank-1 weights")


def _dense(settings: Settings, dtype: str) -> Outcome:
    n = settings.size(DENSE_N)
    X, _, v = points(n, D, dtype)
    weights = np.multiply.outer(v, v)
    return _contraction(settings, X, v, weights, f"{dtype} d={D} n={n}, dense weights")


def _contraction(settings: Settings, X: Any, v: Any, weights: Any, parameters: str) -> Outcome:
    K = mc.RBF(length_scale=np.full(D, math.sqrt(D))).gram(X)

    def product() -> None:
        K @ v

    contestants = [
        Contestant("mercer", lambda: K.gradient(weights)),
        Contestant("K @ v", product),
    ]
    times = race(contestants, settings)
    return slowdown("gradient of an ARD RBF", parameters, times, "K @ v", at_most(OVER_PRODUCT))
