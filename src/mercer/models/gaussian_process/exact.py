"""The evidence that data give for hyper-parameters: kernel and noise of a Gaussian process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.symmetric import LowerTriangle
from mercer.models.gaussian_process.noise import Noise
from mercer.models.gaussian_process.parameter_ranges import Variance
from mercer.models.gaussian_process.search_space import SearchSpace
from mercer.solvers.likelihood.gaussian import Gaussian, Precision
from mercer.solvers.likelihood.maximise import Sketch

Array = NDArray[np.floating[Any]]

# From so many rows on, a search of hyper-parameters first looks at one row in _PARTS, or at _FEW:
# an evaluation takes so little time there that several starts are tried.
_MANY = 1_000
_PARTS = 8
_FEW = 250
_STARTS = 4
_CENTRES = 4


@dataclass(frozen=True, eq=False)
class GaussianEvidence:
    """Targets, points, kernel and noise, as a function of the free hyper-parameters.

    The vector theta is ``kernel.theta``, followed by the logarithm of the noise's variance if that
    is learned.
    """

    kernel: Kernel  # the kernel, resolved
    points: Points  # the training points
    targets: Array  # (n, n_targets): targets of mean zero and variance about one
    noise: Noise

    @cached_property
    def space(self) -> SearchSpace:
        """The free hyper-parameters, their bounds and where they start."""
        squares = (self.targets**2).mean(axis=1)
        variance = float(np.average(squares, weights=self.noise.weights)) or 1.0
        space = SearchSpace.of(self.kernel, self.points, Variance(variance))
        if not self.noise.learned:
            return space
        return space.with_variance("noise", self.noise.variance, variance, self.noise.bounds)

    @property
    def theta(self) -> Array:
        """The hyper-parameters of this kernel and noise."""
        noise = [np.log(self.noise.variance)] if self.noise.learned else []
        return np.concatenate([self.kernel.theta, noise])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hyper-parameters."""
        return (*self.kernel.theta_names, *(["noise"] if self.noise.learned else []))

    def at(self, theta: Array) -> tuple[Kernel, float]:
        """The kernel and the variance of the noise at theta."""
        if not self.noise.learned:
            return self.kernel.with_theta(theta), self.noise.variance
        return self.kernel.with_theta(theta[:-1]), float(np.exp(theta[-1]))

    def gaussian(self, kernel: Kernel, variance: float) -> Gaussian:
        """The distribution of the targets."""
        return Gaussian.of(self._gram(kernel), self.noise.diagonal(variance), self.targets)

    def _gram(self, kernel: Kernel) -> Array:
        # Hyper-parameters are learned from differences of logarithms, too small for float32.
        return kernel(self.points).astype(np.float64, copy=False)

    def log_likelihood(self, gaussian: Gaussian, variance: float) -> float:
        """The log marginal likelihood, every copy of a row counted."""
        return gaussian.log_likelihood() + gaussian.n_targets * self.noise.copies(variance)[0]

    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood at theta and its gradient."""
        return self._with_gradient(theta, Precision.log_likelihood_with_slope)

    def loo_density_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The leave-one-out log predictive density at theta and its gradient."""
        return self._with_gradient(theta, Precision.loo_density_with_slope)

    def log_likelihood_at(self, theta: Array) -> float:
        """The log marginal likelihood at theta."""
        kernel, variance = self.at(theta)
        return self.log_likelihood(self.gaussian(kernel, variance), variance)

    def sketch(self, measure: str, most: int | None = None) -> Sketch | None:
        """Some of the rows, `most` at most; `measure` names a method of this.

        None if there are too few of them to leave any out.
        """
        n = len(self.points)
        if n < _MANY:
            return None
        number = max(_FEW, n // _PARTS)
        rows = self._typical_rows(number if most is None else min(number, most))
        part = self.of_rows(rows)
        return Sketch(
            getattr(part, measure), len(rows) / n, self.space.restarts(_STARTS, random_state=0)
        )

    def of_rows(self, rows: NDArray[np.intp]) -> GaussianEvidence:
        """The evidence of some rows."""
        weights = None if self.noise.weights is None else self.noise.weights[rows]
        return replace(
            self,
            points=self.points[rows],
            targets=self.targets[rows],
            noise=self.noise.of_subset(rows, weights),
        )

    def _typical_rows(self, number: int) -> NDArray[np.intp]:
        """Some rows, half of them anywhere and half around a few of those.

        Rows far apart show long length-scales, and close ones short length-scales and the noise: a
        thinner sample of all rows may have no close ones.
        """
        order = np.random.default_rng(0).permutation(len(self.points))
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[: number // 2]] = True
        centres = order[:_CENTRES]
        nearness = self.kernel(self.points[centres], self.points)
        nearness /= np.sqrt(np.maximum(self.kernel.diag(self.points), np.finfo(float).tiny))
        for i, row in enumerate(nearness):
            wanted = (number - int(chosen.sum())) // (_CENTRES - i)
            others = np.flatnonzero(~chosen)
            chosen[others[np.argsort(-row[others], kind="stable")[:wanted]]] = True
        return np.flatnonzero(chosen)

    def _with_gradient(
        self, theta: Array, measure: Callable[[Precision], tuple[float, LowerTriangle]]
    ) -> tuple[float, Array]:
        """A function of G and its gradient: one inverse, one contraction over all pairs."""
        kernel, variance = self.at(theta)
        noise = self.noise.diagonal(variance)
        precision = Precision.of(self._gram(kernel), noise, self.targets)
        value, slope = measure(precision)
        traces = slope.matrix.diagonal().copy()
        # Jitter is a fraction of the mean diagonal, and moves with it.
        np.fill_diagonal(slope.matrix, traces + precision.jitter.fraction * traces.mean())
        gradient = np.zeros(len(theta))
        size = len(theta) - self.noise.learned
        if size:
            gradient[:size] = kernel.gram(self.points).gradient(slope)
        copies, copies_slope = self.noise.copies(variance)
        if self.noise.learned:
            gradient[-1] = np.sum(traces * self.noise.diagonal(variance))
            gradient[-1] += self.targets.shape[1] * copies_slope
        return value + self.targets.shape[1] * copies, gradient
