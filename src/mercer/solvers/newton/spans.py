"""Spaces of functions in coordinates v in which the squared norm of a function is |v|^2.

A function of a span is f(x) = r(x)'c + b. The rows r(x) are kernel values with landmarks, whitened
or not (`LandmarkSpan`), or explicit features with k(x, z) = r(x)'r(z) (`FeatureSpan`). Where rows
are whitened or explicit features, the coefficients c are the coordinates v.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.whitening import Whitening
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features

Array = NDArray[np.floating[Any]]
Rows = slice | NDArray[np.intp]

# Bytes of rows that are computed at a time.
_BLOCK_BYTES = 2**22
# Smallest number of columns that a block of rows is sized for.
_LEAST_WIDTH = 64
# Smallest number of sparse rows at a time.
_SPARSE_ROWS = 1024


class Span(ABC):
    """A space of functions.

    It holds arrays, kernels and maps alone, so that it can be sent to where the rows are.
    """

    #: Whether coefficients of rows are the coordinates.
    whitened: bool = True

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def max_norm(self) -> float:
        """About the largest norm of a row in coordinates."""

    @property
    def whitening_condition(self) -> float:
        """About the factor by which rounding of gradients grows in coordinates."""
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

    def to_coordinates(self, coef: Array) -> Array:
        """The coordinates v of coefficients c."""
        return coef

    def gradient_to_coordinates(self, gradient: Array) -> Array:
        """The gradient in v, from that in c."""
        return gradient

    def block_rows(self, width: int = 0) -> int:
        """Number of rows to take at a time, if each needs `width` numbers beside its own."""
        return max(256, _BLOCK_BYTES // (8 * max(_LEAST_WIDTH, width, len(self))))

    def rows(
        self, part: RowBlock, stride: int = 1, *, whitened: bool | None = None, width: int = 0
    ) -> Iterator[tuple[Any, Array, Array]]:
        """Blocks of every `stride`-th row of positive weight, with targets and weights.

        Blocks are sized for `width` further numbers per row.
        """
        wanted = self.whitened if whitened is None else whitened
        for some in used_rows(part, stride, self.block_rows(width)):
            weights = np.asarray(part.mass[some], dtype=np.float64)
            rows = np.empty((len(weights), 0))
            if len(self):
                rows = self._rows_at(part, some, whitened=wanted)
            yield rows, part.targets[some], weights

    def _rows_at(self, part: RowBlock, some: Rows, *, whitened: bool) -> Any:
        """Some rows of a block, which must not be written to."""
        return self._features(part.points[some], whitened=whitened)


class Constants(Span):
    """The constant functions alone."""

    max_norm = 0.0

    def __len__(self) -> int:
        return 0

    def diag(self, points: Points) -> Array:
        """Zeros."""
        return np.zeros(len(points))

    def _features(self, points: Points, *, whitened: bool) -> Array:
        return np.empty((len(points), 0))


@dataclass(frozen=True, eq=False)
class LandmarkSpan(Span):
    """Functions over landmarks.

    With R'R = k(Z, Z) the coordinates are v = R c. Whitened rows k(x, Z) R^-1 cost m^2 operations
    per row. Rows k(x, Z) are cheaper and lose digits: c is long where R is nearly singular.
    """

    kernel: Kernel  # the kernel, resolved
    points: Points  # the m landmarks, linearly independent
    upper: Array  # (m, m): the triangle R, in float64
    whitened: bool = True  # whether rows are whitened

    def __len__(self) -> int:
        return len(self.upper)

    def landmark_coef(self, coordinates: Array) -> Array:
        """The coefficients R^-1 v of the landmarks."""
        return self._triangular(coordinates, "N")

    def to_coefficients(self, coordinates: Array) -> Array:
        """The coefficients of rows: v itself if they are whitened, otherwise R^-1 v."""
        return coordinates if self.whitened else self.landmark_coef(coordinates)

    def to_coordinates(self, coef: Array) -> Array:
        """The coordinates v of coefficients of rows."""
        return coef if self.whitened else self.upper @ coef

    def gradient_to_coordinates(self, gradient: Array) -> Array:
        """The gradient in v, from that in the coefficients of rows."""
        return gradient if self.whitened else self._triangular(gradient, "T")

    def diag(self, points: Points) -> Array:
        """Values k(x, x), which the landmarks may explain in part."""
        return np.asarray(self.kernel.diag(points))

    @property
    def max_norm(self) -> float:
        """The square root of the largest k(z, z)."""
        return float(np.abs(self.upper[:1, :1]).sum())

    @property
    def whitening_condition(self) -> float:
        """About the condition number of R, if rows are not whitened."""
        if self.whitened or not len(self):
            return 1.0
        trcon = get_lapack_funcs("trcon", (self.upper,))
        reciprocal_condition = float(trcon(self.upper, norm="1")[0])
        norm = float(np.abs(self.upper).sum(axis=0).max())
        return self.max_norm / max(reciprocal_condition * norm, np.finfo(np.float64).tiny)

    def _features(self, points: Points, *, whitened: bool) -> Array:
        cross = self.kernel(points, self.points).astype(np.float64, copy=False)
        if not (whitened and cross.size):
            return cross
        return Whitening(np.arange(len(self)), self.upper).apply(cross)

    def _triangular(self, columns: Array, trans: str) -> Array:
        if not columns.size:
            return columns.copy()
        return np.asarray(solve_triangular(self.upper, columns, trans=trans, check_finite=False))


@dataclass(frozen=True, eq=False)
class StoredLandmarkSpan(LandmarkSpan):
    """Functions over landmarks with the whitened rows of all data in memory."""

    stored: Array = field(kw_only=True)  # (n, m): the whitened rows of the only block

    @classmethod
    def compute(cls, span: LandmarkSpan, part: RowBlock) -> StoredLandmarkSpan:
        """Compute the whitened rows of a block."""
        stored, step = np.empty((len(part), len(span))), span.block_rows()
        for start in range(0, len(part), step):
            some = slice(start, start + step)
            stored[some] = span._features(part.points[some], whitened=True)
        return cls(span.kernel, span.points, span.upper, stored=stored)

    def _rows_at(self, part: RowBlock, some: Rows, *, whitened: bool) -> Array:
        return self.stored[some]


@dataclass(frozen=True, eq=False)
class FeatureSpan(Span):
    """Functions of explicit features: f(x) = (phi(x) - o)'v + b.

    An origin o changes only the intercept, which is not penalised. It saves digits of features that
    are far from zero.
    """

    features: Features  # ``features(points)`` returns phi, dense or sparse; it may be overwritten
    width: int  # the number p of features
    origin: Array | None = None  # (p,): the o of dense features; zero if it is not given
    max_norm: float = 0.0  # the largest norm of phi(x) - o
    sparse: bool = False  # whether features are sparse

    def __len__(self) -> int:
        return self.width

    def block_rows(self, width: int = 0) -> int:
        """Number of rows to take at a time: more sparse rows, as sums over them are dense."""
        return max(super().block_rows(width), _SPARSE_ROWS if self.sparse else 0)

    def diag(self, points: Points) -> Array:
        """Squared norms of phi(x) - o."""
        return squared_norms(self._features(points, whitened=True))

    def _features(self, points: Points, *, whitened: bool) -> Any:
        features = self.features(points).astype(np.float64, copy=False)
        if self.origin is not None:
            features -= self.origin
        return sp.csr_array(features) if sp.issparse(features) else features


def squared_norms(rows: Any) -> Array:
    """The sums of squares of rows; infinite if they overflow."""
    with np.errstate(over="ignore"):
        if sp.issparse(rows):
            return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", rows, rows))


def used_rows(part: RowBlock, stride: int, step: int) -> Iterator[Rows]:
    """Every `stride`-th row of positive weight, in blocks of at most `step` rows."""
    everything = part.weights is None or part.weights.all()
    if everything and stride == 1:
        for start in range(0, len(part), step):
            yield slice(start, min(start + step, len(part)))
        return
    rows = np.arange(len(part)) if everything else np.flatnonzero(part.mass)
    rows = _sample(stride, rows, part.start)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _sample(stride: int, rows: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """One of every `stride` rows at random, as rows may alternate between several sources."""
    if stride == 1:
        return rows
    firsts = np.arange(0, len(rows), stride)
    sizes = np.minimum(stride, len(rows) - firsts)
    sample: NDArray[np.intp] = rows[firsts + np.random.default_rng(seed).integers(sizes)]
    return sample
