"""Diagnostics of ridge regression on explicit features, whose kernel is phi(x)' phi(z)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import memory
from mercer.arrays import Array
from mercer.kernels.points import Points
from mercer.parallel import cached_property, single_blas
from mercer.rows.left_out import LeftOut
from mercer.rows.moments import Moments
from mercer.rows.sums import Features
from mercer.solvers.ridge.features import FeatureRidge, Grouped, grouped_blocks
from mercer.solvers.ridge.gram import LeaveOneOut, RidgeProblem

# Number of m x m matrices: the sums, the centred sums, eigenvectors and their workspace.
_MATRICES = 5


@dataclass(frozen=True, eq=False)
class InnerProducts:
    """Kernel values phi(x)' phi(z) of a model on features, for explanations."""

    features: Features
    points: Points  # the points z

    @classmethod
    def within_memory(
        cls, features: Features, points: Points, width: int, owner: str
    ) -> InnerProducts:
        """Inner products with points, if the features of all points fit in memory."""
        n = len(points)
        memory.require(
            16 * n * width,
            f"{owner}: {width} features of {n} training points",
            "fit on fewer rows, or with fewer features",
        )
        return cls(features, points)

    @cached_property
    def _columns(self) -> Any:
        return self.features(self.points).T

    def __call__(self, points: Points) -> Array:
        """Rows of values, in float64."""
        products = self.features(points) @ self._columns
        dense = products.toarray() if sp.issparse(products) else products
        return np.asarray(dense, dtype=np.float64)


class FeatureProblem:
    """Kernel ridge on features, with the methods of `RidgeProblem`.

    It takes n m^2 operations for n rows of m features, and no matrix of pairs of rows.
    """

    def __init__(
        self, out: LeftOut, features: Features, width: int, *, fit_intercept: bool
    ) -> None:
        self.out, self.features, self.width = out, features, width
        self.fit_intercept = fit_intercept

    @cached_property
    def _ridge(self) -> FeatureRidge:
        blocks = (block for block, _ in self._blocks())
        sums = Moments.of(blocks, self.width, np.zeros(self.out.part.targets.shape[1]))
        # Merging rows has taken their scatter from the targets.
        sums = replace(sums, energy=sums.energy + sums.weight * self.out.scatter)
        with single_blas():
            return FeatureRidge.decompose(sums, None, fit_intercept=self.fit_intercept)

    def _blocks(self) -> Iterator[Grouped]:
        out = self.out
        for block, groups in grouped_blocks(out.part, self.features, self.width, out.groups):
            phi, targets, weights = block
            yield (phi.astype(np.float64, copy=False), targets.astype(np.float64), weights), groups

    def leave_one_out(self, alpha: float) -> LeaveOneOut:
        """Residuals of all leave-one-out fits at one alpha."""
        parts = [
            self._ridge.loo_residuals(block, [alpha], groups)[0] for block, groups in self._blocks()
        ]
        residuals = np.concatenate(parts)
        if self.out.groups is not None:  # blocks hold the rows of one group after another
            order = np.argsort(self.out.groups, kind="stable")
            residuals[order] = residuals.copy()
        return LeaveOneOut(residuals, self._ridge.effective_dof(alpha))

    def eigenvalues(self) -> Array:
        """The eigenvalues of the (centred, weighted) matrix of pairs."""
        values = self._ridge.values
        rounding = len(values) * np.finfo(np.float64).eps * float(values.max(initial=0.0))
        eigenvalues = np.zeros(self._ridge.moments.rows - int(self.fit_intercept))
        count = min(len(eigenvalues), len(values))
        eigenvalues[:count] = np.where(values > rounding, values, 0.0)[:count]
        return eigenvalues

    def errors(self, alphas: Array, criterion: str) -> Array:
        """The errors that "loo" or "gcv" minimises, at each alpha."""
        ridge = self._ridge
        if criterion == "gcv":
            errors = ridge.gcv(alphas, self.out)
        else:
            errors = ridge.loo_errors(ridge.loo_sums(self._blocks(), alphas), self.out)
        return np.where(np.isnan(errors), np.inf, errors)


def feature_problem(
    owner: str, out: LeftOut, features: Features, width: int, *, fit_intercept: bool
) -> FeatureProblem | RidgeProblem:
    """The problem with the smaller of two matrices: of pairs of features, or of pairs of rows."""
    part = out.part
    size = min(len(part), width)
    memory.require(
        8 * (_MATRICES * size**2 + (width * size if size < width else 0)),
        f"{owner}: a diagnostic of {width} features on {len(part)} rows",
        "fit with fewer features",
    )
    if width < len(part):
        return FeatureProblem(out, features, width, fit_intercept=fit_intercept)
    gram = InnerProducts(features, part.points)(part.points)
    targets = part.targets.astype(np.float64, copy=False)
    return RidgeProblem(gram, targets, part.weights, fit_intercept, out.groups, out.scatter)
