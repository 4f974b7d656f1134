"""Warnings of support vector machines that are less exact than asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.exceptions import NumericalWarning, ShortFitWarning, warn
from mercer.models.svm.duals import DualSolutions, Flags


def warn_of_fit(model: Any, solutions: DualSolutions, is_exact: Flags) -> None:
    """Say why a fit is less exact than asked; the most specific reason alone."""
    limit = np.inf if model.max_iter == -1 else model.max_iter
    without_margin = int((~solutions.has_margin & (solutions.n_iter < limit)).sum())
    if without_margin:
        _warn_of_no_margin(model, without_margin, len(solutions))
    elif not is_exact.all() and not _allows_no_errors(model):
        _warn_of_rounding(model, int((~is_exact).sum()), len(solutions))
    elif not model.converged_:
        warn_of_short_fit(model)
    else:
        _warn_of_wide_gap(model)


def warn_of_short_fit(model: Any) -> None:
    """Warn that the solver stopped before it was as exact as asked."""
    owner, steps, gap = type(model).__name__, np.max(model.n_iter_), np.max(model.dual_gap_)
    more = [] if model.max_iter == -1 else [f"raise max_iter ({model.max_iter})"]
    if _allows_no_errors(model):
        # A function that was not begun, because a callback stopped the fit, has no steps.
        certain = np.any(np.isposinf(model.dual_gap_) & (np.asarray(model.n_iter_) > 0))
        sure = "" if certain else "perhaps " if more else "most likely "
        why = f": C is infinite, and {sure}{model._infeasible}"
        remedies = [*more, "pass a finite C, which allows errors", "or take another kernel"]
    else:
        exact = f"before it was as exact as tol = {model.tol:g} asks"
        why = f" with a duality gap of {gap:.3g}, {exact}"
        remedies = [*more, "scale the data", _softer(model), "or raise tol"]
    warn(f"{owner} stopped after {steps} steps{why}; {', '.join(remedies)}.", ShortFitWarning)


def warn_of_folds(owner: str, short: int) -> None:
    """Warn that machines for cross-validation are less exact than asked."""
    if short:
        warn(
            f"{owner}: {short} of the machines that were fitted without some of the rows stopped "
            "before every row was within tol; raise max_iter, scale the data, or lower C.",
            ShortFitWarning,
        )


def _warn_of_rounding(model: Any, inexact: int, n_functions: int) -> None:
    which = "" if n_functions == 1 else f" of {inexact} of {n_functions} functions"
    softer = "lower C, " if hasattr(model, "C") else ""
    warn(
        f"{type(model).__name__}: rounding of kernel values may move values{which} by more than "
        f"tol = {model.tol:g}, so that the solution is not known as exactly; subtract the means "
        f"of the columns and scale them, as scikit-learn's StandardScaler does, {softer}or "
        "raise tol.",
        ShortFitWarning,
    )


def _warn_of_wide_gap(model: Any) -> None:
    gaps, objectives = np.ravel(model.dual_gap_), np.ravel(model.objective_)
    worst = int(np.argmax(gaps - np.abs(objectives)))
    warn(
        f"{type(model).__name__}: every row is within tol = {model.tol:g} of its condition, but "
        f"the duality gap of {gaps[worst]:.3g} is more than the objective itself, "
        f"{objectives[worst]:.3g}; lower tol, scale the data, or {_softer(model)}.",
        ShortFitWarning,
    )


def _warn_of_no_margin(model: Any, without: int, n_functions: int) -> None:
    owner = type(model).__name__
    which = "" if n_functions == 1 else f" for {without} of {n_functions} functions"
    if np.isnan(model.dual_gap_).any():
        warn_of_invalid_matrix(
            model, f"The solution{which} has no positive squared norm, and therefore no margin. "
        )
        return
    warn(
        f"{owner}: nu = {model.nu:g} is infeasible{which}: the classes overlap more than that. The "
        "margin is zero, so decision values have no scale. Raise nu, scale the data, or take "
        "another kernel.",
        ShortFitWarning,
    )


def warn_of_invalid_matrix(model: Any, consequence: str = "") -> None:
    """Warn that the problem may have several solutions."""
    warn(
        f"{type(model).__name__}: the matrix of {model.kernel_!r} is not positive semi-definite, "
        f"so that the problem may have several solutions. {consequence}Other programs may return "
        'another function. Repair the matrix with psd="clip", "flip" or "shift", or use a kernel '
        "whose is_psd is True.",
        ShortFitWarning if consequence else NumericalWarning,
    )


def _softer(model: Any) -> str:
    return "lower C" if hasattr(model, "C") else "raise nu"


def _allows_no_errors(model: Any) -> bool:
    C = getattr(model, "C", 1.0)
    return bool(np.isinf(list(C.values()) if isinstance(C, Mapping) else C).any())
