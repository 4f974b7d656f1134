"""Quadratic programmes with boxes and sums: the problem, its matrix and its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.parallel import thread_count

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]


# Diagonals for which float32 has room, products of values included.
SMALLEST, LARGEST = 1e-15, 1e15
# Sizes of variables that need no other unit.
_ORDINARY = 1e6
# Errors of curvatures that float32 may have, relative to their mean; and how many rows tell it.
_FAITHFUL, _SAMPLE = 0.01, 64


def is_faithful(exact: Matrix, rounded: Matrix) -> bool:
    """Whether rounded values serve for exchanges, whose curvatures are K_ii + K_jj - 2 K_ij.

    They do not where all values are alike and large, as inner products of data far from zero.
    """
    curvature, error = _curvatures(exact), 0.0
    with np.errstate(invalid="ignore"):
        error = float(np.abs(_curvatures(rounded) - curvature).max(initial=0.0))
    return error <= _FAITHFUL * float(curvature.mean())


def _curvatures(values: Matrix) -> Array:
    diagonal = values.diagonal().astype(np.float64)
    return np.asarray(diagonal[:, None] + diagonal - 2 * values.astype(np.float64))


def inner(a: Array, b: Array) -> float:
    """The inner product of long vectors, without BLAS.

    Threads that BLAS wakes for one keep a processor busy for some time afterwards, which the
    engine's next product needs.
    """
    return float((a * b).sum())


class SymmetricMatrix(Protocol):
    """A symmetric matrix of which blocks and products can be had."""

    @property
    def size(self) -> int:
        """The number of rows."""

    @property
    def has_single(self) -> bool:
        """Whether float32 is quicker than float64, and serves to begin with."""

    @property
    def rounding(self) -> float:
        """The largest error of a value in a product that is not `precise`; 0 if all are."""

    def block(self, rows: Positions, *, precise: bool) -> tuple[Matrix, Positions]:
        """A square matrix that holds the pairs of these rows, and where each row is in it."""

    def times(
        self, rows: Positions, factors: Array, *, precise: bool, at: Positions | None = None
    ) -> Array:
        """The sum of some rows, each times its factor, at some columns or all of them."""

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """A matrix that serves for problems of these rows alone, and where each row is in it."""


class StoredMatrix:
    """A symmetric matrix in memory."""

    def __init__(self, values: Matrix) -> None:
        kept = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        self.values = kept if kept.strides[1] == kept.itemsize else np.ascontiguousarray(kept)

    @cached_property
    def has_single(self) -> bool:
        """Whether float32 is quicker, and has the range."""
        if self.values.dtype == np.float32:
            return False
        largest = float(np.abs(self.values.diagonal()).max(initial=0.0))
        if not SMALLEST < largest < LARGEST:
            return False
        some = np.unique(np.linspace(0, self.size - 1, min(self.size, _SAMPLE)).astype(np.int64))
        part = self.values[np.ix_(some, some)]
        return is_faithful(part, part.astype(np.float32))

    @property
    def rounding(self) -> float:
        """Nothing: products are those of the values as they are."""
        return 0.0

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.values)

    def block(self, rows: Positions, *, precise: bool) -> tuple[Matrix, Positions]:
        """The matrix itself: the engine rounds what it reads."""
        return self.values, rows

    def times(
        self, rows: Positions, factors: Array, *, precise: bool, at: Positions | None = None
    ) -> Array:
        """The sum of some rows, each times its factor."""
        total = np.zeros(self.size)
        _core.row_sum(self.values, rows, factors, total, thread_count())
        return total if at is None else total[at]

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """The matrix itself."""
        return self, rows


@dataclass(frozen=True)
class BoxProgramme:
    """What is minimised, in coefficients b of kernel rows."""

    rows: Positions  # (m,): the row of the matrix that each variable belongs to
    linear: Array  # (m,): the linear term c
    lower: Array  # (m,): the box, which has to be finite to be solved
    upper: Array  # (m,): the box, which has to be finite to be solved
    start: Array  # (m,): A point in the box; its sums are those that are kept
    # the first so many variables keep one sum and the others another; one sum of all by default
    n_first: int | None = None

    @property
    def groups(self) -> tuple[slice, ...]:
        """The variables of every sum."""
        if self.n_first is None:
            return (slice(0, len(self.rows)),)
        return slice(0, self.n_first), slice(self.n_first, len(self.rows))

    @property
    def is_bounded(self) -> bool:
        """Whether the box is finite."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def within(self, bound: float) -> BoxProgramme:
        """The same in a smaller box."""
        lower, upper = np.maximum(self.lower, -bound), np.minimum(self.upper, bound)
        return replace(self, lower=lower, upper=upper)

    @property
    def unit(self) -> float:
        """The size of the linear term and of the start, a power of two; 1 if that is ordinary."""
        largest = max(float(np.abs(self.linear).max()), float(np.abs(self.start).max()))
        if largest == 0 or 1 / _ORDINARY < largest < _ORDINARY:
            return 1.0
        return float(2.0 ** np.clip(np.round(np.log2(largest)), -1000, 1000))

    def scaled(self, factor: float) -> BoxProgramme:
        """The same in another unit of the variables, which is that of the linear term too."""
        scaled = {
            name: getattr(self, name) * factor for name in ("linear", "lower", "upper", "start")
        }
        return replace(self, **scaled)

    def feasible(self, near: Array) -> Array:
        """A point in the box with the sums of the start."""
        return feasible(self, near, np.array([group.start for group in self.groups]))


def feasible(programme: BoxProgramme, near: Array, starts: Positions) -> Array:
    """A point in a box whose stretches have the sums of the start."""
    found = np.clip(near, programme.lower, programme.upper)
    sizes = np.diff(np.append(starts, len(found)))
    lack = reduced(np.add, programme.start, starts) - reduced(np.add, found, starts)
    room = np.where(np.repeat(lack > 0, sizes), programme.upper, programme.lower) - found
    total = reduced(np.add, room, starts)
    share = np.divide(lack, total, out=np.zeros(len(lack)), where=total != 0)
    return np.asarray(found + room * np.repeat(np.minimum(share, 1.0), sizes))


def reduced(operation: np.ufunc, values: Array, starts: Positions) -> Array:
    """Sums or extremes of stretches of variables."""
    if len(starts) <= 2:
        return np.array([operation.reduce(part) for part in np.split(values, starts[1:])])
    return np.asarray(operation.reduceat(values, starts))


@dataclass(frozen=True)
class BoxSolution:
    """A point in the box, and how good it is."""

    coefficients: Array  # (m,): the variables b
    # (n,): the matrix times the coefficients of its rows: in float64 where a coefficient is not
    # zero, or where rounding could matter for what follows; elsewhere it may be rounded to float32
    product: Array
    levels: tuple[float, ...]  # for every group the multiplier of its sum: an intercept
    squared_norm: float  # the coefficients times their product with the matrix
    objective: float  # what is minimised
    # the objective is at most this much above its minimum, if the matrix is positive semi-definite
    dual_gap: float
    # the most that an exchange between two variables gains for a unit that is exchanged
    violation: float
    n_iter: int  # the number of exchanges
    converged: bool  # whether the violation is as small as was asked

    def scaled(self, factor: float) -> BoxSolution:
        """The same in another unit of the variables."""
        return replace(
            self,
            coefficients=self.coefficients * factor,
            product=self.product * factor,
            levels=tuple(level * factor for level in self.levels),
            squared_norm=self.squared_norm * factor * factor,
            objective=self.objective * factor * factor,
            dual_gap=self.dual_gap * factor * factor,
            violation=self.violation * factor,
        )
