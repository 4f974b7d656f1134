"""Hessians W of smooth losses, and the matrices (G + W^-1)^-1 of Newton's equations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular

from mercer.arrays import EPS, Array
from mercer.exceptions import ValidityError
from mercer.linalg import blocked
from mercer.linalg.cholesky import climb, in_fortran_order, rungs

# Largest jitter, as a fraction of the mean diagonal entry.
_MOST_JITTER = 1e-3


@dataclass(frozen=True)
class DiagonalHessian:
    """The Hessian of a loss of one output."""

    weights: Array  # (n,): the second derivatives, 0 or more

    def product(self, values: Array) -> Array:
        """W v."""
        return self.weights[:, None] * values

    def absolute_product(self, values: Array) -> Array:
        """W |v|: the effect of rounding of the values on the derivative."""
        return self.weights[:, None] * np.abs(values)

    def root(self, columns: Array) -> Array:
        """A u = W^1/2 u, where W = A A'."""
        return np.asarray(np.sqrt(self.weights)[:, None] * columns)

    root_transposed = root

    def summed(self, shares: Array) -> Array:
        """The sum of the second derivatives, each times a number, of shape (1, 1)."""
        return np.array([[self.weights @ shares]])

    def block(self, output: int, other: int) -> Array:
        """The second derivatives."""
        return self.weights

    def resolvent(self, gram: Array) -> DiagonalResolvent:
        """C = W^1/2 (I + W^1/2 G W^1/2)^-1 W^1/2, over the rows of positive curvature."""
        rows = np.flatnonzero(self.weights > 0)
        root = np.sqrt(self.weights[rows])
        inner = gram if len(rows) == len(gram) else gram[np.ix_(rows, rows)]
        return DiagonalResolvent(rows, root, _factor(inner, root))


@dataclass(frozen=True)
class SoftmaxHessian:
    """The Hessian of the multinomial log-loss: blocks w_i (diag(p_i) - p_i p_i').

    .. [1] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian Processes for Machine Learning,
    section 3.5.
    """

    weights: Array  # (n,): positive weights of the rows
    probabilities: Array  # (n, k): the p_i

    def product(self, values: Array) -> Array:
        """W v."""
        return self.weights[:, None] * softmax_product(self.probabilities, values)

    def absolute_product(self, values: Array) -> Array:
        """A bound of |W| |v|, from the diagonal."""
        return self.weights[:, None] * self.probabilities * np.abs(values)

    def root(self, columns: Array) -> Array:
        """A u, with the blocks A_i = sqrt(w_i) (diag(sqrt(p_i)) - p_i sqrt(p_i)') H_i.

        H_i is the reflection that exchanges sqrt(p_i) and a constant vector, so that the blocks of
        all rows map constant vectors to zero.
        """
        root, columns = np.sqrt(self.probabilities), self._reflect(columns)
        shared = np.sum(root * columns, axis=1, keepdims=True)
        product = root * columns - self.probabilities * shared
        return np.asarray(np.sqrt(self.weights)[:, None] * product)

    def root_transposed(self, columns: Array) -> Array:
        """A' v."""
        mean = np.sum(self.probabilities * columns, axis=1, keepdims=True)
        weighted = np.sqrt(self.weights[:, None] * self.probabilities)
        return self._reflect(weighted * (columns - mean))

    def mean_square(self) -> Array:
        """The mean of A_i' A_i over rows, of shape (k, k)."""
        units = np.eye(self.probabilities.shape[1])
        images = [self.root(np.broadcast_to(unit, self.probabilities.shape)) for unit in units]
        return np.array([self.root_transposed(image).mean(axis=0) for image in images])

    def _reflect(self, columns: Array) -> Array:
        """H_i u_i of every row."""
        axis = np.sqrt(self.probabilities) - 1 / np.sqrt(self.probabilities.shape[1])
        square = np.einsum("ij,ij->i", axis, axis)
        share = 2 * np.einsum("ij,ij->i", axis, columns) / np.where(square > 0, square, 1.0)
        return np.asarray(columns - share[:, None] * axis)

    def summed(self, shares: Array) -> Array:
        """The sum of w (diag(p) - p p') over rows, each times a number, of shape (k, k)."""
        weighted = (self.weights * shares)[:, None] * self.probabilities
        return np.diag(weighted.sum(axis=0)) - weighted.T @ self.probabilities

    def block(self, output: int, other: int) -> Array:
        """The second derivatives w (diag(p) - p p') in two classes."""
        mine = self.weights * self.probabilities[:, output]
        return np.asarray(mine * ((output == other) - self.probabilities[:, other]))

    def resolvent(self, gram: Array) -> SoftmaxResolvent:
        """C = E - E R (R' E R)^-1 R' E: E is C for the diagonal of W, and R stacks identities."""
        roots = np.sqrt(self.weights[:, None] * self.probabilities)
        factors = [_factor(gram, root) for root in roots.T]
        total = np.zeros_like(gram, order="F")
        for root, (upper, _) in zip(roots.T, factors, strict=True):
            inverse, _ = lapack.dpotri(upper, lower=False)  # its upper triangle
            inverse *= root[:, None]
            inverse *= root
            total += inverse
        return SoftmaxResolvent(roots, factors, factorised(total))


@dataclass(frozen=True, eq=False)
class DiagonalResolvent:
    """C = W^1/2 B^-1 W^1/2 with B = I + W^1/2 G W^1/2, for a diagonal W."""

    rows: NDArray[np.intp]  # the rows of positive curvature
    root: Array  # the roots of their curvatures
    factor: Any  # of B

    def __call__(self, columns: Array) -> Array:
        """C times columns."""
        product, root = np.zeros_like(columns), self.root[:, None]
        if len(self.rows):
            solved = cho_solve(self.factor, root * columns[self.rows], check_finite=False)
            product[self.rows] = root * solved
        return product

    def inverse_diagonal(self) -> Array:
        """The diagonal of B^-1."""
        half, _ = lapack.dtrtri(self.factor[0])  # B^-1 = half half'
        return np.asarray(np.einsum("ij,ij->i", half, half))


@dataclass(frozen=True, eq=False)
class SoftmaxResolvent:
    """C = E - E R (R' E R)^-1 R' E, for the Hessian of the multinomial log-loss."""

    roots: Array  # (n, k): the roots of the diagonal of W
    factors: list[Any]  # of each class, as those of `DiagonalResolvent`
    shared: Any  # the factor of R' E R

    def __call__(self, columns: Array) -> Array:
        """C times columns, one for each class."""
        first = self._diagonal_part(columns)
        shared = cho_solve(self.shared, first.sum(axis=1), check_finite=False)
        return first - self._diagonal_part(np.repeat(shared[:, None], columns.shape[1], axis=1))

    def _diagonal_part(self, columns: Array) -> Array:
        solved = [
            root * cho_solve(factor, root * column, check_finite=False)
            for root, factor, column in zip(self.roots.T, self.factors, columns.T, strict=True)
        ]
        return np.column_stack(solved)

    def halves(self) -> tuple[list[Array], Array]:
        """The blocks E_a of E, and the columns Z_a with C_ab = E_a [a = b] - Z_a' Z_b."""
        blocks = []
        for root, (upper, _) in zip(self.roots.T, self.factors, strict=True):
            inverse, _ = lapack.dpotri(upper, lower=False)
            whole = np.triu(inverse) + np.triu(inverse, 1).T
            blocks.append(root[:, None] * whole * root)
        upper, lower = self.shared
        halves = [solve_triangular(upper, e, trans="T", lower=lower) for e in blocks]
        return blocks, np.stack(halves)


#: The matrix (G + W^-1)^-1 of Newton's equations.
Resolvent = DiagonalResolvent | SoftmaxResolvent
#: The Hessian W of a loss of n rows and k outputs; its vectors are n by k matrices.
Hessian = DiagonalHessian | SoftmaxHessian


def softmax_product(probabilities: Array, values: Array) -> Array:
    """(diag(p) - p p') v of every row."""
    mean = np.einsum("ij,ij->i", probabilities, values)
    return np.asarray(probabilities * (values - mean[:, None]))


def _factor(gram: Array, root: Array) -> Any:
    """The Cholesky factor of I + W^1/2 G W^1/2, for `cho_solve`."""
    return _with_jitter(gram, np.ascontiguousarray(root), 1.0)


def factorised(matrix: Array) -> Any:
    """The Cholesky factor of a matrix that is positive definite up to rounding, for `cho_solve`.

    A triangle is enough: the upper one of a matrix in Fortran order, else the lower one.
    """
    return _with_jitter(in_fortran_order(matrix).T, np.ones(len(matrix)), 0.0)


def _with_jitter(gram: Array, scales: Array, shift: float) -> Any:
    """The upper Cholesky factor of S K S + shift I, with a small multiple of I if necessary."""
    mean = shift + float(np.mean(gram.diagonal() * scales**2)) if gram.size else 0.0
    upper = np.zeros(gram.shape, order="F")

    def attempt(jitter: float) -> Array | None:
        blocked.scaled_triangle(gram, scales, shift + jitter * mean, upper)
        return upper if blocked.factorise(upper) else None

    if climb(attempt, chain([0.0], rungs(len(gram) * EPS, _MOST_JITTER, 100))) is not None:
        return upper, False
    raise ValidityError(
        "the Gram matrix is not positive semi-definite: no small multiple of the identity makes it "
        "so; raise alpha, or use a kernel whose is_psd is True."
    )
