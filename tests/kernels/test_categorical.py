"""Categories of any kind, in any container."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.exceptions import (
    DataError,
    DataTypeError,
    ParameterError,
)

ROWS = [("red", 1), ("blue", 1), ("red", 2), ("green", 3), ("blue", 2)]
WANTED = ref.matrix(ref.categorical, ROWS, weight=[0.5, 2.0])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_of_mixed_columns(make: Any) -> None:
    frame = make({"colour": [r[0] for r in ROWS], "level": [r[1] for r in ROWS]})
    assert_allclose(mc.Categorical([0.5, 2.0])(frame), WANTED, rtol=1e-14)
    parts = mc.Categorical(0.5).on("colour") * mc.Categorical(2.0).on("level")
    assert_allclose(parts(frame), WANTED, rtol=1e-14)


def test_lists_and_arrays() -> None:
    colours = [r[0] for r in ROWS]
    wanted = ref.matrix(ref.categorical, [[c] for c in colours], weight=0.7)
    for data in (colours, np.array(colours), np.array(colours, dtype=object)[:, None]):
        assert_allclose(mc.Categorical(0.7)(data), wanted, rtol=1e-14)
    bits = np.array([[True], [False], [True]])
    assert_allclose(mc.Categorical(0.7)(bits)[0], [1.0, np.exp(-0.7), 1.0])


def test_unseen_categories_differ_from_all_others() -> None:
    kernel = mc.Categorical()
    K = kernel(["red", "violet", "cyan", "blue"], ["blue", "red"])
    different = np.exp(-1.0)
    wanted = [[different, 1.0], [different] * 2, [different] * 2, [1.0, different]]
    assert_allclose(K, wanted, rtol=1e-14)


def test_missing_and_mixed_values_are_refused() -> None:
    with pytest.raises(DataError, match=r"Categorical: column .* missing value in row 1; fill it"):
        mc.Categorical()(["a", None])
    with pytest.raises(DataTypeError, match=r"Categorical: column .* mixes .*; use one type"):
        mc.Categorical()(["a", 3])


def test_one_weight_for_each_column_or_one_for_all() -> None:
    with pytest.raises(ParameterError, match=r"Categorical: weight has 3 values .* 2 columns"):
        mc.Categorical([1.0, 2.0, 3.0])(np.zeros((4, 2)))


RBF = mc.RBF()


@pytest.mark.parametrize(
    "column",
    [
        ["x", None],
        ["x", np.nan],
        ["x", pd.NA],
        pd.array([1, None], dtype="Int64"),
        pd.to_datetime(["2020-01-01", None]),
    ],
    ids=["None", "NaN", "NA", "Int64", "NaT"],
)
def test_missing_categories(column: Any) -> None:
    data = pd.DataFrame({"other": [1, 2], "colour": column})
    with pytest.raises(DataError, match=r"Categorical: column 'colour' has a missing.*row 1; fill"):
        mc.Categorical().on("colour")(data)


def test_a_missing_category_of_an_array_is_placed_by_its_column() -> None:
    data = np.array([["a", "b"], ["c", pd.NA]], dtype=object)
    with pytest.raises(
        DataError, match=r"Categorical: column 1 has a missing value in row 1; fill"
    ):
        mc.Categorical().on(1)(data)
    with pytest.raises(DataError, match=r"NaN \(first in row 1, column 1\); RBF"):
        RBF.on(1)(np.array([[1.0, 2.0], [3.0, pd.NA]], dtype=object))
