"""The command line: ``mercer demo`` and ``mercer info``."""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn import svm
from sklearn.datasets import make_friedman1, make_moons
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import mercer as mc
from mercer.arrays import AnyArray as Array

_PICTURE = "mercer_demo.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="mercer", description="Kernel methods for Python.")
    parser.add_argument("--version", action="version", version=f"mercer {mc.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    options = commands.add_parser("demo", help="what kernels do that linear models cannot")
    options.add_argument("--picture", type=Path, default=Path(_PICTURE), help="file to draw into")
    commands.add_parser("info", help="versions and machine, for reports of problems")
    given = parser.parse_args(arguments)
    if given.command == "info":
        mc.show_versions()
    else:
        demo(given.picture)
    return 0


def demo(picture: Path) -> None:
    """Compose a kernel, fit it beside a linear model, race a classifier, and draw both."""
    X, y = make_friedman1(3000, noise=1.0, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, train_size=1000, random_state=0)
    trend = mc.Linear().on(3) + mc.Linear().on(4)
    kernel = mc.RBF("scale").on(0, 1) + mc.RBF("scale").on(2) + trend
    print("1. Friedman's function, 10 sin(pi a b) + 20 (c - 1/2)^2 + 10 d + 5 e + noise.")
    print("   1,000 rows with ten columns, five of them useless. R2 on 2,000 other rows:\n")
    models = {
        "least squares": LinearRegression(),
        "kernel ridge, RBF": mc.KernelRidge(alpha="loo"),
        "kernel ridge, composed": mc.KernelRidge(kernel, alpha="loo"),
    }
    for name, model in models.items():
        seconds = _seconds(model, X, y)
        print(f"   {name:24} R2 {model.score(X_test, y_test):.3f}   {seconds:6.3f} s", flush=True)
    print(f"\n   The composed kernel says what is known of a, b, c, d and e:\n   {kernel}")
    print("\n2. Mercer's condition: is it a kernel?\n")
    print(f"   composed: {mc.validity.check(kernel.resolve(X), X)}")
    print(f"   tanh:     {mc.validity.check(mc.Sigmoid(offset=1.0), X)}")
    print("\n3. A support vector machine for 20,000 rows of two moons, beside scikit-learn's:\n")
    moons, labels = make_moons(20_000, noise=0.25, random_state=0)
    for name, machine in {"mercer": mc.SVC(), "scikit-learn": svm.SVC()}.items():
        seconds = _seconds(machine, moons, labels)
        print(f"   {name:14} accuracy {machine.score(moons, labels):.4f}   {seconds:6.3f} s")
    if importlib.util.find_spec("matplotlib") is None:
        print('\nNo picture: matplotlib is missing (pip install "mercer[plot]").')
        return
    _draw(models, X_test, y_test, picture)
    print(f"\n4. A picture of both: {picture}")


def _seconds(model: Any, X: Array, y: Array) -> float:
    """Fit a model and return the time it took."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def _draw(models: dict[str, Any], X: Array, y: Array, picture: Path) -> None:
    """Predictions of the first and the last model, and the boundary of a machine for few rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, model in list(models.items())[::2]:
        left.plot(y, model.predict(X), ".", markersize=3, label=name)
    left.axline((y.min(), y.min()), slope=1, color="black", linewidth=0.8)
    left.set(xlabel="observed", ylabel="predicted", title="Friedman's function, new rows")
    left.legend()
    moons, labels = make_moons(200, noise=0.25, random_state=0)
    mc.plot.decision_boundary(mc.SVC().fit(moons, labels), moons, labels, ax=right)
    figure.savefig(picture, dpi=120)
