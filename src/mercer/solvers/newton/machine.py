"""Kernel machines with a smooth loss, fitted over the functions of a span."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer import memory
from mercer.rows.rows import InMemory
from mercer.solvers.newton import method
from mercer.solvers.newton.method import Start, State
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span import NewtonDirection, Problem, descend
from mercer.solvers.newton.spans import Constants, Span
from mercer.solvers.protocol import FitTask

Array = NDArray[np.floating[Any]]

# Number of matrices of the size of the Hessian that are in memory at a time.
_MATRICES = 4


@dataclass(frozen=True, eq=False)
class MachineTask(FitTask):
    """Minimise sum_i w_i loss(y_i, f(x_i)) + alpha |f - b|^2 / 2, for any alpha."""

    # smooth losses, which are minimised separately; none if the loss has kinks
    losses: tuple[RowLoss, ...]
    constants: Array  # (n_outputs,): initial intercepts, for the outputs of all losses in turn
    fit_intercept: bool  # whether intercepts are fitted, or keep their initial values

    @property
    def joint_outputs(self) -> int:
        """The largest number of functions that one loss couples."""
        return max((loss.n_outputs for loss in self.losses), default=1)

    def require_memory(
        self, width: int, what: str, direction: NewtonDirection, remedy: str, beside: int = 0
    ) -> None:
        """Refuse Hessians that do not fit in memory."""
        k = self.joint_outputs
        numbers = (k * (width + 1)) ** 2 if direction.needs_hessian else k * (width + 1) ** 2
        memory.require(
            8 * (_MATRICES * numbers + beside),
            f"{self.owner} with {what} and {k} functions at a time",
            remedy,
        )


class SpanMachine:
    """Minimises a task over the functions of a span."""

    def __init__(self, task: MachineTask, span: Span, direction: NewtonDirection) -> None:
        self.task, self.span, self.direction = task, span, direction

    def start(self) -> Start:
        """Zeros, and the initial intercepts."""
        return np.zeros((len(self.span), len(self.task.constants))), self.task.constants.copy()

    def whitened_rows(self) -> Array:
        """The rows of all data in the coordinates of the span, in memory."""
        assert isinstance(self.task.rows, InMemory)
        blocks = [rows for rows, _, _ in self.span.rows(self.task.rows.part, whitened=True)]
        dense = [rows.toarray() if sp.issparse(rows) else rows for rows in blocks]
        return np.concatenate(dense)

    def states(self, alpha: float, start: Start, tol: float, max_iter: int) -> Iterator[State]:
        """Yield the state of all functions after every Newton step.

        At an infinite alpha only the intercepts are fitted.
        """
        span, weight = self.span, alpha
        if not np.isfinite(alpha):
            span, weight = Constants(), 1.0
        solvers = []
        for loss in self.task.losses:
            problem = Problem(
                self.task.rows, span, loss, weight, self.task.fit_intercept, self.direction, tol
            )
            solvers.append((loss.n_outputs, partial(_minimise, problem, max_iter=max_iter)))
        for state in method.solve_in_turn(solvers, (start[0][: len(span)], start[1])):
            coef = np.zeros((len(self.span), state.coef.shape[1]))
            coef[: len(span)] = state.coef
            yield replace(state, coef=coef)


def _minimise(problem: Problem, start: Start, max_iter: int) -> Iterator[State]:
    """Minimise, by way of larger alphas unless the start is a warm start."""
    if start[0].any() or not len(problem.span):
        return method.minimise(problem, start, max_iter)
    return descend(problem, start, max_iter)
