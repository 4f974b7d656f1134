"""Length-scales from data by two rules of thumb.

``"scale"`` makes the typical scaled distance about 2: for the RBF sqrt(d Var(X) / 2), which is
scikit-learn's gamma = 1 / (d Var X). ``"median"`` is the median distance between two points.

Both need only a `Scatter` of the data, which need not be in memory: a standard deviation, which is
summed over parts, and the median distance in a sample of rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer.kernels.parameters import Bounded, plain
from mercer.sampling import Draw

Array = np.ndarray[Any, Any]

#: Largest number of points from which the median distance is estimated.
_SAMPLE = 1000
#: Number of rows per block that is copied.
_BLOCK = 2**16


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over all entries of a matrix; spreads of parts can be added."""

    width: int  # the number of columns
    weight: float  # the sum of the weights of the rows
    mean: float  # over all entries, each row counted with its weight
    deviation: float  # over all entries, each row counted with its weight

    @classmethod
    def of(cls, matrix: Any, weight: Array | None) -> Spread:
        """The spread of a matrix, dense or sparse; a long one is read in blocks."""
        if matrix.shape[0] > _BLOCK:
            starts = range(0, matrix.shape[0], _BLOCK)
            parts = (slice(start, start + _BLOCK) for start in starts)
            blocks = ((matrix[rows], None if weight is None else weight[rows]) for rows in parts)
            return reduce(operator.add, (cls.of(*block) for block in blocks))
        total = float(matrix.shape[0] if weight is None else weight.sum())
        if total == 0:
            return cls(matrix.shape[1], 0.0, 0.0, 0.0)
        # The squares of huge and tiny entries leave the range.
        largest = float(abs(matrix).max())
        unit = 1.0 if 1e-100 < largest < 1e100 or largest == 0 else largest
        scaled = matrix if unit == 1.0 else matrix.astype(float) / unit
        mean, variance = _mean_and_variance(scaled, weight)
        return cls(matrix.shape[1], total, unit * mean, unit * float(np.sqrt(variance)))

    def __add__(self, other: Spread) -> Spread:
        """The spread of the rows of both."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        own, share = self.weight / weight, other.weight / weight
        gap = other.mean - self.mean
        between = np.sqrt(own * share) * gap
        within = np.hypot(np.sqrt(own) * self.deviation, np.sqrt(share) * other.deviation)
        deviation = float(np.hypot(within, between))
        return Spread(self.width, weight, self.mean + share * gap, deviation)


@dataclass(frozen=True, eq=False)
class Scatter:
    """Statistics of the columns that a kernel reads, for a rule of thumb."""

    spread: Callable[[], Spread]  # returns the `Spread`
    # takes the name of a metric; returns the median distance between two rows of a sample
    median: Callable[[str], float]

    @classmethod
    def of(cls, matrix: Any, weight: Array | None) -> Scatter:
        """The scatter of a matrix in memory."""
        return cls(
            lambda: Spread.of(matrix, weight),
            lambda metric: median_distance(matrix[sample_rows(matrix.shape[0], weight)], metric),
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


def heuristic_length(stored: Any, metric: str, scatter: Scatter) -> float:
    """The length-scale of a heuristic, within the bounds of the parameter.

    For normal data, d sd / sqrt(pi) is half the mean L1 distance.
    """
    if plain(stored) == "median":
        length = scatter.median(metric)
    else:
        spread = scatter.spread()
        root = np.sqrt(spread.width / 2) if metric == "euclidean" else spread.width / np.sqrt(np.pi)
        length = _or_one(root * spread.deviation)
    if isinstance(stored, Bounded):
        return float(np.clip(length, stored.low, stored.high))
    return length


def _or_one(length: Any) -> float:
    """The length, or 1 for constant data, whose length is 0."""
    return float(length) if np.isfinite(length) and length > 0 else 1.0


def _mean_and_variance(matrix: Any, weight: Array | None) -> tuple[float, float]:
    """Mean and variance over all entries, each row counted with its weight."""
    w = np.full(matrix.shape[0], 1.0) if weight is None else weight
    w = w / w.sum() / matrix.shape[1]
    if not isinstance(matrix, np.ndarray):
        return _of_stored(matrix, w)
    values = matrix.astype(float)
    # Subtract one entry first, to keep digits if the data are far from zero.
    origin = float(values[0, 0])
    values -= origin
    # Sum without BLAS, whose threads would spin for a while afterwards.
    mean = float((w * values.sum(axis=1)).sum())
    values -= mean
    variance = float((w * np.square(values, out=values).sum(axis=1)).sum())
    return origin + mean, _or_zero(variance, mean)


def _of_stored(matrix: Any, w: Array) -> tuple[float, float]:
    """Mean and variance of a sparse matrix; its zeros count as one value of their total weight."""
    stored = sp.csr_array(matrix)
    if not stored.has_canonical_format:
        stored = stored.copy()
        stored.sum_duplicates()
    counts = np.diff(stored.indptr)
    values = np.append(stored.data.astype(float), 0.0)
    weights = np.append(np.repeat(w, counts), (w * (matrix.shape[1] - counts)).sum())
    origin = float(stored[0, 0])
    values -= origin
    mean = float((weights * values).sum())
    variance = float((weights * np.square(values - mean)).sum())
    return origin + mean, _or_zero(variance, mean)


def _or_zero(variance: float, mean: float) -> float:
    """The variance, or 0 if it is rounding error."""
    return variance if variance > (1e-14 * abs(mean)) ** 2 else 0.0
