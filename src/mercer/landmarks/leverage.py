r"""Ridge leverage scores: the influence of each row on a ridge fit.

.. math:: \ell_i = \bigl(K (K + \alpha I)^{-1}\bigr)_{ii}, \qquad \sum_i \ell_i = d_{\text{eff}} .

Exact scores cost n^3. The estimates below come from a sample S of rows with weights,

.. math:: \tilde\ell_i = \tfrac{1}{\alpha}
    \bigl(K - K_{:S} (K_{SS} + \alpha W^{-1})^{-1} K_{S:}\bigr)_{ii} ,

where the sample is drawn in proportion to estimates on half of the rows, and so on down to few
(Musco and Musco 2017). With a multiple of d_eff log d_eff samples, 2/3 <= estimate / score <= 2
holds for all rows at once with high probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.checks import require_number
from mercer.linalg.cholesky import factorise
from mercer.linalg.pivoted_cholesky import Columns, Entries, Indices, generator_of
from mercer.parallel import single_blas
from mercer.sampling import blocks

# Smallest number of rows of the first level.
_FEW = 128
# Bytes of the kernel values of a block of rows.
_BLOCK_BYTES = 2**23
# Probability that an estimate is outside its bounds.
_FAILURE = 0.01


def leverage_scores(
    columns: Columns,
    diagonal: Array,
    alpha: float,
    *,
    n_samples: int | None = None,
    rng: Any = None,
    entries: Entries | None = None,
) -> NDArray[np.float64]:
    """Approximate ridge leverage scores from about 3 n n_samples kernel values.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b).
    diagonal : ndarray of shape (n,)
        The diagonal of K.
    alpha : float
        The ridge, positive.
    n_samples : int, optional
        The expected size of the samples; by default 4 d_eff log(d_eff / 0.01), with d_eff estimated
        at every level.
    rng : int, Generator or RandomState, optional
        The random numbers.
    entries : callable, optional
        Maps rows and columns to this block of K, so that memory is bounded by blocks of rows.

    Returns
    -------
    ndarray of shape (n,)
        The scores, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.landmarks.leverage import leverage_scores
    >>> K = np.diag([1.0, 3.0])
    >>> leverage_scores(lambda rows: K[:, rows], K.diagonal(), alpha=1.0).tolist()
    [0.5, 0.75]
    """
    require_number("leverage_scores", "alpha", alpha)
    generator = generator_of(rng)
    get = entries or (lambda rows, cols: columns(cols)[rows])
    n = len(diagonal)
    order = generator.permutation(n)
    sizes = _halves(n, max(_FEW, n_samples or 0))
    sample, weights = order[: sizes[0]], np.ones(sizes[0])
    with single_blas():
        for size in sizes[1:]:
            rows = np.sort(order[:size])
            scores = _estimates(get, diagonal, rows, sample, weights, alpha)
            keep = inclusion_probabilities(scores, n_samples or _enough(scores))
            drawn = generator.random(size) < keep
            if not drawn.any():  # all scores are close to 0
                drawn[np.argmax(scores)] = True
            sample, weights = rows[drawn], 1 / np.where(keep[drawn] > 0, keep[drawn], 1.0)
        return _estimates(get, diagonal, np.arange(n), sample, weights, alpha)


def inclusion_probabilities(scores: Array, size: int) -> NDArray[np.float64]:
    """Probabilities min(1, c score) with c such that their sum is `size`."""
    positive = int(np.count_nonzero(scores > 0))
    if size >= positive:
        return (scores > 0).astype(np.float64)
    descending = np.sort(scores.astype(np.float64))[::-1]
    # If the t largest have probability 1, c is (size - t) / (sum of the other scores).
    rest = np.cumsum(descending[::-1])[::-1]
    factors = (size - np.arange(size)) / rest[:size]
    first = int(np.argmax(factors * descending[:size] <= 1))
    return np.minimum(1.0, float(factors[first]) * scores.astype(np.float64))


def _halves(n: int, few: int) -> list[int]:
    """Sizes of the levels, from a few rows to all; each is at most twice the previous one."""
    sizes = [n]
    while sizes[0] > few:
        sizes.insert(0, math.ceil(sizes[0] / 2))
    return sizes


def _enough(scores: Array) -> int:
    """The sample size for which the estimates are within their bounds."""
    dimension = max(float(scores.sum()), 1.0)
    return math.ceil(4 * dimension * math.log(dimension / _FAILURE))


def _estimates(
    get: Entries, diagonal: Array, rows: Indices, sample: Indices, weights: Array, alpha: float
) -> NDArray[np.float64]:
    """Estimate the scores of some rows from a weighted sample, in blocks of rows."""
    root = np.sqrt(weights)
    square = np.array(get(sample, sample), dtype=np.float64) * np.multiply.outer(root, root)
    factor = factorise(square, alpha)
    ridge = alpha + factor.jitter
    scores = np.empty(len(rows))
    for block in blocks(len(rows), len(sample), _BLOCK_BYTES, least=1):
        part = rows[block]
        cross = np.array(get(part, sample), dtype=np.float64) * root
        explained = np.square(factor.half_solve(cross.T)).sum(axis=0)
        scores[block] = (diagonal[part] - explained) / ridge
    return np.clip(scores, 0.0, 1.0)
