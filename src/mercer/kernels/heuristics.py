"""Parameters from data by rules of thumb.

Of a length-scale, ``"scale"`` makes the typical scaled distance about 2: for the RBF sqrt(d Var(X)
/ 2), which is scikit-learn's gamma = 1 / (d Var X). ``"columns"`` is the same rule with the
deviation of each column in the place of that of all, so that both agree on standardised data.
``"median"`` is the median distance between two points. The gain of an inner product is, by
``"scale"``, 1 / (d Var X). The weight of a difference between
categories is, by ``"scale"``, 1 / the expected number of columns in which two rows differ.

All need only a `Scatter` of the data, which need not be in memory: moments or counts of levels,
which are summed over parts, and the median distance in a sample of rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError
from mercer.kernels.parameters import Bounded
from mercer.sampling import Draw, blocks

#: Largest number of points from which the median distance is estimated.
_SAMPLE = 1000
#: Number of entries of a block of rows that is copied, which stays in the cache.
_ENTRIES = 2**17
#: Smallest number of rows of such a block.
_ROWS = 256
#: Deviation of a column, relative to its mean, that is rounding error.
ROUNDING = 2 * np.finfo(float).eps
#: Expected number of differences below which the weight of a difference does not grow.
FEWEST_DIFFERENCES = 0.5


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean and standard deviation of each column without its holes (NaN); parts can be added."""

    weight: Array  # (d,): the sum of the weights of the rows that have a value
    origins: Array  # (d,): one of the values, or 0
    offsets: Array  # (d,): the means from there, which keep digits far from zero
    deviations: Array  # (d,)

    @classmethod
    def of(cls, matrix: Any, weight: Array | None) -> Spread:
        """The spread of a matrix, dense or sparse; a long one is read in blocks."""
        n = matrix.shape[0]
        w = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
        moments = _moments if isinstance(matrix, np.ndarray) else _sparse_moments
        step = max(_ROWS, _ENTRIES * n // max(matrix.size, 1))
        if n <= step:
            return cls(*moments(matrix, w))
        parts = (cls(*moments(matrix[rows], w[rows])) for rows in blocks(n, step=step))
        return reduce(operator.add, parts)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.offsets)

    @property
    def means(self) -> Array:
        """The means of the columns."""
        return self.origins + self.offsets

    @property
    def deviation(self) -> float:
        """The standard deviation over all entries."""
        share = self.weight / max(self.weight.sum(), np.finfo(float).tiny)
        # From one of the means, so that equal ones differ by exactly 0.
        means = (self.origins - self.origins[0]) + (self.offsets - self.offsets[0])
        mean = (share * means).sum()
        parts = np.sqrt(share) * np.stack([self.deviations, means - mean])
        # Squares of huge and tiny numbers leave the range.
        deviation = float(np.hypot.reduce(parts.ravel()))
        return deviation if deviation > 1e-14 * abs(mean) else 0.0

    @property
    def varies(self) -> Array:
        """Which columns have more than one value."""
        return self.deviations > ROUNDING * np.abs(self.means)

    def __add__(self, other: Spread) -> Spread:
        """The spread of the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / np.where(weight > 0, weight, 1.0)
        origins = np.where(self.weight > 0, self.origins, other.origins)
        own = np.where(self.weight > 0, self.offsets, other.offsets)
        gap = (other.origins - origins) + (other.offsets - own)
        parts = np.sqrt(1.0 - share) * self.deviations, np.sqrt(share) * other.deviations
        between = np.sqrt((1.0 - share) * share) * gap
        return Spread(weight, origins, own + share * gap, np.hypot(np.hypot(*parts), between))


@dataclass(frozen=True, eq=False)
class Levels:
    """How often each category of each column occurs; counts of parts can be added."""

    counts: tuple[dict[Hashable, float], ...]  # for each column the weight of each category

    @property
    def differences(self) -> float:
        """The expected number of columns in which two rows differ."""
        total = 0.0
        for column in self.counts:
            share = np.fromiter(column.values(), float)
            total += 1.0 - float(np.square(share / max(share.sum(), np.finfo(float).tiny)).sum())
        return total

    def __add__(self, other: Levels) -> Levels:
        """The counts of both."""
        both = zip(self.counts, other.counts, strict=True)
        return Levels(tuple({k: a.get(k, 0.0) + b.get(k, 0.0) for k in a | b} for a, b in both))


#: The `Spread` of numbers, or the `Levels` of categories: what is added over parts of the rows.
Summary: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Scatter:
    """Statistics of the columns that a kernel reads, for a rule of thumb."""

    spread: Callable[[], Summary]
    # takes the name of a metric; returns the median distance between two rows of a sample
    median: Callable[[str], float]

    @classmethod
    def of(cls, columns: Any, weight: Array | None) -> Scatter:
        """The scatter of columns in memory."""
        return cls(
            lambda: columns.spread(weight),
            lambda metric: median_distance(
                columns.values[sample_rows(columns.values.shape[0], weight)], metric
            ),
        )


def sample_rows(n: int, weight: Array | None) -> Array:
    """The rows of a sample; all rows if there are few."""
    if weight is not None:
        return np.sort(weighted_sample(weight).rows)
    if n <= _SAMPLE:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _SAMPLE, replace=False))


def weighted_sample(weight: Array, start: int = 0) -> Draw:
    """The draw of a sample among rows of a part."""
    return Draw.of(weight, _SAMPLE, 0, start)


def median_distance(sample: Any, metric: str) -> float:
    """The median distance between two rows."""
    values = sample if isinstance(sample, np.ndarray) else sample.toarray()
    if len(values) < 2:
        return 1.0
    distances = pdist(values.astype(float), metric)
    median = np.median(distances)
    return _or_one(median if median > 0 else distances.mean())


def heuristic_length(metric: str, rule: str, scatter: Scatter) -> float | Array:
    """The length-scale of a rule: one for all columns, or one for each."""
    if rule == "median":
        return scatter.median(metric)
    spread: Spread = scatter.spread()
    if rule == "scale":
        return _or_one(_root(spread.width, metric) * spread.deviation)
    varies = spread.varies
    return _root(max(int(varies.sum()), 1), metric) * np.where(varies, spread.deviations, 1.0)


def _root(width: int, metric: str) -> float:
    """Half the typical distance between rows of standard normal numbers.

    The mean L1 distance is 2 d / sqrt(pi).
    """
    return float(np.sqrt(width / 2) if metric == "euclidean" else width / np.sqrt(np.pi))


def heuristic_gain(owner: str, scatter: Scatter) -> float:
    """The factor of inner products: scikit-learn's gamma = 1 / (d Var X), and 1 for constants."""
    spread: Spread = scatter.spread()
    variance = spread.deviation * spread.deviation  # one that underflows counts as zero
    gain = 1.0 / (spread.width * variance) if variance > 0 else 1.0
    if not 0 < gain < np.inf:
        raise DataError(
            f'{owner}: gain = "scale" leaves the range of numbers, as the data vary by '
            f"{spread.deviation:.3g}; scale them."
        )
    return float(gain)


def heuristic_weight(scatter: Scatter) -> float:
    """The weight of a difference between categories, for which exp(-1) is a typical value."""
    levels: Levels = scatter.spread()
    return 1.0 / max(levels.differences, FEWEST_DIFFERENCES)


def bounded(stored: Any, value: Any) -> Any:
    """A value within the bounds of the parameter in whose place it comes."""
    return np.clip(value, stored.low, stored.high) if isinstance(stored, Bounded) else value


def _or_one(length: Any) -> float:
    """The length, or 1 for constant data, whose length is 0."""
    return float(length) if np.isfinite(length) and length > 0 else 1.0


def _moments(matrix: Array, w: Array) -> tuple[Array, ...]:
    """The weight, mean and standard deviation of each column, holes left out."""
    largest = np.fmax.reduce(np.abs(matrix), axis=0, initial=0.0)
    # The squares of huge and tiny entries leave the range; powers of two do not round.
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1]
    values = np.ldexp(matrix.astype(float), -exponent)
    weight: Array = w[:, None]
    origin = values[0].copy()
    holes = np.isnan(values)
    if holes.any():
        weight = np.where(holes, 0.0, weight)
        origin = values[np.argmin(holes, axis=0), np.arange(values.shape[1])]
        origin[np.isnan(origin)] = 0.0
        values[holes] = np.broadcast_to(origin, values.shape)[holes]
    # Subtract a row first, to keep digits if the data are far from zero.
    values -= origin
    # Sum without BLAS, whose threads would spin for a while afterwards.
    total = np.broadcast_to(weight.sum(axis=0), origin.shape)
    share = weight / np.where(total > 0, total, 1.0)
    mean = (share * values).sum(axis=0)
    values -= mean
    variance = (share * np.square(values, out=values)).sum(axis=0)
    return total, *_unscaled(origin, mean, variance, exponent)


def _sparse_moments(matrix: Any, w: Array) -> tuple[Array, ...]:
    """The moments of the columns of a sparse matrix; zeros count as one value."""
    stored = sp.csc_array(matrix, copy=True)
    stored.sum_duplicates()
    width, counts = stored.shape[1], np.diff(stored.indptr)
    columns = np.repeat(np.arange(width), counts)
    largest = np.zeros(width)
    np.maximum.at(largest, columns, np.abs(stored.data).astype(float))
    exponent = np.frexp(largest)[1]
    values = np.ldexp(stored.data.astype(float), -exponent[columns])
    total = np.full(width, w.sum())
    shares = w[stored.indices] / max(w.sum(), np.finfo(float).tiny)
    # A column without zeros may be far from zero.
    full = np.flatnonzero(counts == stored.shape[0])
    origin = np.zeros(width)
    origin[full] = values[stored.indptr[full]] if len(values) else 0.0
    values -= origin[columns]
    mean = np.bincount(columns, shares * values, width)
    variance = np.bincount(columns, shares * np.square(values - mean[columns]), width)
    zeros = np.maximum(1.0 - np.bincount(columns, shares, width), 0.0)
    zeros[full] = 0.0
    return total, *_unscaled(origin, mean, variance + zeros * np.square(mean), exponent)


def _unscaled(origin: Array, mean: Array, variance: Array, exponent: Array) -> Iterator[Array]:
    """Origins, means and deviations times powers of two; variances may be rounding error."""
    exact = np.where(variance > (1e-14 * np.abs(mean)) ** 2, variance, 0.0)
    return (np.ldexp(part, exponent) for part in (origin, mean, np.sqrt(exact)))
