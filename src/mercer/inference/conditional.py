r"""Tests of whether x and y are independent given z.

Features of x and of y are regressed on z, which gives residuals
:math:`\varphi(x) - \hat\mu_{x|z}(z)`. If x and y are independent given z, products of residuals
have mean 0 at every z. The statistic is the mean over pairs of rows of

.. math:: \langle \tilde\varphi(x_i), \tilde\varphi(x_j) \rangle
    \langle \tilde\psi(y_i), \tilde\psi(y_j) \rangle \, k_z(z_i, z_j) .

Regressions miss a part of what z explains, and this part looks like dependence. The residual
bootstrap repeats it: features are the fitted values plus residuals with random signs, and the same
regressions are applied to them. With data splitting (Pogodin et al., 2024), each part of the rows
has the residuals of regressions on all other parts, and the bootstrap changes signs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer.arrays import Array
from mercer.checks import require_choice
from mercer.inference.forms import centred
from mercer.inference.resampling import multipliers
from mercer.inference.results import TestResult, result_of
from mercer.inference.samples import bandwidths, features_of, kernels_for, paired, settings
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import plain
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.stationary import RBF
from mercer.memory import require_matrix
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, random_numbers

_OWNER = "conditional_independence_test"
_HYPOTHESIS = "x and y are independent given z"
# Number of bandwidths of the kernel of z among which leave-one-out chooses.
_BANDWIDTHS = 5
# Number of parts of the rows, if they are split.
_PARTS = 8
# Length-scales of x and y relative to the rule: regressions of smooth features have less error.
_SMOOTH = 2.0
# Ridges among which leave-one-out chooses, relative to the number of rows.
_RIDGES = np.logspace(-6, 0, 13)
# Ridge relative to that of leave-one-out: a smaller one misses less of what z explains.
_UNDERSMOOTHING = 0.1
# Power of 1 - leverage by which residuals are divided: 0.5 gives them the variance of the noise,
# and 1 gives leave-one-out residuals. In simulations 0.5 rejects too often and 1 has little power.
_LEVERAGE = 2 / 3
# Largest number of features of x or y, and the share of the trace that may be left out.
_FEATURES, _LEFT_OUT = 50, 1e-4


@single_blas()
def conditional_independence_test(
    x: Any,
    y: Any,
    z: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    kernel_z: Any = None,
    *,
    split: bool = False,
    n_resamples: int = 999,
    alpha: float = 0.05,
    random_state: Any = None,
) -> TestResult:
    """Test whether x and y are independent given z, by residuals of regressions on z.

    Leave-one-out chooses the kernel of z and the ridge. The residual bootstrap repeats the error of
    the regressions, so that most of it does not count as dependence.

    The level is not exact, and no test of this hypothesis with power has one (Shah and Peters,
    2020). In simulations, x and y were the same linear, quadratic or sine function of one or three
    columns of z, with independent noise of standard deviation 0.5. At the level 5%, the test
    rejected 3.5% to 6.5% of 200 samples of 80 and of 200 rows, but 12% for the quadratic function
    of three columns at 80 rows. Two constants of the test were chosen on such samples. Three other
    functions, of two columns at 120 rows and of four at 300, gave 2% to 11% of 100 samples.

    With ``split=True`` and 80 rows, the test rejected 8% to 16% of the first samples for one column
    of z, and 15% to 93% for three.

    ``details["loo_error_x"]`` and ``details["loo_error_y"]`` are the shares of the variance of the
    features that the regressions leave unexplained.

    Parameters
    ----------
    x, y, z : array-like, data frame, list or Points
        The samples, of the same number of rows. A constant z gives a test of independence.
    kernel_x, kernel_y : Kernel, str or callable, optional
        The kernels of x and of y; by default the RBF with twice the length-scales of "columns".
    kernel_z : Kernel, str, callable or list of these, optional
        The kernels of z among which leave-one-out chooses; by default the RBF at five bandwidths.
    split : bool, default=False
        Whether each eighth of the rows has the residuals of regressions on the other rows. The
        bootstrap then changes the signs of residuals alone.
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
    require_choice(_OWNER, "split", split, (False, True))
    samples = paired(_OWNER, x=x, y=y, z=z)
    *pair, given = samples
    n = len(given)
    require_matrix((n, n))
    rng = random_numbers(random_state, _OWNER)
    features = [
        features_of(_kernel_of(kernel, points, rng), points, rng, _FEATURES, _LEFT_OUT)
        for kernel, points in zip((kernel_x, kernel_y), pair, strict=True)
    ]
    if kernel_z is None:
        smooth = bandwidths(RBF("columns"), given, 1, rng)
    candidates = kernels_for(_OWNER, kernel_z, given, rng, each=_BANDWIDTHS, both=False)
    at_z: list[Kernel] = [Constant(1.0), *(smooth if kernel_z is None else candidates)]
    matrices = [_without_diagonal(kernel, given) for kernel in at_z]
    if split:
        parts = np.array_split(rng.permutation(n), min(_PARTS, n // 2))
        residuals = split_residuals(features, candidates, given, parts)
    else:
        residuals = unsplit_residuals(features, candidates, given)
    draws = zip(*(r.draws(n_resamples, rng) for r in residuals), strict=True)
    table = np.array([_statistics(first, second, matrices) for first, second in draws])
    size = float(np.prod([np.mean(np.square(f).sum(axis=1)) for f in features]))
    details = {
        "null": "wild",
        "split": split,
        "loo_error_x": residuals[0].loo_error,
        "loo_error_y": residuals[1].loo_error,
    }
    sizes = np.full(len(at_z), size)
    return result_of(_OWNER, _HYPOTHESIS, table, sizes, at_z, alpha, details)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of features that were regressed on z, and how the bootstrap repeats them.

    A bootstrap sample is ``missed + operator @ (signs * noise)``.
    """

    observed: Array  # (n, p): the residuals
    noise: Array  # (n, p): the residuals whose signs change
    loo_error: float  # the unexplained share of the variance, by leave-one-out
    missed: Array | float = 0.0  # (n, p): the part of the fitted values that a second fit misses
    operator: Array | None = None  # (n, n): maps features to residuals; None is the identity

    def draws(self, count: int, rng: np.random.RandomState) -> Iterator[Array]:
        """The residuals, and bootstrap samples of them."""
        yield self.observed
        for signs in multipliers(len(self.observed), count, rng, 0.0).T:
            signed = signs[:, None] * self.noise
            yield signed if self.operator is None else self.missed + self.operator @ signed


def unsplit_residuals(
    features: list[Array], candidates: list[Kernel], z: Points
) -> list[Residuals]:
    """Residuals of x and of y, by regressions on all rows."""
    regressions = [Regression.of(kernel, z) for kernel in candidates]
    residuals = []
    for side in features:
        best, ridge, error = chosen(regressions, side)
        operator = best.residual_operator(_UNDERSMOOTHING * ridge)
        observed = operator @ side
        # The diagonal is 1 - leverage; it is 0 at a row that is fitted whatever its value is.
        kept = np.maximum(operator.diagonal(), np.finfo(np.float64).eps)
        noise = observed / (kept**_LEVERAGE)[:, None]
        missed = operator @ (side - observed)
        residuals.append(Residuals(observed, noise, error, missed, operator))
    return residuals


def split_residuals(
    features: list[Array], candidates: list[Kernel], z: Points, parts: list[RowNumbers]
) -> list[Residuals]:
    """Residuals of x and of y, each part of the rows by regressions on all other parts."""
    observed = [side.copy() for side in features]
    errors = np.zeros((len(parts), len(features)))
    for p, test in enumerate(parts):
        train = np.setdiff1d(np.arange(len(z)), test)
        regressions = [Regression.of(kernel, z[train]) for kernel in candidates]
        for j, side in enumerate(features):
            best, ridge, errors[p, j] = chosen(regressions, side[train])
            observed[j][test] -= best.weights(z[test], ridge) @ side[train]
    return [Residuals(o, o, float(e)) for o, e in zip(observed, errors.mean(axis=0), strict=True)]


@dataclass(frozen=True, eq=False)
class Regression:
    """Kernel ridge regression on z, with an intercept that is not penalised, at any ridge."""

    kernel: Kernel
    points: Points
    means: Array  # (n,): the mean of each column of the kernel matrix K
    scale: float  # the mean of its diagonal
    values: Array  # (n,): the eigenvalues of H K H, H = I - 11'/n
    vectors: Array  # (n, n): its eigenvectors

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> Regression:
        """The regression on these rows."""
        gram = np.array(kernel(points), dtype=np.float64)
        means, scale = gram.mean(axis=0), float(np.mean(gram.diagonal()))
        values, vectors = eigh(centred(gram))
        return cls(kernel, points, means, scale, np.maximum(values, 0.0), vectors)

    def loo_errors(self, features: Array, ridges: Array) -> Array:
        """The mean squared leave-one-out error of each ridge.

        With the residuals A F, those of a fit without row i are (A F)_i / A_ii.
        """
        turned, squares = self.vectors.T @ features, np.square(self.vectors)
        errors = []
        for ridge in ridges:
            shrinkage = ridge / (self.values + ridge)
            residuals = (self.vectors * shrinkage) @ turned - features.mean(axis=0)
            kept = squares @ shrinkage - 1.0 / len(features)
            errors.append(float(np.mean(np.square(residuals / kept[:, None]).sum(axis=1))))
        return np.array(errors)

    def residual_operator(self, ridge: float) -> Array:
        """The matrix A = ridge (H K H + ridge I)^-1 - 11'/n that maps features to residuals."""
        shrinkage = ridge / (self.values + ridge)
        return np.asarray((self.vectors * shrinkage) @ self.vectors.T - 1.0 / len(self.values))

    def weights(self, points: Points, ridge: float) -> Array:
        """The weights of the training rows in predictions at new rows; their sum is 1."""
        cross = np.asarray(self.kernel(points, self.points), dtype=np.float64)
        differences = cross - self.means
        differences -= differences.mean(axis=1)[:, None]
        turned = differences @ self.vectors / (self.values + ridge)
        return np.asarray(turned @ self.vectors.T + 1.0 / len(self.points))


def chosen(regressions: list[Regression], features: Array) -> tuple[Regression, float, float]:
    """The regression and ridge of the smallest leave-one-out error, and its unexplained share."""
    n = len(features)
    variance = float(np.var(features, axis=0).sum())
    ridges = [_RIDGES * n * r.scale for r in regressions]
    errors = [r.loo_errors(features, grid) for r, grid in zip(regressions, ridges, strict=True)]
    best = min(range(len(errors)), key=lambda i: float(errors[i].min()))
    place = int(errors[best].argmin())
    share = float(errors[best][place]) / variance if variance > 0 else 0.0
    return regressions[best], float(ridges[best][place]), share


def _statistics(first: Array, second: Array, matrices: list[Array]) -> list[float]:
    """The mean over pairs of rows of the products of residuals, for each kernel of z."""
    n = len(first)
    products = (first @ first.T) * (second @ second.T)
    return [float(np.vdot(products, matrix)) / (n * (n - 1)) for matrix in matrices]


def _kernel_of(kernel: Any, points: Points, rng: np.random.RandomState) -> Kernel:
    """The kernel of x or y, resolved; a default RBF is smooth."""
    made = kernels_for(_OWNER, kernel, points, rng, each=1, both=False)[0]
    if kernel is None and isinstance(made, RBF):
        made = made.replace(length_scale=_SMOOTH * np.asarray(plain(made.length_scale)))
    return made


def _without_diagonal(kernel: Kernel, points: Points) -> Array:
    matrix = np.array(kernel(points), dtype=np.float64)
    np.fill_diagonal(matrix, 0.0)
    return matrix
