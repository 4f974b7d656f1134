"""The kernels that kernel ridge regression compares if none is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.models.ridge.default_kernels import COMPARED_ROWS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3)) * [1.0, 100.0, 0.01]
SMOOTH = np.sin(X[:, 0]) * np.cos(X[:, 1] / 100) + 0.01 * RNG.normal(size=500)
STEPS = np.sign(X[:, 0]) + np.sign(X[:, 1]) + 0.1 * RNG.normal(size=500)
LENGTHS = 2 * 3 / np.sqrt(np.pi)


def laplacian(rows: Any) -> mc.Laplacian:
    return mc.Laplacian(LENGTHS * rows.std(axis=0))


@pytest.mark.parametrize("y", [SMOOTH, STEPS])
def test_few_rows_take_the_kernel_of_the_least_error(y: Any) -> None:
    rows, targets = X[:200], y[:200]
    model = mc.KernelRidge(alpha="loo").fit(rows, targets)
    each = [
        mc.KernelRidge(kernel, alpha="loo").fit(rows, targets)
        for kernel in (mc.RBF("columns"), laplacian(rows))
    ]
    errors = [fit.search_errors_.min() for fit in each]
    best = each[int(np.argmin(errors))]
    assert_allclose(model.search_errors_.min(axis=1), errors, rtol=1e-9)
    assert type(model.kernel_) is type(best.kernel_)
    assert_allclose(model.predict(X[200:]), best.predict(X[200:]), rtol=1e-6, atol=1e-8)


def test_smooth_functions_take_the_rbf_and_steps_the_laplacian() -> None:
    assert len(X) > COMPARED_ROWS
    assert isinstance(mc.KernelRidge(alpha="loo").fit(X, SMOOTH).kernel_, mc.RBF)
    assert isinstance(mc.KernelRidge(alpha="loo").fit(X, STEPS).kernel_, mc.Laplacian)


def test_many_rows_compare_one_kernel_by_all_rows() -> None:
    model = mc.KernelRidge(alpha="loo").fit(X, STEPS)
    given = mc.KernelRidge(laplacian(X), alpha="loo").fit(X, STEPS)
    assert model.search_errors_.shape[0] == 1
    assert_allclose(model.predict(X[:9]), given.predict(X[:9]), rtol=1e-6)


def test_other_alphas_a_given_kernel_and_sparse_rows_keep_one_kernel() -> None:
    given = mc.KernelRidge(mc.RBF("columns"), "loo")
    for model in (given, mc.KernelRidge(alpha=0.1), mc.KernelRidge(alpha="gcv")):
        assert isinstance(model.fit(X, STEPS).kernel_, mc.RBF)
    sparse = mc.KernelRidge(alpha="loo").fit(sp.csr_array(X / X.std(axis=0)), STEPS)
    assert isinstance(sparse.kernel_, mc.RBF)


def test_rows_of_weight_zero_do_not_choose_the_kernel() -> None:
    weights = (np.arange(500) < 20).astype(float)
    model = mc.KernelRidge(alpha="loo").fit(X, STEPS, weights)
    assert model.search_errors_.shape[0] == 2


def test_groups_are_left_out_together_when_the_kernel_is_chosen() -> None:
    groups = np.repeat(np.arange(50), 10)
    model = mc.KernelRidge(alpha="loo").fit(X, STEPS, groups=groups)
    assert isinstance(model.kernel_, mc.Laplacian)


def test_columns_that_nearly_repeat_each_other_count_by_their_difference() -> None:
    rng = np.random.default_rng(1)
    size = rng.normal(size=400)
    frame = pd.DataFrame({"rooms": size, "beds": size + 0.05 * rng.normal(size=400), "kind": "a"})
    y = 20 * (frame["rooms"] - frame["beds"]).to_numpy()
    train, test = frame[:250], frame[250:]
    model = mc.KernelRidge(alpha="loo").fit(train, y[:250])
    plain = mc.KernelRidge(mc.table_kernel(train), alpha="loo").fit(train, y[:250])
    assert "decorrelated" in repr(model.kernel_)
    assert model.score(test, y[250:]) > plain.score(test, y[250:])


DATA = os.environ.get("MERCER_DATA")


def california() -> pd.DataFrame:
    """Blocks of houses, with the numbers and the category as they are stored."""
    stored = np.load(Path(DATA or "") / "mixed" / "california_housing.npz")
    frame = pd.DataFrame(stored["num"].astype(float), columns=stored["num_names"])
    return frame.assign(sea=stored["cat"][:, 0].astype(str), price=stored["y"])


def mean_score(frame: pd.DataFrame) -> float:
    scores = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(frame))
        train, test = frame.iloc[order[:1000]], frame.iloc[order[1000:4000]]
        model = mc.KernelRidge(alpha="loo").fit(train.drop(columns="price"), train["price"])
        scores.append(model.score(test.drop(columns="price"), test["price"]))
    return float(np.mean(scores))


@pytest.mark.skipif(not DATA, reason="MERCER_DATA is not set")
@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
def test_prices_in_california_from_the_table_as_it_is() -> None:
    assert mean_score(california()) > 0.75


@pytest.mark.skipif(not DATA, reason="MERCER_DATA is not set")
@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
def test_prices_in_california_from_rates_per_household() -> None:
    frame = california().dropna().drop(columns="sea")
    for name in ("total_rooms", "total_bedrooms"):
        frame[name] /= frame["households"]
    frame["households"] = frame["population"] / frame["households"]
    assert mean_score(frame) > 0.75
