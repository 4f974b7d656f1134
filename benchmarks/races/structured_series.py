"""Kernels of time series against tslearn, aeon and pySigLib; errors on series of the UCR archive.

Errors are part of the benchmarks where ``MERCER_DATA`` names a folder with ``timeseries/*.npz``.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    at_most,
    limited,
    one_core,
    peak_bytes,
    race,
    speedup,
)

Array = NDArray[Any]

PEERS = ("tslearn", "aeon", "pysiglib")
N, LENGTH = 200, 100
LONG = 10_000
#: Times faster than tslearn, or than the faster of tslearn and aeon, or than pySigLib.
TARGETS = {"GlobalAlignment": 15.0, "DTW": 3.0, "SoftDTW": 3.0, "Signature": 1.0}
#: Peak memory of two pairs of long series: a few rows of all lanes.
LONG_MEGABYTES = 100.0
#: Errors of one nearest neighbour by DTW without a window, from the table of the archive.
ERRORS = {
    "GunPoint": 0.0933,
    "ECG200": 0.2300,
    "CBF": 0.0033,
    "SyntheticControl": 0.0067,
    "SwedishLeaf": 0.2080,
}
#: What cross-validation on the training series chooses from, the smoothest first: widths as
#: multiples of the median rule, and weights of the penalty.
WIDTHS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
ALPHAS = (1.0, 0.1, 0.01, 0.001)


def available() -> list[str]:
    """The peers that are installed."""
    return [name for name in PEERS if importlib.util.find_spec(name) is not None]


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    X = walks(settings.size(N), LENGTH)
    with one_core():
        peers = dict(_peers(X))
        for name, kernel in _kernels(X).items():
            for peer, run in peers.get(name, {}).items():
                contestants = [
                    Contestant("mercer", lambda kernel=kernel: _run(kernel, X)),
                    Contestant(peer, run),
                ]
                times = race(contestants, settings)
                target = at_least(TARGETS[name])
                yield speedup(name, f"n={len(X)} length={LENGTH}", times, peer, target)
    yield from _long()
    if "MERCER_DATA" in os.environ:
        for name in list(ERRORS)[: 1 if settings.quick else None]:
            yield _error(name)


def walks(n: int, length: int) -> Array:
    """Random walks."""
    return np.random.default_rng(0).standard_normal((n, length)).cumsum(axis=1) / 10


def _kernels(X: Array) -> dict[str, mc.Kernel]:
    return {
        "GlobalAlignment": mc.GlobalAlignment().resolve(X),
        "DTW": mc.DTW(scale=1.0),
        "SoftDTW": mc.SoftDTW(scale=1.0),
        "Signature": mc.Signature(method="pde"),
    }


def _run(kernel: mc.Kernel, X: Array) -> Array | None:
    """The matrix; peers of DTW return distances, which are not compared."""
    K = kernel(X)
    return K if isinstance(kernel, mc.GlobalAlignment | mc.Signature) else None


def _peers(X: Array) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    """For each kernel the same matrix by the peers that are installed."""
    columns, sigma, installed = X[:, :, None].copy(), _kernels(X)["GlobalAlignment"], available()
    dtw: dict[str, Callable[[], Any]] = {}
    soft: dict[str, Callable[[], Any]] = {}
    if "tslearn" in installed:
        from tslearn import metrics

        yield "GlobalAlignment", {"tslearn": lambda: metrics.cdist_gak(columns, sigma=sigma.sigma)}
        dtw["tslearn"] = lambda: _done(metrics.cdist_dtw(columns))
        soft["tslearn"] = lambda: _done(metrics.cdist_soft_dtw(columns, gamma=1.0))
    if "aeon" in installed:
        from aeon import distances

        dtw["aeon"] = lambda: _done(distances.dtw_pairwise_distance(X))
        soft["aeon"] = lambda: _done(distances.soft_dtw_pairwise_distance(X, gamma=1.0))
    yield "DTW", dtw
    yield "SoftDTW", soft
    if "pysiglib" in installed:
        import pysiglib

        yield (
            "Signature",
            {
                "pySigLib": lambda: pysiglib.sig_kernel_gram(
                    columns, columns, dyadic_order=0, n_jobs=1
                )
            },
        )


def _done(distances: Any) -> None:
    """Drop the distances."""


# Long series --------------------------------------------------------------------------------------


def _long() -> Iterator[Outcome]:
    for name in ("GlobalAlignment", "DTW", "SoftDTW", "Signature"):
        size = peak_bytes(long_gram, name=name) / 1e6
        yield Outcome(
            f"{name}, peak memory",
            f"2 series of length {LONG}",
            size,
            "",
            None,
            size,
            at_most(LONG_MEGABYTES),
            unit="MB",
            figure_unit="MB",
        )


def long_gram(name: str, n: int = LONG) -> Callable[[], Any]:
    """The call whose memory is measured: two series of length n with the range of short ones."""
    X = walks(2, n) * np.sqrt(LENGTH / n)
    kernel = _kernels(X[:, :100])[name]
    return lambda: kernel(X)


# Real data ----------------------------------------------------------------------------------------


def _error(name: str) -> Outcome:
    with limited(1):
        start = time.perf_counter()
        error = test_error(Path(os.environ["MERCER_DATA"]) / "timeseries" / f"{name}.npz")
    seconds = time.perf_counter() - start
    return Outcome(
        f"Squared hinge with GlobalAlignment on {name}",
        "test error",
        error,
        "1-NN DTW",
        ERRORS[name],
        error,
        at_most(ERRORS[name]),
        unit="",
        figure_unit="",
        note=f"{seconds:.0f} s",
    )


def test_error(path: Path) -> float:
    """The error on the test series, with parameters by cross-validation on the training series.

    There is no intercept. Small widths leave small values off the diagonal, which decide like the
    nearest neighbours. An intercept would outweigh them. Ties go to the smoothest function.
    """
    data = np.load(path)
    X, y = data["X_train"].astype(float), data["y_train"]
    width = mc.GlobalAlignment().resolve(X).sigma
    model = mc.KernelMachineClassifier("precomputed", loss="squared_hinge", fit_intercept=False)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    kernels = [mc.GlobalAlignment(factor * width) for factor in WIDTHS]
    searches = [GridSearchCV(model, {"alpha": ALPHAS}, cv=folds).fit(k(X), y) for k in kernels]
    best = int(np.argmax([search.best_score_ for search in searches]))
    values = kernels[best](data["X_test"].astype(float), X)
    return float(1.0 - searches[best].score(values, data["y_test"]))
