"""Features through which a Gaussian process sees data: the bound and the posterior.

Inner products of features are kernel values, or the part of them that landmarks explain. Whichever
the features are, the objective and the posterior are computed from the same sums over rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.covariance import Covariance
from mercer.models.gaussian_process.exact import (
    ExactObjective,
    fitted_attributes,
    require_covariance,
)
from mercer.models.gaussian_process.targets import Scaling
from mercer.rows.rows import InMemory, RowBlock, as_float64
from mercer.sampling import blocks
from mercer.solvers.likelihood.variational_bound import Elbo, FeatureRows
from mercer.solvers.protocol import RidgeTask

# Relative rounding error of the bound beyond which the model warns.
_LARGE_ROUNDING = 0.01


@dataclass(frozen=True, eq=False)
class FeatureView:
    """Features phi of any points, and the kernel that their inner products explain."""

    kernel: Kernel
    source: Any  # the `LandmarkFeatures` or `KernelFeatures`
    features: Callable[[Points], Any]  # features of points, dense or sparse
    # whether inner products are the whole kernel at all points. Landmarks explain only a part, and
    # strings may have features that do not occur in training
    complete: bool

    @property
    def width(self) -> int:
        """Number r of features."""
        return int(self.source.width)

    def __call__(self, points: Points) -> Array:
        """The features, of shape (n, r), in float64."""
        features = self.features(as_float64(self.kernel, points))
        dense = features.toarray() if sp.issparse(features) else features
        return np.ascontiguousarray(dense, dtype=np.float64)

    def diagonal(self, points: Points, features: Array) -> Array:
        """The values k(x, x)."""
        if self.complete:
            return np.asarray(np.einsum("ij,ij->i", features, features))
        return np.asarray(self.kernel.diag(points).astype(np.float64, copy=False))


def feature_rows(view: FeatureView, data: ExactObjective) -> Iterator[FeatureRows]:
    """Features of the rows, block by block."""
    noise = np.broadcast_to(data.noise.diagonal(), (len(data.points),))
    for rows in blocks(len(data.points), view.width):
        points = data.points[rows]
        features = view(points)
        diagonal = view.diagonal(points, features)
        targets = data.targets[rows]
        yield FeatureRows(features, diagonal, noise[rows], targets, data.constant, rows)


def summed(rows: Iterable[FeatureRows]) -> Elbo:
    """The bound of all rows, from blocks of them."""
    return Elbo(reduce(add, (block.sums() for block in rows)))


@dataclass(frozen=True, eq=False)
class FeatureObjective(ABC):
    """A bound of the log marginal likelihood as a function of the free hyper-parameters."""

    data: ExactObjective  # kernel, points, targets and noise

    @abstractmethod
    def view(self, kernel: Kernel) -> FeatureView:
        """The features at a kernel."""

    @abstractmethod
    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound at theta and its gradient."""

    def unbounded(self) -> Self:
        """The objective for any theta, also outside the bounds of `Bounded` parameters."""
        return replace(self, data=self.data.unbounded())

    def at(self, theta: Array) -> Self:
        """Replace kernel and noise by those of theta."""
        return replace(self, data=self.data.at(theta))

    def value(self, theta: Array) -> float:
        """The bound at theta, every copy of a row counted."""
        return self.value_and_gap(theta)[0]

    def value_and_gap(self, theta: Array) -> tuple[float, float]:
        """The bound at theta, and about how far it is below the log marginal likelihood.

        For targets drawn from the process, the bound is below by the trace of D^-1 (K - Q) at
        most on average, and by half of that where it is small (Burt, Rasmussen and van der Wilk
        2020).
        """
        data = self.data.at(theta)
        elbo = summed(feature_rows(self.view(data.kernel), data))
        value = elbo.value() + elbo.n_targets * data.noise.copies()[0]
        return value, elbo.n_targets * elbo.sums.residual_trace

    def rounding_at(self, theta: Array) -> float:
        """Rounding error of the bound, which is a difference of sums of this size."""
        data = self.data.at(theta)
        prior = data.targets.shape[1] * data.kernel.diag(data.points).astype(np.float64, copy=False)
        energy = np.einsum("ij,ij->i", data.targets, data.targets)
        return float(np.finfo(np.float64).eps * np.sum((prior + energy) / data.noise.diagonal()))


def ridge_task(data: ExactObjective, owner: str) -> RidgeTask:
    """Ridge regression with the same mean: noise s^2 f_i is alpha = s^2 with weight 1 / f_i."""
    noise, weights = data.noise, None
    if noise.factors is not None or noise.weights is not None:
        diagonal = np.broadcast_to(noise.diagonal(), (len(data.points),))
        weights = np.asarray(noise.variance / diagonal)
    rows = InMemory(RowBlock(data.points, data.targets, weights))
    alphas = np.array([noise.variance])
    return RidgeTask(owner, data.kernel, rows, data.constant, alphas, ridge="noise")


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
    def points(self) -> Points:
        """The points of the sum that is the mean: the training points, or landmarks."""
        return self.data.points

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The numbers of the rows that these points are; None if they are not rows."""
        return np.arange(len(self.points))

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
        own = {"points_": self.points, "_posterior": self, "_objective": self.objective}
        return common | self.quality(scaling) | own

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in blocks."""
        parts = [points[rows] for rows in blocks(len(points), self.view.width)]
        return np.concatenate([self._variance(part, *self._half_solved(part)) for part in parts])

    def covariance(self, points: Points) -> Covariance:
        """The covariance of the function at all points."""
        require_covariance(len(points))
        features, half = self._half_solved(points)
        matrix: Array = half.T @ half + self.elbo.constant_variance
        if not self.view.complete:
            matrix += self.data.kernel(points) - features @ features.T
        return Covariance.rounded(matrix, self._variance(points, features, half))

    def _half_solved(self, points: Points) -> tuple[Array, Array]:
        """The features phi of points, and U^-T phi."""
        features = self.view(points)
        return features, self.elbo.half_solve(features)

    def _variance(self, points: Points, features: Array, half: Array) -> Array:
        residual = self.view.diagonal(points, features)
        residual -= np.einsum("ij,ij->i", features, features)
        # Rounding can make the explained part of k(x, x) larger than k(x, x).
        explained = np.einsum("ij,ij->j", half, half) + self.elbo.constant_variance
        return np.asarray(np.maximum(residual, 0.0) + explained)

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        gram = self.data.kernel.gram(points, self.points)
        return np.asarray(gram @ self.dual, dtype=np.float64) + self.constant

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points, of shape (m, n_targets, number)."""
        return self.covariance(points).draws(self.mean(points), number, rng)

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
