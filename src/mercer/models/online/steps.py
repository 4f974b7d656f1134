"""Steps of least mean squares: their size, and single rows computed by mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import solve_triangular

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import (
    Batch,
    BudgetedRowPass,
    FeatureExpansion,
    KernelExpansion,
    Rows,
)

Expansion = KernelExpansion | FeatureExpansion


@dataclass(frozen=True)
class StepRule:
    """How large a step is, given the curvature of the objective that it sees."""

    step_size: float | Literal["auto"]  # the parameter of the user
    alpha: float  # weight of the squared norm

    def for_batch(self, curvature: float) -> float:
        """The size of steps that see all rows; `curvature` is the largest eigenvalue of K."""
        if self.step_size != "auto":
            return self._stable(curvature, "the largest eigenvalue of K")
        total = curvature + self.alpha
        return 1 / total if total > 0 else 1.0

    def for_rows(self, curvature: float, weighted: bool, before: float) -> float:
        """The size of steps that see one row; "auto" never exceeds the step size before."""
        if self.step_size == "auto":
            total = curvature + self.alpha
            return min(before, 0.5 / total if total > 0 else 1.0)
        step = self._stable(curvature, "the largest k(x, x)" + " times weight" * weighted)
        if step * self.alpha >= 1:
            raise ParameterError(
                f"KernelLMS: step_size = {step:.6g} times alpha = {self.alpha:.6g} is not "
                "below 1, so that a step would forget everything; make one of them smaller."
            )
        return step

    def _stable(self, curvature: float, name: str) -> float:
        """The step size of the user, which must be below 2 / (curvature + alpha)."""
        step, total = float(self.step_size), curvature + self.alpha
        if total > 0 and step >= 2 / total:
            alpha = f" plus alpha = {self.alpha:.6g}" if self.alpha else ""
            raise ParameterError(
                f"KernelLMS: step_size = {step:.6g} would make the errors grow, because it is not "
                f"below {2 / total:.6g}, which is 2 / ({name} = {curvature:.6g}{alpha}); pass a "
                f'smaller one, such as {1 / total:.3g}, or "auto".'
            )
        return step


@dataclass(frozen=True)
class Steps:
    r"""The change of the function f at a row.

    .. math:: f := (1 - \eta \alpha)\, f + \eta\, w_i (y_i - f(x_i))\, k(x_i, \cdot)
    """

    size: float  # the step size eta
    alpha: float = 0.0  # weight of the squared norm
    budget: Budget | None = None  # what bounds the number of points

    @property
    def decay(self) -> float:
        """The factor of the previous function in a step."""
        return 1 - self.size * self.alpha

    def learn(
        self, f: Expansion, rows: Rows, targets: Array, weights: Array
    ) -> tuple[Expansion, Array]:
        """The function after the rows, one after another, and their errors before each step."""
        if self.budget is not None:
            assert isinstance(f, KernelExpansion)
            return self._within_budget(f, rows, targets, weights, self.budget)
        gram, values = f.gram(rows, rows), f.values(rows)
        errors, increments = self._triangular(gram, values, targets, weights)
        return f.changed(rows, increments, self.decay ** len(rows)), errors

    def _within_budget(
        self, f: KernelExpansion, rows: Rows, targets: Array, weights: Array, budget: Budget
    ) -> tuple[KernelExpansion, Array]:
        """One triangular system if the budget has a plan; otherwise row by row."""
        batch = Batch(f, rows)
        plan = budget.plan(batch)
        if plan is not None:
            # The point of a column may have left before a row.
            kept = np.where(np.arange(len(rows))[:, None] <= plan.gone, batch.block, 0.0)
            values = kept[:, : len(f.active)] @ f.coef
            errors, increments = self._triangular(kept[:, plan.target], values, targets, weights)
            return batch.changed(plan, increments, self.decay ** len(rows)), errors
        row_pass = BudgetedRowPass(f, rows, budget)
        errors = np.empty_like(targets)
        for i, target in enumerate(targets):
            errors[i] = target - row_pass.values[i]
            if self.decay != 1:
                row_pass.decay(self.decay)
            row_pass.add(i, self.size * weights[i] * errors[i])
        return row_pass.result(), errors

    def _triangular(
        self, gram: Array, values: Array, targets: Array, weights: Array
    ) -> tuple[Array, Array]:
        """The errors of rows that are learned one after another, and the coefficients they add.

        Entry (i, j) of `gram`, which is overwritten, is the kernel value of row i with the point
        whose coefficient row j changes.
        """
        powers = self.decay ** np.arange(len(targets))
        decays = powers[:, None]
        steps = self.size * weights[:, None]
        # With the steps on the diagonal the unknowns are the coefficients, not the errors, and
        # the matrix is not multiplied.
        system = np.asarray(gram, dtype=float)
        if self.decay != 1:
            system *= _lower_toeplitz(powers)
        np.fill_diagonal(system, 1 / steps)
        coef = solve_triangular(system, targets - decays * values, lower=True, check_finite=False)
        return coef / steps, decays[::-1] * coef


def _lower_toeplitz(powers: Array) -> Array:
    """The matrix with powers[i - 1 - j] below the diagonal, as a view of one vector."""
    n = len(powers)
    descending = np.concatenate([powers[::-1], np.zeros(n)])
    return sliding_window_view(descending, n)[n:0:-1]
