"""A Gaussian process conditioned on data through features, in standardised targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.linalg.cholesky import factorise
from mercer.models.gaussian_process.exact import ExactObjective, fitted_attributes
from mercer.models.gaussian_process.features import (
    FeatureObjective,
    FeatureView,
    feature_rows,
    summed,
)
from mercer.models.gaussian_process.targets import Scaling
from mercer.sampling import blocks
from mercer.solvers.likelihood.gaussian import NOISE
from mercer.solvers.likelihood.variational_bound import Elbo

Array = NDArray[np.floating[Any]]

# Relative rounding error of the bound beyond which the model warns.
_LARGE_ROUNDING = 0.01


@dataclass(frozen=True, eq=False)
class FeaturePosterior(ABC):
    """A kernel and noise, features, and the posterior of the coefficients of the features.

    With features phi of a point x, mean and variance of the function are phi' B^-1 c and
    k(x, x) - phi' phi + phi' B^-1 phi. Where the constant of the mean is unknown, the last term is
    that of phi less its mean, and the variance of the function at this mean is added. A subclass
    says over which points the mean is a sum.
    """

    objective: FeatureObjective  # data and features, at the learned hyper-parameters
    view: FeatureView  # the features
    elbo: Elbo  # the sums over rows, and their factor

    @classmethod
    def at(cls, objective: Any, theta: Array) -> Self:
        """Condition at these hyper-parameters."""
        learned = objective.at(theta)
        view = learned.view(learned.data.kernel)
        return cls(learned, view, summed(feature_rows(view, learned.data)))

    @property
    def data(self) -> ExactObjective:
        """Kernel, points, targets and noise."""
        return self.objective.data

    @property
    @abstractmethod
    def points(self) -> Points:
        """The points of the sum that is the mean."""

    @property
    @abstractmethod
    def rows(self) -> NDArray[np.intp] | None:
        """The numbers of the rows that these points are; None if they are not rows."""

    @property
    @abstractmethod
    def dual(self) -> Array:
        """The coefficients of these points."""

    @property
    def constant(self) -> Array:
        """The constant of the mean, for each target."""
        return self.elbo.constant(self.weights)

    @property
    def weights(self) -> Array:
        """The coefficients of the mean over the features."""
        return self.elbo.weights

    @property
    def warning(self) -> str:
        """Why results are inaccurate, as a clause; empty if they are accurate."""
        if self.elbo.rounding <= _LARGE_ROUNDING:
            return ""
        return (
            "noise is so small beside the largest features of the kernel that rounding hides the "
            "smallest: likelihood, mean and variances have few digits. Raise noise, or scale the "
            "data"
        )

    def _copies(self) -> float:
        return self.elbo.n_targets * self.data.noise.copies()[0]

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """Bounds of the likelihood in units of y, and the unexplained share of the trace."""
        rows = self.data.noise.n_rows(len(self.data.targets)) - self.data.constant
        constant = self._copies() - scaling.log_volume(rows)
        return {
            "lower_bound_": self.elbo.value() + constant,
            "upper_bound_": self.elbo.upper_value() + constant,
            "trace_error_": self.elbo.trace_error,
        }

    def attributes(self, scaling: Scaling) -> dict[str, Any]:
        """The attributes of a fitted model, in units of y."""
        value = self.elbo.value() + self._copies()
        common = fitted_attributes(self.data, scaling, self.dual, value, self.constant)
        return (common | self.quality(scaling)) | {
            "points_": self.points,
            "jitter_": 0.0,
            "_posterior": self,
            "_objective": self.objective,
        }

    # New points ---------------------------------------------------------------------------------

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in blocks."""
        variance = np.empty(len(points))
        for rows in blocks(len(points), self.view.width):
            features = self.view(points[rows])
            half = self.elbo.half_solve(features)
            residual = self.view.diagonal(points[rows], features)
            residual -= np.einsum("ij,ij->i", features, features)
            # Rounding can make the explained part of k(x, x) larger than k(x, x).
            variance[rows] = np.maximum(residual, 0.0) + np.einsum("ij,ij->j", half, half)
        return variance + self.elbo.constant_variance

    def covariance(self, points: Points) -> Array:
        """The covariance of the function at all points."""
        features = self.view(points)
        half = self.elbo.half_solve(features)
        covariance = self.view.prior(points, features)
        covariance -= features @ features.T
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
        covariance += half.T @ half
        return covariance + self.elbo.constant_variance

    @abstractmethod
    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""

    def joint_size(self, m: int) -> int:
        """The order of the covariance that draws at m points need."""
        return m

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points: the mean, and draws with the covariance."""
        m, t = len(points), self.elbo.n_targets
        factor = factorise(self.covariance(points), 0.0, NOISE)
        deviation = factor.multiply(rng.standard_normal((m, t * number))).reshape(m, t, number)
        drawn: Array = self.mean(points)[:, :, None] + deviation
        return drawn

    # Other rows ---------------------------------------------------------------------------------

    def extended(self, points: Points, targets: Array, factors: Array | None) -> FeaturePosterior:
        """The posterior after further rows, with the features as they are."""
        data = self.data.followed_by(points, targets, factors)
        new = data.at_rows(np.arange(len(self.data.points), len(points)))
        elbo = Elbo(self.elbo.sums + summed(feature_rows(self.view, new)).sums)
        return replace(self, objective=replace(self.objective, data=data), elbo=elbo)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residuals and variances of each target given all others, with these features.

        With the leverage h = phi' B^-1 phi / d, the residual is (y - mean) / (1 - h) and the
        variance k(x, x) - phi' phi + d / (1 - h). The constant has a leverage of its own.
        """
        residuals, variances = [], []
        for block in feature_rows(self.view, self.data):
            half = self.elbo.half_solve(block.features)
            variance = np.einsum("ij,ij->j", half, half) + self.elbo.constant_variance
            kept = 1 - variance / block.noise
            kept = np.maximum(kept, np.finfo(np.float64).eps)
            missed = block.targets - block.features @ self.weights - self.constant
            unexplained = block.diagonal - np.einsum("ij,ij->i", block.features, block.features)
            residuals.append(missed / kept[:, None])
            variances.append(np.maximum(unexplained, 0.0) + block.noise / kept)
        return np.concatenate(residuals), np.concatenate(variances)
