"""Dual problems of support vector machines, and the functions that their solutions stand for.

Each is the one problem of `mercer.solvers.support`: signs, a linear term, a box, and the sums that
have to stay as they are.

References
----------
.. [1] C.-C. Chang, C.-J. Lin (2011). LIBSVM: a library for support vector machines. ACM
   Transactions on Intelligent Systems and Technology 2(3).
.. [2] D. Tax, R. Duin (2004). Support vector data description. Machine Learning 54.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.parallel import thread_count
from mercer.solvers.support import BoxProblem, BoxSolution, Options, solve

Array = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Machine:
    """A function f(x) = sum_i b_i k(x, x_i) + b that solves a dual problem.

    Attributes
    ----------
    rows : ndarray of int
        The rows x_i.
    dual : ndarray
        The b_i.
    intercept : float
        The constant b.
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
    """

    rows: Rows
    dual: Array
    intercept: float
    objective: float
    gap: float
    n_iter: int
    converged: bool
    squared_norm: float
    epsilon: float = 0.0

    def coefficients(self, n: int) -> Array:
        """The b_i of all n rows."""
        return np.bincount(self.rows, self.dual, n)


class Dual(ABC):
    """A dual problem over some rows."""

    @abstractmethod
    def problem(self) -> BoxProblem:
        """The problem, with a place to start."""

    def machine(self, problem: BoxProblem, found: BoxSolution) -> Machine:
        """The function that a solution stands for."""
        return Machine(
            problem.rows,
            problem.signs * found.alpha,
            -float(found.thresholds[0]),
            found.objective,
            found.gap,
            found.n_iter,
            found.converged,
            2 * (found.objective - float(problem.linear @ found.alpha)),
        )


@dataclass(frozen=True, eq=False)
class Classes(Dual):
    """Two classes: sum_i a_i is to be large, and the length of f small; 0 <= a_i <= C_i.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    signs : ndarray
        Their classes, -1 and 1.
    costs : ndarray
        The C_i.
    """

    rows: Rows
    signs: Array
    costs: Array

    def problem(self) -> BoxProblem:
        """From zero."""
        return BoxProblem(self.signs, -np.ones(len(self.rows)), self.costs, self.rows)


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
        The share.
    """

    rows: Rows
    signs: Array
    weights: Array
    nu: float

    def problem(self) -> BoxProblem:
        """The first rows of each class, up to the sum that each must have."""
        wanted = self.nu * self.weights.sum() / 2
        start = np.zeros(len(self.rows))
        for side in (-1.0, 1.0):
            mine = self.signs == side
            start[mine] = filled(self.weights[mine], wanted)
        groups = (self.signs > 0).astype(np.int8)
        return BoxProblem(
            self.signs, np.zeros(len(start)), self.weights, self.rows, start=start, groups=groups
        )

    def machine(self, problem: BoxProblem, found: BoxSolution) -> Machine:
        """In units of the margin that was found."""
        below, above = -found.thresholds[0], found.thresholds[1]
        margin = (above + below) / 2
        if not margin > 0:
            margin = 1.0
        plain = super().machine(problem, found)
        return replace(
            plain,
            dual=plain.dual / margin,
            intercept=-float((above - below) / 2 / margin),
            objective=plain.objective / margin**2,
            gap=plain.gap / margin**2,
            squared_norm=plain.squared_norm / margin**2,
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
        The largest coefficient of each.
    epsilon : float
        Half the width of the tube.
    """

    rows: Rows
    targets: Array
    costs: Array
    epsilon: float

    def problem(self) -> BoxProblem:
        """Two variables for each row: above the tube, and below it."""
        above, below = self.epsilon - self.targets, self.epsilon + self.targets
        return BoxProblem(
            both_signs(len(self.rows)),
            np.concatenate([above, below]),
            np.tile(self.costs, 2),
            np.tile(self.rows, 2),
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
        The largest coefficient of each.
    nu : float
        The share.
    """

    rows: Rows
    targets: Array
    costs: Array
    nu: float

    def problem(self) -> BoxProblem:
        """Both variables of the first rows, up to the sum that they must have."""
        start = filled(self.costs, self.nu * self.costs.sum() / 2)
        signs = both_signs(len(self.rows))
        return BoxProblem(
            signs,
            np.concatenate([-self.targets, self.targets]),
            np.tile(self.costs, 2),
            np.tile(self.rows, 2),
            start=np.tile(start, 2),
            groups=(signs > 0).astype(np.int8),
        )

    def machine(self, problem: BoxProblem, found: BoxSolution) -> Machine:
        """With the tube that was found."""
        below, above = -found.thresholds[0], found.thresholds[1]
        return replace(
            super().machine(problem, found),
            intercept=-float((above - below) / 2),
            epsilon=-float((above + below) / 2),
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

    def problem(self) -> BoxProblem:
        """The first rows, up to the sum that they must have."""
        return BoxProblem(
            np.ones(len(self.rows)),
            np.zeros(len(self.rows)),
            self.weights,
            self.rows,
            start=filled(self.weights, self.nu * self.weights.sum()),
        )


@dataclass(frozen=True, eq=False)
class Ball(Dual):
    """One class, all but a share nu of whose rows lie in the smallest ball.

    With coefficients that sum to 1, the squared distance of a row from the centre is
    k(x, x) - 2 sum_i a_i k(x, x_i) + |centre|^2.

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

    def problem(self) -> BoxProblem:
        """The first rows, up to a sum of 1."""
        costs = self.weights / (self.nu * self.weights.sum())
        return BoxProblem(
            np.ones(len(self.rows)),
            -self.diagonal / 2,
            costs,
            self.rows,
            start=filled(costs, 1.0),
        )


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


def both_signs(n: int) -> Array:
    """One n times, and minus one n times.

    Parameters
    ----------
    n : int
        How often.

    Returns
    -------
    ndarray of shape (2 n,)
        The signs.
    """
    return np.repeat([1.0, -1.0], n)


def solved(
    source: Any,
    duals: Sequence[Dual],
    options: Options,
    report: Callable[[Sequence[Machine]], bool],
    starts: Sequence[Array | None] | None = None,
) -> list[Machine]:
    """Solve dual problems: one with all threads, or several side by side.

    Parameters
    ----------
    source : ndarray or Gram
        The kernel values.
    duals : sequence of Dual
        The problems.
    options : Options
        Of the solver.
    report : callable
        Called after each with all machines if they are all there; True stops.
    starts : sequence of ndarray or None, optional
        Where to start.

    Returns
    -------
    list of Machine
        One for each.
    """
    problems = [dual.problem() for dual in duals]

    def one(number: int) -> Machine:
        found = solve(source, problems[number], options)
        return duals[number].machine(problems[number], found)

    threads = min(thread_count(), len(duals))
    if threads == 1:
        return [one(number) for number in range(len(duals))]
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(copy_context().run, one, number) for number in range(len(duals))]
        return [future.result() for future in waiting]
