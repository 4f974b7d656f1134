"""The problem of a machine, on the Gram matrix, landmarks or features, and its solution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.estimator.iterative import Report
from mercer.exceptions import NumericalWarning, warn
from mercer.linalg.low_rank import LowRankMatrix
from mercer.models.machine.data import Data
from mercer.penalties import HalfSquare, Penalty
from mercer.solvers.machine_fit import takes_products
from mercer.solvers.newton.machine import Solution, SpanMachine, cancels
from mercer.solvers.newton.method import Start, State
from mercer.solvers.newton.penalty import effective_alpha
from mercer.solvers.newton.products import Products

# Tolerance of the warm start, which is the minimum with a low-rank matrix.
_NEAR = 1e-2
# Largest relative error of the low-rank matrix in the values at the warm start.
_CLOSE = 0.1


@dataclass(frozen=True)
class GramProblem:
    """Functions over all rows, with their Gram matrix in memory or known by its products."""

    # of the rows of positive weight, centred if intercepts are fitted
    gram: Array | Products | LowRankMatrix
    diagonal: Array  # of the matrix before it was centred
    means: Array  # of its columns, zero if it was not centred
    data: Data
    fit_intercept: bool
    array: Array | None = None  # the matrix itself, where it is in memory

    def start(self) -> Start:
        """Zeros, and the initial intercepts."""
        task = self.data.task
        return np.zeros((len(self.data.rows), task.n_outputs)), task.constants.copy()

    def states(self, alpha: float, start: Start, tol: float, max_iter: int) -> Iterator[State]:
        """The states on the way to the minimum."""
        gram, weight = self.gram, alpha
        if np.isinf(alpha):  # only the intercepts are left
            gram, weight = self.gram * 0.0, 1.0
        options = {"fit_intercept": self.fit_intercept, "max_iter": max_iter}
        if isinstance(gram, Products) and not start[0].any():
            start = self._warm_start(gram, weight, start, options)
        return self.data.task.states(gram, weight, start, tol=tol, **options)

    def _warm_start(
        self, gram: Products, alpha: float, start: Start, options: dict[str, Any]
    ) -> Start:
        """The minimum with a low-rank matrix, if its values are close to those of the matrix."""
        near = gram.low_rank
        if near is None:
            return start
        *_, state = self.data.task.states(near, alpha, start, tol=_NEAR, **options)
        exact = gram @ state.coef
        is_near = np.linalg.norm(near @ state.coef - exact) <= _CLOSE * np.linalg.norm(exact)
        return (state.coef, state.intercept) if state.converged and is_near else start

    def norm(self, state: State, alpha: float) -> float:
        """The norm, from the matrix."""
        square = float(np.sum(state.coef * (self.gram @ state.coef)))
        return float(np.sqrt(max(square, 0.0))) / alpha

    def cancels(self, state: State, alpha: float) -> bool:
        """Whether few digits are left with the matrix before it was centred."""
        dual = state.coef / alpha
        values = float(np.abs(self.gram @ dual + state.intercept).max())
        terms = np.sqrt(self.diagonal.max() * (self.diagonal @ dual**2).max())
        return cancels(float(terms), max(values, self.data.scale))

    def solution(self, state: State, alpha: float) -> Solution:
        """Coefficients of the rows."""
        state = self.data.task.final(self.gram, alpha, state)
        coef = state.coef
        if self.fit_intercept:  # a mean has no effect on the centred matrix, but on the kernel
            coef = coef - coef.mean(axis=0)
        dual = coef / alpha
        # A sum gives equal columns equal intercepts; a matrix product may round them differently.
        shift = np.sum(self.means[:, None] * dual, axis=0)
        return Solution(dual, state.intercept - shift, state.error, self._quality(state))

    def _quality(self, state: State) -> dict[str, Any]:
        """Measures of quality of a solution by iterations."""
        if not isinstance(self.gram, Products) or self.gram.stored:
            return {}
        quality = {"residual_": state.residual, "dual_gap_": state.bound}
        if self.gram.residual_trace is not None:
            quality["preconditioner_error_"] = self.gram.residual_trace
        return quality


@dataclass(frozen=True)
class LowRankProblem(GramProblem):
    """Functions of landmarks or features whose loss has kinks, by the low-rank matrix of rows."""

    gram: LowRankMatrix
    # (m,): the mean of the coordinates of rows, zero if they are not centred
    origin: Array = field(kw_only=True)
    machine: SpanMachine = field(kw_only=True)

    @classmethod
    def of(cls, machine: SpanMachine, data: Data, fit_intercept: bool) -> LowRankProblem:
        """The problem with the coordinates of all rows in memory."""
        rows = machine.whitened_rows()
        diagonal = np.einsum("ij,ij->i", rows, rows)
        origin = rows.mean(axis=0) if fit_intercept else np.zeros(rows.shape[1])
        gram, means = LowRankMatrix(rows - origin), np.zeros(len(rows))
        return cls(gram, diagonal, means, data, fit_intercept, origin=origin, machine=machine)

    def solution(self, state: State, alpha: float) -> Solution:
        """Coefficients of the landmarks, or of rows and features."""
        state, machine = self.data.task.final(self.gram, alpha, state), self.machine
        coordinates = self.gram.factor.T @ state.coef / alpha
        intercept = state.intercept - self.origin @ coordinates
        inner = replace(state, coef=coordinates, intercept=intercept)
        return Solution(
            state.coef / alpha if machine.over_rows else machine.dual(inner, alpha),
            machine.intercept(inner),
            state.error,
            machine.quality,
            machine.function(inner),
            machine.over_rows,
        )


def problem_in_memory(gram: Array, data: Data, fit_intercept: bool) -> GramProblem:
    """The problem with the Gram matrix in memory, which is centred in place."""
    diagonal = np.maximum(gram.diagonal(), 0.0)  # a copy
    means = np.zeros(len(gram))
    if fit_intercept:
        # Any constant may be added to the kernel: without the mean, more digits are left.
        means = gram.mean(axis=0)
        gram -= means + means[:, None] - means.mean()
    by_products = data.task.joint and takes_products(data.task.n_outputs, len(gram))
    matrix = Products.of_array(gram) if by_products else gram
    return GramProblem(matrix, diagonal, means, data, fit_intercept, gram)


#: The objective, for any weight of half the squared norm.
MachineProblem = GramProblem | SpanMachine


class _Stopped(Exception):  # noqa: N818 (a request of a callback, not an error)
    """A callback has asked to stop: an exception is the only way out of a root finder."""


@dataclass
class Search:
    """Runs a solver: once for half the squared norm, at several weights for other penalties."""

    owner: str
    problem: MachineProblem
    data: Data | None  # the data if they are in memory
    tol: float
    max_iter: int
    report: Report
    columns: bool  # whether there are several functions
    smooth: bool  # whether the loss is
    start: Start
    steps: int = 0
    stopped_short: bool = False  # whether the solver stopped before it converged
    warning: str = ""  # why, as a clause; empty if it is not known

    def run(self, alpha: float, penalty: Penalty | None) -> dict[str, Any]:
        """Fit, and return the fitted attributes."""
        try:
            if penalty is not None and not isinstance(penalty, HalfSquare):
                alpha = effective_alpha(self._measure, alpha, penalty)
                self.start = self.problem.start()  # the last weight may be far from the best one
            state = self._solve(alpha)
        except _Stopped as stopped:
            return {**stopped.args[0](), "converged_": False}
        solution, self.warning = self.problem.solution(state, alpha), state.warning
        attributes = self._attributes(solution, alpha, self.steps, state.converged)
        self.stopped_short = not state.converged
        if state.converged and self.problem.cancels(state, alpha):
            attributes["converged_"] = False
            warn(
                f"{self.owner}: terms of the fitted function cancel to fewer than four digits of "
                "it; raise alpha, or scale the targets, weights or kernel down.",
                NumericalWarning,
            )
        return attributes

    def _attributes(
        self, solution: Solution, alpha: float, steps: int, converged: bool
    ) -> dict[str, Any]:
        """The fitted attributes of a solution; several functions have a column each."""
        dual, intercept = solution.dual, solution.intercept
        if solution.over_rows and self.data is not None:
            dual = self.data.over_all_rows(dual)
        over_rows = {"dual_coef_": dual if self.columns else dual[:, 0]} if len(dual) else {}
        return {
            **over_rows,
            "intercept_": intercept if self.columns else float(intercept[0]),
            "alpha_": alpha,
            "n_iter_": steps,
            "converged_": converged,
            "gradient_norm_" if self.smooth else "dual_gap_": solution.error,
            "_function": solution.function,
            **solution.further,
        }

    def _measure(self, alpha: float) -> tuple[float, float]:
        """Loss and norm of the best function at one weight; infinite loss without convergence."""
        state = self._solve(alpha)
        loss = state.loss if state.converged else np.inf
        return loss, 0.0 if np.isinf(alpha) else self.problem.norm(state, alpha)

    def _solve(self, alpha: float) -> State:
        """The last state at one weight; every state is reported."""
        state: State | None = None
        for state in self.problem.states(alpha, self.start, self.tol, self.max_iter):
            self.steps += 1
            self._report(state, alpha)
        assert state is not None
        # A state without convergence is not a good warm start.
        warm = state.coef, state.intercept
        self.start = warm if state.converged else self.problem.start()
        return state

    def _report(self, state: State, alpha: float) -> None:
        """Report a step; its attributes are computed only if they are asked for."""
        steps = self.steps

        def fitted() -> dict[str, Any]:
            solution = self.problem.solution(state, alpha)
            return self._attributes(solution, alpha, steps, state.converged)

        if self.report(fitted):
            raise _Stopped(fitted)
