r"""Tests of whether x and y are independent given z.

Features of x and of y are regressed on z, which gives residuals
:math:`\varphi(x) - \hat\mu_{x|z}(z)`. If x and y are independent given z, products of residuals
have mean 0 at every z. The statistic is the mean over pairs of rows of

.. math:: \langle \tilde\varphi(x_i), \tilde\varphi(x_j) \rangle
    \langle \tilde\psi(y_i), \tilde\psi(y_j) \rangle \, k_z(z_i, z_j) .

Each part of the rows has the residuals of a regression on all other parts, so that its error does
not depend on the noise of these rows (data splitting, Pogodin et al., 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer.arrays import Array
from mercer.inference.forms import SymmetricBlocks, centred
from mercer.inference.resampling import multipliers
from mercer.inference.results import TestResult, result_of
from mercer.inference.samples import bandwidths, kernels_for, paired, settings
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import plain
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.stationary import RBF
from mercer.linalg.pivoted_cholesky import pivoted_cholesky
from mercer.memory import require_matrix
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, random_numbers

_OWNER = "conditional_independence_test"
_HYPOTHESIS = "x and y are independent given z"
# Number of bandwidths of the kernel of z among which leave-one-out chooses.
_BANDWIDTHS = 5
# Number of parts of the rows.
_PARTS = 8
# Length-scales of x and y relative to the rule: regressions of smooth features have less error.
_SMOOTH = 2.0
# Ridges among which leave-one-out chooses, relative to the number of rows.
_RIDGES = np.logspace(-6, 0, 13)
# Largest number of features of x or y from which leave-one-out errors are computed.
_FEATURES = 50


def conditional_independence_test(
    x: Any,
    y: Any,
    z: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    kernel_z: Any = None,
    *,
    n_resamples: int = 999,
    alpha: float = 0.05,
    random_state: Any = None,
) -> TestResult:
    """Test whether x and y are independent given z, by residuals of regressions on z.

    The rows are split in eight parts. Regressions are fitted without a part and applied to it.
    Leave-one-out chooses their ridge and the kernel of z. If z explains what the regressions miss,
    the test rejects too often: with three columns of z and 80 rows, up to three times as often as
    `alpha` says. ``details["loo_error_x"]`` and ``details["loo_error_y"]`` report the share of the
    variance of the features that the regressions leave unexplained.

    Parameters
    ----------
    x, y, z : array-like, data frame, list or Points
        The samples, of the same number of rows. A constant z gives a test of independence.
    kernel_x, kernel_y : Kernel, str or callable, optional
        The kernels of x and of y; by default the RBF with twice the length-scales of "columns".
    kernel_z : Kernel, str, callable or list of these, optional
        The kernels of z among which leave-one-out chooses; by default the RBF at five bandwidths.
    n_resamples : int, default=999
        The number of bootstrap samples.
    alpha : float, default=0.05
        The level.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Returns
    -------
    TestResult
        With ``statistic``, ``pvalue``, ``null_distribution``, ``reject`` and ``details``.

    References
    ----------
    Zhang, Peters, Janzing and Schoelkopf, Kernel-based conditional independence test, 2011.
    Pogodin, Schrab, Li, Sutherland and Gretton, Practical kernel tests of conditional independence,
    2024. Shah and Peters, The hardness of conditional independence testing, 2020.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> z, a, b = np.random.default_rng(0).normal(size=(3, 200, 1))
    >>> test = mc.inference.conditional_independence_test
    >>> test(z + a, z + b, z, random_state=0).reject
    False
    >>> test(z + a, z + a + b, z, random_state=0).reject
    True
    """
    settings(_OWNER, n_resamples, alpha)
    samples = paired(_OWNER, x=x, y=y, z=z)
    n = len(samples[0])
    require_matrix((n, n))
    rng = random_numbers(random_state, _OWNER)
    first, second = (
        _matrix(_kernel_of(k, p, rng), p)
        for k, p in zip((kernel_x, kernel_y), samples, strict=False)
    )
    if kernel_z is None:
        smooth = bandwidths(RBF("columns"), samples[2], 1, rng)
    candidates = kernels_for(_OWNER, kernel_z, samples[2], rng, each=_BANDWIDTHS, both=False)
    parts = np.array_split(rng.permutation(n), min(_PARTS, n // 2))
    with single_blas():
        residuals = [Residuals.of(m, candidates, samples[2], parts) for m in (first, second)]
        grams = [r.gram for r in residuals]
    at_z: list[Kernel] = [Constant(1.0), *(smooth if kernel_z is None else candidates)]
    vectors = np.hstack([np.ones((n, 1)), multipliers(n, n_resamples, rng, 0.0)])
    statistics = []
    for kernel in at_z:
        matrix = grams[0] * grams[1] * _matrix(kernel, samples[2])
        np.fill_diagonal(matrix, 0.0)
        statistics.append(SymmetricBlocks.of_array(matrix).forms(vectors) / (n * (n - 1)))
    size = float(np.mean(first.diagonal()) * np.mean(second.diagonal()))
    details = {
        "null": "wild",
        "loo_error_x": residuals[0].loo_error,
        "loo_error_y": residuals[1].loo_error,
    }
    sizes = np.full(len(at_z), size)
    table = np.stack(statistics, axis=1)
    return result_of(_OWNER, _HYPOTHESIS, table, sizes, at_z, alpha, details)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of a kernel regression of features on z, each part by all other parts."""

    gram: Array  # (n, n): the inner products of residuals
    loo_error: float  # the unexplained share of the variance, by leave-one-out

    @classmethod
    def of(
        cls,
        matrix: Array,
        candidates: list[Kernel],
        z: Points,
        parts: list[RowNumbers],
    ) -> Residuals:
        """The residuals of the features whose inner products are given."""
        n = len(matrix)
        operator = np.eye(n)
        errors = []
        for test in parts:
            train = np.setdiff1d(np.arange(n), test)
            fits = [Smoother.of(matrix[np.ix_(train, train)], k, z[train]) for k in candidates]
            best = min(fits, key=lambda fit: fit.loo_error)
            operator[np.ix_(test, train)] = -best.weights(z[test])
            errors.append(best.loo_error)
        return cls(operator @ matrix @ operator.T, float(np.mean(errors)))


@dataclass(frozen=True, eq=False)
class Smoother:
    """Kernel ridge regression of features on z, with an intercept that is not penalised."""

    kernel: Kernel
    points: Points
    means: Array  # (n,): the mean of each column of the kernel matrix
    inverse: Array  # (n, n): (H K H + ridge I)^-1
    ridge: float
    loo_error: float

    @classmethod
    def of(cls, targets: Array, kernel: Kernel, points: Points) -> Smoother:
        """The regression with the ridge of the smallest leave-one-out error.

        The residuals are A Phi with A = ridge (H K H + ridge I)^-1 - 11'/n. Those without a row are
        A Phi / A_ii.
        """
        n = len(targets)
        gram = _matrix(kernel, points)
        means, scale = gram.mean(axis=0), float(np.mean(gram.diagonal()))
        values, vectors = eigh(centred(gram))
        values = np.maximum(values, 0.0)
        size = min(_FEATURES, n)
        low_rank = pivoted_cholesky(lambda c: targets[:, c], targets.diagonal(), size, rng=0)
        features = low_rank.factor - low_rank.factor.mean(axis=0)
        variance = float(np.mean(np.square(features).sum(axis=1)))
        turned = vectors.T @ features
        ridges = _RIDGES * n * scale
        errors = []
        for ridge in ridges:
            shrinkage = ridge / (values + ridge)
            residuals = (vectors * shrinkage) @ turned
            kept = np.square(vectors) @ shrinkage - 1.0 / n
            errors.append(float(np.mean(np.square(residuals / kept[:, None]).sum(axis=1))))
        best = int(np.argmin(errors))
        inverse = (vectors / (values + ridges[best])) @ vectors.T
        share = errors[best] / variance if variance > 0 else 0.0
        return cls(kernel, points, means, inverse, float(ridges[best]), share)

    def weights(self, points: Points) -> Array:
        """The weights of the training rows in predictions at new rows; their sum is 1."""
        cross = np.asarray(self.kernel(points, self.points), dtype=np.float64)
        differences = cross - self.means
        differences -= differences.mean(axis=1)[:, None]
        return np.asarray(differences @ self.inverse + 1.0 / len(self.points))


def _kernel_of(kernel: Any, points: Points, rng: np.random.RandomState) -> Kernel:
    """The kernel of x or y, resolved; a default RBF is smooth."""
    made = kernels_for(_OWNER, kernel, points, rng, each=1, both=False)[0]
    if kernel is None and isinstance(made, RBF):
        made = made.replace(length_scale=_SMOOTH * np.asarray(plain(made.length_scale)))
    return made


def _matrix(kernel: Kernel, points: Points) -> Array:
    return np.array(kernel(points), dtype=np.float64)
