"""Sums over rows, as objects that can be sent to the workers that hold the rows.

Each maps a `RowBlock` to a term that can be added to those of other blocks. Within a block of rows,
kernel values and features are computed for a bounded number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.moments import Block, Moments
from mercer.rows.rows import RowBlock, Sums, as_float64
from mercer.sampling import Draw, blocks

#: ``features(points)`` returns a new array phi of shape (n, p), dense or sparse.
Features = Callable[[Points], Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """Kernel values with some points, as features."""

    kernel: Kernel
    points: Points

    def __call__(self, points: Points) -> Array:
        """Rows of values."""
        return self.kernel(points, self.points)


def among(kernel: Kernel, points: Points) -> Array:
    """The matrix k(Z, Z) of landmarks, in double precision because small eigenvalues matter."""
    wide = as_float64(kernel, points)
    # Rows of a precomputed matrix are not a square matrix by themselves.
    square = kernel(wide, wide) if kernel.input_tags()["pairwise"] else kernel(wide)
    return square.astype(np.float64, copy=False)


def gram_among(kernel: Kernel, points: Points) -> Gram:
    """The lazy matrix k(Z, Z) of landmarks, for derivatives in the parameters of the kernel."""
    precomputed = kernel.input_tags()["pairwise"]
    return kernel.gram(points, points) if precomputed else kernel.gram(points)


def blocks_of(part: RowBlock, features: Features, width: int) -> Iterator[Block]:
    """Features, targets and weights of a part, in blocks of rows."""
    for rows in blocks(len(part), width):
        phi = features(part.points[rows])
        weights = None if part.weights is None else part.weights[rows]
        yield phi.toarray() if sp.issparse(phi) else phi, part.targets[rows], weights


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Moments of features and targets, and the trace of the kernel."""

    features: Features
    width: int  # number of features
    origin: Array  # (t,): subtracted from targets
    kernel: Kernel | None = None  # the kernel whose trace is summed

    def __call__(self, part: RowBlock) -> Sums:
        """`Moments`, and the sum of w_i k(x_i, x_i)."""
        blocks = blocks_of(part, self.features, self.width)
        trace = 0.0 if self.kernel is None else float(part.mass @ self.kernel.diag(part.points))
        return Sums((Moments.of(blocks, self.width, self.origin), trace))


@dataclass(frozen=True, eq=False)
class NormalProduct:
    """C'WC c, with C = k(rows, points); without weights each pair is evaluated once."""

    kernel: Kernel
    points: Points
    coefficients: Array  # (m, t): the columns c

    def __call__(self, part: RowBlock) -> Array:
        """The product, of shape (m, t)."""
        gram = self.kernel.gram(part.points, self.points)
        if part.weights is None:
            return np.asarray(gram.normal_matmat(self.coefficients), dtype=np.float64)
        inner = part.weights[:, None] * np.asarray(gram @ self.coefficients)
        return np.asarray(gram.T @ inner, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CentredProduct:
    """C'W (C c - middle), and below it w'(C c - middle), with C = k(rows, points)."""

    kernel: Kernel
    points: Points
    coefficients: Array  # (m, t): the columns c
    middle: Array  # (t,): approximate means of C c over all rows

    def __call__(self, part: RowBlock) -> Array:
        """An array of shape (m + 1, t)."""
        gram = self.kernel.gram(part.points, self.points)
        values = np.asarray(gram @ self.coefficients, dtype=np.float64)
        values = part.mass[:, None] * (values - self.middle)
        product = np.asarray(gram.T @ values, dtype=np.float64)
        return np.vstack([product, values.sum(axis=0)])


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """C'w and C'W (y - origin), as columns of one array."""

    kernel: Kernel
    points: Points
    origin: Array  # (t,): subtracted from targets

    def __call__(self, part: RowBlock) -> Array:
        """An array of shape (m, 1 + t)."""
        mass = part.mass[:, None]
        right = np.column_stack([mass, mass * (part.targets - self.origin)])
        gram = self.kernel.gram(part.points, self.points)
        return np.asarray(gram.T @ right, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Trace:
    """The sum of w_i k(x_i, x_i)."""

    kernel: Kernel

    def __call__(self, part: RowBlock) -> float:
        """The sum."""
        return float(part.mass @ self.kernel.diag(part.points))


@dataclass(frozen=True)
class RowDraw:
    """Rows drawn in proportion to their weights, or equally among those of positive weight."""

    size: int  # number of rows
    seed: int
    equal: bool = False

    def __call__(self, part: RowBlock) -> Draw:
        """The draw among the rows of a part."""
        mass = (part.mass > 0).astype(np.float64) if self.equal else part.mass
        return Draw.of(mass, self.size, self.seed, part.start)
