r"""Low-rank approximations of positive semi-definite matrices, and preconditioners from them.

With A Omega = Y for a random orthonormal Omega, the Nystrom approximation is

.. math:: \hat A = Y (\Omega^\top Y)^{-1} Y^\top = U \operatorname{diag}(\lambda) U^\top ,

which needs no entries of A (`nystrom_sketch`). A - A^ is positive semi-definite, and its expected
norm is close to that of the best approximation of the same rank. See Frangella, Tropp and Udell
(2023), Randomized Nystrom preconditioning, algorithm 2.1.

From A ~ F F' and the eigendecomposition F'F = V S V', the inverse of F F' + shift I is

.. math:: \frac1\mu \left(I - F V \operatorname{diag}\frac{1}{s + \mu} V^\top F^\top\right) ,

so that one small decomposition is enough for every shift mu (`LowRankInverse`), and only F has n
rows. The difference in brackets cancels along F: it is computed in double precision, with shifts
above the rounding error of S. See Woodbury (1950); Diaz, Epperly, Frangella, Tropp and Webber
(2023), Robust, randomized preconditioning for kernel ridge regression.

`LowRankMatrix` is F F' itself, for methods that need products with it and some of its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr, solve_triangular

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg.blocked import multiply
from mercer.linalg.cholesky import shifted_cholesky
from mercer.parallel import cached_property

# The smallest shift of a preconditioner, in rounding units of the largest eigenvalue.
_ROUNDING = 16
# The largest shift of a sketch, relative to the first one.
_LARGEST_SHIFT = 1e7
# The smallest ridge of `solve_plus_diagonal`, relative to the mean diagonal of F F'.
_LEAST_RIDGE = 1e-12
# Steps of iterative refinement of `solve_plus_diagonal`.
_REFINEMENTS = 3


@dataclass(frozen=True, eq=False)
class LowRankInverse:
    """The inverse of F F' + shift I."""

    factor: Array  # (n, k): the factor F, in double precision
    eigenvectors: Array  # (k, k): the eigenvectors V of F'F
    values: Array  # (k,): its eigenvalues, ascending
    # estimate of the largest eigenvalue of A - F F', which is added to the shift
    floor: float = 0.0

    @classmethod
    def of(cls, factor: Array, floor: float = 0.0) -> LowRankInverse:
        """Decompose F F'."""
        factor = factor.astype(np.float64, copy=False)
        values, eigenvectors = eigh(multiply(factor.T, factor, triangle="lower"), overwrite_a=True)
        return cls(factor, eigenvectors, np.maximum(values, 0.0), floor)

    def __call__(self, vectors: Array, shifts: Array) -> Array:
        """Apply the inverse, to each column with its own shift."""
        shifts = np.maximum(shifts, self._least)
        inside = self.eigenvectors.T @ multiply(self.factor.T, vectors)
        least = self.values.max(initial=0.0) * np.finfo(np.float64).eps + np.finfo(np.float64).tiny
        share = 1 - np.minimum(self.floor / np.maximum(self.values, least), 1.0)
        inside = self.eigenvectors @ (share[:, None] * inside / (self.values[:, None] + shifts))
        return vectors - multiply(self.factor, inside)

    @property
    def _least(self) -> float:
        rounding = _ROUNDING * max(1, len(self.values)) * float(np.finfo(np.float64).eps)
        return rounding * float(self.values.max(initial=0.0)) + np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class NystromSketch:
    """A factor F with A close to F F', with orthogonal columns of decreasing norm."""

    factor: Array  # (n, k): F = U diag(sqrt(values))
    values: Array  # (k,): the eigenvalues of F F', descending
    trace_error: float  # the trace of A - F F' relative to that of A


def nystrom_sketch(
    multiply: Callable[[Array], Array], diagonal: Array, rank: int, *, rng: Any
) -> NystromSketch:
    """Approximate A from one product with `rank` random vectors; `multiply(V)` returns A @ V.

    A matrix that is not positive semi-definite raises a `ValidityError`.
    """
    n, total = len(diagonal), float(np.sum(diagonal, dtype=np.float64))
    omega = qr(rng.standard_normal((n, min(rank, n))), mode="economic")[0]
    image = np.asarray(multiply(omega))
    eps = float(np.finfo(image.dtype).eps)
    image = image.astype(np.float64, copy=False)
    # A small shift makes the Cholesky factor exist; it is subtracted from the eigenvalues.
    shift = np.sqrt(n) * eps * float(np.linalg.norm(image, 2) if image.size else 0.0)
    shift = max(shift, np.finfo(np.float64).tiny)
    inner = omega.T @ image
    factor = shifted_cholesky((inner + inner.T) / 2, shift, _LARGEST_SHIFT * shift)
    if factor is None:
        raise ValidityError(
            "nystrom_sketch: the matrix is not positive semi-definite; repair it, or use a kernel "
            "whose is_psd is True."
        )
    upper, shift = factor
    left, lengths, _ = np.linalg.svd(
        solve_triangular(upper, (image + shift * omega).T, trans="T").T, full_matrices=False
    )
    values = np.maximum(lengths**2 - shift, 0.0)
    error = max(0.0, 1 - float(values.sum()) / total) if total > 0 else 0.0
    return NystromSketch(left * np.sqrt(values), values, error)


@dataclass(frozen=True, eq=False)
class LowRankMatrix:
    """The matrix F F', which is not stored: its products, its diagonal and some of its blocks."""

    factor: Array  # (n, k): F, in double precision

    def __len__(self) -> int:
        return len(self.factor)

    def __matmul__(self, columns: Array) -> Array:
        return np.asarray(self.factor @ (self.factor.T @ columns))

    def __mul__(self, number: float) -> LowRankMatrix:
        return LowRankMatrix(np.sqrt(number) * self.factor)

    def __getitem__(self, block: tuple[Any, ...]) -> Array:
        """A block, with rows and columns as `numpy.ix_` gives them."""
        rows, columns = (np.ravel(part) for part in block)
        return np.asarray(self.factor[rows] @ self.factor[columns].T)

    @property
    def rank(self) -> int:
        """The number of columns of F."""
        return int(self.factor.shape[1])

    def diagonal(self) -> Array:
        """Its diagonal."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.factor, self.factor))


def solve_plus_diagonal(factor: Array, ridge: Array, right: Array) -> Array:
    """Solve (F F' + diag(ridge)) x = right for more rows than columns, by Woodbury's formula.

    A ridge that rounding would hide is raised; refinement removes the effect.
    """
    mean = float(np.mean(np.einsum("ij,ij->i", factor, factor)))
    raised = np.maximum(ridge, _LEAST_RIDGE * mean + np.finfo(np.float64).tiny)[:, None]
    weighted = factor / np.sqrt(raised)
    square = weighted.T @ weighted
    square.flat[:: len(square) + 1] += 1
    cholesky = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)

    def apply(columns: Array) -> Array:
        inside = factor.T @ (columns / raised)
        solved = factor @ cho_solve(cholesky, inside, check_finite=False)
        return np.asarray((columns - solved) / raised)

    solution = apply(right)
    for _ in range(_REFINEMENTS):
        image = factor @ (factor.T @ solution) + ridge[:, None] * solution
        solution = solution + apply(right - image)
    return solution
