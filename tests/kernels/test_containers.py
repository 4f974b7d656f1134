"""Containers of rows: which are taken, and how the others are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    MercerError,
)


def test_mappings_and_sets_are_not_rows() -> None:
    for data in ({"a": [1.0]}, {1.0, 2.0}):
        with pytest.raises(DataTypeError, match="not a collection of rows"):
            mc.RBF()(data)


RNG = np.random.default_rng(4)

X, Z = RNG.normal(size=(12, 4)), RNG.normal(size=(7, 4))


def test_lists_integers_and_series_are_data() -> None:
    rows = [[0, 1], [2, 3]]
    wanted = mc.RBF()(np.array(rows, dtype=float))
    for data in (rows, np.array(rows), np.array(rows, dtype=object), np.array(rows, np.float16)):
        assert_allclose(mc.RBF()(data), wanted, rtol=1e-6)
    for dtype in (">f8", np.longdouble, "<f8", ">i4"):
        assert_array_equal(mc.RBF()(np.array(rows, dtype)), wanted)
    assert mc.RBF()(X.astype(np.longdouble)).dtype == np.float64
    assert_array_equal(mc.Spectrum(2)(pd.Series(["ab", "abab"])), [[1, 2], [2, 5]])
    assert_array_equal(mc.Spectrum(2)(pl.Series(["ab", "abab"])), [[1, 2], [2, 5]])


def test_float32_stays_float32_and_mixtures_are_float64() -> None:
    single = X.astype(np.float32)
    for kernel in (mc.RBF(), mc.Linear() ** 2, mc.Laplacian() * mc.Matern(nu=1.3), mc.Cosine()):
        assert kernel(single).dtype == np.float32
        assert kernel.diag(single).dtype == np.float32
        assert kernel.gram(single).dtype == np.float32
        assert (kernel.gram(single) @ np.ones(12, np.float32)).dtype == np.float32
        assert kernel(X).dtype == np.float64
        assert kernel(single, Z).dtype == np.float64


RBF = mc.RBF()


def test_a_memoryview_is_an_array() -> None:
    assert_allclose(RBF(memoryview(X)), RBF(X))


TABLE = np.random.default_rng(8).normal(size=(6, 2))


def with_value(value: float) -> np.ndarray:
    bad = TABLE.copy()
    bad[3, 1] = value
    return bad


REFUSED_ROWS: list[tuple[Any, type[MercerError], str]] = [
    (
        lambda: mc.RBF()(with_value(np.nan)),
        DataError,
        r"NaN .*row 3, column 1.* RBF .*Impute or drop",
    ),
    (lambda: mc.RBF()(with_value(np.inf)), DataError, r"infinity .*row 3, column 1.* RBF .*Impute"),
    (lambda: mc.RBF()(TABLE, with_value(-np.inf)), DataError, r"infinity .*RBF"),
    (lambda: mc.Linear().diag(with_value(np.nan)), DataError, r"NaN .*Linear"),
    (lambda: mc.RBF().gram(with_value(np.nan)), DataError, r"NaN .*RBF"),
    (lambda: mc.RBF()([[1.0, 2.0], [3.0]]), DataError, r"RBF .*different lengths \(from 1 to 2\)"),
    (lambda: mc.RBF()(TABLE[:, 0]), DataError, r"RBF .*expected 2D array, got 1D.*reshape"),
    (lambda: mc.RBF()(TABLE[:0]), DataError, r"0 sample.*RBF"),
    (lambda: mc.RBF()(TABLE[:, :0]), DataError, r"0 feature.*RBF"),
    (lambda: mc.RBF()(TABLE, TABLE[:, :1]), DataError, r"2 .*columns.*1"),
    (lambda: mc.RBF()(TABLE * 1j), DataTypeError, r"Complex data not supported by RBF"),
    (lambda: mc.RBF()(["abc", "d"]), DataTypeError, r"RBF .*list of str.*Spectrum"),
    (lambda: mc.RBF()([["a", "b"]]), DataTypeError, r"RBF .*Categorical\(\)"),
    (lambda: mc.RBF()(np.ma.masked_less(TABLE, 0.0)), DataError, r"masked values.*fill or drop"),
    (lambda: mc.RBF()(None), DataTypeError, r"NoneType is not a collection of rows; pass"),
    (lambda: mc.RBF()("abc"), DataTypeError, r"single string"),
    (lambda: mc.RBF()(Path("a.csv")), DataTypeError, r"a path is not .*mercer\.read_blocks"),
    (lambda: mc.Spectrum(2)(TABLE), DataTypeError, r"Spectrum: row 0 .*not a string; pass a list"),
    (lambda: mc.Chi2()(TABLE), DataError, r"Negative values .*Chi2 .*got -.*shift or clip"),
]


@pytest.mark.parametrize(
    ("act", "error", "words"), REFUSED_ROWS, ids=[words for *_, words in REFUSED_ROWS]
)
def test_rows_that_are_refused_are_explained(
    act: Any, error: type[MercerError], words: str
) -> None:
    with pytest.raises(error, match=words):
        act()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_may_be_selected_twice(make: Any) -> None:
    frame = make({"a": [1.0, 2.0, 4.0], "b": ["x", "y", "x"], "a'": [0.0, 1.0, 0.0]})
    values = np.array([[1.0], [2.0], [4.0]])
    assert_allclose(RBF.on("a", "a")(frame), RBF(np.repeat(values, 2, axis=1)))
    both = RBF.on("a", "a'", "a", "a")(frame)
    assert_allclose(both, RBF(np.c_[values, [0.0, 1.0, 0.0], values, values]))
    assert_allclose(mc.Categorical(1.0).on("b", "b")(frame), mc.Categorical(2.0).on("b")(frame))


TIMES = [dt.datetime(2020, 1, 1, 12), dt.datetime(1960, 1, 2), None]
DAYS = np.array([[18262.5], [-3652.0]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_times_are_numbers_of_days(make: Any) -> None:
    frame = make({"t": TIMES[:2], "d": [dt.timedelta(1), dt.timedelta(hours=3)]})
    kernel = mc.RBF(1e4)
    assert_allclose(kernel.on("t")(frame), kernel(DAYS), rtol=1e-12)
    assert_allclose(RBF.on("d")(frame), RBF([[1.0], [0.125]]))
    assert_allclose(mc.Linear().on("t").feature_map(frame), DAYS)
    with pytest.raises(DataError, match=r"NaN \(first in row 2, column 't'\)"):
        RBF.on("t")(make({"t": TIMES}))


def test_times_of_arrays_and_time_zones_are_numbers_of_days() -> None:
    for unit in ("D", "s", "ns"):
        times = np.array([["2020-01-01"], ["1960-01-02"]], dtype=f"M8[{unit}]")
        assert_allclose(mc.Linear().feature_map(times), [[18262.0], [-3652.0]])
    with pytest.raises(DataError, match="NaN"):
        RBF(np.array([["2020-01-01"], ["NaT"]], dtype="M8[D]"))
    there = pd.DataFrame({"t": pd.to_datetime(TIMES[:2]).tz_localize("Asia/Tokyo")})
    assert_allclose(mc.Linear().on("t").feature_map(there), DAYS - 9 / 24)


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float64", "bool[pyarrow]"])
def test_missing_values_of_nullable_columns_are_missing_numbers(kind: str) -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 0], dtype=kind)})
    with pytest.raises(DataError, match=r"contains NaN \(first in row 1, column 'a'\)"):
        RBF(frame)
    assert_allclose(RBF(frame.drop(index=1)), RBF([[1.0], [0.0]]))
    standard = mc.RBF().standardized([0.5], [0.5])
    assert_allclose(standard(frame), RBF([[1.0], [0.0], [-1.0]]))


OBJECTS = {
    "numbers": ([1, 2.5, np.float32(0.5)], [1.0, 2.5, 0.5]),
    "decimals": ([Decimal("1.5"), 2, 0.25], [1.5, 2.0, 0.25]),
    "dates": ([dt.date(1970, 1, 3), dt.date(1969, 12, 31), dt.date(1970, 1, 1)], [2.0, -1.0, 0.0]),
    "times": (
        [
            dt.datetime(1970, 1, 2, 12),
            dt.datetime(1970, 1, 1, 6, tzinfo=dt.timezone(dt.timedelta(hours=6))),
            pd.Timestamp("1970-01-03"),
        ],
        [1.5, 0.0, 2.0],
    ),
    "durations": ([dt.timedelta(2), dt.timedelta(hours=6), pd.Timedelta("1D")], [2.0, 0.25, 1.0]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_python_that_are_numbers_are_read_as_such(name: str) -> None:
    objects, numbers = OBJECTS[name]
    frame = pd.DataFrame({"a": pd.Series([*objects, None], dtype=object)})
    assert_allclose(RBF(frame[:3]), RBF(np.array(numbers)[:, None]))
    with pytest.raises(DataError, match=r"contains NaN \(first in row 3, column 'a'\)"):
        RBF(frame)


def test_periods_are_the_times_at_which_they_begin() -> None:
    frame = pd.DataFrame({"a": pd.period_range("1970-01", periods=3, freq="M")})
    assert_allclose(mc.Linear().feature_map(frame)[:, 0], [0.0, 31.0, 59.0])


def test_other_objects_are_named_by_their_type() -> None:
    frame = pd.DataFrame({"a": pd.Series([1j, None], dtype=object), "b": [{1}, "x"]})
    with pytest.raises(DataTypeError, match="column 'a' holds objects of type complex; pass real"):
        RBF(frame)
    with pytest.raises(DataTypeError, match="column 'b' holds objects of type set and str; give"):
        RBF.on("b")(frame)


def test_no_column_is_refused() -> None:
    for data in (X, pd.DataFrame(X, columns=list("abcd"))):
        with pytest.raises(DataError, match="selects none of the 4 columns"):
            mc.RBF().on(slice(0, 0))(data)


def test_a_file_name_is_no_data() -> None:
    with pytest.raises(DataTypeError, match="read_blocks"):
        mc.RBF()("rows.csv")


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_of_vectors_is_rows_of_numbers(library: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 2, size=(8, 16))
    frame = library.DataFrame({"bits": bits.tolist(), "heat": np.arange(8.0)})
    np.testing.assert_allclose(mc.Tanimoto().on("bits")(frame), mc.Tanimoto()(bits))
    ragged = library.DataFrame({"bits": [[1.0], [1.0, 2.0]]})
    with pytest.raises(DataTypeError, match="compares rows of numbers, but column 'bits' holds"):
        mc.RBF(1.0).on("bits")(ragged)
