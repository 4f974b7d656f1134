r"""Sums over rows for functions over landmarks: losses, gradients and second derivatives.

For f(x) = sum_j c_j k(x, z_j) + b and a smooth loss of each row, everything that Newton's method
asks of the rows is a sum over them. The summands of this module are given to `rows.Rows.total`:
each takes a part of the rows, works in blocks of bounded memory, and returns something that can be
added. They hold arrays and kernels alone, so that they can be sent to where the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.solvers.row_loss import RowLoss
from mercer.solvers.rows import Part
from mercer.solvers.whitening import Whitening

Array = NDArray[np.floating[Any]]

# Kernel values that are in memory at a time.
_BLOCK_BYTES = 2**22
# Numbers for each row beside them.
_LEAST_WIDTH = 64


@dataclass(frozen=True, eq=False)
class Span:
    """Functions over landmarks, and coordinates v in which their squared norm is |v|^2.

    With R'R = k(Z, Z) the coordinates are v = R c, and the features of a row, whose product with v
    is f(x) - b, are k(x, Z) R^-1. They cost m^2 operations for a row. Where that is too much, rows
    are taken as they are, k(x, Z) c, at the price of digits: c is long where R is nearly singular.

    Attributes
    ----------
    kernel : Kernel
        The kernel, resolved.
    points : Points
        The m landmarks, none of which the others make superfluous.
    upper : ndarray of shape (m, m)
        The triangle R, in float64.
    whitened : bool
        Whether rows are given as features, or as they are.
    """

    kernel: Kernel
    points: Points
    upper: Array
    whitened: bool = True

    def __len__(self) -> int:
        return len(self.upper)

    def coefficients(self, coordinates: Array) -> Array:
        """The coefficients c = R^-1 v."""
        return self._triangular(coordinates, "N")

    def outward(self, coordinates: Array) -> Array:
        """What rows are multiplied with: v or c."""
        return coordinates if self.whitened else self.coefficients(coordinates)

    def inward(self, sums: Array) -> Array:
        """What a derivative in that is in v."""
        return sums if self.whitened else self._triangular(sums, "T")

    @property
    def reach(self) -> float:
        """The square root of the largest k(z, z)."""
        return float(np.abs(self.upper[:1, :1]).sum())

    @property
    def stretch(self) -> float:
        """By how much rounding in sums over rows grows on the way to coordinates, about."""
        if self.whitened or not len(self):
            return 1.0
        trcon = get_lapack_funcs("trcon", (self.upper,))
        share = float(trcon(self.upper, norm="1")[0])
        largest = float(np.abs(self.upper).sum(axis=0).max())
        return self.reach / max(share * largest, np.finfo(np.float64).tiny)

    def rows(
        self, part: Part, stride: int = 1, *, whitened: bool | None = None, width: int = 0
    ) -> Iterator[tuple[Array, Array, Array]]:
        """One in `stride` of the rows that count, as they are or as features; targets and weights.

        So few rows at a time that `width` numbers for each of them are not too many.
        """
        wanted = self.whitened if whitened is None else whitened
        step = max(256, _BLOCK_BYTES // (8 * max(_LEAST_WIDTH, width, len(self))))
        for some in _counted(part, stride, step):
            cross = self._cross(part.points[some])
            if wanted and cross.size:
                cross = Whitening(np.arange(len(self)), self.upper).apply(cross)
            yield cross, part.targets[some], np.asarray(part.mass[some], dtype=np.float64)

    def _cross(self, points: Points) -> Array:
        if not len(self):
            return np.empty((len(points), 0))
        return self.kernel(points, self.points).astype(np.float64, copy=False)

    def _triangular(self, columns: Array, trans: str) -> Array:
        if not columns.size:
            return columns.copy()
        found = solve_triangular(self.upper, columns, trans=trans, check_finite=False)
        return np.asarray(found)


class _Added:
    """Numbers and arrays, field by field."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, eq=False)
class Place:
    """Where functions are, or a direction in which they change.

    Attributes
    ----------
    coef : ndarray of shape (m, k)
        What rows are multiplied with.
    intercept : ndarray of shape (k,)
        The constants.
    """

    coef: Array
    intercept: Array

    def at(self, rows: Array) -> Array:
        """Values, or changes of them."""
        return np.asarray(rows @ self.coef + self.intercept)


@dataclass(frozen=True, eq=False)
class Probed(_Added):
    """What rows say of functions on a line.

    Attributes
    ----------
    losses, slopes : ndarray of shape (n_lengths,)
        Weighted losses after steps of these lengths, and their derivatives in the length.
    pull : ndarray of shape (m, k)
        The derivative of the loss in what rows are multiplied with, after the first of the steps.
    push, terms : ndarray of shape (k,)
        The derivative in the constants, and the sum of the absolute values of its terms.
    sizes : ndarray of shape (3,)
        Sums of squares of derivatives, of second derivatives, and of these times values.
    squares : ndarray of shape (p, m + 1, m + 1)
        The second derivative of the loss, as in `Squares`; empty if it is not wanted.
    """

    losses: Array
    slopes: Array
    pull: Array
    push: Array
    terms: Array
    sizes: Array
    squares: Array


@dataclass(frozen=True, eq=False)
class Probe:
    """Losses at places on a line from one place in a direction, and derivatives at the first.

    Attributes
    ----------
    span : Span
        The landmarks.
    loss : RowLoss
        The loss.
    place : Place
        Where the line begins.
    turn : Place
        Its direction.
    lengths : tuple of float
        How far to go.
    stride : int
        1 for all rows, more for a sample of them.
    curved : bool
        Whether second derivatives are wanted; the span has to be whitened.
    """

    span: Span
    loss: RowLoss
    place: Place
    turn: Place
    lengths: tuple[float, ...] = (0.0,)
    stride: int = 1
    curved: bool = False

    def __call__(self, part: Part) -> Probed:
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
        return Probed(losses, slopes, pull, push, terms, sizes, squares)


@dataclass(frozen=True, eq=False)
class Squares:
    """Second derivatives, in the coordinates of the span and a constant, for each direction.

    Attributes
    ----------
    span, loss, place, stride
        As in `Probe`.
    flat : bool
        Whether to take every row's weight for its second derivative: where a loss is linear at all
        rows, any curvature gives a direction of descent.
    """

    span: Span
    loss: RowLoss
    place: Place
    stride: int = 1
    flat: bool = False

    def __call__(self, part: Part) -> Array:
        """The sums over a part, of shape (p, m + 1, m + 1)."""
        total = _no_squares(self.loss, len(self.span))
        place = self._whitened_place()
        width = len(total)
        for rows, targets, mass in self.span.rows(part, self.stride, whitened=True, width=width):
            bends = mass[:, None] * self.loss.curvature(targets, place.at(rows))
            if self.flat:
                bends = np.repeat(mass[:, None], len(total), axis=1)
            _add_squares(total, rows, bends)
        return total

    def _whitened_place(self) -> Place:
        if self.span.whitened:
            return self.place
        return Place(self.span.upper @ self.place.coef, self.place.intercept)


@dataclass(frozen=True, eq=False)
class Bent(_Added):
    """The second derivative times a direction.

    Attributes
    ----------
    pull : ndarray of shape (m, k)
        In what rows are multiplied with.
    push : ndarray of shape (k,)
        In the constants.
    """

    pull: Array
    push: Array


@dataclass(frozen=True, eq=False)
class BentAlong:
    """The second derivative of the loss times one direction, which no matrix is needed for.

    Attributes
    ----------
    span, loss, place, turn, stride
        As in `Probe`.
    """

    span: Span
    loss: RowLoss
    place: Place
    turn: Place
    stride: int = 1

    def __call__(self, part: Part) -> Bent:
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
    """Losses at several places.

    Attributes
    ----------
    span, loss
        As in `Probe`.
    places : tuple of Place
        The places.
    """

    span: Span
    loss: RowLoss
    places: tuple[Place, ...]

    def __call__(self, part: Part) -> Array:
        """The sums over a part, one for each place."""
        total = np.zeros(len(self.places))
        for rows, targets, mass in self.span.rows(part):
            total += [mass @ self.loss.value(targets, place.at(rows)) for place in self.places]
        return total


@dataclass(frozen=True, eq=False)
class Mass:
    """Sums of weights, and of weighted k(x, x).

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    stride : int
        1 for all rows, more for a sample of them.
    """

    kernel: Kernel
    stride: int = 1

    def __call__(self, part: Part) -> Array:
        """The sums over a part, two numbers."""
        found = np.zeros(2)
        for some in _counted(part, self.stride, max(1, len(part))):
            mass = np.asarray(part.mass[some], dtype=np.float64)
            found += [mass.sum(), mass @ self.kernel.diag(part.points[some])]
        return found


@dataclass(frozen=True, eq=False)
class Explained:
    """The weighted part of k(x, x) that the landmarks explain.

    Attributes
    ----------
    span, stride
        As in `Probe`.
    """

    span: Span
    stride: int = 1

    def __call__(self, part: Part) -> float:
        """The sum over a part."""
        found = 0.0
        for rows, _, weights in self.span.rows(part, self.stride, whitened=True):
            found += float(weights @ np.einsum("ij,ij->i", rows, rows))
        return found


def _counted(part: Part, stride: int, step: int) -> Iterator[slice | NDArray[np.intp]]:
    """One in `stride` of the rows of positive weight, so many at a time."""
    everything = part.weights is None or part.weights.all()
    if everything and stride == 1:
        for start in range(0, len(part), step):
            yield slice(start, min(start + step, len(part)))
        return
    rows = np.arange(len(part)) if everything else np.flatnonzero(part.mass)
    rows = _one_in(stride, rows, part.start)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _one_in(stride: int, rows: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """One of every `stride` rows, at random, as rows may come from several places in turn."""
    if stride == 1:
        return rows
    firsts = np.arange(0, len(rows), stride)
    sizes = np.minimum(stride, len(rows) - firsts)
    found: NDArray[np.intp] = rows[firsts + np.random.default_rng(seed).integers(sizes)]
    return found


def _no_squares(loss: RowLoss, m: int) -> Array:
    return np.zeros((len(loss.directions), m + 1, m + 1))


def _add_squares(total: Array, rows: Array, bends: Array) -> None:
    """Add products of features and a one, weighted; rows are overwritten.

    Rows that do not bend are left out.
    """
    some = np.flatnonzero(bends.any(axis=1))
    if len(some) < len(rows):
        rows, bends = rows[some], bends[some]
    m, roots = rows.shape[1], np.sqrt(bends)
    border = (rows.T @ bends).T
    total[:, :m, m] += border
    total[:, m, :m] += border
    total[:, m, m] += bends.sum(axis=0)
    for i, matrix in enumerate(total):
        last = i == len(total) - 1
        scaled = np.multiply(rows, roots[:, [i]], out=rows if last else None)
        matrix[:m, :m] += scaled.T @ scaled


def _sizes(bend: Array, bends: Array, values: Array) -> Array:
    curvature = bends.sum(axis=1)
    largest = np.abs(values).max(axis=1)
    return np.array([np.sum(bend**2), np.sum(curvature**2), np.sum(np.square(curvature * largest))])
