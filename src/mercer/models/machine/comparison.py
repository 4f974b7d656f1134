r"""Losses at rows that were left out, along a path of alphas.

With f_{-i} fitted without row i, or without its fold, the criterion is the mean loss

.. math:: \frac{\sum_i w_i\, \ell(y_i, f_{-i}(x_i))}{\sum_i w_i} .

The alphas are compared from the largest to the smallest on one matrix. Each fit starts from the
linear extrapolation, in log(alpha), of the two before it. The comparison ends when losses have
risen for long enough: fits at small alphas cost most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.linalg.low_rank import LowRankMatrix
from mercer.models.machine.data import Rows, SmoothTask, Task
from mercer.models.machine.fitting import GramProblem, MachineProblem
from mercer.solvers.newton.dense import Dense
from mercer.solvers.newton.left_out import changes, changes_on_features, several
from mercer.solvers.newton.method import Start
from mercer.solvers.newton.products import Products

# Largest relative gradient, or duality gap, of a fit that is compared.
_NEAR, _NEAR_KINKS = 1e-2, 1e-6
# Largest number of steps of such a fit.
_STEPS = 50
# Number of alphas in a row whose losses rise before the comparison ends.
_RISES = 3
# Least rise of the last of them above the least loss, relative to it.
_RISEN = 0.05


@dataclass
class Path:
    """The fits of a task along decreasing alphas."""

    gram: Array | LowRankMatrix  # centred if intercepts are fitted
    task: Task
    fit_intercept: bool
    before: list[tuple[float, Array, Array]] = field(default_factory=list)

    def solve(self, alpha: float) -> tuple[Array, Array, list[Any]]:
        """Alpha times the coefficients, the intercepts, and the matrix of each part."""
        coef, intercept = self._start(alpha)
        tol = _NEAR if isinstance(self.task, SmoothTask) else _NEAR_KINKS
        options = {"fit_intercept": self.fit_intercept, "tol": tol, "max_iter": _STEPS}
        first = 0
        matrices: list[Any] = []
        for outputs, part in self.task.parts:
            mine, matrix = slice(first, first + outputs), self._matrix(alpha)
            start = coef[:, mine], intercept[mine]
            *_, state = self.task.minimise(matrix, part, alpha, start, **options)
            coef[:, mine], intercept[mine] = state.coef, state.intercept
            first = mine.stop
            matrices.append(matrix)
        self.before = [*self.before[-1:], (np.log(alpha), coef / alpha, intercept)]
        return coef, intercept, matrices

    def solution(self) -> Start:
        """Alpha times the coefficients, and the intercepts, of the last fit."""
        logarithm, dual, intercept = self.before[-1]
        return np.exp(logarithm) * dual, intercept

    def _start(self, alpha: float) -> Start:
        if not self.before:
            zeros = np.zeros((len(self.gram), self.task.n_outputs))
            return zeros, self.task.constants.copy()
        (last, *dual), (former, *older) = self.before[-1], self.before[0]
        share = (np.log(alpha) - last) / (last - former) if last != former else 0.0
        ahead = [now + share * (now - then) for now, then in zip(dual, older, strict=True)]
        return alpha * ahead[0], ahead[1]

    def _matrix(self, alpha: float) -> Any:
        """The matrix as the solver of the task takes it."""
        if not isinstance(self.task, SmoothTask):
            return self.gram
        if isinstance(self.gram, LowRankMatrix):
            return Products.of_factor(self.gram)
        return Dense(self.gram / alpha)


class LeaveOneOut:
    """Smooth losses at rows that are left out alone, or by groups, from one Newton step."""

    def __init__(self, path: Path, codes: Rows | None) -> None:
        self.path, self.groups = path, several(codes)

    def loss(self, alpha: float) -> float:
        """The mean loss at one alpha."""
        path, task, first = self.path, self.path.task, 0
        coef, intercept, matrices = path.solve(alpha)
        values = path.gram @ coef / alpha + intercept
        for (outputs, part), matrix in zip(task.parts, matrices, strict=True):
            mine = slice(first, first + outputs)
            first = mine.stop
            values[:, mine] += self._changes(part, matrix, values[:, mine], alpha)
        return _mean(task.losses_at(values), task.weights)

    def solution(self) -> Start | None:
        """The last fit to all rows."""
        return self.path.solution()

    def _changes(self, part: Any, matrix: Any, values: Array, alpha: float) -> Array:
        settings = part.derivative(values), self.groups, self.path.fit_intercept
        if isinstance(self.path.gram, LowRankMatrix):
            return changes_on_features(
                self.path.gram * (1 / alpha), part.hessian(values), *settings
            )
        # The factor of the last step of Newton's method is that of a point close by.
        return changes(matrix.gram, matrix.resolvent, *settings)


class CrossValidation:
    """Losses at the rows of each fold, from fits to the other rows."""

    def __init__(self, path: Path, folds: NDArray[np.intp]) -> None:
        self.folds = []
        for fold in range(int(folds.max()) + 1):
            held, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            self.folds.append(_Fold.of(path, held, kept))

    def loss(self, alpha: float) -> float:
        """The mean loss at one alpha."""
        losses = np.concatenate([fold.losses(alpha) for fold in self.folds])
        return _mean(losses, np.concatenate([fold.held.weights for fold in self.folds]))

    def solution(self) -> Start | None:
        """None: no fit was to all rows."""
        return None


@dataclass(frozen=True, eq=False)
class _Fold:
    """Fits to the rows that are kept, and the rows that are held out."""

    path: Path
    held: Task
    product: Callable[[Array], Array]  # the block of held and kept rows, times columns

    @classmethod
    def of(cls, path: Path, held: Rows, kept: Rows) -> _Fold:
        """The fold of some rows of a path."""
        gram, tasks = path.gram, (path.task.at(kept), path.task.at(held))
        if isinstance(gram, LowRankMatrix):
            left, right = gram.factor[held], gram.factor[kept]
            own = Path(LowRankMatrix(right), tasks[0], path.fit_intercept)
            return cls(own, tasks[1], lambda columns: left @ (right.T @ columns))
        own = Path(gram[np.ix_(kept, kept)], tasks[0], path.fit_intercept)
        return cls(own, tasks[1], gram[np.ix_(held, kept)].__matmul__)

    def losses(self, alpha: float) -> Array:
        """The losses at the held rows."""
        coef, intercept, _ = self.path.solve(alpha)
        return self.held.losses_at(self.product(coef) / alpha + intercept)


#: How the losses of a path are computed.
Criterion = LeaveOneOut | CrossValidation


def compared(criterion: Criterion, alphas: Array) -> tuple[Array, Start | None]:
    """The mean loss at each alpha, infinite beyond the end of the path, and the best fit."""
    errors, best, rises = np.full(len(alphas), np.inf), None, 0
    last = least = np.inf
    for i in np.argsort(-alphas, kind="stable"):
        errors[i] = error = criterion.loss(float(alphas[i]))
        rises = rises + 1 if error > last else 0
        if error < least:
            least, best = error, criterion.solution()
        if rises >= _RISES and error > (1 + _RISEN) * least:
            break
        last = error
    return errors, best


def matrix_of(problem: MachineProblem, fit_intercept: bool) -> Any:
    """The matrix of all rows: in memory, or the product of features in memory."""
    if isinstance(problem, GramProblem):
        return problem.gram if problem.array is None else problem.array  # of low rank, or in memory
    rows = problem.whitened_rows()
    return LowRankMatrix(rows - rows.mean(axis=0) if fit_intercept else rows)


def _mean(losses: Array, weights: Array) -> float:
    """The weighted mean; infinite if it is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(weights @ losses / weights.sum())
    return mean if np.isfinite(mean) else np.inf
