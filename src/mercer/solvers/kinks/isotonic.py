r"""The loss of several quantiles in order, smoothed row by row.

With the values F_1, ..., F_k of k functions at a point with target y and weight w, levels tau
rising, and rho the pinball loss,

.. math:: h(F) = w \sum_j \rho_{\tau_j}(y - F_j) \quad \text{if } F_1 \le \dots \le F_k,
   \text{ else infinity.}

Its Moreau envelope of width gamma / w has the derivative w (F - P) / gamma, where P is the proximal
point: with M the isotonic regression of F + gamma tau, P is y clipped to the interval
[M - gamma, M]. There are three kinds of entries. Free entries have P = y. Tied entries share their
M with a neighbour, and are not free: the sum of their derivatives is known. The derivatives of all
other entries are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from mercer.arrays import Array
from mercer.linalg.low_rank import LowRankMatrix
from mercer.parallel import cached_property
from mercer.solvers.newton.curvature import factorised

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

# Number of steps of iterative refinement, which removes the effect of the ridge.
_REFINEMENTS = 3
# Ridge of equations that have no ridge of their own, relative to the mean diagonal entry.
_LEAST_RIDGE = 1e-12


def isotonic(values: Array) -> Array:
    """The isotonic regression of every row."""
    fitted = np.full_like(values, -np.inf)
    k = values.shape[1]
    for first in range(k):
        # Entry j is the largest, over starts, of the smallest mean of a run that reaches j.
        means = np.cumsum(values[:, first:], axis=1) / np.arange(1, k - first + 1)
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        np.maximum(fitted[:, first:], least, out=fitted[:, first:])
    return fitted


@dataclass(frozen=True)
class Envelope:
    """The smoothed loss of n rows and k quantiles."""

    residuals: Array  # (n, k): the values F - y
    weights: Array  # (n,): positive weights
    levels: Array  # (k,): the quantiles, rising
    gamma: float  # positive width

    @cached_property
    def pooled(self) -> Array:
        """The isotonic regression M - y."""
        return isotonic(self.residuals + self.gamma * self.levels)

    @cached_property
    def slopes(self) -> Array:
        """The derivative."""
        nearest = np.clip(0.0, self.pooled - self.gamma, self.pooled)
        return np.asarray(self.weights[:, None] * ((self.residuals - nearest) / self.gamma))

    @cached_property
    def free(self) -> Mask:
        """Which entries have their proximal point at the target."""
        return np.asarray((self.pooled > 0) & (self.pooled < self.gamma))

    @cached_property
    def tied(self) -> Mask:
        """Which entries are tied to the previous one."""
        same = np.zeros(self.pooled.shape, dtype=bool)
        same[:, 1:] = (self.pooled[:, 1:] == self.pooled[:, :-1]) & ~self.free[:, 1:]
        return same

    def known(self) -> Array:
        """Minus the derivative of entries that are not free (of tied ones the mean), 0 if free."""
        runs = np.cumsum(~self.tied).reshape(self.tied.shape) - 1
        levels = np.broadcast_to(self.levels, runs.shape)
        means = np.bincount(runs.ravel(), levels.ravel()) / np.bincount(runs.ravel())
        known = self.weights[:, None] * (means[runs] - (self.pooled >= self.gamma))
        return np.where(self.free, 0.0, known)

    def contrasts(self) -> tuple[Rows, Array]:
        """The row of each entry that is tied to the previous one, and a unit vector.

        The vectors of tied entries span the differences between them, and are orthogonal.
        """
        rows, at = np.nonzero(self.tied)
        positions = np.arange(self.tied.shape[1])
        begins = np.where(self.tied, 0, positions)
        first = np.maximum.accumulate(begins, axis=1)[rows, at]
        size = (at - first)[:, None]
        before = (positions >= first[:, None]) & (positions < at[:, None])
        mix = (before - size * (positions == at[:, None])) / np.sqrt(size * (size + 1))
        return rows, mix

    def curvature(self) -> Array:
        """The second derivatives, summed over rows, of shape (k, k)."""
        rows, mix = self.contrasts()
        steep = self.weights / self.gamma
        return np.diag(steep @ self.free) + np.asarray((mix.T * steep[rows]) @ mix)

    def has_active_set_of(self, other: Envelope) -> bool:
        """Whether the free and the tied entries are those of another envelope."""
        above = np.array_equal(self.pooled >= self.gamma, other.pooled >= other.gamma)
        free, tied = np.array_equal(self.free, other.free), np.array_equal(self.tied, other.tied)
        return above and free and tied


class System:
    """Newton's equations: one unknown per free entry, function by function, and per tied pair.

    Free entries of different functions are not coupled, so that one factor per function and one for
    the tied pairs are enough.
    """

    def __init__(
        self, gram: Array | LowRankMatrix, alpha: float, constant: float, here: Envelope
    ) -> None:
        self.gram, self.alpha, self.constant = gram, alpha, constant
        self.shape = here.free.shape
        self.free = [np.flatnonzero(column) for column in here.free.T]
        self.rows, self.mix = here.contrasts()
        self._ends = np.cumsum([len(rows) for rows in self.free])

    def gather(self, values: Array) -> Array:
        """Map values at all entries to the unknowns."""
        parts = [values[rows, k] for k, rows in enumerate(self.free)]
        return np.concatenate([*parts, np.einsum("zk,zk->z", values[self.rows], self.mix)])

    def scatter(self, unknowns: Array) -> Array:
        """Map unknowns to values at all entries, the transpose of `gather`."""
        *parts, pairs = np.split(unknowns, self._ends)
        values = np.zeros(self.shape)
        np.add.at(values, self.rows, pairs[:, None] * self.mix)
        for k, (rows, part) in enumerate(zip(self.free, parts, strict=True)):
            values[rows, k] += part
        return values

    def times(self, values: Array) -> Array:
        """The Gram matrix, with its constant, times values."""
        return np.asarray(self.gram @ values / self.alpha + self.constant * values.sum(axis=0))

    def solve(self, right: Array, ridge: Array) -> Array:
        """Solve for each column, with a ridge for each row; without one, refine."""
        if np.any(ridge):
            return self._inverse(ridge)(right)
        # Repeated rows make the equations singular. Add a ridge, whose effect refinement removes.
        least = _LEAST_RIDGE * (float(np.mean(self.gram.diagonal())) / self.alpha + self.constant)
        apply = self._inverse(np.full(len(self.gram), least or 1.0))
        solved = apply(right)
        for _ in range(_REFINEMENTS):
            products = [self.gather(self.times(self.scatter(z))) for z in solved.T]
            solved = solved + apply(right - np.column_stack(products))
        return solved

    def _inverse(self, ridge: Array) -> Callable[[Array], Array]:
        """A solver, from factors of each function and of the Schur complement of the pairs."""
        lowers = [factorised(self._block(rows, ridge))[0].T for rows in self.free]
        inner = self._block(self.rows, ridge, self.mix @ self.mix.T)
        halves = []
        for k, (rows, lower) in enumerate(zip(self.free, lowers, strict=True)):
            across = self._across(rows, self.rows) * self.mix[:, k]
            halves.append(lower_solve(lower, across))
            inner -= halves[-1].T @ halves[-1]
        last = factorised(inner)

        def apply(right: Array) -> Array:
            *parts, pairs = np.split(right, self._ends)
            first = [lower_solve(lower, part) for lower, part in zip(lowers, parts, strict=True)]
            for half, part in zip(halves, first, strict=True):
                pairs = pairs - half.T @ part
            pairs = np.asarray(cho_solve(last, pairs, check_finite=False))
            solved = [
                lower_solve(lower, part - half @ pairs, "T")
                for lower, half, part in zip(lowers, halves, first, strict=True)
            ]
            return np.concatenate([*solved, pairs])

        return apply

    def _across(self, rows: Rows, columns: Rows) -> Array:
        return np.asarray(self.gram[np.ix_(rows, columns)] / self.alpha + self.constant)

    def _block(self, rows: Rows, ridge: Array, mix: Array | None = None) -> Array:
        block = self._across(rows, rows)
        if mix is not None:
            block *= mix
        block.flat[:: len(block) + 1] += ridge[rows]
        return block


def lower_solve(lower: Array, right: Array, trans: str = "N") -> Array:
    """Solve equations with a lower triangle, or with its transpose."""
    return np.asarray(solve_triangular(lower, right, lower=True, trans=trans, check_finite=False))
