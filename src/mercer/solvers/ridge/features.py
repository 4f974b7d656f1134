r"""Least squares on explicit features, from sums over rows.

In coordinates where the penalty is the identity, T' M T = I, one eigendecomposition

.. math:: T^\top H T = Q \operatorname{diag}(s)\, Q^\top , \qquad
    c = T Q\, \frac{Q^\top T^\top g}{s + \alpha}

serves every alpha.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mercer.rows.moments import Block, Moments
from mercer.rows.rows import Part
from mercer.rows.sums import Features, blocks_of

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class FeatureEquations(ABC):
    """The equations (H + alpha M) c = g of ridge regression on features.

    Attributes
    ----------
    moments : Moments
        The sums, centred if there is an intercept.
    fit_intercept : bool
        Whether there is a constant that is not penalised.
    """

    moments: Moments
    fit_intercept: bool

    @property
    @abstractmethod
    def carried(self) -> float:
        """The trace of T' H T."""

    @abstractmethod
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

    @abstractmethod
    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom at one alpha.

        Parameters
        ----------
        alpha : float
            Non-negative.

        Returns
        -------
        float
            [1 +] the sum of s / (s + alpha) over the eigenvalues s of T' H T.
        """

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


@dataclass(frozen=True, eq=False)
class FeatureRidge(FeatureEquations):
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
        >>> from mercer.solvers.ridge.features import FeatureRidge
        >>> from mercer.rows.moments import Moments
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

    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g, by eigenvectors."""
        solved: Array = self.basis @ (self.gains(alpha)[:, None] * (self.basis.T @ right))
        return solved

    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom, from eigenvalues."""
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
        total = np.zeros(len(alphas))
        for block in blocks:
            mass = np.ones(len(block[0])) if block[2] is None else block[2]
            for i, left in enumerate(self.left_out(block, alphas)):
                total[i] += float(np.sum(mass[:, None] * left**2))
        return total

    def left_out(self, block: Block, alphas: Sequence[float] | Array) -> list[Array]:
        """Leave-one-out residuals of some rows.

        Parameters
        ----------
        block : (features, targets, weights)
            Some of the rows, as in `Moments.of`.
        alphas : sequence of float
            The candidates.

        Returns
        -------
        list of ndarray of shape (b, t)
            For each alpha what the fit without a row leaves of its target; infinite where a row is
            fitted by itself alone.
        """
        (phi, y, weights), sums = block, self.moments
        # About the means, since values of features that are far from zero would cancel.
        constant = 1 / sums.weight if self.fit_intercept else 0.0
        about = phi - (sums.shift + constant * sums.features)
        targets = y - (sums.origin + sums.targets * constant if self.fit_intercept else 0.0)
        mass = np.ones(len(phi)) if weights is None else weights
        squares = (about @ self.basis) ** 2
        found: list[Array] = []
        for alpha in alphas:
            coefficients, _ = self.solve(alpha)
            free = 1 - mass * (squares @ self.gains(alpha) + constant)
            with np.errstate(divide="ignore"):
                left = (targets - about @ coefficients) / np.maximum(free, 0.0)[:, None]
            found.append(left)
        return found

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


@dataclass(frozen=True, eq=False)
class LeaveOneOutErrors:
    """Sums of squared leave-one-out errors for each alpha.

    Attributes
    ----------
    features : callable
        The features.
    problem : FeatureRidge
        Ridge regression on them.
    alphas : ndarray of shape (a,)
        The candidates.
    """

    features: Features
    problem: FeatureRidge
    alphas: Array

    def __call__(self, part: Part) -> Array:
        """One sum for each alpha."""
        blocks = blocks_of(part, self.features, len(self.problem.moments.features))
        return self.problem.loo_sums(blocks, self.alphas)
