"""Laplace's approximation of the marginal likelihood of labels, as an objective of a search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks import selection
from mercer.landmarks.features import LandmarkFeatures
from mercer.landmarks.selection import Landmarks
from mercer.models.gaussian_process.search_space import SearchSpace, Variance, without_bounds
from mercer.parallel import cached_property
from mercer.rows.rows import as_float64
from mercer.solvers.likelihood import laplace
from mercer.solvers.likelihood.class_curvature import FeatureMatrix
from mercer.solvers.likelihood.laplace import Posterior
from mercer.solvers.likelihood.maximise import SubsampledObjective

# Classes that can be separated are the likelier the larger the latent functions. At a standard
# deviation of 300, probabilities at the mode are 0 or 1, and the Gaussian approximation fails.
_LOGITS = Variance(usual=1.0, largest=1e5, open_above=True)
# Rows from which on a search begins with a pilot search on some of them.
_PILOT_FROM = 1_000
# Rows of a pilot search.
_PILOT_ROWS = 250
# Rows up to which all of them are worth several starts.
_CHEAP_ROWS = 100
# Starts beside that of the search, where they are cheap.
_STARTS = 4


@dataclass(eq=False)
class LaplaceObjective:
    """The approximate log marginal likelihood as a function of the kernel's free parameters.

    Newton's method starts at the mode of the evaluation before, which is close in all but the first
    steps of a search.
    """

    kernel: Kernel  # the kernel, resolved
    points: Points
    targets: Array  # (n, C): indicators of the classes; (n, 1) for two classes
    weights: Array | None
    _latent: Array | None = field(default=None, init=False)

    @property
    def theta(self) -> Array:
        """The parameters of this kernel."""
        return self.kernel.theta

    @cached_property
    def space(self) -> SearchSpace:
        """The free parameters; latent functions are on the scale of logits, about one."""
        return SearchSpace.of(self.kernel, self.points, _LOGITS)

    def unbounded(self) -> LaplaceObjective:
        """The objective for any theta, also outside the bounds of `Bounded` parameters."""
        return replace(self, kernel=without_bounds(self.kernel))

    def gram(self, kernel: Kernel) -> Array:
        """The matrix in float64: differences of likelihoods are too small for float32."""
        return np.asarray(kernel(self.points), dtype=np.float64)

    def posterior(self, gram: Array) -> Posterior:
        """The latent functions for a kernel matrix."""
        posterior = laplace.fit(gram, self.targets, self.weights, start=self._latent)
        self._latent = posterior.latent
        return posterior

    def value(self, theta: Array) -> float:
        """The log marginal likelihood at theta."""
        return self.posterior(self.gram(self.kernel.with_theta(theta))).log_evidence

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood and its gradient: one contraction for all parameters."""
        kernel = self.kernel.with_theta(theta)
        gram = self.gram(kernel)
        posterior = self.posterior(gram)
        if not posterior.converged:
            return -np.inf, np.zeros(len(theta))
        if not len(theta):
            return posterior.log_evidence, np.empty(0)
        sensitivity = posterior.sensitivity(gram)
        return posterior.log_evidence, kernel.gram(self.points).gradient(sensitivity)

    def attributes(self, theta: Array) -> dict[str, Any]:
        """The attributes of a fitted model."""
        kernel = self.kernel.with_theta(theta)
        posterior = self.posterior(self.gram(kernel))
        return fitted_attributes(kernel, posterior, posterior.dual) | {
            "points_": self.points,
            "_objective": self,
            "_features": None,
        }

    def sample(self, number: int) -> LaplaceObjective:
        """The objective of some rows, with every class in its share of them."""
        if number >= len(self.points):
            return self
        classes = (
            np.argmax(self.targets, axis=1) if self.targets.shape[1] > 1 else self.targets[:, 0]
        )
        order = np.random.default_rng(0).permutation(len(classes))
        place = np.empty(len(classes))  # within the class, as a share of it
        for label in np.unique(classes):
            rows = order[classes[order] == label]
            place[rows] = np.arange(len(rows)) / len(rows)
        rows = np.sort(np.argsort(place, kind="stable")[:number])
        weights = None if self.weights is None else self.weights[rows]
        return LaplaceObjective(self.kernel, self.points[rows], self.targets[rows], weights)

    def subsample(self) -> SubsampledObjective | None:
        """The objective of a pilot search; None for too few rows."""
        n = len(self.points)
        if n < _PILOT_FROM:
            return None
        starts = self.space.restarts(_STARTS, random_state=0)
        objective = self.sample(_PILOT_ROWS).value_and_gradient
        return SubsampledObjective(objective, _PILOT_ROWS / n, starts)

    def starts(self, number: int, random_state: Any) -> Array:
        """`number` starts beside the given one, after some that are cheap for few rows."""
        cheap = self.space.restarts(_STARTS if len(self.points) <= _CHEAP_ROWS else 0, 0)
        return np.vstack([cheap, self.space.restarts(number, random_state)])


@dataclass(frozen=True, eq=False)
class LandmarkLaplace:
    """Laplace's approximation for many rows, which are seen through landmarks."""

    data: LaplaceObjective
    number: int  # how many landmarks
    owner: str  # the name of the model, for messages
    rows: NDArray[np.intp]  # (n,): which rows of X the points are
    landmarks: Landmarks | None = None  # chosen for the learned kernel; None before

    def attributes(self, theta: Array) -> dict[str, Any]:
        """The attributes of a fitted model, whose latent functions are sums over landmarks."""
        kernel, data = self.data.kernel.with_theta(theta), self.data
        points = as_float64(kernel, data.points)
        chosen = selection.select_points(
            self.owner, kernel, points, "rpcholesky", self.number, 0, data.weights
        )
        assert chosen.indices is not None
        placed = replace(self, data=replace(data, points=points), landmarks=chosen)
        features, posterior, matrix = placed._posterior(kernel)
        dual = features.to_coefficients(matrix.features.T @ posterior.dual)
        explained = float(np.sum(matrix.features**2))
        trace = float(np.sum(kernel.diag(points), dtype=np.float64))
        posterior.curvature.release()
        return fitted_attributes(kernel, posterior, dual) | {
            "points_": features.points,
            "rows_": self.rows[chosen.indices[features.whitening.kept]],
            "trace_error_": max(0.0, 1 - explained / trace) if trace > 0 else 0.0,
            "_objective": placed,
            "_features": features,
        }

    def unbounded(self) -> LandmarkLaplace:
        """The objective for any theta, also outside the bounds of `Bounded` parameters."""
        return replace(self, data=self.data.unbounded())

    def value(self, theta: Array) -> float:
        """The log marginal likelihood at theta, with these landmarks."""
        return self._posterior(self.data.kernel.with_theta(theta))[1].log_evidence

    def value_and_gradient(self, theta: Array) -> NoReturn:
        """Refused: landmarks serve the posterior alone."""
        raise DataError(
            f"{self.owner}: the gradient is not computed through landmarks; ask for "
            "log_marginal_likelihood(theta), or fit on fewer rows."
        )

    def _posterior(self, kernel: Kernel) -> tuple[LandmarkFeatures, Posterior, FeatureMatrix]:
        assert self.landmarks is not None
        features = LandmarkFeatures.pivoted(kernel, self.landmarks.points)
        matrix = FeatureMatrix(features.rows(self.data.points))
        posterior = laplace.fit(matrix, self.data.targets, self.data.weights)
        return features, posterior, matrix


def fitted_attributes(kernel: Kernel, posterior: Posterior, dual: Array) -> dict[str, Any]:
    """The attributes that a fitted model has with any matrix."""
    return {
        "kernel_": kernel,
        "dual_coef_": dual[:, 0] if dual.shape[1] == 1 else dual,
        "intercept_": 0.0,
        "log_marginal_likelihood_": posterior.log_evidence,
        "theta_": kernel.theta,
        "theta_names_": tuple(kernel.theta_names),
        "_posterior": posterior,
    }
