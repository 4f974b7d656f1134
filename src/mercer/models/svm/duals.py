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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from mercer.solvers.boxes import BoxProgramme, BoxSolution

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

# Distances less than this share of what the function varies by, and margins and distances less than
# this share of the sum of its terms if none cancelled, are hardly there; and what rounding leaves.
_OF_SPREAD, _OF_TERMS, _OF_ROUNDING = 0.01, 1e-6, 1e-11
_EPS = float(np.finfo(np.float64).eps)
# Rounding that shows in values of functions, in their unit: the tolerance that is usual.
_SHOWN = 1e-3


@dataclass(frozen=True, eq=False)
class Machine:
    """A function f(x) = sum_i b_i k(x, x_i) + b that solves a dual problem.

    Attributes
    ----------
    rows : ndarray of int
        The rows x_i; some may be there twice.
    dual : ndarray
        The b_i.
    intercept : float
        The constant b.
    product : ndarray of shape (n,), optional
        f - b at all rows, those that the problem does not have among them.
    objective, gap : float
        The value of the dual problem, and how much less it could be at most.
    n_iter : int
        Steps of the solver.
    converged : bool
        Whether every row is as near to its condition of optimality as asked.
    squared_norm : float
        The squared length of f - b in the space of the kernel.
    epsilon : float
        The half-width of the tube that was found, for machines that find one.
    has_margin : bool
        False if the rows of two classes are not known to be apart at the given share.
    scale : float
        What values of the function are measured in by the tolerance.
    is_rounded : bool
        Whether rounding of kernel values shows in those of the function.
    """

    rows: Rows
    dual: Array
    intercept: float
    product: Array | None
    objective: float
    gap: float
    n_iter: int
    converged: bool
    squared_norm: float
    epsilon: float = 0.0
    has_margin: bool = True
    scale: float = 1.0
    is_rounded: bool = False

    def rounding(self, largest: float) -> float:
        """What rounding of kernel values, of which one is as large, may be in values of f."""
        return _EPS * largest * float(np.abs(self.dual).sum())

    def rounded(self, largest: float, tol: float) -> Machine:
        """The same with a gap that knows of rounding, if that is more than the tolerance.

        Where it shows in values of the function, the machine is not converged.
        """
        rounding = self.rounding(largest)
        if not rounding > tol * self.scale:
            return self
        gap = max(self.gap, 0.0) + rounding * float(np.abs(self.dual).sum())
        shown = rounding > max(tol, _SHOWN) * self.scale
        return replace(self, gap=gap, converged=self.converged and not shown, is_rounded=shown)

    def coefficients(self, n: int) -> Array:
        """The b_i of all n rows."""
        return np.bincount(self.rows, self.dual, n).astype(np.float64, copy=False)

    def values(self, rows: Rows) -> Array:
        """Values of f at rows of the matrix."""
        assert self.product is not None
        return self.product[rows] + self.intercept


def stacked_coefficients(machines: Sequence[Machine], n: int) -> csr_array:
    """The b_i of all rows, for each machine.

    Parameters
    ----------
    machines : sequence of Machine
        The machines.
    n : int
        The number of rows.

    Returns
    -------
    csr_array of shape (n, n_machines)
        Without zeros.
    """
    rows = np.concatenate([machine.rows for machine in machines])
    values = np.concatenate([machine.dual for machine in machines])
    sizes = [len(machine.rows) for machine in machines]
    numbers = np.repeat(np.arange(len(machines)), sizes)
    kept = values != 0
    found = coo_array((values[kept], (rows[kept], numbers[kept])), (n, len(machines))).tocsr()
    found.eliminate_zeros()
    return found


class Dual(ABC):
    """A dual problem over some rows."""

    @abstractmethod
    def programme(self) -> BoxProgramme:
        """The problem, with a place to start."""

    def unit(self, found: BoxSolution, largest: Callable[[], float]) -> float:
        """The unit in which the decision function is measured: the margin, if it is 1 there.

        Beside the solution there is a function that finds the largest value of the kernel.
        """
        return 1.0

    def machine(
        self, programme: BoxProgramme, found: BoxSolution, product: Array | None = None
    ) -> Machine:
        """The function that a solution stands for; the product is that with the whole matrix."""
        return Machine(
            programme.rows,
            found.coefficients,
            found.levels[0],
            product,
            found.objective,
            found.dual_gap,
            found.n_iter,
            found.converged,
            found.squared_norm,
        )


@dataclass(frozen=True, eq=False)
class Classes(Dual):
    """Two classes: the length of f is to be small, and sum_i y_i b_i large; 0 <= y_i b_i <= C_i.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    signs : ndarray
        Their classes y_i, -1 and 1.
    costs : ndarray
        The C_i.
    """

    rows: Rows
    signs: Array
    costs: Array

    def programme(self) -> BoxProgramme:
        """From zero."""
        bounds = self.signs * self.costs
        return BoxProgramme(
            self.rows,
            -self.signs,
            np.minimum(bounds, 0.0),
            np.maximum(bounds, 0.0),
            np.zeros(len(self.rows)),
        )


@dataclass(frozen=True, eq=False)
class NuClasses(Dual):
    """Two classes, of whose rows a share nu at most may lie within the margin.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    signs : ndarray
        Their classes, -1 and 1.
    weights : ndarray
        Their weights.
    nu : float
        The share; `largest` in its place if it is more.
    """

    rows: Rows
    signs: Array
    weights: Array
    nu: float

    @property
    def largest(self) -> float:
        """The largest share that there is a function for: twice that of the smaller class."""
        sides = self.weights[self.signs > 0].sum(), self.weights[self.signs < 0].sum()
        return float(2 * min(sides) / sum(sides))

    def programme(self) -> BoxProgramme:
        """The first rows of each class, up to the sum that each must have."""
        order = np.argsort(-self.signs, kind="stable")
        n_first = int((self.signs > 0).sum())
        # The margin is the unit in the end, so that weights may have any.
        rows, weights = self.rows[order], self.weights[order] / self.weights.max()
        # Without some of its rows, the smaller class may be too small for the share.
        wanted = min(self.nu, self.largest) * weights.sum() / 2
        above, below = filled(weights[:n_first], wanted), filled(weights[n_first:], wanted)
        return BoxProgramme(
            rows,
            np.zeros(len(rows)),
            np.concatenate([np.zeros(n_first), -weights[n_first:]]),
            np.concatenate([weights[:n_first], np.zeros(len(below))]),
            np.concatenate([above, -below]),
            n_first,
        )

    def unit(self, found: BoxSolution, largest: Callable[[], float]) -> float:
        """The margin that was found; less as long as the gap leaves open whether there is one."""
        margin, terms = self._margin(found), _terms(found, largest())
        if margin:
            return max(margin, _OF_TERMS * terms)
        above, below = found.levels
        known = max(found.objective, 0.0) / found.dual_gap if found.dual_gap else 0.0
        return max(known * (below - above) / 2, _OF_ROUNDING * terms) or 1.0

    @staticmethod
    def _margin(found: BoxSolution) -> float:
        """Zero unless there is one for sure: without, the minimum of the problem is zero."""
        above, below = found.levels
        return max((below - above) / 2, 0.0) if found.objective > found.dual_gap else 0.0

    def machine(
        self, programme: BoxProgramme, found: BoxSolution, product: Array | None = None
    ) -> Machine:
        """In units of the margin that was found; as it is if there is none."""
        above, below = found.levels
        margin = self._margin(found)
        unit = margin or 1.0
        plain = super().machine(programme, found, product)
        return replace(
            plain,
            dual=plain.dual / unit,
            intercept=(above + below) / 2 / unit,
            product=None if product is None else product / unit,
            objective=plain.objective / unit**2,
            gap=plain.gap / unit**2,
            squared_norm=plain.squared_norm / unit**2,
            converged=plain.converged and margin > 0,
            has_margin=margin > 0,
        )


@dataclass(frozen=True, eq=False)
class Tube(Dual):
    """Targets, from which f may differ by epsilon for nothing.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    targets : ndarray
        Their targets.
    costs : ndarray
        The largest coefficient of each, in absolute value.
    epsilon : float
        Half the width of the tube.
    """

    rows: Rows
    targets: Array
    costs: Array
    epsilon: float

    def programme(self) -> BoxProgramme:
        """Two variables for each row: above the tube, and below it."""
        n = len(self.rows)
        return BoxProgramme(
            np.tile(self.rows, 2),
            np.concatenate([self.epsilon - self.targets, -self.epsilon - self.targets]),
            np.concatenate([np.zeros(n), -self.costs]),
            np.concatenate([self.costs, np.zeros(n)]),
            np.zeros(2 * n),
        )


@dataclass(frozen=True, eq=False)
class NuTube(Dual):
    """Targets, with a tube that a share nu of the rows at most may leave.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    targets : ndarray
        Their targets.
    costs : ndarray
        The largest coefficient of each, in absolute value.
    nu : float
        The share.
    """

    rows: Rows
    targets: Array
    costs: Array
    nu: float

    def programme(self) -> BoxProgramme:
        """Both variables of the first rows, up to the sum that they must have."""
        n = len(self.rows)
        start = filled(self.costs, self.nu * self.costs.sum() / 2)
        return BoxProgramme(
            np.tile(self.rows, 2),
            np.tile(-self.targets, 2),
            np.concatenate([np.zeros(n), -self.costs]),
            np.concatenate([self.costs, np.zeros(n)]),
            np.concatenate([start, -start]),
            n,
        )

    def machine(
        self, programme: BoxProgramme, found: BoxSolution, product: Array | None = None
    ) -> Machine:
        """With the tube that was found."""
        above, below = found.levels
        return replace(
            super().machine(programme, found, product),
            intercept=(above + below) / 2,
            epsilon=(above - below) / 2,
        )


@dataclass(frozen=True, eq=False)
class Half(Dual):
    """One class, all but a share nu of whose rows a plane separates from the origin.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    weights : ndarray
        Their weights.
    nu : float
        The share.
    """

    rows: Rows
    weights: Array
    nu: float

    def programme(self) -> BoxProgramme:
        """The first rows, up to the sum that they must have."""
        zeros, weights = np.zeros(len(self.rows)), self.weights / self.weights.max()
        start = filled(weights, self.nu * weights.sum())
        return BoxProgramme(self.rows, zeros, zeros, weights, start)

    def machine(
        self, programme: BoxProgramme, found: BoxSolution, product: Array | None = None
    ) -> Machine:
        """In the unit of the weights, of which the tolerance knows nothing."""
        unit = float(self.weights.max())
        whole = None if product is None else product * unit
        return replace(super().machine(programme, found.scaled(unit), whole), scale=unit)

    def unit(self, found: BoxSolution, largest: Callable[[], float]) -> float:
        """The distance of the plane, if that is less than 1 and the rows are not on both sides."""
        distance = max(abs(found.levels[0]), _least_unit(found, largest()))
        return min(1.0, distance) or 1.0


@dataclass(frozen=True, eq=False)
class Ball(Dual):
    """One class, all but a share nu of whose rows lie in the smallest ball.

    With coefficients that sum to 1, the squared distance of a row from the centre is
    k(x, x) - 2 sum_i b_i k(x, x_i) + |centre|^2.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    weights : ndarray
        Their weights.
    nu : float
        The share.
    diagonal : ndarray
        The k(x_i, x_i).
    """

    rows: Rows
    weights: Array
    nu: float
    diagonal: Array

    def programme(self) -> BoxProgramme:
        """The first rows, up to a sum of 1."""
        costs = self.weights / (self.nu * self.weights.sum())
        return BoxProgramme(
            self.rows, -self.diagonal / 2, np.zeros(len(costs)), costs, filled(costs, 1.0)
        )

    def unit(self, found: BoxSolution, largest: Callable[[], float]) -> float:
        """The squared radius, if that is less than 1."""
        squared = found.squared_norm + 2 * found.levels[0]
        return min(1.0, squared) if squared > 0 else 1.0


def _least_unit(found: BoxSolution, largest: float) -> float:
    """What a function that varies so much, of such coefficients, can be measured in at least."""
    spread = float(found.product.max() - found.product.min())
    return max(_OF_SPREAD * spread, _OF_TERMS * _terms(found, largest))


def _terms(found: BoxSolution, largest: float) -> float:
    """The sum of a function's terms, if none of them cancelled."""
    return largest * float(np.abs(found.coefficients).sum())


def filled(upper: Array, total: float) -> Array:
    """The largest values from the first on, as far as their sum allows.

    Parameters
    ----------
    upper : ndarray
        The largest values.
    total : float
        The sum.

    Returns
    -------
    ndarray
        Values from 0 to the largest.
    """
    before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
    return np.clip(total - before, 0.0, upper)
