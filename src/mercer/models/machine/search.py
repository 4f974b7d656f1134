"""The choice of alpha and of length-scales: parameters, candidates and the best pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.losses import ClassificationLoss
from mercer.models.length_scales import candidates, checked_alphas, end_of_lengths, end_of_path
from mercer.models.machine.comparison import (
    Criterion,
    CrossValidation,
    LeaveOneOut,
    Path,
    compared,
    matrix_of,
)
from mercer.models.machine.data import Data, Rows
from mercer.models.machine.fitting import GramProblem, MachineProblem
from mercer.penalties import HalfSquare
from mercer.rows.left_out import copies, folds_of, group_codes
from mercer.solvers.newton.method import Start
from mercer.solvers.protocol import default_alphas

#: Values of alpha that ask for a search.
CRITERIA = ("loo", "cv")


@dataclass(frozen=True, eq=False)
class Chosen:
    """The problem of the best kernel, and the best alpha."""

    problem: MachineProblem
    alpha: float
    start: Start | None  # a solution close to the minimum; None if there is none


def is_search(model: Any) -> bool:
    """Whether a machine compares alphas or kernels."""
    searched = isinstance(model.alpha, str) and model.alpha in CRITERIA
    return searched or model.length_scales is not None


def check_search(model: Any) -> None:
    """Refuse parameters that no search takes."""
    owner, penalty = type(model).__name__, model.penalty
    if model.alphas is not None:
        checked_alphas(model.alphas, owner, positive=True)
    if is_search(model) and penalty is not None and not isinstance(penalty, HalfSquare):
        raise ParameterError(
            f"{owner}: penalty = {penalty!r} was given, and a search compares weights of half the "
            "squared norm; leave penalty out, or use sklearn.model_selection.GridSearchCV."
        )


def refuse_groups(owner: str, groups: Any) -> None:
    """Refuse groups where nothing is chosen."""
    if groups is not None:
        raise ParameterError(
            f"{owner}: groups was given, and nothing is chosen by leaving rows out; pass "
            'alpha="loo" or "cv", or leave groups out.'
        )


def require_comparable(owner: str, solver: Any, in_blocks: bool) -> None:
    """Refuse rows or solvers that have neither a matrix nor features of all rows in memory."""
    if in_blocks:
        raise DataError(
            f"{owner}: a search leaves out rows that are in memory, and they come in blocks; pass "
            "arrays, or a number as alpha and no length_scales."
        )
    if solver.needs_all_rows and not solver.is_dense:
        raise ParameterError(
            f"{owner}: {solver!r} stores no matrix, and a search compares alphas on one; pass "
            "solver=mercer.solvers.Cholesky() or NystromSolver(), or a number as alpha."
        )


def chosen_by_search(model: Any, problem: MachineProblem, data: Data, groups: Any) -> Chosen:
    """Compare kernels and alphas; the model keeps the kernel, and the table of errors."""
    kernels, alphas = _kernels(model, data), _alphas(model, problem, data)
    if len(data.rows) < 2:
        raise DataError(
            f"{type(model).__name__}: no row is left to fit if the only one is left out; pass at "
            "least two rows of positive weight, or a number as alpha."
        )
    codes, intercept = _codes(model, data, groups), bool(model.fit_intercept)
    # One Newton step says nothing of kinks that a row leaves when it is left out.
    model.criterion_ = "cv" if model.alpha == "cv" or not model.loss_.smooth else "loo"
    errors, starts = [], []
    for kernel in kernels:
        problem = _problem_of(model, problem, data, kernel)
        path = Path(matrix_of(problem, intercept), data.task.alone(), intercept)
        row, start = compared(_criterion(model, path, codes), alphas)
        errors.append(row)
        starts.append(start if isinstance(problem, GramProblem) else None)
    table = np.array(errors)
    _require_choice(model, table)
    descending = np.argsort(-alphas, kind="stable")
    best, place = np.unravel_index(np.argmin(table[:, descending]), table.shape)
    model.alphas_, model.search_kernels_, model.search_errors_ = alphas, kernels, table
    _warn_of_ends(model, int(best))
    problem = _problem_of(model, problem, data, kernels[int(best)])
    return Chosen(problem, float(alphas[descending[place]]), starts[int(best)])


def _problem_of(model: Any, problem: MachineProblem, data: Data, kernel: Kernel) -> MachineProblem:
    """The problem with a kernel; the given one if it is that of the model's kernel."""
    if kernel == model.kernel_:
        return problem
    model.kernel_ = kernel
    return model._in_memory(data)  # type: ignore[no-any-return]


def _kernels(model: Any, data: Data) -> tuple[Kernel, ...]:
    """The kernels to compare, resolved."""
    if model.length_scales is None:
        return (model.kernel_,)
    kernel = model.kernel_ if model.kernel is None else model._kernel_or_default(model.kernel)
    given = candidates(kernel, model.length_scales, model.kernel_, type(model).__name__)
    return tuple(each.resolve(data.points, data.given) for each in given)


def _alphas(model: Any, problem: MachineProblem, data: Data) -> Array:
    """The alphas to compare: those given, or 25 on the scale of the kernel and of the loss."""
    if model.alpha not in CRITERIA:
        return np.array([model._weight()])
    if model.alphas is not None:
        return checked_alphas(model.alphas, type(model).__name__, positive=True)
    points = data.weighted_points
    diagonal = np.asarray(model.kernel_.diag(points))
    scale = float(np.mean(data.weights * diagonal.astype(np.float64)))
    scale *= data.task.typical_curvature() or 1.0
    return default_alphas(scale, len(points), diagonal.dtype)


def _codes(model: Any, data: Data, groups: Any) -> Rows | None:
    """Numbers of rows that are left out together: equal in a group, or for copies of a row."""
    if groups is None:
        return copies(model.kernel_, data.weighted_points)
    return group_codes(type(model).__name__, groups, len(data.points))[data.rows]


def _criterion(model: Any, path: Path, codes: Rows | None) -> Criterion:
    """How rows are left out: one by one, or in folds that are balanced over classes."""
    if model.criterion_ == "loo":
        return LeaveOneOut(path, codes)
    strata: NDArray[Any] | None = None
    if isinstance(model.loss_, ClassificationLoss):
        columns = path.task.columns  # codes of classes, or one column of signs for each class
        strata = columns.argmax(axis=1) if columns.shape[1] > 1 else columns[:, 0]
    folds = folds_of(len(path.task.weights), codes, strata)
    if folds.max() < 1:
        raise DataError(
            f"{type(model).__name__}: too few rows for two folds; pass at least two rows of "
            'positive weight in each class, or alpha="loo".'
        )
    return CrossValidation(path, folds)


def _require_choice(model: Any, errors: Array) -> None:
    if not np.isfinite(errors).any():
        raise DataError(
            f"{type(model).__name__}: no candidate has a finite error at rows left out, so that "
            "none can be chosen; pass more rows of positive weight, or a number as alpha."
        )


def _warn_of_ends(model: Any, best: int) -> None:
    """Warn if the best candidate is at an end of its grid, and others may be better."""
    errors = model.search_errors_
    warning = end_of_path(
        model.alphas_, errors[best], model.criterion_, model.alphas is not None
    ) or end_of_lengths(model.search_kernels_, errors.min(axis=1), best)
    if warning:
        warn(f"{type(model).__name__}: {warning}.", NumericalWarning)
