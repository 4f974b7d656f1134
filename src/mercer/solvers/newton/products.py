r"""Steps of Newton's method by products with a matrix that is not stored.

With W = A A' and Pi the projection onto what the intercepts leave, Newton's equations are

.. math:: (I + \tilde W G)\, dT = -\tilde R, \qquad \tilde W = A\, \Pi\, A^\top
   = W - W 1 (1^\top W 1)^+ 1^\top W, \qquad \tilde R = R - W 1 (1^\top W 1)^+ 1^\top D,

D = R - T being the derivative of the loss. So dT = -R~ + A z, where z solves B z = Pi A' G R~ with

.. math:: B = I + \Pi\, A^\top G\, A\, \Pi

by conjugate gradients: each iteration is a product with G, of as many columns as there are outputs.
For a loss of single values A = W^1/2; rows without curvature take no part. The preconditioner is
the same with a low-rank factor F F' in place of G (Woodbury): n r^2 operations for each step.

A residual r of these equations makes an error of the step that is at most |r| in the norm of the
second derivative, G + G W~ G, in which the step itself has the length
(R~' G R~ - z' Pi A' G R~)^1/2. The iterations end when the one is a given share of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from mercer.exceptions import ValidityError
from mercer.linalg import conjugate_gradient
from mercer.solvers.newton.curvature import factorised
from mercer.solvers.newton.steps import Equations, Step

Array = NDArray[np.floating[Any]]

# What the equations of a step are solved to at least, relative to the step.
_FORCING = 0.1
# Negative directions up to this many units of rounding of the trace may be rounding.
_INVALID = 1000
# The most columns of a preconditioner: those of the factor, for each output.
_COLUMNS = 3000
# Rows of the factor that are weighed at a time.
_PANEL = 2048
_EPS = float(np.finfo(np.float64).eps)
_LEVERS = "max_iter or rank of the solver, or alpha"


@dataclass(frozen=True, eq=False)
class Products:
    """A symmetric positive semi-definite matrix that is multiplied with, and not stored."""

    multiply: Callable[[Array], Array]  # ``multiply(V)`` returns K @ V for V of shape (n, r)
    values: Array  # (n,): the diagonal of K
    eps: float  # the rounding of the products
    means: Array | None = None  # (n,): the means of the columns of K, if it is to be centred
    # (n, rank): F with F F' close to the matrix, its scale left out, for the preconditioner
    factor: Array | None = None
    left_out: float | None = None  # the share of the trace of K that the factor leaves out
    tol: float = 1e-6  # the least relative error of a step that is asked for
    max_iter: int = 1000  # the most products for a step
    scale: float = 1.0  # what the matrix is multiplied with

    def __len__(self) -> int:
        return len(self.values)

    def __mul__(self, number: float) -> Products:
        return replace(self, scale=self.scale * number)

    def __truediv__(self, number: float) -> Products:
        return replace(self, scale=self.scale / number)

    def __matmul__(self, columns: Array) -> Array:
        if self.scale == 0:
            return np.zeros_like(columns)
        centred = self.means is not None
        columns = columns - columns.mean(axis=0) if centred else columns
        found: Array = np.asarray(self.multiply(columns), np.float64)
        found = found - found.mean(axis=0) if centred else found
        return self.scale * found

    def diagonal(self) -> Array:
        """The diagonal."""
        if self.means is None:
            return self.scale * self.values
        return np.asarray(self.scale * (self.values - 2 * self.means + self.means.mean()))

    @property
    def least_tolerance(self) -> float:
        """The least relative gradient that products can tell from zero."""
        return conjugate_gradient.ROUNDING * self.eps

    def solve(self, equations: Equations) -> Step:
        """A step to a share of its length that falls with the gradient."""
        system = _System(self, equations)
        inverse = None if self.factor is None or self.scale == 0 else _Inverse(system, self.factor)
        share = max(self.tol, min(_FORCING, equations.left))
        found = conjugate_gradient.solve(
            system.multiply,
            system.right,
            1.0,
            precondition=inverse,
            tol=self.least_tolerance,
            max_iter=self.max_iter,
            report=lambda progress: system.error(progress) <= share,
        )
        step = system.step(found.solution)
        if system.error(found) <= conjugate_gradient.SLACK * share:
            return step
        return replace(step, doubt=conjugate_gradient.convergence_warning(found, _LEVERS))


class _System:
    """The equations of a step as one column of unknowns, outputs beside one another."""

    def __init__(self, matrix: Products, equations: Equations) -> None:
        self.matrix, self.shape = matrix, equations.gradient.shape
        self.curvature, self.sums = equations.curvature, equations.sums
        self.borders = self._borders()
        self.gradient = equations.gradient
        if self.sums is not None:
            self.slopes = self.gradient.sum(axis=0) - self.sums
            self.gradient = self.gradient - self._weighed(self.borders @ self.slopes)
        pulled = matrix @ self.gradient
        self.length = float(np.sum(self.gradient * pulled))
        self.right = self.inward(pulled)
        self.size = float(np.linalg.norm(self.right))
        diagonal = matrix.diagonal()
        k = self.shape[1]
        self.trace = sum(float(self.curvature.between(c, c) @ diagonal) for c in range(k))

    def _borders(self) -> Array:
        """(1'W1)^+, zero without intercepts; a softmax does not see a constant of all outputs."""
        k = self.shape[1]
        if self.sums is None:
            return np.zeros((k, k))
        total = np.array([[self.curvature.between(c, d).sum() for d in range(k)] for c in range(k)])
        largest = float(np.abs(total).max())
        if not largest > np.finfo(np.float64).tiny:
            return np.zeros((k, k))
        # Near probabilities of 0 and 1 rounding is large beside it, and would see that constant.
        seen = np.eye(k) - (k > 1) / k
        inner = seen @ (total / largest) @ seen
        found: Array = seen @ np.linalg.pinv(inner, rcond=1e-12, hermitian=True) @ seen
        return found / largest

    def _weighed(self, constants: Array) -> Array:
        """W 1 c'."""
        columns = np.broadcast_to(constants, self.shape)
        return self.curvature.half(self.curvature.half_turned(columns))

    def inward(self, values: Array) -> Array:
        """Pi A' v as a column."""
        return self._projected(self.curvature.half_turned(values)).reshape(-1, 1)

    def outward(self, column: Array) -> Array:
        """A Pi u of a column."""
        return self.curvature.half(self._projected(column.reshape(self.shape)))

    def _projected(self, columns: Array) -> Array:
        if self.sums is None:
            return columns
        constants = self.borders @ self.curvature.half(columns).sum(axis=0)
        return columns - self.curvature.half_turned(np.broadcast_to(constants, self.shape))

    def multiply(self, columns: Array) -> Array:
        """Pi A' G A Pi u, of a single column."""
        turned = self.outward(columns)
        image = self.matrix @ turned
        value, most = float(np.sum(turned * image)), self.trace * float(np.sum(columns**2))
        if value < -_INVALID * self.matrix.eps * most:
            raise ValidityError(
                "the Gram matrix is not positive semi-definite: products with it lead to a "
                "negative squared norm; use a kernel whose is_psd is True."
            )
        return self.inward(image)

    def error(self, progress: conjugate_gradient.Progress) -> float:
        """At most the error of a step, relative to its length."""
        residual = float(progress.residuals[0]) * self.size
        square = self.length - float(np.sum(progress.solution * self.right))
        if residual == 0:
            return 0.0
        return residual / float(np.sqrt(square)) if square > 0 else np.inf

    def step(self, solution: Array) -> Step:
        """Changes of coefficients and constants."""
        scaled = self.outward(solution) - self.gradient
        spread = self.matrix @ scaled
        constants = np.zeros(self.shape[1])
        if self.sums is not None:
            bent = self.curvature.half(self.curvature.half_turned(spread)).sum(axis=0)
            constants = -self.borders @ (self.slopes + bent)
        return Step(scaled, constants, spread)


class _Inverse:
    """The inverse of I + Pi A' (F F') A Pi."""

    def __init__(self, system: _System, factor: Array) -> None:
        self.system = system
        # The first columns are those that explain most.
        self.factor = factor[:, : max(1, _COLUMNS // system.shape[1])]
        square = self._square()
        # Less than this on the diagonal would be lost in rounding.
        noise = 16 * len(square) * _EPS * float(np.linalg.norm(square))
        square.flat[:: len(square) + 1] += max(1.0, noise)
        self.cholesky = factorised(square)

    def _square(self) -> Array:
        """F' A Pi A' F, with a block for each two outputs."""
        system, (rank, k) = self.system, (self.factor.shape[1], self.system.shape[1])
        square, edges = np.empty((k, rank, k, rank)), np.empty((k, rank, k))
        for c in range(k):
            for d in range(c + 1):
                weights = system.curvature.between(c, d)
                # Those of two outputs are negative, as in every softmax.
                block = self._weighed_square(np.abs(weights)) * (1 if c == d else -1)
                square[c, :, d] = square[d, :, c] = block
                edges[c, :, d] = edges[d, :, c] = self.factor.T @ weights
        found = square.reshape(k * rank, k * rank)
        edge = edges.reshape(k * rank, k)
        found -= edge @ system.borders @ edge.T
        found *= system.matrix.scale
        return found

    def _weighed_square(self, weights: Array) -> Array:
        rank = self.factor.shape[1]
        found = np.zeros((rank, rank))
        for first in range(0, len(weights), _PANEL):  # so that an interrupt is felt
            rows = slice(first, first + _PANEL)
            part = np.sqrt(weights[rows, None]) * self.factor[rows]
            found += part.T @ part  # of which NumPy computes one triangle
        return found

    def __call__(self, columns: Array, shifts: Array) -> Array:
        """About the inverse times a column."""
        k = self.system.shape[1]
        inside = (self.factor.T @ self.system.outward(columns)).T.reshape(-1)
        solved = cho_solve(self.cholesky, inside, check_finite=False).reshape(k, -1).T
        return columns - self.system.matrix.scale * self.system.inward(self.factor @ solved)
