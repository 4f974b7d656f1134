"""Kernels of one input: profiles and functions of their Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

draw = mc.plot.KernelDisplay.from_kernel


@pytest.mark.parametrize("length", [0.01, 1.0, 40.0])
def test_the_profile_of_a_kernel_of_distances(length: float) -> None:
    display = draw(mc.RBF(length_scale=length))
    (line,) = display.lines_
    r = np.asarray(line.get_xdata())
    np.testing.assert_allclose(line.get_ydata(), np.exp(-0.5 * (r / length) ** 2), atol=1e-9)
    assert 3 * length < r[-1] < 9 * length
    assert display.centres is None
    assert display.ax_.get_xlabel() == "distance r"


@pytest.mark.parametrize("kernel", [mc.Linear(), mc.RBF() * mc.Linear(), mc.Polynomial()], ids=str)
def test_other_kernels_have_three_centres(kernel: Any) -> None:
    display = draw(kernel)
    assert display.centres is not None
    for line, centre in zip(display.lines_, display.centres, strict=True):
        expected = kernel(display.x[:, None], [[centre]])[:, 0]
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-9, atol=1e-9)
        assert line.get_label() == f"c = {centre:.3g}"
    assert display.ax_.get_ylabel() == "k(x, c)"


def test_functions_have_the_covariance_of_the_kernel() -> None:
    kernel = 2.0 * mc.Matern(length_scale=1.5)
    display = draw(kernel, [[0.0], [4.0]], n_samples=5, grid_resolution=5, random_state=3)
    assert display.samples is not None
    # Five draws are a root of the covariance times a square matrix of normal numbers.
    numbers = np.random.RandomState(3).standard_normal((5, 5))
    root = display.samples @ np.linalg.inv(numbers)
    np.testing.assert_allclose(root @ root.T, kernel(display.x[:, None]), rtol=1e-9)
    assert len(display.sample_lines_) == 5


def test_the_range_and_the_rules_of_data_are_used() -> None:
    data = pd.DataFrame({"height": [1.0, 2.0, 7.0]})
    display = draw(mc.RBF(length_scale="median"), data)
    np.testing.assert_allclose(display.x[[0, -1]], [1.0, 7.0])
    assert display.samples_ax_.get_xlabel() == "height"
    assert display.ax_.get_title() == "RBF(length_scale=5)"


def test_dates_have_distances_in_days() -> None:
    data = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=11)})
    display = draw(mc.RBF(length_scale=3.0), data)
    assert display.x.dtype.kind == "M"
    assert display.distances[-1] == pytest.approx(10.0)
    assert display.ax_.get_xlabel() == "distance r (days)"
    display.figure_.canvas.draw()
    assert draw(mc.Linear(), data).lines_[0].get_label() == "c = 2020-01-02"


def test_functions_are_drawn_on_demand_and_only_for_valid_kernels() -> None:
    assert draw(mc.RBF(), n_samples=0).sample_lines_ == []
    indefinite = draw(mc.Sigmoid())
    assert indefinite.samples is None
    assert len(indefinite.figure_.axes) == 1


def test_kernels_may_be_named() -> None:
    np.testing.assert_array_equal(draw("rbf").values, draw(mc.RBF()).values)
    data = np.array([[0.0], [1.0], [4.0]])
    np.testing.assert_allclose(draw("rbf", data).values, draw(mc.RBF("scale"), data).values)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="KernelDisplay: kernel = 'rfb' is not the name of a"):
        draw("rfb")
    with pytest.raises(ParameterError, match="KernelDisplay: kernel = 3 is not a kernel; pass a"):
        draw(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"1 column can be drawn"):
        draw(mc.RBF(), np.ones((3, 2)))
    with pytest.raises(DataTypeError, match="does not hold numbers"):
        draw(mc.RBF(), ["a", "b"])
    for argument in ({"grid_resolution": 2}, {"n_samples": -1}):
        with pytest.raises(ParameterError, match=r"KernelDisplay: .*; pass"):
            draw(mc.RBF(), **argument)  # type: ignore[arg-type]
