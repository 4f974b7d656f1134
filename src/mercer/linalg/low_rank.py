r"""A low-rank approximation as a preconditioner, for any shift.

From A ~ F F' and the eigendecomposition F'F = V S V', the inverse of F F' + shift I is

.. math:: \frac1\mu \left(I - F V \operatorname{diag}\frac{1}{s + \mu} V^\top F^\top\right) ,

so that one small decomposition serves every regularisation, and F itself is all that is kept of
its length. The difference in brackets is small along F: it is computed in double precision, and
with shifts that are not below the rounding of S. See Woodbury (1950); Diaz, Epperly, Frangella,
Tropp and Webber (2023), Robust, randomized preconditioning for kernel ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.floating[Any]]


# Shifts below this many units of rounding of the largest eigenvalue would be lost in it.
_ROUNDING = 16


@dataclass(frozen=True, eq=False)
class LowRankInverse:
    """The inverse of F F' + shift I."""

    factor: Array  # (n, k): the factor F, in double precision
    turn: Array  # (k, k): the eigenvectors V of F'F
    values: Array  # (k,): its eigenvalues, ascending
    # what the eigenvalues beyond are at most, about; counted as part of their shift
    floor: float = 0.0

    @classmethod
    def of(cls, factor: Array, floor: float = 0.0) -> LowRankInverse:
        """Decompose F F'."""
        factor = factor.astype(np.float64, copy=False)
        values, turn = eigh(factor.T @ factor, overwrite_a=True)
        return cls(factor, turn, np.maximum(values, 0.0), floor)

    def __call__(self, vectors: Array, shifts: Array) -> Array:
        """Apply the inverse, to each column with its own shift."""
        shifts = np.maximum(shifts, self._least)
        inside = self.turn.T @ (self.factor.T @ vectors)
        least = self.values.max(initial=0.0) * np.finfo(np.float64).eps + np.finfo(np.float64).tiny
        share = 1 - np.minimum(self.floor / np.maximum(self.values, least), 1.0)
        solved: Array = vectors - self.factor @ (
            self.turn @ (share[:, None] * inside / (self.values[:, None] + shifts))
        )
        return solved

    @property
    def _least(self) -> float:
        rounding = _ROUNDING * max(1, len(self.values)) * float(np.finfo(np.float64).eps)
        return rounding * float(self.values.max(initial=0.0)) + np.finfo(np.float64).tiny
