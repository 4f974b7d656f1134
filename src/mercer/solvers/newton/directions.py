"""Newton directions for the functions of a span: from the Hessian, or by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve

from mercer.arrays import Array
from mercer.linalg import conjugate_gradient
from mercer.solvers.newton.curvature import factorised
from mercer.solvers.newton.method import Start
from mercer.solvers.newton.span import Point, Problem

# Largest relative residual of Newton's equations (the forcing term of inexact Newton methods).
_FORCING = 0.1
# Smallest number of rows per coordinate in the sample of a preconditioner.
_ROWS_PER_COORDINATE = 2
# The stride of that sample is at most m / 100: with few coordinates m the Hessian is cheap.
_COORDINATES_PER_STRIDE = 100
# Largest number of unknowns up to which the preconditioner couples the outputs.
_COUPLED = 4000


@dataclass(frozen=True)
class DirectNewton:
    """The Newton direction from the Hessian of all rows."""

    needs_hessian: ClassVar[bool] = True

    def __call__(self, problem: Problem, point: Point) -> Start:
        """Changes of coordinates and intercepts."""
        hessians, factors = problem.hessians(point), problem.loss.hessian_factors
        system = HessianFactor(hessians, factors, problem.alpha, problem.fit_intercept)
        coordinates, intercept = system.solve(point.gradient, point.sums.grad_intercept)
        return -coordinates, -intercept


@dataclass(frozen=True)
class InexactNewton:
    """The Newton direction by conjugate gradients; the tolerance decreases with the gradient."""

    tol: float  # smallest tolerance of the relative residual
    max_iter: int  # largest number of iterations per step

    needs_hessian: ClassVar[bool] = False  # products with the Hessian are enough

    def __call__(self, problem: Problem, point: Point) -> Start:
        """Changes of coordinates and intercepts."""
        system = _System(problem, point)
        residual = float(np.linalg.norm(point.gradient)) / (problem.gradient_terms(point) or 1.0)
        progress = conjugate_gradient.solve(
            system.multiply,
            system.right,
            0.0,
            precondition=system.precondition,
            tol=max(self.tol, min(_FORCING, residual)),
            max_iter=self.max_iter,
        )
        coordinates, intercept = system.split(progress.solution)
        if _ignores_constants(problem.loss.hessian_factors):
            # Remove a constant that a block-diagonal preconditioner may have added to all outputs.
            intercept = intercept - intercept.mean()
        return coordinates, intercept


class HessianFactor:
    """The Hessian of the objective in coordinates and intercepts, factorised."""

    def __init__(self, hessians: Array, factors: Array, alpha: float, fit_intercept: bool) -> None:
        self.fit_intercept = fit_intercept
        self.centred = _ignores_constants(factors)
        m, k = hessians.shape[1] - 1, factors.shape[1]
        blocks = np.zeros((k, m, k, m))
        border, corner = np.zeros((k, m, k)), np.zeros((k, k))
        for hessian, factor in zip(hessians, factors, strict=True):
            used = np.flatnonzero(factor)
            for a, b in ((a, b) for a in used for b in used):
                sign = factor[a] * factor[b]
                blocks[a, :, b] += sign * hessian[:m, :m]
                border[a, :, b] += sign * hessian[:m, m]
                corner[a, b] += sign * hessian[m, m]
        matrix = blocks.reshape(k * m, k * m)
        matrix.flat[:: k * m + 1] += alpha
        self.cholesky = factorised(matrix) if m else None
        self.border = border.reshape(k * m, k)
        self.solved_border = self._inverse(self.border)
        self.schur = corner - self.border.T @ self.solved_border

    def solve(self, coordinates: Array, intercept: Array) -> Start:
        """Solve H d = (coordinates, intercept) for the direction d."""
        m, k = coordinates.shape
        solved = self._inverse(coordinates.T.reshape(-1))
        shift: Array = np.zeros(k)
        if self.fit_intercept:
            target = intercept - self.border.T @ solved
            shift = np.linalg.lstsq(self.schur, target, rcond=1e-12)[0]
            shift -= self.centred * shift.mean()
            solved = solved - self.solved_border @ shift
        return solved.reshape(k, m).T, shift

    def _inverse(self, columns: Array) -> Array:
        if self.cholesky is None:
            return columns.copy()
        return np.asarray(cho_solve(self.cholesky, columns, check_finite=False))


class _System:
    """Newton's equations for one column of unknowns: the coordinates, then the intercepts."""

    def __init__(self, problem: Problem, point: Point) -> None:
        self.problem, self.point = problem, point
        self.shape = (point.coordinates.shape[0] + 1, point.coordinates.shape[1])
        intercept = point.sums.grad_intercept if problem.fit_intercept else np.zeros(self.shape[1])
        self.right = -self.join(point.gradient, intercept)
        self.inverses = self._inverses()

    def _inverses(self) -> list[HessianFactor]:
        """Factorised Hessians of a sample of rows: one for all outputs, or one for each output."""
        problem, loss = self.problem, self.problem.loss
        m, k = self.shape[0] - 1, self.shape[1]
        if m * k > _COUPLED:
            loss = loss.block_diagonal()
        most = len(problem.rows) // max(1, _ROWS_PER_COORDINATE * m)
        stride = max(problem.stride, min(m // _COORDINATES_PER_STRIDE, most))
        share = problem.share(stride) if stride > problem.stride else 1.0
        hessians = problem.hessians(self.point, loss, stride) / share
        settings = problem.alpha, problem.fit_intercept
        if np.array_equal(loss.hessian_factors, np.eye(k)):
            return [HessianFactor(each[None], np.ones((1, 1)), *settings) for each in hessians]
        return [HessianFactor(hessians, loss.hessian_factors, *settings)]

    def multiply(self, columns: Array) -> Array:
        """The Hessian of the objective times a column."""
        coordinates, intercept = self.split(columns)
        coef, constants = self.problem.hessian_product(self.point, coordinates, intercept)
        return self.join(coef, constants if self.problem.fit_intercept else intercept)

    def precondition(self, columns: Array, shifts: Array) -> Array:
        """The inverse of the Hessian of the sample, times a column."""
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
        """Coordinates and intercepts as one column."""
        return np.vstack([coordinates, intercept]).reshape(-1, 1)

    def split(self, column: Array) -> Start:
        """Coordinates and intercepts of a column."""
        both = column.reshape(self.shape)
        return both[:-1], both[-1]


def _ignores_constants(factors: Array) -> bool:
    """Whether a loss does not change if a constant is added to all outputs, as for a softmax."""
    return not factors.sum(axis=1).any()
