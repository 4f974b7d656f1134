"""Dual problems of support vector machines, and the functions that their solutions stand for.

All are written in the coefficients b of f = sum_i b_i k(., x_i), for which the classes are signs:
each is a box, a linear term, and sums that have to stay as they are.

References
----------
.. [1] C.-C. Chang, C.-J. Lin (2011). LIBSVM: a library for support vector machines. ACM
   Transactions on Intelligent Systems and Technology 2(3).
.. [2] D. Tax, R. Duin (2004). Support vector data description. Machine Learning 54.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.models.svm.functions import Machines, Rows
from mercer.solvers.box_qp.problem import BoxProgramme, reduced
from mercer.solvers.box_qp.programmes import BoxProgrammes, BoxSolutions, edges_of, stretches

Array = NDArray[np.float64]

# Distances less than this share of what the function varies by, and margins and distances less than
# this share of the sum of its terms if none cancelled, are hardly there; and what rounding leaves.
_OF_SPREAD, _OF_TERMS, _OF_ROUNDING = 0.01, 1e-6, 1e-11


class Dual(ABC):
    """Dual problems of one kind, the rows of one after those of another; mostly it is one."""

    rows: Rows

    @cached_property
    def edges(self) -> Rows:
        """Where the rows of each problem begin, and where the last ones end."""
        return np.array([0, len(self.rows)])

    def __len__(self) -> int:
        """The number of problems."""
        return len(self.edges) - 1

    def some(self, numbers: Rows) -> Dual:
        """Some of the problems; where there is one, that one."""
        return self

    @abstractmethod
    def programmes(self) -> BoxProgrammes:
        """The problems, each with a place to start."""

    def units(self, found: BoxSolutions, largest: Callable[[], Array]) -> Array:
        """The units in which functions are measured: their margins, if these are 1 there.

        Beside the solutions there is a function that finds the largest value of the kernel for
        each.
        """
        return np.ones(len(self))

    def machines(
        self, programmes: BoxProgrammes, found: BoxSolutions, products: Array | None = None
    ) -> Machines:
        """The functions that solutions stand for; products are their values at some rows."""
        return replace(
            Machines.unsolved(len(self)),
            rows=programmes.variables.rows,
            dual=found.coefficients,
            which=programmes.which,
            intercept=found.levels[:, 0],
            products=products,
            objective=found.objective,
            gap=found.dual_gap,
            n_iter=found.n_iter,
            converged=found.converged,
            squared_norm=found.squared_norm,
        )


@dataclass(frozen=True, eq=False)
class TwoClasses(Dual):
    """Two classes in each of several problems."""

    rows: Rows  # (m,): the rows, problem by problem
    signs: Array  # (m,): their classes y_i, -1 and 1
    costs: Array  # (m,): what errors cost, C_i
    sizes: Rows  # (n_problems,): how many rows each problem has

    @cached_property
    def edges(self) -> Rows:
        """Where the rows of each problem begin, and where the last ones end."""
        return edges_of(self.sizes)

    def some(self, numbers: Rows) -> Self:
        """Some of the problems, in this order."""
        if len(numbers) == len(self) and (np.diff(numbers) > 0).all():
            return self
        sizes = self.sizes[numbers]
        own = stretches(self.edges[numbers], sizes)
        return replace(
            self, rows=self.rows[own], signs=self.signs[own], costs=self.costs[own], sizes=sizes
        )


@dataclass(frozen=True, eq=False)
class Classes(TwoClasses):
    """The length of f is to be small, and sum_i y_i b_i large; 0 <= y_i b_i <= C_i."""

    def programmes(self) -> BoxProgrammes:
        """From zero."""
        bounds = self.signs * self.costs
        variables = BoxProgramme(
            self.rows,
            -self.signs,
            np.minimum(bounds, 0.0),
            np.maximum(bounds, 0.0),
            np.zeros(len(self.rows)),
        )
        return BoxProgrammes(variables, self.sizes)


@dataclass(frozen=True, eq=False)
class NuClasses(TwoClasses):
    """A share nu at most of the rows may lie within the margin."""

    nu: float  # the share; `largest` in its place if it is more

    @property
    def largest(self) -> Array:
        """The largest shares that there are functions for: twice those of the smaller classes."""
        above = self._sums(np.where(self.signs > 0, self.costs, 0.0))
        below = self._sums(np.where(self.signs > 0, 0.0, self.costs))
        return np.asarray(2 * np.minimum(above, below) / (above + below))

    def _sums(self, values: NDArray[Any]) -> Array:
        return reduced(np.add, values.astype(np.float64, copy=False), self.edges[:-1])

    def programmes(self) -> BoxProgrammes:
        """The first rows of each class, up to the sum that each must have."""
        which = np.repeat(np.arange(len(self)), self.sizes)
        order = np.lexsort((-self.signs, which))
        above = self.signs[order] > 0
        firsts = self._sums(above).astype(np.int64)
        # The margin is the unit in the end, so that weights may have any.
        weights = self.costs[order] / reduced(np.maximum, self.costs, self.edges[:-1])[which]
        # Without some of its rows, the smaller class may be too small for the share.
        wanted = np.minimum(self.nu, self.largest) * self._sums(weights) / 2
        sides = np.stack([firsts, self.sizes - firsts], axis=1).ravel()
        start = filled(weights, np.repeat(wanted, 2), sides)
        variables = BoxProgramme(
            self.rows[order],
            np.zeros(len(order)),
            np.where(above, 0.0, -weights),
            np.where(above, weights, 0.0),
            np.where(above, start, -start),
        )
        return BoxProgrammes(variables, self.sizes, firsts)

    def units(self, found: BoxSolutions, largest: Callable[[], Array]) -> Array:
        """The margins that were found; less as long as the gap leaves open whether there is one."""
        margins, terms = self._margins(found), _terms(found, largest())
        above, below = found.levels.T
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            ratios = np.maximum(found.objective, 0.0) / found.dual_gap
            known = np.where(found.dual_gap == 0, 0.0, ratios) * (below - above) / 2
        units = np.where(
            margins > 0,
            np.maximum(margins, _OF_TERMS * terms),
            np.maximum(known, _OF_ROUNDING * terms),
        )
        return np.where(units == 0, 1.0, units)

    @staticmethod
    def _margins(found: BoxSolutions) -> Array:
        """Zero unless there is one for sure: without, the minimum of the problem is zero."""
        above, below = found.levels.T
        is_sure = found.objective > found.dual_gap
        return np.where(is_sure, np.maximum((below - above) / 2, 0.0), 0.0)

    def machines(
        self, programmes: BoxProgrammes, found: BoxSolutions, products: Array | None = None
    ) -> Machines:
        """In units of the margins that were found; as they are where there is none."""
        margins = self._margins(found)
        has_margin = margins > 0
        plain = super().machines(programmes, found, products)
        return replace(
            plain,
            intercept=found.levels.mean(axis=1),
            converged=plain.converged & has_margin,
            has_margin=has_margin,
        ).scaled(1 / np.where(has_margin, margins, 1.0))


@dataclass(frozen=True, eq=False)
class Tube(Dual):
    """Targets, from which f may differ by epsilon for nothing."""

    rows: Rows
    targets: Array  # their targets
    costs: Array  # the largest coefficient of each, in absolute value
    epsilon: float  # half the width of the tube

    def programmes(self) -> BoxProgrammes:
        """Two variables for each row: above the tube, and below it."""
        n = len(self.rows)
        programme = BoxProgramme(
            np.tile(self.rows, 2),
            np.concatenate([self.epsilon - self.targets, -self.epsilon - self.targets]),
            np.concatenate([np.zeros(n), -self.costs]),
            np.concatenate([self.costs, np.zeros(n)]),
            np.zeros(2 * n),
        )
        return BoxProgrammes.of([programme])


@dataclass(frozen=True, eq=False)
class NuTube(Dual):
    """Targets, with a tube that a share nu of the rows at most may leave."""

    rows: Rows
    targets: Array  # their targets
    costs: Array  # the largest coefficient of each, in absolute value
    nu: float  # the share

    def programmes(self) -> BoxProgrammes:
        """Both variables of the first rows, up to the sum that they must have."""
        n = len(self.rows)
        start = filled(self.costs, self.nu * self.costs.sum() / 2)
        programme = BoxProgramme(
            np.tile(self.rows, 2),
            np.tile(-self.targets, 2),
            np.concatenate([np.zeros(n), -self.costs]),
            np.concatenate([self.costs, np.zeros(n)]),
            np.concatenate([start, -start]),
            n,
        )
        return BoxProgrammes.of([programme])

    def machines(
        self, programmes: BoxProgrammes, found: BoxSolutions, products: Array | None = None
    ) -> Machines:
        """With the tube that was found."""
        above, below = found.levels.T
        return replace(
            super().machines(programmes, found, products),
            intercept=(above + below) / 2,
            epsilon=(above - below) / 2,
        )


@dataclass(frozen=True, eq=False)
class Half(Dual):
    """One class, all but a share nu of whose rows a plane separates from the origin."""

    rows: Rows
    weights: Array  # their weights
    nu: float  # the share

    def programmes(self) -> BoxProgrammes:
        """The first rows, up to the sum that they must have."""
        zeros, weights = np.zeros(len(self.rows)), self.weights / self.weights.max()
        start = filled(weights, self.nu * weights.sum())
        return BoxProgrammes.of([BoxProgramme(self.rows, zeros, zeros, weights, start)])

    def machines(
        self, programmes: BoxProgrammes, found: BoxSolutions, products: Array | None = None
    ) -> Machines:
        """In the unit of the weights, of which the tolerance knows nothing."""
        unit = np.array([self.weights.max()])
        return replace(super().machines(programmes, found, products).scaled(unit), scale=unit)

    def units(self, found: BoxSolutions, largest: Callable[[], Array]) -> Array:
        """The distance of the plane, if that is less than 1 and the rows are not on both sides."""
        spread = float(np.ptp(found.product))
        least = np.maximum(_OF_SPREAD * spread, _OF_TERMS * _terms(found, largest()))
        distance = np.maximum(np.abs(found.levels[:, 0]), least)
        return np.where(distance == 0, 1.0, np.minimum(distance, 1.0))


@dataclass(frozen=True, eq=False)
class Ball(Dual):
    """One class, all but a share nu of whose rows lie in the smallest ball.

    With coefficients that sum to 1, the squared distance of a row from the centre is
    k(x, x) - 2 sum_i b_i k(x, x_i) + |centre|^2.
    """

    rows: Rows
    weights: Array  # their weights
    nu: float  # the share
    diagonal: Array  # the k(x_i, x_i)

    def programmes(self) -> BoxProgrammes:
        """The first rows, up to a sum of 1."""
        costs = self.weights / (self.nu * self.weights.sum())
        programme = BoxProgramme(
            self.rows, -self.diagonal / 2, np.zeros(len(costs)), costs, filled(costs, 1.0)
        )
        return BoxProgrammes.of([programme])

    def units(self, found: BoxSolutions, largest: Callable[[], Array]) -> Array:
        """The squared radius, if that is less than 1."""
        squared = found.squared_norm + 2 * found.levels[:, 0]
        return np.where(squared > 0, np.minimum(squared, 1.0), 1.0)


def _terms(found: BoxSolutions, largest: Array) -> Array:
    """The sums of functions' terms, if none of them cancelled."""
    return largest * found.absolute_sums


def filled(upper: Array, totals: Array | float, sizes: Rows | None = None) -> Array:
    """The largest values from the first on, as far as their sum allows."""
    sizes = np.array([len(upper)]) if sizes is None else sizes
    begins, before = edges_of(sizes)[:-1], np.zeros(len(upper))
    # One sum over all stretches would leave its rounding in each of them.
    for size in np.unique(sizes):
        alike = begins[sizes == size, None] + np.arange(size)
        before[alike[:, 1:]] = np.cumsum(upper[alike], axis=1)[:, :-1]
    left = np.repeat(np.broadcast_to(totals, len(sizes)), sizes) - before
    return np.clip(left, 0.0, upper)
