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
    """The inverse of F F' + shift I.

    Attributes
    ----------
    factor : ndarray of shape (n, k)
        The factor F, in double precision.
    turn : ndarray of shape (k, k)
        The eigenvectors V of F'F.
    values : ndarray of shape (k,)
        Its eigenvalues, ascending.
    floor : float
        What the eigenvalues beyond are at most, about; counted as part of their shift.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg.low_rank import LowRankInverse
    >>> inverse = LowRankInverse.of(np.array([[2.0], [0.0]]))
    >>> inverse(np.ones((2, 1)), np.array([1.0])).ravel().round(6)  # of diag(4, 0) + 1
    array([0.2, 1. ])
    """

    factor: Array
    turn: Array
    values: Array
    floor: float = 0.0

    @classmethod
    def of(cls, factor: Array, floor: float = 0.0) -> LowRankInverse:
        """Decompose F F'.

        Parameters
        ----------
        factor : ndarray of shape (n, k)
            The factor F.
        floor : float
            What the eigenvalues beyond are at most, about.

        Returns
        -------
        LowRankInverse
            For all shifts.
        """
        factor = factor.astype(np.float64, copy=False)
        values, turn = eigh(factor.T @ factor, overwrite_a=True)
        return cls(factor, turn, np.maximum(values, 0.0), floor)

    def __call__(self, vectors: Array, shifts: Array) -> Array:
        """Apply the inverse, to each column with its own shift.

        Parameters
        ----------
        vectors : ndarray of shape (n, r)
            The columns.
        shifts : ndarray of shape (r,)
            Their shifts, positive.

        Returns
        -------
        ndarray of shape (n, r)
            The products, times the shift and the floor: a factor that does not matter to conjugate
            gradients and keeps what is orthogonal to F as it is.
        """
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
