"""Steps of least mean squares, one for each row, computed by mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import (
    Batch,
    BudgetedSweep,
    FeatureExpansion,
    KernelExpansion,
    Rows,
)

Array = NDArray[np.floating[Any]]
Expansion = KernelExpansion | FeatureExpansion


@dataclass(frozen=True)
class Steps:
    r"""How a row changes the function f.

    .. math:: f := (1 - \eta \alpha)\, f + \eta\, w_i (y_i - f(x_i))\, k(x_i, \cdot)
    """

    size: float  # the step size eta
    alpha: float = 0.0  # weight of the squared norm
    budget: Budget | None = None  # what bounds the number of points

    @property
    def decay(self) -> float:
        """What a step leaves of the function before it."""
        return 1 - self.size * self.alpha

    def learn(
        self, f: Expansion, rows: Rows, targets: Array, weights: Array
    ) -> tuple[Expansion, Array]:
        """Take one row after another."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.budget is None:
                return self._solve(f, rows, targets, weights)
            assert isinstance(f, KernelExpansion)
            return self._within_budget(f, rows, targets, weights)

    def _solve(
        self, f: Expansion, rows: Rows, targets: Array, weights: Array
    ) -> tuple[Expansion, Array]:
        """A mini-batch of which every row is kept."""
        gram, values = f.gram(rows, rows), f.values(rows)
        errors, increments = self._triangular(gram, values, targets, weights)
        return f.changed(rows, increments, self.decay ** len(rows)), errors

    def _within_budget(
        self, f: KernelExpansion, rows: Rows, targets: Array, weights: Array
    ) -> tuple[KernelExpansion, Array]:
        """A mini-batch under a budget, at once if it is known who leaves when."""
        assert self.budget is not None
        batch = Batch(f, rows)
        plan = self.budget.plan(batch)
        if plan is None:
            return self._sweep(f, rows, targets, weights)
        kept = batch.kept(plan)
        values = kept[:, : len(f.active)] @ f.coef
        errors, increments = self._triangular(kept[:, plan.target], values, targets, weights)
        return batch.changed(plan, increments, self.decay ** len(rows)), errors

    def _triangular(
        self, gram: Array, values: Array, targets: Array, weights: Array
    ) -> tuple[Array, Array]:
        """The errors of rows that are met one after another, and the terms that they add.

        Entry (i, j) of `gram` is the kernel value of row i with the point that row j adds to; it is
        written to.
        """
        powers = self.decay ** np.arange(len(targets))
        faded = powers[:, None]
        steps = self.size * weights[:, None]
        # With the steps on the diagonal the unknowns are the coefficients, not the errors, and
        # the matrix is not multiplied.
        system = np.asarray(gram, dtype=float)
        if self.decay != 1:
            system *= _lower_toeplitz(powers)
        np.fill_diagonal(system, 1 / steps)
        coef = solve_triangular(system, targets - faded * values, lower=True, check_finite=False)
        return coef / steps, faded[::-1] * coef

    def _sweep(
        self, f: KernelExpansion, rows: Rows, targets: Array, weights: Array
    ) -> tuple[KernelExpansion, Array]:
        """The errors of a mini-batch one after another, as some budgets need."""
        assert self.budget is not None
        sweep = BudgetedSweep(f, rows, self.budget)
        errors = np.empty_like(targets)
        for i, target in enumerate(targets):
            errors[i] = target - sweep.values[i]
            if self.decay != 1:
                sweep.decay(self.decay)
            sweep.add(i, self.size * weights[i] * errors[i])
        return sweep.result(), errors


def _lower_toeplitz(powers: Array) -> Array:
    """The matrix with powers[i - 1 - j] below the diagonal, as a view of one vector."""
    n = len(powers)
    descending = np.concatenate([powers[::-1], np.zeros(n)])
    return sliding_window_view(descending, n)[n:0:-1]
