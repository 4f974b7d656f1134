"""Machines with a smooth loss on the functions of a span: from rows to coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.rows.rows import RowSource
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span import Direct, Problem, SpanState, Start, descend, minimise
from mercer.solvers.newton.spans import Constants, Span

Array = NDArray[np.floating[Any]]

# Matrices of second derivatives at a time: sums, what they are made into, and the factor.
_MATRICES = 4


@dataclass(frozen=True, eq=False)
class MachineTask:
    """Minimise sum_i w_i loss(y_i, f(x_i)) + alpha |f - b|^2 / 2, for any alpha."""

    owner: str  # the name of the model, for messages
    kernel: Kernel  # the kernel, resolved
    rows: RowSource  # points, targets and weights; rows of weight 0 are left out
    losses: tuple[RowLoss, ...]  # smooth; each is minimised alone
    # (n_outputs,): constants to begin with, for the outputs of all losses one after another
    constants: Array
    fit_intercept: bool  # whether constants are fitted, or stay as they are

    @property
    def at_a_time(self) -> int:
        """The largest number of functions that are fitted together."""
        return max(loss.n_outputs for loss in self.losses)

    def require_memory(
        self, width: int, what: str, direct: Direct, remedy: str, beside: int = 0
    ) -> None:
        """Refuse second derivatives that do not fit in memory."""
        together = self.at_a_time
        numbers = (together * (width + 1)) ** 2 if direct.curved else together * (width + 1) ** 2
        memory.require(
            8 * (_MATRICES * numbers + beside),
            f"{self.owner} with {what} and {together} functions at a time",
            remedy,
        )


class SpanMachine:
    """A task on the functions of a span."""

    def __init__(self, task: MachineTask, span: Span, direct: Direct) -> None:
        self.task, self.span, self.direct = task, span, direct

    def start(self) -> Start:
        """Zeros, and constants near the best ones."""
        return np.zeros((len(self.span), len(self.task.constants))), self.task.constants.copy()

    def states(self, alpha: float, start: Start, tol: float, max_iter: int) -> Iterator[SpanState]:
        """Yield the states of all functions after every step of one of them."""
        span = self.span if np.isfinite(alpha) else Constants()
        coordinates, intercept = start[0][: len(span)].copy(), start[1].copy()
        parts: list[SpanState | None] = [None] * len(self.task.losses)
        first = 0
        for i, loss in enumerate(self.task.losses):
            mine = slice(first, first + loss.n_outputs)
            first = mine.stop
            problem = Problem(
                self.task.rows,
                span,
                loss,
                alpha if np.isfinite(alpha) else 1.0,
                self.task.fit_intercept,
            )
            begin = coordinates[:, mine], intercept[mine]
            # From a solution at another alpha there is no need to come down again.
            way = minimise if begin[0].any() or not len(span) else descend
            for state in way(problem, self.direct, begin, tol=tol, max_iter=max_iter):
                parts[i] = state
                coordinates[:, mine], intercept[mine] = state.coordinates, state.intercept
                yield self._merged(coordinates, intercept, parts)

    def _merged(
        self, coordinates: Array, intercept: Array, parts: list[SpanState | None]
    ) -> SpanState:
        """The state of all functions: losses and errors add up, and all have to converge."""
        known = [part for part in parts if part is not None]
        whole = len(known) == len(parts)
        padded = np.zeros((len(self.span), coordinates.shape[1]))
        padded[: len(coordinates)] = coordinates
        return SpanState(
            padded,
            intercept.copy(),
            sum(part.loss for part in known) if whole else np.inf,
            sum(part.error for part in known) if whole else np.inf,
            max(part.residual for part in known) if whole else np.inf,
            sum(part.bound for part in known) if whole else np.inf,
            whole and all(part.converged for part in known),
        )
