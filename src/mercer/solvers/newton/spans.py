"""Functions that a machine chooses from, in coordinates v in which their squared norm is |v|^2.

A function of a span is f(x) = r(x)'v + b. The rows r(x) are kernel values with landmarks, turned to
such coordinates (`LandmarkSpan`), or explicit features with k(x, z) = r(x)'r(z), which are in them
already (`FeatureSpan`). What sums over rows and Newton's method ask of either is the same.
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
Some = slice | NDArray[np.intp]

# Values of rows that are in memory at a time.
_BLOCK_BYTES = 2**22
# Numbers for each row beside them.
_LEAST_WIDTH = 64
# Sparse rows at a time, at least.
_SPARSE_ROWS = 1024


class Span(ABC):
    """Functions, and coordinates v in which their squared norm is |v|^2.

    They hold arrays, kernels and maps alone, so that they can be sent to where the rows are.
    """

    #: Whether rows are given in these coordinates, or as they are.
    whitened: bool = True

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def reach(self) -> float:
        """The length of the longest rows in these coordinates, about."""

    @property
    def stretch(self) -> float:
        """By how much rounding in sums over rows grows on the way to coordinates, about."""
        return 1.0

    @abstractmethod
    def diag(self, points: Points) -> Array:
        """Values k(x, x)."""

    @abstractmethod
    def _rows_of(self, points: Points, *, whitened: bool) -> Any:
        """The rows of points, in float64, dense or sparse."""

    def outward(self, coordinates: Array) -> Array:
        """What rows are multiplied with in place of v."""
        return coordinates

    def inward(self, sums: Array) -> Array:
        """What a derivative in that is in v."""
        return sums

    def coordinates(self, outward: Array) -> Array:
        """The v of what rows are multiplied with."""
        return outward

    def step(self, width: int = 0) -> int:
        """How many rows to take at a time, with so many numbers for each beside its own."""
        return max(256, _BLOCK_BYTES // (8 * max(_LEAST_WIDTH, width, len(self))))

    def rows(
        self, part: RowBlock, stride: int = 1, *, whitened: bool | None = None, width: int = 0
    ) -> Iterator[tuple[Any, Array, Array]]:
        """One in `stride` of the rows that count, in coordinates or as they are; targets, weights.

        So few rows at a time that `width` numbers for each of them are not too many.
        """
        wanted = self.whitened if whitened is None else whitened
        for some in counted(part, stride, self.step(width)):
            mass = np.asarray(part.mass[some], dtype=np.float64)
            found = np.empty((len(mass), 0))
            if len(self):
                found = self._rows_at(part, some, whitened=wanted)
            yield found, part.targets[some], mass

    def _rows_at(self, part: RowBlock, some: Some, *, whitened: bool) -> Any:
        """The rows at some places of a part, which are not to be written to."""
        return self._rows_of(part.points[some], whitened=whitened)


class Constants(Span):
    """No functions but constants."""

    reach = 0.0

    def __len__(self) -> int:
        return 0

    def diag(self, points: Points) -> Array:
        """Zeros."""
        return np.zeros(len(points))

    def _rows_of(self, points: Points, *, whitened: bool) -> Array:
        return np.empty((len(points), 0))


@dataclass(frozen=True, eq=False)
class LandmarkSpan(Span):
    """Functions over landmarks.

    With R'R = k(Z, Z) the coordinates are v = R c, and the features of a row, whose product with v
    is f(x) - b, are k(x, Z) R^-1. They cost m^2 operations for a row. Where that is too much, rows
    are taken as they are, k(x, Z) c, at the price of digits: c is long where R is nearly singular.
    """

    kernel: Kernel  # the kernel, resolved
    points: Points  # the m landmarks, none of which the others make superfluous
    upper: Array  # (m, m): the triangle R, in float64
    whitened: bool = True  # whether rows are given as features, or as they are

    def __len__(self) -> int:
        return len(self.upper)

    def coefficients(self, coordinates: Array) -> Array:
        """The coefficients c = R^-1 v."""
        return self._triangular(coordinates, "N")

    def outward(self, coordinates: Array) -> Array:
        """What rows are multiplied with: v or c."""
        return coordinates if self.whitened else self.coefficients(coordinates)

    def inward(self, sums: Array) -> Array:
        """What a derivative in that is in v."""
        return sums if self.whitened else self._triangular(sums, "T")

    def coordinates(self, outward: Array) -> Array:
        """The v of v or c."""
        return outward if self.whitened else self.upper @ outward

    def diag(self, points: Points) -> Array:
        """Values k(x, x), of which the landmarks need not explain all."""
        return np.asarray(self.kernel.diag(points))

    @property
    def reach(self) -> float:
        """The square root of the largest k(z, z)."""
        return float(np.abs(self.upper[:1, :1]).sum())

    @property
    def stretch(self) -> float:
        """By how much rounding in sums over rows grows on the way to coordinates, about."""
        if self.whitened or not len(self):
            return 1.0
        trcon = get_lapack_funcs("trcon", (self.upper,))
        share = float(trcon(self.upper, norm="1")[0])
        largest = float(np.abs(self.upper).sum(axis=0).max())
        return self.reach / max(share * largest, np.finfo(np.float64).tiny)

    def _rows_of(self, points: Points, *, whitened: bool) -> Array:
        cross = self.kernel(points, self.points).astype(np.float64, copy=False)
        if not (whitened and cross.size):
            return cross
        return Whitening(np.arange(len(self)), self.upper).apply(cross)

    def _triangular(self, columns: Array, trans: str) -> Array:
        if not columns.size:
            return columns.copy()
        found = solve_triangular(self.upper, columns, trans=trans, check_finite=False)
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class HeldSpan(LandmarkSpan):
    """Functions over landmarks whose features are held for all rows: each pass reads them again."""

    held: Array = field(kw_only=True)  # (n, m): the features of the one part that there is

    @classmethod
    def of(cls, span: LandmarkSpan, part: RowBlock) -> HeldSpan:
        """The same functions, with the features of the rows of a part."""
        held, step = np.empty((len(part), len(span))), span.step()
        for start in range(0, len(part), step):
            some = slice(start, start + step)
            held[some] = span._rows_of(part.points[some], whitened=True)
        return cls(span.kernel, span.points, span.upper, held=held)

    def _rows_at(self, part: RowBlock, some: Some, *, whitened: bool) -> Array:
        return self.held[some]


@dataclass(frozen=True, eq=False)
class FeatureSpan(Span):
    """Functions of explicit features: f(x) = (phi(x) - o)'v + b.

    An origin o moves the constant alone, which is not penalised. Taken from features that are far
    from zero it leaves them more digits.
    """

    features: Features  # ``features(points)`` returns phi, dense or sparse; it may be overwritten
    width: int  # the number p of features
    origin: Array | None = None  # (p,): the o of dense features; zero if it is not given
    reach: float = 0.0  # the largest length of phi(x) - o
    sparse: bool = False  # whether they are sparse

    def __len__(self) -> int:
        return self.width

    def step(self, width: int = 0) -> int:
        """How many rows to take at a time: of sparse ones more, as sums over them are dense."""
        return max(super().step(width), _SPARSE_ROWS if self.sparse else 0)

    def diag(self, points: Points) -> Array:
        """Squared lengths of phi(x) - o."""
        return squared_lengths(self._rows_of(points, whitened=True))

    def _rows_of(self, points: Points, *, whitened: bool) -> Any:
        found = self.features(points).astype(np.float64, copy=False)
        if self.origin is not None:
            found -= self.origin
        return sp.csr_array(found) if sp.issparse(found) else found


def squared_lengths(rows: Any) -> Array:
    """The sums of squares of rows."""
    with np.errstate(over="ignore"):  # infinity is refused by those who ask
        if sp.issparse(rows):
            return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", rows, rows))


def counted(part: RowBlock, stride: int, step: int) -> Iterator[Some]:
    """One in `stride` of the rows of positive weight, so many at a time."""
    everything = part.weights is None or part.weights.all()
    if everything and stride == 1:
        for start in range(0, len(part), step):
            yield slice(start, min(start + step, len(part)))
        return
    rows = np.arange(len(part)) if everything else np.flatnonzero(part.mass)
    rows = _one_in(stride, rows, part.start)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _one_in(stride: int, rows: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """One of every `stride` rows, at random, as rows may come from several places in turn."""
    if stride == 1:
        return rows
    firsts = np.arange(0, len(rows), stride)
    sizes = np.minimum(stride, len(rows) - firsts)
    found: NDArray[np.intp] = rows[firsts + np.random.default_rng(seed).integers(sizes)]
    return found
