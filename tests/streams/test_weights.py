"""Machines on rows in blocks whose weights are large, small or zero."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataError

Array = NDArray[np.floating[Any]]
S = mc.solvers
RNG = np.random.default_rng(0)
N, STEP = 1600, 500
X = RNG.normal(size=(N, 2))
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0).astype(int)
Y = np.sin(2 * X[:, 0]) + 2
W = RNG.uniform(0.5, 2.0, size=N)
W[::7] = 0
LANDMARKS = X[:20]


def rbf(A: Array, B: Array) -> Array:
    squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(np.exp(-squares / 2))


def slope_of_logistic(y: Array, f: Array) -> Array:
    signs = np.where(y > 0, 1.0, -1.0)
    return np.asarray(-signs / (1 + np.exp(signs * f)))


def slope_of_huber(y: Array, f: Array) -> Array:
    return np.asarray(np.clip(f - y, -0.1, 0.1))


MACHINES: dict[str, tuple[Any, Array, Any]] = {
    "logistic": (mc.KernelMachineClassifier(mc.RBF(1.0)), LABELS, slope_of_logistic),
    "squared": (mc.KernelMachineRegressor(mc.RBF(1.0), "squared"), Y, lambda y, f: f - y),
    "huber": (
        mc.KernelMachineRegressor(mc.RBF(1.0), mc.losses.Huber(0.1)),
        Y,
        slope_of_huber,
    ),
}


def blocks(*columns: Array, step: int = STEP) -> list[Any]:
    return [
        tuple(c[first : first + step] for c in columns) for first in range(0, len(columns[0]), step)
    ]


def chunks(*columns: Array) -> list[Any]:
    return [da.from_array(column, chunks=(STEP, *column.shape[1:])) for column in columns]


def require_stationary(
    model: Any, data: tuple[Array, Array, Array], alpha: float, slope: Any
) -> None:
    """The gradient of sum w loss + alpha |f|^2 / 2 in coefficients and constant, in a loop."""
    X, y, w = data
    cross, square = rbf(X, LANDMARKS), rbf(LANDMARKS, LANDMARKS)
    values = cross @ model.dual_coef_ + model.intercept_
    slopes = w * slope(y, values)
    terms = cross.T @ slopes, alpha * square @ model.dual_coef_
    assert np.linalg.norm(terms[0] + terms[1]) <= 1e-6 * np.linalg.norm(terms[0])
    assert abs(slopes.sum()) <= 1e-6 * np.abs(slopes).sum()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("scale", [1e6, 1e-6])
@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
def test_weights_have_no_unit(name: str, scale: float, solver: Any) -> None:
    machine, targets, slope = MACHINES[name]
    machine.set_params(alpha=0.1 * scale, solver=solver(landmarks=LANDMARKS), tol=1e-9)
    wanted = machine.fit(X, targets, scale * W).predict(X)
    for given in ((blocks(X, targets, scale * W),), chunks(X, targets, scale * W)):
        model = machine.fit(*given)
        assert model.converged_
        # What is minimised is that of weights of the order of 1, multiplied.
        require_stationary(model, (X, targets, W), 0.1, slope)
        assert model.gradient_norm_ < 1e-3 * scale
        assert_allclose(model.predict(X), wanted, rtol=1e-7)


def test_chosen_landmarks_and_length_scales_have_no_unit() -> None:
    solver = S.NystromSolver(20, landmarks="rpcholesky", random_state=0)
    model = mc.KernelMachineClassifier(mc.Matern("scale"), alpha=0.1, solver=solver)
    wanted = model.fit(blocks(X, LABELS, W)).decision_function(X)
    model.set_params(alpha=0.1 * 2.0**20)
    found = model.fit(blocks(X, LABELS, 2.0**20 * W)).decision_function(X)
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_weights_that_are_too_far_apart_are_refused_as_in_memory() -> None:
    far = np.where(np.arange(N) < 10, 1e-13, 1.0)
    model = mc.KernelMachineClassifier(mc.RBF(1.0), solver=S.NystromSolver(20, random_state=0))
    for given in ((X, LABELS, far), (blocks(X, LABELS, far),)):
        with pytest.raises(DataError, match="positive sample weights reach from 1e-13 to 1"):
            model.fit(*given)


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
def test_first_steps_are_taken_on_rows_that_count(solver: Any) -> None:
    n = 40_000  # every tenth row would be looked at first
    rows = np.random.default_rng(1).normal(size=(n, 2))
    labels = (rows[:, 0] + rows[:, 1] ** 2 > 1).astype(int)
    model = mc.KernelMachineClassifier(
        mc.RBF(1.0), alpha=1.0, solver=solver(landmarks=LANDMARKS), tol=1e-9
    )
    numbers = np.arange(n)
    for kept in (numbers % 10 > 0, numbers % 10 == 3, numbers >= 35_000):
        weights = np.where(kept, 1.0, 0.0)
        wanted = model.fit(rows[kept], labels[kept]).decision_function(LANDMARKS)
        found = model.fit(blocks(rows, labels, weights, step=10_000))
        require_stationary(found, (rows, labels, weights), 1.0, slope_of_logistic)
        assert_allclose(found.decision_function(LANDMARKS), wanted, rtol=1e-6, atol=1e-6)
        lazy = [da.from_array(column, chunks=10_000) for column in (rows, labels, weights)]
        found = model.fit(*lazy)
        assert_allclose(found.decision_function(LANDMARKS), wanted, rtol=1e-6, atol=1e-6)


def test_rows_of_weight_zero_may_be_anywhere() -> None:
    far = X.copy()
    far[::7] = 1e200  # where a linear kernel is infinite
    model = mc.KernelMachineClassifier(mc.Linear(), solver=S.NystromSolver(landmarks=[[1.0, 0.0]]))
    wanted = model.fit(X[W > 0], LABELS[W > 0], W[W > 0]).decision_function(LANDMARKS)
    found = model.fit(blocks(far, LABELS, W)).decision_function(LANDMARKS)
    assert_allclose(found, wanted, rtol=1e-8)
