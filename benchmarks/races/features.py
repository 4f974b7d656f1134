"""Random features against scikit-learn's, structured ones against dense ones, and their growth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    at_most,
    race,
    speedup,
    touch_memory,
)

Array = NDArray[Any]

N, D = 20_000, 20
COMPONENTS = 1_000
ALPHA = 1.0
LENGTH_SCALE = math.sqrt(D)
SEEDS = 10

WIDE_N, WIDE_D, WIDE_COMPONENTS = 2_000, 1_024, 2_048
GROWTH_N, GROWTH_COMPONENTS = 1_000, 8_192
GROWTH_DIMENSIONS = (256, 1_024, 4_096)

RIDGE = 2.0
STRUCTURED = 4.0


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(2 * settings.size(N) * COMPONENTS * 8)
    yield from _ridge(settings)
    yield from _errors(settings)
    for dtype in ("float64", "float32"):
        yield _structured(settings, dtype)
    yield from _growth(settings)


def _fourier(n_components: int = COMPONENTS, seed: int = 0, **parameters: Any) -> mc.RandomFourier:
    kernel = mc.RBF(length_scale=LENGTH_SCALE)
    return mc.RandomFourier(kernel, n_components, random_state=seed, **parameters)


def _sampler(n_components: int = COMPONENTS, seed: int = 0) -> RBFSampler:
    return RBFSampler(gamma=1 / (2 * LENGTH_SCALE**2), n_components=n_components, random_state=seed)


def _data(n: int, d: int, dtype: str = "float64", seed: int = 0) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


# Features, and ridge regression on them -----------------------------------------------------------


def _ridge(settings: Settings) -> Iterator[Outcome]:
    X, y = _data(settings.size(N), D)
    parameters = f"float64 d={D} n={len(X)}, {COMPONENTS} components"

    def features(transformer: Any) -> None:
        transformer.fit(X).transform(X)

    contestants = [
        Contestant("mercer", partial(features, _fourier())),
        Contestant("RBFSampler", partial(features, _sampler())),
    ]
    yield speedup("random features", parameters, race(contestants, settings), "RBFSampler")

    def fit(transformer: Any) -> Any:
        return make_pipeline(transformer, Ridge(ALPHA)).fit(X, y)

    def solved() -> Any:
        fourier = _fourier()
        solver = mc.solvers.RandomFeatures(fourier)
        return mc.KernelRidge(fourier.kernel, alpha=ALPHA, solver=solver).fit(X, y)

    contestants = [
        Contestant("mercer", solved),
        Contestant("same Ridge", partial(fit, _fourier())),
        Contestant("RBFSampler", partial(fit, _sampler())),
    ]
    times = race(contestants, settings)
    yield speedup("random features + ridge", parameters, times, "RBFSampler", at_least(RIDGE))
    times["mercer"] = times["same Ridge"]
    yield speedup("random features + scikit-learn's Ridge", parameters, times, "RBFSampler")
    yield _test_error(parameters, solved(), fit(_sampler()))


def _test_error(parameters: str, mine: Any, peer: Any) -> Outcome:
    X, y = _data(5_000, D, seed=1)
    errors = [math.sqrt(np.mean((model.predict(X) - y) ** 2)) for model in (mine, peer)]
    return Outcome(
        "random features + ridge, test RMSE",
        parameters,
        errors[0],
        "RBFSampler",
        errors[1],
        errors[0] / errors[1],
        unit="",
    )


def _errors(settings: Settings) -> Iterator[Outcome]:
    """Root mean square error of the kernel matrix, over several draws."""
    X, _ = _data(500, D)
    K = mc.RBF(length_scale=LENGTH_SCALE)(X)
    seeds = range(2 if settings.quick else SEEDS)
    peer = _error([_sampler(seed=seed) for seed in seeds], X, K)
    for method in ("orthogonal", "iid", "sobol", "structured"):
        mine = _error([_fourier(seed=seed, method=method) for seed in seeds], X, K)
        yield Outcome(
            f"kernel error, {method}",
            f"d={D}, {COMPONENTS} components, mean of {len(seeds)} draws",
            mine,
            "RBFSampler",
            peer,
            mine / peer,
            at_most(1.0) if method == "orthogonal" else None,
            unit="rms",
        )


def _error(transformers: list[Any], X: Array, K: Array) -> float:
    maps = [transformer.fit_transform(X) for transformer in transformers]
    return float(np.sqrt(np.mean([np.mean((Phi @ Phi.T - K) ** 2) for Phi in maps])))


# Hadamard matrices --------------------------------------------------------------------------------


def _structured(settings: Settings, dtype: str) -> Outcome:
    X, _ = _data(settings.size(WIDE_N), WIDE_D, dtype)
    dense = _fourier(WIDE_COMPONENTS).fit(X)
    structured = _fourier(WIDE_COMPONENTS, method="structured").fit(X)

    def transform(transformer: Any) -> None:
        transformer.transform(X)

    contestants = [
        Contestant("mercer", partial(transform, structured)),
        Contestant("dense", partial(transform, dense)),
    ]
    parameters = f"{dtype} d={WIDE_D} n={len(X)}, {WIDE_COMPONENTS} components"
    times = race(contestants, settings)
    return speedup("structured features", parameters, times, "dense", at_least(STRUCTURED))


def _growth(settings: Settings) -> Iterator[Outcome]:
    """Fastfood's time beside D log d, and beside a dense map's, both relative to the smallest d."""
    n = settings.size(GROWTH_N)
    base: dict[str, float] = {}
    for d in GROWTH_DIMENSIONS:
        X, _ = _data(n, d)
        kernel = mc.RBF(length_scale=math.sqrt(d))
        maps = {
            "mercer": mc.Fastfood(kernel, GROWTH_COMPONENTS, random_state=0).fit(X),
            "dense": mc.RandomFourier(kernel, GROWTH_COMPONENTS, random_state=0).fit(X),
        }

        def transform(transformer: Any, X: Array = X) -> None:
            transformer.transform(X)

        contestants = [Contestant(name, partial(transform, map_)) for name, map_ in maps.items()]
        times = race(contestants, settings)
        base = base or times
        growth = times["mercer"] / base["mercer"]
        expected = math.log2(d) / math.log2(GROWTH_DIMENSIONS[0])
        note = f"{growth:.2f} times d={GROWTH_DIMENSIONS[0]}, D log d {expected:.2f} times"
        yield speedup(
            "Fastfood",
            f"float64 d={d} n={n}, D={GROWTH_COMPONENTS}",
            times,
            "dense",
            note=f"{note}, dense {times['dense'] / base['dense']:.2f} times",
        )
