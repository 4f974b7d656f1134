r"""The exact solution by preconditioned conjugate gradients, without storing the kernel matrix.

With S = diag(sqrt(w)), s its diagonal and a = S c, the coefficients solve

.. math:: (S K S + \alpha I)\, c = S y - b s, \qquad s^\top c = 0,

by iterations that multiply with K and never store it. The preconditioner is a low-rank factor of
S K S. With a rank of about 10 sqrt(n), the number of iterations is small and almost independent of
n if the remaining eigenvalues are below alpha. See Diaz, Epperly, Frangella, Tropp and Webber
(2023), Robust, randomized preconditioning for kernel ridge regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.arrays import Array
from mercer.checks import is_number, require_choice, require_count
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.selection import KernelColumns
from mercer.linalg.conjugate_gradient import Precondition
from mercer.linalg.low_rank import LowRankInverse, NystromSketch, nystrom_sketch
from mercer.linalg.pivoted_cholesky import LowRank, pivoted_cholesky
from mercer.rows.rows import RowBlock
from mercer.sampling import random_numbers, seed_from
from mercer.solvers.newton.products import Products
from mercer.solvers.protocol import (
    MACHINE_RANK,
    MANY_ROWS,
    RIDGE_RANK,
    Cost,
    FitProblem,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    SearchAnswer,
    Solver,
    eigenvectors,
)
from mercer.solvers.ridge import iterations
from mercer.solvers.ridge.gram import RidgeProblem
from mercer.solvers.ridge.iterations import Stopped

# Smallest alpha that a search compares at first, relative to the mean diagonal: smaller ones may
# not converge.
_LEAST_CHOICE = 1e-4
# Memory of a fit, relative to what it holds at its end.
_WORK_SPACE = 1.4
# Largest condition number of preconditioned equations for which a smaller alpha is compared.
_CONDITION = 1e4
_METHODS: dict[str, Literal["random", "greedy"]] = {"rpcholesky": "random", "pivoted": "greedy"}


@dataclass(eq=False)
class ConjugateGradient(Solver, name="conjugate_gradient"):
    """Exact kernel ridge, and machines of smooth losses, without storing the matrix.

    Parameters
    ----------
    preconditioner : {"rpcholesky", "pivoted", "nystrom", None}
        The low-rank factor: a Cholesky factor with random pivots, a Cholesky factor with the
        largest pivots, a sketch from one product with `rank` random vectors, or none.
    rank : int, optional
        The rank of the factor; by default 10 sqrt(n), for machines 5 sqrt(n), and 2 sqrt(n) for
        "nystrom", which takes n^2 rank operations, but is closest to the best factor of its rank.
    tol : float
        Relative residual, below 1, at which to stop; at least 64 rounding units of the kernel,
        which is 1.4e-14 in double precision and 7.6e-6 in single precision.
    max_iter : int
        Largest number of products with K per call of `fit`; for a machine, per Newton step.
    search_rows : int
        Number of rows of the random sample on which alphas and length-scales are compared, by exact
        leave-one-out errors; the best candidate is then fitted to all rows. With all rows the
        choice is that of `Cholesky`, except that alphas below 1e-4 of the mean of w_i K_ii are
        ignored if the preconditioner leaves out so much that they need too many iterations. A
        warning says so where this decides the choice.
    random_state : int, RandomState, Generator or None
        The random numbers of pivots, vectors and the sample.

    Notes
    -----
    The model gets ``n_iter_``, ``converged_``, ``residual_``, ``residual_history_`` and
    ``preconditioner_error_``, the share of the trace of K that the factor does not explain.
    ``converged_`` is True if ``residual_``, the true residual of the solution, is at most twice the
    tolerance. Memory is that of the factor, n times `rank`. A model with ``warm_start=True``
    resumes the iterations of its last fit if these stopped early.

    A machine of another smooth loss solves the equations of each Newton step by such iterations.
    The steps begin at the minimum for the low-rank factor in place of the matrix.
    Their relative tolerance decreases with the gradient, from 0.1 to `tol`. The model's own `tol`
    is the tolerance of its gradient, also at least 64 rounding units.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> solver = mc.solvers.ConjugateGradient(random_state=0)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.converged_, model.predict([[np.pi / 2]]).round(3)
    (True, array([1.]))
    """

    needs_all_rows = True
    is_iterative = True

    preconditioner: str | None = "rpcholesky"
    rank: int | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    search_rows: int = 3000
    random_state: Any = None

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Validate the parameters, without data."""
        check_limits(self)
        require_count("ConjugateGradient", "search_rows", self.search_rows, example=3000)
        if self.rank is not None:
            require_count("ConjugateGradient", "rank", self.rank)
        options = (*_METHODS, "nystrom", None)
        require_choice("ConjugateGradient", "preconditioner", self.preconditioner, options)

    def cost(self, problem: FitProblem) -> Cost:
        """The cost of products with the matrix and of the preconditioner."""
        n, rank = problem.n, self.rank_for(problem.n, problem.rank)
        systems, (room, compared) = problem.systems, problem.compared(self.search_rows)
        size = problem.factors * factor_size(n, rank, problem.dtype) + 64.0 * n * systems.columns
        pairs = problem.products * float(n) ** 2
        operations = systems.preconditioners * 2.0 * n * rank**2 + 2.0 * systems.coupled * pairs
        operations += problem.search() + problem.variances + compared + eigenvectors(rank)
        return Cost(self, max(_WORK_SPACE * size, room), operations, pairs)

    def _must_fit(self, problem: FitProblem) -> bool:
        return problem.n > problem.small_rows

    def _impractical(self, problem: FitProblem) -> str:
        return MANY_ROWS if problem.products_are_expensive else ""

    def search(self, tasks: Sequence[RidgeTask]) -> SearchAnswer:
        """Compare candidates on a sample of rows, and solve for all rows at the best.

        The weight of the squared norm is the variance of the noise relative to that of the
        function, and a length-scale is a property of the function: neither depends on the number of
        rows. So exact leave-one-out errors of a few thousand rows are enough.
        """
        alphas = tasks[0].on_grid().alphas
        tasks = [replace(task, alphas=alphas) for task in tasks]
        rows = self._sample(tasks[0])
        compared = [self._compare(task, rows) for task in tasks]
        errors = np.stack([row for row, _ in compared])
        tasks[0].require_choice(errors)
        best, column = divmod(int(np.argmin(errors)), len(alphas))
        wanted = compared[best][1]
        answer = self.ridge(tasks[best].at(float(alphas[column])))
        if wanted != column and not answer.warning:
            warning = (
                f"alpha = {alphas[column]:.3g} is the smallest that iterations were taken to reach,"
                f" and {alphas[wanted]:.3g} would be better; pass it as alpha, or "
                "solver=mercer.solvers.NystromSolver()"
            )
            answer = replace(answer, warning=warning)
        return SearchAnswer(answer, best, alphas, errors)

    def _compare(self, task: RidgeTask, rows: NDArray[np.intp]) -> tuple[Array, int]:
        """Errors of the alphas that iterations can reach, and the best alpha of all of them."""
        alphas, errors = task.alphas, _sampled_errors(task, rows, _LEAST_CHOICE)
        column = int(np.argmin(errors))
        if not np.isinf(errors[alphas < alphas[column]]).all():
            return errors, column
        errors = _sampled_errors(task, rows, 0.0)  # smaller alphas were left out
        wanted = int(np.argmin(errors))
        if wanted != column:
            part = task.compared("ConjugateGradient").part
            mean = float(np.mean(part.mass[rows] * task.kernel.diag(part.points[rows])))
            least = self._least_choice(task) * mean
            errors[alphas < min(least, alphas[column])] = np.inf
        return errors, wanted

    def _least_choice(self, task: RidgeTask) -> float:
        """The smallest alpha, over the mean diagonal, for which the preconditioner is good enough.

        What it leaves out of the trace bounds the largest eigenvalue that it leaves out.
        """
        part = task.part("ConjugateGradient")
        seed = seed_from(random_numbers(self.random_state, task.owner))
        factor = self._factor(KernelColumns(task.kernel, part.points, part.weights), seed)
        error = 1.0 if factor is None else factor.trace_error
        return min(_LEAST_CHOICE, task.n * error / _CONDITION)

    def _sample(self, task: RidgeTask) -> NDArray[np.intp]:
        """The rows on which candidates are compared, among those of positive weight."""
        rows = np.flatnonzero(task.compared("ConjugateGradient").part.mass)
        if len(rows) <= self.search_rows:
            return rows
        rng = random_numbers(self.random_state, task.owner)
        return np.sort(rng.choice(rows, self.search_rows, replace=False))

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        if task.compares:
            searched = self.search([task])
            return replace(searched.answer, errors=searched.errors[0])
        stopped = self._stopped(task)
        system = self._system(task, stopped.seed)
        return iterations.solve(task, system, self.tol, self.max_iter, stopped)

    def _path(self, task: RidgeTask) -> PathAnswer:
        system = self._system(task, self._stopped(replace(task, state=None)).seed)
        return iterations.path(task, system, self.tol, self.max_iter)

    def _system(self, task: RidgeTask, seed: int) -> _System:
        """The equations of a task, with a preconditioner."""
        if not task.alphas.min() > 0:
            raise ParameterError(
                f"{task.owner}: alpha = 0 has no solution by ConjugateGradient; pass a positive "
                "one, or solver=solvers.Spectral()."
            )
        part = task.part("ConjugateGradient")
        access = KernelColumns(task.kernel, part.points, part.weights)
        return _System(task, part, access, self._factor(access, seed))

    def _stopped(self, task: RidgeTask) -> Stopped:
        """The state of an earlier fit with this preconditioner, or a seed for a new one."""
        settings = self.preconditioner, self.rank
        if isinstance(task.state, Stopped) and task.state.settings == settings:
            return task.state
        return Stopped(settings, seed_from(random_numbers(self.random_state, task.owner)))

    def matrix(self, owner: str, kernel: Kernel, points: Points, *, centred: bool) -> Products:
        """Products with the matrix of all rows, for the Newton steps of a machine."""
        n, gram = len(points), kernel.gram(points)
        rank = self.rank_for(n, MACHINE_RANK)
        memory.require(
            int(factor_size(n, rank, gram.dtype)),
            f"{owner} with a preconditioner of rank {rank} for {n} rows",
            "lower the rank of the solver",
        )
        access = KernelColumns(kernel, points)
        matrix = Products(
            access.multiply,
            np.asarray(access.diagonal, np.float64),
            float(np.finfo(gram.dtype).eps),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if centred:
            matrix = replace(matrix, means=np.asarray(gram.row_sums(), np.float64) / n)
        low_rank = self._factor(access, seed_from(random_numbers(self.random_state, owner)), rank)
        if low_rank is None:
            return matrix
        factor = low_rank.factor.astype(np.float64, copy=False)
        if centred:
            factor -= factor.mean(axis=0)
        return replace(matrix, factor=factor, residual_trace=low_rank.trace_error)

    def rank_for(self, n: int, per_root: float = RIDGE_RANK) -> int:
        """The rank of the preconditioner for n rows; by default relative to the root of n."""
        if self.preconditioner is None:
            return 0
        per_root = 2 if self.preconditioner == "nystrom" else per_root
        return min(n, int(np.ceil(per_root * np.sqrt(n))) if self.rank is None else self.rank)

    def _factor(
        self, access: KernelColumns, seed: int, rank: int | None = None
    ) -> LowRank | NystromSketch | None:
        if self.preconditioner is None:
            return None
        rank, rng = rank or self.rank_for(len(access)), np.random.RandomState(seed)
        if self.preconditioner == "nystrom":
            return nystrom_sketch(access.multiply, access.diagonal, rank, rng=rng)
        return pivoted_cholesky(
            access.columns,
            access.diagonal,
            rank,
            method=_METHODS[self.preconditioner],
            rng=rng,
            entries=access.entries,
        )


def _sampled_errors(task: RidgeTask, rows: NDArray[np.intp], least: float) -> Array:
    """The criterion at each alpha on some rows; infinite for alphas that are too small.

    `least` is relative to the mean of w_i K_ii.
    """
    errors = np.full(task.alphas.shape, np.inf)
    if len(rows) < 2:  # no row remains when one is left out
        return errors
    out = task.compared("ConjugateGradient")
    part, groups = out.part, None if out.groups is None else out.groups[rows]
    gram = task.kernel(part.points[rows])
    weights = None if part.weights is None else part.weights[rows].astype(gram.dtype)
    problem = RidgeProblem(
        gram, part.targets[rows], weights, task.fit_intercept, groups, out.scatter
    )
    considered = task.alphas >= least * problem.mean_diagonal
    if not considered.any():
        considered[:] = True
    errors[considered] = problem.errors(task.alphas[considered], task.criterion)
    return errors


def factor_size(n: int, rank: int, dtype: np.dtype[Any]) -> float:
    """The bytes of a factor, in the type of the kernel and in double precision."""
    return float(8 + (dtype.itemsize if dtype.itemsize < 8 else 0)) * n * rank


def _inverse(factor: LowRank | NystromSketch) -> LowRankInverse:
    """The preconditioner of a factor; the last eigenvalue of a sketch bounds the remaining ones."""
    floor = float(factor.values[-1]) if isinstance(factor, NystromSketch) else 0.0
    return LowRankInverse.of(factor.factor, floor)


def check_limits(solver: Any) -> None:
    """Validate tol and max_iter of a solver by iterations."""
    owner, tol = type(solver).__name__, solver.tol
    if not (is_number(tol) and 0 < tol < 1):
        raise ParameterError(
            f"{owner}: tol = {tol!r} is not between 0 and 1. It is the remaining share of the "
            "right-hand side, which is 1 before the first iteration; pass for example 1e-6."
        )
    require_count(owner, "max_iter", solver.max_iter, example=1000)


class _System:
    """S K S, the right-hand sides S (y - middle) and s, and the preconditioner.

    Vectors are in double precision whatever the type of K: the preconditioner reduces a direction
    by the factor alpha over its eigenvalue, which single precision would not resolve.
    """

    orthogonal = False
    floor = 0.0

    def __init__(
        self,
        task: RidgeTask,
        part: RowBlock,
        access: KernelColumns,
        factor: LowRank | NystromSketch | None,
    ) -> None:
        self.task, self.points, self.multiply = task, part.points, access.multiply
        self.remedies = f"max_iter, {task.ridge} or the rank of the preconditioner"
        self.root = np.sqrt(part.mass)[:, None]
        self.quality = {} if factor is None else {"preconditioner_error_": factor.trace_error}
        self.precondition: Precondition | None = None if factor is None else _inverse(factor)
        targets = self.root * (part.targets - task.middle)
        border = [self.root] if task.fit_intercept else []
        right = np.column_stack([targets, *border]).astype(np.float64)
        self.right: Array = np.tile(right, len(task.alphas))
        self.shifts: Array | float = np.repeat(task.alphas, right.shape[1])

    def coefficients(self, solution: Array) -> tuple[Array, Array]:
        """Coefficients of the rows and intercepts, at each alpha."""
        parts = np.split(solution, len(self.task.alphas), axis=1)
        duals, intercepts = zip(*map(self._coefficients, parts), strict=True)
        return np.stack(duals), np.stack(intercepts)

    def _coefficients(self, solved: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts from the columns of one alpha, by bordering."""
        intercept = self.task.middle
        if self.task.fit_intercept:
            border = solved[:, -1:]
            shift = (self.root.T @ solved[:, :-1]) / (self.root.T @ border)
            solved = solved[:, :-1] - border * shift
            intercept = intercept + shift[0]
        return (self.root * solved).astype(self.task.dtype, copy=False), intercept
