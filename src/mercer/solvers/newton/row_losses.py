"""Smooth losses of one row, for solvers that sum over rows.

A row's loss is a function of the k values of the fitted functions at that row. Its Hessian is
W_i = sum_p q_ip u_p u_p' with a few factors u_p that all rows share, and weights q_ip >= 0: one
factor for a loss of one output, the differences of two classes for the multinomial log-loss, as
diag(p) - pp' = sum over a < b of p_a p_b (e_a - e_b)(e_a - e_b)'. So the Hessian of a sum over rows
needs one symmetric matrix per factor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.losses import Loss, Multinomial
from mercer.solvers.newton.curvature import (
    DiagonalHessian,
    Hessian,
    SoftmaxHessian,
    softmax_product,
)


@dataclass(frozen=True)
class SingleLoss:
    """A loss of one output and one column of targets."""

    loss: Loss  # smooth
    column: int = 0

    n_outputs: ClassVar[int] = 1
    hessian_factors: ClassVar[Array] = np.ones((1, 1))

    def value(self, targets: Array, values: Array) -> Array:
        """The losses of the rows, of shape (n,)."""
        return np.asarray(self.loss.value(targets[:, self.column], values[:, 0]))

    def derivative(self, targets: Array, values: Array) -> Array:
        """The derivatives in the values, of shape (n, k)."""
        return np.asarray(self.loss.derivative(targets[:, self.column], values[:, 0]))[:, None]

    def hessian_weights(self, targets: Array, values: Array) -> Array:
        """The weights q, of shape (n, p): the second derivatives."""
        return np.asarray(self.loss.curvature(targets[:, self.column], values[:, 0]))[:, None]

    def hessian_product(self, targets: Array, values: Array, changes: Array) -> Array:
        """W_i times the changes of the values, of shape (n, k)."""
        return self.hessian_weights(targets, values) * changes

    def hessian(self, targets: Array, values: Array, weights: Array) -> Hessian:
        """The Hessian of the weighted losses; the weights themselves if all curvature is zero."""
        curvature = weights * self.hessian_weights(targets, values)[:, 0]
        return DiagonalHessian(curvature if curvature.any() else weights)

    def block_diagonal(self) -> SingleLoss:
        """The loss itself: one output has no other blocks."""
        return self


@dataclass(frozen=True)
class JointLoss:
    """The multinomial log-loss; the one column of targets holds the codes of the classes."""

    n_outputs: int  # the number of classes
    full: bool = True  # whether to use the full Hessian, or its diagonal

    @property
    def hessian_factors(self) -> Array:
        """The u_p: differences of two unit vectors; for the diagonal Hessian, unit vectors."""
        classes = np.eye(self.n_outputs)
        if not self.full:
            return classes
        pairs = combinations(range(self.n_outputs), 2)
        return np.array([classes[a] - classes[b] for a, b in pairs])

    def value(self, targets: Array, values: Array) -> Array:
        """The losses of the rows."""
        return Multinomial().value(_codes(targets), values)

    def derivative(self, targets: Array, values: Array) -> Array:
        """The derivatives of the losses."""
        return Multinomial().derivative(_codes(targets), values)

    def hessian_weights(self, targets: Array, values: Array) -> Array:
        """Products p_a p_b of two probabilities; for the diagonal Hessian, p_a (1 - p_a)."""
        probabilities = Multinomial().probability(values)
        if not self.full:
            return np.asarray(probabilities * (1 - probabilities))
        pairs = combinations(probabilities.T, 2)
        return np.column_stack([first * second for first, second in pairs])

    def hessian_product(self, targets: Array, values: Array, changes: Array) -> Array:
        """The full Hessian times changes of the values."""
        return softmax_product(Multinomial().probability(values), changes)

    def hessian(self, targets: Array, values: Array, weights: Array) -> Hessian:
        """The full Hessian of the weighted losses."""
        return SoftmaxHessian(weights, Multinomial().probability(values))

    def block_diagonal(self) -> JointLoss:
        """The loss with the diagonal of its Hessian instead of the full one."""
        return replace(self, full=False)


#: A smooth convex loss of the values of k functions, for each row.
RowLoss = SingleLoss | JointLoss


@dataclass(frozen=True, eq=False)
class WeightedLoss:
    """The weighted sum of a loss over rows in memory."""

    loss: RowLoss
    targets: Array  # (n, t)
    weights: Array  # (n,)

    def value(self, values: Array) -> float:
        """The weighted sum of losses."""
        return float(self.weights @ self.loss.value(self.targets, values))

    def derivative(self, values: Array) -> Array:
        """The derivative in every value."""
        return self.weights[:, None] * self.loss.derivative(self.targets, values)

    def hessian(self, values: Array) -> Hessian:
        """The Hessian of the sum."""
        return self.loss.hessian(self.targets, values, self.weights)


def _codes(targets: Array) -> NDArray[np.intp]:
    return targets[:, 0].astype(np.intp)
