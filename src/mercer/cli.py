"""The command line: ``mercer demo``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import KFold, cross_val_predict

import mercer as mc

Array = np.ndarray[Any, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="mercer", description="Kernel methods for Python.")
    parser.add_argument("--version", action="version", version=f"mercer {mc.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="kernel ridge regression on scikit-learn's bundled data")
    parser.parse_args(arguments)
    demo()
    return 0


def demo() -> None:
    """Compose a kernel, check Mercer's condition, fit it, and compare it with a linear model."""
    data = load_diabetes(scaled=False)
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    kernel = _composed_kernel(data.feature_names)
    print("Disease progression of 442 diabetes patients (bundled with scikit-learn).")
    print(f"Columns: {', '.join(data.feature_names)}.\n")
    print(f"A composed kernel:\n\n    {kernel}\n\nIts parameters, by path:\n")
    for path, value in kernel.get_params().items():
        print(f"    {path:34} {value}")
    _show_validity(kernel, X)
    _show_models(kernel, X, data.target)


def _composed_kernel(names: list[str]) -> Any:
    """A linear trend, smooth effects of all columns, and an interaction of two of them."""
    body, pressure = names.index("bmi"), names.index("bp")
    trend = 1.0 * mc.Linear()
    smooth = 1.0 * mc.RBF(length_scale="scale")
    interaction = mc.Matern(length_scale=2.0, nu=2.5).on(body) * mc.RBF(2.0).on(pressure)
    return trend + smooth + interaction


def _show_validity(kernel: Any, X: Array) -> None:
    print("\nMercer's condition:\n")
    print(f"    closure rules   is_psd = {kernel.is_psd}")
    print(f"    this kernel     {mc.validity.check(kernel.resolve(X), X)}")
    print(f"    tanh similarity {mc.validity.check(mc.Sigmoid(offset=1.0), X)}")


def _show_models(kernel: Any, X: Array, y: Array) -> None:
    models = {
        "least squares": LinearRegression(),
        "kernel ridge, RBF": mc.KernelRidge(alpha="loo"),
        "kernel ridge, composed": mc.KernelRidge(kernel, alpha="loo"),
    }
    print("\nFive-fold cross-validation, alpha by leave-one-out within each fold:\n")
    print(f"    {'model':24} {'R2':>7} {'RMSE':>7} {'alpha':>9} {'df':>6} {'seconds':>8}")
    for name, model in models.items():
        print(f"    {name:24} {_row(model, X, y)}")
    print("\ndf: effective degrees of freedom, 1 + sum of s / (s + alpha) over the spectrum.")


def _row(model: Any, X: Array, y: Array) -> str:
    """One line of the table: out-of-fold errors, then the model fitted to everything."""
    start = time.perf_counter()
    folds = KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, X, y, cv=folds)
    seconds = time.perf_counter() - start
    model.fit(X, y)
    alpha = f"{model.alpha_:9.3g}" if hasattr(model, "alpha_") else f"{'-':>9}"
    dof = model.effective_dof_ if hasattr(model, "effective_dof_") else X.shape[1] + 1
    score, error = r2_score(y, predicted), root_mean_squared_error(y, predicted)
    return f"{score:7.3f} {error:7.2f} {alpha} {dof:6.1f} {seconds:8.2f}"
