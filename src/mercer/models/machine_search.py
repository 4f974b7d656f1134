"""The problem of a machine on the whole matrix or on landmarks, and the search of its solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, warn
from mercer.models.iterative import Report
from mercer.models.tasks import Options, Task
from mercer.penalties import HalfSquare, Penalty
from mercer.solvers.landmark_machine import LandmarkMachine
from mercer.solvers.landmark_newton import LandmarkState
from mercer.solvers.newton import State
from mercer.solvers.newton_products import Products
from mercer.solvers.penalised import effective_alpha

Array = NDArray[np.floating[Any]]
Start = tuple[Array, Array]

_EPS = float(np.finfo(np.float64).eps)
_FEW_DIGITS = 1e-4


@dataclass(frozen=True, eq=False)
class Found:
    """Functions that a solver has found, as a model stores them.

    Attributes
    ----------
    dual : ndarray of shape (m, k)
        Coefficients over the points of the model.
    intercept : ndarray of shape (k,)
        Constants.
    error : float
        The norm of the gradient, or the duality gap.
    quality : dict
        Further fitted attributes that say how good the functions are.
    """

    dual: Array
    intercept: Array
    error: float
    quality: dict[str, Any]


class MachineProblem(Protocol):
    """What is to be minimised, for any weight of half the squared norm."""

    @property
    def unit(self) -> float:
        """What weights, and with them alpha, are in: only their ratio matters to the solution."""
        ...

    @property
    def n_rows(self) -> int:
        """The number of rows that count."""
        ...

    def start(self) -> Start:
        """Where to begin."""
        ...

    def states(self, alpha: float, start: Start, options: Options) -> Iterator[Any]:
        """States on the way to the minimum; an infinite alpha leaves nothing but constants."""
        ...

    def norm(self, state: Any, alpha: float) -> float:
        """The norm of the functions of a state."""
        ...

    def again(self, state: Any) -> Start:
        """Where to begin if a state is near."""
        ...

    def cancels(self, state: Any, alpha: float) -> bool:
        """Whether terms of f are so much larger than f that their sum keeps few digits."""
        ...

    def found(self, state: Any, alpha: float) -> Found:
        """What a model stores of a state."""
        ...


@dataclass(frozen=True)
class WholeProblem:
    """The Gram matrix of the rows that count, stored or not, and what is to be fitted to them.

    Values of the function are large or small beside `scale`.
    """

    gram: Array | Products
    diagonal: Array
    means: Array
    rows: NDArray[np.intp]
    n: int
    task: Task
    unit: float
    scale: float
    fit_intercept: bool

    @property
    def n_rows(self) -> int:
        """The number of rows that count."""
        return len(self.rows)

    def start(self) -> Start:
        """Zeros, and constants near the best ones."""
        return np.zeros((len(self.rows), self.task.n_outputs)), self.task.constants.copy()

    def states(self, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """The states of the task's solver."""
        if np.isinf(alpha):  # nothing is left but the constants
            return self.task.states(self.gram * 0.0, 1.0, start, options)
        return self.task.states(self.gram, alpha, start, options)

    def norm(self, state: State, alpha: float) -> float:
        """The norm, from the matrix."""
        square = float(np.sum(state.scaled * (self.gram @ state.scaled)))
        return float(np.sqrt(max(square, 0.0))) / alpha

    def again(self, state: State) -> Start:
        """Coefficients, scaled, and constants."""
        return state.scaled, state.intercept

    def cancels(self, state: State, alpha: float) -> bool:
        """Whether few digits are left; the solver sees a centred matrix, where they may be."""
        dual = state.scaled / alpha
        values = float(np.abs(self.gram @ dual + state.intercept).max())
        terms = np.sqrt(self.diagonal.max() * (self.diagonal @ dual**2).max())
        return bool(_EPS * terms > _FEW_DIGITS * max(values, self.scale))

    def found(self, state: State, alpha: float) -> Found:
        """Coefficients of all rows."""
        dual = np.zeros((self.n, self.task.n_outputs))
        state = self.task.kept(self.gram, alpha, state)
        scaled = state.scaled
        if self.fit_intercept:  # the centred matrix does not see the mean, the kernel would
            scaled = scaled - scaled.mean(axis=0)
        dual[self.rows] = scaled / alpha
        # Summed so that equal columns get equal constants: a matrix product may round each its way.
        shift = np.sum(self.means[:, None] * dual[self.rows], axis=0)
        error = state.error * self.unit
        return Found(dual, state.intercept - shift, error, self._quality(state))

    def _quality(self, state: State) -> dict[str, Any]:
        """How good a solution by iterations is."""
        if not isinstance(self.gram, Products):
            return {}
        left_out = self.gram.left_out
        precondition = {} if left_out is None else {"preconditioner_error_": left_out}
        return {"residual_": state.residual, "dual_gap_": state.bound * self.unit} | precondition


@dataclass(frozen=True)
class LandmarkProblem:
    """Functions over landmarks, by sums over rows."""

    machine: LandmarkMachine
    unit: float
    scale: float

    @property
    def n_rows(self) -> int:
        """The number of rows that count."""
        return self.machine.task.rows.totals.rows

    def start(self) -> Start:
        """Zeros, and constants near the best ones."""
        return self.machine.start()

    def states(self, alpha: float, start: Start, options: Options) -> Iterator[LandmarkState]:
        """The states of Newton's method."""
        return self.machine.states(alpha, start, options.tol, options.max_iter)

    def norm(self, state: LandmarkState, alpha: float) -> float:
        """The length of the coordinates."""
        return float(np.linalg.norm(state.coordinates))

    def again(self, state: LandmarkState) -> Start:
        """Coordinates and constants."""
        return state.coordinates, state.intercept

    def cancels(self, state: LandmarkState, alpha: float) -> bool:
        """Whether few digits are left, from the lengths of coefficients and coordinates."""
        reach = self.machine.span.reach
        values = reach * float(np.abs(state.coordinates).max(initial=0.0))
        terms = reach**2 * float(np.linalg.norm(self.machine.coefficients(state)))
        return bool(_EPS * terms > _FEW_DIGITS * max(values, self.scale))

    def found(self, state: LandmarkState, alpha: float) -> Found:
        """Coefficients of the landmarks, and how good they are."""
        quality = {
            "residual_": state.residual,
            "dual_gap_": state.bound * self.unit,
            "trace_error_": self.machine.trace_error,
        }
        error = state.error * self.unit
        return Found(self.machine.coefficients(state), state.intercept, error, quality)


class Stopped(Exception):  # noqa: N818 (not an error but the wish of a callback)
    """A callback has asked to stop: the one way out of a root finder that called us back."""


class Search:
    """Runs solvers: once for half the squared norm, else until the penalty's weight is found.

    Parameters
    ----------
    owner : str
        The name of the model, for messages.
    problem : MachineProblem
        The problem.
    options : Options
        What solvers are told beside it.
    fitted : callable
        ``fitted(found, alpha, steps, converged)`` makes fitted attributes.
    store : callable
        Takes fitted attributes.
    report : callable
        Takes a function that makes fitted attributes, after every step; True stops.

    Attributes
    ----------
    doubt : str
        What the solver says of its last step, as a clause; empty if nothing is wrong with it.
    """

    def __init__(
        self,
        owner: str,
        problem: MachineProblem,
        options: Options,
        fitted: Callable[[Found, float, int, bool], dict[str, Any]],
        store: Callable[[dict[str, Any]], None],
        report: Report,
    ) -> None:
        self.owner, self.problem, self.options = owner, problem, options
        self.fitted, self.store, self.report = fitted, store, report
        self.start, self.steps, self.doubt = problem.start(), 0, ""

    def run(self, alpha: float, penalty: Penalty | None) -> bool:
        """Fit, and store what was learned.

        Parameters
        ----------
        alpha : float
            The weight of the penalty.
        penalty : Penalty, optional
            The penalty; None for half the square.

        Returns
        -------
        bool
            False if the solver stopped short.
        """
        alpha = alpha / self.problem.unit
        if penalty is not None and not isinstance(penalty, HalfSquare):
            alpha = effective_alpha(self._measure, alpha, penalty)
            self.start = self.problem.start()  # the last weight that was tried may be far from it
        state = self._solve(alpha)
        kept, self.doubt = self._attributes(state, alpha, self.steps), state.doubt
        if state.converged and self.problem.cancels(state, alpha):
            kept["converged_"] = False
            warn(
                f"{self.owner}: terms of the fitted function cancel to fewer than four digits of "
                "it; raise alpha, or scale the targets, weights or kernel down.",
                NumericalWarning,
            )
        self.store(kept)
        return bool(state.converged)

    def _attributes(self, state: Any, alpha: float, steps: int) -> dict[str, Any]:
        found = self.problem.found(state, alpha)
        return self.fitted(found, alpha * self.problem.unit, steps, state.converged)

    def _measure(self, alpha: float) -> tuple[float, float]:
        """Loss and norm of the best function at one weight; infinite loss if it was not found."""
        state = self._solve(alpha)
        loss = state.loss if state.converged else np.inf
        return loss, 0.0 if np.isinf(alpha) else self.problem.norm(state, alpha)

    def _solve(self, alpha: float) -> Any:
        state: Any = None
        for state in self.problem.states(alpha, self.start, self.options):
            self.steps += 1
            self._say(state, alpha)
        assert state is not None
        # Where a solver got lost is no place to start from.
        self.start = self.problem.again(state) if state.converged else self.problem.start()
        return state

    def _say(self, state: Any, alpha: float) -> None:
        """Report a step; the state is bound now, and looked at only if somebody asks."""
        steps = self.steps

        def fitted() -> dict[str, Any]:
            return self._attributes(state, alpha, steps)

        if self.report(fitted):
            self.store(fitted())
            raise Stopped
