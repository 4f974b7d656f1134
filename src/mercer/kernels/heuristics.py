"""Length-scales from data: the two rules of thumb that need no search.

``"scale"`` makes the typical scaled distance about 2: for the RBF sqrt(d Var(X) / 2), which is
scikit-learn's gamma = 1 / (d Var X). ``"median"`` is the median distance between two points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from mercer.kernels.values import Bounded

Array = np.ndarray[Any, Any]

#: The median distance is estimated from at most this many points.
_SAMPLE = 1000


def euclidean_length(name: str, matrix: Any, weight: Array | None) -> float:
    """Length-scale for kernels of the Euclidean distance."""
    if name == "median":
        return _median_distance(matrix, weight, "euclidean")
    return _or_one(np.sqrt(matrix.shape[1] / 2) * _deviation(matrix, weight))


def manhattan_length(name: str, matrix: Any, weight: Array | None) -> float:
    """Length-scale for the L1 distance: d sd / sqrt(pi) is half its mean for normal data."""
    if name == "median":
        return _median_distance(matrix, weight, "cityblock")
    return _or_one(matrix.shape[1] / np.sqrt(np.pi) * _deviation(matrix, weight))


def bounded_length(stored: Any, length: float) -> float:
    """Move a heuristic value into the bounds that the user gave."""
    if isinstance(stored, Bounded):
        return float(np.clip(length, stored.low, stored.high))
    return length


def _or_one(length: Any) -> float:
    """Constant data have no scale of their own."""
    return float(length) if np.isfinite(length) and length > 0 else 1.0


def _deviation(matrix: Any, weight: Array | None) -> float:
    """Standard deviation over all entries; the squares of huge and tiny ones leave the range."""
    largest = float(abs(matrix).max())
    if 1e-100 < largest < 1e100 or largest == 0:
        return float(np.sqrt(_variance(matrix, weight)))
    return largest * float(np.sqrt(_variance(matrix.astype(float) / largest, weight)))


def _variance(matrix: Any, weight: Array | None) -> float:
    """Variance over all entries, each row counted with its weight."""
    w = np.full(matrix.shape[0], 1.0) if weight is None else weight
    w = w / w.sum() / matrix.shape[1]
    if not isinstance(matrix, np.ndarray):
        mean = (w @ matrix).sum()
        return float(max((w @ matrix.power(2)).sum() - mean**2, 0.0))
    values = matrix.astype(float)
    # Centring on one entry first keeps digits when the data are far from zero.
    values = values - values[0, 0]
    mean = (w @ values).sum()
    variance = float((w @ (values - mean) ** 2).sum())
    return variance if variance > (1e-14 * abs(mean)) ** 2 else 0.0


def _median_distance(matrix: Any, weight: Array | None, metric: str) -> float:
    n = matrix.shape[0]
    probability = None if weight is None else weight / weight.sum()
    if n > _SAMPLE or probability is not None:
        size = min(n, _SAMPLE)
        available = n if probability is None else int(np.count_nonzero(probability))
        rows = np.random.default_rng(0).choice(
            n, min(size, available), replace=False, p=probability
        )
        matrix = matrix[np.sort(rows)]
    values = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    if len(values) < 2:
        return 1.0
    distances = pdist(values.astype(float), metric)
    median = np.median(distances)
    return _or_one(median if median > 0 else distances.mean())
