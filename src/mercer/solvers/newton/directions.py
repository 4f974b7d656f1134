"""Directions of Newton's method for the functions of a span: exact ones, and by iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import conjugate_gradient
from mercer.solvers.newton.quadratic import Quadratic
from mercer.solvers.newton.span import Point, Problem
from mercer.solvers.newton.span_sums import Mass

Array = NDArray[np.floating[Any]]

# What the equations of a step are solved to at least, relative to the gradient.
_FORCING = 0.1
# A preconditioner has at least so many rows for each coordinate; while the square of their number
# is small, more, as they then cost no more than some iterations.
_ROWS_FOR_EACH = 2
_COORDINATES_FOR_A_ROW = 100
# The most unknowns of which all outputs are tied in it.
_TIED = 4000


@dataclass(frozen=True)
class Exactly:
    """Newton's direction from the second derivative of the loss of all rows."""

    @property
    def curved(self) -> bool:
        """True: it is."""
        return True

    def __call__(self, problem: Problem, point: Point) -> tuple[Array, Array]:
        """Changes of coordinates and constants."""
        squares = problem.squares(point)
        system = Quadratic(squares, problem.loss.directions, problem.alpha, problem.fit_intercept)
        coordinates, intercept = system.solve(point.gradient, point.probed.push)
        return -coordinates, -intercept


@dataclass(frozen=True)
class ByIterations:
    """Newton's direction by conjugate gradients, to a tolerance that falls with the gradient."""

    tol: float  # the least relative residual that is asked for
    max_iter: int  # the largest number of iterations for a step

    @property
    def curved(self) -> bool:
        """False: it takes too long."""
        return False

    def __call__(self, problem: Problem, point: Point) -> tuple[Array, Array]:
        """Changes of coordinates and constants."""
        system = _System(problem, point)
        left = float(np.linalg.norm(point.gradient)) / (problem.terms(point) or 1.0)
        found = conjugate_gradient.solve(
            system.multiply,
            system.right,
            0.0,
            precondition=system.precondition,
            tol=max(self.tol, min(_FORCING, left)),
            max_iter=self.max_iter,
        )
        coordinates, intercept = system.split(found.solution)
        if not problem.loss.directions.sum(axis=1).any():
            # A softmax does not see a constant added to all outputs; a loosened inverse adds one.
            intercept = intercept - intercept.mean()
        return coordinates, intercept


class _System:
    """Newton's equations as one column of unknowns, coordinates before constants."""

    def __init__(self, problem: Problem, point: Point) -> None:
        self.problem, self.point = problem, point
        self.shape = (point.coordinates.shape[0] + 1, point.coordinates.shape[1])
        push = point.probed.push if problem.fit_intercept else np.zeros(self.shape[1])
        self.right = -self.join(point.gradient, push)
        self.inverses = self._inverses()

    def _inverses(self) -> list[Quadratic]:
        """The second derivative on a sample, of all outputs together or of each alone."""
        problem, loss = self.problem, self.problem.loss
        m, k = self.shape[0] - 1, self.shape[1]
        if m * k > _TIED:
            loss = loss.loosened()
        most = len(problem.rows) // max(1, _ROWS_FOR_EACH * m)
        stride, share = max(problem.stride, min(m // _COORDINATES_FOR_A_ROW, most)), 1.0
        if stride > problem.stride:
            few, all_of_them = (
                problem.rows.map_sum(Mass(problem.span, step))[0]
                for step in (stride, problem.stride)
            )
            share = few / all_of_them
        squares = problem.squares(self.point, loss, stride) / share
        settings = problem.alpha, problem.fit_intercept
        if np.array_equal(loss.directions, np.eye(k)):
            return [Quadratic(square[None], np.ones((1, 1)), *settings) for square in squares]
        return [Quadratic(squares, loss.directions, *settings)]

    def multiply(self, columns: Array) -> Array:
        """The second derivative of the objective times a direction."""
        coordinates, intercept = self.split(columns)
        pulled, pushed = self.problem.bent(self.point, coordinates, intercept)
        return self.join(pulled, pushed if self.problem.fit_intercept else intercept)

    def precondition(self, columns: Array, shifts: Array) -> Array:
        """About the inverse of that."""
        coordinates, intercept = self.split(columns)
        if len(self.inverses) == 1:
            return self.join(*self.inverses[0].solve(coordinates, intercept))
        solved = [
            inverse.solve(coordinates[:, [i]], intercept[[i]])
            for i, inverse in enumerate(self.inverses)
        ]
        return self.join(
            np.hstack([part for part, _ in solved]), np.concatenate([part for _, part in solved])
        )

    def join(self, coordinates: Array, intercept: Array) -> Array:
        """One column of them all."""
        return np.vstack([coordinates, intercept]).reshape(-1, 1)

    def split(self, column: Array) -> tuple[Array, Array]:
        """The other way."""
        both = column.reshape(self.shape)
        return both[:-1], both[-1]
