r"""Tests of whether two samples have the same distribution.

The squared maximum mean discrepancy (Gretton et al., 2012) is the squared distance of two mean
embeddings,

.. math:: \mathrm{MMD}^2 = \lVert \mu_x - \mu_y \rVert^2 = E k(x, x') + E k(y, y') - 2 E k(x, y) .
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.checks import require_choice
from mercer.exceptions import ParameterError
from mercer.inference.compression import bin_matrix, coresets
from mercer.inference.forms import Summary, SymmetricBlocks, permutation_moments
from mercer.inference.resampling import (
    block_labels,
    dependence_of,
    multipliers,
    permutations,
)
from mercer.inference.results import TestResult, gamma_result, result_of
from mercer.inference.samples import kernels_for, sample, settings, sizes_of
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, blocks, random_numbers

_OWNER = "mmd_test"
_HYPOTHESIS = "x and y have the same distribution"
# Number of bandwidths of each default kernel.
_BANDWIDTHS = 10
# Number of rows beyond which they are compressed, and the least number in each sample.
_MANY_ROWS, _FEWEST_ROWS = 5_000, 320
# Bytes of the indicators of permutations that share a pass over the kernel matrix.
_INDICATOR_BYTES = 2**27


@single_blas()
def mmd_test(
    x: Any,
    y: Any,
    kernel: Any = None,
    *,
    null: str = "permutation",
    n_resamples: int = 999,
    alpha: float = 0.05,
    blocks: Any = None,
    dependence: float | None = None,
    compress: bool | None = None,
    random_state: Any = None,
) -> TestResult:
    """Test whether two samples have the same distribution, by their maximum mean discrepancy.

    Without a kernel, the test aggregates 20: the RBF and the Laplacian at ten bandwidths each, for
    columns in units of their deviations. All resamples of all kernels share the same permutations.
    The statistic is then -log10 of the smallest p-value, which is compared with that of the
    permuted samples. The level is exact, since the permuted samples are treated like the observed
    one. No matrix of all pairs is stored.

    More than 5,000 rows in all are compressed first. Both samples are divided at random into bins
    of the same size, about 100 in all. Kernel thinning keeps about 2 sqrt(b) of the b rows of a
    bin. Bins are permuted in place of rows, so that the level is still exact.
    ``details["compressed_rows"]`` is the number of rows that are kept.

    Parameters
    ----------
    x, y : array-like, data frame, list or Points
        The samples: vectors, strings, graphs, or whatever the kernel takes.
    kernel : Kernel, str, callable or list of these, optional
        The kernel; several kernels are aggregated.
    null : {"permutation", "gamma", "wild"}, default="permutation"
        Where the null distribution comes from: permutations; a gamma distribution with the mean and
        variance of all permutations, for one kernel in a single pass; or the wild bootstrap, for
        rows in the order of time that depend on each other.
    n_resamples : int, default=999
        The number of permutations, or of bootstrap samples.
    alpha : float, default=0.05
        The level.
    blocks : array-like of shape (n_x + n_y,), optional
        Labels of the rows of x and then of y. Rows are permuted within blocks of equal labels.
    dependence : float, optional
        For the wild bootstrap: the number of rows within which the correlation falls by a factor e.
        By default, the root of the number of rows of the smaller sample.
    compress : bool, optional
        Whether rows are compressed, which needs permutations without `blocks`. By default they are
        if there are more than 5,000 rows in all, and at least 320 in each sample.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Returns
    -------
    TestResult
        With ``statistic``, ``pvalue``, ``null_distribution``, ``reject``, and ``kernel``, the
        kernel that shows the difference most clearly.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schoelkopf and Smola, A kernel two-sample test, 2012. Schrab et al.,
    MMD aggregated two-sample test, 2023. Chwialkowski, Sejdinovic and Gretton, A wild bootstrap for
    degenerate kernel tests, 2014. Domingo-Enrich, Dwivedi and Mackey, Compress then test: powerful
    kernel testing in near-linear time, 2023.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(80, 2)), rng.normal(size=(60, 2)) * [1.0, 2.0]
    >>> result = mc.inference.mmd_test(x, y, random_state=0)
    >>> result.pvalue, result.reject
    (0.001, True)
    """
    settings(_OWNER, n_resamples, alpha)
    require_choice(_OWNER, "null", null, ("permutation", "gamma", "wild"))
    first, second = sample(_OWNER, "x", x), sample(_OWNER, "y", y)
    points = Points.concatenate([first, second.ordered_like(first)])
    rng = random_numbers(random_state, _OWNER)
    each = 1 if null == "gamma" else _BANDWIDTHS
    kernels = kernels_for(_OWNER, kernel, points, rng, each=each, both=null != "gamma")
    sizes = sizes_of(_OWNER, kernels, points)
    labels = block_labels(_OWNER, blocks, len(points), null)
    n = len(first)
    if _is_compressed(compress, n, len(points) - n, null, labels):
        statistics, kept = _compressed(kernel, kernels, points, n, n_resamples, rng)
        details = {"null": null, "compressed_rows": kept}
        return result_of(_OWNER, _HYPOTHESIS, statistics, sizes, kernels, alpha, details)
    matrices = [SymmetricBlocks.of(k, points) for k in kernels]
    if null == "gamma":
        return _by_gamma(matrices, kernels, n, n_resamples, alpha)
    if null == "wild":
        signed = _signed(n, len(points), n_resamples, dependence, rng)
        statistics = np.stack([matrix.forms(signed) for matrix in matrices], axis=1)
    else:
        orders = permutations(len(points), n_resamples, rng, labels)
        statistics = np.stack([_permuted(matrix, n, orders) for matrix in matrices], axis=1)
    return result_of(_OWNER, _HYPOTHESIS, statistics, sizes, kernels, alpha, {"null": null})


def _is_compressed(
    compress: bool | None, n: int, m: int, null: str, labels: RowNumbers | None
) -> bool:
    """Whether bins of rows are permuted in place of rows."""
    require_choice(_OWNER, "compress", compress, (None, False, True))
    possible = null == "permutation" and labels is None
    if compress and not possible:
        raise ParameterError(
            f"{_OWNER}: compress = True needs permutations of all rows, but null = {null!r} or "
            "blocks are given; leave out one of them."
        )
    many = n + m > _MANY_ROWS and min(n, m) >= _FEWEST_ROWS
    return possible and (many if compress is None else compress)


def _compressed(
    given: Any,
    kernels: list[Kernel],
    points: Points,
    n: int,
    count: int,
    rng: np.random.RandomState,
) -> tuple[Array, int]:
    """Statistics of permuted bins, and the number of rows that are kept.

    The default kernels share coresets of the RBF, several given kernels those of their sum.
    """
    alone = kernels_for(_OWNER, given, points, rng, each=1, both=False)
    bins, first = coresets(sum(alone[1:], alone[0]), points, n, rng)
    orders = permutations(len(bins), count, rng)
    matrices = (bin_matrix(kernel, points, bins) for kernel in kernels)
    return np.stack([_permuted(matrix, first, orders) for matrix in matrices], axis=1), bins.size


def _permuted(matrix: SymmetricBlocks, n: int, orders: RowNumbers) -> Array:
    """The unbiased estimate of MMD^2 for each permutation, of which the first n rows are x.

    With indicators a of the rows in x, all sums follow from a'Ka, the row sums and the diagonal.
    """
    size, m = matrix.n, matrix.n - n
    summary = matrix.summary()
    estimates = np.empty(len(orders))
    for part in blocks(len(orders), size, _INDICATOR_BYTES):
        indicators = np.zeros((size, part.stop - part.start))
        indicators[orders[part, :n].T, np.arange(part.stop - part.start)] = 1.0
        inside = matrix.forms(indicators)
        across = summary.sums @ indicators - inside
        trace = summary.diagonal @ indicators
        outside = summary.sums.sum() - 2 * across - inside
        within = (inside - trace) / (n * (n - 1))
        within += (outside - (summary.diagonal.sum() - trace)) / (m * (m - 1))
        estimates[part] = within - 2 * across / (n * m)
    return estimates


def difference_weights(n: int, m: int) -> Array:
    """The vector s with MMD^2 = s' K s: 1 / n at the rows of x, and -1 / m at those of y."""
    return np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / m)])


def _signed(
    n: int, size: int, count: int, dependence: float | None, rng: np.random.RandomState
) -> Array:
    """The weights of the observed samples, and those times centred multipliers."""
    m = size - n
    length = dependence_of(_OWNER, dependence, min(n, m))
    weights = difference_weights(n, m)[:, None]
    series = [multipliers(k, count, rng, length) for k in (n, m)]
    centred = np.vstack([s - s.mean(axis=0) for s in series])
    return np.hstack([weights, weights * centred])


def _by_gamma(
    matrices: list[SymmetricBlocks], kernels: list[Kernel], n: int, count: int, alpha: float
) -> TestResult:
    """The biased estimates, and gamma distributions with the moments of all permutations."""
    weights = difference_weights(n, matrices[0].n - n)
    squares = np.square(weights)
    outer = Summary(np.zeros(len(weights)), squares, float(squares.sum()) ** 2)
    observed = np.array([float(matrix.forms(weights[:, None])[0]) for matrix in matrices])
    moments = [permutation_moments(matrix.summary(), outer) for matrix in matrices]
    return gamma_result(_OWNER, _HYPOTHESIS, observed, moments, kernels, count, alpha)
