"""Rows along one column of a data set."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.plot.section import Section, draw_points, one_output

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3))
Y = RNG.normal(size=8)
MODEL = LinearRegression().fit(X, Y)
COLUMNS = {
    "size": [3.0, 1.0, 2.0, 4.0],
    "count": [5, 8, 6, 7],
    "kind": ["a", "b", "b", "c"],
    "day": pd.date_range("2020-01-01", periods=4).to_list(),
}


def test_other_columns_of_an_array_are_held_at_their_lower_median() -> None:
    section = Section.through("Owner", MODEL, X, None, column=1, size=5, margin=0.0)
    np.testing.assert_allclose(section.x, np.linspace(X[:, 1].min(), X[:, 1].max(), 5))
    for j in (0, 2):
        np.testing.assert_array_equal(section.rows[:, j], np.full(5, sorted(X[:, j])[3]))
    np.testing.assert_array_equal(section.rows[:, 1], section.x)
    assert (section.xlabel, section.n_held) == ("$x_{2}$", 2)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("column", list(COLUMNS)[:2])
def test_other_columns_of_a_frame_keep_their_types(frame: Any, column: str) -> None:
    data = frame(COLUMNS)
    section = Section.through("Owner", MODEL, data, None, column=column, size=3)
    rows = section.rows
    assert list(rows.columns) == list(COLUMNS)
    held = {"size": 2.0, "count": 6, "kind": "b", "day": pd.Timestamp("2020-01-02")}
    for name in held.keys() - {column}:
        assert rows[name].dtype == data[name].dtype
        assert rows[name].to_list() == [held[name]] * 3
    np.testing.assert_array_equal(rows[column].to_numpy(), section.x)


def test_a_frame_with_a_column_of_dates_varies_over_dates() -> None:
    data = pd.DataFrame(COLUMNS)
    section = Section.through("Owner", MODEL, data, None, column="day", size=4, margin=0.0)
    expected = np.array("2020-01-01", "M8[us]") + np.arange(4) * np.timedelta64(1, "D")
    np.testing.assert_array_equal(section.x, expected)


def test_points_that_were_fitted_are_told_apart_only_if_they_are_known() -> None:
    line = X[:, :1]
    ridge = mc.KernelRidge(mc.RBF()).fit(line[:5], Y[:5])
    section = Section.through("Owner", ridge, line, Y)
    assert section.points is not None
    assert section.others is not None
    np.testing.assert_array_equal(section.points[1], Y[:5])
    np.testing.assert_array_equal(section.others[1], Y[5:])
    unknown = Section.through("Owner", LinearRegression().fit(line, Y), line, Y)
    assert unknown.points is None
    assert unknown.others is not None


@pytest.mark.parametrize("column", ["width", 3, -1, 1.5, True])
def test_a_column_that_is_not_there_is_refused(column: Any) -> None:
    with pytest.raises(ParameterError, match=r"column = .* is not a column of X; pass one of 0 to"):
        Section.through("Owner", MODEL, X, None, column=column)
    with pytest.raises(ParameterError, match="pass one of 'size', 'count', 'kind', 'day'"):
        Section.through("Owner", MODEL, pd.DataFrame(COLUMNS), None, column="width")


def test_several_columns_need_a_choice() -> None:
    with pytest.raises(DataError, match=r"X has shape \(8, 3\), but 1 column can be drawn"):
        Section.through("Owner", MODEL, X, None)


def test_one_output_of_several() -> None:
    values = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(one_output("Owner", values, 1), [1.0, 3.0, 5.0])
    for output in (None, 2):
        with pytest.raises(ParameterError, match="does not name one of the model's 2 targets"):
            one_output("Owner", values, output)


def test_inputs_without_targets_are_ticks() -> None:
    _, ax = plt.subplots()
    points, ticks = draw_points(ax, None, None, np.array([1.0, 2.0]))
    assert points is None
    assert list(ticks.get_xdata()) == [1.0, 2.0]
    assert draw_points(ax, None, None, None) == (None, None)
