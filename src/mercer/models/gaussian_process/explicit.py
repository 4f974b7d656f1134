"""A Gaussian process whose kernel has few features: exact in the space of their coefficients.

Where k(x, z) = phi(x)' phi(z) with p features, the sums over rows that landmarks need are those of
the whole kernel: likelihood, mean and variances are exact, for n p^2 operations and p^2 numbers.
The features are the kernel's own (`Primal`), or those of a map that approximates it
(`RandomFeatures`), whose inner products then are the kernel.

Features have no derivatives in the parameters of the kernel, but as many rows as there are features
span them: with these as landmarks the collapsed bound is the likelihood, and has a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer import memory
from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.feature_evidence import FeatureEvidence
from mercer.models.gaussian_process.feature_posterior import FeaturePosterior
from mercer.models.gaussian_process.features import (
    ExplicitFeatures,
    blocks,
    feature_rows,
    ridge_task,
)
from mercer.models.gaussian_process.landmarks import LandmarkEvidence
from mercer.models.gaussian_process.target_scaling import Scaling
from mercer.sampling import uniform_rows
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.nystrom import NystromSolver
from mercer.solvers.ridge.feature_problem import InnerProducts

Array = NDArray[np.floating[Any]]

# Matrices of the order of the features that a posterior holds.
_MATRICES = 10
# What rows that span the features are chosen by: a factor of all rows, if it is no larger.
_CHOICE_BYTES = 2**30
#: Nats for each row by which the likelihood may be missed without a word.
MISSED = 1e-4


@dataclass(frozen=True, eq=False)
class ExplicitEvidence(FeatureEvidence):
    """The log marginal likelihood as a function of the free hyper-parameters."""

    solver: Primal | RandomFeatures  # what the features of a kernel are
    owner: str  # the name of the model, for messages

    def seen(self, kernel: Kernel) -> ExplicitFeatures:
        """The features at a kernel."""
        task = ridge_task(replace(self.data, kernel=kernel), self.owner)
        given = self.solver.features(task)
        sparse = sp.issparse(given.features(self.data.points[:1]))
        memory.require(
            8 * _MATRICES * given.width**2,
            f"{self.owner} with {given.width} features",
            "take fewer of them, or another solver, such as mercer.solvers.NystromSolver()",
        )
        return ExplicitFeatures(kernel, given, self.solver.is_approximate or not sparse)

    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood at theta and its gradient."""
        if self.solver.is_approximate:
            raise DataError(
                f"{self.owner}: the features of a map have no derivatives in the parameters of the "
                "kernel; ask for log_marginal_likelihood(theta), or fit with "
                "solver=mercer.solvers.NystromSolver(n_landmarks=1000)."
            )
        kernel, _ = self.data.at(theta)
        bound, gradient = self.spanned(kernel).log_likelihood_with_gradient(theta)
        value = self.log_likelihood_at(theta)
        if value - bound > MISSED * len(self.data.points):
            warn(
                f"{self.owner}: the gradient is that of a bound {value - bound:.2g} nats below the "
                "likelihood: some features are so small beside others that rounding of kernel "
                "values hides them. Scale the columns, or fit with solver=solvers.Cholesky().",
                NumericalWarning,
            )
        return value, gradient

    def spanned(self, kernel: Kernel) -> LandmarkEvidence:
        """The same through landmarks: rows, as many as features, in whose span are all others."""
        n, width = len(self.data.points), self.seen(kernel).width
        room = min(_CHOICE_BYTES, memory.available() // 4)
        most = max(2 * width, int(room // (10 * max(1, width))))
        among = self.data
        if n > most:
            among = among.of_rows(np.sort(uniform_rows(n, most, np.random.RandomState(0))))
        size = max(1, min(width, len(among.points)))
        chosen = NystromSolver(size, "rpcholesky", random_state=0)
        found = LandmarkEvidence.selected(among, kernel, chosen, self.owner)
        return LandmarkEvidence(self.data, found.landmarks)


@dataclass(frozen=True, eq=False)
class ExplicitPosterior(FeaturePosterior):
    """A kernel and noise, and what the data say about the coefficients of its features."""

    evidence: ExplicitEvidence  # kernel, points, targets and noise, at learned hyper-parameters
    seen: ExplicitFeatures  # the features
    doubt: str = ""  # A clause for a warning about the search; empty if all is well

    @property
    def points(self) -> Points:
        """The training points."""
        return self.training_points

    @property
    def rows(self) -> NDArray[np.intp]:
        """All rows."""
        return np.arange(len(self.points))

    @cached_property
    def weights(self) -> Array:
        """The coefficients of the features, refined: squares of features lose digits.

        A pass over rows finds what is left of the equations, F' D^-1 (y - F v) - v, which is small
        where rows are fitted closely, as products F' D^-1 y are not.
        """
        first = self.bound.weights
        left = -first
        for block in feature_rows(self.seen, self.evidence.data, self.noise.variance):
            missed = (block.targets - block.features @ first) / block.noise[:, None]
            left = left + block.features.T @ missed
        refined: Array = first + self.bound.solved(left)
        return refined

    @cached_property
    def dual(self) -> Array:
        """Their coefficients, from the condition for a maximum: a_i = (y_i - f(x_i)) / d_i."""
        found = [
            (block.targets - block.features @ self.weights) / block.noise[:, None]
            for block in feature_rows(self.seen, self.evidence.data, self.noise.variance)
        ]
        return np.concatenate(found)

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        return self.doubt or super().complaint

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """What is known of the features, in units of y."""
        return self.seen.given.quality or super().quality(scaling)

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        parts = blocks(len(points), self.seen.width)
        return np.concatenate([self.seen(points[rows]) @ self.weights for rows in parts])

    def similarities(self, owner: str) -> InnerProducts:
        """Inner products of features, which are the kernel of this process."""
        given = self.seen.given
        return InnerProducts.within_memory(given.features, self.points, given.width, owner)

    def drawn_together(self, m: int) -> int:
        """Of how many values `draws` needs the covariance, at m points."""
        return 0 if self.seen.complete else m

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points: coefficients are drawn, and not values."""
        if not self.seen.complete:
            return super().draws(points, number, rng)
        t = self.bound.n_targets
        normal = rng.standard_normal((self.seen.width, t * number))
        spread = solve_triangular(self.bound.root, normal, check_finite=False)
        coefficients = self.weights[:, :, None] + spread.reshape(-1, t, number)
        parts = blocks(len(points), self.seen.width)
        drawn = [np.tensordot(self.seen(points[rows]), coefficients, axes=1) for rows in parts]
        return np.concatenate(drawn)

    def extended(self, points: Points, targets: Array, factors: Array | None) -> FeaturePosterior:
        """The posterior after further rows, which may bring features of their own."""
        if self.seen.complete:
            return super().extended(points, targets, factors)
        data = self._followed_by(points, targets, factors)
        return type(self).at(replace(self.evidence, data=data), self.evidence.theta)
