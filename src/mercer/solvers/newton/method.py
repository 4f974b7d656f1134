"""Newton's method: its loop, the state after a step, and the rule for convergence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Start = tuple[Array, Array]  # coefficients (m, k) and intercepts (k,)

# Steps in a row that may fail to lower the objective before the method gives up.
_IDLE_STEPS = 3
# Rounding excuses an error of at most this many tolerances.
_EXCUSED = 100


@dataclass(frozen=True, eq=False)
class State:
    """Functions after a step, and how close they are to the minimum."""

    # (n, k): alpha times the coefficients of the points; of a span, (m, k): the coordinates
    coef: Array
    intercept: Array  # (k,)
    loss: float  # the weighted sum of losses
    error: float  # norm of the gradient, or the duality gap
    converged: bool  # whether the error is within the tolerance
    residual: float = np.inf  # norm of the gradient, relative to the terms that cancel in it
    # bound of the objective minus its minimum over functions with the same intercepts
    bound: float = np.inf
    warning: str = ""  # why the last step is not as precise as it should be; a clause or empty


class Problem(Protocol):
    """A convex problem that knows its Newton step.

    A point has an `objective`, and the `rounding` of a difference of two objectives.
    """

    def at(self, coef: Array, intercept: Array) -> Any:
        """Evaluate coefficients and intercepts."""
        ...

    def step(self, point: Any, state: State | None) -> Any:
        """The point after a step, or the given one; the state is that of the point, if known."""
        ...

    def state(self, point: Any, stalled: bool) -> State:
        """The state of a point; `stalled` if the last step did not lower the objective."""
        ...


def minimise(problem: Problem, start: Start, max_iter: int) -> Iterator[State]:
    """Yield the state after every step, until it has converged or steps no longer help."""
    point, state, idle = problem.at(*start), None, 0
    for _ in range(max_iter):
        new = problem.step(point, state)
        idle = 0 if new.objective < point.objective - point.rounding else idle + 1
        point = new
        state = problem.state(point, stalled=idle > 0)
        yield state
        if state.converged or idle >= _IDLE_STEPS:
            return


def is_small(
    error: float, terms: float, tol: float, rounding: float = 0.0, parts: float | None = None
) -> bool:
    """Whether an error is at most `tol` times its terms, or explained by rounding.

    Rounding explains at most a hundred tolerances, relative to the parts that add up to the terms:
    farther from the minimum, the answer is wrong even if no arithmetic gives a better one.
    """
    parts = terms if parts is None else parts
    return bool(error <= tol * terms + min(rounding, _EXCUSED * tol * parts))


def solve_in_turn(
    solvers: Sequence[tuple[int, Callable[[Start], Iterator[State]]]], start: Start
) -> Iterator[State]:
    """Run solvers of separate outputs one after another; yield the state of all after each step.

    A solver comes with its number of outputs.
    """
    coef, intercept = start[0].copy(), start[1].copy()
    states: list[State | None] = [None] * len(solvers)
    first = 0
    for i, (outputs, solve) in enumerate(solvers):
        mine = slice(first, first + outputs)
        first = mine.stop
        for state in solve((coef[:, mine], intercept[mine])):
            states[i] = state
            coef[:, mine], intercept[mine] = state.coef, state.intercept
            yield _merge(coef.copy(), intercept.copy(), states)


def _merge(coef: Array, intercept: Array, states: list[State | None]) -> State:
    """One state of all outputs: losses and errors add up, and all outputs have to converge."""
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return State(coef, intercept, np.inf, np.inf, False)
    return State(
        coef,
        intercept,
        sum(state.loss for state in known),
        sum(state.error for state in known),
        all(state.converged for state in known),
        max(state.residual for state in known),
        sum(state.bound for state in known),
        next((state.warning for state in known if state.warning and not state.converged), ""),
    )
