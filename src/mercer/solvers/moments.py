r"""Least squares on explicit features, from sums over rows.

For features phi_i in R^m (columns of a kernel at landmarks, or any explicit map), targets y_i and
weights w_i, ridge regression

.. math:: \min_{c, b} \tfrac12 \sum_i w_i (y_i - \phi_i^\top c - b)^2 + \tfrac\alpha2 c^\top M c

needs no row again once the sums of w, w phi, w y, w phi phi', w phi y and w y^2 are known. They
are accumulated in float64, block by block, and those of parts of the data add up to those of the
whole: rows may come from memory, a file or another machine, in any number.

One eigendecomposition in coordinates where M is the identity then serves every alpha:
with T' M T = I and T' H T = Q diag(s) Q', c = T Q (Q' T' g) / (s + alpha).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, get_blas_funcs

from mercer.symmetry import mirror

Array = NDArray[np.floating[Any]]
Block = tuple[Array, Array, Array | None]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, all weighted, of features and targets about fixed origins.

    Origins near the means save digits: what is summed is small, and in single precision that is
    the difference between a fit and noise.

    Attributes
    ----------
    rows : int
        Rows of positive weight.
    weight : float
        Sum of w.
    features : ndarray of shape (m,)
        Sum of w (phi - shift).
    targets : ndarray of shape (t,)
        Sum of w (y - origin).
    squares : ndarray of shape (m, m)
        Sum of w (phi - shift)(phi - shift)'.
    products : ndarray of shape (m, t)
        Sum of w (phi - shift)(y - origin)'.
    energy : ndarray of shape (t,)
        Sum of w (y - origin)^2.
    origin : ndarray of shape (t,)
        What targets are measured from.
    shift : ndarray of shape (m,)
        What features are measured from.
    """

    rows: int
    weight: float
    features: Array
    targets: Array
    squares: Array
    products: Array
    energy: Array
    origin: Array
    shift: Array

    @classmethod
    def of(
        cls, blocks: Iterable[Block], n_features: int, origin: Array, shift: Array | None = None
    ) -> Moments:
        """Add up blocks of rows.

        Parameters
        ----------
        blocks : iterable of (features, targets, weights)
            Arrays of shape (b, m), (b, t), and (b,) or None; blocks of thousands of rows keep BLAS
            busy. Features may be overwritten.
        n_features : int
            The number m.
        origin : ndarray of shape (t,)
            What targets are measured from.
        shift : ndarray of shape (m,), optional
            What features are measured from; zero when left out.

        Returns
        -------
        Moments
            The sums.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.solvers.moments import Moments
        >>> phi, y = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
        >>> sums = Moments.of([(phi, y, None), (phi, y, None)], 1, np.zeros(1))
        >>> sums.rows, sums.squares.item(), sums.products.item()
        (4, 10.0, 14.0)
        """
        n_targets = len(origin)
        squares: Array = np.zeros((n_features, n_features), order="F")
        products = np.zeros((n_features, n_targets))
        features, targets = np.zeros(n_features), np.zeros(n_targets)
        energy, weight, rows = np.zeros(n_targets), 0.0, 0
        for phi, y, w in blocks:
            root = None if w is None else np.sqrt(w).astype(phi.dtype)
            shifted = np.asarray(y - origin, phi.dtype)
            if shift is not None:
                phi -= shift.astype(phi.dtype)
            if root is not None:
                phi *= root[:, None]
                shifted *= root[:, None]
            ones = np.ones(len(phi), phi.dtype) if root is None else root
            squares = _add_squares(squares, phi)
            sums = np.vstack([shifted.T, ones]) @ phi
            products += sums[:-1].T
            features += sums[-1]
            targets += ones @ shifted
            energy += np.einsum("ij,ij->j", shifted, shifted, dtype=np.float64)
            weight += len(phi) if w is None else float(w.sum(dtype=np.float64))
            rows += len(phi) if w is None else int(np.count_nonzero(w))
        mirror(squares.T)
        if shift is None:
            shift = np.zeros(n_features)
        return cls(rows, weight, features, targets, squares, products, energy, origin, shift)

    def __add__(self, other: Moments) -> Moments:
        """The sums over the rows of both, which have the same origins."""
        return Moments(
            self.rows + other.rows,
            self.weight + other.weight,
            self.features + other.features,
            self.targets + other.targets,
            self.squares + other.squares,
            self.products + other.products,
            self.energy + other.energy,
            self.origin,
            self.shift,
        )

    def centred(self) -> Moments:
        """The same about the means of features and targets, which an intercept takes out."""
        mean, middle = self.features / self.weight, self.targets / self.weight
        return replace(
            self,
            squares=self.squares - np.outer(mean, self.features),
            products=self.products - np.outer(self.features, middle),
            energy=self.energy - self.targets * middle,
        )

    @property
    def plain_features(self) -> Array:
        """Sum of w phi."""
        found: Array = self.features + self.weight * self.shift
        return found

    def used(self, *, fit_intercept: bool) -> Moments:
        """The same about what an intercept takes out, or about zero if there is none."""
        return self.centred() if fit_intercept else self.plain()

    def whitened(self, whitening: Array | None) -> Array:
        """T' squares T, symmetric; T is the identity if it is None."""
        if whitening is None:
            return self.squares
        squares = whitening.T @ self.squares @ whitening
        return (squares + squares.T) / 2

    def intercept(self, coefficients: Array, *, fit_intercept: bool) -> Array:
        """The constant that goes with coefficients: the weighted mean of what they leave."""
        if not fit_intercept:
            return np.zeros_like(self.origin)
        left = self.targets - self.plain_features @ coefficients
        found: Array = self.origin + left / self.weight
        return found

    def plain(self) -> Moments:
        """The same about zero, as far as the features are concerned."""
        border = np.outer(self.shift, self.features)
        return replace(
            self,
            features=self.plain_features,
            squares=self.squares
            + (border + border.T)
            + self.weight * np.outer(self.shift, self.shift),
            products=self.products + np.outer(self.shift, self.targets),
            shift=np.zeros_like(self.shift),
        )


@dataclass(frozen=True, eq=False)
class FeatureRidge:
    """Ridge regression on features, ready for every alpha.

    Attributes
    ----------
    moments : Moments
        The sums, centred if there is an intercept.
    fit_intercept : bool
        Whether there is a constant that is not penalised.
    basis : ndarray of shape (m, k)
        T Q: the eigenvectors, in which the penalty is |v|^2.
    values : ndarray of shape (k,)
        The eigenvalues s, descending.
    """

    moments: Moments
    fit_intercept: bool
    basis: Array
    values: Array

    @classmethod
    def of(cls, moments: Moments, whitening: Array | None, *, fit_intercept: bool) -> FeatureRidge:
        """Decompose.

        Parameters
        ----------
        moments : Moments
            The sums.
        whitening : ndarray of shape (m, k), optional
            T with T' M T = I, where c' M c is the penalty; None if M is the identity.
        fit_intercept : bool
            Whether there is a constant that is not penalised.

        Returns
        -------
        FeatureRidge
            For every alpha.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.solvers.moments import FeatureRidge, Moments
        >>> x = np.arange(4.0)[:, None]
        >>> sums = Moments.of([(x.copy(), 3 * x + 1, None)], 1, np.zeros(1))
        >>> c, b = FeatureRidge.of(sums, None, fit_intercept=True).solve(1e-12)
        >>> c.round(6).item(), b.round(6).item()
        (3.0, 1.0)
        """
        used = moments.used(fit_intercept=fit_intercept)
        values, vectors = eigh(used.whitened(whitening), driver="evd")
        basis = vectors if whitening is None else whitening @ vectors
        return cls(used, fit_intercept, basis[:, ::-1], np.maximum(values[::-1], 0.0))

    @property
    def carried(self) -> float:
        """The trace of T' H T."""
        return float(self.values.sum())

    def solve(self, alpha: float) -> tuple[Array, Array]:
        """Coefficients at one alpha.

        Parameters
        ----------
        alpha : float
            Non-negative; at 0 the solution of least norm.

        Returns
        -------
        coefficients : ndarray of shape (m, t)
            The c.
        intercept : ndarray of shape (t,)
            The b; zeros if there is none.
        """
        coefficients = self.apply(self.moments.products, alpha)
        return coefficients, self.intercept(coefficients)

    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g, on the directions that are kept.

        Parameters
        ----------
        right : ndarray of shape (m, t)
            The columns g.
        alpha : float
            Non-negative.

        Returns
        -------
        ndarray of shape (m, t)
            The products.
        """
        solved: Array = self.basis @ (self.gains(alpha)[:, None] * (self.basis.T @ right))
        return solved

    def intercept(self, coefficients: Array) -> Array:
        """The constant that goes with coefficients.

        Parameters
        ----------
        coefficients : ndarray of shape (m, t)
            The c.

        Returns
        -------
        ndarray of shape (t,)
            The weighted mean of what they leave.
        """
        return self.moments.intercept(coefficients, fit_intercept=self.fit_intercept)

    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom at one alpha.

        Parameters
        ----------
        alpha : float
            Non-negative.

        Returns
        -------
        float
            [1 +] sum of s / (s + alpha).
        """
        return float(self.fit_intercept + np.sum(self.values * self.gains(alpha)))

    def gcv(self, alphas: Array) -> Array:
        """Generalised cross-validation, the mean over targets, for each alpha.

        Parameters
        ----------
        alphas : ndarray of shape (a,)
            The candidates.

        Returns
        -------
        ndarray of shape (a,)
            (sum of w r^2 / sum of w) / (1 - df / n)^2; infinite where as many degrees as rows are
            used up.
        """
        n = self.moments.rows
        turned = self.basis.T @ self.moments.products
        errors = np.empty(len(alphas))
        for i, alpha in enumerate(alphas):
            gains = self.gains(alpha)
            # |y - f|^2 = |y|^2 - sum t^2 g (2 - s g) over the eigenvectors.
            explained = (gains * (2 - self.values * gains))[:, None] * turned**2
            loss = np.maximum(self.moments.energy - explained.sum(axis=0), 0.0).mean()
            free = 1 - self.effective_dof(alpha) / n
            errors[i] = loss / self.moments.weight / free**2 if free > 0 else np.inf
        return errors

    def loo(self, blocks: Iterable[Block], alphas: Array) -> Array:
        """Mean squared leave-one-out errors for each alpha, by another pass over the rows.

        A row's residual is divided by 1 - w_i h_i, h_i being its leverage: the row of
        phi (H + alpha M)^-1 phi', and that of the intercept.

        Parameters
        ----------
        blocks : iterable of (features, targets, weights)
            The rows again, as in `Moments.of`.
        alphas : ndarray of shape (a,)
            The candidates.

        Returns
        -------
        ndarray of shape (a,)
            Weighted means over rows, averaged over targets; infinite where a row is fitted by
            itself alone.
        """
        return self.loo_errors(self.loo_sums(blocks, alphas))

    def loo_sums(self, blocks: Iterable[Block], alphas: Array) -> Array:
        """Sums of w times squared leave-one-out errors, which add up over parts of the rows.

        Parameters
        ----------
        blocks : iterable of (features, targets, weights)
            Some of the rows, as in `Moments.of`.
        alphas : ndarray of shape (a,)
            The candidates.

        Returns
        -------
        ndarray of shape (a,)
            Sums over rows and targets.
        """
        sums, total = self.moments, np.zeros(len(alphas))
        solved = [self.solve(alpha) for alpha in alphas]
        mean = sums.shift + sums.features / sums.weight if self.fit_intercept else sums.shift
        constant = 1 / sums.weight if self.fit_intercept else 0.0
        for phi, y, weights in blocks:
            mass = np.ones(len(phi)) if weights is None else weights
            squares = ((phi - mean) @ self.basis) ** 2
            for i, (coefficients, intercept) in enumerate(solved):
                free = 1 - mass * (squares @ self.gains(alphas[i]) + constant)
                with np.errstate(divide="ignore"):
                    left = (y - phi @ coefficients - intercept) / np.maximum(free, 0.0)[:, None]
                total[i] += float(np.sum(mass[:, None] * left**2))
        return total

    def loo_errors(self, sums: Array) -> Array:
        """Mean squared leave-one-out errors from their sums over all rows.

        Parameters
        ----------
        sums : ndarray of shape (a,)
            As `loo_sums` gives them.

        Returns
        -------
        ndarray of shape (a,)
            Weighted means over rows, averaged over targets.
        """
        found: Array = sums / self.moments.weight / len(self.moments.origin)
        return found

    def gains(self, alpha: float) -> Array:
        """What each eigenvector is multiplied by.

        Parameters
        ----------
        alpha : float
            Non-negative.

        Returns
        -------
        ndarray of shape (k,)
            1 / (s + alpha), zero for directions that do not count.
        """
        total = self.values + alpha
        least = len(total) * np.finfo(np.float64).eps * float(self.values.max(initial=0.0))
        kept = total > least
        return np.where(kept, 1 / np.where(kept, total, 1.0), 0.0)


def _add_squares(total: Array, phi: Array) -> Array:
    """Add phi' phi to the lower triangle; products in the type of phi, sums in float64."""
    syrk = get_blas_funcs("syrk", (phi,))
    if phi.dtype == total.dtype:
        added: Array = syrk(1.0, phi.T, beta=1.0, c=total, overwrite_c=True, lower=True)
        return added
    total += syrk(1.0, phi.T, lower=True)
    return total
