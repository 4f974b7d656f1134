r"""Quadratic programmes with boxes and sums: the duals of support vector machines.

In the coefficients b of an expansion over kernel rows r, all of them read

.. math:: \min_b\; \tfrac12 \sum_{ij} b_i b_j K_{r_i r_j} + c^\top b \qquad \text{subject to}
   \qquad l \le b \le u, \quad \textstyle\sum_{i \in g} b_i = \text{constant for every group } g.

A regression has two variables for each row, and yet no matrix of twice the size. Every round takes
the variables that violate the conditions of the optimum most, and those between their bounds, into
a working set; the engine solves for these by exchanges between pairs [1]_; one product with the
matrix then corrects the gradient of all variables, so that nothing is ever left out of the check.
Working sets grow with the number of variables between bounds: larger ones cost more for each
exchange, smaller ones need many more rounds.

Kernel values are of float32 at first, where they serve. At the end the gradient is computed once
more in float64, and where this shows violations the rounds go on in float64.

.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin (2005). Working set selection using second order
   information for training support vector machines. Journal of Machine Learning Research 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.parallel import thread_count

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]

# Variables of a working set: those of the first round, new ones of later rounds (also relative to
# those between bounds), the least and the most of all.
_FIRST = 1536
_NEW = 512
_GROWTH = 1.0
_LEAST = 512
_MOST = 8192
# Up to so many variables, all of them are the working set.
_AT_ONCE = 1536
# An inner problem is solved to this share of the violation before, and no further than this share
# of the tolerance.
_SHARE = 0.05
_CLOSE = 0.5
# A little less than what is asked, so that another way to round does not miss it.
_NEARLY = 0.9
# Violations that rounding to float32 may cause, relative to the gradient.
_NOISE = 1e-6
# What a precision, float64 or not, can show of a smaller objective, relative to it; and rounds
# without one after which it has given what it can.
_VISIBLE = {False: 1e-8, True: 1e-14}
_PATIENCE = {False: 10, True: 100}


class SymmetricMatrix(Protocol):
    """A symmetric matrix of which blocks and products can be had."""

    @property
    def size(self) -> int:
        """The number of rows."""

    @property
    def has_single(self) -> bool:
        """Whether float32 is quicker than float64, and serves to begin with."""

    def block(self, rows: Positions, *, precise: bool) -> tuple[Matrix, Positions]:
        """A square matrix that holds the pairs of these rows, and where each row is in it."""

    def times(self, rows: Positions, factors: Array, *, precise: bool) -> Array:
        """The sum of some rows, each times its factor; in float64 if `precise`."""


class StoredMatrix:
    """A symmetric matrix in memory.

    Parameters
    ----------
    values : ndarray of shape (n, n)
        Of float32 or float64, which is taken for exact.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.smo import StoredMatrix
    >>> StoredMatrix(np.eye(3)).times(np.array([1]), np.array([2.0]), precise=True)
    array([0., 2., 0.])
    """

    has_single = False

    def __init__(self, values: Matrix) -> None:
        kept = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        self.values = kept if kept.strides[1] == kept.itemsize else np.ascontiguousarray(kept)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.values)

    def block(self, rows: Positions, *, precise: bool) -> tuple[Matrix, Positions]:
        """The matrix itself.

        Parameters
        ----------
        rows : ndarray of int
            The rows.
        precise : bool
            Makes no difference.

        Returns
        -------
        values : ndarray of shape (n, n)
            The matrix.
        rows : ndarray of int
            The rows.
        """
        return self.values, rows

    def times(self, rows: Positions, factors: Array, *, precise: bool) -> Array:
        """The sum of some rows, each times its factor.

        Parameters
        ----------
        rows : ndarray of int
            The rows.
        factors : ndarray of float64
            A factor for each.
        precise : bool
            Makes no difference.

        Returns
        -------
        ndarray of shape (n,)
            In float64.
        """
        total = np.zeros(self.size)
        _core.row_sum(self.values, rows, factors, total, thread_count())
        return total


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
        The box, finite.
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
        coefficients = np.clip(near, self.lower, self.upper)
        for group in self.groups:
            lack = float(self.start[group].sum() - coefficients[group].sum())
            limit = self.upper[group] if lack > 0 else self.lower[group]
            room = limit - coefficients[group]
            total = float(room.sum())
            if total:
                coefficients[group] += room * min(1.0, lack / total)
        return coefficients


@dataclass(frozen=True)
class BoxSolution:
    """A point in the box, and how good it is.

    Attributes
    ----------
    coefficients : ndarray of shape (m,)
        The variables b.
    product : ndarray of shape (n,)
        The matrix times the coefficients of its rows, in float64.
    levels : tuple of float
        For every group the multiplier of its sum: an intercept.
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
    objective: float
    dual_gap: float
    violation: float
    n_iter: int
    converged: bool


def solve(
    programme: BoxProgramme,
    matrix: SymmetricMatrix,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    near: Array | None = None,
    report: Callable[[Callable[[], BoxSolution]], bool] | None = None,
) -> BoxSolution:
    """Minimise, up to violations of the tolerance.

    Parameters
    ----------
    programme : BoxProgramme
        The problem.
    matrix : SymmetricMatrix
        The matrix K.
    tol : float
        The violation that is allowed.
    max_iter : int, optional
        The largest number of exchanges; by default ten million, or a hundred for each variable.
    near : ndarray of shape (m,), optional
        Where to begin, made feasible first.
    report : callable, optional
        Called after every round with a function that returns the solution as it is; stops if it
        returns True.

    Returns
    -------
    BoxSolution
        The best that was found.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.smo import BoxProgramme, StoredMatrix, solve
    >>> sign = np.array([1.0, -1.0])
    >>> box = {"lower": np.minimum(sign, 0), "upper": np.maximum(sign, 0), "start": np.zeros(2)}
    >>> problem = BoxProgramme(rows=np.arange(2), linear=-sign, **box)
    >>> found = solve(problem, StoredMatrix(np.array([[4.0, 0.0], [0.0, 4.0]])))
    >>> found.coefficients
    array([ 0.25, -0.25])
    """
    limit = max(10_000_000, 100 * len(programme.rows)) if max_iter is None else max_iter
    ascent = _Ascent(programme, matrix, tol, limit, near)
    precise = not matrix.has_single
    ascent.climb(precise=precise, report=report)
    if not precise:
        ascent.refresh()
        ascent.climb(precise=True, report=report)
    return ascent.solution()


class _Ascent:
    """The variables on their way: how far each may rise and fall, and the product with K."""

    def __init__(
        self,
        programme: BoxProgramme,
        matrix: SymmetricMatrix,
        tol: float,
        limit: int,
        near: Array | None,
    ) -> None:
        self._programme = programme
        self._matrix = matrix
        self._tol = tol
        self._left = self._limit = limit
        start = programme.start if near is None else programme.feasible(near)
        self._up, self._down = programme.upper - start, start - programme.lower
        self._product: Array = np.zeros(matrix.size)
        self._working: Positions = np.empty(0, np.int64)
        self._stopped = False
        self.refresh(precise=not matrix.has_single)

    # The state
    # -----------------------------------------------------------------------------------------

    def coefficients(self) -> Array:
        """The variables, measured from the bound that is zero, where one is: no digits are lost."""
        lower, upper = self._programme.lower, self._programme.upper
        between = np.where(upper == 0, -self._up, lower + self._down)
        return np.where(self._up == 0, upper, np.where(self._down == 0, lower, between))

    def refresh(self, *, precise: bool = True) -> None:
        """Compute the product from nothing."""
        weights = self._by_rows(self._programme.rows, self.coefficients())
        rows = np.flatnonzero(weights)
        self._product = (
            self._matrix.times(rows, weights[rows], precise=precise)
            if len(rows)
            else np.zeros(self._matrix.size)
        )

    def _by_rows(self, rows: Positions, values: Array) -> Array:
        return np.bincount(rows, weights=values, minlength=self._matrix.size).astype(np.float64)

    def _ascents(self) -> Array:
        """What the objective falls by for each variable, for a unit."""
        return -(self._product[self._programme.rows] + self._programme.linear)

    def _extremes(self, ascents: Array) -> tuple[Array, Array, list[tuple[float, float]]]:
        """The ascents of those that may rise and of those that may fall, and their extremes."""
        rising = np.where(self._up > 0, ascents, -np.inf)
        falling = np.where(self._down > 0, ascents, np.inf)
        groups = self._programme.groups
        extremes = [
            (float(rising[g].max(initial=-np.inf)), float(falling[g].min(initial=np.inf)))
            for g in groups
        ]
        return rising, falling, extremes

    def _objective(self, coefficients: Array) -> float:
        products = self._product[self._programme.rows]
        return float(coefficients @ (products / 2 + self._programme.linear))

    # Rounds
    # ----------------------------------------------------------------------------------------

    def climb(
        self, *, precise: bool, report: Callable[[Callable[[], BoxSolution]], bool] | None
    ) -> None:
        """Rounds until the violation is small, or the objective no longer becomes smaller."""
        best, patience = np.inf, _PATIENCE[precise]
        while self._left > 0 and not self._stopped:
            ascents = self._ascents()
            rising, falling, extremes = self._extremes(ascents)
            violation = max(high - low for high, low in extremes)
            if violation <= self._target(ascents, precise=precise):
                return
            objective = self._objective(self.coefficients())
            shown = objective < best - _VISIBLE[precise] * abs(objective)
            patience, best = _PATIENCE[precise] if shown else patience - 1, min(best, objective)
            if patience == 0:
                return
            self._choose(rising, falling, extremes)
            self._round(ascents, violation, precise=precise)
            self._stopped = report is not None and report(self.solution)

    def _target(self, ascents: Array, *, precise: bool) -> float:
        if precise:
            return self._tol
        return max(_NEARLY * self._tol, _NOISE * float(np.abs(ascents).max()))

    def _round(self, ascents: Array, violation: float, *, precise: bool) -> None:
        working = self._working
        rows = self._programme.rows[working]
        values, positions = self._matrix.block(rows, precise=precise)
        n_first = self._programme.n_first
        split = len(working) if n_first is None else int(np.searchsorted(working, n_first))
        up, down = self._up[working], self._down[working]
        before = up - down
        if len(self._up) <= _AT_ONCE:
            tolerance = _NEARLY * self._tol
        else:
            tolerance = max(_CLOSE * self._tol, _SHARE * violation)
        steps, _ = _core.smo(
            values, positions, split, ascents[working], up, down, tolerance, self._left
        )
        self._left -= max(steps, 1)
        changes = self._by_rows(rows, (before - (up - down)) / 2)
        changed = np.flatnonzero(changes)
        self._product += self._matrix.times(changed, changes[changed], precise=precise)
        self._up[working], self._down[working] = up, down

    def _choose(self, rising: Array, falling: Array, extremes: list[tuple[float, float]]) -> None:
        """The next working set: the worst violators, those between bounds, and some of the last."""
        m = len(rising)
        if m <= _AT_ONCE:
            self._working = np.flatnonzero((self._up > 0) | (self._down > 0))
            return
        rank = np.zeros(m, np.int8)
        rank[self._working] = 1
        between = (self._up > 0) & (self._down > 0)
        rank[between] += 2
        wanted = max(_NEW, int(_GROWTH * between.sum())) if len(self._working) else _FIRST
        # At most half of the set, so that the worst are in it whatever else is.
        count = min(wanted, _MOST // 2) // (2 * len(extremes))
        for group, (high, low) in zip(self._programme.groups, extremes, strict=True):
            top = group.start + _smallest(-rising[group], count)
            bottom = group.start + _smallest(falling[group], count)
            rank[top[rising[top] > low]] = 4
            rank[bottom[falling[bottom] < high]] = 4
        sizes = np.bincount(rank, minlength=5)
        chosen = rank >= 2 if sizes[2:].sum() <= _MOST else rank >= 3
        self._working = _at_most(_MOST, rank, np.flatnonzero(chosen))
        if len(self._working) < _LEAST:
            others = np.flatnonzero(rank == 1)[: _LEAST - len(self._working)]
            self._working = np.sort(np.concatenate([self._working, others]))

    # The result
    # ------------------------------------------------------------------------------------

    def solution(self) -> BoxSolution:
        """The solution as it is now."""
        ascents = self._ascents()
        _, _, extremes = self._extremes(ascents)
        violation = max(0.0, *(high - low for high, low in extremes))
        levels = tuple(
            self._level(ascents[g], self._up[g], self._down[g]) for g in self._programme.groups
        )
        gap = sum(
            _gap(ascents[g] - level, self._up[g], self._down[g])
            for g, level in zip(self._programme.groups, levels, strict=True)
        )
        coefficients = self.coefficients()
        return BoxSolution(
            coefficients=coefficients,
            product=self._product,
            levels=levels,
            objective=self._objective(coefficients),
            dual_gap=gap,
            violation=violation,
            n_iter=self._limit - max(self._left, 0),
            converged=violation <= self._tol,
        )

    @staticmethod
    def _level(ascents: Array, up: Array, down: Array) -> float:
        """The ascent of the variables between bounds, else the middle of what is possible."""
        free = (up > 0) & (down > 0)
        if free.any():
            return float(ascents[free].mean())
        high = float(ascents[up > 0].max(initial=-np.inf))
        low = float(ascents[down > 0].min(initial=np.inf))
        if np.isfinite(high) and np.isfinite(low):
            return (high + low) / 2
        return next((end for end in (high, low) if np.isfinite(end)), 0.0)


def _gap(slopes: Array, up: Array, down: Array) -> float:
    """What every variable could gain on its own at this multiplier: the duality gap."""
    return float(np.maximum(slopes, 0.0) @ up - np.minimum(slopes, 0.0) @ down)


def _smallest(values: Array, count: int) -> Positions:
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(values, count)[:count]


def _at_most(limit: int, rank: NDArray[np.int8], chosen: Positions) -> Positions:
    """No more than the limit, those of the highest rank first."""
    if len(chosen) <= limit:
        return chosen
    order = np.argsort(-rank[chosen], kind="stable")
    return np.sort(chosen[order[:limit]])
