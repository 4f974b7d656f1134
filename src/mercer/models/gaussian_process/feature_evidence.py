"""The evidence that data give for hyper-parameters, seen through features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.features import FeatureRows, Seen, feature_rows
from mercer.models.gaussian_process.search_space import SearchSpace
from mercer.solvers.likelihood.variational_bound import Bound

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class FeatureEvidence(ABC):
    """A bound of the log marginal likelihood as a function of the free hyper-parameters.

    It stands where `GaussianEvidence` stands. A subclass says what the features are.
    """

    data: GaussianEvidence  # kernel, points, targets and noise

    @abstractmethod
    def seen(self, kernel: Kernel) -> Seen:
        """The features at a kernel."""

    @abstractmethod
    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound at theta and its gradient."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.data.kernel

    @property
    def space(self) -> SearchSpace:
        """The free hyper-parameters, their bounds and where they start."""
        return self.data.space

    @property
    def theta(self) -> Array:
        """The hyper-parameters of this kernel and noise."""
        return self.data.theta

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hyper-parameters."""
        return self.data.names

    def settled(self, theta: Array) -> Self:
        """The same with the kernel and the noise of theta."""
        kernel, variance = self.data.at(theta)
        noise = replace(self.data.noise, variance=variance)
        return replace(self, data=replace(self.data, kernel=kernel, noise=noise))

    def log_likelihood_at(self, theta: Array) -> float:
        """The bound at theta, every copy of a row counted."""
        return self.look_at(theta)[0]

    def look_at(self, theta: Array) -> tuple[float, float]:
        """The bound at theta, and about how far it is below the log marginal likelihood.

        For targets drawn from the process, the bound is below by the trace of D^-1 (K - Q) at
        most on average, and by half of that where it is small (Burt, Rasmussen and van der Wilk
        2020).
        """
        kernel, variance = self.data.at(theta)
        copies, _ = self.data.noise.copies(variance)
        t = int(self.data.targets.shape[1])
        bound = summed(feature_rows(self.seen(kernel), self.data, variance))
        return bound.value() + t * copies, t * bound.sums.left_out

    def rounding_at(self, theta: Array) -> float:
        """How far rounding may move the bound: it is a difference of sums of this size."""
        kernel, variance = self.data.at(theta)
        points, targets = self.data.points, self.data.targets
        noise = self.data.noise.diagonal(variance)
        prior = targets.shape[1] * kernel.diag(points).astype(np.float64, copy=False)
        energy = np.einsum("ij,ij->i", targets, targets)
        return float(np.finfo(np.float64).eps * np.sum((prior + energy) / noise))


def summed(rows: Iterable[FeatureRows]) -> Bound:
    """The bound of all rows, from blocks of them."""
    return Bound(reduce(add, (block.sums() for block in rows)))
