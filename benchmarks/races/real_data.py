"""Gaussian processes on real data: test errors on stored splits, and the CO2 record.

Part of the benchmarks where ``MERCER_DATA`` names a folder with ``regression/gal_*.npz`` and
``series/co2_mauna_loa_weekly.npz``. Run alone, as

    MERCER_DATA=/path python -m benchmarks.races.real_data [--peer] [--only co2,yacht] [--splits 10]

it prints the tables of docs/gaussian_processes.md; with ``--peer`` scikit-learn fits the same
kernels, which takes long.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels
from sklearn.preprocessing import PowerTransformer, StandardScaler

import mercer as mc
from benchmarks.harness import Outcome, Settings, at_least, at_most, limited

Array = NDArray[Any]

#: Largest mean test RMSE wanted.
SETS = {"boston": 2.70, "concrete": 4.80, "yacht": 0.45, "energy": 0.50}
#: What the marginal likelihood of the training rows chooses from, in every split: how columns are
#: scaled, and the smoothness of the Matern kernel (infinite for the RBF).
TRANSFORMS = (StandardScaler, PowerTransformer)
SMOOTHNESS = (1.5, 2.5, math.inf)
SPLITS = 10

# Columns have mean 0 and variance 1.
START = 3.0


def available() -> bool:
    """Whether the data are there."""
    return "MERCER_DATA" in os.environ


def races(settings: Settings) -> Iterator[Outcome]:
    """Test errors and evidence; scikit-learn's errors take longer than all other races."""
    if not available():
        return
    folder = Path(os.environ["MERCER_DATA"])
    number = 1 if settings.quick else SPLITS
    with limited(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, required in SETS.items():
            errors = [_chosen(split).error for split in _splits(name, folder, number)]
            mean = float(np.mean(errors))
            target = None if settings.quick else at_most(required)
            what, how = "Gaussian process, test RMSE", f"{name}, {number} splits, ARD"
            yield Outcome(what, how, mean, "", None, mean, target, unit="", figure_unit="")
        yield _co2_outcome(folder)


def _co2_outcome(folder: Path) -> Outcome:
    X, y = monthly_co2(folder)
    mine = co2_model().fit(X, y).log_marginal_likelihood_
    gallery = Peer(gallery_kernel(), optimizer=None).fit(X, y - y.mean())
    theirs = gallery.log_marginal_likelihood_value_
    return Outcome(
        "CO2, log marginal likelihood",
        f"{len(y)} months, best of ten starts",
        mine,
        "gallery",
        theirs,
        mine - theirs,
        at_least(0.0),
        unit="nats",
        figure_unit="nats",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races.real_data")
    parser.add_argument("--peer", action="store_true", help="fit scikit-learn's models too")
    parser.add_argument("--only", default=",".join((*SETS, "co2")), help="a choice of the data")
    parser.add_argument("--splits", type=int, default=SPLITS, help="the first splits to take")
    options = parser.parse_args(arguments)
    folder = Path(os.environ["MERCER_DATA"])
    warnings.simplefilter("ignore")  # lengths at their bounds are expected here
    print("| data | splits | mercer | required | scikit-learn | mercer, s | scikit-learn, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in [name for name in options.only.split(",") if name in SETS]:
        print(table_row(name, folder, options.splits, options.peer), flush=True)
    if "co2" in options.only.split(","):
        print(co2_report(folder))


# Stored splits ------------------------------------------------------------------------------------


def table_row(name: str, folder: Path, splits: int, with_peer: bool) -> str:
    """One line of the table: mean test errors of the first splits."""
    chosen = [_chosen(split) for split in _splits(name, folder, splits)]
    cells = [name, str(splits), _mean([fit.error for fit in chosen]), f"{SETS[name]:.2f}"]
    seconds = f"{np.mean([fit.seconds for fit in chosen]):.1f}"
    if not with_peer:
        return _row([*cells, "", seconds, ""])
    peer = [
        _fit(_sklearn, split, fit.transform, fit.nu)
        for split, fit in zip(_splits(name, folder, splits), chosen, strict=True)
    ]
    peer_seconds = f"{np.mean([fit.seconds for fit in peer]):.1f}"
    return _row([*cells, _mean([fit.error for fit in peer]), seconds, peer_seconds])


@dataclass(frozen=True)
class _Split:
    """Training and test rows, as they are stored."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True)
class _Fit:
    """One model: how likely the training targets are, the test error, the time of the fit."""

    transform: Any
    nu: float
    likelihood: float
    error: float
    seconds: float


def _splits(name: str, folder: Path, number: int) -> list[_Split]:
    stored = np.load(folder / "regression" / f"gal_{name}.npz")
    X, y = stored["X"].astype(float), stored["y"].ravel().astype(float)
    masks = stored["test_mask"].T[:number]
    return [_Split(X[~test], y[~test], X[test], y[test]) for test in masks]


def _chosen(split: _Split) -> _Fit:
    """The model under which the training targets are most likely; test rows have no say."""
    fits = (
        _fit(_mercer, split, transform, nu) for transform, nu in product(TRANSFORMS, SMOOTHNESS)
    )
    return max(fits, key=lambda fit: fit.likelihood)


def _fit(make: Any, split: _Split, transform: Any, nu: float) -> _Fit:
    columns = transform().fit(split.X)
    start = time.perf_counter()
    model = make(split.X.shape[1], nu).fit(columns.transform(split.X), split.y)
    seconds = time.perf_counter() - start
    residuals = model.predict(columns.transform(split.X_test)) - split.y_test
    likelihood = getattr(model, "log_marginal_likelihood_", math.nan)
    return _Fit(transform, nu, likelihood, float(np.sqrt(np.mean(residuals**2))), seconds)


def _mercer(d: int, nu: float) -> mc.GaussianProcessRegressor:
    return mc.GaussianProcessRegressor(1.0 * mc.Matern(np.full(d, START), nu=nu))


def _sklearn(d: int, nu: float) -> Peer:
    """The same kernel and start; its own bounds, with which it finds a maximum."""
    kernel = kernels.ConstantKernel(1.0) * kernels.Matern(np.full(d, START), nu=nu)
    return Peer(kernel + kernels.WhiteKernel(0.1), normalize_y=True)


def _mean(errors: list[float]) -> str:
    return f"{np.mean(errors):.3f}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# CO2 ----------------------------------------------------------------------------------------------


def monthly_co2(folder: Path) -> tuple[Array, Array]:
    """Monthly means of the weekly record, in years and parts per million."""
    stored = np.load(folder / "series" / "co2_mauna_loa_weekly.npz")
    known = np.isfinite(stored["co2"])
    months = stored["date"][known].astype("datetime64[D]").astype("datetime64[M]").astype(int)
    co2 = stored["co2"][known]
    present = np.unique(months)
    means = np.array([co2[months == month].mean() for month in present])
    return (1970 + (present + 1) / 12)[:, None], means


def co2_model() -> mc.GaussianProcessRegressor:
    """Trend, season, irregularities and noise; every variance starts at that of the record.

    The likelihood has several maxima: the best of ten searches counts.
    """
    kernel = (
        1.0 * mc.RBF(length_scale=10.0)
        + 1.0 * mc.RBF(length_scale=10.0) * mc.Periodic(period=mc.Fixed(1.0))
        + 1.0 * mc.RationalQuadratic(length_scale=1.0)
        + 1.0 * mc.RBF(length_scale=0.1)
    )
    # The gallery's likelihood is that of the mean of the sample.
    return mc.GaussianProcessRegressor(kernel, mean="sample", n_restarts=9, random_state=0)


def gallery_kernel() -> Any:
    """The solution that scikit-learn's gallery publishes for these data, to three digits."""
    trend = 44.8**2 * kernels.RBF(51.6)
    season = 2.64**2 * kernels.RBF(91.5) * kernels.ExpSineSquared(1.48, 1.0)
    medium = 0.536**2 * kernels.RationalQuadratic(length_scale=0.968, alpha=2.89)
    return trend + season + medium + 0.188**2 * kernels.RBF(0.122) + kernels.WhiteKernel(0.0367)


def co2_report(folder: Path) -> str:
    """Log marginal likelihoods of what was learned and of the gallery's solution."""
    X, y = monthly_co2(folder)
    start = time.perf_counter()
    model = co2_model().fit(X, y)
    seconds = time.perf_counter() - start
    gallery = Peer(gallery_kernel(), optimizer=None).fit(X, y - y.mean())
    return "\n".join(
        [
            f"CO2, {len(y)} months: mercer {model.log_marginal_likelihood_:.4f} after "
            f"{model.n_evaluations_} evaluations ({seconds:.1f} s), gallery "
            f"{gallery.log_marginal_likelihood_value_:.4f}",
            f"  {model.kernel_!r}, noise {model.noise_:.3g}",
        ]
    )


if __name__ == "__main__":
    main()
