"""Newton's method: its loop, the state after a step, and the rule for convergence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array

Start = tuple[Array, Array]  # coefficients (m, k) and intercepts (k,)

# Number of successive steps without a decrease of the objective before the method stops.
_IDLE_STEPS = 3
# Largest error that is accepted as rounding error, in tolerances.
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
    warning: str = ""  # why the last step is imprecise, as a clause; empty if it is precise


class Problem(Protocol):
    """A convex problem with its Newton step.

    A point has an `objective`, and the `rounding` error of a difference of two objectives.
    """

    def at(self, coef: Array, intercept: Array) -> Any:
        """Evaluate coefficients and intercepts."""
        ...

    def step(self, point: Any, state: State | None) -> Any:
        """Take one step from a point, whose state is known after the first step."""
        ...

    def state(self, point: Any, stalled: bool) -> State:
        """The state of a point; `stalled` if the last step did not lower the objective."""
        ...


def minimise(problem: Problem, start: Start, max_iter: int) -> Iterator[State]:
    """Yield the state after every step, until convergence or until the steps stall."""
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

    Rounding excuses an error of at most `_EXCUSED` tolerances, relative to the sum of `parts`.
    """
    parts = terms if parts is None else parts
    return bool(error <= tol * terms + min(rounding, _EXCUSED * tol * parts))


def solve_in_turn(
    solvers: Sequence[tuple[int, Callable[[Start], Iterator[State]]]], start: Start
) -> Iterator[State]:
    """Run pairs (number of outputs, solver) in turn; yield the state of all after each step."""
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
    """Combine states: losses and errors are summed, and all outputs have to converge."""
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
