"""A machine on a span, from rows that only give sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.solvers.newton.directions import DirectNewton
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.on_landmarks import LandmarkMachine
from span_problems import KERNEL, LOSSES, SIGNS, M, Parts, W, X, part

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


def test_a_machine_on_rows_that_are_elsewhere() -> None:
    """What a model does in memory, from rows that only give totals and single points."""
    loss, whole = LOSSES[0], part(LOSSES[0])
    task = MachineTask("Test", KERNEL, Parts(whole), (loss,), np.zeros(1), True)
    machine = LandmarkMachine(task, task.rows.points_at(np.arange(M)).detached(), DirectNewton())
    *_, state = machine.states(0.1, machine.start(), 1e-9, 100)
    model = mc.KernelLogisticRegression(
        KERNEL, 0.1, solver=mc.solvers.NystromSolver(landmarks=np.arange(M)), tol=1e-9
    ).fit(X, SIGNS, W)
    assert_allclose(machine.dual(state, 0.1)[:, 0], model.dual_coef_, rtol=1e-5, atol=1e-7)
    assert machine.trace_error == pytest.approx(model.trace_error_, abs=1e-12)
