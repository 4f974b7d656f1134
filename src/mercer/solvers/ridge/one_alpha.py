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
    """Ridge regression on features at one alpha.

    Attributes
    ----------
    moments : Moments
        The sums, centred if there is an intercept.
    fit_intercept : bool
        Whether there is a constant that is not penalised.
    whitening : ndarray of shape (m, k)
        T.
    root : ndarray of shape (k, k)
        U, upper triangular.
    trace : float
        That of T' H T.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.rows.moments import Moments
    >>> from mercer.solvers.ridge.one_alpha import OneAlpha
    >>> x = np.arange(4.0)[:, None]
    >>> sums = Moments.of([(x.copy(), 3 * x + 1, None)], 1, np.zeros(1))
    >>> problem = OneAlpha.of(sums, np.eye(1), 5.0, 2e-16, fit_intercept=True)
    >>> c = problem.apply(problem.moments.products, 5.0)
    >>> c.item(), problem.effective_dof(5.0)  # s = 5: half of the slope, 1 + 1/2 degrees
    (1.5, 1.5)
    """

    whitening: Array
    root: Array
    trace: float

    @classmethod
    def of(
        cls, moments: Moments, whitening: Array, alpha: float, eps: float, *, fit_intercept: bool
    ) -> OneAlpha | FeatureRidge:
        """Factorise.

        Parameters
        ----------
        moments : Moments
            The sums.
        whitening : ndarray of shape (m, k)
            T with T' M T = I, where c' M c is the penalty.
        alpha : float
            Non-negative.
        eps : float
            The rounding unit of the features.
        fit_intercept : bool
            Whether there is a constant that is not penalised.

        Returns
        -------
        OneAlpha or FeatureRidge
            The latter where alpha may be below rounding, so that some directions do not count.
        """
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
