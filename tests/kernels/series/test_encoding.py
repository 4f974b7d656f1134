"""What counts as a series, and how its kernels take part in everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, train_test_split

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError
from series_oracles import random_series

X = np.random.default_rng(0).standard_normal((24, 3, 10)).cumsum(axis=2)
y = np.tile([0, 1], 12)
X[y == 1] += np.linspace(0.0, 4.0, 10)
by_channels = mc.GlobalAlignment(4.0, layout="channels,time")
by_time = mc.GlobalAlignment(4.0, layout="time,channels")


def test_layouts_of_arrays_and_lists_agree() -> None:
    wanted = by_channels(X)
    assert_array_equal(by_time(X.transpose(0, 2, 1)), wanted)
    assert_array_equal(by_time([x.T for x in X]), wanted)
    assert_array_equal(
        by_channels(X.astype(np.float32)), by_channels(X.astype(np.float32).tolist())
    )


def test_one_channel_needs_no_layout() -> None:
    k = mc.GlobalAlignment(4.0)
    wanted = k(X[:, 0])
    for form in (X[:, :1], X[:, :1].transpose(0, 2, 1), list(X[:, 0]), X[:, 0].tolist()):
        assert_array_equal(k(form), wanted)


def test_lists_of_different_lengths_tell_which_axis_is_the_time() -> None:
    series = random_series(6, 2, seed=0, low=3)
    wanted = by_time(series)
    assert_array_equal(mc.GlobalAlignment(4.0)(series), wanted)
    assert_array_equal(mc.GlobalAlignment(4.0)([x.T for x in series]), wanted)


def test_nan_at_the_end_is_padding() -> None:
    series = random_series(5, 2, seed=1, low=2)
    padded = np.full((5, 12, 2), np.nan)
    for i, x in enumerate(series):
        padded[i, : len(x)] = x
    assert_array_equal(by_time(padded), by_time(series))


def test_whole_numbers_and_single_times_are_series() -> None:
    k = mc.DTW(scale=1.0)
    assert_allclose(k([[1], [2]]), np.exp([[0.0, -1.0], [-1.0, 0.0]]))
    assert_allclose(k(np.array([[1], [2]])), k([[1.0], [2.0]]))
    assert_allclose(k([[True, False]]), [[1.0]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X, r"GlobalAlignment: series of shape \(3, 10\) do not tell which axis is the time"),
        ([[1.0], []], "row 1 is a series without values"),
        ([[1.0, 2.0], [np.nan, np.nan]], "row 1 is a series without values"),
        ([[1.0, np.nan, 2.0]], "row 0 holds NaN or infinity at time 1"),
        ([[1.0, 2.0], None], "row 1 is missing"),
        ([np.ones((4, 1)), np.nan], "row 1 is missing"),
        ([[1.0, np.inf]], "row 0 holds NaN or infinity at time 1"),
        ([np.array([[1.0, np.nan], [2.0, 3.0]]), np.ones((3, 2))], "row 0 holds NaN"),
        ([np.ones((3, 2)), np.ones((4, 3))], "do not tell"),
        ([np.ones(3), np.ones((4, 1)), np.ones((1, 1, 1))], r"row 2 has shape \(1, 1, 1\)"),
    ],
)
def test_data_that_are_no_series_are_refused(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mc.GlobalAlignment(4.0)(data)


@pytest.mark.parametrize("data", [["abc", "de"], [{"a": 1}], [[1.0 + 2.0j]], [[["a"]]]])
def test_objects_that_are_no_numbers_are_refused(data: Any) -> None:
    with pytest.raises(DataTypeError, match=r"GlobalAlignment: row 0 is of type .* not a series"):
        mc.GlobalAlignment(4.0)(data)


def test_series_of_different_channels_are_refused() -> None:
    with pytest.raises(DataError, match="series of 3 channels cannot be compared with series of 2"):
        by_channels(X, X[:, :2])
    with pytest.raises(DataError, match="have from 2 to 3 channels"):
        by_time([np.ones((4, 2)), np.ones((5, 3))])


def test_layouts_have_names() -> None:
    with pytest.raises(
        ParameterError, match="layout = 'nct' is not one of 'auto', 'time,channels'"
    ):
        mc.DTW(layout="nct")


def test_columns_of_data_frames_hold_series() -> None:
    wanted = by_time([x.T for x in X]) * mc.RBF()(y[:, None].astype(float))
    k = by_time.on("curve") * mc.RBF().on("size")
    frame = pd.DataFrame({"curve": [x.T for x in X], "size": y.astype(float)})
    assert_allclose(k(frame), wanted)
    lists = pl.DataFrame({"curve": [x.T.tolist() for x in X], "size": y.astype(float)})
    assert_allclose(k(lists), wanted)
    wide = pd.DataFrame(X[:, 0])
    assert_allclose(mc.GlobalAlignment(4.0)(wide), mc.GlobalAlignment(4.0)(X[:, 0]))


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(by_channels, alpha=1.0),
        mc.SVC(by_channels),
        mc.SVR(by_channels),
        mc.GaussianProcessRegressor(by_channels),
        mc.GaussianProcessClassifier(by_channels),
        mc.KernelLogisticRegression(by_channels),
    ],
)
def test_estimators_take_arrays_of_three_dimensions(model: Any) -> None:
    A, B, a, b = train_test_split(X, y, random_state=0, stratify=y)
    alone = model.fit(A, a).predict(B)
    lists = model.fit(list(A), a).predict(list(B))
    assert len(alone) == len(b)
    assert_allclose(lists, alone)


def test_landmarks_of_all_series_give_the_kernel() -> None:
    features = mc.Nystrom(by_channels, n_landmarks=24).fit_transform(X)
    assert_allclose(features @ features.T, by_channels(X), atol=1e-6)


def test_a_search_sets_parameters_of_the_kernel() -> None:
    grid = {"kernel__sigma": [2.0, 8.0], "kernel__triangular": [0, 5]}
    search = GridSearchCV(mc.SVC(by_channels), grid, cv=3).fit(X, y)
    assert set(search.best_params_) == set(grid)
    assert search.predict(X[:2]).shape == (2,)


def test_rules_keep_the_value_of_the_training_series() -> None:
    model = mc.KernelRidge(mc.GlobalAlignment(layout="channels,time"), alpha=1.0).fit(
        X[:12], y[:12]
    )
    sigma = model.kernel_.sigma
    assert model.kernel_ == mc.GlobalAlignment(layout="channels,time").resolve(X[:12])
    model.predict(100.0 * X[12:])
    assert model.kernel_.sigma == sigma


def test_weights_of_zero_leave_series_out_of_rules() -> None:
    weight = np.r_[np.ones(12), np.zeros(12)]
    rule = mc.DTW(layout="channels,time")
    assert rule.resolve(X, weight) == rule.resolve(X[:12])


def test_series_to_predict_may_have_another_length() -> None:
    model = mc.KernelRidge(by_channels, alpha=1.0).fit(X, y)
    whole, part = model.predict(list(X[:3, :, :6])), model.predict(X[:3, :, :6])
    assert_array_equal(part, whole)
    lists = mc.SVC(mc.GlobalAlignment(4.0)).fit([x[0, : 5 + i % 5] for i, x in enumerate(X)], y)
    assert lists.predict([X[0, 0, :3], X[1, 0]]).shape == (2,)
    flat = mc.SVC(mc.GlobalAlignment(4.0)).fit(X[:, 0], y)
    assert flat.predict(X[:3, 0, :6]).shape == (3,)
