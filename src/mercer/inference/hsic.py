r"""Tests of whether paired samples are independent.

The Hilbert-Schmidt independence criterion (Gretton et al., 2005) is the squared norm of the
cross-covariance of features,

.. math:: \mathrm{HSIC} = \tfrac{1}{n^2} \operatorname{tr}(\tilde K \tilde L) ,
    \qquad \tilde K = H K H, \quad H = I - \tfrac{1}{n} 1 1' .
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.checks import require_choice
from mercer.inference.forms import SymmetricBlocks, centred, permutation_moments
from mercer.inference.resampling import (
    block_labels,
    dependence_of,
    multipliers,
    permutations,
)
from mercer.inference.results import TestResult, gamma_result, result_of
from mercer.inference.samples import features_of, kernels_for, paired, settings, sizes_of
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.blocked import multiply
from mercer.memory import require_matrix
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, random_numbers

_OWNER = "hsic_test"
_HYPOTHESIS = "x and y are independent"
# Number of bandwidths of each default kernel.
_BANDWIDTHS = 4
# Number of rows up to which permutations use the whole matrices.
_DENSE = 1000
# Largest number of features of a kernel, and the share of its trace that may be left out.
_FEATURES, _LEFT_OUT = 100, 1e-4


@single_blas()
def hsic_test(
    x: Any,
    y: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    *,
    null: str = "permutation",
    n_resamples: int = 999,
    alpha: float = 0.05,
    blocks: Any = None,
    dependence: float | None = None,
    random_state: Any = None,
) -> TestResult:
    """Test whether the rows of x and y that belong together are independent.

    Without kernels, the test aggregates RBFs at four bandwidths for x and four for y, 16 pairs. The
    level is exact, as that of `mmd_test`.

    Up to 1,000 rows, permutations use stored matrices of all pairs of rows. With more rows, they
    use up to 100 features of each kernel (pivoted Cholesky), and no such matrix is stored. The
    features leave out at most 1e-4 of the trace, unless 100 of them leave out more. The gamma
    distribution stores no matrix, and the wild bootstrap stores all of them.

    Parameters
    ----------
    x, y : array-like, data frame, list or Points
        The samples, of the same number of rows: vectors, strings, graphs, each of any type.
    kernel_x, kernel_y : Kernel, str, callable or list of these, optional
        The kernels of x and of y; all pairs of several kernels are aggregated.
    null : {"permutation", "gamma", "wild"}, default="permutation"
        Where the null distribution comes from: permutations of the rows of y; a gamma distribution
        with the mean and variance of all permutations; or the wild bootstrap, for rows in the order
        of time that depend on each other.
    n_resamples : int, default=999
        The number of permutations, or of bootstrap samples.
    alpha : float, default=0.05
        The level.
    blocks : array-like of shape (n,), optional
        Labels of the rows. Rows are permuted within blocks of equal labels.
    dependence : float, optional
        For the wild bootstrap: the number of rows within which the correlation falls by a factor e.
        By default, the root of the number of rows.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Returns
    -------
    TestResult
        With ``statistic``, ``pvalue``, ``null_distribution``, ``reject``, and ``kernel``, the
        pair of kernels that shows the dependence most clearly.

    References
    ----------
    Gretton et al., A kernel statistical test of independence, 2008. Schrab, Kim, Guedj and Gretton,
    Efficient aggregated kernel tests using incomplete U-statistics, 2022. Kazi-Aoual, Hitier,
    Sabatier and Lebreton, Refined approximations to permutation tests for multivariate inference,
    1995.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 1))
    >>> y = x**2 + 0.5 * rng.normal(size=(100, 1))
    >>> mc.inference.hsic_test(x, y, random_state=0).pvalue
    0.001
    """
    settings(_OWNER, n_resamples, alpha)
    require_choice(_OWNER, "null", null, ("permutation", "gamma", "wild"))
    first, second = paired(_OWNER, x=x, y=y)
    n = len(first)
    labels = block_labels(_OWNER, blocks, n, null)
    rng = random_numbers(random_state, _OWNER)
    each = 1 if null == "gamma" else _BANDWIDTHS
    kernels = [
        kernels_for(_OWNER, kernel, points, rng, each=each, both=False)
        for kernel, points in ((kernel_x, first), (kernel_y, second))
    ]
    sizes = [sizes_of(_OWNER, *side) for side in zip(kernels, (first, second), strict=True)]
    pairs = list(product(*kernels))
    if null == "gamma":
        return _by_gamma(kernels, (first, second), n_resamples, alpha)
    if null == "wild":
        weights = multipliers(n, n_resamples, rng, dependence_of(_OWNER, dependence, n))
        statistics = _wild(kernels, (first, second), weights - weights.mean(axis=0))
    else:
        orders = permutations(n, n_resamples, rng, labels)
        permuted = _by_matrices if n <= _DENSE else _by_features
        statistics = permuted(kernels, (first, second), orders, rng)
    scales = np.multiply.outer(*sizes).ravel()
    return result_of(_OWNER, _HYPOTHESIS, statistics, scales, pairs, alpha, {"null": null})


def _by_matrices(
    kernels: list[list[Kernel]], points: tuple[Points, Points], orders: RowNumbers, _: Any
) -> Array:
    """Statistics of all permutations and pairs: sum_ij K_ij L_{p(i) p(j)} / n^2."""
    n = orders.shape[1]
    left, right = (_centred_matrices(*side) for side in zip(kernels, points, strict=True))
    flat = np.stack([matrix.ravel() for matrix in left])
    statistics = np.empty((len(orders), len(left), len(right)))
    for b, order in enumerate(orders):
        for j, matrix in enumerate(right):
            permuted = matrix[order].take(order, axis=1)
            statistics[b, :, j] = flat @ permuted.ravel()
    return np.asarray(statistics.reshape(len(orders), -1) / n**2)


def _by_features(
    kernels: list[list[Kernel]],
    points: tuple[Points, Points],
    orders: RowNumbers,
    rng: np.random.RandomState,
) -> Array:
    """Statistics of all permutations and pairs: |U' V[p]|^2 / n^2 with centred features."""
    n = orders.shape[1]
    left, right = (
        [_centred_features(kernel, part, rng) for kernel in side]
        for side, part in zip(kernels, points, strict=True)
    )
    starts = [np.cumsum([0, *(f.shape[1] for f in side)])[:-1] for side in (left, right)]
    first, second = np.hstack(left).T.copy(), np.hstack(right)
    statistics = np.empty((len(orders), len(left), len(right)))
    for b, order in enumerate(orders):
        squares = np.square(multiply(first, second[order]))
        by_rows = np.add.reduceat(squares, starts[0], axis=0)
        statistics[b] = np.add.reduceat(by_rows, starts[1], axis=1)
    return np.asarray(statistics.reshape(len(orders), -1) / n**2)


def _wild(kernels: list[list[Kernel]], points: tuple[Points, Points], weights: Array) -> Array:
    """The observed statistics, and those with multipliers: w' (K * L) w / n^2."""
    n = len(weights)
    vectors = np.hstack([np.ones((n, 1)), weights])
    left, right = (_centred_matrices(*side) for side in zip(kernels, points, strict=True))
    forms = [SymmetricBlocks.of_array(k * m).forms(vectors) for k, m in product(left, right)]
    return np.stack(forms, axis=1) / n**2


def _by_gamma(
    kernels: list[list[Kernel]], points: tuple[Points, Points], count: int, alpha: float
) -> TestResult:
    """Gamma distributions with the moments of all permutations."""
    n = len(points[0])
    sides = [[SymmetricBlocks.of(k, p) for k in ks] for ks, p in zip(kernels, points, strict=True)]
    summaries = [[matrix.summary() for matrix in side] for side in sides]
    moments = [permutation_moments(a, b) for a, b in product(*summaries)]
    scaled = [(mean / n**2, variance / n**4) for mean, variance in moments]
    observed = np.array([a.centred_inner(b) / n**2 for a, b in product(*sides)])
    pairs = list(product(*kernels))
    return gamma_result(_OWNER, _HYPOTHESIS, observed, scaled, pairs, count, alpha)


def _centred_matrices(kernels: list[Kernel], points: Points) -> list[Array]:
    require_matrix((len(points), len(points)))
    return [centred(np.array(kernel(points), dtype=np.float64)) for kernel in kernels]


def _centred_features(kernel: Kernel, points: Points, rng: np.random.RandomState) -> Array:
    """Features F - mean with F F' close to the kernel matrix."""
    features = features_of(kernel, points, rng, _FEATURES, _LEFT_OUT)
    return np.asarray(features - features.mean(axis=0))
