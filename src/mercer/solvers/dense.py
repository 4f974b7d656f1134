"""Solvers that store the matrix of all pairs of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer import validity
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.linalg.cholesky import RIDGE
from mercer.rows.left_out import LeftOut
from mercer.rows.rows import RowBlock
from mercer.solvers.protocol import (
    FEW_ROWS,
    IN_BLOCKS,
    MANY_ROWS,
    TOO_LARGE,
    Cost,
    FitProblem,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    SearchAnswer,
    Solver,
    default_alphas,
)
from mercer.solvers.ridge.gram import RidgeProblem
from mercer.validity.required import gram_matrix, require_positive

#: Copies of the Gram matrix that a Cholesky factor takes: it replaces the matrix.
FACTOR_MATRICES = 1.1
#: Copies that a tridiagonal form takes, without eigenvectors.
TRIDIAGONAL_MATRICES = 2.3
#: Copies that eigenvectors take: two copies, and two of workspace.
SPECTRAL_MATRICES = 5.1
#: Copies of a machine with a smooth loss: the matrix, scaled, some rows of it, and a factor.
NEWTON_MATRICES = 4.2
#: Copies of a machine with several functions that are fitted together.
JOINT_MATRICES = 3.2
#: Vectors of rows for each of these functions, in iterations.
ITERATION_VECTORS = 80.0
#: Copies of a machine with several functions, each of whose steps takes a factor for each.
DIRECT_JOINT_MATRICES = 4.0
#: Copies of a machine whose loss has kinks.
KINKED_MATRICES = 2.0
#: Further copies for its free rows, if all rows are free at first.
FREE_MATRICES = 1.75


class DenseSolver(Solver):
    """Base of solvers that store the matrix of all pairs of rows."""

    needs_all_rows = True
    is_dense = True
    #: Whether coefficients at one alpha come from eigenvectors.
    eigenvectors: ClassVar[bool] = False

    def cost(self, problem: FitProblem) -> Cost:
        """The matrix and its factors."""
        matrices, operations = problem.dense(eigenvectors=self.eigenvectors)
        pairs = float(problem.n) ** 2
        return Cost(self, matrices * pairs * problem.dtype.itemsize, operations, pairs)

    def obstacle(self, problem: FitProblem) -> str:
        """Why the matrix is impossible, or not what "auto" takes."""
        if not problem.in_memory:
            return IN_BLOCKS
        size = self.cost(problem).size
        if size is not None and not problem.fits(size):
            return TOO_LARGE
        if problem.n <= min(FEW_ROWS, problem.dense_rows) or not problem.matrix_is_expensive:
            return ""
        return "" if problem.needs_matrix else MANY_ROWS

    def search(self, tasks: Sequence[RidgeTask]) -> SearchAnswer:
        """Compare every kernel with every alpha, from one reduction of each matrix."""
        if len(tasks[0].rows) < 2:
            raise DataError(
                f"{tasks[0].owner}: a choice by leaving rows out needs at least two rows, got "
                "1 sample; pass a number as alpha."
            )
        alphas, errors = tasks[0].alphas, []
        for task in tasks:
            problem, _ = dense_problem(task, task.compared(type(self).__name__))
            if not alphas.size:
                alphas = default_alphas(problem.mean_diagonal, problem.n_rows, problem.dtype)
            errors.append(problem.errors(alphas, task.criterion))
        table = np.stack(errors)
        tasks[0].require_choice(table)
        best, column = divmod(int(np.argmin(table)), len(alphas))
        return SearchAnswer(self._ridge(tasks[best].at(float(alphas[column]))), best, alphas, table)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        alpha, quality = float(task.alphas[0]), {}
        by_factor, part = alpha > 0 and not self.eigenvectors, task.part(type(self).__name__)
        matrices = FACTOR_MATRICES if by_factor else SPECTRAL_MATRICES
        problem, repair = dense_problem(task, part, matrices)
        with np.errstate(over="ignore", invalid="ignore"):
            if by_factor:
                solution = problem.solve(alpha)
            else:
                spectrum = problem.spectrum()
                solution = problem.expand(spectrum.solve(problem.targets, alpha))
                quality = {"rank_": spectrum.rank}
        return RidgeAnswer(
            part.points,
            solution.dual if repair is None else _folded(solution.dual, repair),
            solution.intercept,
            alpha,
            {"jitter_": solution.jitter} | quality,
            warning=problem.rounding_warning(solution.dual),
        )

    def _path(self, task: RidgeTask) -> PathAnswer:
        """All alphas from one eigendecomposition."""
        part = task.part(type(self).__name__)
        problem, repair = dense_problem(task, part)
        spectrum, alphas = problem.spectrum(), task.alphas
        solutions = [problem.expand(spectrum.solve(problem.targets, alpha)) for alpha in alphas]
        dual = np.stack([solution.dual for solution in solutions])
        dof = spectrum.effective_dof(alphas)
        if task.left_out is not None:
            problem, _ = dense_problem(task, task.left_out)
            spectrum = problem.spectrum()
        return PathAnswer(
            part.points,
            dual if repair is None else np.stack([_folded(at, repair) for at in dual]),
            np.stack([solution.intercept for solution in solutions]),
            problem.averaged(spectrum.loo_errors(problem.targets, alphas, problem.groups)),
            problem.averaged(spectrum.gcv_errors(problem.targets, alphas)),
            dof,
        )


@dataclass(eq=False)
class Cholesky(DenseSolver, name="cholesky"):
    """The Gram matrix in memory and one Cholesky factor of it: exact, n^3 / 3 operations.

    Choosing alpha by leaving rows out takes a tridiagonal reduction, alpha = 0 an
    eigendecomposition.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.KernelRidge(solver=mc.solvers.Cholesky()).fit([[0.0], [1.0]], [0.0, 1.0]).solver_
    Cholesky()
    """


@dataclass(eq=False)
class Spectral(DenseSolver, name="spectral"):
    """The Gram matrix in memory and its eigendecomposition: exact, about 9 n^3 operations.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.KernelRidge(solver=mc.solvers.Spectral()).fit([[0.0], [1.0]], [0.0, 1.0]).solver_
    Spectral()
    """

    eigenvectors = True


def dense_problem(
    task: RidgeTask, rows: RowBlock | LeftOut, matrices: float = SPECTRAL_MATRICES
) -> tuple[RidgeProblem, validity.Repair | None]:
    """The Gram matrix with the targets, after a forecast of memory and a check of validity."""
    out = rows if isinstance(rows, LeftOut) else LeftOut(rows)
    part = out.part
    gram = gram_matrix(task.owner, task.kernel, part.points, matrices, task.psd)
    repair = None
    if task.kernel.is_psd is not True:
        if task.psd == "raise":
            require_positive(task.owner, task.kernel, gram, RIDGE)
        else:
            repair = validity.repair(gram, task.psd)  # type: ignore[arg-type]
            gram = repair.matrix
    problem = RidgeProblem(
        gram, part.targets, part.weights, task.fit_intercept, out.groups, out.scatter
    )
    return problem, repair


def _folded(dual: Array, repair: validity.Repair) -> Array:
    """Coefficients for test rows that are not repaired.

    A repair multiplies test rows by a symmetric matrix; multiplying the coefficients by it instead
    leaves prediction as it is for every other kernel.
    """
    return repair.transform(dual.T).T.astype(dual.dtype, copy=False)
