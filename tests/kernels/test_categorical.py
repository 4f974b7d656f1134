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
from mercer.exceptions import DataTypeError, ParameterError, UnresolvedParameterError
from mercer.program.gradient import _parameter_plan

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
    kernel = mc.Categorical(1.0)
    K = kernel(["red", "violet", "cyan", "blue"], ["blue", "red"])
    different = np.exp(-1.0)
    wanted = [[different, 1.0], [different] * 2, [different] * 2, [1.0, different]]
    assert_allclose(K, wanted, rtol=1e-14)


def test_mixed_values_are_refused() -> None:
    with pytest.raises(DataTypeError, match=r"Categorical: column .* mixes .*; use one type"):
        mc.Categorical(1.0)(["a", 3])
    with pytest.raises(DataTypeError, match=r"column 'x0' holds str such as '1', and .* int such"):
        mc.Categorical(1.0)(["1", "2"], [1, 2])
    with pytest.raises(DataTypeError, match=r"cannot be compared; pass strings"):
        mc.Categorical(1.0)(np.array([[{}], [{}]], dtype=object))


def test_categories_are_equal_as_python_values_are() -> None:
    different = np.exp(-1.0)
    assert_allclose(mc.Categorical(1.0)(["a", "a\0"])[0], [1.0, different])
    numbers = np.array([[2**53], [2**53 + 1], [0.5], [2.0**53]], dtype=object)
    assert_allclose(mc.Categorical(1.0)(numbers)[0], [1.0, different, different, 1.0])
    assert_allclose(mc.Categorical(1.0)([1, 0], [True, False]), mc.Categorical(1.0)([1, 0]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_weight_follows_the_number_of_columns_and_levels(make: Any) -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{j}": rng.integers(0, j + 2, size=40).astype(str).tolist() for j in range(6)}
    columns["holes"] = ["x", None] * 20
    frame = make(columns)
    rows = list(zip(*columns.values(), strict=True))
    differences = [sum(a != b for a, b in zip(x, z, strict=True)) for x in rows for z in rows]
    found = mc.Categorical().resolve(frame).weight
    assert_allclose(found, 1 / np.mean(differences), rtol=1e-12)
    values = mc.Categorical().resolve(frame)(frame)
    assert_allclose(np.log(values).mean(), -1.0, rtol=1e-12)
    weights = rng.integers(0, 3, size=40)
    repeated = make({name: np.repeat(v, weights).tolist() for name, v in columns.items()})
    weighted = mc.Categorical().resolve(frame, weights).weight
    assert_allclose(weighted, mc.Categorical().resolve(repeated).weight, rtol=1e-12)


def test_the_weight_of_rare_differences_is_bounded() -> None:
    assert mc.Categorical().resolve(["a"] * 50 + ["b"]).weight == 2.0
    assert mc.Categorical().resolve(["a"] * 5).weight == 2.0
    assert mc.Categorical(mc.Bounded("scale", 3.0, 4.0)).resolve(["a", "b"]).weight == 3.0
    with pytest.raises(UnresolvedParameterError, match=r"weight = 'scale' is not resolved"):
        mc.Categorical()(["a", "b"])


def test_one_weight_for_each_column_or_one_for_all() -> None:
    with pytest.raises(ParameterError, match=r"Categorical: weight has 3 values .* 2 columns"):
        mc.Categorical([1.0, 2.0, 3.0])(np.zeros((4, 2)))


@pytest.mark.parametrize(
    "column",
    [
        ["x", None, "x", None],
        ["x", np.nan, "x", None],
        ["x", pd.NA, "x", None],
        pd.array([1, None, 1, None], dtype="Int64"),
        pd.to_datetime(["2020-01-01", None, "2020-01-01", None]),
    ],
    ids=["None", "NaN", "NA", "Int64", "NaT"],
)
def test_missing_values_are_one_category(column: Any) -> None:
    data = pd.DataFrame({"other": [1, 2, 3, 4], "colour": column})
    a, b = 1.0, np.exp(-0.5)
    wanted = [[a, b, a, b], [b, a, b, a], [a, b, a, b], [b, a, b, a]]
    assert_allclose(mc.Categorical(0.5).on("colour")(data), wanted)
    assert_allclose(mc.Categorical(0.5).on("colour")(data[:2], data), wanted[:2])
    assert_allclose(mc.Missing(0.5).on("colour")(data), wanted)
    assert_allclose(mc.Missing(0.5)(data), wanted)
    full = data.fillna({"colour": data["colour"][0]})
    assert_allclose(mc.Missing(0.5)(full, data), wanted[::2] * 2)


def test_categories_are_equal_only_if_they_are() -> None:
    apart = [[1.0, np.exp(-1.0)], [np.exp(-1.0), 1.0]]
    assert_allclose(mc.Categorical(1.0)(["a", "a\0"]), apart)
    assert_allclose(mc.Categorical(1.0)([[2**53], [2**53 + 1]]), apart)
    column = np.empty((3, 1), dtype=object)
    column[:, 0] = [2**53, 2**53 + 1, 0.5]
    assert_allclose(mc.Categorical(1.0)(column)[:2, :2], apart)
    assert_allclose(mc.Categorical(1.0)(["a", "a\0"], ["a\0"]), [[np.exp(-1.0)], [1.0]])


def test_the_gradient_in_weights_has_one_request_for_all_columns() -> None:
    plans = [_parameter_plan((mc.Categorical(np.ones(d)).expression,))[2] for d in (3, 30)]
    assert len(plans[0]) == len(plans[1]) == 1
