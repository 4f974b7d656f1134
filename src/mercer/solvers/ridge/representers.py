"""From coefficients of features to those of points: phi(x)'v = sum_i a_i k(x, x_i)."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import qr

from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import CountedDraw, Features, blocks_of
from mercer.sampling import uniform_rows
from mercer.solvers.protocol import FeatureFunction, RidgeTask

Array = NDArray[np.floating[Any]]

# Rows among which to look for some that span what all do, for each feature.
_SPANNING = 2
# A row is outside a span by so many times the rounding of independent rows.
_CLEAR = 16
# What is doubted, in units of what can be told from rounding.
_DOUBTFUL = 10
_DOUBT = (
    "the rows that are kept carry the function but for a share of {:.0e}, so that dual_coef_ and "
    "contributions differ from predict by as much; take a larger alpha, or fewer features"
)


def dual_from_residuals(part: RowBlock, values: Array, alpha: Any) -> Array:
    """The coefficients of all rows, from the condition for a minimum."""
    dual: Array = part.mass[:, None] * (part.targets - values) / alpha
    return dual


def of_path(
    task: RidgeTask, function: FeatureFunction, intercept: Array, alphas: Array, squares: Array
) -> Representers:
    """Points and their coefficients at each alpha: all rows, or few of those that are elsewhere."""
    if not isinstance(task.rows, InMemory):
        few = of_few(task.rows, function, squares)
        dual = np.moveaxis(few.dual.reshape(len(few.points), *intercept.shape), 0, 1)
        return replace(few, dual=dual)
    part = task.rows.part
    blocks = blocks_of(part, function.features, len(function.coef))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks])
    values = np.moveaxis(flat.reshape(task.n, *intercept.shape), 0, 1) + intercept[:, None]
    return Representers(part.points, dual_from_residuals(part, values, alphas[:, None, None]))


@dataclass(frozen=True, eq=False)
class Representers:
    """Rows that carry a function of features."""

    points: Points  # the rows
    dual: Array  # (m, t): their coefficients
    rows: NDArray[np.intp] | None = None  # (m,): which rows they are, where they are not all
    doubt: str = ""  # A clause for a warning; empty if they are the function up to rounding


def of_few(rows: RowSource, function: FeatureFunction, squares: Array) -> Representers:
    """Coefficients a of some rows with Phi'a = v, where not all rows can be kept.

    A sample of twice as many rows as there are features mostly spans what all rows do. Where it
    does not, as with a feature that is zero but for a few rows, a pass finds rows that lie outside
    its span.
    """
    lengths = np.sqrt(squares.diagonal() / rows.statistics.weight)
    features = _Scaled(function.features, np.where(lengths > 0, lengths, 1.0))
    numbers = _some_rows(rows, _SPANNING * len(lengths))
    points, chosen = rows.apply_to(numbers, _Spanning(features))
    few = _Few(features, points, numbers[chosen])
    dual, missing = few.solved(function.coef, squares)
    if missing > few.close:
        strays = rows.map_sum(_Strays(features, few.basis)).rows
        if len(strays):
            few = few.joined_by(rows.points_at(strays), strays)
            dual, missing = few.solved(function.coef, squares)
    doubt = _DOUBT.format(missing) if missing > _DOUBTFUL * few.close else ""
    return Representers(few.points, dual, few.rows, doubt)


def _some_rows(rows: RowSource, size: int) -> NDArray[np.intp]:
    """Rows at random among those that count, ascending."""
    count = rows.statistics.rows
    size = min(size, count)
    if count == len(rows):
        return np.sort(uniform_rows(count, size, np.random.RandomState(0)))
    return np.sort(rows.map_sum(CountedDraw(size, 0)).rows)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Features divided by their lengths: which rows are independent has no unit."""

    features: Features
    lengths: Array

    def __call__(self, points: Points) -> Array:
        phi = self.features(points)
        dense = phi.toarray() if sp.issparse(phi) else phi
        return np.asarray(dense / self.lengths.astype(dense.dtype))

    def rounding(self, phi: Array) -> float:
        """The share of the longest of independent rows below which others are rounding."""
        return len(self.lengths) * float(np.finfo(phi.dtype).eps)


@dataclass(frozen=True, eq=False)
class _Spanning:
    """Chooses rows that span what all rows of a part do, there where they are."""

    features: _Scaled

    def __call__(self, part: RowBlock) -> tuple[Points, NDArray[np.intp]]:
        phi = self.features(part.points)
        chosen = np.sort(_independent(phi, self.features.rounding(phi)))
        if not len(chosen):  # features that are 0 everywhere, and any row carries them
            chosen = np.zeros(1, np.intp)
        return part.points[chosen].detached(), chosen


@dataclass(frozen=True, eq=False)
class _Strayed:
    """Rows outside a span, by number, and what of their features is outside."""

    rows: NDArray[np.intp]
    outside: Array
    rounding: float

    def __add__(self, other: Self) -> _Strayed:
        """Independent ones among those of both."""
        rows = np.concatenate([self.rows, other.rows])
        return _Strayed(rows, np.concatenate([self.outside, other.outside]), self.rounding).least()

    def least(self) -> _Strayed:
        """No more than span the same."""
        chosen = np.sort(_independent(self.outside, self.rounding))
        return _Strayed(self.rows[chosen], self.outside[chosen], self.rounding)


@dataclass(frozen=True, eq=False)
class _Strays:
    """Finds rows of positive weight whose features are not in the span of a basis."""

    features: _Scaled
    basis: Array

    def __call__(self, part: RowBlock) -> _Strayed:
        start, parts = part.start, list[_Strayed]()
        for phi, _, weights in blocks_of(part, self.features, len(self.features.lengths)):
            parts.append(self._of(phi, weights, start))
            start += len(phi)
        return reduce(operator.add, parts)

    def _of(self, phi: Array, weights: Array | None, start: int) -> _Strayed:
        rounding = _CLEAR * self.features.rounding(phi)
        outside = phi - (phi @ self.basis.T) @ self.basis
        # Twice, as in Gram and Schmidt: the first time leaves rounding of what was taken away.
        outside -= (outside @ self.basis.T) @ self.basis
        stray = np.linalg.norm(outside, axis=1) > rounding * np.linalg.norm(phi, axis=1)
        if weights is not None:
            stray &= weights > 0
        (chosen,) = np.nonzero(stray)
        return _Strayed(start + chosen, outside[chosen].astype(np.float64), rounding).least()


@dataclass(frozen=True, eq=False)
class _Few:
    """Rows that are to carry a function."""

    features: _Scaled
    points: Points
    rows: NDArray[np.intp]

    @cached_property
    def phi(self) -> Array:
        return self.features(self.points)

    @property
    def basis(self) -> Array:
        """An orthonormal basis of what the rows span."""
        _, values, basis = np.linalg.svd(self.phi, full_matrices=False)
        found: Array = basis[values > self.features.rounding(self.phi) * values.max(initial=0.0)]
        return found

    def joined_by(self, points: Points, rows: NDArray[np.intp]) -> _Few:
        """These rows and others, in their order."""
        order = np.argsort(everything := np.concatenate([self.rows, rows]))
        joined = Points.concatenate([self.points, points])[order].detached()
        return _Few(self.features, joined, everything[order])

    @property
    def close(self) -> float:
        """The share of a function that sums of squares can tell from rounding."""
        return float(np.sqrt(np.finfo(self.phi.dtype).eps))

    def solved(self, coef: Array, squares: Array) -> tuple[Array, float]:
        """Coefficients of the rows for those of the features, and the share that they miss."""
        lengths = self.features.lengths[:, None]
        phi, wanted = self.phi.T.astype(np.float64), coef / lengths
        dual = np.linalg.lstsq(phi, wanted, rcond=self.features.rounding(self.phi))[0]
        missing = _root_sums(lengths * (phi @ dual - wanted), squares)
        sizes = _root_sums(coef, squares)
        return dual, float(np.max(missing / np.where(sizes > 0, sizes, 1.0), initial=0.0))


def _root_sums(coef: Array, squares: Array) -> Array:
    """The roots of the sums of squares, over all rows, of functions of the features."""
    found: Array = np.sqrt(np.maximum(np.einsum("ij,ij->j", coef, squares @ coef), 0.0))
    return found


def _independent(rows: Array, rounding: float) -> NDArray[np.intp]:
    """Rows that span what all do, the longest first, each outside the span of those before it."""
    if not len(rows):
        return np.empty(0, np.intp)
    upper, order = qr(rows.T, mode="r", pivoting=True)
    sizes = np.abs(upper.diagonal())
    return np.asarray(order[: np.count_nonzero(sizes > rounding * sizes[0])], dtype=np.intp)
