"""Dual problems of support vector machines, and the functions that their solutions stand for.

All are written in the coefficients b of f = sum_i b_i k(., x_i), whose signs are the classes: each
is a box, a linear term, and sums that are fixed.

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
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from mercer.arrays import Float64Array as Array
from mercer.sampling import blocks
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix
from mercer.solvers.box_qp.problem import BoxQP, BoxSolution, reduced
from mercer.solvers.box_qp.smo import refinements_allowed, solve

Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
#: Called after a step with a function that returns the solutions so far; True stops.
Report = Callable[[Callable[[], "DualSolutions"]], bool]

# Finite bounds tried in turn in place of infinite ones, in units of max |c| / max K_ii.
_WIDTHS = (1e3, 1e6, 1e9, 1e12)
# Tolerance in units of `tol` while it is not known whether a nu machine has a margin.
_MARGIN_UNKNOWN = 1e-5
# Factor of a tolerance in units of the margin, which changes during refinement.
REFINEMENT = 0.5
# Largest number of times that a solution is refined.
_REFINEMENTS = 3
# Factor by which a smaller tolerance reduces a gap wider than the objective.
_NARROWER = 8.0
# Largest ratio of gap to objective by which a tolerance is reduced.
_FINEST = 1e3
# Fields of `DualSolutions` with one number per function, and their values before it is solved.
_UNSOLVED: dict[str, Any] = {
    "intercept": 0.0,
    "objective": np.nan,
    "gap": np.inf,
    "n_iter": 0,
    "converged": False,
    "squared_norm": 0.0,
    "epsilon": 0.0,
    "has_margin": True,
}


class Options(NamedTuple):
    """Stopping criteria of the solver."""

    tol: float  # the violation that is allowed
    max_iter: int | None  # the largest number of steps; None for the solver's own limit


@dataclass(frozen=True, eq=False, kw_only=True)
class DualSolutions:
    """Functions f_j(x) = sum_i b_ij k(x, x_i) + b_j that solve dual problems."""

    rows: Rows  # (m,): the rows x_i of the terms of all functions; some may be there twice
    dual: Array  # (m,): the coefficients b_ij of the terms
    function_of_term: Rows  # (m,): the numbers j of the functions
    products: Array | None  # (n_functions, n_eval_rows): f_j - b_j at the evaluation rows
    intercept: Array  # (n_functions,): the constants b_j
    objective: Array  # (n_functions,): the values of the dual problems
    gap: Array  # (n_functions,): upper bounds of their distances to the minimum
    n_iter: Rows  # (n_functions,): steps of the solver
    converged: Flags  # (n_functions,): whether violations are at most the tolerance
    squared_norm: Array  # (n_functions,): the squared norms of f_j - b_j
    epsilon: Array  # (n_functions,): the half-widths of the tubes, for machines that find one
    has_margin: Flags  # (n_functions,): false if a nu machine is not known to have a margin

    @classmethod
    def joined(cls, n: int, parts: Sequence[tuple[Rows, DualSolutions]]) -> DualSolutions:
        """All n functions, from parts with the numbers of their functions; others are zero."""
        fields: dict[str, Any] = {name: np.full(n, value) for name, value in _UNSOLVED.items()}
        fields["products"] = None
        terms = [(np.empty(0, np.intp), np.empty(0), np.empty(0, np.intp))]
        for numbers, part in parts:
            for name in _UNSOLVED:
                fields[name][numbers] = getattr(part, name)
            if part.products is not None:
                if fields["products"] is None:
                    fields["products"] = np.zeros((n, part.products.shape[1]))
                fields["products"][numbers] = part.products
            terms.append((part.rows, part.dual, numbers[part.function_of_term]))
        rows, dual, function_of_term = map(np.concatenate, zip(*terms, strict=True))
        return cls(rows=rows, dual=dual, function_of_term=function_of_term, **fields)

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.intercept)

    def subset(self, chosen: Flags) -> DualSolutions:
        """The chosen functions, in their order."""
        own = chosen[self.function_of_term]
        return replace(
            self,
            rows=self.rows[own],
            dual=self.dual[own],
            function_of_term=(np.cumsum(chosen) - 1)[self.function_of_term[own]],
            products=None if self.products is None else self.products[chosen],
            **{name: getattr(self, name)[chosen] for name in _UNSOLVED},
        )

    def scaled(self, factors: Array) -> DualSolutions:
        """The functions times factors, with the problems in the units that follow."""
        return replace(
            self,
            dual=self.dual * factors[self.function_of_term],
            intercept=self.intercept * factors,
            products=None if self.products is None else self.products * factors[:, None],
            objective=self.objective * factors**2,
            gap=self.gap * factors**2,
            squared_norm=self.squared_norm * factors**2,
        )

    def dense_coefficients(self, n: int) -> Array:
        """The b_ij of all n rows, of shape (n, n_functions)."""
        places = self.rows * len(self) + self.function_of_term
        sums = np.bincount(places, self.dual, n * len(self)).astype(np.float64, copy=False)
        return sums.reshape(n, len(self))

    def coefficients(self, n: int) -> csr_array:
        """The b_ij of all n rows, of shape (n, n_functions), without zeros."""
        nonzero = self.dual != 0
        places = self.rows[nonzero], self.function_of_term[nonzero]
        coefficients = coo_array((self.dual[nonzero], places), (n, len(self))).tocsr()
        coefficients.eliminate_zeros()
        return coefficients

    @property
    def values(self) -> Array:
        """Values of the functions at the evaluation rows, of shape (n_eval_rows, n_functions)."""
        assert self.products is not None
        return np.asarray(self.products.T + self.intercept)


class Dual(ABC):
    """Dual problems of one kind, the rows of one after those of another; mostly it is one."""

    rows: Rows

    @abstractmethod
    def qp(self) -> BoxQP:
        """The problems as quadratic programs, with an initial point."""

    def tolerances(self, solution: BoxSolution, tol: float) -> Array:
        """The violations that are allowed, now that the scale of the functions is known.

        They are smaller where large costs make the gap wider than the objective.
        """
        gaps, sizes = solution.dual_gap, np.abs(solution.objective)
        is_wide = np.isfinite(gaps) & (gaps > sizes)
        sizes = np.where(is_wide, np.maximum(sizes, gaps / _FINEST), 1.0)
        return tol / np.where(is_wide, _NARROWER * gaps / sizes, 1.0)

    def functions(
        self, qp: BoxQP, solution: BoxSolution, products: Array | None = None
    ) -> DualSolutions:
        """The functions that solutions stand for; products are their values at some rows."""
        n = len(qp.groups)
        plain = DualSolutions(
            rows=qp.rows,
            dual=solution.coefficients,
            function_of_term=qp.problem_of_variable,
            products=products,
            intercept=solution.levels[:, 0],
            objective=solution.objective,
            gap=solution.dual_gap,
            n_iter=solution.n_iter,
            converged=solution.converged,
            squared_norm=solution.squared_norm,
            epsilon=np.zeros(n),
            has_margin=np.ones(n, bool),
        )
        return self.in_units(plain, solution)

    def in_units(self, functions: DualSolutions, solution: BoxSolution) -> DualSolutions:
        """The functions in the units of the machine."""
        return functions


@dataclass(frozen=True, eq=False)
class TwoClassDual(Dual):
    """Two classes in each of several problems."""

    rows: Rows  # (m,): the rows, problem by problem
    signs: Array  # (m,): their classes y_i, -1 and 1
    costs: Array  # (m,): what errors cost, C_i
    sizes: Rows  # (n_problems,): the number of rows of each problem

    def __len__(self) -> int:
        """The number of problems."""
        return len(self.sizes)

    def subset(self, numbers: Rows) -> Self:
        """Some of the problems, in this order."""
        sizes = self.sizes[numbers]
        own = stretches(edges_of(self.sizes)[numbers], sizes)
        return replace(
            self, rows=self.rows[own], signs=self.signs[own], costs=self.costs[own], sizes=sizes
        )


@dataclass(frozen=True, eq=False)
class SvcDual(TwoClassDual):
    """Minimise |f|^2 / 2 - sum_i y_i b_i with 0 <= y_i b_i <= C_i."""

    def qp(self) -> BoxQP:
        """The problems, with zero as the initial point."""
        bounds = self.signs * self.costs
        return BoxQP(
            self.rows,
            -self.signs,
            np.minimum(bounds, 0.0),
            np.maximum(bounds, 0.0),
            np.zeros(len(self.rows)),
            (np.cumsum(self.sizes) - self.sizes)[:, None],
        )


@dataclass(frozen=True, eq=False)
class NuSvcDual(TwoClassDual):
    """At most a share nu of the rows may lie within the margin."""

    nu: float  # the share; at most `largest`

    @property
    def largest(self) -> Array:
        """The largest feasible shares: twice those of the smaller classes."""
        above = self._sums(np.where(self.signs > 0, self.costs, 0.0))
        below = self._sums(np.where(self.signs > 0, 0.0, self.costs))
        return np.asarray(2 * np.minimum(above, below) / (above + below))

    def _sums(self, values: Array) -> Array:
        return reduced(np.add, values, edges_of(self.sizes)[:-1])

    def qp(self) -> BoxQP:
        """The problems; the initial point fills the first rows of each class."""
        begins = edges_of(self.sizes)[:-1]
        which = np.repeat(np.arange(len(self.sizes)), self.sizes)
        order = np.lexsort((-self.signs, which))
        above = self.signs[order] > 0
        firsts = self._sums(above.astype(np.float64)).astype(np.int64)
        # The solution is divided by its margin at the end, so that weights may have any scale.
        weights = self.costs[order] / reduced(np.maximum, self.costs, begins)[which]
        # Without some of its rows, the smaller class may be too small for the share.
        wanted = np.minimum(self.nu, self.largest) * self._sums(weights) / 2
        sides = np.stack([firsts, self.sizes - firsts], axis=1).ravel()
        start = initial_point(weights, np.repeat(wanted, 2), sides)
        return BoxQP(
            self.rows[order],
            np.zeros(len(order)),
            np.where(above, 0.0, -weights),
            np.where(above, weights, 0.0),
            np.where(above, start, -start),
            np.stack([begins, begins + firsts], axis=1),
        )

    def tolerances(self, solution: BoxSolution, tol: float) -> Array:
        """Tolerances in units of the margins; small where a margin is not known to exist."""
        margins = self._margins(solution)
        return tol * np.where(margins > 0, np.minimum(margins, 1.0), _MARGIN_UNKNOWN)

    @staticmethod
    def _margins(solution: BoxSolution) -> Array:
        """The margins; zero where the objective is not larger than the gap, as without a margin."""
        above, below = solution.levels.T
        is_certain = solution.objective > solution.dual_gap
        return np.where(is_certain, np.maximum((below - above) / 2, 0.0), 0.0)

    def in_units(self, functions: DualSolutions, solution: BoxSolution) -> DualSolutions:
        """The functions divided by their margins; functions without a margin are not scaled."""
        margins = self._margins(solution)
        has_margin = margins > 0
        return replace(
            functions,
            intercept=solution.levels.mean(axis=1),
            converged=functions.converged & has_margin,
            has_margin=has_margin,
        ).scaled(1 / np.where(has_margin, margins, 1.0))


@dataclass(frozen=True, eq=False)
class SvrDual(Dual):
    """Targets, from which f may differ by epsilon at no cost."""

    rows: Rows
    targets: Array  # (n,): the targets
    costs: Array  # (n,): the largest absolute values of the coefficients
    epsilon: float  # half the width of the tube

    def qp(self) -> BoxQP:
        """Two variables for each row: above the tube, and below it."""
        costs, zeros = self.costs, np.zeros(len(self.rows))
        return BoxQP(
            np.tile(self.rows, 2),
            np.concatenate([self.epsilon - self.targets, -self.epsilon - self.targets]),
            np.concatenate([zeros, -costs]),
            np.concatenate([costs, zeros]),
            np.tile(zeros, 2),
            np.array([[0]]),
        )


@dataclass(frozen=True, eq=False)
class NuSvrDual(SvrDual):
    """Targets, with a tube that at most a share nu of the rows may leave; epsilon is 0."""

    nu: float  # the share

    def qp(self) -> BoxQP:
        """Two sums; the initial point fills the variables of the first rows."""
        start = initial_point(self.costs, self.nu * self.costs.sum() / 2)
        groups = np.array([[0, len(start)]])
        return replace(super().qp(), start=np.concatenate([start, -start]), groups=groups)

    def in_units(self, functions: DualSolutions, solution: BoxSolution) -> DualSolutions:
        """The function, and the half-width of its tube."""
        above, below = solution.levels.T
        return replace(functions, intercept=(above + below) / 2, epsilon=(above - below) / 2)


@dataclass(frozen=True, eq=False)
class OneClassDual(Dual):
    """One class, all but a share nu of whose rows a hyperplane separates from the origin."""

    rows: Rows
    weights: Array  # (n,): the weights of the rows
    nu: float  # the share

    def qp(self) -> BoxQP:
        """The problem for weights of at most 1; the initial point fills the first rows."""
        zeros, weights = np.zeros(len(self.rows)), self.weights / self.weights.max()
        start = initial_point(weights, self.nu * weights.sum())
        return BoxQP(self.rows, zeros, zeros, weights, start, np.array([[0]]))

    def in_units(self, functions: DualSolutions, solution: BoxSolution) -> DualSolutions:
        """The function in the unit of the weights."""
        return functions.scaled(np.array([self.weights.max()]))


@dataclass(frozen=True, eq=False)
class SvddDual(OneClassDual):
    """One class, all but a share nu of whose rows lie in the smallest ball.

    With coefficients that sum to 1, the squared distance of a row from the centre is
    k(x, x) - 2 sum_i b_i k(x, x_i) + |centre|^2.
    """

    diagonal: Array  # (n,): the values k(x_i, x_i)

    @property
    def _total(self) -> float:
        """The sum of the coefficients of the problem, nu n for equal weights."""
        return self.nu * float(self.weights.sum() / self.weights.max())

    def qp(self) -> BoxQP:
        """The problem with coefficients in the units of `OneClassDual`, as `tol` is."""
        return replace(super().qp(), linear=-self._total * self.diagonal / 2)

    def tolerances(self, solution: BoxSolution, tol: float) -> Array:
        """Tolerances in units of the squared radius, if that is less than 1."""
        squared_radius = solution.squared_norm / self._total + 2 * solution.levels[:, 0]
        return tol * np.where(squared_radius > 0, np.minimum(squared_radius, 1.0), 1.0)

    def in_units(self, functions: DualSolutions, solution: BoxSolution) -> DualSolutions:
        """The function whose coefficients sum to 1."""
        return functions.scaled(np.array([1 / self._total]))


# One problem --------------------------------------------------------------------------------------


def solve_one(
    matrix: SymmetricMatrix,
    dual: Dual,
    options: Options,
    *,
    warm_start: csr_array | None = None,
    eval_rows: Rows | None = None,
    report: Report | None = None,
    poll: Callable[[], None] | None = None,
) -> DualSolutions:
    """Solve one problem; `warm_start` has coefficients of all rows, of shape (n, 1)."""
    qp = dual.qp()
    local_matrix, rows = matrix.among(qp.rows)
    local = replace(qp, rows=rows)
    start = None if warm_start is None else warm_start.toarray().ravel()[qp.rows]

    def report_solution(solution: Callable[[], BoxSolution]) -> bool:
        return report is not None and report(lambda: dual.functions(qp, solution()))

    tol, max_iter = options
    solve_within = partial(solve, matrix=local_matrix, report=report_solution, poll=poll)
    if np.isfinite(qp.lower).all() and np.isfinite(qp.upper).all():
        solution = solve_within(local, warm_start=start, tol=tol, max_iter=max_iter)
    else:
        # An infinite C: bounds so wide that no variable is at one.
        unit = float(np.abs(qp.linear).max() or 1.0) / local_matrix.largest
        steps = np.array([0])
        for bound in _WIDTHS:
            lower, upper = np.clip([qp.lower, qp.upper], -unit * bound, unit * bound)
            local = replace(local, lower=lower, upper=upper)
            solution = solve_within(local, warm_start=start, tol=tol, max_iter=max_iter)
            steps, start = steps + solution.n_iter, solution.coefficients
            solution = replace(solution, n_iter=steps)
            if not solution.converged or np.abs(start).max() < unit * bound:
                break
        else:  # coefficients grow without end: there is no function without errors
            solution = replace(solution, converged=np.array([False]), dual_gap=np.array([np.inf]))
    (needed,) = dual.tolerances(solution, tol)
    for _ in range(_REFINEMENTS):  # a tiny margin is known after the first
        if not solution.converged or solution.violation <= needed:
            break
        left = refinements_allowed(len(qp.rows))
        if max_iter is not None:
            left = max(max_iter - int(solution.n_iter[0]), 1)
        start = solution.coefficients
        again = solve_within(local, warm_start=start, tol=REFINEMENT * needed, max_iter=left)
        (needed,) = dual.tolerances(again, tol)
        is_enough = again.converged | (again.violation <= needed)
        solution = replace(again, n_iter=again.n_iter + solution.n_iter, converged=is_enough)
    if solution.violation > needed:
        solution = replace(solution, converged=np.array([False]))
    if eval_rows is None:
        return dual.functions(qp, solution)
    if local_matrix is matrix:
        return dual.functions(qp, solution, solution.product[None, eval_rows])
    return dual.functions(qp, solution, products_at(matrix, qp, solution, eval_rows))


def products_at(
    matrix: SymmetricMatrix, qp: BoxQP, solution: BoxSolution, eval_rows: Rows
) -> Array:
    """Values at the evaluation rows without intercepts: all problems share the kernel values."""
    nonzero = solution.coefficients != 0
    used, columns = np.unique(qp.rows[nonzero], return_inverse=True)
    places = qp.problem_of_variable[nonzero], columns
    shape = len(qp.groups), len(used)
    weights = coo_array((solution.coefficients[nonzero], places), shape).tocsr()
    products = np.empty((len(qp.groups), len(eval_rows)))
    if len(products) == 1:  # the engine multiplies without storing kernel values
        products[0] = matrix.times(used, weights.toarray()[0], precise=True, at=eval_rows)
        return products
    for part in blocks(len(eval_rows), len(used)):
        products[:, part] = weights @ matrix.cross(used, eval_rows[part])
    return products


# Stretches of rows --------------------------------------------------------------------------------


def edges_of(sizes: Rows) -> Rows:
    """Where stretches begin that follow each other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def stretches(begins: Rows, sizes: Rows) -> Rows:
    """The positions of stretches, one after another."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begins - (ends - sizes), sizes) + np.arange(total))


def initial_point(upper: Array, totals: Array | float, sizes: Rows | None = None) -> Array:
    """For each stretch the largest values from the first on, up to the total of the stretch."""
    sizes = np.array([len(upper)]) if sizes is None else sizes
    begins, before = edges_of(sizes)[:-1], np.zeros(len(upper))
    # One sum over all stretches would leave its rounding in each of them.
    for size in np.unique(sizes):
        alike = begins[sizes == size, None] + np.arange(size)
        before[alike[:, 1:]] = np.cumsum(upper[alike], axis=1)[:, :-1]
    left = np.repeat(np.broadcast_to(totals, len(sizes)), sizes) - before
    return np.clip(left, 0.0, upper)
