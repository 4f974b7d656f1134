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

    Parameters
    ----------
    exact : ndarray of shape (n, n)
        A symmetric matrix.
    rounded : ndarray of shape (n, n)
        The same in float32.

    Returns
    -------
    bool
        False if the curvatures lose their digits.
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

    Parameters
    ----------
    a, b : ndarray of shape (m,)
        The vectors.

    Returns
    -------
    float
        Their inner product.
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
    """A symmetric matrix in memory.

    Parameters
    ----------
    values : ndarray of shape (n, n)
        Of float32 or float64, which is taken for exact.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.box_qp.problem import StoredMatrix
    >>> StoredMatrix(np.eye(3)).times(np.array([1]), np.array([2.0]), precise=True)
    array([0., 2., 0.])
    """

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
        """The matrix itself: the engine rounds what it reads.

        Parameters
        ----------
        rows : ndarray of int
            The rows.
        precise : bool
            Of no effect.

        Returns
        -------
        values : ndarray of shape (n, n)
            The matrix.
        rows : ndarray of int
            The rows.
        """
        return self.values, rows

    def times(
        self, rows: Positions, factors: Array, *, precise: bool, at: Positions | None = None
    ) -> Array:
        """The sum of some rows, each times its factor.

        Parameters
        ----------
        rows : ndarray of int
            The rows.
        factors : ndarray of float64
            A factor for each.
        precise : bool
            Of no effect: the values are read as they are.
        at : ndarray of int, optional
            The columns; all by default.

        Returns
        -------
        ndarray of shape (n,) or of `at`
            In float64.
        """
        total = np.zeros(self.size)
        _core.row_sum(self.values, rows, factors, total, thread_count())
        return total if at is None else total[at]

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """The matrix itself.

        Parameters
        ----------
        rows : ndarray of int
            The rows.

        Returns
        -------
        matrix : StoredMatrix
            The same.
        rows : ndarray of int
            The same.
        """
        return self, rows


@dataclass(frozen=True)
class BoxProgramme:
    """What is minimised, in coefficients b of kernel rows.

    Attributes
    ----------
    rows : ndarray of int64 of shape (m,)
        The row of the matrix that each variable belongs to.
    linear : ndarray of shape (m,)
        The linear term c.
    lower, upper : ndarray of shape (m,)
        The box, which has to be finite to be solved.
    start : ndarray of shape (m,)
        A point in the box; its sums are those that are kept.
    n_first : int, optional
        The first so many variables keep one sum and the others another; one sum of all by default.
    """

    rows: Positions
    linear: Array
    lower: Array
    upper: Array
    start: Array
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
        """The same in a smaller box.

        Parameters
        ----------
        bound : float
            The largest absolute value of a variable.

        Returns
        -------
        BoxProgramme
            From the same start.
        """
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
        """The same in another unit of the variables, which is that of the linear term too.

        Parameters
        ----------
        factor : float
            What all are multiplied by.

        Returns
        -------
        BoxProgramme
            Its solution is the solution times the factor.
        """
        scaled = {
            name: getattr(self, name) * factor for name in ("linear", "lower", "upper", "start")
        }
        return replace(self, **scaled)

    def feasible(self, near: Array) -> Array:
        """A point in the box with the sums of the start.

        Parameters
        ----------
        near : ndarray of shape (m,)
            Coefficients, of a similar problem for example.

        Returns
        -------
        ndarray of shape (m,)
            These clipped, and moved in proportion to the room that is left.
        """
        return feasible(self, near, np.array([group.start for group in self.groups]))


def feasible(programme: BoxProgramme, near: Array, starts: Positions) -> Array:
    """A point in a box whose stretches have the sums of the start.

    Parameters
    ----------
    programme : BoxProgramme
        The box and the start.
    near : ndarray of shape (m,)
        Coefficients.
    starts : ndarray of int
        The first variable of every stretch that keeps a sum.

    Returns
    -------
    ndarray of shape (m,)
        The coefficients clipped, and moved in proportion to the room that is left.
    """
    found = np.clip(near, programme.lower, programme.upper)
    sizes = np.diff(np.append(starts, len(found)))
    lack = reduced(np.add, programme.start, starts) - reduced(np.add, found, starts)
    room = np.where(np.repeat(lack > 0, sizes), programme.upper, programme.lower) - found
    total = reduced(np.add, room, starts)
    share = np.divide(lack, total, out=np.zeros(len(lack)), where=total != 0)
    return np.asarray(found + room * np.repeat(np.minimum(share, 1.0), sizes))


def reduced(operation: np.ufunc, values: Array, starts: Positions) -> Array:
    """Sums or extremes of stretches of variables.

    Parameters
    ----------
    operation : numpy.ufunc
        `numpy.add`, or another of two arguments.
    values : ndarray of shape (m,)
        The values.
    starts : ndarray of int of shape (n,)
        The first position of every stretch, none of which is empty.

    Returns
    -------
    ndarray of shape (n,)
        One for each. Those of one or two stretches, which may be long, are summed in pairs: that
        keeps rounding small.
    """
    if len(starts) <= 2:
        return np.array([operation.reduce(part) for part in np.split(values, starts[1:])])
    return np.asarray(operation.reduceat(values, starts))


@dataclass(frozen=True)
class BoxSolution:
    """A point in the box, and how good it is.

    Attributes
    ----------
    coefficients : ndarray of shape (m,)
        The variables b.
    product : ndarray of shape (n,)
        The matrix times the coefficients of its rows: in float64 where a coefficient is not zero,
        or where rounding could matter for what follows; elsewhere it may be rounded to float32.
    levels : tuple of float
        For every group the multiplier of its sum: an intercept.
    squared_norm : float
        The coefficients times their product with the matrix.
    objective : float
        What is minimised.
    dual_gap : float
        The objective is at most this much above its minimum, if the matrix is positive
        semi-definite.
    violation : float
        The most that an exchange between two variables gains for a unit that is exchanged.
    n_iter : int
        The number of exchanges.
    converged : bool
        Whether the violation is as small as was asked.
    """

    coefficients: Array
    product: Array
    levels: tuple[float, ...]
    squared_norm: float
    objective: float
    dual_gap: float
    violation: float
    n_iter: int
    converged: bool

    def scaled(self, factor: float) -> BoxSolution:
        """The same in another unit of the variables.

        Parameters
        ----------
        factor : float
            What they are multiplied by.

        Returns
        -------
        BoxSolution
            That of a programme scaled by the factor.
        """
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
