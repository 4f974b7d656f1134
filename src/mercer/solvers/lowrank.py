r"""A low-rank approximation as a preconditioner, for any shift.

From A ~ F F' and F = U S V', the inverse of F F' + shift I is

.. math:: U \operatorname{diag}\frac{1}{s^2 + \mu} U^\top + \frac1\mu (I - U U^\top) ,

so that one decomposition serves every regularisation. F is tall, so U and S come from the small
matrix F'F; directions that rounding has filled with noise are left out. See Frangella, Tropp and
Udell (2023), Randomized Nystrom preconditioning, and Diaz, Epperly, Frangella, Tropp and Webber
(2023), Robust, randomized preconditioning for kernel ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class LowRankInverse:
    """The inverse of U diag(values) U' + shift I, U having orthonormal columns.

    Attributes
    ----------
    basis : ndarray of shape (n, k)
        The columns U.
    values : ndarray of shape (k,)
        The eigenvalues s^2, descending.
    floor : float
        What the eigenvalues beyond are at most, about; counted as part of their shift.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.lowrank import LowRankInverse
    >>> inverse = LowRankInverse.of(np.array([[2.0], [0.0]]))
    >>> inverse(np.ones((2, 1)), np.array([1.0])).ravel().round(6)  # of diag(4, 0) + 1
    array([0.2, 1. ])
    """

    basis: Array
    values: Array
    floor: float = 0.0

    @classmethod
    def of(cls, factor: Array, floor: float = 0.0) -> LowRankInverse:
        """Decompose F F'.

        Parameters
        ----------
        factor : ndarray of shape (n, k)
            The factor F; overwritten if it can be.
        floor : float
            What the eigenvalues beyond are at most, about.

        Returns
        -------
        LowRankInverse
            With the directions that F determines.
        """
        small = factor.T @ factor
        values, vectors = eigh(small, overwrite_a=True)
        eps = float(np.finfo(factor.dtype).eps)
        kept = values > len(values) * eps * max(float(values.max(initial=0.0)), 0.0)
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        basis = factor @ (vectors / np.sqrt(values))
        # U'U differs from I by rounding over small values: a second pass mends it.
        again, turn = eigh(basis.T @ basis)
        basis = basis @ ((turn / np.sqrt(again)) @ turn.T).astype(basis.dtype)
        return cls(basis, values, floor)

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
            gradients and keeps what is orthogonal to the basis as it is.
        """
        inside = self.basis.T @ vectors
        gain = (self.floor + shifts) / (self.values[:, None] + shifts) - 1
        solved: Array = vectors + self.basis @ (gain * inside)
        return solved
