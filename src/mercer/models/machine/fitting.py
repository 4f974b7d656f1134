"""The problem of a machine, on the whole matrix, landmarks or features, and its solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.estimator.iterative import Report
from mercer.exceptions import NumericalWarning, warn
from mercer.models.machine.data import Options, Task
from mercer.penalties import HalfSquare, Penalty
from mercer.solvers.newton.dense import State
from mercer.solvers.newton.machine import SpanMachine
from mercer.solvers.newton.on_features import FeatureMachine
from mercer.solvers.newton.on_landmarks import LandmarkMachine
from mercer.solvers.newton.penalty import effective_alpha
from mercer.solvers.newton.products import Products
from mercer.solvers.newton.span import SpanState
from mercer.solvers.protocol import FeatureFunction

Array = NDArray[np.floating[Any]]
Start = tuple[Array, Array]

_EPS = float(np.finfo(np.float64).eps)
_FEW_DIGITS = 1e-4


@dataclass(frozen=True, eq=False)
class Found:
    """Functions that a solver has found, as a model stores them."""

    dual: Array  # (m, k): coefficients over the points of the model
    intercept: Array  # (k,): constants
    error: float  # the norm of the gradient, or the duality gap
    # further fitted attributes: how good the functions are, and the points if they are few
    further: dict[str, Any] = field(default_factory=dict)
    # the same functions by explicit features, where that is the way to evaluate them
    function: FeatureFunction | None = None
    doubt: str = ""  # A clause for a warning; empty if all is well


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
class SpanProblem(ABC):
    """Functions of a span, by sums over rows."""

    machine: SpanMachine
    unit: float
    scale: float

    @property
    def n_rows(self) -> int:
        """The number of rows that count."""
        return self.machine.task.rows.statistics.rows

    def start(self) -> Start:
        """Zeros, and constants near the best ones."""
        return self.machine.start()

    def states(self, alpha: float, start: Start, options: Options) -> Iterator[SpanState]:
        """The states of Newton's method."""
        return self.machine.states(alpha, start, options.tol, options.max_iter)

    def norm(self, state: SpanState, alpha: float) -> float:
        """The length of the coordinates."""
        return float(np.linalg.norm(state.coordinates))

    def again(self, state: SpanState) -> Start:
        """Coordinates and constants."""
        return state.coordinates, state.intercept

    def cancels(self, state: SpanState, alpha: float) -> bool:
        """Whether few digits are left, from the lengths of what is multiplied."""
        values = self.machine.span.reach * float(np.abs(state.coordinates).max(initial=0.0))
        return bool(_EPS * self._terms(state) > _FEW_DIGITS * max(values, self.scale))

    @abstractmethod
    def found(self, state: SpanState, alpha: float) -> Found:
        """What a model stores of a state."""

    @abstractmethod
    def _terms(self, state: SpanState) -> float:
        """What values are sums of, at most."""

    def _quality(self, state: SpanState) -> dict[str, Any]:
        return {"residual_": state.residual, "dual_gap_": state.bound * self.unit}


@dataclass(frozen=True)
class LandmarkProblem(SpanProblem):
    """Functions over landmarks."""

    machine: LandmarkMachine

    def found(self, state: SpanState, alpha: float) -> Found:
        """Coefficients of the landmarks, and how good they are."""
        quality = self._quality(state) | {"trace_error_": self.machine.trace_error}
        error = state.error * self.unit
        return Found(self.machine.coefficients(state), state.intercept, error, quality)

    def _terms(self, state: SpanState) -> float:
        size = float(np.linalg.norm(self.machine.coefficients(state)))
        return self.machine.span.reach**2 * size


@dataclass(frozen=True)
class FeatureProblem(SpanProblem):
    """Functions of explicit features.

    Those of all rows in memory, of which `rows` count among `n`, have coefficients for each row.
    """

    machine: FeatureMachine
    rows: NDArray[np.intp] | None = None
    n: int = 0

    def found(self, state: SpanState, alpha: float) -> Found:
        """Coefficients of rows and of features, and how good they are."""
        machine, held = self.machine, self.machine.representers(state, alpha)
        further, dual = self._quality(state) | machine.given.quality, held.dual
        if self.rows is None:
            further |= {"points_": held.points, "rows_": held.rows}
        else:
            dual = np.zeros((self.n, held.dual.shape[1]))
            dual[self.rows] = held.dual
        return Found(
            dual,
            machine.intercept(state),
            state.error * self.unit,
            further,
            machine.function(state),
            held.doubt,
        )

    def _terms(self, state: SpanState) -> float:
        return self.machine.offset * float(np.linalg.norm(state.coordinates))


class Stopped(Exception):  # noqa: N818 (not an error but the wish of a callback)
    """A callback has asked to stop: the one way out of a root finder that called us back."""


class Search:
    """Runs solvers: once for half the squared norm, else until the penalty's weight is found."""

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
        """Fit, and store what was learned."""
        alpha = alpha / self.problem.unit
        if penalty is not None and not isinstance(penalty, HalfSquare):
            alpha = effective_alpha(self._measure, alpha, penalty)
            self.start = self.problem.start()  # the last weight that was tried may be far from it
        state = self._solve(alpha)
        found, self.doubt = self.problem.found(state, alpha), state.doubt
        kept = self._attributes(found, state, alpha, self.steps)
        if found.doubt:
            warn(f"{self.owner}: {found.doubt}.", NumericalWarning)
        if state.converged and self.problem.cancels(state, alpha):
            kept["converged_"] = False
            warn(
                f"{self.owner}: terms of the fitted function cancel to fewer than four digits of "
                "it; raise alpha, or scale the targets, weights or kernel down.",
                NumericalWarning,
            )
        self.store(kept)
        return bool(state.converged)

    def _attributes(self, found: Found, state: Any, alpha: float, steps: int) -> dict[str, Any]:
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
            return self._attributes(self.problem.found(state, alpha), state, alpha, steps)

        if self.report(fitted):
            self.store(fitted())
            raise Stopped
