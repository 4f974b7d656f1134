r"""Tests of whether a sample has a given distribution, by its score.

The kernel Stein discrepancy (Liu, Lee and Jordan, 2016; Chwialkowski, Strathmann and Gretton, 2016)
needs the score s(x) = grad log p(x) alone, and so no normalising constant. It is the mean over
pairs of the Stein kernel

.. math:: u(x, y) = s(x)' s(y) k + s(x)' \nabla_y k + s(y)' \nabla_x k + \nabla_x \cdot \nabla_y k .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.inference.forms import SymmetricBlocks
from mercer.inference.resampling import dependence_of, multipliers
from mercer.inference.results import TestResult, result_of
from mercer.inference.samples import bandwidths, dense_rows, kernels_for, sample, settings
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import plain
from mercer.kernels.stationary import RBF, RationalQuadratic
from mercer.parallel import single_blas
from mercer.sampling import random_numbers

_OWNER = "goodness_of_fit_test"
_HYPOTHESIS = "x has the distribution with the given score"
# Number of bandwidths of the default kernel.
_BANDWIDTHS = 10


@single_blas()
def goodness_of_fit_test(
    x: Any,
    score: Any,
    kernel: Any = None,
    *,
    n_resamples: int = 999,
    alpha: float = 0.05,
    dependence: float = 0.0,
    random_state: Any = None,
) -> TestResult:
    """Test whether a sample has a distribution, given by the gradient of its log-density.

    Without a kernel, the test aggregates inverse multiquadrics (1 + r^2)^(-1/2) at ten bandwidths.
    The null distribution is a wild bootstrap, whose level is right for many rows.

    Parameters
    ----------
    x : array-like of shape (n, d)
        The sample.
    score : callable or array-like of shape (n, d)
        The score: a function that takes an array of shape (n, d) and returns the gradient of the
        log-density at each row, or these gradients at the rows of x.
    kernel : RBF, RationalQuadratic or list of these, optional
        The kernel; ``RationalQuadratic(alpha=0.5)`` is the inverse multiquadric.
    n_resamples : int, default=999
        The number of bootstrap samples.
    alpha : float, default=0.05
        The level.
    dependence : float, default=0.0
        For rows of a Markov chain: the number of rows within which the correlation falls by a
        factor e.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Returns
    -------
    TestResult
        With ``statistic``, ``pvalue``, ``null_distribution``, ``reject`` and ``kernel``.

    References
    ----------
    Gorham and Mackey, Measuring sample quality with kernels, 2017. Schrab, Guedj and Gretton, KSD
    aggregated goodness-of-fit test, 2022.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> test = mc.inference.goodness_of_fit_test
    >>> (
    ...     test(x, lambda X: -X, random_state=0).reject,
    ...     test(x, lambda X: 0.5 - X, random_state=0).reject,
    ... )
    (False, True)
    """
    settings(_OWNER, n_resamples, alpha)
    points = sample(_OWNER, "x", x)
    rng = random_numbers(random_state, _OWNER)
    if kernel is None:
        base = RationalQuadratic("columns", alpha=0.5)
        kernels: list[Kernel] = bandwidths(base, points, _BANDWIDTHS, rng)
    else:
        kernels = kernels_for(_OWNER, kernel, points, rng, each=1, both=False)
    rows = dense_rows(points, kernels[0])
    scores = _scores(score, rows)
    steins = [SteinKernel.of(k, rows, scores) for k in kernels]
    n = len(rows)
    weights = multipliers(n, n_resamples, rng, dependence_of(_OWNER, dependence, n))
    vectors = np.hstack([np.ones((n, 1)), weights])
    diagonals = [stein.diagonal() for stein in steins]
    forms = [
        SymmetricBlocks(n, stein.block).forms(vectors) - diagonal @ np.square(vectors)
        for stein, diagonal in zip(steins, diagonals, strict=True)
    ]
    statistics = np.stack(forms, axis=1) / (n * (n - 1))
    sizes = np.array([float(np.mean(diagonal)) for diagonal in diagonals])
    return result_of(_OWNER, _HYPOTHESIS, statistics, sizes, kernels, alpha, {"null": "wild"})


def _scores(score: Any, rows: Array) -> Array:
    """The gradients of the log-density at the rows, checked."""
    values = np.asarray(score(rows) if callable(score) else score, dtype=np.float64)
    if values.shape != rows.shape or not np.isfinite(values).all():
        raise DataError(
            f"{_OWNER}: the score has shape {values.shape}, or NaN or infinity, but x has shape "
            f"{rows.shape}; return one finite gradient of the log-density for each row."
        )
    return values


@dataclass(frozen=True, eq=False)
class SteinKernel:
    """The Stein kernel of a kernel phi(r^2), with r^2 = sum_j (x_j - y_j)^2 / l_j^2."""

    kernel: RBF | RationalQuadratic
    rows: Array  # (n, d): about their means, which keeps digits
    scores: Array  # (n, d)
    lengths: Array  # (d,)

    @classmethod
    def of(cls, kernel: Kernel, rows: Array, scores: Array) -> SteinKernel:
        """The Stein kernel at the rows of a sample."""
        if not isinstance(kernel, RBF | RationalQuadratic):
            raise ParameterError(
                f"{_OWNER}: kernel = {kernel!r} has no Stein kernel here; pass mercer.RBF or "
                "mercer.RationalQuadratic."
            )
        lengths = np.broadcast_to(np.asarray(plain(kernel.length_scale), float), rows.shape[1:])
        return cls(kernel, rows - rows.mean(axis=0), scores, lengths)

    def profile(self, r2: Array) -> tuple[Array, Array, Array]:
        """Phi and its first two derivatives in r^2."""
        if isinstance(self.kernel, RBF):
            value = np.exp(-0.5 * r2)
            return value, -0.5 * value, 0.25 * value
        alpha = float(plain(self.kernel.alpha))
        base = 1.0 + r2 / (2 * alpha)
        value = base**-alpha
        slope = -0.5 * value / base
        return value, slope, -slope * (alpha + 1) / (2 * alpha) / base

    def block(self, rows: slice, cols: slice) -> Array:
        """The values u(x_i, x_j) of some rows and columns."""
        x, y, s, t = self.rows[rows], self.rows[cols], self.scores[rows], self.scores[cols]
        value, slope, curve = self.profile(cdist(x / self.lengths, y / self.lengths, "sqeuclidean"))
        a, b = x / self.lengths**2, y / self.lengths**2
        # (t - s)' (a - b) for all pairs
        drift = a @ t.T + s @ b.T - np.sum(s * a, axis=1)[:, None] - np.sum(t * b, axis=1)
        trace = 4 * curve * cdist(a, b, "sqeuclidean") + 2 * slope * np.sum(self.lengths**-2.0)
        return np.asarray((s @ t.T) * value + 2 * slope * drift - trace)

    def diagonal(self) -> Array:
        """The values u(x_i, x_i)."""
        value, slope, _ = self.profile(np.zeros(1))
        trace = 2 * slope * np.sum(self.lengths**-2.0)
        return np.asarray(np.square(self.scores).sum(axis=1) * value - trace)
