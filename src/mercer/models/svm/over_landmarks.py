"""Support vector machines over landmarks: the squared hinge loss, from sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.machine.classification import KernelMachineClassifier


class SquaredHinge(KernelMachineClassifier):
    """The machine behind an `SVC`, which says in its own words if this one stopped short."""

    stopped_short = False

    def _warn_of_short_fit(self, doubt: str) -> None:
        self.stopped_short = True


def over_landmarks(model: Any) -> SquaredHinge:
    """The machine of the squared hinge loss, one function for each class or one for two."""
    # By the name of the model, for messages.
    named: type[SquaredHinge] = type(type(model).__name__, (SquaredHinge,), {})
    machine = named(model.kernel_, "squared_hinge", 1.0, tol=float(model.tol), solver=model.solver)
    if model.max_iter != -1:
        machine.set_params(max_iter=int(model.max_iter))
    return machine


def learned(machine: KernelMachineClassifier, classes: Any, y: NDArray[Any]) -> dict[str, Any]:
    """What an `SVC` keeps of it: landmarks take the place of support vectors."""
    coefficients = machine.dual_coef_.reshape(len(machine.points_), -1)
    rows = getattr(machine, "rows_", np.arange(len(coefficients)))
    return {
        "support_": rows.astype(np.int32),
        "points_": machine.points_,
        "rows_": rows,
        "dual_coef_": coefficients.T,
        "intercept_": np.atleast_1d(machine.intercept_),
        "n_support_": np.array([np.sum(y[rows] == label) for label in classes]),
        "n_iter_": np.array([machine.n_iter_]),
        "dual_gap_": np.array([machine.dual_gap_]),
        "converged_": machine.converged_,
        "fit_status_": int(not machine.converged_),
        "trace_error_": machine.trace_error_,
        "residual_": machine.residual_,
        "_expansion": coefficients,
    }
