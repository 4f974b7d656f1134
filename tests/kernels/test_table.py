"""The kernel of a whole table against its formula, and models that use it by default."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy import linalg

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.table import is_mixed

FRAMES = pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "one", "lazy", "dog", "again"]


def columns_of(n: int, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    day = dt.datetime(2020, 1, 1)
    return {
        "size": [None if i % 7 == 3 else float(v) for i, v in enumerate(rng.normal(size=n))],
        "count": (1000 * rng.integers(0, 9, size=n)).tolist(),
        "colour": [None if i % 5 == 1 else "rgb"[i % 3] for i in rng.permutation(n)],
        "new": (rng.uniform(size=n) < 0.3).tolist(),
        "when": [day + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, size=n)],
        "note": [" ".join(rng.choice(WORDS, size=8)) if i % 9 else None for i in range(n)],
    }


def targets_of(columns: dict[str, list[Any]]) -> Any:
    price = {"r": 1.0, "g": -1.0, "b": 0.0, None: 2.0}
    size = np.array([0.5 if v is None else v for v in columns["size"]])
    return np.sin(size) + np.array([price[c] for c in columns["colour"]]) * np.array(columns["new"])


def formula(columns: dict[str, list[Any]]) -> Any:
    """The matrix of the kernel, pair by pair."""
    n = len(columns["new"])
    numbers = []
    for name in ("size", "count", "when"):
        values = columns[name]
        if name == "when":
            values = [(v - dt.datetime(1970, 1, 1)).total_seconds() / 86400 for v in values]
        known = np.array([np.nan if v is None else v for v in values])
        standard = (known - np.nanmean(known)) / np.nanstd(known)
        numbers.append(np.where(np.isnan(standard), 0.0, standard))
    levels = [columns["colour"], columns["new"], [v is None for v in columns["size"]]]
    differ = sum(np.array([[a != b for b in c] for a in c], dtype=float) for c in levels)
    weight = float(f"{0.5 / differ.mean():.3g}")
    length = float(f"{6 / np.sqrt(np.pi):.3g}")
    laplacian = np.exp(-sum(np.abs(v[:, None] - v) for v in numbers) / length)
    texts = [{}] * n
    for i, text in enumerate(columns["note"]):
        grams = [text[j : j + 3] for j in range(len(text) - 2)] if text else []
        texts[i] = {g: grams.count(g) for g in grams}
    products = np.array([[sum(a[g] * b.get(g, 0) for g in a) for b in texts] for a in texts])
    norm = np.sqrt(np.diag(products))
    texts_alike = products / np.where(norm, norm, 1)[:, None] / np.where(norm, norm, 1)
    return (1 + laplacian) * (1 + np.exp(-weight * differ)) + texts_alike


@FRAMES
def test_a_table_kernel_is_its_formula(make: Any) -> None:
    columns = columns_of(30)
    frame = make(columns)
    kernel = mc.table_kernel(frame)
    assert kernel.is_psd
    assert_allclose(kernel.resolve(frame)(frame), formula(columns), rtol=1e-9, atol=1e-12)


def test_a_table_kernel_is_shown_and_edited() -> None:
    frame = pd.DataFrame({"size": [1.5, 2.0, 3.5], "colour": ["red", "blue", None]})
    kernel = mc.table_kernel(frame)
    shown = "(Constant() + Laplacian(length_scale=1.13).standardized().on('size')) * (Constant() + "
    assert repr(kernel) == shown + "Categorical(weight=0.75).on('colour'))"
    names = {name: getattr(mc, name) for name in ("Constant", "Laplacian", "Categorical")}
    assert eval(repr(kernel), names) == kernel
    paths = [path for path in kernel.get_params() if path.endswith("weight")]
    assert kernel.replace(**{paths[0]: 0.1}) != kernel


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"a": [1.0, 2.0]}, "Laplacian(length_scale=1.13).standardized().on('a')"),
        ({"s": ["x", "y"]}, "Categorical(weight=1.0).on('s')"),
        (
            {"t": ["many words, one row " * 2, "other words, one row "]},
            "Spectrum().normalized().on('t')",
        ),
    ],
)
def test_tables_with_one_kind_of_column(columns: Any, wanted: str) -> None:
    assert repr(mc.table_kernel(pd.DataFrame(columns))) == wanted


def test_what_is_no_table_is_refused() -> None:
    for data in (np.ones((3, 2)), [["a"]], pd.DataFrame()):
        with pytest.raises(DataTypeError, match=r"table_kernel: a .* pass a data frame"):
            mc.table_kernel(data)


def test_frames_of_finite_numbers_are_not_mixed() -> None:
    assert not is_mixed(np.array([[np.nan]]))
    assert not is_mixed([[1.0, "a"]])
    assert not is_mixed(pd.DataFrame({"a": [1, 2], "b": [True, False]}))
    assert is_mixed(pd.DataFrame({"a": [1.0, np.nan]}))
    assert is_mixed(pl.DataFrame({"a": [1.0, float("nan")]}))
    assert is_mixed(pa.table({"a": ["x"]}))
    assert not is_mixed(pd.DataFrame({"a": [1.0, 2.0]}, dtype=object))
    assert is_mixed(pd.DataFrame({"a": [1.0, None]}, dtype=object))


def test_a_frame_of_objects_is_fitted_as_its_numbers_are() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    day = dt.date(2020, 1, 1)
    frame = pd.DataFrame(X, columns=list("abc"), dtype=object)
    assert_allclose(
        mc.KernelRidge().fit(frame, X[:, 0]).predict(frame),
        mc.KernelRidge().fit(X, X[:, 0]).predict(X),
    )
    dates = pd.DataFrame({"s": list("xyz") * 10, "d": [day + dt.timedelta(i) for i in range(30)]})
    times = dates.assign(d=pd.to_datetime(dates["d"]))
    assert mc.table_kernel(dates) == mc.table_kernel(times)
    assert_allclose(
        mc.KernelRidge().fit(dates, X[:, 0]).predict(dates),
        mc.KernelRidge().fit(times, X[:, 0]).predict(times),
    )


MODELS = {
    "ridge": mc.KernelRidge(alpha=0.01),
    "huber": mc.KernelHuberRegressor(alpha=1e-3),
    "process": mc.GaussianProcessRegressor(learn=False, noise=0.01),
    "svr": mc.SVR(kernel=None, C=10.0),
    "lms": mc.KernelLMS(),
}


@FRAMES
@pytest.mark.parametrize("name", MODELS)
def test_models_take_the_table_kernel_by_default(make: Any, name: str) -> None:
    columns, new = columns_of(60), columns_of(20, seed=1)
    new["colour"][0] = "violet"
    frame, y = make(columns), targets_of(columns)
    model = MODELS[name].fit(frame, y)
    given = type(model)(**{**model.get_params(deep=False), "kernel": mc.table_kernel(frame)})
    if name == "process":
        given.set_params(kernel=1.0 * mc.table_kernel(frame))
    wanted = given.fit(frame, y).predict(make(new))
    assert_allclose(model.predict(make(new)), wanted)
    assert np.isfinite(wanted).all()


def test_classifiers_and_transformers_take_the_table_kernel_by_default() -> None:
    columns = columns_of(60)
    frame, y = pd.DataFrame(columns), targets_of(columns) > 0
    for model in (mc.KernelLogisticRegression(alpha=1e-3), mc.SVC(kernel=None, C=100.0)):
        assert model.fit(frame, y).score(frame, y) > 0.9
    features = mc.Nystrom(n_landmarks=60).fit_transform(frame)
    kernel = mc.table_kernel(frame).resolve(frame)
    assert_allclose(features @ features.T, kernel(frame), rtol=1e-6, atol=1e-6)


# Of 60 rows, the longest length-scale may win.
@pytest.mark.filterwarnings("ignore:KernelRidge.* the longest that was compared")
def test_length_scales_are_searched_in_the_table_kernel() -> None:
    columns = columns_of(60)
    frame = pd.DataFrame(columns)
    model = mc.KernelRidge(alpha="loo", length_scales="auto").fit(frame, targets_of(columns))
    assert model.kernel_.unresolved() == []


def test_holes_of_an_array_are_still_refused() -> None:
    X = np.ones((4, 2))
    X[1, 1] = np.nan
    with pytest.raises(DataError, match=r"NaN \(first in row 1, column 1\).*standardized"):
        mc.KernelRidge().fit(X, np.ones(4))


def test_decorrelated_numbers_against_an_eigendecomposition() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3)) * [1.0, 50.0, 0.1] + 7
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    correlations = np.corrcoef(values.T) + 0.3 * np.eye(3)
    decorrelated = standard @ np.real(linalg.inv(linalg.sqrtm(correlations)))
    decorrelated /= decorrelated.std(axis=0)
    both = np.hstack([standard, decorrelated])
    length = float(f"{2 * 6 / np.sqrt(np.pi):.3g}")
    expected = np.exp(-np.abs(both[:, None] - both).sum(axis=2) / length)
    kernel = mc.table_kernel(frame, decorrelate=True).resolve(frame)
    assert_allclose(kernel(frame), expected, rtol=1e-10)


@FRAMES
def test_a_missing_number_counts_as_the_mean_before_and_after_decorrelation(make: Any) -> None:
    columns = columns_of(40)
    kernel = mc.table_kernel(make(columns), decorrelate=True).resolve(make(columns))
    matrix = kernel(make(columns))
    assert np.isfinite(matrix).all()
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_one_column_has_nothing_to_decorrelate() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    assert mc.table_kernel(frame, decorrelate=True) == mc.table_kernel(frame)


DATA = os.environ.get("MERCER_DATA")


def real_table(name: str) -> tuple[Any, Any]:
    """A table as it would come from a file."""
    stored = np.load(Path(DATA or "") / "mixed" / f"{name}.npz")
    frame = pd.DataFrame(stored["num"], columns=stored["num_names"])
    for j, (column, levels) in enumerate(json.loads(str(stored["cat_levels"])).items()):
        frame[column] = [None if code < 0 else levels[code] for code in stored["cat"][:, j]]
    return frame, stored["y"]


@pytest.mark.skipif(not DATA, reason="MERCER_DATA is not set")
@pytest.mark.parametrize(("name", "least"), [("ames", 0.87), ("california_housing", 0.7)])
def test_prices_of_houses_without_preparation(name: str, least: float) -> None:
    frame, y = real_table(name)
    y = np.log(y) if name == "ames" else y
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:700], order[700:1700]
    model = mc.KernelRidge(alpha="loo").fit(frame.iloc[train], y[train])
    assert model.score(frame.iloc[test], y[test]) > least
