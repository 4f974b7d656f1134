r"""Sums over rows for the functions of a span: losses, gradients and second derivatives.

For f(x) = r(x)'v + b (`spans`) and a smooth loss of each row, everything that Newton's method asks
of the rows is a sum over them. The summands of this module are given to `rows.Rows.total`: each
takes a part of the rows, works in blocks of bounded memory, and returns something that can be
added. They hold a span and arrays alone, so that they can be sent to where the rows are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from mercer.rows.rows import RowBlock
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.spans import Span, counted, squared_lengths

Array = NDArray[np.floating[Any]]


class _Added:
    """Numbers and arrays, field by field."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, eq=False)
class Place:
    """Where functions are, or a direction in which they change."""

    coef: Array  # (m, k): what rows are multiplied with
    intercept: Array  # (k,): the constants

    def at(self, rows: Any) -> Array:
        """Values, or changes of them."""
        return np.asarray(rows @ self.coef + self.intercept)


@dataclass(frozen=True, eq=False)
class Probed(_Added):
    """What rows say of functions on a line."""

    # (n_lengths,): weighted losses after steps of these lengths, and their derivatives in the
    # length
    losses: Array
    # (n_lengths,): weighted losses after steps of these lengths, and their derivatives in the
    # length
    slopes: Array
    # (m, k): the derivative of the loss in what rows are multiplied with, after the first of the
    # steps
    pull: Array
    # (k,): the derivative in the constants, and the sum of the absolute values of its terms
    push: Array
    # (k,): the derivative in the constants, and the sum of the absolute values of its terms
    terms: Array
    # (3,): sums of squares of derivatives, of second derivatives, and of these times values
    sizes: Array
    # (p, m + 1, m + 1): the second derivative of the loss, as in `Squares`; empty if it is not
    # wanted
    squares: Array


@dataclass(frozen=True, eq=False)
class Probe:
    """Losses at places on a line from one place in a direction, and derivatives at the first."""

    span: Span  # the functions
    loss: RowLoss
    place: Place  # where the line begins
    turn: Place  # its direction
    lengths: tuple[float, ...] = (0.0,)  # how far to go
    stride: int = 1  # 1 for all rows, more for a sample of them
    curved: bool = False  # whether second derivatives are wanted; the span has to be whitened

    def __call__(self, part: RowBlock) -> Probed:
        """The sums over a part."""
        m, k, count = len(self.span), self.loss.n_outputs, len(self.lengths)
        losses, slopes, sizes = np.zeros(count), np.zeros(count), np.zeros(3)
        pull, push, terms = np.zeros((m, k)), np.zeros(k), np.zeros(k)
        squares = _no_squares(self.loss, m if self.curved else -1)
        curvature = (self.loss if self.curved else self.loss.loosened()).curvature
        width = len(squares) if self.curved else k
        for rows, targets, mass in self.span.rows(part, self.stride, width=width):
            begin, change = self.place.at(rows), self.turn.at(rows)
            for i, length in enumerate(self.lengths):
                values = begin + length * change
                bend = mass[:, None] * self.loss.derivative(targets, values)
                losses[i] += mass @ self.loss.value(targets, values)
                slopes[i] += np.sum(bend * change)
                if i == 0:
                    pull += rows.T @ bend
                    push += bend.sum(axis=0)
                    terms += np.abs(bend).sum(axis=0)
                    bends = mass[:, None] * curvature(targets, values)
                    sizes += _sizes(bend, bends, values)
                    if self.curved:
                        _add_squares(squares, rows, bends)
        return Probed(losses, slopes, pull, push, terms, sizes, _mirrored(squares))


@dataclass(frozen=True, eq=False)
class Squares:
    """Second derivatives, in the coordinates of the span and a constant, for each direction."""

    span: Span  # as in `Probe`
    loss: RowLoss  # as in `Probe`
    place: Place  # as in `Probe`
    stride: int = 1  # as in `Probe`
    # whether to take every row's weight for its second derivative: where a loss is linear at all
    # rows, any curvature gives a direction of descent
    flat: bool = False

    def __call__(self, part: RowBlock) -> Array:
        """The sums over a part, of shape (p, m + 1, m + 1)."""
        total = _no_squares(self.loss, len(self.span))
        place = Place(self.span.coordinates(self.place.coef), self.place.intercept)
        width = len(total)
        for rows, targets, mass in self.span.rows(part, self.stride, whitened=True, width=width):
            bends = mass[:, None] * self.loss.curvature(targets, place.at(rows))
            if self.flat:
                bends = np.repeat(mass[:, None], len(total), axis=1)
            _add_squares(total, rows, bends)
        return _mirrored(total)


@dataclass(frozen=True, eq=False)
class Bent(_Added):
    """The second derivative times a direction."""

    pull: Array  # (m, k): in what rows are multiplied with
    push: Array  # (k,): in the constants


@dataclass(frozen=True, eq=False)
class BentAlong:
    """The second derivative of the loss times one direction, which no matrix is needed for."""

    span: Span  # as in `Probe`
    loss: RowLoss  # as in `Probe`
    place: Place  # as in `Probe`
    turn: Place  # as in `Probe`
    stride: int = 1  # as in `Probe`

    def __call__(self, part: RowBlock) -> Bent:
        """The sums over a part."""
        m, k = len(self.span), self.loss.n_outputs
        total = Bent(np.zeros((m, k)), np.zeros(k))
        for rows, targets, mass in self.span.rows(part, self.stride):
            values, change = self.place.at(rows), self.turn.at(rows)
            bent = mass[:, None] * self.loss.bent(targets, values, change)
            total = total + Bent(rows.T @ bent, bent.sum(axis=0))
        return total


@dataclass(frozen=True, eq=False)
class Compare:
    """Losses at several places."""

    span: Span  # as in `Probe`
    loss: RowLoss  # as in `Probe`
    places: tuple[Place, ...]

    def __call__(self, part: RowBlock) -> Array:
        """The sums over a part, one for each place."""
        total = np.zeros(len(self.places))
        for rows, targets, mass in self.span.rows(part):
            total += [mass @ self.loss.value(targets, place.at(rows)) for place in self.places]
        return total


@dataclass(frozen=True, eq=False)
class Mass:
    """Sums of weights, and of weighted k(x, x)."""

    span: Span  # as in `Probe`
    stride: int = 1  # as in `Probe`

    def __call__(self, part: RowBlock) -> Array:
        """The sums over a part, two numbers."""
        found = np.zeros(2)
        for some in counted(part, self.stride, self.span.step()):
            mass = np.asarray(part.mass[some], dtype=np.float64)
            found += [mass.sum(), mass @ self.span.diag(part.points[some])]
        return found


@dataclass(frozen=True, eq=False)
class Explained:
    """The weighted part of k(x, x) that the functions of the span explain."""

    span: Span  # as in `Probe`
    stride: int = 1  # as in `Probe`

    def __call__(self, part: RowBlock) -> float:
        """The sum over a part."""
        found = 0.0
        for rows, _, weights in self.span.rows(part, self.stride, whitened=True):
            found += float(weights @ squared_lengths(rows))
        return found


def _no_squares(loss: RowLoss, m: int) -> Array:
    return np.zeros((len(loss.directions), m + 1, m + 1))


def _add_squares(total: Array, rows: Any, bends: Array) -> None:
    """Add products of rows and a one, weighted, to the triangles above the diagonals.

    Rows that do not bend are left out.
    """
    some = np.flatnonzero(bends.any(axis=1))
    if len(some) < rows.shape[0]:
        rows, bends = rows[some], bends[some]
    for matrix, root in zip(total, np.sqrt(bends).T, strict=True):
        if sp.issparse(rows):
            _add_sparse(matrix, sp.csr_array(rows.multiply(root[:, None])), root)
        elif len(some):
            scaled = np.empty((len(some), len(matrix)))
            np.multiply(rows, root[:, None], out=scaled[:, :-1])
            scaled[:, -1] = root
            # In place: a sum of matrices would take longer than products of few rows.
            dsyrk(1.0, scaled.T, beta=1.0, c=matrix.T, lower=True, overwrite_c=True)


def _add_sparse(matrix: Array, scaled: Any, root: Array) -> None:
    m = scaled.shape[1]
    # One dense factor: products of two sparse ones have more entries than they save.
    matrix[:m, :m] += scaled.T @ scaled.toarray()
    matrix[:m, m] += scaled.T @ root
    matrix[m, m] += root @ root


def _mirrored(total: Array) -> Array:
    """Matrices of which the triangles above the diagonals are known."""
    for matrix in total:
        matrix[:] = np.triu(matrix) + np.triu(matrix, 1).T
    return total


def _sizes(bend: Array, bends: Array, values: Array) -> Array:
    curvature = bends.sum(axis=1)
    largest = np.abs(values).max(axis=1)
    return np.array([np.sum(bend**2), np.sum(curvature**2), np.sum(np.square(curvature * largest))])
