"""Support vector machines over landmarks."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_iris,
)
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.exceptions import (
    DataError,
)
from mercer.models.machine import fitting
from moons import RBF, X, Y, Z
from references import matrix, rbf

IRIS, SPECIES = load_iris(return_X_y=True)
TWO = np.where(SPECIES == 1, "yes", "no")


@pytest.mark.parametrize("classes", [2, 3])
def test_landmarks_lead_to_the_squared_hinge(classes: int) -> None:
    data, y = load_iris(return_X_y=True)
    data = data + 0.05 * np.random.default_rng(3).normal(size=data.shape)
    y = y if classes == 3 else (y == 1).astype(int)
    kernel = mc.RBF(length_scale=1.5)
    exact = mc.KernelMachineClassifier(kernel, "squared_hinge", alpha=1 / (2 * 0.7)).fit(data, y)
    want = exact.decision_function(data)
    errors = []
    for m in (5, 20, len(data)):
        solver = mc.solvers.NystromSolver(m, random_state=0)
        model = mc.SVC(kernel, C=0.7, solver=solver, tol=1e-8).fit(data, y)
        errors.append(np.abs(model.decision_function(data) - want).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-4 * np.abs(want).max()
    assert model.trace_error_ < 1e-6


def test_landmarks_are_the_support_vectors() -> None:
    solver = mc.solvers.NystromSolver(12, random_state=0)
    model = mc.SVC(RBF, solver=solver).fit(X, Y)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert (model.fit_status_, model.shape_fit_) == (0, X.shape)
    kernel = matrix(rbf, Z, model.support_vectors_, length_scale=0.5)
    np.testing.assert_allclose(
        model.decision_function(Z), kernel @ model.dual_coef_[0] + model.intercept_[0]
    )


def test_an_interrupt_keeps_the_last_step_over_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    said = fitting.Search._report

    def interrupted(search: Any, state: Any, alpha: float) -> None:
        said(search, state, alpha)
        if search.steps == 2:
            raise KeyboardInterrupt

    short = mc.SVC(RBF, solver=mc.solvers.NystromSolver(12, random_state=0), max_iter=2, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="SVC stopped after 2 steps"):
        short.fit(X, Y)
    monkeypatch.setattr(fitting.Search, "_report", interrupted)
    model = clone(short).set_params(max_iter=-1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not model.converged_
    np.testing.assert_allclose(model.decision_function(Z), short.decision_function(Z))


def test_rows_that_are_not_in_memory_are_for_another_class() -> None:
    """Its function over landmarks is the same with the alpha that is advised."""
    solver = mc.solvers.NystromSolver(landmarks=range(20))
    over_landmarks = mc.SVC(mc.RBF(1.0), C=3.0, solver=solver, tol=1e-8)
    for rows in (da.from_array(IRIS, chunks=50), mc.Blocks([IRIS])):
        with pytest.raises(DataError, match=r"KernelMachineClassifier\(.*alpha=1 / \(2 \* C\)"):
            over_landmarks.fit(rows, TWO)
    machine = mc.KernelMachineClassifier(
        mc.RBF(1.0), loss="squared_hinge", alpha=1 / 6, solver=solver, tol=1e-8
    )
    np.testing.assert_allclose(
        machine.fit(da.from_array(IRIS, chunks=50), TWO).decision_function(IRIS[::3]),
        over_landmarks.fit(IRIS, TWO).decision_function(IRIS[::3]),
        atol=1e-6,
    )
