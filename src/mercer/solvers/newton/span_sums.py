"""Sums over rows for the functions of a span: losses, gradients and Hessians.

For f(x) = r(x)'c + b (`spans`) and a smooth loss of each row, Newton's method needs only sums over
rows. The classes of this module are arguments of `RowSource.map_sum`: each takes a block of rows,
works in chunks of bounded memory, and returns sums that can be added to those of other blocks. They
hold only a span and arrays, so that they can be sent to the workers that hold the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array
from mercer.linalg.blocked import multiply
from mercer.rows.rows import RowBlock
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.spans import Span, squared_norms, used_rows


class _Sums:
    """Arrays that are added field by field."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, eq=False)
class Coefficients(_Sums):
    """Coefficients and intercepts of functions or of a search direction, or derivatives in them."""

    coef: Array  # (m, k)
    intercept: Array  # (k,)

    def values(self, rows: Any) -> Array:
        """The values of the functions at rows."""
        return np.asarray(rows @ self.coef + self.intercept)


@dataclass(frozen=True, eq=False)
class LineSearchSums(_Sums):
    """Losses at several step lengths, and derivatives at the first length."""

    losses: Array  # (n_lengths,): weighted losses
    slopes: Array  # (n_lengths,): their derivatives in the length
    grad_coef: Array  # (m, k): gradient of the loss in the coefficients
    grad_intercept: Array  # (k,): gradient of the loss in the intercepts
    abs_grad_intercept: Array  # (k,): sum of the absolute terms of that gradient
    # (3,): sums of squares of derivatives, of second derivatives, and of these times values
    sizes: Array
    hessians: Array  # (p, m + 1, m + 1): as in `HessianSums`; empty if not requested


@dataclass(frozen=True, eq=False)
class LineSearch:
    """Computes losses at several step lengths, and derivatives at the first length."""

    span: Span
    loss: RowLoss
    start: Coefficients
    direction: Coefficients
    lengths: tuple[float, ...] = (0.0,)
    stride: int = 1  # 1 for all rows, more for a sample of them
    needs_hessian: bool = False  # whether to compute Hessians; the span has to be whitened

    def __call__(self, part: RowBlock) -> LineSearchSums:
        """The sums over a block of rows."""
        m, k, count = len(self.span), self.loss.n_outputs, len(self.lengths)
        losses, slopes, sizes = np.zeros(count), np.zeros(count), np.zeros(3)
        grad_coef, grad_intercept, absolute = np.zeros((m, k)), np.zeros(k), np.zeros(k)
        hessians = _zeros(self.loss, m if self.needs_hessian else -1)
        loss = self.loss if self.needs_hessian else self.loss.block_diagonal()
        width = len(hessians) if self.needs_hessian else k
        for rows, targets, weights in self.span.rows(part, self.stride, width=width):
            begin, change = self.start.values(rows), self.direction.values(rows)
            for i, length in enumerate(self.lengths):
                values = begin + length * change
                dloss = weights[:, None] * self.loss.derivative(targets, values)
                losses[i] += weights @ self.loss.value(targets, values)
                slopes[i] += np.sum(dloss * change)
                if i == 0:
                    grad_coef += rows.T @ dloss
                    grad_intercept += dloss.sum(axis=0)
                    absolute += np.abs(dloss).sum(axis=0)
                    d2loss = weights[:, None] * loss.hessian_weights(targets, values)
                    sizes += _sizes(dloss, d2loss, values)
                    if self.needs_hessian:
                        _add_hessians(hessians, rows, d2loss)
        gradient = grad_coef, grad_intercept, absolute
        return LineSearchSums(losses, slopes, *gradient, sizes, _mirror(hessians))


@dataclass(frozen=True, eq=False)
class HessianSums:
    """Hessians in the coordinates of the span and a constant, one for each factor of the loss."""

    span: Span
    loss: RowLoss
    at: Coefficients  # of whitened rows: coordinates and intercepts
    stride: int = 1  # 1 for all rows, more for a sample of them
    # use second derivatives of 1: if the loss is linear at all rows, any curvature gives a descent
    # direction
    unit_curvature: bool = False

    def __call__(self, part: RowBlock) -> Array:
        """The sums over a block of rows, of shape (p, m + 1, m + 1)."""
        total = _zeros(self.loss, len(self.span))
        width = len(total)
        for rows, targets, weights in self.span.rows(part, self.stride, whitened=True, width=width):
            d2loss = weights[:, None] * self.loss.hessian_weights(targets, self.at.values(rows))
            if self.unit_curvature:
                d2loss = np.repeat(weights[:, None], len(total), axis=1)
            _add_hessians(total, rows, d2loss)
        return _mirror(total)


@dataclass(frozen=True, eq=False)
class HessianProduct:
    """The Hessian of the loss times one direction, without a matrix."""

    span: Span
    loss: RowLoss
    at: Coefficients
    direction: Coefficients
    stride: int = 1  # 1 for all rows, more for a sample of them

    def __call__(self, part: RowBlock) -> Coefficients:
        """The sums over a block of rows."""
        m, k = len(self.span), self.loss.n_outputs
        total = Coefficients(np.zeros((m, k)), np.zeros(k))
        for rows, targets, weights in self.span.rows(part, self.stride):
            values, change = self.at.values(rows), self.direction.values(rows)
            product = weights[:, None] * self.loss.hessian_product(targets, values, change)
            total = total + Coefficients(rows.T @ product, product.sum(axis=0))
        return total


@dataclass(frozen=True, eq=False)
class LossesAt:
    """The weighted losses of several candidate functions."""

    span: Span
    loss: RowLoss
    candidates: tuple[Coefficients, ...]

    def __call__(self, part: RowBlock) -> Array:
        """The sums over a block of rows, one for each candidate."""
        total = np.zeros(len(self.candidates))
        for rows, targets, weights in self.span.rows(part):
            losses = [self.loss.value(targets, each.values(rows)) for each in self.candidates]
            total += [weights @ loss for loss in losses]
        return total


@dataclass(frozen=True, eq=False)
class WeightSums:
    """The sums of weights, and of weighted k(x, x)."""

    span: Span
    stride: int = 1  # 1 for all rows, more for a sample of them

    def __call__(self, part: RowBlock) -> Array:
        """The two sums over a block of rows."""
        total = np.zeros(2)
        for some in used_rows(part, self.stride, self.span.block_rows()):
            weights = np.asarray(part.mass[some], dtype=np.float64)
            total += [weights.sum(), weights @ self.span.diag(part.points[some])]
        return total


@dataclass(frozen=True, eq=False)
class ExplainedTrace:
    """The part of the weighted sum of k(x, x) that the span explains."""

    span: Span
    stride: int = 1  # 1 for all rows, more for a sample of them

    def __call__(self, part: RowBlock) -> float:
        """The sum over a block of rows."""
        total = 0.0
        for rows, _, weights in self.span.rows(part, self.stride, whitened=True):
            total += float(weights @ squared_norms(rows))
        return total


def _zeros(loss: RowLoss, m: int) -> Array:
    return np.zeros((len(loss.hessian_factors), m + 1, m + 1))


def _add_hessians(total: Array, rows: Any, d2loss: Array) -> None:
    """Add d2loss (r, 1)(r, 1)' of every row r to the upper triangles; skip rows of curvature 0."""
    some = np.flatnonzero(d2loss.any(axis=1))
    if len(some) < rows.shape[0]:
        rows, d2loss = rows[some], d2loss[some]
    for matrix, root in zip(total, np.sqrt(d2loss).T, strict=True):
        if sp.issparse(rows):
            _add_sparse(matrix, sp.csr_array(rows.multiply(root[:, None])), root)
        elif len(some):
            weighted = np.empty((len(some), len(matrix)))
            np.multiply(rows, root[:, None], out=weighted[:, :-1])
            weighted[:, -1] = root
            # In place, because adding matrices would take longer than products of few rows.
            multiply(weighted.T, weighted, matrix, beta=1.0, triangle="upper")


def _add_sparse(matrix: Array, weighted: Any, root: Array) -> None:
    m = weighted.shape[1]
    # One factor is dense, because a product of two sparse factors is slower.
    matrix[:m, :m] += weighted.T @ weighted.toarray()
    matrix[:m, m] += weighted.T @ root
    matrix[m, m] += root @ root


def _mirror(total: Array) -> Array:
    """Copy the upper triangle of each matrix to its lower triangle."""
    for matrix in total:
        matrix[:] = np.triu(matrix) + np.triu(matrix, 1).T
    return total


def _sizes(dloss: Array, d2loss: Array, values: Array) -> Array:
    curvature = d2loss.sum(axis=1)
    largest = np.abs(values).max(axis=1)
    squares = dloss**2, curvature**2, np.square(curvature * largest)
    return np.array([np.sum(square) for square in squares])
