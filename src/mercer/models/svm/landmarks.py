"""Support vector machines over landmarks: the squared hinge loss, from sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.models.machine_classification import KernelMachineClassifier

Array = NDArray[np.floating[Any]]


def over_landmarks(model: Any, points: Points, y: NDArray[Any], weights: Array) -> dict[str, Any]:
    """Fit a machine of the squared hinge loss, one function for each class or one for two.

    Parameters
    ----------
    model : SVC
        Whose kernel, solver and tolerance are used.
    points : Points
        The rows.
    y : ndarray of shape (n,)
        The labels.
    weights : ndarray of shape (n,)
        Twice the C of each row.

    Returns
    -------
    dict
        The fitted attributes: landmarks take the place of support vectors.
    """
    # By the name of the model, for messages.
    named = type(type(model).__name__, (KernelMachineClassifier,), {})
    machine = named(model.kernel_, "squared_hinge", 1.0, tol=float(model.tol), solver=model.solver)
    if model.max_iter != -1:
        machine.set_params(max_iter=int(model.max_iter))
    machine.fit(points, y, weights)
    coefficients = machine.dual_coef_.reshape(len(machine.points_), -1)
    rows = getattr(machine, "rows_", np.arange(len(coefficients)))
    return {
        "support_": rows.astype(np.int32),
        "points_": machine.points_,
        "rows_": rows,
        "dual_coef_": coefficients.T,
        "intercept_": np.atleast_1d(machine.intercept_),
        "n_support_": np.array([np.sum(y[rows] == label) for label in model.classes_]),
        "n_iter_": np.array([machine.n_iter_]),
        "dual_gap_": np.array([machine.dual_gap_]),
        "converged_": machine.converged_,
        "trace_error_": machine.trace_error_,
        "residual_": machine.residual_,
        "_expansion": coefficients,
    }
