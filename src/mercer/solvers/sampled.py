"""Candidates compared on some of the rows, for solvers that solve for all rows at one alpha.

The weight of the squared norm is the variance of the noise relative to that of the function, and
a length-scale is a property of the function: neither changes with the number of rows. So a few
thousand rows, which can be left out one by one exactly, choose for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.sampling import random_numbers
from mercer.solvers.ridge.gram import RidgeProblem
from mercer.solvers.task import RidgeTask

Array = NDArray[np.floating[Any]]


def sampled_errors(
    tasks: Sequence[RidgeTask], n_rows: int, *, least: float = 0.0, random_state: Any = None
) -> Array:
    """Criterion of tasks that differ in the kernel, at each alpha, on a sample of rows."""
    rows = _sample(tasks[0], n_rows, random_state)
    errors = np.stack([_errors(task, rows, least) for task in tasks])
    if not np.isfinite(errors).any():
        raise DataError(
            f"{tasks[0].owner}: no candidate has a finite {tasks[0].criterion} error, so that none "
            "can be chosen; pass more rows of positive weight, or a number as alpha."
        )
    return errors


def _sample(task: RidgeTask, n_rows: int, random_state: Any) -> NDArray[np.intp]:
    rows = np.flatnonzero(task.part("ConjugateGradient").mass)
    if len(rows) <= n_rows:
        return rows
    return np.sort(random_numbers(random_state, task.owner).choice(rows, n_rows, replace=False))


def _errors(task: RidgeTask, rows: NDArray[np.intp], least: float) -> Array:
    """The criterion of the same problem on some rows."""
    errors = np.full(task.alphas.shape, np.inf)
    if len(rows) < 2:  # nothing is left when one is left out
        return errors
    part = task.part("ConjugateGradient")
    gram = task.kernel(part.points[rows])
    weights = None if part.weights is None else part.weights[rows].astype(gram.dtype)
    problem = RidgeProblem(gram, part.targets[rows], weights, task.fit_intercept)
    considered = task.alphas >= least * problem.mean_diagonal
    if not considered.any():
        considered[:] = True
    errors[considered] = problem.errors(task.alphas[considered], task.criterion)
    return errors
