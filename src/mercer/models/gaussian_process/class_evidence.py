"""Laplace's approximation of the marginal likelihood of labels, as an objective of a search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.search_space import SearchSpace, Variance
from mercer.parallel import cached_property
from mercer.solvers.likelihood import laplace
from mercer.solvers.likelihood.laplace import Posterior

Array = NDArray[np.floating[Any]]

# Classes that can be separated are the likelier the larger the latent functions. At a standard
# deviation of 300, probabilities at the mode are 0 or 1, and the Gaussian approximation fails.
_LOGITS = Variance(usual=1.0, largest=1e5, open_above=True)


class LaplaceObjective:
    """The approximate log marginal likelihood as a function of the kernel's free parameters.

    Newton's method starts at the mode of the evaluation before, which is close in all but the first
    steps of a search.
    """

    def __init__(
        self, kernel: Kernel, points: Points, targets: Array, weights: Array | None
    ) -> None:
        self.kernel, self.points, self.targets, self.weights = kernel, points, targets, weights
        self._latent: Array | None = None

    @property
    def theta(self) -> Array:
        """The parameters of this kernel."""
        return self.kernel.theta

    @cached_property
    def space(self) -> SearchSpace:
        """The free parameters; latent functions are on the scale of logits, about one."""
        return SearchSpace.of(self.kernel, self.points, _LOGITS)

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
