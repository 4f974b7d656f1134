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
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features, blocks_of
from mercer.solvers.protocol import RidgeTask

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class FeatureEquations(ABC):
    """The equations (H + alpha M) c = g of ridge regression on features."""

    moments: Moments  # the sums, centred if there is an intercept
    fit_intercept: bool  # whether there is a constant that is not penalised

    @property
    @abstractmethod
    def carried(self) -> float:
        """The trace of T' H T."""

    @abstractmethod
    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g, on the directions that are kept."""

    @abstractmethod
    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom at one alpha."""

    def solve(self, alpha: float) -> tuple[Array, Array]:
        """Coefficients at one alpha."""
        coefficients = self.apply(self.moments.products, alpha)
        return coefficients, self.intercept(coefficients)

    def intercept(self, coefficients: Array) -> Array:
        """The constant that goes with coefficients."""
        return self.moments.intercept(coefficients, fit_intercept=self.fit_intercept)


@dataclass(frozen=True, eq=False)
class FeatureRidge(FeatureEquations):
    """Ridge regression on features, ready for every alpha."""

    basis: Array  # (m, k): T Q: the eigenvectors, in which the penalty is |v|^2
    values: Array  # (k,): the eigenvalues s, descending

    @classmethod
    def of(cls, moments: Moments, whitening: Array | None, *, fit_intercept: bool) -> FeatureRidge:
        """Decompose."""
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
        """Generalised cross-validation, the mean over targets, for each alpha."""
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
        """
        return self.loo_errors(self.loo_sums(blocks, alphas))

    def loo_sums(self, blocks: Iterable[Block], alphas: Array) -> Array:
        """Sums of w times squared leave-one-out errors, which add up over parts of the rows."""
        total = np.zeros(len(alphas))
        for block in blocks:
            mass = np.ones(len(block[0])) if block[2] is None else block[2]
            for i, left in enumerate(self.left_out(block, alphas)):
                total[i] += float(np.sum(mass[:, None] * left**2))
        return total

    def left_out(self, block: Block, alphas: Sequence[float] | Array) -> list[Array]:
        """Leave-one-out residuals of some rows."""
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
        """Mean squared leave-one-out errors from their sums over all rows."""
        found: Array = sums / self.moments.weight / len(self.moments.origin)
        return found

    def gains(self, alpha: float) -> Array:
        """What each eigenvector is multiplied by."""
        total = self.values + alpha
        least = len(total) * np.finfo(np.float64).eps * float(self.values.max(initial=0.0))
        kept = total > least
        return np.where(kept, 1 / np.where(kept, total, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class LeaveOneOutErrors:
    """Sums of squared leave-one-out errors for each alpha."""

    features: Features
    problem: FeatureRidge  # ridge regression on them
    alphas: Array  # (a,): the candidates

    def __call__(self, part: RowBlock) -> Array:
        """One sum for each alpha."""
        blocks = blocks_of(part, self.features, len(self.problem.moments.features))
        return self.problem.loo_sums(blocks, self.alphas)


def choose_alpha(
    task: RidgeTask, problem: FeatureRidge, features: Features
) -> tuple[float, Array | None]:
    """The alpha of a task, and the criterion for each candidate if there are several."""
    if not task.compares:
        return float(task.alphas[0]), None
    if task.criterion == "gcv":
        errors = problem.gcv(task.alphas)
    else:
        sums = task.rows.map_sum(LeaveOneOutErrors(features, problem, task.alphas))
        errors = problem.loo_errors(sums)
    task.require_choice(errors)
    return float(task.alphas[int(np.argmin(errors))]), errors
