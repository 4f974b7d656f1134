"""Effects of terms: sums, centres, degrees of freedom and posterior deviations, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError, ParameterError

S = mc.solvers
RNG = np.random.default_rng(5)
N = 40
X = RNG.uniform(-2, 2, size=(N, 2))
Z = RNG.uniform(-2, 2, size=(7, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 10 + 0.1 * RNG.normal(size=N)
W = RNG.uniform(0.3, 2.0, size=N)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [9.5, 10.5])]
FIRST, SECOND = mc.RBF(0.8).on(0), 0.5 * mc.Linear().on(1)
SUM = FIRST + SECOND

REGRESSORS = {
    "ridge": mc.KernelRidge(SUM, 0.1),
    "ridge, no intercept": mc.KernelRidge(SUM, 0.1, fit_intercept=False),
    "landmarks": mc.KernelRidge(SUM, 0.1, solver=S.NystromSolver(n_landmarks=15)),
    "iterations": mc.KernelRidge(SUM, 0.1, solver=S.ConjugateGradient()),
    "features": mc.KernelRidge(mc.Linear().on(0) + mc.Polynomial(2).on(1), 0.1),
    "huber": mc.KernelHuberRegressor(SUM),
    "svr": mc.SVR(SUM),
    "process": mc.GaussianProcessRegressor(SUM, noise=0.1, learn=False),
    "process on landmarks": mc.GaussianProcessRegressor(
        SUM, noise=0.1, learn=False, solver=S.NystromSolver(n_landmarks=15)
    ),
    "online": mc.KernelLMS(SUM),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore:KernelLMS")
def test_effects_and_intercept_sum_to_the_prediction(name: str) -> None:
    model = REGRESSORS[name].fit(X, Y)
    effects = model.effects(Z)
    assert effects.values.shape == (len(Z), 2)
    assert_allclose(effects.values.sum(axis=1) + effects.intercept, model.predict(Z), rtol=1e-9)
    at_points = model.effects(model.points_)
    assert_allclose(at_points.values.mean(axis=0), 0.0, atol=1e-9 * np.abs(Y).max())


def test_an_effect_is_the_sum_over_points_of_one_term() -> None:
    model = mc.KernelRidge(SUM, 0.1).fit(X, Y)
    effects = model.effects(Z)
    for j, kernel in enumerate((FIRST, SECOND)):
        expected = kernel(Z, X) @ model.dual_coef_ - np.mean(kernel(X) @ model.dual_coef_)
        assert_allclose(effects.values[:, j], expected, rtol=1e-10)


def naive_map(alpha: float, weights: Any, intercept: bool) -> np.ndarray:
    """The matrix from targets to coefficients, by a bordered system for each unit vector."""
    n = N
    K = SUM(X) + alpha * np.diag(1 / weights)
    if not intercept:
        return np.linalg.inv(K)
    bordered = np.block([[K, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.inv(bordered)[:n, :n]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weights"])
@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral(), S.ConjugateGradient(tol=1e-10)])
def test_degrees_of_freedom_are_traces_and_sum_to_those_of_the_fit(
    intercept: bool, weights: Any, solver: Any
) -> None:
    model = mc.KernelRidge(SUM, 0.1, intercept, solver=solver).fit(X, Y, weights)
    dof = model.effects(Z).dof
    assert dof is not None
    assert dof.sum() + intercept == pytest.approx(model.effective_dof_, rel=1e-9)
    P = naive_map(0.1, np.ones(N) if weights is None else weights, intercept)
    assert_allclose(dof, [np.trace(k(X) @ P) for k in (FIRST, SECOND)], rtol=1e-8)


def test_degrees_of_freedom_of_an_interpolant_sum_to_the_rank() -> None:
    kernel = mc.Linear().on(0) + mc.Linear().on(1)
    model = mc.KernelRidge(kernel, 0.0, solver=S.Cholesky()).fit(X, Y)
    dof = model.effects(Z).dof
    assert dof is not None
    assert dof.sum() == pytest.approx(model.rank_, rel=1e-9) == 2


@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_deviations_are_those_of_the_conditioned_joint_distribution(mean: str) -> None:
    noise = 0.2
    model = mc.GaussianProcessRegressor(SUM, noise, learn=False, mean=mean, normalize_y=True)
    effects = model.fit(X, Y).effects(Z)
    assert effects.std is not None
    assert effects.dof is not None
    everything = np.vstack([Z, X])
    # A flat prior of the constant is the limit of a large variance.
    prior = 1e7 if mean == "constant" else 0.0
    covariance = SUM(X) + noise / model.y_scale_**2 * np.eye(N) + prior
    centre = np.hstack([np.eye(len(Z)), np.full((len(Z), N), -1 / N)])
    for j, kernel in enumerate((FIRST, SECOND)):
        joint, cross = kernel(everything), kernel(everything, X)
        posterior = joint - cross @ np.linalg.solve(covariance, cross.T)
        expected = model.y_scale_ * np.sqrt(np.diag(centre @ posterior @ centre.T))
        assert_allclose(effects.std[:, j], expected, rtol=1e-5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_columns_and_categories_are_taken(frame: Any) -> None:
    data = frame({"income": X[:, 0], "group": list(LABELS)})
    kernel = mc.RBF().on("income") + mc.Categorical(0.3).on("group")
    effects = mc.KernelRidge(kernel, 0.1).fit(data, Y).effects(data)
    assert effects.names == ("RBF.on('income')", "Categorical.on('group')")
    assert len({round(float(v), 9) for v in effects.values[:, 1]}) == 3


@pytest.mark.parametrize(
    "model", [mc.SVC(SUM), mc.KernelLogisticRegression(SUM), mc.GaussianProcessClassifier(SUM)]
)
def test_two_classes_share_a_function_with_opposite_signs(model: Any) -> None:
    model.fit(X, np.where(Y > 10, "high", "low"))
    effects = model.effects(Z)
    assert_allclose(effects.values.sum(axis=1) + effects.intercept, model._function_values(Z))
    other = model.effects(Z, output="high")
    assert_allclose(other.values, -effects.values)
    assert other.intercept == -effects.intercept


def test_one_class_of_several_is_named() -> None:
    model = mc.KernelLogisticRegression(SUM).fit(X, LABELS)
    effects = model.effects(Z, output="b")
    total = effects.values.sum(axis=1) + effects.intercept
    assert_allclose(total, model.decision_function(Z)[:, 1], rtol=1e-9)
    with pytest.raises(ParameterError, match="one function for each of 3 classes; pass output="):
        model.effects(Z)


def test_targets_are_taken_one_by_one() -> None:
    model = mc.GaussianProcessRegressor(SUM).fit(X, np.column_stack([Y, 5 * Y**2]))
    for output in (0, 1):
        effects = model.effects(Z, output=output)
        total = effects.values.sum(axis=1) + effects.intercept
        assert_allclose(total, model.predict(Z)[:, output], rtol=1e-9)
        assert effects.std is not None
        expected = model.effects(Z).std * model.y_scale_[output] / model.y_scale_[0]
        assert_allclose(effects.std, expected, rtol=1e-12)


def test_a_single_row_is_taken() -> None:
    model = mc.KernelRidge(SUM).fit(X, Y)
    assert_allclose(model.effects(Z[3]).values, model.effects(Z).values[[3]])


def test_one_training_row_has_no_effects() -> None:
    effects = mc.KernelRidge(SUM).fit(X[:1], Y[:1]).effects(Z)
    assert_allclose(effects.values, 0.0, atol=1e-12)
    assert effects.intercept == pytest.approx(Y[0])


def test_what_cannot_be_taken_apart_is_refused() -> None:
    with pytest.raises(ParameterError, match="has one term, so there is nothing to take apart"):
        mc.KernelRidge(mc.RBF()).fit(X, Y).effects(Z)
    waves = S.RandomFeatures(mc.RandomFourier(n_components=20, random_state=0))
    with pytest.raises(DataError, match="random features, which have a kernel of their own"):
        mc.KernelRidge(mc.RBF() + mc.Matern(), solver=waves).fit(X, Y).effects(Z)
    blocks = mc.Blocks([(X[:20], Y[:20]), (X[20:], Y[20:])])
    with pytest.raises(DataError, match="coefficients of features, and none of points"):
        mc.KernelRidge(mc.Linear() + mc.Polynomial(2), solver=S.Primal()).fit(blocks).effects(Z)
    with pytest.raises(DataError, match=r"SVDD.effects: the function is a distance"):
        mc.SVDD(mc.RBF() + mc.Linear()).fit(X).effects(Z)


def test_results_print_and_become_frames() -> None:
    effects = mc.GaussianProcessRegressor(SUM, 0.1, learn=False).fit(X, Y).effects(Z)
    title, header, *lines = repr(effects).splitlines()
    assert title.startswith("Effects of 2 terms at 7 rows; intercept ")
    assert header.split() == ["term", "dof", "deviation", "least", "largest", "mean", "std"]
    assert [line.split()[0] for line in lines] == ["RBF.on(0)", "Linear.on(1)"]
    assert "<td>" in effects._repr_html_()
    frame = effects.to_frame()
    assert list(frame.columns) == ["RBF.on(0)", "Linear.on(1)", "intercept"]
    assert_allclose(frame.sum(axis=1), effects.values.sum(axis=1) + effects.intercept)
