"""What all displays share: lazy import, axes, refusals."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import mercer as mc
from mercer.exceptions import MissingDependencyError, ParameterError

X = np.linspace(0, 3, 12)[:, None]
Y = np.sin(X).ravel()


def displays() -> list[tuple[str, Any]]:
    """Every display of a fitted model, with a function that draws one from an estimator."""
    plane = np.column_stack([X, X[::-1]])
    return [
        ("ShrinkageDisplay", mc.plot.ShrinkageDisplay.from_estimator),
        ("RidgePathDisplay", mc.plot.RidgePathDisplay.from_estimator),
        ("SearchDisplay", mc.plot.SearchDisplay.from_estimator),
        ("GramDisplay", mc.plot.GramDisplay.from_estimator),
        ("LearningCurveDisplay", mc.plot.LearningCurveDisplay.from_estimator),
        (
            "GaussianProcessDisplay",
            lambda model: mc.plot.GaussianProcessDisplay.from_estimator(model, X),
        ),
        ("BoundaryDisplay", lambda model: mc.plot.BoundaryDisplay.from_estimator(model, plane)),
    ]


def test_all_displays_are_in_this_list() -> None:
    classes = [name for name in mc.plot.__all__ if name.endswith("Display")]
    assert sorted(name for name, _ in displays()) == classes


@pytest.mark.parametrize(("name", "draw"), displays())
def test_an_unfitted_model_is_refused(name: str, draw: Any) -> None:
    with pytest.raises(NotFittedError):
        draw(mc.KernelRidge())


@pytest.mark.parametrize(("name", "draw"), displays()[:5])
def test_a_model_without_what_is_drawn_is_refused_with_a_remedy(name: str, draw: Any) -> None:
    with pytest.raises(ParameterError, match=rf"{name}: LinearRegression has no \w+; pass"):
        draw(LinearRegression().fit(X, Y))


def test_axes_of_the_user_are_used_and_others_refused() -> None:
    model = mc.KernelRidge(mc.RBF()).fit(X, Y)
    figure, axes = plt.subplots(1, 2)
    display = mc.plot.ShrinkageDisplay.from_estimator(model, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].lines
    with pytest.raises(ParameterError, match=r"ax = .* is not a matplotlib Axes"):
        display.plot(ax=figure)  # type: ignore[arg-type]


def test_a_display_draws_again() -> None:
    display = mc.plot.ShrinkageDisplay.from_estimator(mc.KernelRidge(mc.RBF()).fit(X, Y))
    first = display.ax_
    assert display.plot() is display
    assert display.ax_ is not first


@pytest.mark.parametrize(("name", "draw"), displays())
def test_without_matplotlib_the_extra_is_named(
    name: str, draw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=rf"^{name} needs matplotlib.*mercer\[plot\]"):
        draw(mc.KernelRidge(mc.RBF()).fit(X, Y))
    assert issubclass(MissingDependencyError, ImportError)


def test_importing_mercer_does_not_import_matplotlib() -> None:
    program = "import sys, mercer; mercer.plot.GramDisplay; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
