"""Features through which a Gaussian process sees data, and the bound computed from them.

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

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.blocked import multiply
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.rows.rows import InMemory, RowBlock, as_float64
from mercer.sampling import blocks
from mercer.solvers.likelihood.variational_bound import Elbo, ElboGradient, ElboSums
from mercer.solvers.protocol import RidgeTask

Array = NDArray[np.floating[Any]]


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

    def prior(self, points: Points, features: Array) -> Array:
        """The matrix k(x, z), for the caller to overwrite."""
        if self.complete:
            return np.asarray(features @ features.T)
        return np.asarray(self.kernel(points).astype(np.float64, copy=False))


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """A block of rows: features, diagonal of the kernel, noise and targets."""

    rows: slice  # which rows
    features: Array  # (b, r): F
    diagonal: Array  # (b,): the values k(x, x)
    noise: Array  # (b,): the variances of the noise
    targets: Array  # (b, t)
    constant: bool = False  # whether the mean is an unknown constant, and not zero

    def sums(self) -> ElboSums:
        """The sums over this block."""
        return ElboSums.of(
            self.features, self.diagonal, self.noise, self.targets, constant=self.constant
        )

    def gradient(self, elbo: ElboGradient) -> Array:
        """The derivative of the bound in the kernel values of this block with the landmarks."""
        gradient = multiply(self.features, elbo.inner)
        gradient += self.targets @ elbo.dual.T + elbo.offset
        gradient /= self.noise[:, None]
        return gradient


def feature_rows(view: FeatureView, data: ExactObjective) -> Iterator[FeatureRows]:
    """Features of the rows, block by block."""
    noise = np.broadcast_to(data.noise.diagonal(), (len(data.points),))
    for rows in blocks(len(data.points), view.width):
        points = data.points[rows]
        features = view(points)
        diagonal = view.diagonal(points, features)
        targets = data.targets[rows]
        yield FeatureRows(rows, features, diagonal, noise[rows], targets, data.constant)


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
