"""A Gaussian process whose kernel has few features: exact in the space of their coefficients.

Where k(x, z) = phi(x)' phi(z) with p features, likelihood, mean and variances are exact, for n p^2
operations and p^2 entries of memory. The features are the kernel's own (`Primal`), or those of a
map that approximates it (`RandomFeatures`), whose inner products then are the kernel.

Features have no derivatives in the parameters of the kernel, but p rows span them: with these rows
as landmarks the collapsed bound is the likelihood, and has a gradient. Landmarks that are chosen
for one kernel usually span the features of other kernels as well. Where a search ends at a kernel
whose features they do not span, they are chosen again, and the search continues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer import memory
from mercer.arrays import Array
from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.features import (
    FeatureObjective,
    FeaturePosterior,
    FeatureView,
    feature_rows,
    ridge_task,
)
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.models.gaussian_process.targets import Scaling
from mercer.parallel import cached_property
from mercer.sampling import blocks, uniform_rows
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.kernel_features import KernelFeatures
from mercer.solvers.likelihood.maximise import Optimum, maximise
from mercer.solvers.nystrom import NystromSolver
from mercer.solvers.ridge.feature_problem import InnerProducts

# Matrices of the order of the features that a posterior holds.
_MATRICES = 10
# Bytes of the factor of all rows by which spanning rows are chosen; beyond it, of some rows.
_CHOICE_BYTES = 2**30
# Nats per row by which the maximised bound may be below the likelihood without a warning.
_MISSED = 1e-4
# Times that spanning rows are chosen again at most.
_ROUNDS = 2
# Nats by which the maximised bound may be below the likelihood before rows are chosen again.
_GAP = 1e-6
# The limit in units of the rounding error of the bound.
_GAP_IN_ROUNDING = 30.0
# Rows of the pilot search at most.
_PILOT_ROWS = 500


@dataclass(frozen=True, eq=False)
class ExplicitObjective(FeatureObjective):
    """The log marginal likelihood from features, as a function of the free hyper-parameters."""

    solver: Primal | RandomFeatures  # the solver that makes the features of a kernel
    owner: str  # the name of the model, for messages

    def features(self, kernel: Kernel) -> KernelFeatures:
        """The features of a kernel, after a forecast of memory."""
        features = self.solver.features(ridge_task(replace(self.data, kernel=kernel), self.owner))
        memory.require(
            8 * _MATRICES * features.width**2,
            f"{self.owner} with {features.width} features",
            "take fewer of them, or another solver, such as mercer.solvers.NystromSolver()",
        )
        return features

    def view(self, kernel: Kernel) -> FeatureView:
        """The features at a kernel."""
        source = self.features(kernel)
        sparse = sp.issparse(source.features(self.data.points[:1]))
        complete = self.solver.is_approximate or not sparse
        return FeatureView(kernel, source, source.features, complete)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood at theta and its gradient."""
        if self.solver.is_approximate:
            raise DataError(
                f"{self.owner}: the features of a map have no derivatives in the parameters of the "
                "kernel; ask for log_marginal_likelihood(theta), or fit with "
                "solver=mercer.solvers.NystromSolver(n_landmarks=1000)."
            )
        bound, gradient = self.spanned(self.data.at(theta).kernel).value_and_gradient(theta)
        value = self.value(theta)
        if value - bound > _MISSED * len(self.data.points):
            warn(
                f"{self.owner}: the gradient is that of a bound {value - bound:.2g} nats below the "
                "likelihood. Rounding of kernel values hides features that are much smaller than "
                "others. Scale the columns, or fit with solver=solvers.Cholesky().",
                NumericalWarning,
            )
        return value, gradient

    def spanned(self, kernel: Kernel) -> LandmarkObjective:
        """The bound through landmarks: rows, as many as features, that span all features."""
        n, width = len(self.data.points), self.features(kernel).width
        room = min(_CHOICE_BYTES, memory.available() // 4)
        most = max(2 * width, int(room // (10 * max(1, width))))
        among = replace(self.data, kernel=kernel)
        if n > most:
            among = among.at_rows(np.sort(uniform_rows(n, most, np.random.RandomState(0))))
        size = max(1, min(width, len(among.points)))
        solver = NystromSolver(size, "rpcholesky", random_state=0)
        chosen = LandmarkObjective.selected(among, solver, self.owner)
        return LandmarkObjective(self.data, chosen.landmarks)


class SpanningSearch:
    """A search of hyper-parameters on all rows, by the exact likelihood."""

    def __init__(self, objective: ExplicitObjective) -> None:
        self.objective, self.solver = objective, objective.solver
        self.current = objective.spanned(objective.data.kernel)

    def maximise(self, *, n_restarts: int, random_state: Any, **options: Any) -> Optimum:
        """Search from the start and from restarts."""
        data = self.objective.data
        best = maximise(
            self.current.value_and_gradient,
            data.space.start,
            data.space.bounds,
            starts=data.starts(n_restarts, random_state),
            subsample=data.subsample(most=_PILOT_ROWS),
            **options,
        )
        for _ in range(_ROUNDS):
            gap, allowed = self._gap(best.theta)
            if best.stopped or gap <= allowed:
                break
            self.current = self.objective.spanned(data.at(best.theta).kernel)
            objective, bounds = self.current.value_and_gradient, data.space.bounds
            best = maximise(objective, best.theta, bounds, before=best, **options)
        return best

    def posterior(self, theta: Array) -> ExplicitPosterior:
        """The posterior by features; it warns if the maximised bound was not the likelihood."""
        posterior = ExplicitPosterior.at(self.objective, theta)
        gap, allowed = self._gap(theta)
        if gap <= max(_MISSED * len(self.objective.data.points), allowed):
            return posterior
        return replace(
            posterior,
            search_warning=(
                f"kernel and noise maximise a bound that is about {gap:.2g} nats below the "
                "likelihood. Rounding of kernel values hides features that are much smaller than "
                "others. Scale the columns"
            ),
        )

    def _gap(self, theta: Array) -> tuple[float, float]:
        """How far the bound is below the likelihood at most, and how far it may be."""
        gap = self.current.value_and_gap(theta)[1]
        return gap, max(_GAP, _GAP_IN_ROUNDING * self.current.rounding_at(theta))


@dataclass(frozen=True, eq=False)
class ExplicitPosterior(FeaturePosterior):
    """A kernel and noise, and the posterior of the coefficients of its features."""

    objective: ExplicitObjective  # data and solver, at the learned hyper-parameters
    search_warning: str = ""  # a clause about the search; empty if the likelihood was maximised

    @cached_property
    def weights(self) -> Array:
        """The coefficients of the features, after one step of iterative refinement.

        A pass over rows computes the residual F' D^-1 (y - F v) - v of the normal equations, which
        lose digits because features are squared there.
        """
        first, sums = self.elbo.weights, self.elbo.sums
        residual = -first
        for block in feature_rows(self.view, self.data):
            features = block.features - sums.centre
            missed = (block.targets - sums.middle - features @ first) / block.noise[:, None]
            residual = residual + features.T @ missed
        return np.asarray(first + self.elbo.solve(residual))

    @cached_property
    def dual(self) -> Array:
        """The coefficients of the rows, from the condition for a maximum: (y_i - f(x_i)) / d_i."""
        parts = [
            (block.targets - block.features @ self.weights - self.constant) / block.noise[:, None]
            for block in feature_rows(self.view, self.data)
        ]
        return np.concatenate(parts)

    @property
    def warning(self) -> str:
        """Why results are inaccurate, as a clause; empty if they are accurate."""
        return self.search_warning or super().warning

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """The error of a map; for the kernel's own features, bounds of the likelihood."""
        return self.view.source.quality or super().quality(scaling)

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        parts = blocks(len(points), self.view.width)
        values = [self.view(points[rows]) @ self.weights for rows in parts]
        return np.concatenate(values) + self.constant

    def similarities(self, owner: str) -> InnerProducts:
        """Inner products of features, which are the kernel of this process."""
        return InnerProducts.within_memory(self.view.features, self.points, self.view.width, owner)

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points: coefficients are drawn, not values."""
        if not self.view.complete:
            return super().draws(points, number, rng)
        t = self.elbo.n_targets
        normal = rng.standard_normal((self.view.width, t * number))
        deviation = solve_triangular(self.elbo.root, normal, check_finite=False)
        coefficients = self.weights[:, :, None] + deviation.reshape(-1, t, number)
        shifts = np.sqrt(self.elbo.constant_variance) * rng.standard_normal((t, number))
        sums, parts = self.elbo.sums, blocks(len(points), self.view.width)
        drawn = [
            np.tensordot(self.view(points[rows]) - sums.centre, coefficients, axes=1)
            for rows in parts
        ]
        return np.asarray(np.concatenate(drawn) + sums.middle[:, None] + shifts)

    def extended(self, points: Points, targets: Array, factors: Array | None) -> FeaturePosterior:
        """The posterior after further rows, which may have features of their own."""
        if self.view.complete:
            return super().extended(points, targets, factors)
        data = self.data.followed_by(points, targets, factors)
        return type(self).at(replace(self.objective, data=data), data.theta)
