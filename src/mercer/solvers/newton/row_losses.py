"""Smooth losses of one row: what a sum over rows is made of.

A row's loss is a function of the k values that the fitted functions have there. Its second
derivative is W_i = sum_p q_ip u_p u_p' with few directions u_p that are the same for all rows, and
numbers q_ip >= 0: one direction for a loss of a single value, the differences of two classes for
the multinomial likelihood, as diag(p) - pp' = sum over a < b of p_a p_b (e_a - e_b)(e_a - e_b)'. So
the second derivative of a sum over rows takes one symmetric matrix for each direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, Multinomial

Array = NDArray[np.floating[Any]]


class RowLoss(Protocol):
    """A smooth convex loss of the values of k functions, for each row."""

    @property
    def n_outputs(self) -> int:
        """The number k of functions."""
        ...

    @property
    def directions(self) -> Array:
        """The u_p, as rows."""
        ...

    def value(self, targets: Array, values: Array) -> Array:
        """The losses of the rows, of shape (n,)."""
        ...

    def derivative(self, targets: Array, values: Array) -> Array:
        """Their derivatives in the values, of shape (n, k)."""
        ...

    def curvature(self, targets: Array, values: Array) -> Array:
        """The numbers q, of shape (n, p)."""
        ...

    def bent(self, targets: Array, values: Array, changes: Array) -> Array:
        """W_i times the changes of the values, of shape (n, k)."""
        ...

    def loosened(self) -> RowLoss:
        """The same loss with the diagonal of W_i alone, one direction for each output."""
        ...


@dataclass(frozen=True)
class SingleLoss:
    """A loss of one value and one column of targets."""

    loss: Loss  # smooth
    column: int = 0

    @property
    def n_outputs(self) -> int:
        """One."""
        return 1

    @property
    def directions(self) -> Array:
        """One."""
        return np.ones((1, 1))

    def value(self, targets: Array, values: Array) -> Array:
        """The losses of the rows."""
        return np.asarray(self.loss.value(targets[:, self.column], values[:, 0]))

    def derivative(self, targets: Array, values: Array) -> Array:
        """Their derivatives."""
        return np.asarray(self.loss.derivative(targets[:, self.column], values[:, 0]))[:, None]

    def curvature(self, targets: Array, values: Array) -> Array:
        """Their second derivatives."""
        return np.asarray(self.loss.curvature(targets[:, self.column], values[:, 0]))[:, None]

    def bent(self, targets: Array, values: Array, changes: Array) -> Array:
        """The second derivatives times changes."""
        return self.curvature(targets, values) * changes

    def loosened(self) -> SingleLoss:
        """The same: there is nothing to loosen."""
        return self


@dataclass(frozen=True)
class JointLoss:
    """The multinomial likelihood of codes of classes, which are the one column of targets."""

    n_outputs: int  # the number of classes
    tied: bool = True  # whether the second derivative is whole, or its diagonal

    @property
    def directions(self) -> Array:
        """The differences of two classes, or the classes."""
        one = np.eye(self.n_outputs)
        if not self.tied:
            return one
        return np.array([one[a] - one[b] for a, b in combinations(range(self.n_outputs), 2)])

    def value(self, targets: Array, values: Array) -> Array:
        """The losses of the rows."""
        return Multinomial().value(_codes(targets), values)

    def derivative(self, targets: Array, values: Array) -> Array:
        """Their derivatives."""
        return Multinomial().derivative(_codes(targets), values)

    def curvature(self, targets: Array, values: Array) -> Array:
        """Products of the probabilities of two classes, or of one and all others."""
        chances = Multinomial().probability(values)
        if not self.tied:
            return np.asarray(chances * (1 - chances))
        pairs = combinations(chances.T, 2)
        return np.column_stack([first * second for first, second in pairs])

    def bent(self, targets: Array, values: Array, changes: Array) -> Array:
        """The whole second derivative, times changes."""
        chances = Multinomial().probability(values)
        mean = np.einsum("ij,ij->i", chances, changes)
        return np.asarray(chances * (changes - mean[:, None]))

    def loosened(self) -> JointLoss:
        """The same with the diagonal of the second derivative."""
        return replace(self, tied=False)


def _codes(targets: Array) -> NDArray[np.intp]:
    return targets[:, 0].astype(np.intp)
