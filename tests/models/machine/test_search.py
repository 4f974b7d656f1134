"""Machines that choose alpha and length-scales."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
F = np.sin(2 * X[:, 0])
Y = F + 0.3 * RNG.normal(size=N)
LABELS = np.where(F + 0.3 * RNG.normal(size=N) > 0, "up", "down")
MACHINES = [
    (mc.KernelMachineRegressor(), Y),
    (mc.KernelMachineRegressor(loss="huber"), Y),
    (mc.KernelMachineRegressor(loss="absolute"), Y),
    (mc.KernelHuberRegressor(), Y),
    (mc.KernelQuantileRegressor(quantile=[0.2, 0.8]), Y),
    (mc.KernelMachineClassifier(loss="hinge"), LABELS),
    (mc.KernelMachineClassifier(loss="exponential"), LABELS),
    (mc.KernelLogisticRegression(), LABELS),
]


@pytest.mark.parametrize("criterion", ["loo", "cv"])
@pytest.mark.parametrize(("model", "y"), MACHINES)
def test_the_fit_is_that_of_the_best_pair(model: Any, y: Any, criterion: str) -> None:
    scales = [0.3, 1.0]
    search = clone(model).set_params(kernel=mc.RBF(), alpha=criterion, length_scales=scales)
    search.set_params(alphas=[0.05, 0.5, 5.0]).fit(X, y)
    best, place = np.unravel_index(np.argmin(search.search_errors_), (2, 3))
    assert search.kernel_ == search.search_kernels_[best] == mc.RBF(length_scale=scales[best])
    assert search.alpha_ == search.alphas_[place]
    plain = clone(model).set_params(kernel=search.kernel_, alpha=search.alpha_).fit(X, y)
    np.testing.assert_allclose(search.dual_coef_, plain.dual_coef_, atol=1e-4)
    assert search.criterion_ == ("cv" if criterion == "cv" or not search.loss_.smooth else "loo")


def test_length_scales_are_searched_at_a_given_alpha_too() -> None:
    model = mc.KernelLogisticRegression(mc.RBF(), alpha=0.3, length_scales="auto").fit(X, LABELS)
    assert model.search_errors_.shape == (11, 1)
    assert model.alphas_.tolist() == [model.alpha_] == [0.3]
    assert model.kernel_ == model.search_kernels_[int(np.argmin(model.search_errors_))]


def test_repeated_rows_choose_what_weights_choose() -> None:
    twice = np.r_[np.arange(N), np.arange(0, N, 3)]
    weights = np.bincount(twice)
    for criterion in ("loo", "cv"):
        model = mc.KernelLogisticRegression(mc.RBF(1.0), alpha=criterion, alphas=[0.1, 1.0, 10.0])
        heavy = clone(model).fit(X, LABELS, weights).search_errors_
        repeated = clone(model).fit(X[twice], LABELS[twice]).search_errors_
        np.testing.assert_allclose(repeated, heavy, rtol=1e-3)


def test_rows_of_weight_zero_are_not_there() -> None:
    weights = np.ones(N)
    weights[::7] = 0
    kept, groups = weights > 0, RNG.integers(0, 12, N)
    for given in (None, groups):
        model = mc.KernelHuberRegressor(mc.RBF(1.0), alpha="loo")
        some = clone(model).fit(X[kept], Y[kept], groups=None if given is None else given[kept])
        model.fit(X, Y, weights, groups=given)
        np.testing.assert_allclose(model.search_errors_, some.search_errors_, rtol=1e-6)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_are_searched_too(frame: Any) -> None:
    data = frame({"a": X[:, 0], "b": X[:, 1]})
    model = mc.KernelLogisticRegression(alpha="loo", length_scales=[0.5, 1.0]).fit(data, LABELS)
    array = mc.KernelLogisticRegression(alpha="loo", length_scales=[0.5, 1.0]).fit(X, LABELS)
    np.testing.assert_allclose(model.search_errors_, array.search_errors_)


def test_explicit_features_choose_what_the_matrix_chooses() -> None:
    labels = np.digitize(Y, [-0.3, 0.3])
    model = mc.KernelLogisticRegression(mc.Linear(), alpha="loo", alphas=[0.1, 1.0, 10.0])
    features = clone(model).set_params(solver=mc.solvers.Primal()).fit(X, labels)
    matrix = clone(model).set_params(solver=mc.solvers.Cholesky()).fit(X, labels)
    np.testing.assert_allclose(features.search_errors_, matrix.search_errors_, rtol=1e-2)
    np.testing.assert_allclose(
        features.decision_function(X), matrix.decision_function(X), atol=1e-4
    )


def test_the_end_of_a_given_grid_gives_a_warning() -> None:
    model = mc.KernelLogisticRegression(mc.RBF(0.5), alpha="loo", alphas=[30, 100, 300, 1000.0])
    with pytest.warns(NumericalWarning, match="alpha = 30, the least compared, has the least loo"):
        model.fit(X, LABELS)
    with pytest.warns(NumericalWarning, match="longest that was compared"):
        mc.KernelHuberRegressor(mc.RBF(), alpha=0.1, length_scales=[0.02, 0.04, 0.06, 0.08]).fit(
            X, Y
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mc.KernelLogisticRegression(mc.RBF(0.5), alpha="loo").fit(X, LABELS)


def test_equal_errors_take_the_larger_alpha() -> None:
    y = np.repeat(2.0, N)  # any alpha fits a constant
    model = mc.KernelMachineRegressor(mc.RBF(1.0), alpha="loo", alphas=[1.0, 100.0, 10.0])
    assert model.fit(X, y).alpha_ == 100.0


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (mc.KernelLogisticRegression(alpha="gcv"), ParameterError, 'alpha = .gcv.*"loo", or "cv"'),
        (mc.KernelHuberRegressor(alpha="loo", alphas=[0.0, 1.0]), ParameterError, "numbers > 0"),
        (
            mc.KernelLogisticRegression(alpha="loo", penalty=mc.penalties.Norm()),
            ParameterError,
            "penalty = .* compares weights of half the squared norm",
        ),
        (
            mc.KernelLogisticRegression(alpha="cv", solver=mc.solvers.ConjugateGradient()),
            ParameterError,
            "stores no matrix",
        ),
        (
            mc.KernelLogisticRegression(mc.Linear(), length_scales=[1.0]),
            ParameterError,
            "KernelLogisticRegression: length_scales was given",
        ),
    ],
)
def test_searches_that_are_refused(model: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        model.fit(X, LABELS)


def test_groups_without_a_search_are_refused() -> None:
    with pytest.raises(ParameterError, match="groups was given, and nothing is chosen"):
        mc.KernelLogisticRegression().fit(X, LABELS, groups=np.arange(N))
    with pytest.raises(DataError, match="groups has shape"):
        mc.KernelLogisticRegression(alpha="loo").fit(X, LABELS, groups=[1, 2])


def test_rows_in_blocks_are_refused() -> None:
    solver = mc.solvers.NystromSolver(10, random_state=0)
    blocks = mc.Blocks([(X[:30], Y[:30]), (X[30:], Y[30:])])
    with pytest.raises(DataError, match="leaves out rows that are in memory"):
        mc.KernelHuberRegressor(mc.RBF(1.0), alpha="loo", solver=solver).fit(blocks)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(DataError, match="too few rows"):
        mc.KernelLogisticRegression(mc.RBF(1.0), alpha="cv").fit(X[:2], ["a", "b"])
    for criterion in ("loo", "cv"):
        with pytest.raises(DataError, match="no row is left to fit"):
            mc.KernelHuberRegressor(mc.RBF(1.0), alpha=criterion).fit(X[:1], Y[:1])
