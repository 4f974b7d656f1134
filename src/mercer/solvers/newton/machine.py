"""Kernel machines with a smooth loss, fitted over the functions of a span."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import memory
from mercer.arrays import EPS, Array
from mercer.rows.rows import InMemory
from mercer.solvers.newton import method
from mercer.solvers.newton.method import Start, State
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span import NewtonDirection, Problem, descend
from mercer.solvers.newton.spans import CONSTANTS, Span
from mercer.solvers.protocol import FeatureFunction, FitTask

# Number of matrices of the size of the Hessian that are in memory at a time.
_MATRICES = 4
# Largest relative rounding error of values of a converged function.
_FEW_DIGITS = 1e-4


@dataclass(frozen=True, eq=False)
class Solution:
    """Functions as a model stores them."""

    dual: Array  # (m, k): coefficients over landmarks, or over the rows of positive weight
    intercept: Array  # (k,)
    error: float  # norm of the gradient, or the duality gap
    # further fitted attributes: measures of quality, and points that stand for the rows
    further: dict[str, Any] = field(default_factory=dict)
    function: FeatureFunction | None = None  # the functions by explicit features, if they have any
    over_rows: bool = True  # whether the coefficients are those of rows


@dataclass(frozen=True, eq=False)
class MachineTask(FitTask):
    """Minimise sum_i w_i loss(y_i, f(x_i)) + alpha |f - b|^2 / 2, for any alpha."""

    # smooth losses, which are minimised separately; none if the loss has kinks
    losses: tuple[RowLoss, ...]
    constants: Array  # (n_outputs,): initial intercepts, for the outputs of all losses in turn
    fit_intercept: bool  # whether intercepts are fitted, or keep their initial values
    scale: float = 1.0  # typical size of values of the functions

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


def cancels(terms: float, values: float) -> bool:
    """Whether few digits are left of values, from a bound of the terms that add up to them."""
    return bool(EPS * terms > _FEW_DIGITS * values)


class SpanMachine(ABC):
    """Minimises a task over the functions of a span, by sums over rows."""

    over_rows = False  # whether the coefficients of a solution are those of rows

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
            span, weight = CONSTANTS, 1.0
        solvers = []
        for loss in self.task.losses:
            problem = Problem(
                self.task.rows, span, loss, weight, self.task.fit_intercept, self.direction, tol
            )
            solvers.append((loss.n_outputs, partial(descend, problem, max_iter=max_iter)))
        for state in method.solve_in_turn(solvers, (start[0][: len(span)], start[1])):
            coef = np.zeros((len(self.span), state.coef.shape[1]))
            coef[: len(span)] = state.coef
            yield replace(state, coef=coef)

    def norm(self, state: State, alpha: float) -> float:
        """The norm of the functions."""
        return float(np.linalg.norm(state.coef))

    def cancels(self, state: State, alpha: float) -> bool:
        """Whether few digits are left, from the norms of rows and coefficients."""
        values = self.span.max_norm * float(np.abs(state.coef).max(initial=0.0))
        return cancels(self._terms(state), max(values, self.task.scale))

    def solution(self, state: State, alpha: float) -> Solution:
        """The functions of a state, with measures of quality."""
        quality = {"residual_": state.residual, "dual_gap_": state.bound} | self.quality
        dual, intercept = self.dual(state, alpha), self.intercept(state)
        return Solution(dual, intercept, state.error, quality, self.function(state), self.over_rows)

    @abstractmethod
    def dual(self, state: State, alpha: float) -> Array:
        """The coefficients of landmarks or rows."""

    @property
    @abstractmethod
    def quality(self) -> dict[str, Any]:
        """Measures of the quality of the span."""

    @abstractmethod
    def _terms(self, state: State) -> float:
        """A bound of the terms that add up to values."""

    def function(self, state: State) -> FeatureFunction | None:
        """The functions by explicit features, without their intercepts."""
        return None

    def intercept(self, state: State) -> Array:
        """The intercepts."""
        return state.intercept
