"""The loop of Newton's method on functions with known minima, and its rule for convergence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.solvers.newton.method import Start, State, is_small, minimise, solve_in_turn

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Point:
    coef: Array
    objective: float
    rounding: float = 1e-14


@dataclass(frozen=True)
class Cosh:
    """The sum of cosh(c - minimum), whose Newton step is -tanh."""

    minimum: float
    frozen: bool = False  # whether steps lead nowhere

    def at(self, coef: Array, intercept: Array) -> Point:
        return Point(coef, float(np.cosh(coef - self.minimum).sum()))

    def step(self, point: Point, state: State | None) -> Point:
        if self.frozen:
            return point
        return self.at(point.coef - np.tanh(point.coef - self.minimum), np.zeros(1))

    def state(self, point: Point, stalled: bool) -> State:
        error = float(np.abs(np.sinh(point.coef - self.minimum)).max())
        small = is_small(error, 1.0, 1e-10)
        return State(point.coef, np.zeros(1), point.objective, error, small)


START = np.zeros((2, 1)), np.zeros(1)


def test_steps_end_at_the_minimum_at_the_limit_or_where_they_stall() -> None:
    states = list(minimise(Cosh(1.5), START, 50))
    assert [state.converged for state in states] == [False] * (len(states) - 1) + [True]
    np.testing.assert_allclose(states[-1].coef, 1.5, atol=1e-10)
    assert len(list(minimise(Cosh(1.5), START, 2))) == 2
    assert len(list(minimise(Cosh(1.5, frozen=True), START, 50))) == 3


def test_rounding_excuses_a_hundred_tolerances_at_most() -> None:
    assert is_small(1e-6, 1.0, 1e-6)
    assert not is_small(2e-6, 1.0, 1e-6)
    assert is_small(2e-6, 1.0, 1e-6, rounding=1e-6)
    assert not is_small(2e-4, 1.0, 1e-6, rounding=1.0)
    assert is_small(2e-4, 1.0, 1e-6, rounding=1.0, parts=2.0)


def test_outputs_are_solved_in_turn() -> None:
    def solver(minimum: float) -> Any:
        def solve(start: Start) -> Iterator[State]:
            return minimise(Cosh(minimum), start, 50)

        return solve

    minima = (0.5, -1.0)
    *others, last = solve_in_turn(
        [(1, solver(minimum)) for minimum in minima], (np.zeros((2, 2)), np.zeros(2))
    )
    np.testing.assert_allclose(last.coef, [minima, minima], atol=1e-10)
    assert last.converged
    assert last.loss == pytest.approx(4.0)  # two outputs of two coefficients, cosh(0) = 1
    assert others[0].loss == np.inf  # the second output has no state yet
