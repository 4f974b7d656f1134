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
    models = {
        "least squares": LinearRegression(),
        "kernel ridge, RBF": mc.KernelRidge(alpha="loo"),
        "kernel ridge, composed": mc.KernelRidge(kernel, alpha="loo"),
    }
    print("1. What lines cannot do: y = 10 sin(pi a b) + 20 (c - 1/2)^2 + 10 d + 5 e + noise.")
    print("   1,000 rows to learn from, with five more columns that are useless.")
    print("   R2 on 2,000 new rows (1 is perfect, 0 is the mean), and seconds to fit:\n")
    for name, model in models.items():
        seconds = _seconds(model, X, y)
        print(f"   {name:24} R2 {model.score(X_test, y_test):.3f}   {seconds:6.3f} s", flush=True)
    print("\n   The RBF kernel bends in all ten columns. The composed kernel says what is known:")
    print("   a and b act together, c by itself, d and e in straight lines. In code:\n")
    print("      " + str(kernel).replace(" + ", "\n      + "))
    _check(kernel.resolve(X), X)
    _race()
    if importlib.util.find_spec("matplotlib") is None:
        print('\nNo picture: matplotlib is missing (pip install "mercer[plot]").')
        return
    _draw(models, X_test, y_test, picture)
    print(f"\n4. A picture of both problems: {picture.resolve()}")


def _check(composed: mc.Kernel, X: Array) -> None:
    """Show Mercer's condition for a kernel, and for a similarity that violates it."""
    print("\n2. Is it a kernel? Mercer's condition: its matrix has no negative eigenvalue.\n")
    for name, kernel in {"composed": composed, "tanh": mc.Sigmoid(offset=1.0)}.items():
        report = mc.validity.check(kernel, X)
        verdict = "valid, up to rounding" if report.valid else "not a kernel"
        print(f"   {name:9} smallest eigenvalue {report.min_eigenvalue:8.2g}: {verdict}")


def _race() -> None:
    """Fit a support vector machine, and scikit-learn's beside it."""
    print("\n3. Two classes: a support vector machine for 20,000 rows of two moons.")
    print("   Accuracy on 2,000 new rows, and seconds to fit:\n")
    X, y = make_moons(22_000, noise=0.25, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, train_size=20_000, random_state=0)
    for name, machine in {"mercer": mc.SVC(), "scikit-learn": svm.SVC()}.items():
        seconds = _seconds(machine, X, y)
        accuracy = machine.score(X_test, y_test)
        print(f"   {name:14} accuracy {accuracy:.4f}   {seconds:6.3f} s", flush=True)


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
    for (name, model), colour in zip(list(models.items())[::2], ("0.65", "#0072B2"), strict=True):
        score = f"{name}, R2 {model.score(X, y):.2f}"
        left.plot(y, model.predict(X), ".", markersize=3, color=colour, label=score)
    left.axline((y.min(), y.min()), slope=1, color="black", linewidth=0.8)
    left.set(xlabel="observed", ylabel="predicted", title="Friedman's function, new rows")
    left.legend()
    moons, labels = make_moons(200, noise=0.25, random_state=0)
    mc.plot.decision_boundary(mc.SVC().fit(moons, labels), moons, labels, ax=right)
    figure.savefig(picture, dpi=120)
