"""Kernel ridge on all rows of real data, with nothing set by hand but the kind of kernel.

Part of the benchmarks where ``MERCER_DATA`` names a folder with ``regression/kin40k.npz`` and
``regression/protein.npz``. Run alone, as

    MERCER_DATA=/path python -m benchmarks.races.real_ridge [--threads 1]

it prints the table of docs/many_rows.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from benchmarks import child
from benchmarks.harness import Outcome, Settings, at_most

#: The kernel, and the largest test RMSE wanted, in standard deviations of the training targets.
SETS = {"kin40k": ("RBF()", 0.10), "protein": ("Matern(nu=1.5)", 0.56)}
KERNELS = {"RBF()": mc.RBF(), "Matern(nu=1.5)": mc.Matern(nu=1.5)}
QUICK = 2_000


def available() -> bool:
    """Whether the data are there."""
    return "MERCER_DATA" in os.environ


def races(settings: Settings) -> Iterator[Outcome]:
    """Test errors of fold 0."""
    if not available():
        return
    for name, (kernel, required) in SETS.items():
        done = _run(name, kernel, settings, threads=1)
        error = done.values["error"]
        values = done.values
        yield Outcome(
            "KernelRidge, everything automatic, test RMSE",
            f"{name}, fold 0, {values['rows']} rows, {kernel}",
            error,
            "",
            None,
            error,
            None if settings.quick else at_most(required),
            unit="",
            figure_unit="",
            note=f"{done.seconds:.0f} s, {done.peak / 1e6:.0f} MB above the data, "
            f"{values['solver']}, {values['iterations']} iterations",
        )


def automatic(name: str, kernel: str, rows: int | None) -> Callable[[], dict[str, Any]]:
    """Fit to all folds but the first, and predict the first; columns are standardised."""
    stored = np.load(Path(os.environ["MERCER_DATA"]) / "regression" / f"{name}.npz")
    X, y = stored["X"].astype(np.float64), stored["y"].ravel().astype(np.float64)
    test = stored["fold"] == 0
    train = np.flatnonzero(~test)[:rows]
    X = ((X - X[train].mean(axis=0)) / X[train].std(axis=0)).astype(np.float32)
    y = ((y - y[train].mean()) / y[train].std()).astype(np.float32)
    model = mc.KernelRidge(KERNELS[kernel], alpha="loo", length_scales="auto")

    def work() -> dict[str, Any]:
        model.fit(X[train], y[train])
        residuals = y[test] - model.predict(X[test])
        return {
            "error": float(np.sqrt(np.mean(np.square(residuals, dtype=np.float64)))),
            "rows": len(train),
            "alpha": model.alpha_,
            "length_scale": float(model.kernel_.get_params()["length_scale"]),
            "solver": type(model.solver_).__name__,
            "iterations": getattr(model, "n_iter_", 0),
            "residual": getattr(model, "residual_", 0.0),
        }

    return work


def _run(name: str, kernel: str, settings: Settings, threads: int) -> child.Run:
    rows = QUICK if settings.quick else None
    done = child.run(automatic, threads=threads, name=name, kernel=kernel, rows=rows)
    if done.failure:
        raise RuntimeError(f"{name}: {done.failure}")
    return done


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races.real_ridge")
    parser.add_argument("--only", default=",".join(SETS), help="a choice of the data")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    print(
        "| data | rows | kernel | length-scale | alpha | iterations | time | memory | RMSE |\n"
        + "| --- " * 9
        + "|"
    )
    for name in options.only.split(","):
        kernel, _ = SETS[name]
        done = _run(name, kernel, Settings(), options.threads)
        v = done.values
        cells = (
            f"{name} | {v['rows']:,} | `{kernel}` | {v['length_scale']:.2f} | {v['alpha']:.2g} | "
            f"{v['iterations']} | {done.cpu:.0f} s | {done.peak / 1e9:.2f} GB | {v['error']:.3f}"
        )
        print(f"| {cells} |", flush=True)
        print(f"{done.seconds:.0f} s by the clock; residual {v['residual']:.1e}", flush=True)


if __name__ == "__main__":
    main()
