r"""The loss of several quantiles in order, smoothed row by row.

With the values F_1, ..., F_k of k functions at a point with target y and weight w, levels tau
rising, and rho the pinball loss,

.. math:: h(F) = w \sum_j \rho_{\tau_j}(y - F_j) \quad \text{if } F_1 \le \dots \le F_k,
   \text{ else infinity.}

Its Moreau envelope of width gamma / w has the derivative w (F - P) / gamma, where P is the proximal
point. That is found in one pass: with M the isotonic regression of F + gamma tau, P is y cut to the
interval [M - gamma, M]. Entries are of three kinds. Those with P = y are free. Those that share
their M with a neighbour, and are not at y, meet: the sum of their derivatives is known. Of the
others the derivative is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]


def isotonic(values: Array) -> Array:
    """The isotonic regression of every row.

    Parameters
    ----------
    values : ndarray of shape (n, k)
        Rows to approximate.

    Returns
    -------
    ndarray of shape (n, k)
        The nearest rows that never fall. Entries that are pooled are equal bit by bit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.ordered import isotonic
    >>> isotonic(np.array([[1.0, 4.0, 2.0, 6.0]]))
    array([[1., 3., 3., 6.]])
    """
    found = np.full_like(values, -np.inf)
    k = values.shape[1]
    for first in range(k):
        # Of entry j: the least mean of a run from here that reaches j. The largest of them counts.
        means = np.cumsum(values[:, first:], axis=1) / np.arange(1, k - first + 1)
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        np.maximum(found[:, first:], least, out=found[:, first:])
    return found


@dataclass(frozen=True)
class Envelope:
    """The smoothed loss of n rows and k quantiles.

    Attributes
    ----------
    residuals : ndarray of shape (n, k)
        The values F - y.
    weights : ndarray of shape (n,)
        Positive weights.
    levels : ndarray of shape (k,)
        The quantiles, rising.
    gamma : float
        Positive width.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.ordered import Envelope
    >>> at = Envelope(np.array([[3.0, 2.0]]), np.ones(1), np.array([0.2, 0.8]), gamma=1.0)
    >>> at.slopes + 0.0
    array([[1., 0.]])
    >>> at.known()
    array([[-0.5, -0.5]])
    """

    residuals: Array
    weights: Array
    levels: Array
    gamma: float

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
    def meets(self) -> Mask:
        """Which entries meet the one before."""
        same = np.zeros(self.pooled.shape, dtype=bool)
        same[:, 1:] = (self.pooled[:, 1:] == self.pooled[:, :-1]) & ~self.free[:, 1:]
        return same

    def known(self) -> Array:
        """Minus the derivative where it is known, its mean where entries meet, else 0."""
        runs = np.cumsum(~self.meets).reshape(self.meets.shape) - 1
        levels = np.broadcast_to(self.levels, runs.shape)
        means = np.bincount(runs.ravel(), levels.ravel()) / np.bincount(runs.ravel())
        known = self.weights[:, None] * (means[runs] - (self.pooled >= self.gamma))
        return np.where(self.free, 0.0, known)

    def contrasts(self) -> tuple[Rows, Array]:
        """The row of each entry that meets the one before, and a unit vector.

        The vectors of entries that meet span the differences between them, and are orthogonal.
        """
        rows, at = np.nonzero(self.meets)
        positions = np.arange(self.meets.shape[1])
        begins = np.where(self.meets, 0, positions)
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

    def same_kinds(self, other: Envelope) -> bool:
        """Whether every entry is of the same kind elsewhere."""
        above = np.array_equal(self.pooled >= self.gamma, other.pooled >= other.gamma)
        free, meets = np.array_equal(self.free, other.free), np.array_equal(self.meets, other.meets)
        return above and free and meets
