r"""Kernel ridge for every alpha from one eigendecomposition.

With S = diag(sqrt(w)), s its diagonal, u = s/|s| and H = I - u u' (H = I without an intercept), the
coefficients are a = S c with

.. math:: c = (H S K S H + \alpha I)^{-1} H S y = Q (\Lambda + \alpha)^{-1} Q^\top S y ,

where Q holds the eigenvectors orthogonal to u. These come from a matrix with n - 1 rows: a
Householder reflection takes u to the first axis, which is then dropped. So there is no
cancellation, and alpha may go to zero. Everything else follows from P = Q (Lambda + alpha)^{-1} Q':

- leave-one-out residuals: c_i / (s_i P_ii); without weights this is a_i / (G_ii - 1/(n alpha)),
  G = (HKH + alpha I)^-1;
- residuals of a group g of rows that are left out together: S_g^-1 (P_gg)^-1 c_g;
- generalised cross-validation: these residuals with each P_ii replaced by their mean;
- effective degrees of freedom: [1 +] sum of lambda / (lambda + alpha).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg.centring import lifted, reflected, reflector_of, weigh

# Largest shift of eigenvalues by centring, in rounding units of the removed part of the matrix.
_ROUNDING = 4


@dataclass(frozen=True)
class Solution:
    """Coefficients of a kernel ridge problem."""

    dual: Array  # (n, n_targets): the coefficients a
    intercept: Array  # (n_targets,): the intercept b, zero if there is none
    jitter: float = 0.0  # what was added to the diagonal beyond alpha, for a factor to exist


@dataclass(frozen=True)
class EigenRidge:
    """The eigendecomposition of a centred and weighted Gram matrix.

    Make one with `decompose`.

    Attributes
    ----------
    eigenvalues : ndarray of shape (r,)
        Descending. Eigenvalues within rounding error are set to zero: n eps times the largest, or
        a few eps of the part that centring removes. r is n - 1 with an intercept, n without.
    vectors : ndarray of shape (n, r)
        The eigenvectors, orthogonal to sqrt(w) if there is an intercept.
    root : ndarray of shape (n,)
        The square roots of the weights.
    border : ndarray of shape (n,) or None
        S K S s / |s|^2, which determines the intercept; None without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import EigenRidge
    >>> x = np.arange(4.0)
    >>> spectrum = EigenRidge.decompose(np.outer(x, x))
    >>> spectrum.rank
    1
    >>> spectrum.solve(3 * x[:, None] + 1, alpha=0).intercept.round(6)
    array([1.])
    """

    eigenvalues: Array
    vectors: Array
    root: Array
    border: Array | None

    @classmethod
    def decompose(
        cls, gram: Array, *, weights: Array | None = None, fit_intercept: bool = True
    ) -> EigenRidge:
        """Decompose a Gram matrix, which is overwritten; weights are positive."""
        root, border, centred = weigh(gram, weights), None, 0.0
        if fit_intercept:
            border = gram @ root / (root @ root)
            reflector = reflector_of(root)
            centred = float(root @ border)
            values, reduced = np.linalg.eigh(reflected(gram, reflector))
            vectors = lifted(reduced[:, ::-1], reflector)
        else:
            values, reduced = np.linalg.eigh(gram)
            vectors = np.ascontiguousarray(reduced[:, ::-1])
        return cls(_non_negative(values[::-1], centred), vectors, root, border)

    @property
    def rank(self) -> int:
        """Number of eigenvalues that are not zero."""
        return int(np.count_nonzero(self.eigenvalues))

    def solve(self, targets: Array, alpha: float) -> Solution:
        """Coefficients and intercept; for alpha = 0 those of the interpolant of least norm."""
        rotated, offset = self._rotated(targets)
        coef = self._coefficients(rotated, alpha)
        if self.border is not None:
            # s' c = 0 holds by construction, so b is the mean of y minus that of K a.
            offset = offset - self.border @ coef
        return Solution(self.root[:, None] * coef, offset)

    def precision(self, alpha: float) -> Array:
        """The matrix P, of shape (n, n); for alpha = 0 the pseudo-inverse."""
        return np.asarray((self.vectors * self._filter(alpha)) @ self.vectors.T)

    def effective_dof(self, alphas: Array) -> Array:
        """Effective degrees of freedom: the trace of the matrix from targets to fitted values."""
        return degrees_of_freedom(self.eigenvalues, alphas, self.border is not None)

    def loo_residuals(
        self, targets: Array, alphas: Array, groups: NDArray[np.intp] | None = None
    ) -> Array:
        """Residuals of every fit without a row, or without its group: (n_alphas, n, n_targets).

        For groups and alpha = 0 they are infinite if the matrix is singular.
        """
        return np.stack(list(self._each_loo(targets, alphas, groups)))

    def loo_errors(
        self, targets: Array, alphas: Array, groups: NDArray[np.intp] | None = None
    ) -> Array:
        """Weighted mean squared leave-one-out errors, of shape (n_alphas, n_targets)."""
        weights = self.root**2
        total = weights.sum()
        if groups is not None or alphas.min() == 0:
            squares = [weights @ at**2 for at in self._each_loo(targets, alphas, groups)]
            each: Array = np.stack(squares) / total
            return each
        rotated, _ = self._rotated(targets)
        filters = 1 / (self.eigenvalues[:, None] + alphas.astype(self.root.dtype))
        leverages = self.vectors**2 @ filters  # P_ii of every row and alpha
        errors = []
        for column in rotated.T:  # all alphas at once
            with np.errstate(divide="ignore", invalid="ignore"):
                scaled = self.vectors @ (filters * column[:, None]) / leverages
            errors.append(np.einsum("ij,ij->j", scaled, scaled) / total)
        return np.stack(errors, axis=1)

    def gcv_errors(self, targets: Array, alphas: Array) -> Array:
        """Generalised cross-validation: leave-one-out errors with every leverage averaged."""
        rotated, _ = self._rotated(targets)
        n, total = len(self.root), float(np.sum(self.root**2))
        errors = []
        for alpha in alphas:
            # At alpha = 0 the residuals are the part of the targets outside the range of K.
            null = len(self.eigenvalues) - self.rank if alpha == 0 else 0
            coef = self._null(rotated) if null else self._coefficients(rotated, alpha)
            trace = null or float(self._filter(alpha).sum())
            with np.errstate(divide="ignore", invalid="ignore"):
                errors.append(np.sum(coef**2, axis=0) / (trace / n) ** 2 / total)
        return np.stack(errors)

    def _each_loo(
        self, targets: Array, alphas: Array, groups: NDArray[np.intp] | None
    ) -> Iterator[Array]:
        """Leave-one-out residuals, one alpha at a time to save memory."""
        rotated, _ = self._rotated(targets)
        if groups is not None:
            members = members_of(groups)
            for alpha in alphas:
                yield self._left_out(rotated, alpha, members)
            return
        filters = np.stack([self._filter(alpha) for alpha in alphas], axis=1)
        leverages = self.vectors**2 @ filters  # P_ii of every row and alpha
        for alpha, diagonal in zip(alphas, leverages.T, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                residuals = self._coefficients(rotated, alpha) / (self.root * diagonal)[:, None]
            if alpha == 0:
                self._correct_interpolation(residuals, rotated)
            yield residuals

    def _left_out(self, rotated: Array, alpha: float, members: list[NDArray[np.intp]]) -> Array:
        """Residuals of rows that are left out with their group."""
        residuals = self._coefficients(rotated, alpha)
        if len(members) < 2 or (alpha == 0 and self.rank < len(self.eigenvalues)):
            return np.full_like(residuals, np.inf)
        roots = np.sqrt(self._filter(alpha))
        for rows in members:
            part = self.vectors[rows] * roots
            residuals[rows] = np.linalg.solve(part @ part.T, residuals[rows])
        return residuals / self.root[:, None]

    def _rotated(self, targets: Array) -> tuple[Array, Array]:
        """The centred targets in the basis of eigenvectors, and their mean."""
        targets = targets.astype(self.root.dtype, copy=False)
        mean = np.zeros_like(targets[0])
        if self.border is not None:
            weights = self.root**2
            mean = weights @ targets / weights.sum()
        return self.vectors.T @ (self.root[:, None] * (targets - mean)), mean

    def _filter(self, alpha: float) -> Array:
        """1 / (lambda + alpha), or the pseudo-inverse at alpha = 0."""
        if alpha > 0:
            return 1 / (self.eigenvalues + self.root.dtype.type(alpha))
        inverse = np.zeros_like(self.eigenvalues)
        inverse[: self.rank] = 1 / self.eigenvalues[: self.rank]
        return inverse

    def _coefficients(self, rotated: Array, alpha: float) -> Array:
        """The coefficients c."""
        coef: Array = self.vectors @ (self._filter(alpha)[:, None] * rotated)
        return coef

    def _null(self, rotated: Array) -> Array:
        """The part of the scaled targets that no function in the space can fit."""
        rank = self.rank
        part: Array = self.vectors[:, rank:] @ rotated[rank:]
        return part

    def _correct_interpolation(self, residuals: Array, rotated: Array) -> None:
        """Set the residuals of rows that cannot be interpolated to their limit for alpha to 0."""
        outside = np.sum(self.vectors[:, self.rank :] ** 2, axis=1)
        rows = outside > np.sqrt(np.finfo(outside.dtype).eps)
        residuals[rows] = self._null(rotated)[rows] / (self.root * outside)[rows, None]


def eigenvalues(gram: Array, *, weights: Array | None = None, fit_intercept: bool = True) -> Array:
    """The eigenvalues of `EigenRidge` alone, for half the cost; `gram` is overwritten."""
    root, centred = weigh(gram, weights), 0.0
    if fit_intercept:
        centred = float(root @ (gram @ root) / (root @ root))
        gram = reflected(gram, reflector_of(root))
    return _non_negative(np.linalg.eigvalsh(gram)[::-1], centred)


def members_of(groups: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The rows of each group."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, starts)


def shrinkage(values: Array, alpha: float) -> Array:
    """The shrinkage factor s / (s + alpha) of each eigenvector."""
    total = values + values.dtype.type(alpha)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


def degrees_of_freedom(values: Array, alphas: Array, fit_intercept: bool) -> Array:
    """[1 +] sum of s / (s + alpha), for each alpha."""
    counts = [shrinkage(values, alpha).sum(dtype=np.float64) for alpha in np.asarray(alphas)]
    return int(fit_intercept) + np.array(counts)


def _non_negative(values: Array, centred: float) -> Array:
    """Set eigenvalues within rounding error to zero; refuse larger negative ones.

    The matrix was rounded before an intercept removed the part `centred` along the weights, which
    is almost all of the matrix if rows are nearly equal.
    """
    n, eps, largest = len(values), np.finfo(values.dtype).eps, np.abs(values).max(initial=0.0)
    rounding = eps * max(n * largest, _ROUNDING * centred)
    tolerance = 10 * n * eps * max(largest, centred)
    smallest = values.min(initial=0.0)
    if smallest < -tolerance:
        raise ValidityError(
            "the Gram matrix is not positive semi-definite: its smallest eigenvalue is "
            f"{smallest:.3g}, below -{tolerance:.1g}; "
            'repair it with psd="clip", "flip" or "shift", or use a kernel whose is_psd is True.'
        )
    return np.where(values > rounding, values, values.dtype.type(0))
