"""What all displays share: lazy import, axes, refusals."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.exceptions import DataError, MissingDependencyError, ParameterError
from mercer.plot.canvas import Numbers, described, legend_above, shortened, wrapped

X = np.linspace(0, 3, 12)[:, None]
Y = np.sin(X).ravel()
# Displays that draw a KernelRidge of one column, and have its name in the title.
SHOW_RIDGE = (
    "ShrinkageDisplay",
    "RidgePathDisplay",
    "SearchDisplay",
    "CurveDisplay",
    "ContributionsDisplay",
)


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
        ("EffectsDisplay", lambda model: mc.plot.EffectsDisplay.from_estimator(model, X)),
        ("BoundaryDisplay", lambda model: mc.plot.BoundaryDisplay.from_estimator(model, plane)),
        ("CurveDisplay", lambda model: mc.plot.CurveDisplay.from_estimator(model, X)),
        (
            "CalibrationDisplay",
            lambda model: mc.plot.CalibrationDisplay.from_estimator(model, X, Y),
        ),
        (
            "ContributionsDisplay",
            lambda model: mc.plot.ContributionsDisplay.from_estimator(model, X),
        ),
    ]


def test_all_displays_of_models_are_in_this_list() -> None:
    classes = [n for n in mc.plot.__all__ if hasattr(getattr(mc.plot, n), "from_estimator")]
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


def test_titles_have_few_digits_and_few_lines() -> None:
    kernel = 1.23456789 * mc.RBF(length_scale=1e-5 / 3)
    assert shortened(kernel) == "1.23 * RBF(length_scale=3.33e-06)"
    assert shortened(mc.RBF(length_scale=[1.0, 2.0, 3.0])) == "RBF(length_scale=[1, 2, 3])"
    assert shortened(mc.RBF(length_scale=np.arange(1.0, 10))) == "RBF(length_scale=[1, ..., 9])"
    assert len(wrapped("word " * 100).split("\n")) == 2
    assert wrapped("first\nsecond") == "first\nsecond"
    assert wrapped("word " * 11 + "2 * RBF()").endswith("\n2\u00a0*\u00a0RBF()")
    model = mc.KernelRidge(mc.RBF(length_scale=2.0)).fit(X, Y)
    assert described(model) == "KernelRidge, RBF(length_scale=2)"
    assert described(make_pipeline(StandardScaler(), LinearRegression())) == "LinearRegression"


def test_an_axis_of_dates_extends_at_its_end_alone() -> None:
    dates = np.array(["2020-01-01", "2020-01-11"], dtype="datetime64[D]")
    low, high = Numbers.read(dates[:, None], 1, "X").limits(0.5, "X").ravel()
    first = (dates[0] - np.datetime64("1970-01-01")).astype(float)
    assert (low, high) == (first, first + 15)
    low, high = Numbers.read(np.array([[0.0], [10.0]]), 1, "X").limits(0.5, "X").ravel()
    assert (low, high) == (-5, 15)


@pytest.mark.parametrize("kind", ["M8[ms]", "m8[ms]"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, None])
def test_times_are_days_and_return_as_times(kind: str, frame: Any) -> None:
    times = (np.arange(4) * 43_200_000).astype(kind)[:, None]
    data = times if frame is None else frame({"time": times[:, 0]})
    table = Numbers.read(data, 1, "Owner")
    np.testing.assert_array_equal(table.values[:, 0], [0.0, 0.5, 1.0, 1.5])
    assert table.has_times
    back = table.like(table.values)
    values = back if frame is None else back["time"].to_numpy()[:, None]
    np.testing.assert_array_equal(values, times)
    assert not Numbers.read(np.ones((2, 1)), 1, "Owner").has_times


def test_missing_times_are_refused() -> None:
    with pytest.raises(DataError, match="Owner: X is empty, or has NaN"):
        Numbers.read(np.array([["NaT"]], "M8[D]"), 1, "Owner")


def test_every_display_of_a_model_has_a_title() -> None:
    model = mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=[0.5, 1.0]).fit(X, Y)
    drawn = [draw(model) for name, draw in displays() if name in SHOW_RIDGE]
    assert len(drawn) == len(SHOW_RIDGE)
    assert all("KernelRidge, RBF" in display.ax_.get_title() for display in drawn)


def test_a_legend_above_the_axes_does_not_narrow_them() -> None:
    widths = []
    for label in ("short", "long " * 40):
        figure, ax = plt.subplots(layout="constrained")
        ax.plot([0, 1], [0, 1], label=label)
        ax.set_title("title")
        legend_above(ax)
        figure.canvas.draw()
        widths.append(ax.get_position().width)
    assert widths[0] == pytest.approx(widths[1])


def test_targets_may_be_a_column_that_the_model_was_fitted_to() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 6, 40)})
    frame["price"] = np.sin(frame["x"]) + 0.1 * rng.normal(size=40)
    model = mc.GaussianProcessRegressor().fit(frame, "price")
    for display in (mc.plot.CurveDisplay, mc.plot.GaussianProcessDisplay):
        drawn = display.from_estimator(model, frame, "price")
        assert drawn.xlabel == "x"
        assert drawn.ylabel == "price"
    assert mc.plot.CalibrationDisplay.from_estimator(model, frame, "price").observed.size
    frame["z"] = rng.uniform(0, 6, 40)
    two = mc.KernelRidge().fit(frame, "price")
    assert mc.plot.BoundaryDisplay.from_estimator(two, frame, "price").ax_ is not None
