r"""Least squares on explicit features at one alpha, from sums over rows.

In coordinates where the penalty is the identity, T' M T = I, one Cholesky factor

.. math:: T^\top H T + \alpha I = U^\top U

takes the place of the eigendecomposition that `FeatureRidge` needs for all alphas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, lapack

from mercer.rows.moments import Moments
from mercer.solvers.ridge.features import FeatureEquations, FeatureRidge

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class OneAlpha(FeatureEquations):
    """Ridge regression on features at one alpha."""

    whitening: Array  # (m, k): T
    root: Array  # (k, k): U, upper triangular
    trace: float  # that of T' H T

    @classmethod
    def of(
        cls, moments: Moments, whitening: Array, alpha: float, eps: float, *, fit_intercept: bool
    ) -> OneAlpha | FeatureRidge:
        """Factorise."""
        used = moments.used(fit_intercept=fit_intercept)
        if not alpha > _rounding(moments, whitening, eps):
            return FeatureRidge.of(moments, whitening, fit_intercept=fit_intercept)
        squares = used.whitened(whitening)
        trace = float(np.trace(squares))
        squares[np.diag_indices_from(squares)] += alpha
        root = cholesky(squares, overwrite_a=True, check_finite=False)
        return cls(used, fit_intercept, whitening, root, trace)

    @property
    def carried(self) -> float:
        """The trace of T' H T."""
        return self.trace

    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g for the alpha of the factor."""
        inner = cho_solve((self.root, False), self.whitening.T @ right, check_finite=False)
        solved: Array = self.whitening @ inner
        return solved

    def effective_dof(self, alpha: float) -> float:
        """[1 +] k - alpha tr (T' H T + alpha I)^-1 for the alpha of the factor."""
        # LAPACK complains, on the standard output, of a matrix that is empty.
        inverse = lapack.dtrtri(self.root)[0] if self.root.size else self.root
        return float(self.fit_intercept + len(self.root) - alpha * np.vdot(inverse, inverse))


def _rounding(moments: Moments, whitening: Array, eps: float) -> float:
    """What rounding of the sums can come to as an eigenvalue of T' H T.

    Entries of H are off by a share of sqrt(H_aa H_bb), so those of T' H T by one of v_i v_j with
    v = |T|' sqrt(diag H), and its eigenvalues by one of |v|^2.
    """
    sizes = np.abs(whitening).T @ np.sqrt(moments.plain().squares.diagonal())
    return eps * float(sizes @ sizes)
