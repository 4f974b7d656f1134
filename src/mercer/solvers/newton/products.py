r"""Newton's equations for a matrix that is not stored, solved by products with it.

With W = A A' and Pi the projection that eliminates the intercepts, Newton's equations are

.. math:: (I + \tilde W G)\, dT = -\tilde R, \qquad \tilde W = A\, \Pi\, A^\top
   = W - W 1 (1^\top W 1)^+ 1^\top W, \qquad \tilde R = R - W 1 (1^\top W 1)^+ 1^\top D,

D = R - T being the derivative of the loss. So dT = -R~ + A z, where z solves B z = Pi A' G R~ with

.. math:: B = I + \Pi\, A^\top G\, A\, \Pi

by conjugate gradients: each iteration is a product of G with one column per output. For a loss of
one output A = W^1/2, and rows of curvature 0 drop out. The preconditioner is B with a low-rank
factor F F' in place of G (Woodbury), which takes n r^2 operations per step. For k outputs it also
has the mean of the rows in place of A'A: in the eigenvectors of this k x k matrix and of F F' it is
diagonal, so that a step with many classes takes no factor.

A residual r of these equations changes the step by at most |r| in the norm of the Hessian
G + G W~ G, in which the step itself has the length (R~' G R~ - z' Pi A' G R~)^1/2. The iterations
end when |r| is at most `_FORCING` times that length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve

from mercer.arrays import EPS, Array
from mercer.exceptions import ValidityError
from mercer.linalg import conjugate_gradient
from mercer.linalg.blocked import multiply
from mercer.linalg.low_rank import LowRankInverse, LowRankMatrix
from mercer.linalg.pivoted_cholesky import pivoted_cholesky
from mercer.parallel import cached_property
from mercer.sampling import blocks
from mercer.solvers.newton.curvature import SoftmaxHessian, factorised
from mercer.solvers.newton.dense import Equations, Step

# Largest error of a step, relative to its length.
_FORCING = 0.1
# Largest share of the trace that a low-rank factor may leave out to take the place of the matrix.
_NEAR = 0.15
# Negative curvature counts as rounding error up to this many rounding units of the trace.
_INVALID = 1000
# Largest rank of a preconditioner whose factor is computed in every step.
_COLUMNS = 3000
#: Largest rank of a preconditioner of all outputs together; beyond it, that of their mean.
JOINT_COLUMNS = 1500
# Smallest rank of the preconditioner of a stored matrix that has as many rows.
_SMALL = 1000
# Rank of the preconditioner of a large stored matrix, divided by the root of n.
_RANK = 10
# Number of rows of the factor that are weighted at a time.
_PANEL = 2048
# Parameters to raise if the iterations do not converge, for messages.
_REMEDIES = "max_iter or rank of the solver, or alpha"


@dataclass(frozen=True, eq=False)
class Products:
    """A symmetric positive semi-definite matrix K, available only through products."""

    multiply: Callable[[Array], Array]  # ``multiply(V)`` is K @ V, for V of shape (n, r)
    values: Array  # (n,): the diagonal of K
    eps: float  # unit of rounding of the products
    means: Array | None = None  # (n,): the means of the columns of K, if it is to be centred
    # (n, rank): F with F F' close to K, centred as the matrix is, for the preconditioner
    factor: Array | None = None
    residual_trace: float | None = None  # share of the trace of K that the factor does not explain
    tol: float = 1e-6  # smallest requested relative error of a step
    max_iter: int = 1000  # largest number of products per step
    scale: float = 1.0  # factor of the matrix
    stored: bool = False  # whether the matrix is in memory

    @classmethod
    def of_array(cls, gram: Array) -> Products:
        """A matrix in memory, which is centred already where that is wanted."""
        rank = max(_SMALL, int(_RANK * np.sqrt(len(gram))))
        diagonal = np.maximum(gram.diagonal(), 0.0)
        factor = pivoted_cholesky(lambda some: gram[:, some], diagonal, rank, rng=0).factor
        return cls(gram.__matmul__, diagonal, EPS, factor=factor, stored=True)

    @classmethod
    def of_factor(cls, matrix: LowRankMatrix) -> Products:
        """A matrix of low rank: its factor makes an exact preconditioner."""
        products = matrix.__matmul__
        return cls(products, matrix.diagonal(), EPS, factor=matrix.factor, stored=True)

    @property
    def low_rank(self) -> Products | None:
        """F F' in place of a matrix that is not stored, if it explains most of it."""
        if self.factor is None or self.residual_trace is None or self.residual_trace > _NEAR:
            return None
        near = LowRankMatrix(self.factor)
        diagonal = near.diagonal()
        return replace(self, multiply=near.__matmul__, values=diagonal, eps=EPS, means=None)

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
        product: Array = np.asarray(self.multiply(columns), np.float64)
        product = product - product.mean(axis=0) if centred else product
        return self.scale * product

    def diagonal(self) -> Array:
        """The diagonal."""
        if self.means is None:
            return self.scale * self.values
        return np.asarray(self.scale * (self.values - 2 * self.means + self.means.mean()))

    @property
    def least_tolerance(self) -> float:
        """The smallest relative gradient that products can tell from zero."""
        return conjugate_gradient.ROUNDING * self.eps

    @cached_property
    def _inverse(self) -> LowRankInverse:
        """The inverse of F F' + shift I, for all Newton steps."""
        assert self.factor is not None
        return LowRankInverse.of(self.factor)

    def solve(self, equations: Equations) -> Step:
        """Solve to a relative error that falls with the gradient."""
        system = _System(self, equations)
        inverse: _Preconditioner | _JointPreconditioner | None = None
        if self.factor is not None and self.scale != 0:
            hessian, columns = equations.hessian, self.factor.shape[1] * system.shape[1]
            if isinstance(hessian, SoftmaxHessian) and columns > JOINT_COLUMNS:
                inverse = _JointPreconditioner(system, hessian, self._inverse)
            else:
                inverse = _Preconditioner(system, self.factor)
        tolerance = max(self.tol, min(_FORCING, equations.precision))
        progress = conjugate_gradient.solve(
            system.multiply,
            system.right,
            1.0,
            precondition=inverse,
            tol=self.least_tolerance,
            max_iter=self.max_iter,
            report=lambda progress: system.error(progress) <= tolerance,
        )
        step = system.step(progress.solution)
        if system.error(progress) <= conjugate_gradient.SLACK * tolerance:
            return step
        return replace(step, warning=conjugate_gradient.convergence_warning(progress, _REMEDIES))


class _System:
    """Newton's equations as one column of unknowns, row by row."""

    def __init__(self, matrix: Products, equations: Equations) -> None:
        self.matrix, self.shape = matrix, equations.gradient.shape
        self.hessian, self.sums = equations.hessian, equations.sums
        self.borders = self._borders()
        self.gradient = equations.gradient
        if self.sums is not None:
            self.grad_intercept = self.gradient.sum(axis=0) - self.sums
            constants = np.broadcast_to(self.borders @ self.grad_intercept, self.shape)
            self.gradient = self.gradient - self.hessian.product(constants)
        gram_gradient = matrix @ self.gradient
        self.square = float(np.sum(self.gradient * gram_gradient))
        self.right = self.apply_root_transposed(gram_gradient)
        self.size = float(np.linalg.norm(self.right))
        self.trace = float(np.trace(self.hessian.summed(matrix.diagonal())))

    def _borders(self) -> Array:
        """(1'W1)^+, zero without intercepts; a softmax ignores a constant added to all outputs."""
        k = self.shape[1]
        if self.sums is None:
            return np.zeros((k, k))
        total = self.hessian.summed(np.ones(self.shape[0]))
        largest = float(np.abs(total).max())
        if not largest > np.finfo(np.float64).tiny:
            return np.zeros((k, k))
        # At probabilities near 0 and 1 rounding errors would otherwise add such a constant.
        centre = np.eye(k) - (k > 1) / k
        inner = centre @ (total / largest) @ centre
        inverse: Array = centre @ np.linalg.pinv(inner, rcond=1e-12, hermitian=True) @ centre
        return inverse / largest

    def apply_root(self, column: Array) -> Array:
        """A Pi u of a column."""
        return self.hessian.root(self._project(column.reshape(self.shape)))

    def apply_root_transposed(self, values: Array) -> Array:
        """Pi A' v as a column."""
        return self._project(self.hessian.root_transposed(values)).reshape(-1, 1)

    def _project(self, columns: Array) -> Array:
        if self.sums is None:
            return columns
        constants = self.borders @ self.hessian.root(columns).sum(axis=0)
        return columns - self.hessian.root_transposed(np.broadcast_to(constants, self.shape))

    def multiply(self, columns: Array) -> Array:
        """Pi A' G A Pi u, of a single column."""
        coef = self.apply_root(columns)
        values = self.matrix @ coef
        square, largest = float(np.sum(coef * values)), self.trace * float(np.sum(columns**2))
        if square < -_INVALID * self.matrix.eps * largest:
            raise ValidityError(
                "the Gram matrix is not positive semi-definite: products with it lead to a "
                "negative squared norm; use a kernel whose is_psd is True."
            )
        return self.apply_root_transposed(values)

    def error(self, progress: conjugate_gradient.Progress) -> float:
        """A bound of the error of a step, relative to its length."""
        residual = float(progress.residuals[0]) * self.size
        square = self.square - float(np.sum(progress.solution * self.right))
        if residual == 0:
            return 0.0
        return residual / float(np.sqrt(square)) if square > 0 else np.inf

    def step(self, solution: Array) -> Step:
        """The Newton step dT = -R~ + A z, and its intercepts."""
        coef = self.apply_root(solution) - self.gradient
        gram_coef = self.matrix @ coef
        intercept = np.zeros(self.shape[1])
        if self.sums is not None:
            change = self.hessian.product(gram_coef).sum(axis=0)
            intercept = -self.borders @ (self.grad_intercept + change)
        return Step(coef, intercept, gram_coef)


class _Preconditioner:
    """The inverse of I + Pi A' (F F') A Pi."""

    def __init__(self, system: _System, factor: Array) -> None:
        # The first columns explain most of the trace.
        self.system, self.factor = system, factor[:, :_COLUMNS]
        square = self._square()
        # A smaller addition to the diagonal would be lost in rounding.
        noise = 16 * len(square) * EPS * float(np.linalg.norm(square))
        square.flat[:: len(square) + 1] += max(1.0, noise)
        self.cholesky = factorised(square)

    def _square(self) -> Array:
        """F' A Pi A' F, with a block for each pair of outputs."""
        system, (rank, k) = self.system, (self.factor.shape[1], self.system.shape[1])
        square, edges = np.empty((k, rank, k, rank)), np.empty((k, rank, k))
        for c in range(k):
            for d in range(c + 1):
                weights = system.hessian.block(c, d)
                # The weights of two different outputs are negative, as in every softmax.
                block = self._weighted_square(np.abs(weights)) * (1 if c == d else -1)
                square[c, :, d] = square[d, :, c] = block
                edges[c, :, d] = edges[d, :, c] = self.factor.T @ weights
        matrix = square.reshape(k * rank, k * rank)
        edge = edges.reshape(k * rank, k)
        matrix -= edge @ system.borders @ edge.T
        matrix *= system.matrix.scale
        return matrix

    def _weighted_square(self, weights: Array) -> Array:
        """F' diag(w) F, computed in panels so that Ctrl-C takes effect between them."""
        rank = self.factor.shape[1]
        square = np.zeros((rank, rank))
        for rows in blocks(len(weights), step=_PANEL):
            panel = np.sqrt(weights[rows, None]) * self.factor[rows]
            multiply(panel.T, panel, square, beta=1.0)
        return square

    def __call__(self, columns: Array, shifts: Array) -> Array:
        """The inverse times a column."""
        k = self.system.shape[1]
        inside = multiply(self.factor.T, self.system.apply_root(columns)).T.reshape(-1)
        solved = cho_solve(self.cholesky, inside, check_finite=False).reshape(k, -1).T
        return columns - self.system.matrix.scale * self.system.apply_root_transposed(
            multiply(self.factor, solved)
        )


class _JointPreconditioner:
    """The inverse of I + S (x) F F' for several outputs, S being the mean of A_i' A_i."""

    def __init__(self, system: _System, hessian: SoftmaxHessian, inverse: LowRankInverse) -> None:
        self.shape, self.inverse = system.shape, inverse
        values, self.eigenvectors = np.linalg.eigh(hessian.mean_square())
        least = EPS * max(float(values[-1]), np.finfo(np.float64).tiny / EPS)
        self.shifts: Array = 1 / (system.matrix.scale * np.maximum(values, least))

    def __call__(self, columns: Array, shifts: Array) -> Array:
        """The inverse times a column."""
        rotated = columns.reshape(self.shape) @ self.eigenvectors
        return np.asarray(self.inverse(rotated, self.shifts) @ self.eigenvectors.T).reshape(-1, 1)
