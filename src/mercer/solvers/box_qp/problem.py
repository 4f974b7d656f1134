"""Quadratic programs with box constraints and fixed sums, their solutions, and certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Float64Array as Array

Flags = NDArray[np.bool_]
Positions = NDArray[np.int64]

# Rounding error of a sum, relative to the sum of its absolute terms.
EPS = 16 * float(np.finfo(np.float64).eps)
# Shares of the largest slope by which a function with a wide gap may be scaled up: a half where
# rows violate the margin on both sides, slightly more than all where they do on one side.
_SHARES = (0.5, 1.01)


@dataclass(frozen=True, eq=False)
class BoxQP:
    """Minimise b'Kb / 2 + c'b within a box, with fixed sums: one problem, or several side by side.

    The variables of several problems follow each other, and do not interact.
    """

    rows: Positions  # (m,): the row of the kernel matrix that each variable belongs to
    linear: Array  # (m,): the linear term c
    lower: Array  # (m,): the lower bounds
    upper: Array  # (m,): the upper bounds
    start: Array  # (m,): a feasible point, whose sums are kept
    # (n_problems, n_sums): the first variable of every sum, which ends where the next one begins
    groups: Positions

    @property
    def sizes(self) -> Positions:
        """The number of variables of each problem."""
        return np.diff(np.append(self.groups[:, 0], len(self.rows)))

    @property
    def group_sizes(self) -> Positions:
        """The number of variables of each sum."""
        return np.diff(np.append(self.groups.ravel(), len(self.rows)))

    @property
    def problem_of_variable(self) -> Positions:
        """The number of the problem that each variable belongs to."""
        return np.repeat(np.arange(len(self.groups)), self.sizes)

    def feasible(self, point: Array) -> Array:
        """A feasible point near the given one."""
        starts, sizes = self.groups.ravel(), self.group_sizes
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
    # The kernel matrix times the coefficients: at all rows for a problem that was solved alone (in
    # float32 where no more is needed), and at the variables for problems side by side.
    product: Array
    levels: Array  # (n_problems, n_sums): the Lagrange multipliers of the sums
    squared_norm: Array  # (n_problems,): b'Kb
    objective: Array  # (n_problems,): the value of the problem
    dual_gap: Array  # (n_problems,): an upper bound of the distance to the minimum, if K >= 0
    violation: Array  # (n_problems,): the largest slope of an exchange between two variables
    n_iter: Positions  # (n_problems,): the numbers of exchanges
    converged: Flags  # (n_problems,): whether the violation is at most the tolerance


# Certificates -------------------------------------------------------------------------------------


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

    `at_variables` is the product at the row of each variable, and `room` says how far variables may
    rise and fall. The gap is that of the function with these multipliers: its primal objective
    minus the dual one. A function with a gap wider than its objective is scaled up if that helps.
    """
    up, down = room
    problems = qp.groups[:, 0]
    ascents = -(at_variables + qp.linear)
    high, low = extremes(qp, ascents, up > 0, down > 0)
    violation = np.maximum((high - low).reshape(qp.groups.shape).max(axis=1), 0.0)
    squared_norm = reduced(np.add, coefficients * at_variables, problems)
    # The box of one sum may fix the other up to rounding: a variable that is that near to its
    # bound counts as if it were at it, so that it does not fix the multiplier.
    least = EPS * reduced(np.add, np.abs(coefficients), problems)
    least = least if len(least) == 1 else np.repeat(least, qp.sizes)
    rises, falls = up > least, down > least
    levels = _levels(qp, ascents, rises, falls)
    slopes = ascents - np.repeat(levels.ravel(), qp.group_sizes)
    solution = BoxSolution(
        coefficients,
        product,
        levels,
        squared_norm,
        reduced(np.add, coefficients * (at_variables / 2 + qp.linear), problems),
        _gaps(qp, slopes, room),
        violation,
        n_iter,
        violation <= tol,
    )
    wide = solution.dual_gap > np.abs(solution.objective)
    return _scaled_up(qp, solution, slopes, room, wide) if wide.any() else solution


def _gaps(qp: BoxQP, slopes: Array, room: tuple[Array, Array]) -> Array:
    """The duality gap of each problem: the sum of the gains of its variables at their slopes."""
    up, down = room
    # One of the two products is not negative: the gain in the direction of the slope.
    return reduced(np.add, np.maximum(slopes * up, -slopes * down), qp.groups[:, 0])


def _scaled_up(
    qp: BoxQP, solution: BoxSolution, slopes: Array, room: tuple[Array, Array], wide: Flags
) -> BoxSolution:
    """Solutions whose wide gaps are made smaller by a factor slightly above 1, within the box.

    If the linear term is a margin of the same size for all variables, and no variable is at a large
    bound, all rows are beyond the margin of a slightly larger function: none has a loss.
    """
    problems, margins = qp.groups[:, 0], np.abs(qp.linear)
    rising, falling = np.where(room[0] > 0, slopes, 0.0), np.where(room[1] > 0, -slopes, 0.0)
    worst = reduced(np.maximum, np.maximum(rising, falling), problems)
    margin = reduced(np.maximum, margins, problems)
    wide = wide & (margin == reduced(np.minimum, margins, problems)) & (worst <= margin / 4)
    factors, gaps = np.ones(len(wide)), solution.dual_gap
    for share in _SHARES:
        tried = 1 / (1 - share * np.where(wide, worst, 0.0) / np.where(wide, margin, 1.0))
        of_variables = np.repeat(tried, qp.sizes)
        larger = of_variables * solution.coefficients
        left = qp.upper - larger, larger - qp.lower
        fits = reduced(np.minimum, np.minimum(*left), problems) >= 0
        tried_gaps = _gaps(qp, of_variables * slopes + (of_variables - 1) * qp.linear, left)
        better = fits & (tried_gaps < gaps)
        factors, gaps = np.where(better, tried, factors), np.where(better, tried_gaps, gaps)
    of_variables = np.repeat(factors, qp.sizes)
    linear = solution.objective - solution.squared_norm / 2
    return replace(
        solution,
        coefficients=of_variables * solution.coefficients,
        product=(factors if len(factors) == 1 else of_variables) * solution.product,
        levels=factors[:, None] * solution.levels,
        squared_norm=factors**2 * solution.squared_norm,
        objective=factors**2 * solution.squared_norm / 2 + factors * linear,
        dual_gap=gaps,
    )


def reduced(operation: np.ufunc, values: Array, starts: Positions) -> Array:
    """Sums or extremes of the stretches of values that begin at `starts`."""
    if len(starts) == 1:
        return np.array([operation.reduce(values)])
    if len(starts) == 2:
        return np.array([operation.reduce(part) for part in np.split(values, starts[1:])])
    return np.asarray(operation.reduceat(values, starts))


def extremes(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> tuple[Array, Array]:
    """For every sum the largest ascent of variables that may rise, the least of those to fall."""
    starts = qp.groups.ravel()
    high = reduced(np.maximum, np.where(rises, ascents, -np.inf), starts)
    return high, reduced(np.minimum, np.where(falls, ascents, np.inf), starts)


def movable(
    qp: BoxQP, ascents: Array, room: tuple[Array, Array], exact: Flags, margin: float | Array
) -> Flags:
    """Variables that an exchange may move if ascents that are not exact err by at most a margin."""
    rises, falls = room[0] > 0, room[1] > 0
    high, low = extremes(qp, ascents, rises & exact, falls & exact)
    near = rises & (ascents >= np.repeat(low, qp.group_sizes) - margin)
    return near | falls & (ascents <= np.repeat(high, qp.group_sizes) + margin)


def _levels(qp: BoxQP, ascents: Array, rises: Flags, falls: Flags) -> Array:
    """Multipliers: the mean ascent of free variables, else the middle of the feasible interval."""
    starts, free = qp.groups.ravel(), rises & falls
    count = reduced(np.add, free.astype(np.float64), starts)
    total = reduced(np.add, np.where(free, ascents, 0.0), starts)
    ends = np.stack(extremes(qp, ascents, rises, falls))
    known = np.isfinite(ends)
    # An interval with one end has no middle, and that end serves; without ends, any level does.
    middle = np.where(known, ends, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    levels = np.where(count > 0, total / np.maximum(count, 1.0), middle)
    return levels.reshape(qp.groups.shape)
