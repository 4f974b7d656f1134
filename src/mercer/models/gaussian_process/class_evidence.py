"""The evidence that labels give for hyper-parameters: Laplace's approximation of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.parameter_ranges import Variance
from mercer.models.gaussian_process.search_space import SearchSpace
from mercer.solvers.likelihood import laplace
from mercer.solvers.likelihood.laplace import Posterior

Array = NDArray[np.floating[Any]]

# Classes that can be separated are the likelier the steeper the functions, without end. With
# deviations of 300, probabilities at the mode are 0 or 1, and Laplace's Gaussian is none any more.
_LOGITS = Variance(usual=1.0, largest=1e5, open_above=True)


class ClassificationEvidence:
    """Labels, points and kernel, as a function of the kernel's free parameters.

    Each mode is searched from the one before, which is close to it in all but the first steps of a
    search.
    """

    def __init__(
        self, kernel: Kernel, points: Points, targets: Array, weights: Array | None
    ) -> None:
        self.kernel, self.points, self.targets, self.weights = kernel, points, targets, weights
        self._latent: Array | None = None

    @property
    def theta(self) -> Array:
        """The parameters to start from."""
        return self.kernel.theta

    @cached_property
    def space(self) -> SearchSpace:
        """The free parameters; latent functions are on the scale of logits, about one."""
        return SearchSpace.of(self.kernel, self.points, _LOGITS)

    def gram(self, kernel: Kernel) -> Array:
        """The matrix in float64: differences of likelihoods are too small for float32."""
        return np.asarray(kernel(self.points), dtype=np.float64)

    def posterior(self, gram: Array) -> Posterior:
        """The latent functions under a kernel."""
        found = laplace.fit(gram, self.targets, self.weights, start=self._latent)
        self._latent = found.latent
        return found

    def with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log evidence and its gradient: one contraction for all parameters."""
        kernel = self.kernel.with_theta(theta)
        gram = self.gram(kernel)
        posterior = self.posterior(gram)
        if not posterior.converged:
            return -np.inf, np.zeros(len(theta))
        if not len(theta):
            return posterior.log_evidence, np.empty(0)
        sensitivity = posterior.sensitivity(gram)
        return posterior.log_evidence, kernel.gram(self.points).gradient(sensitivity)
