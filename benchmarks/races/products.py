"""K @ v of an RBF without storing K: against the hardware, KeOps and NumPy in tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

import mercer as mc
from benchmarks import fma, keops, numpy_tiles
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    Target,
    at_least,
    at_most,
    peak_bytes,
    race,
    speedup,
)

Array = NDArray[Any]

N = 20_000
DIMENSIONS = (3, 8, 20, 100)
LARGE_N = 100_000

PEAK_SHARE = 70.0
OVER_KEOPS = {3: 10.0, 20: 7.0, 100: 4.0}
OVER_NUMPY = {
    "float32": {3: 4.5, 20: 2.5, 100: 1.4},
    "float64": {3: 4.5, 20: 3.0, 100: 1.8},
}
TWO_THREADS = 1.8
MEMORY_MB = 200.0


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    n = settings.size(N)
    for dtype in ("float32", "float64"):
        for d in DIMENSIONS:
            yield from _product(settings, n, d, dtype)
    yield from _memory(settings)


def points(n: int, d: int, dtype: DTypeLike, seed: int = 0) -> tuple[Array, Array, Array]:
    """Rows, columns and a vector."""
    random = np.random.default_rng(seed)
    shapes = ((n, d), (n, d), (n,))
    X, Z, v = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    return X, Z, v


def _product(settings: Settings, n: int, d: int, dtype: str) -> Iterator[Outcome]:
    parameters = f"{dtype} d={d} n={n}"
    contestants = _contestants(n, d, dtype)
    mine = contestants[0]
    flops = 0.0
    if fma.available():
        burst, flops = fma.burst(dtype)
        contestants.append(Contestant("FMA peak", burst))
    times = race(contestants, settings)
    if flops:
        yield _share_of_peak(parameters, times, n * n, d, flops, dtype)
    yield speedup("K @ v", parameters, times, "NumPy tiles", _target(OVER_NUMPY[dtype], d))
    if "KeOps" in times:
        yield speedup("K @ v", parameters, times, "KeOps", _target(OVER_KEOPS, d))
    # A race of its own: both are short, so that there is time for more rounds.
    yield _scaling(parameters, race([mine, Contestant("two threads", mine.run, 2)], settings))


def _contestants(n: int, d: int, dtype: str) -> list[Contestant]:
    X, Z, v = points(n, d, dtype)
    length_scale = math.sqrt(d)
    K = mc.RBF(length_scale=length_scale).gram(X, Z)
    contestants = [
        Contestant("mercer", lambda: K @ v),
        Contestant("NumPy tiles", lambda: numpy_tiles.rbf_product(X, Z, v, length_scale)),
    ]
    if dtype == "float32" and d in OVER_KEOPS and keops.available():
        contestants.append(Contestant("KeOps", keops.rbf_product(X, Z, v, length_scale)))
    return contestants


def _target(bounds: dict[int, float], d: int) -> Target | None:
    return at_least(bounds[d]) if d in bounds else None


def _share_of_peak(
    parameters: str, times: dict[str, float], pairs: int, d: int, burst_flops: float, dtype: str
) -> Outcome:
    """The rate of useful operations, counting 2 d + 20 a pair, as a share of the core's peak."""
    peak = burst_flops / times["FMA peak"] / 1e9
    rate = pairs * (2 * d + 20) / times["mercer"] / 1e9
    return Outcome(
        "K @ v",
        parameters,
        rate,
        "FMA peak",
        peak,
        100 * rate / peak,
        at_least(PEAK_SHARE) if dtype == "float32" else None,
        unit="GFLOP/s",
        figure_unit="%",
        note=f"{pairs / times['mercer'] / 1e9:.2f} G pairs/s",
    )


def _scaling(parameters: str, times: dict[str, float]) -> Outcome:
    one, two = times["mercer"], times["two threads"]
    return Outcome(
        "K @ v", parameters, two, "one thread", one, one / two, at_least(TWO_THREADS), threads=2
    )


def _memory(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(LARGE_N)
    for dtype, d in (("float32", 20), ("float64", 3)):
        peak = peak_bytes(large_product, threads=2, n=n, d=d, dtype=dtype) / 1e6
        matrix = n * n * np.dtype(dtype).itemsize / 1e6
        yield Outcome(
            "K @ v, peak memory",
            f"{dtype} d={d} n={n}",
            peak,
            "the matrix",
            matrix,
            peak,
            at_most(MEMORY_MB),
            threads=2,
            unit="MB",
            figure_unit="MB",
        )


def large_product(n: int, d: int, dtype: str) -> Any:
    """The call whose memory is measured."""
    X, Z, v = points(n, d, dtype)
    return lambda: mc.RBF(length_scale=math.sqrt(d)).gram(X, Z) @ v
