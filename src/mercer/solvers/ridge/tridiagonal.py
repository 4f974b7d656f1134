r"""Leave-one-out and generalised cross-validation errors for many alphas, and nothing else.

Choosing alpha needs no eigenvectors. A tridiagonal form S K S = Q T Q' (on the vectors orthogonal
to the intercept: see `centring`) costs little more than half of them, and T + alpha I = L D L'
takes O(n) for each alpha. With P = Q (T + alpha I)^{-1} Q' as in `spectrum`, c = P S y and

.. math:: P_{ii} = \sum_k (L^{-1} Q^\top)_{ki}^2 / D_k ,

by a recurrence over k for all rows and alphas at once.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg import blocked
from mercer.linalg.centring import lifted_in_place, reflected, reflector_of, weigh
from mercer.linalg.cholesky import in_fortran_order


class Tridiagonal:
    """A Gram matrix, weighted and without its intercept, as Q T Q' with T tridiagonal.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semi-definite, float32 or float64, with n >= 3; it is overwritten.
    weights : ndarray of shape (n,), optional
        Positive weights of the rows.
    fit_intercept : bool
        Whether a constant is fitted that is not penalised.

    Attributes
    ----------
    rounding : float
        n eps times the norm of the matrix: an alpha below this needs `EigenRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.ridge.tridiagonal import Tridiagonal
    >>> x = np.arange(5.0)
    >>> form = Tridiagonal(np.outer(x, x))
    >>> form.loo_errors(3 * x[:, None] + 1, np.array([1e-9, 1e9])).round(3).ravel()
    array([ 0.  , 28.125])
    """

    def __init__(
        self, gram: Array, *, weights: Array | None = None, fit_intercept: bool = True
    ) -> None:
        self.root = weigh(gram, weights)
        self.fit_intercept = fit_intercept
        n = len(gram)
        if fit_intercept:
            v = reflector_of(self.root)
            basis = np.zeros((n, n - 1), gram.dtype, order="F")
            self.diagonal, self.beside = blocked.tridiagonalise(reflected(gram, v), basis[1:])
            self.basis = lifted_in_place(basis, v)
        else:
            self.basis = np.empty((n, n), gram.dtype, order="F")
            self.diagonal, self.beside = blocked.tridiagonalise(in_fortran_order(gram), self.basis)
        norm = np.abs(self.diagonal).max(initial=0) + 2 * np.abs(self.beside).max(initial=0)
        self.rounding = float(len(gram) * np.finfo(gram.dtype).eps * norm)

    def loo_errors(self, targets: Array, alphas: Array) -> Array:
        """Weighted mean squared leave-one-out errors, of shape (n_alphas, n_targets)."""
        factors = [self._factor(alpha) for alpha in alphas]
        return self._errors(targets, factors, self._leverages(factors))

    def gcv_errors(self, targets: Array, alphas: Array) -> Array:
        """Generalised cross-validation: leave-one-out errors with every leverage averaged."""
        factors = [self._factor(alpha) for alpha in alphas]
        return self._errors(targets, factors, self._leverages(factors).mean(axis=1, keepdims=True))

    def _errors(
        self, targets: Array, factors: list[tuple[Array, Array]], leverages: Array
    ) -> Array:
        """The sum of (c_i / P_ii)^2, which is w_i times a squared residual, over the weights."""
        targets = targets.astype(self.root.dtype, copy=False)
        weights = self.root**2
        total = weights.sum()
        if self.fit_intercept:
            targets = targets - weights @ targets / total
        rotated = self.basis.T @ (self.root[:, None] * targets)
        pttrs = get_lapack_funcs("pttrs", (rotated,))
        errors = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for (d, e), leverage in zip(factors, leverages, strict=True):
                scaled = self.basis @ pttrs(d, e, rotated)[0]
                errors.append(np.sum((scaled / leverage[:, None]) ** 2, axis=0) / total)
        return np.stack(errors)

    def _factor(self, alpha: float) -> tuple[Array, Array]:
        """D and the lower diagonal of L, for T + alpha I = L D L'."""
        pttrf = get_lapack_funcs("pttrf", (self.diagonal,))
        d, e, info = pttrf(self.diagonal + self.root.dtype.type(alpha), self.beside)
        if info:
            raise ValidityError(
                "the Gram matrix is not positive semi-definite: it has an eigenvalue below "
                f"-alpha = {-alpha:.3g}; repair it "
                'with psd="clip", "flip" or "shift", or use a kernel whose is_psd is True.'
            )
        return d, e

    def _leverages(self, factors: list[tuple[Array, Array]]) -> Array:
        """P_ii for each alpha and row."""
        pivots = np.stack([d for d, _ in factors], axis=1)
        links = np.stack([e for _, e in factors], axis=1)
        return blocked.leverages(self.basis, pivots, links)
