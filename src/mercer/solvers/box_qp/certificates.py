"""How good points in boxes are: levels, violations and gaps of one problem, or of many at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.box_qp.problem import Array, Positions, reduced

# What rounding leaves of sums.
_EPS = 16 * float(np.finfo(np.float64).eps)
# Functions are made larger by these shares of the worst violation: a half for rows on both sides of
# a margin, and a little more than all of it, however it is rounded.
_OF_WORST = (0.5, 1.01)


@dataclass(frozen=True, eq=False)
class Certificates:
    """What can be said of points in the boxes of problems whose variables follow each other."""

    linear: Array  # (m,): the linear terms of all variables
    coefficients: Array  # (m,): the variables
    products: Array  # (m,): the matrix times the coefficients, at the variables
    up: Array  # (m,): how far the variables may rise and fall
    down: Array  # (m,): how far the variables may rise and fall
    # (n_problems, n_groups): the first variable of every group that keeps a sum; none is empty
    groups: Positions

    @cached_property
    def squared_norms(self) -> Array:
        """The coefficients times their products, of shape (n_problems,)."""
        return self._sums(self.coefficients * self.products)

    @cached_property
    def objectives(self) -> Array:
        """What is minimised, of shape (n_problems,)."""
        return self._sums(self.coefficients * (self.products / 2 + self.linear))

    @cached_property
    def violations(self) -> Array:
        """The most that an exchange between two variables gains for a unit; (n_problems,)."""
        high, low = self._extremes(self.up > 0, self.down > 0)
        # Of values that are not numbers none is small.
        worst = (high - low).reshape(self.groups.shape).max(axis=1)
        return np.asarray(np.maximum(worst, 0.0))

    @cached_property
    def levels(self) -> Array:
        """The multipliers of the sums, of shape (n_problems, n_groups).

        The ascent of the variables between bounds, else the middle of what is possible.
        """
        rises, falls = self._rooms
        free = rises & falls
        count = reduced(np.add, free.astype(np.float64), self._starts)
        total = reduced(np.add, np.where(free, self._ascents, 0.0), self._starts)
        high, low = self._extremes(rises, falls)
        ends = np.stack([high, low])
        known = np.isfinite(ends)
        # Of one end alone there is no middle; of none, any level will do.
        middle = np.where(known, ends, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.where(count > 0, total / np.maximum(count, 1.0), middle).reshape(
            self.groups.shape
        )

    @cached_property
    def gaps(self) -> Array:
        """The least that a function, or a multiple of it, shows of the distance to the minimum.

        The minimum is at least the value for t b of the objective's tangent: so the function t f
        gives the gap (1 - t)^2 b'Kb / 2 and what every variable could gain at its slopes. Where the
        linear term is a margin, the same for all, a function a little larger is beyond it in every
        row between its bounds; large bounds multiply no violations then.
        """
        slopes = self._ascents - np.repeat(self.levels.ravel(), np.diff(self._edges))
        found = self._gained(slopes)
        sizes, (rises, falls) = np.abs(self.linear), self._rooms
        largest, least = self._per_problem(np.maximum, sizes), self._per_problem(np.minimum, sizes)
        worst = self._per_problem(
            np.maximum,
            np.maximum(np.where(rises, slopes, 0.0), np.where(falls, -slopes, 0.0)),
        )
        # A margin that is the same for all, and near enough.
        serves = (largest > 0) & (largest == least) & ~(worst > largest / 4)
        if not serves.any():
            return found
        relative = np.where(serves, worst, 0.0) / np.where(serves, largest, 1.0)
        for share in _OF_WORST:
            more = 1 / (1 - share * relative) - 1
            larger = slopes + self._of_variables(more) * (slopes + self.linear)
            gap = more**2 * self.squared_norms / 2 + self._gained(larger)
            found = np.where(serves, np.minimum(found, gap), found)
        return found

    # Sums and extremes of stretches of variables --------------------------------------------------

    @cached_property
    def _ascents(self) -> Array:
        return -(self.products + self.linear)

    @cached_property
    def _rooms(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether variables may rise and fall by more than rounding.

        Bounds of two sides that have the same sum have it up to rounding, and so have exchanges: of
        variables that would all be at bounds one is left beside its own, and would fix the level.
        """
        least = self._of_variables(_EPS * self._sums(np.abs(self.coefficients)))
        return self.up > least, self.down > least

    @cached_property
    def _starts(self) -> Positions:
        return self.groups.ravel()

    @cached_property
    def _edges(self) -> Positions:
        return np.append(self._starts, len(self.linear))

    def _extremes(self, rises: NDArray[np.bool_], falls: NDArray[np.bool_]) -> tuple[Array, Array]:
        """The largest ascent of those that may rise, and the least of those that may fall."""
        rising = np.where(rises, self._ascents, -np.inf)
        falling = np.where(falls, self._ascents, np.inf)
        return (
            reduced(np.maximum, rising, self._starts),
            reduced(np.minimum, falling, self._starts),
        )

    def _gained(self, slopes: Array) -> Array:
        """What every variable could gain on its own at these multipliers: the duality gap."""
        # Of the two one is not negative: what there is to gain in the direction of the slope.
        return self._sums(np.maximum(slopes * self.up, -slopes * self.down))

    def _sums(self, values: Array) -> Array:
        return self._per_problem(np.add, values)

    def _per_problem(self, operation: np.ufunc, values: Array) -> Array:
        return reduced(operation, values, self.groups[:, 0])

    def _of_variables(self, values: Array) -> Array:
        """Values of the problems, for every variable of theirs."""
        if len(values) == 1:
            return values
        return np.repeat(values, self._sizes)

    @cached_property
    def _sizes(self) -> Positions:
        return np.diff(np.append(self.groups[:, 0], len(self.linear)))
