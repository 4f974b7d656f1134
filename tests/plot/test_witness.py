"""The witness function over one column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.exceptions import DataError, ParameterError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=30), 1.0 + RNG.normal(size=20)
draw = mc.plot.WitnessDisplay.from_samples


def test_values_are_differences_of_means_of_the_kernel() -> None:
    display = draw(X, Y, mc.RBF(0.7), grid_resolution=5, margin=0.0)
    both = np.concatenate([X, Y])
    grid = np.linspace(both.min(), both.max(), 5)
    expected = [
        np.mean(np.exp(-((t - X) ** 2) / 0.98)) - np.mean(np.exp(-((t - Y) ** 2) / 0.98))
        for t in grid
    ]
    np.testing.assert_allclose(display.x, grid)
    np.testing.assert_allclose(display.values, expected, atol=1e-12)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.values)
    np.testing.assert_array_equal(display.first_.get_xdata(), X)
    np.testing.assert_array_equal(display.second_.get_xdata(), Y)
    norm = mc.inference.witness(X, Y, mc.RBF(0.7)).norm
    assert f"discrepancy {norm:.3g}" in display.ax_.get_title()


def test_one_of_several_columns() -> None:
    left, right = (pd.DataFrame({"a": v, "b": v[::-1] ** 2}) for v in (X, Y))
    display = draw(left, right, column="b")
    np.testing.assert_allclose(display.values, draw(X**2, Y**2).values, atol=1e-12)
    assert display.ax_.get_xlabel() == "b"
    assert draw(left.to_numpy(), right.to_numpy(), column=1).ax_.get_xlabel() == "$x_{2}$"


def test_dates_are_drawn_as_dates() -> None:
    days = pd.date_range("2024-01-01", periods=20)
    display = draw(pd.DataFrame({"day": days[:12]}), pd.DataFrame({"day": days[8:]}))
    assert display.x.dtype.kind == "M"
    assert display.values[0] > 0 > display.values[-1]


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match=r"1 column can be drawn; .* column=0"):
        draw(np.ones((4, 2)), np.ones((4, 2)))
    with pytest.raises(ParameterError, match=r"grid_resolution = 1 .*; pass"):
        draw(X, Y, grid_resolution=1)
