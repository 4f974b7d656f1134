"""Features through which a Gaussian process sees data: those of landmarks, or explicit ones.

Inner products of features are kernel values, or the part of them that landmarks carry. All that is
computed from features is the same whichever they are: sums over rows, and what a posterior says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.rows.rows import InMemory, RowBlock
from mercer.rows.sums import among
from mercer.solvers.kernel_features import KernelFeatures
from mercer.solvers.likelihood.variational_bound import BoundSlopes, BoundSums, LandmarkRoot
from mercer.solvers.protocol import RidgeTask

Array = NDArray[np.floating[Any]]

# Bytes of features that are in memory at a time.
_BLOCK_BYTES = 2**24


class Seen(Protocol):
    """Features of any points, and the kernel that they are a part of."""

    @property
    def width(self) -> int:
        """How many features there are."""

    def __call__(self, points: Points) -> Array:
        """The features phi, of shape (n, r), in float64."""
        ...

    def diagonal(self, points: Points, features: Array) -> Array:
        """The values k(x, x)."""
        ...

    def prior(self, points: Points, features: Array) -> Array:
        """The matrix k(x, z), for the caller to overwrite."""
        ...


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """Kernel values with landmarks, whitened: phi(x)' phi(z) is what they carry of k(x, z)."""

    kernel: Kernel
    landmarks: Points
    root: LandmarkRoot  # the triangle of their matrix

    @classmethod
    def of(cls, kernel: Kernel, landmarks: Points, some: Points) -> LandmarkFeatures:
        """Factorise the matrix of the landmarks, in the precision of values with some rows."""
        computed = kernel.gram(some, landmarks).dtype
        root = LandmarkRoot.of(among(kernel, landmarks), float(np.finfo(computed).eps))
        return cls(kernel, landmarks, root)

    @property
    def width(self) -> int:
        """How many landmarks there are."""
        return len(self.landmarks)

    def __call__(self, points: Points) -> Array:
        """The whitened features."""
        cross = self.kernel(points, self.landmarks).astype(np.float64, copy=False)
        return self.root.whitened(cross)

    def diagonal(self, points: Points, features: Array) -> Array:
        """The values k(x, x), of which features carry a part."""
        found: Array = self.kernel.diag(points).astype(np.float64, copy=False)
        return found

    def prior(self, points: Points, features: Array) -> Array:
        """The matrix k(x, z)."""
        found: Array = self.kernel(points).astype(np.float64, copy=False)
        return found


@dataclass(frozen=True, eq=False)
class ExplicitFeatures:
    """Features phi with k(x, z) = phi(x)' phi(z) on the training rows."""

    kernel: Kernel
    given: KernelFeatures  # what makes them, and how near their products are to the kernel
    # whether they are all features of other rows too. Strings may have some that do not occur in
    # training: these are a part of k(x, x), and not of values with training rows
    complete: bool

    @property
    def width(self) -> int:
        """How many there are."""
        return self.given.width

    def __call__(self, points: Points) -> Array:
        """The features."""
        found = self.given.features(doubled(self.kernel, points))
        dense = found.toarray() if sp.issparse(found) else found
        return np.ascontiguousarray(dense, dtype=np.float64)

    def diagonal(self, points: Points, features: Array) -> Array:
        """The values k(x, x)."""
        if self.complete:
            return np.asarray(np.einsum("ij,ij->i", features, features))
        found: Array = self.kernel.diag(points).astype(np.float64, copy=False)
        return found

    def prior(self, points: Points, features: Array) -> Array:
        """The matrix k(x, z)."""
        if self.complete:
            return np.asarray(features @ features.T)
        found: Array = self.kernel(points).astype(np.float64, copy=False)
        return found


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Some rows: their features, and the rest of what the bound needs."""

    rows: slice  # which rows
    features: Array  # (b, r): F
    diagonal: Array  # (b,): the values k(x, x)
    noise: Array  # (b,): the variances of the noise
    targets: Array  # (b, t): the targets

    def sums(self) -> BoundSums:
        """What they add to the bound."""
        return BoundSums.of(self.features, self.diagonal, self.noise, self.targets)

    def slope(self, slopes: BoundSlopes) -> Array:
        """The derivative of the bound in their kernel values with the landmarks."""
        found: Array = self.features @ slopes.inner
        found += self.targets @ slopes.dual.T
        found /= self.noise[:, None]
        return found


def feature_rows(seen: Seen, data: GaussianEvidence, variance: float) -> Iterator[FeatureRows]:
    """Features of blocks of rows, one after another."""
    noise = np.broadcast_to(data.noise.diagonal(variance), (len(data.points),))
    for rows in blocks(len(data.points), seen.width):
        points = data.points[rows]
        features = seen(points)
        diagonal = seen.diagonal(points, features)
        yield FeatureRows(rows, features, diagonal, noise[rows], data.targets[rows])


def blocks(n: int, m: int) -> Iterator[slice]:
    """Rows, so many at a time that m features of them stay small."""
    step = max(256, _BLOCK_BYTES // (8 * max(1, m)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def doubled(kernel: Kernel, points: Points) -> Points:
    """The same points in float64: what is left out is a matter of the last digits."""
    rows = points.data
    single = isinstance(rows, np.ndarray) and rows.dtype == np.float32
    if not single or kernel.input_tags()["pairwise"]:
        return points
    return kernel.prepare(rows.astype(np.float64))


def ridge_task(data: GaussianEvidence, owner: str) -> RidgeTask:
    """The ridge task that has the same mean: noise s^2 f_i is alpha = s^2, weight 1 / f_i."""
    rows = InMemory(RowBlock(data.points, data.targets, _precisions(data)))
    alpha = np.array([data.noise.variance])
    return RidgeTask(owner, data.kernel, rows, False, alpha, ridge="noise")


def _precisions(data: GaussianEvidence) -> Array | None:
    """The inverse variances of the rows' noise, relative to s^2; None if all are 1."""
    noise = data.noise
    if noise.factors is None and noise.weights is None:
        return None
    shape = (len(data.points),)
    return np.asarray(noise.variance / np.broadcast_to(noise.diagonal(noise.variance), shape))
