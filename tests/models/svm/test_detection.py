"""Support vector machines of one class, checked by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import (
    load_iris,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.exceptions import (
    ParameterError,
)
from moons import RBF, X, Z

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(1)
IRIS = load_iris().data + 0.05 * RNG.normal(size=(150, 4))
TOL = 1e-8


def test_ball_and_plane_agree_where_all_rows_have_the_same_length() -> None:
    ball = mc.SVDD(RBF, nu=0.2, tol=1e-9).fit(X)
    plane = mc.OneClassSVM(RBF, nu=0.2, tol=1e-9).fit(X)
    np.testing.assert_allclose(
        0.2 * len(X) * ball.decision_function(Z), plane.decision_function(Z), atol=1e-4
    )


@pytest.mark.parametrize(("n", "nu"), [(300, 0.05), (1000, 0.05), (3000, 0.05), (3000, 0.01)])
def test_a_ball_flags_the_rows_that_a_plane_flags(n: int, nu: float) -> None:
    """With the default tolerance: rows with another sign are within it of the boundary."""
    rng = np.random.default_rng(n)
    data = rng.normal(size=(n, 3)) + 3 * rng.integers(0, 2, (n, 1))
    ball, plane = mc.SVDD(nu=nu).fit(data), mc.OneClassSVM(nu=nu).fit(data)
    values = plane.decision_function(data)
    np.testing.assert_allclose(nu * n * ball.decision_function(data), values, atol=2e-3)
    others = ball.predict(data) != plane.predict(data)
    assert (np.abs(values[others]) <= 1e-3).all()
    # Rows outside by more than the tolerance are at most the share that was asked for.
    assert (nu * n * ball.decision_function(data) < -1e-3).mean() <= nu
    assert ball.dual_gap_ * (nu * n) ** 2 == pytest.approx(plane.dual_gap_, abs=1e-3 * nu * n)


def test_the_ball_by_definition() -> None:
    model = mc.SVDD(mc.Linear(), nu=0.05, tol=1e-10).fit(X)
    cost = 1 / (0.05 * len(X))

    def objective(v: Array) -> float:
        squared = ((X - v[:2]) ** 2).sum(axis=1)
        return float(v[2] + cost * np.maximum(0, squared - v[2]).sum())

    centre = model.dual_coef_[0] @ X[model.support_]
    ours = objective(np.array([*centre, model.radius_**2]))
    starts = [np.array([*X.mean(axis=0), r]) for r in (0.5, 1.0, 2.0)]
    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000}
    best = min(
        minimize(objective, start, method="Nelder-Mead", options=options).fun for start in starts
    )
    assert ours <= best + 1e-6
    squared = ((Z - centre) ** 2).sum(axis=1)
    np.testing.assert_allclose(
        model.decision_function(Z), (model.radius_**2 - squared) / 2, atol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_balls_of_any_size(scale: float) -> None:
    want = mc.SVDD(mc.Linear(), nu=0.1, tol=1e-6).fit(X)
    found = mc.SVDD(mc.Linear(), nu=0.1, tol=1e-4).fit(scale * X)
    assert found.radius_ / scale == pytest.approx(want.radius_, rel=1e-2)
    assert (found.predict(scale * X) < 0).mean() <= 0.15


def test_weights_of_one_class_may_have_any_unit() -> None:
    plain = mc.OneClassSVM(RBF, nu=0.2).fit(X)
    for unit in (1e-6, 1e6):
        model = mc.OneClassSVM(RBF, nu=0.2).fit(X, sample_weight=np.full(len(X), unit))
        assert model.converged_
        np.testing.assert_allclose(model.dual_coef_ / unit, plain.dual_coef_, rtol=1e-10)
        np.testing.assert_allclose(model.offset_ / unit, plain.offset_, rtol=1e-10)
        np.testing.assert_allclose(model.objective_ / unit**2, plain.objective_, rtol=1e-10)


def test_a_plane_through_the_origin() -> None:
    """Rows on all sides of the origin: no plane parts them from it, and its distance is zero."""
    data, _ = make_classification(500, random_state=42)
    with pytest.warns(ConvergenceWarning, match="more than the objective itself"):
        model = mc.OneClassSVM("linear").fit(data)
    assert model.converged_
    assert abs(model.offset_[0]) < 1e-3
    assert model.objective_ < 1e-3


def test_the_ball_cannot_be_mended() -> None:
    with pytest.raises(ParameterError, match="a repair says nothing of k"):
        mc.SVDD(mc.Precomputed(), psd="clip").fit(np.eye(3))


@pytest.mark.parametrize("kernel", ["precomputed", mc.Precomputed(), 2.0 * mc.Precomputed()])
def test_the_ball_needs_more_than_a_block_of_a_matrix(kernel: Any) -> None:
    with pytest.raises(ParameterError, match=r"OneClassSVM, .* or Precomputed.K. with the values"):
        mc.SVDD(kernel).fit(np.eye(3))


def test_the_ball_of_a_matrix_of_all_rows() -> None:
    """|phi(x) - c|^2 = k(x, x) - 2 sum_i a_i k(x, x_i) + sum_ij a_i a_j k(x_i, x_j)."""
    everything = (1 + IRIS @ IRIS.T / 10) ** 2  # k(x, x) is not constant
    old, new = np.arange(0, 150, 2)[:, None], np.arange(1, 150, 2)[:, None]
    model = mc.SVDD(mc.Precomputed(everything), nu=0.2, tol=TOL).fit(old)
    a, rows = model.dual_coef_[0], old[model.support_, 0]
    squared = [
        everything[x, x] - 2 * a @ everything[x, rows] + a @ everything[np.ix_(rows, rows)] @ a
        for x in new[:, 0]
    ]
    np.testing.assert_allclose(
        model.decision_function(new), (model.radius_**2 - np.array(squared)) / 2, atol=1e-6
    )


def test_names_of_columns_are_warned_of_once() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    model = mc.SVDD().fit(pd.DataFrame(rows, columns=["a", "b"]))
    with pytest.warns(UserWarning, match="feature names") as found:
        model.predict(rows)
    assert len(found) == 1
