"""A Gaussian process after it has seen data through features, in standardised targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.cholesky import factorise
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.exact_posterior import fitted_attributes
from mercer.models.gaussian_process.feature_evidence import FeatureEvidence, summed
from mercer.models.gaussian_process.features import Seen, blocks, feature_rows
from mercer.models.gaussian_process.noise import Noise
from mercer.models.gaussian_process.target_scaling import Scaling
from mercer.solvers.likelihood.gaussian import NOISE
from mercer.solvers.likelihood.variational_bound import Bound

Array = NDArray[np.floating[Any]]

_LOG_2PI = float(np.log(2 * np.pi))
# The rounding of sums, beside what is computed from them, that is not worth a word.
_ROUNDED = 0.01


@dataclass(frozen=True, eq=False)
class FeaturePosterior(ABC):
    """A kernel and noise, features, and what the data say about their coefficients.

    It stands where `Posterior` stands. With features phi of a point x, mean and variance of the
    function are phi' B^-1 c and k(x, x) - phi' phi + phi' B^-1 phi. A subclass says which points
    carry the mean.
    """

    # kernel, points, targets, noise and what the features are, at learned hyper-parameters
    evidence: FeatureEvidence
    seen: Seen  # the features
    bound: Bound  # the sums over rows, and their factor

    @classmethod
    def at(cls, evidence: Any, theta: Array) -> Self:
        """Condition at these hyper-parameters."""
        settled = evidence.settled(theta)
        seen, data = settled.seen(settled.kernel), settled.data
        return cls(settled, seen, summed(feature_rows(seen, data, data.noise.variance)))

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.evidence.kernel

    @property
    def noise(self) -> Noise:
        """The noise."""
        return self.evidence.data.noise

    @property
    def training_points(self) -> Points:
        """All rows."""
        return self.evidence.data.points

    @property
    def targets(self) -> Array:
        """The standardised targets."""
        return self.evidence.data.targets

    @property
    @abstractmethod
    def points(self) -> Points:
        """The points that carry the mean."""

    @property
    @abstractmethod
    def rows(self) -> NDArray[np.intp] | None:
        """The rows that these are, if they are rows."""

    @property
    @abstractmethod
    def dual(self) -> Array:
        """Their coefficients."""

    @property
    def weights(self) -> Array:
        """The coefficients of the mean over the features."""
        return self.bound.weights

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        if self.bound.rounding <= _ROUNDED:
            return ""
        return (
            "noise is so small beside the largest features of the kernel that rounding hides the "
            "smallest: likelihood, mean and variances have few digits. Raise noise, or scale the "
            "data"
        )

    def log_likelihood(self) -> float:
        """The bound of the standardised targets' log marginal likelihood."""
        return self.bound.value() + self._copies()

    def _copies(self) -> float:
        return self.bound.n_targets * self.noise.copies(self.noise.variance)[0]

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """How good the features are, in units of y."""
        rows = self.noise.n_rows(len(self.targets))
        copies = self._copies() - scaling.log_volume(rows)
        return {
            "lower_bound_": self.bound.value() + copies,
            "upper_bound_": self.bound.upper_value() + copies,
            "trace_error_": self.bound.trace_error,
        }

    def attributes(self, scaling: Scaling) -> dict[str, Any]:
        """What a fitted model stores, in units of y."""
        found = fitted_attributes(self, scaling, self.evidence.theta, self.evidence.names)
        return found | self.quality(scaling) | {"jitter_": 0.0}

    # New points ---------------------------------------------------------------------------------

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in chunks."""
        variance = np.empty(len(points))
        for rows in blocks(len(points), self.seen.width):
            features = self.seen(points[rows])
            spread = self.bound.carried(features)
            spare = self.seen.diagonal(points[rows], features)
            spare -= np.einsum("ij,ij->i", features, features)
            # Rounding can take what features explain of a point beyond what there is.
            variance[rows] = np.maximum(spare, 0.0) + np.einsum("ij,ij->j", spread, spread)
        return variance

    def covariance(self, points: Points) -> Array:
        """The covariance of the function at all points."""
        features = self.seen(points)
        spread = self.bound.carried(features)
        covariance = self.seen.prior(points, features)
        covariance -= features @ features.T
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
        covariance += spread.T @ spread
        return covariance

    @abstractmethod
    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""

    def drawn_together(self, m: int) -> int:
        """Of how many values `draws` needs the covariance, at m points."""
        return m

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points: the mean, and draws with the covariance."""
        m, t = len(points), self.bound.n_targets
        factor = factorise(self.covariance(points), 0.0, NOISE)
        spread = factor.multiply(rng.standard_normal((m, t * number))).reshape(m, t, number)
        drawn: Array = self.mean(points)[:, :, None] + spread
        return drawn

    # Other rows ---------------------------------------------------------------------------------

    def extended(self, points: Points, targets: Array, factors: Array | None) -> FeaturePosterior:
        """The posterior after further rows, by the same features."""
        data = self._followed_by(points, targets, factors)
        new = data.of_rows(np.arange(len(self.training_points), len(points)))
        added = summed(feature_rows(self.seen, new, data.noise.variance))
        bound = Bound(self.bound.sums + added.sums)
        return replace(self, evidence=replace(self.evidence, data=data), bound=bound)

    def _followed_by(
        self, points: Points, targets: Array, factors: Array | None
    ) -> GaussianEvidence:
        """All rows, the new ones last."""
        known = self.evidence.data
        return replace(
            known,
            points=points,
            targets=np.vstack([known.targets, targets]),
            noise=known.noise.followed_by(factors, len(targets)),
        )

    def leave_one_out(self) -> tuple[Array, Array]:
        """What each target is, given all others and the same features.

        With the leverage h = phi' B^-1 phi / d, the residual is (y - mean) / (1 - h) and the
        variance k(x, x) - phi' phi + d / (1 - h).
        """
        residuals, variances = [], []
        for block in feature_rows(self.seen, self.evidence.data, self.noise.variance):
            spread = self.bound.carried(block.features)
            kept = 1 - np.einsum("ij,ij->j", spread, spread) / block.noise
            kept = np.maximum(kept, np.finfo(np.float64).eps)
            missed = block.targets - block.features @ self.weights
            spare = block.diagonal - np.einsum("ij,ij->i", block.features, block.features)
            residuals.append(missed / kept[:, None])
            variances.append(np.maximum(spare, 0.0) + block.noise / kept)
        return np.concatenate(residuals), np.concatenate(variances)

    def loo_density(self) -> float:
        """The sum of the logarithms of the density of each target given all others."""
        residuals, variances = self.leave_one_out()
        spread = variances[:, None]
        return -0.5 * float(np.sum(residuals**2 / spread + np.log(spread) + _LOG_2PI))
