"""Sums over rows that solvers ask for: objects, so that they can be sent to where the rows are.

Each takes a `RowBlock` and returns something that can be added to what another part gives. Within a
part, kernel values and features are made in blocks of rows of bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.moments import Block, Moments
from mercer.rows.rows import RowBlock, Sums, as_float64
from mercer.sampling import Draw, blocks

Array = NDArray[np.floating[Any]]

#: ``features(points)`` returns phi, of shape (n, p), dense or sparse; it may be overwritten.
Features = Callable[[Points], Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """Kernel values with some points, as features."""

    kernel: Kernel
    points: Points

    def __call__(self, points: Points) -> Array:
        """Rows of values."""
        return self.kernel(points, self.points)


@dataclass(frozen=True, eq=False)
class WhitenedColumns:
    """Kernel values with some points, in coordinates in which the penalty is the identity."""

    columns: Columns  # the kernel values
    basis: Array  # (m, k): T with T' k(Z, Z) T = I

    def __call__(self, points: Points) -> Array:
        """Rows of values."""
        found: Array = self.columns(points) @ self.basis
        return found


def among(kernel: Kernel, points: Points) -> Array:
    """The matrix k(Z, Z) of landmarks in double precision: its small eigenvalues count."""
    wide = as_float64(kernel, points)
    # Rows of a given matrix are not a square matrix by themselves.
    square = kernel(wide, wide) if kernel.input_tags()["pairwise"] else kernel(wide)
    return square.astype(np.float64, copy=False)


def gram_among(kernel: Kernel, points: Points) -> Gram:
    """The lazy matrix k(Z, Z) of landmarks, for derivatives in the parameters of the kernel."""
    given = kernel.input_tags()["pairwise"]
    return kernel.gram(points, points) if given else kernel.gram(points)


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
    width: int  # how many there are
    origin: Array  # (t,): what targets are measured from
    kernel: Kernel | None = None  # whose trace to add up

    def __call__(self, part: RowBlock) -> Sums:
        """`Moments`, and the sum of w_i k(x_i, x_i)."""
        blocks = blocks_of(part, self.features, self.width)
        trace = 0.0 if self.kernel is None else float(part.mass @ self.kernel.diag(part.points))
        return Sums((Moments.of(blocks, self.width, self.origin), trace))


@dataclass(frozen=True, eq=False)
class NormalProduct:
    """C'WC c, with C the kernel of rows with points, each pair evaluated once if no weights are."""

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
    """C'W (C c - middle) above w'(C c - middle), with C the kernel of rows with points."""

    kernel: Kernel
    points: Points
    coefficients: Array  # (m, t): the columns c
    middle: Array  # (t,): about the means of C c over all rows

    def __call__(self, part: RowBlock) -> Array:
        """An array of shape (m + 1, t)."""
        gram = self.kernel.gram(part.points, self.points)
        values = np.asarray(gram @ self.coefficients, dtype=np.float64)
        values = part.mass[:, None] * (values - self.middle)
        product = np.asarray(gram.T @ values, dtype=np.float64)
        return np.vstack([product, values.sum(axis=0)])


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """C'w and C'W (y - origin), side by side."""

    kernel: Kernel
    points: Points
    origin: Array  # (t,): what targets are measured from

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
class WeightedDraw:
    """Rows that are drawn in proportion to their weights."""

    size: int  # how many
    seed: int

    def __call__(self, part: RowBlock) -> Draw:
        """The draw among the rows of a part."""
        return Draw.of(part.mass, self.size, self.seed, part.start)


@dataclass(frozen=True)
class CountedDraw:
    """Rows that are drawn alike, among those of positive weight."""

    size: int  # how many
    seed: int

    def __call__(self, part: RowBlock) -> Draw:
        """The draw among the rows of a part."""
        counted = (part.mass > 0).astype(np.float64)
        return Draw.of(counted, self.size, self.seed, part.start)
