"""Diagnostics of ridge regression on explicit features, whose kernel is phi(x)' phi(z)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer import memory
from mercer.kernels.points import Points
from mercer.parallel import cached_property, single_blas
from mercer.rows.moments import Block, Moments
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features, blocks_of
from mercer.solvers.ridge.features import FeatureRidge
from mercer.solvers.ridge.gram import LeaveOneOut, RidgeProblem

Array = NDArray[np.floating[Any]]

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
        self, part: RowBlock, features: Features, width: int, *, fit_intercept: bool
    ) -> None:
        self.part, self.features, self.width = part, features, width
        self.fit_intercept = fit_intercept

    @cached_property
    def _ridge(self) -> FeatureRidge:
        sums = Moments.of(self._blocks(), self.width, np.zeros(self.part.targets.shape[1]))
        with single_blas():
            return FeatureRidge.decompose(sums, None, fit_intercept=self.fit_intercept)

    def _blocks(self) -> Iterator[Block]:
        for phi, targets, weights in blocks_of(self.part, self.features, self.width):
            yield phi.astype(np.float64, copy=False), targets.astype(np.float64), weights

    def leave_one_out(self, alpha: float) -> LeaveOneOut:
        """Residuals of all leave-one-out fits at one alpha."""
        residuals = [self._ridge.loo_residuals(block, [alpha])[0] for block in self._blocks()]
        return LeaveOneOut(np.concatenate(residuals), self._ridge.effective_dof(alpha))

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
        errors = ridge.gcv(alphas) if criterion == "gcv" else ridge.loo(self._blocks(), alphas)
        return np.where(np.isnan(errors), np.inf, errors)


def feature_problem(
    owner: str, part: RowBlock, features: Features, width: int, *, fit_intercept: bool
) -> FeatureProblem | RidgeProblem:
    """The problem with the smaller of two matrices: of pairs of features, or of pairs of rows."""
    size = min(len(part), width)
    memory.require(
        8 * (_MATRICES * size**2 + (width * size if size < width else 0)),
        f"{owner}: a diagnostic of {width} features on {len(part)} rows",
        "fit with fewer features",
    )
    if width < len(part):
        return FeatureProblem(part, features, width, fit_intercept=fit_intercept)
    gram = InnerProducts(features, part.points)(part.points)
    targets = part.targets.astype(np.float64, copy=False)
    return RidgeProblem(gram, targets, part.weights, fit_intercept)
