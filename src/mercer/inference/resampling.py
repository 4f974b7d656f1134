"""Permutations, multipliers, and p-values from them.

The first of all rows of statistics is the observed one. Under the hypothesis of a permutation test
the rows are exchangeable, so that the rank of the first one is uniform, whatever function of the
rows is ranked, as long as it treats them alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.stats import gamma, rankdata

from mercer.arrays import Array
from mercer.checks import require_number
from mercer.exceptions import DataError, ParameterError
from mercer.sampling import RowNumbers

# Differences of statistics, relative to the values of the kernel, that are rounding error.
_ROUNDING = 1e-12


def block_labels(owner: str, labels: Any, n: int, null: str) -> RowNumbers | None:
    """Numbers of the blocks within which rows are permuted."""
    if labels is None:
        return None
    if null != "permutation":
        raise ParameterError(
            f"{owner}: blocks needs permutations, but null = {null!r}; leave out one of them."
        )
    values = np.asarray(labels)
    if values.shape != (n,):
        raise DataError(
            f"{owner}: blocks has shape {values.shape}, but there are {n} rows; pass one label for "
            "each row."
        )
    numbers = np.unique(values, return_inverse=True)[1].astype(np.intp)
    if np.bincount(numbers).max() < 2:
        raise DataError(
            f"{owner}: every block has one row, so that nothing can be permuted; pass labels that "
            "rows share."
        )
    return numbers


def permutations(
    n: int, count: int, rng: np.random.RandomState, labels: RowNumbers | None = None
) -> RowNumbers:
    """The identity and random permutations, as rows; each stays within the blocks."""
    keys = rng.random_sample((count, n))
    if labels is not None:
        # Rows of a block, in a random order, take the places of the rows of this block.
        places = np.argsort(labels, kind="stable")
        orders = np.empty((count, n), np.intp)
        orders[:, places] = np.argsort(keys + labels, axis=1)
    else:
        orders = np.argsort(keys, axis=1)
    return np.vstack([np.arange(n), orders])


def dependence_of(owner: str, dependence: float | None, n: int) -> float:
    """The length of the dependence between rows; by default the root of their number."""
    length = float(np.sqrt(n)) if dependence is None else dependence
    return require_number(owner, "dependence", length, closed=True, example=10.0)


def multipliers(n: int, count: int, rng: np.random.RandomState, dependence: float) -> Array:
    """Random weights of mean 0 and variance 1, of shape (n, count).

    They are independent signs, or for dependent series a normal autoregression whose correlation
    falls by a factor e within `dependence` rows.
    """
    if not dependence:
        return np.asarray(2.0 * rng.randint(2, size=(n, count)) - 1.0)
    decay = np.exp(-1.0 / dependence)
    noise = rng.standard_normal((n, count))
    noise[1:] *= np.sqrt(1.0 - decay**2)
    series: Array = lfilter([1.0], [1.0, -decay], noise, axis=0)
    return series


def rank_pvalues(statistics: Array, sizes: Array) -> Array:
    """For each row the share of rows with statistics at least as large, column by column.

    Differences below the rounding of terms of these sizes count as ties.
    """
    ranks: Array = rankdata(-_rounded(statistics, sizes), method="max", axis=0)
    return ranks / len(statistics)


def _rounded(statistics: Array, sizes: Array) -> Array:
    """Statistics without their rounding error."""
    unit = _ROUNDING * np.where(sizes > 0, sizes, 1.0)
    return np.asarray(np.round(statistics / unit) * unit)


def aggregated(statistics: Array, sizes: Array) -> tuple[Array, Array]:
    """One statistic from those of several kernels: -log10 of the smallest p-value.

    Rows that are first with different kernels have equal p-values. A fraction of a rank, which
    grows with the distance from the mean in standard deviations, tells them apart.

    Returns
    -------
    tuple of ndarray
        The statistic of each row, and the p-value of each kernel at the first row.
    """
    pvalues = rank_pvalues(statistics, sizes)
    statistics = _rounded(statistics, sizes)
    if statistics.shape[1] == 1:
        return statistics[:, 0], pvalues[0]
    deviations = statistics.std(axis=0)
    distances = (statistics - statistics.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    distances = np.round(distances, 8)  # equal ones stay equal
    share = 0.5 + 0.5 * distances / (1.0 + np.abs(distances))
    refined = pvalues - share / len(statistics)
    return -np.log10(refined.min(axis=1)), pvalues[0]


def upper_pvalue(values: Array) -> float:
    """(1 + #{null >= observed}) / (1 + B), the observed value being the first."""
    return float(np.mean(values >= values[0]))


def gamma_null(observed: float, mean: float, variance: float, count: int) -> tuple[Array, float]:
    """Quantiles of the gamma distribution with these moments, and the p-value of an observation."""
    if not (mean > 0 and variance > 0):
        return np.full(count, mean), 1.0
    law = gamma(mean**2 / variance, scale=variance / mean)
    return law.ppf((np.arange(count) + 0.5) / count), float(law.sf(observed))
