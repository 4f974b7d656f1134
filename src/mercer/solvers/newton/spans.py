"""Spaces of functions in coordinates v in which the squared norm of a function is |v|^2.

A function of a span is f(x) = r(x)'c + b. The rows r(x) are kernel values with landmarks, whitened
or not (`LandmarkSpan`), or explicit features with k(x, z) = r(x)'r(z) (`FeatureSpan`). For whitened
rows and explicit features, the coefficients c are the coordinates v.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from mercer.arrays import Array
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features
from mercer.sampling import blocks

Rows = slice | NDArray[np.intp]

# Size of a block of rows, in bytes.
_BLOCK_BYTES = 2**22
# Smallest number of columns that a block of rows is sized for.
_LEAST_WIDTH = 64
# Smallest number of sparse rows in a block.
_SPARSE_ROWS = 1024


class Span(ABC):
    """A space of functions.

    It holds only arrays, kernels and maps, so that it can be sent to workers that hold the rows.
    """

    #: Whether the coefficients c are the coordinates v.
    whitened: bool = True

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def max_norm(self) -> float:
        """An estimate of the norm of a large whitened row."""

    @property
    def whitening_condition(self) -> float:
        """An estimate of the factor by which `gradient_to_coordinates` magnifies rounding."""
        return 1.0

    @abstractmethod
    def diag(self, points: Points) -> Array:
        """Values k(x, x)."""

    @abstractmethod
    def _features(self, points: Points, *, whitened: bool) -> Any:
        """The rows r(x) of points, in float64, dense or sparse."""

    def to_coefficients(self, coordinates: Array) -> Array:
        """The coefficients c of coordinates v."""
        return coordinates

    def gradient_to_coordinates(self, gradient: Array) -> Array:
        """The gradient in v, from the gradient in c."""
        return gradient

    def block_rows(self, width: int = 0) -> int:
        """Number of rows per block, if each row needs `width` further numbers of work space."""
        return max(256, _BLOCK_BYTES // (8 * max(_LEAST_WIDTH, width, len(self))))

    def rows(
        self, part: RowBlock, stride: int = 1, *, whitened: bool | None = None, width: int = 0
    ) -> Iterator[tuple[Any, Array, Array]]:
        """Blocks of every `stride`-th row of positive weight, with targets and weights.

        Blocks are sized for `width` further numbers per row.
        """
        whitened = self.whitened if whitened is None else whitened
        for some in used_rows(part, stride, self.block_rows(width)):
            weights = np.asarray(part.mass[some], dtype=np.float64)
            yield self._rows_at(part, some, whitened=whitened), part.targets[some], weights

    def _rows_at(self, part: RowBlock, some: Rows, *, whitened: bool) -> Any:
        """Some rows of a block, as a read-only array."""
        return self._features(part.points[some], whitened=whitened)


@dataclass(frozen=True, eq=False)
class LandmarkSpan(Span):
    """Functions over landmarks.

    With R'R = k(Z, Z) the coordinates are v = R c. Whitened rows k(x, Z) R^-1 cost m^2 operations
    per row. Rows k(x, Z) are cheaper but lose digits: c is large if R is nearly singular.
    """

    landmarks: LandmarkFeatures  # whitened kernel values with m independent landmarks
    whitened: bool = True

    def __len__(self) -> int:
        return self.landmarks.width

    def to_coefficients(self, coordinates: Array) -> Array:
        """The coefficients c: v itself for whitened rows, otherwise R^-1 v."""
        return coordinates if self.whitened else self.landmarks.to_coefficients(coordinates)

    def gradient_to_coordinates(self, gradient: Array) -> Array:
        """The gradient in v: that in c for whitened rows, otherwise R^-T times it."""
        if self.whitened:
            return gradient
        return self.landmarks.whitening.gradient_to_coordinates(gradient)

    def diag(self, points: Points) -> Array:
        """Values k(x, x) of the kernel itself, not of its approximation by the landmarks."""
        return np.asarray(self.landmarks.kernel.diag(points))

    @property
    def max_norm(self) -> float:
        """The square root of the largest k(z, z)."""
        return float(np.abs(self.landmarks.root[0, 0]))

    @property
    def whitening_condition(self) -> float:
        """An estimate of the condition number of R; 1 for whitened rows."""
        if self.whitened:
            return 1.0
        upper = self.landmarks.root
        trcon = get_lapack_funcs("trcon", (upper,))
        reciprocal_condition = float(trcon(upper, norm="1")[0])
        norm = float(np.abs(upper).sum(axis=0).max())
        return self.max_norm / max(reciprocal_condition * norm, np.finfo(np.float64).tiny)

    def _features(self, points: Points, *, whitened: bool) -> Array:
        return self.landmarks.rows(points) if whitened else self.landmarks.cross(points)


@dataclass(frozen=True, eq=False)
class StoredLandmarkSpan(LandmarkSpan):
    """A landmark span that keeps the whitened rows of all data in memory."""

    stored: Array = field(kw_only=True)  # (n, m): the whitened rows of the only block

    @classmethod
    def compute(cls, span: LandmarkSpan, part: RowBlock) -> StoredLandmarkSpan:
        """Compute the whitened rows of a block."""
        stored = np.empty((len(part), len(span)))
        for some in blocks(len(part), step=span.block_rows()):
            stored[some] = span._features(part.points[some], whitened=True)
        return cls(span.landmarks, stored=stored)

    def _rows_at(self, part: RowBlock, some: Rows, *, whitened: bool) -> Array:
        return self.stored[some]


@dataclass(frozen=True, eq=False)
class FeatureSpan(Span):
    """Functions of explicit features: f(x) = (phi(x) - o)'v + b.

    The origin o changes only the intercept, which is not penalised. Subtracting it avoids
    cancellation for features that are far from zero.
    """

    features: Features  # ``features(points)`` returns a new array phi, dense or sparse
    width: int  # the number p of features
    origin: Array | None = None  # (p,): o, for dense features only; None for zero
    max_norm: float = 0.0  # the root mean square of the norms of phi(x) - o
    sparse: bool = False

    def __len__(self) -> int:
        return self.width

    def block_rows(self, width: int = 0) -> int:
        """Number of rows per block; blocks of sparse rows are longer, as their sums are dense."""
        return max(super().block_rows(width), _SPARSE_ROWS if self.sparse else 0)

    def diag(self, points: Points) -> Array:
        """Squared norms of phi(x) - o."""
        return squared_norms(self._features(points, whitened=True))

    def _features(self, points: Points, *, whitened: bool) -> Any:
        features = self.features(points).astype(np.float64, copy=False)
        if self.origin is not None:
            features -= self.origin
        return sp.csr_array(features) if sp.issparse(features) else features


def _no_features(points: Points) -> Array:
    return np.empty((len(points), 0))


#: The span of zero functions, for fits of the intercepts alone.
CONSTANTS = FeatureSpan(_no_features, 0)


def squared_norms(rows: Any) -> Array:
    """The squared norms of rows; infinite if they overflow."""
    with np.errstate(over="ignore"):
        if sp.issparse(rows):
            return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", rows, rows))


def used_rows(part: RowBlock, stride: int, step: int) -> Iterator[Rows]:
    """Every `stride`-th row of positive weight, in blocks of at most `step` rows."""
    all_positive = part.weights is None or part.weights.all()
    if all_positive and stride == 1:
        yield from blocks(len(part), step=step)
        return
    rows = np.arange(len(part)) if all_positive else np.flatnonzero(part.mass)
    rows = _sample(stride, rows, part.start)
    yield from (rows[some] for some in blocks(len(rows), step=step))


def _sample(stride: int, rows: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """One random row out of every `stride` rows, so that periodic data are sampled fairly."""
    if stride == 1:
        return rows
    firsts = np.arange(0, len(rows), stride)
    sizes = np.minimum(stride, len(rows) - firsts)
    sample: NDArray[np.intp] = rows[firsts + np.random.default_rng(seed).integers(sizes)]
    return sample
