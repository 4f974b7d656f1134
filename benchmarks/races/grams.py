"""Gram matrices against scikit-learn: time and peak memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

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

N = 5_000
# scikit-learn's Bessel function takes a microsecond a pair.
BESSEL_N = 2_000
MEMORY = 1.1


@dataclass(frozen=True)
class Pair:
    """One kernel written for mercer and for scikit-learn, both from a length-scale."""

    name: str
    mercer: Callable[[float], mc.Kernel]
    peer_name: str
    peer: Callable[[float], Callable[..., Array]]
    n: int = N


def _gp_matern(nu: float) -> Callable[[float], Callable[..., Array]]:
    return lambda length_scale: gp.Matern(length_scale=length_scale, nu=nu)


PAIRS = {
    "RBF": Pair(
        "RBF",
        mc.RBF,
        "rbf_kernel",
        lambda length: lambda X, Z=None: rbf_kernel(X, Z, gamma=1 / (2 * length**2)),
    ),
    "Laplacian": Pair(
        "Laplacian",
        mc.Laplacian,
        "laplacian_kernel",
        lambda length: lambda X, Z=None: laplacian_kernel(X, Z, gamma=1 / length),
    ),
    "Matern(1.5)": Pair(
        "Matern(1.5)",
        lambda length: mc.Matern(length_scale=length, nu=1.5),
        "gp.Matern",
        _gp_matern(1.5),
    ),
    "Matern(1.3)": Pair(
        "Matern(1.3)",
        lambda length: mc.Matern(length_scale=length, nu=1.3),
        "gp.Matern",
        _gp_matern(1.3),
        BESSEL_N,
    ),
}

#: Kernel, type, whether k(X) or k(X, Z), and how many times faster at least.
TARGETS = (
    ("RBF", "float64", False, 3.0),
    ("RBF", "float64", True, 5.0),
    ("RBF", "float32", False, 4.0),
    ("RBF", "float32", True, 4.0),
    ("Laplacian", "float64", False, 4.0),
    ("Laplacian", "float64", True, 4.0),
    ("Matern(1.5)", "float64", False, 5.0),
    ("Matern(1.5)", "float64", True, 5.0),
    ("Matern(1.3)", "float64", False, 10.0),
    ("Matern(1.3)", "float64", True, 10.0),
)


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(3 * settings.size(N) ** 2 * 8)
    for name, dtype, symmetric, bound in TARGETS:
        for d in (3, 20):
            yield from _gram(settings, PAIRS[name], d, dtype, symmetric, bound)
    for name in PAIRS:
        for symmetric in (False, True):
            yield _memory(settings, name, symmetric)


def _gram(
    settings: Settings, pair: Pair, d: int, dtype: str, symmetric: bool, bound: float
) -> Iterator[Outcome]:
    n = settings.size(pair.n)
    arguments = _arguments(n, d, dtype, symmetric)
    kernel, peer = pair.mercer(math.sqrt(d)), pair.peer(math.sqrt(d))
    # scikit-learn's functions take two threads where BLAS does; most of their time is not BLAS.
    for threads in (1, 2):
        contestants = [
            Contestant("mercer", lambda: kernel(*arguments), threads),
            Contestant(pair.peer_name, lambda: peer(*arguments), threads),
        ]
        times = race(contestants, settings)
        target = at_least(bound) if threads == 1 else None
        yield speedup(
            f"{pair.name} {_call(symmetric)}",
            f"{dtype} d={d} n={n}",
            times,
            pair.peer_name,
            target,
            threads=threads,
        )


def _arguments(n: int, d: int, dtype: str, symmetric: bool) -> tuple[Array, ...]:
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    return (X,) if symmetric else (X, X.copy())


def _call(symmetric: bool) -> str:
    return "k(X)" if symmetric else "k(X, Z)"


# Memory -------------------------------------------------------------------------------------------


def _memory(settings: Settings, name: str, symmetric: bool) -> Outcome:
    n = settings.size(PAIRS[name].n)
    output = n * n * 8
    mine = peak_bytes(mercer_gram, name=name, n=n, symmetric=symmetric)
    peer = peak_bytes(peer_gram, name=name, n=n, symmetric=symmetric)
    return Outcome(
        f"{name} {_call(symmetric)}, peak memory",
        f"float64 d=20 n={n}, in outputs",
        mine / output,
        PAIRS[name].peer_name,
        peer / output,
        mine / output,
        at_most(MEMORY),
        unit="outputs",
    )


def mercer_gram(name: str, n: int, symmetric: bool) -> Any:
    """The call whose memory is measured."""
    arguments = _arguments(n, 20, "float64", symmetric)
    return lambda: PAIRS[name].mercer(math.sqrt(20))(*arguments)


def peer_gram(name: str, n: int, symmetric: bool) -> Any:
    """The peer's call."""
    arguments = _arguments(n, 20, "float64", symmetric)
    return lambda: PAIRS[name].peer(math.sqrt(20))(*arguments)
