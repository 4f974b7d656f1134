"""Time and memory of kernel ridge against the number of rows, for each solver.

Run alone, it measures, writes growth.json beside this file, and draws docs/_static/growth.svg; with
``--plot`` it draws what was measured before.

    python -m benchmarks.races.growth [--only NystromSolver,Falkon] [--plot]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from benchmarks import child, environment
from benchmarks.harness import Outcome, Settings

D, ALPHA = 10, 0.1
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
#: Processor seconds: a curve ends before the size that would take longer.
CAP = 240.0
#: By the clock, on a machine that is busy with other work.
PATIENCE = 3 * CAP
M = 1_000
RESULTS = Path(__file__).with_suffix(".json")
PICTURE = Path(__file__).parents[2] / "docs" / "_static" / "growth.svg"

RBF = mc.RBF(math.sqrt(D))
S = mc.solvers
#: The kernel and the solver for n rows; `Primal` needs a kernel with features, here 66 of them.
SOLVERS: dict[str, tuple[mc.Kernel, Callable[[int], Any]]] = {
    "Cholesky": (RBF, lambda n: S.Cholesky()),
    "Spectral": (RBF, lambda n: S.Spectral()),
    "ConjugateGradient": (RBF, lambda n: S.ConjugateGradient(random_state=0)),
    "Falkon": (RBF, lambda n: S.Falkon(min(n, 2 * M), random_state=0)),
    "NystromSolver": (RBF, lambda n: S.NystromSolver(min(n, M), random_state=0)),
    "RandomFeatures": (
        RBF,
        lambda n: S.RandomFeatures(mc.RandomFourier(RBF, M, random_state=0)),
    ),
    "Primal": (mc.Polynomial(2), lambda n: S.Primal()),
}
LABELS = {
    "Falkon": f"Falkon, {2 * M:,} landmarks",
    "NystromSolver": f"NystromSolver, {M:,} landmarks",
    "RandomFeatures": f"RandomFeatures, {M:,}",
    "Primal": "Primal, 66 features",
}

Point = dict[str, float]
Curves = dict[str, list[Point]]


def races(settings: Settings) -> Iterator[Outcome]:
    """The time at the largest size that each solver reaches, and how it grows towards it."""
    sizes = SIZES[:2] if settings.quick else SIZES
    for name in SOLVERS:
        curve = measured(name, sizes)
        last, before = curve[-1], curve[-2]
        growth = _exponent(before, last)
        yield Outcome(
            f"growth, {name}",
            f"float64 d={D} n={before['n']:.0f} to {last['n']:.0f}",
            last["seconds"],
            "smaller n",
            before["seconds"],
            growth,
            figure_unit="power of n",
            note=f"{last['bytes'] / 1e6:.0f} MB above the data, {before['bytes'] / 1e6:.0f} before",
        )


def fit(name: str, n: int) -> Callable[[], dict[str, Any]]:
    """One fit, in float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=n)
    kernel, solver = SOLVERS[name]
    model = mc.KernelRidge(kernel, ALPHA, solver=solver(n))

    def work() -> dict[str, Any]:
        model.fit(X, y)
        return {"converged": bool(getattr(model, "converged_", True))}

    return work


def measured(name: str, sizes: Sequence[int] = SIZES) -> list[Point]:
    """The curve of one solver, as far as the cap allows."""
    curve: list[Point] = []
    for n in sizes:
        if len(curve) > 1 and _forecast(curve, n) > CAP:
            break
        done = child.run(fit, timeout=PATIENCE, name=name, n=n)
        if done.failure:
            print(f"{name}, n = {n}: {done.failure}")
            break
        curve.append({"n": n, "seconds": done.cpu, "bytes": done.peak})
    return curve


def _forecast(curve: Sequence[Point], n: int) -> float:
    """Seconds to expect, if the curve goes on as between its last points, or linearly."""
    last = curve[-1]
    return float(last["seconds"] * (n / last["n"]) ** max(1.0, _exponent(curve[-2], last)))


def _exponent(a: Point, b: Point) -> float:
    return math.log(b["seconds"] / a["seconds"]) / math.log(b["n"] / a["n"])


# The picture --------------------------------------------------------------------------------------

_COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#cc79a7", "#009e73", "#e69f00", "#555555")
_STYLES = {
    name: {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.8}
    for name, colour, marker in zip(SOLVERS, _COLOURS, "osD^vPX", strict=True)
}


def draw(curves: Curves, target: Path) -> None:
    """Time and memory against the number of rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "mercer", "font.size": 10, "svg.fonttype": "path"})
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.6), sharex=True, layout="constrained")
    quantities = (("seconds", 1.0, "seconds on one core"), ("bytes", 1e6, "MB above the data"))
    for panel, (quantity, unit, label) in zip(panels, quantities, strict=True):
        for name, curve in curves.items():
            n = [point["n"] for point in curve]
            heights = [point[quantity] / unit for point in curve]
            panel.plot(n, heights, label=LABELS.get(name, name), **_STYLES[name])
        panel.set(xscale="log", yscale="log", xlabel="rows", ylabel=label)
        panel.grid(True, which="major", color="#dddddd", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races.growth")
    parser.add_argument("--only", default=",".join(SOLVERS), help="a choice of the solvers")
    parser.add_argument("--plot", action="store_true", help="draw what was measured before")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw")
    options = parser.parse_args(arguments)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"curves": {}}
    if not options.plot:
        for name in options.only.split(","):
            stored["curves"][name] = measured(name)
            stored["machine"] = environment.describe()
            print(name, stored["curves"][name], flush=True)
            RESULTS.write_text(f"{json.dumps(stored, indent=1)}\n")
    curves = stored["curves"]
    draw({name: curves[name] for name in SOLVERS if name in curves}, options.picture)


if __name__ == "__main__":
    main()
