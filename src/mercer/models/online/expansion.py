"""The function that an online model learns: a sum of kernels at some rows, or of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.parallel import cached_property

if TYPE_CHECKING:
    from mercer.models.online.budgets import Budget

Rows = NDArray[np.intp]

# Rows of a pool up to which its Gram matrix is stored: 32 MB.
_STORED_ROWS = 2000


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """The sum of a_j k(x_j, .) over the active rows j of a pool, oldest first.

    It is immutable: learning returns a new one, so that reported states do not change.
    """

    kernel: Kernel
    pool: Points  # the dictionary so far, then the rows to learn from
    numbers: Rows  # (n,): numbers of the rows of the pool among the rows of all calls
    active: Rows  # (m,): the rows of the pool that carry coefficients
    coef: Array  # (m, n_outputs): the coefficients
    matrix: Array | None = None  # (n, n): the Gram matrix of the pool, if it is stored

    def keeping_matrix(self) -> KernelExpansion:
        """Store the Gram matrix of the pool if the pool is small, for several passes."""
        small = len(self.pool) <= _STORED_ROWS
        return replace(self, matrix=self.kernel(self.pool)) if small else self

    def dictionary(self) -> dict[str, Any]:
        """The fitted attributes of the active points, copied out of the pool."""
        return {
            "points_": self.pool[self.active].detached(),
            "rows_": self.numbers[self.active],
            "_rows_seen": int(self.numbers[-1]) + 1,
        }

    def values(self, rows: Rows) -> Array:
        """Values of f at rows of the pool; no matrix is stored."""
        if not len(self.active):
            return np.zeros((len(rows), self.coef.shape[1]))
        if self.matrix is not None:
            return np.asarray(self.matrix[np.ix_(rows, self.active)] @ self.coef, dtype=float)
        return np.asarray(self._operator(rows, self.active) @ self.coef, dtype=float)

    def gram(self, rows: Rows, columns: Rows) -> Array:
        """Kernel values between rows of the pool."""
        if self.matrix is not None:
            return self.matrix[np.ix_(rows, columns)]
        return self._operator(rows, columns).toarray()

    def diagonal(self, rows: Rows) -> Array:
        """Values k(x, x) at rows of the pool."""
        return np.asarray(self.kernel.diag(self.pool[rows]), dtype=float)

    def _operator(self, rows: Rows, columns: Rows) -> Gram:
        # A block of the Gram matrix of the pool, so that a row is known to be itself (`White`).
        whole = self.kernel.gram(self.pool).pairs
        if rows is not columns:
            return Gram(self.kernel, whole.block(_span(rows), _span(columns)))
        part = self.pool[_span(rows)]
        return Gram(self.kernel, replace(whole, rows=part, cols=part))

    def changed(self, rows: Rows, increments: Array, factor: float = 1.0) -> KernelExpansion:
        """The function factor * f + sum of increments_i k(x_i, .) over the rows."""
        place = self.places()[rows]
        known, fresh = place >= 0, place < 0
        coef = np.concatenate([factor * self.coef, increments[fresh]])
        coef[place[known]] += increments[known]
        return replace(self, active=np.concatenate([self.active, rows[fresh]]), coef=coef)

    def places(self) -> Rows:
        """Where each row of the pool stands among the active ones; -1 if it is not active."""
        place = np.full(len(self.pool), -1, dtype=np.intp)
        place[self.active] = np.arange(len(self.active))
        return place


@dataclass(frozen=True, eq=False)
class FeatureExpansion:
    """The function <weights, phi(.)> of explicit features phi, which needs no dictionary."""

    features: Any  # (n, p): phi at the rows to learn from
    weights: Array  # (p, n_outputs): the coefficients of the features

    def values(self, rows: Rows) -> Array:
        """Values of f at some rows."""
        return np.asarray(self.features[rows] @ self.weights)

    def gram(self, rows: Rows, columns: Rows) -> Array:
        """Inner products of features."""
        block = self.features[rows] @ self.features[columns].T
        return np.asarray(block.toarray() if sp.issparse(block) else block)

    def diagonal(self, rows: Rows) -> Array:
        """Squared lengths of features."""
        chosen = self.features[rows]
        with np.errstate(over="ignore"):  # the caller refuses infinite values
            squares = chosen.multiply(chosen) if sp.issparse(chosen) else chosen * chosen
        return np.asarray(squares.sum(axis=1), dtype=float).ravel()

    def changed(self, rows: Rows, increments: Array, factor: float = 1.0) -> FeatureExpansion:
        """The function factor * f + sum of increments_i <phi(x_i), phi(.)> over the rows."""
        added = self.features[rows].T @ increments
        return FeatureExpansion(self.features, factor * self.weights + added)


def _span(rows: Rows) -> slice | Rows:
    """Consecutive rows as a slice, which copies nothing."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    follow = last - first == len(rows) and (np.diff(rows) == 1).all()
    return slice(first, last) if follow else rows


@dataclass(frozen=True, eq=False)
class DictionarySchedule:
    """What a budget will do in a mini-batch, if that does not depend on the errors."""

    target: Rows  # (b,): the column that receives the term of each row
    # (m + b,): the step in which each column leaves, after the error of that step; b if it stays
    gone: Rows
    members: Rows  # the columns in the dictionary at the end, oldest first


class Batch:
    """Kernel values of the rows of a mini-batch with the active points, then with each other."""

    def __init__(self, expansion: KernelExpansion, rows: Rows) -> None:
        self.expansion, self.rows = expansion, rows
        self.known = expansion.places()[rows]
        self.columns = np.concatenate([expansion.active, rows])

    @cached_property
    def block(self) -> Array:
        """Kernel values of the rows with the columns."""
        return self.expansion.gram(self.rows, self.columns)

    @cached_property
    def diagonal(self) -> Array:
        """Values k(x, x) of the columns."""
        return self.expansion.diagonal(self.columns)

    def changed(
        self, plan: DictionarySchedule, increments: Array, factor: float
    ) -> KernelExpansion:
        """The function after the batch."""
        old = self.expansion.coef
        coef = np.concatenate([factor * old, np.zeros_like(increments)])
        np.add.at(coef, plan.target, increments)
        return replace(self.expansion, active=self.columns[plan.members], coef=coef[plan.members])


class RowPass:
    """A mini-batch taken row by row, with the kernel values of its pairs computed at once.

    `values` holds f at the rows of the batch, and is updated with every change of f.
    """

    def __init__(self, expansion: KernelExpansion, rows: Rows) -> None:
        self.expansion, self.rows = expansion, rows
        self.values = expansion.values(rows)
        self._block = np.asfortranarray(expansion.gram(rows, rows))  # read by columns
        self._increments = np.zeros((len(rows), expansion.coef.shape[1]))

    def add(self, row: int, increment: Array) -> None:
        """Add increment * k(x, .) to f, x being a row of the batch."""
        self._increments[row] += increment
        self.values += np.multiply.outer(self._block[:, row], increment)

    def result(self) -> KernelExpansion:
        """The function after the batch."""
        learned = self._increments.any(axis=1)
        return self.expansion.changed(self.rows[learned], self._increments[learned])


class BudgetedRowPass(Batch):
    """A pass over the rows of a mini-batch whose dictionary is bounded by a budget."""

    def __init__(self, expansion: KernelExpansion, rows: Rows, budget: Budget) -> None:
        super().__init__(expansion, rows)
        self.budget, m = budget, len(expansion.active)
        self._column_of = np.where(self.known < 0, m + np.arange(len(rows)), self.known)
        self.block = np.asfortranarray(self.block)  # read by columns
        self.coef = np.zeros((len(self.columns), expansion.coef.shape[1]))
        self.coef[:m] = expansion.coef
        self.values = self.block[:, :m] @ expansion.coef
        self.members = list(range(m))

    def add(self, row: int, increment: Array) -> None:
        """Add increment * k(x, .) to f, as the budget allows."""
        self.budget.insert(self, row, int(self._column_of[row]), increment)

    def decay(self, factor: float) -> None:
        """Multiply f by a factor."""
        self.coef *= factor
        self.values *= factor

    def result(self) -> KernelExpansion:
        """The function after the batch."""
        members = np.array(self.members, dtype=np.intp)
        return replace(self.expansion, active=self.columns[members], coef=self.coef[members])

    def change(self, column: int, increment: Array) -> None:
        """Add to the coefficient of one column."""
        self.coef[column] += increment
        self.values += np.multiply.outer(self.block[:, column], increment)

    def change_all(self, columns: list[int], increments: Array) -> None:
        """Add to the coefficients of several columns."""
        self.coef[columns] += increments
        self.values += self.block[:, columns] @ increments

    def drop(self, column: int) -> None:
        """Take a column out of the dictionary and its term out of f."""
        self.change(column, -self.coef[column])
        self.coef[column] = 0.0
        self.members.remove(column)

    def gram(self, columns: list[int]) -> Array:
        """Kernel values among columns."""
        return self._square[np.ix_(columns, columns)]

    @cached_property
    def _square(self) -> Array:
        return self.expansion.gram(self.columns, self.columns)
