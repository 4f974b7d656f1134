"""Support vector machines over landmarks: the squared hinge loss, from sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from mercer.estimator.base import shown
from mercer.exceptions import DataTypeError, ParameterError
from mercer.models.machine.classification import KernelMachineClassifier
from mercer.models.svm.base import Training, support_vectors
from mercer.models.svm.fit_warnings import warn_of_short_fit
from mercer.models.svm.schemes import scheme_of
from mercer.solvers.protocol import as_solver
from mercer.streams.blocks import Blocks
from mercer.streams.sources import is_dask


class SquaredHinge(KernelMachineClassifier):
    """The machine behind an `SVC`, which gives the warning of a short fit itself."""

    stopped_short = False

    def _warn_of_short_fit(self, warning: str) -> None:
        self.stopped_short = True


def learn_over_landmarks(model: Any, y: ArrayLike, data: Training) -> None:
    """Fit an `SVC` over landmarks: one function for each class, or one for two classes."""
    owner, costs = type(model).__name__, model._costs()
    if not np.isfinite(costs).all():
        raise ParameterError(
            f"{owner}: C = {shown(model.C)} allows no errors, and functions over landmarks have "
            'some; pass a finite C, or solver="auto".'
        )
    labels, weights = column_or_1d(y), np.zeros(len(data.points))
    # The machine's loss has a factor of a half, and its penalty the weight 1.
    weights[data.rows] = 2 * data.weights * costs[data.codes]
    model._scheme, model._has_pairs = scheme_of(len(model.classes_), "ovr"), False
    named: type[SquaredHinge] = type(owner, (SquaredHinge,), {})  # the owner in messages
    machine = named(model.kernel_, "squared_hinge", 1.0, tol=float(model.tol), solver=model.solver)
    if model.max_iter != -1:
        machine.set_params(max_iter=int(model.max_iter))
    try:
        machine.fit(data.points, labels, weights)
    finally:  # after Ctrl-C the function of the last step is kept
        if hasattr(machine, "converged_"):
            model.__dict__.update(_attributes(model, machine, labels), shape_fit_=data.shape)
    if machine.stopped_short:
        warn_of_short_fit(model)


def _attributes(model: Any, machine: KernelMachineClassifier, y: Any) -> dict[str, Any]:
    """The fitted attributes of an `SVC`: landmarks take the place of support vectors."""
    coefficients = machine.dual_coef_.reshape(len(machine.points_), -1)
    rows = getattr(machine, "rows_", np.arange(len(coefficients)))
    return {
        "support_": rows.astype(np.int32),
        "support_vectors_": support_vectors(model, machine.points_, np.arange(len(coefficients))),
        "points_": machine.points_,
        "rows_": rows,
        "dual_coef_": coefficients.T,
        "intercept_": np.atleast_1d(machine.intercept_),
        "n_support_": np.array([np.sum(y[rows] == label) for label in model.classes_]),
        "n_iter_": np.array([machine.n_iter_]),
        "dual_gap_": np.array([machine.dual_gap_]),
        "converged_": machine.converged_,
        "fit_status_": int(not machine.converged_),
        "trace_error_": machine.trace_error_,
        "residual_": machine.residual_,
        "_expansion": coefficients,
    }


def require_rows_in_memory(owner: str, X: Any) -> None:
    """Refuse Dask collections and blocks of rows."""
    if is_dask(X) or isinstance(X, Blocks):
        raise DataTypeError(
            f"{owner}: X is a {type(X).__name__}, and all rows have to be in memory here; pass "
            "X.compute() if it fits, or use mercer.KernelMachineClassifier(kernel, "
            'loss="squared_hinge", alpha=1 / (2 * C), solver=...), which fits the same function '
            "over landmarks from Dask collections and blocks."
        )


def check_solver(model: Any) -> None:
    """Validate the solver of an `SVC`, and the parameters that it does not go with."""
    owner, solver = type(model).__name__, shown(model.solver)
    chosen = as_solver(model.solver)
    if isinstance(chosen, type) or not getattr(chosen, "has_landmarks", False):
        raise ParameterError(
            f'{owner}: solver = {solver} is unknown here; pass "auto", "nystrom", "falkon", or '
            "mercer.solvers.NystromSolver(n_landmarks=1000) or Falkon(n_landmarks=10_000)."
        )
    chosen.check(owner)
    if model.max_iter == 0:
        raise ParameterError(
            f"{owner}: max_iter = 0 leaves nothing learned over the landmarks of solver = "
            f"{solver}; pass a whole number >= 1, or -1."
        )
    for name, value in (("probability", True), ("decision_function_shape", "ovo")):
        if getattr(model, name) == value:
            raise ParameterError(
                f"{owner}: {name} = {value!r} needs the dual problem, and solver = {solver} has "
                'landmarks; pass solver="auto", or use mercer.KernelLogisticRegression, which '
                "gives probabilities."
            )
