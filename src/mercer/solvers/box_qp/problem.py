"""Quadratic programs with box constraints and fixed sums: problems, solutions, duality gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Positions = NDArray[np.int64]

# Rounding error of a sum, relative to the sum of its absolute terms.
_EPS = 16 * float(np.finfo(np.float64).eps)
# The gap is also computed for (1 + t) f, with t these shares of the worst violation: 1/2 if rows
# violate the margin on both sides, slightly more than 1 if they do on one side.
_SHARES_OF_WORST = (0.5, 1.01)


@dataclass(frozen=True, eq=False)
class BoxQP:
    """Minimise b'Kb / 2 + c'b within a box, with fixed sums: one problem or several.

    Several problems are independent, and their variables are concatenated.
    """

    rows: Positions  # (m,): the row of the kernel matrix that each variable belongs to
    linear: Array  # (m,): the linear term c
    lower: Array  # (m,)
    upper: Array  # (m,)
    start: Array  # (m,): a feasible point, which fixes the sums
    # (n_problems, n_sums): the first variable of every sum, which ends before that of the next sum
    groups: Positions

    @property
    def sizes(self) -> Positions:
        """The number of variables of each problem."""
        return np.diff(np.append(self.groups[:, 0], len(self.rows)))

    @property
    def problem_of_variable(self) -> Positions:
        """The number of the problem that each variable belongs to."""
        return np.repeat(np.arange(len(self.groups)), self.sizes)

    def within(self, bound: float) -> BoxQP:
        """The problem with all bounds clipped to at most `bound` in absolute value."""
        lower, upper = np.maximum(self.lower, -bound), np.minimum(self.upper, bound)
        return replace(self, lower=lower, upper=upper)

    def feasible(self, point: Array) -> Array:
        """A feasible point near the given one."""
        starts = self.groups.ravel()
        sizes = np.diff(np.append(starts, len(point)))
        clipped = np.clip(point, self.lower, self.upper)
        missing = reduced(np.add, self.start, starts) - reduced(np.add, clipped, starts)
        room = np.where(np.repeat(missing > 0, sizes), self.upper, self.lower) - clipped
        total = reduced(np.add, room, starts)
        share = np.divide(missing, total, out=np.zeros(len(missing)), where=total != 0)
        return np.asarray(clipped + room * np.repeat(np.minimum(share, 1.0), sizes))


@dataclass(frozen=True, eq=False)
class BoxSolution:
    """A feasible point of each problem, and how good it is."""

    coefficients: Array  # (m,): the variables b
    # The kernel matrix times the coefficients: at all rows for a single problem (in float32 where
    # that is accurate enough), at the variables for several problems.
    product: Array
    levels: Array  # (n_problems, n_sums): the Lagrange multipliers of the sums
    squared_norm: Array  # (n_problems,): b'Kb
    objective: Array  # (n_problems,): the value of the problem
    dual_gap: Array  # (n_problems,): an upper bound of the distance to the minimum, if K >= 0
    violation: Array  # (n_problems,): the largest violation of the optimality conditions by a pair
    n_iter: Positions  # (n_problems,): the numbers of exchanges
    converged: Flags  # (n_problems,): whether the violation is at most the tolerance


def evaluated(
    qp: BoxQP,
    coefficients: Array,
    product: Array,
    at_variables: Array,
    room: tuple[Array, Array],
    n_iter: Positions,
    tol: float | Array,
) -> BoxSolution:
    """Objective, violation, multipliers and gap of a feasible point.

    `at_variables` is the product at the row of each variable, and `room` the distances by which
    variables may rise and fall.
    """
    up, down = room
    problems = qp.groups[:, 0]
    ascents = -(at_variables + qp.linear)
    high, low = _extremes(qp, ascents, up > 0, down > 0)
    violation = np.maximum((high - low).reshape(qp.groups.shape).max(axis=1), 0.0)
    squared_norm = reduced(np.add, coefficients * at_variables, problems)
    # A variable within rounding of its bound counts as bounded, so that it does not fix the
    # multiplier.
    least = _EPS * reduced(np.add, np.abs(coefficients), problems)
    least = least if len(least) == 1 else np.repeat(least, qp.sizes)
    rises, falls = up > least, down > least
    levels = _levels(qp, ascents, rises, falls)
    slopes = ascents - np.repeat(
        levels.ravel(), np.diff(np.append(qp.groups.ravel(), len(ascents)))
    )
    worst = np.maximum(np.where(rises, slopes, 0.0), np.where(falls, -slopes, 0.0))
    return BoxSolution(
        coefficients,
        product,
        levels,
        squared_norm,
        reduced(np.add, coefficients * (at_variables / 2 + qp.linear), problems),
        _gaps(qp, slopes, room, reduced(np.maximum, worst, problems), squared_norm),
        violation,
        n_iter,
        violation <= tol,
    )


def reduced(operation: np.ufunc, values: Array, starts: Positions) -> Array:
    """Reduce the segments of values that begin at `starts`, to sums or extremes."""
    if len(starts) <= 2:
        return np.array([operation.reduce(part) for part in np.split(values, starts[1:])])
    return np.asarray(operation.reduceat(values, starts))


def _extremes(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> tuple[Array, Array]:
    """Per sum, the largest ascent of variables that may rise, the smallest of those to fall."""
    starts = qp.groups.ravel()
    high = reduced(np.maximum, np.where(rises, ascents, -np.inf), starts)
    return high, reduced(np.minimum, np.where(falls, ascents, np.inf), starts)


def _levels(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> Array:
    """Multipliers: the mean ascent of free variables, else the middle of the feasible interval."""
    starts, free = qp.groups.ravel(), rises & falls
    count = reduced(np.add, free.astype(np.float64), starts)
    total = reduced(np.add, np.where(free, ascents, 0.0), starts)
    ends = np.stack(_extremes(qp, ascents, rises, falls))
    known = np.isfinite(ends)
    # Of an interval with one finite end take that end; without a finite end take 0.
    middle = np.where(known, ends, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    levels = np.where(count > 0, total / np.maximum(count, 1.0), middle)
    return levels.reshape(qp.groups.shape)


def _gaps(
    qp: BoxQP, slopes: Array, room: tuple[Array, Array], worst: Array, squared_norm: Array
) -> Array:
    """Duality gaps: the smallest of those certified by f and by slightly larger multiples of f.

    The minimum is at least the value of the objective's tangent at t b, so that the function t f
    has the gap (1 - t)^2 b'Kb / 2, plus the gain of each variable along the gradient of t f. If the
    linear term is one margin for all variables, a slightly larger function is beyond the margin at
    all free variables, and no violation is multiplied by a large bound.
    """
    up, down = room
    problems = qp.groups[:, 0]
    # The larger of the two products is the gain of a variable in the direction of its slope.
    gaps = reduced(np.add, np.maximum(slopes * up, -slopes * down), problems)
    margins = np.abs(qp.linear)
    margin = reduced(np.maximum, margins, problems)
    equal = (margin > 0) & (margin == reduced(np.minimum, margins, problems))
    applies = equal & ~(worst > margin / 4)
    if not applies.any():
        return gaps
    relative = np.where(applies, worst, 0.0) / np.where(applies, margin, 1.0)
    for share in _SHARES_OF_WORST:
        growth = 1 / (1 - share * relative) - 1
        of_variables = growth if len(growth) == 1 else np.repeat(growth, qp.sizes)
        larger = slopes + of_variables * (slopes + qp.linear)
        gained = reduced(np.add, np.maximum(larger * up, -larger * down), problems)
        gap = growth**2 * squared_norm / 2 + gained
        gaps = np.where(applies, np.minimum(gaps, gap), gaps)
    return gaps
