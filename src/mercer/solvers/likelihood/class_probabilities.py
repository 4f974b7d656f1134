r"""Means of the logistic function and of the softmax under a Gaussian, without random numbers.

The logistic function is analytic in a strip of half-width pi, where the trapezoidal rule with
step h is off by a multiple of exp(-2 pi^2 / h) only. For wide Gaussians the step function, whose
mean is the normal distribution function, is taken out first:

.. math::

   \int \sigma(z)\, N(z; \mu, s^2)\, dz = \Phi(\mu / s)
       + \int_0^\infty \sigma(-z) \bigl( N(-z; \mu, s^2) - N(z; \mu, s^2) \bigr)\, dz ,

whose integrand has decayed at z = 40.

The softmax does not change when all arguments are shifted, so that three classes leave two Gaussian
dimensions. Of these one is done in closed form: with d = f_2 - f_3 and m = (f_2 + f_3) / 2 - f_1,

.. math:: P(1) = E_d\, E_{m \mid d}\; \sigma\bigl( -m - \log (2 \cosh \tfrac d2) \bigr) ,

and the logistic function is a mixture of normal distribution functions, the root of whose variance
is twice a Kolmogorov variable [1]_. The integrand in d changes where the Gaussian does, at d = 0,
and where the argument crosses zero on either side of it: between such points, Gauss's rule is
accurate whatever the variances are. More than three classes are averaged over a Sobol sequence.

References
----------
.. [1] D. F. Andrews, C. L. Mallows (1974). Scale mixtures of normal distributions. Journal of the
   Royal Statistical Society B 36(1).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.linalg import helmert
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import qmc

from mercer.arrays import Array
from mercer.sampling import blocks

# Standard deviation up to which the trapezoidal rule is accurate to rounding.
_NARROW = 2.0
# Step of the trapezoidal rule, in standard deviations.
_STEP = 0.25
# Range of the trapezoidal rule, in standard deviations.
_REACH = 8.5
# Upper end of the integral of the remainder: exp(-z) is below rounding beyond it.
_TAIL = 40.0
# Gauss nodes of the integral of the remainder.
_TAIL_NODES = 80
# Normal distribution functions in the mixture that is the logistic function.
_MIXTURE = 6
# Gauss nodes between two break points.
_GAUSS_NODES = 6
# Break points in standard deviations of the Gaussian.
_BREAKS_OF_GAUSSIAN = np.array([-5.5, -2.5, 0.0, 2.5, 5.5])
# Break points in units of the difference d.
_BREAKS_OF_DIFFERENCE = np.array([-6.0, 0.0, 6.0])
# Break points in units of the width over which the argument changes its sign.
_BREAKS_OF_SIGN = np.array([-4.0, 0.0, 4.0])
_LOGISTIC_VARIANCE = np.pi**2 / 3
# Weight of a node below which it is left out.
_NEGLIGIBLE = 1e-9
# Points of the Sobol sequence for more than three classes.
_SEQUENCE_LENGTH = 2**12
# Values in memory at a time.
_BLOCK = 2**18


def logistic_mean(mean: Array, variance: Array) -> Array:
    """Mean of the logistic function under Gaussians, to about 1e-12."""
    # By symmetry, compute the smaller of the two probabilities, which keeps its relative accuracy.
    below, deviation = -np.abs(mean), np.sqrt(variance)
    smaller = np.empty(len(below))
    narrow = deviation <= _NARROW
    for choice, rule in ((narrow, _trapezoidal), (~narrow, _remainder)):
        smaller[choice] = rule(below[choice], deviation[choice])
    # Rounding must not make the smaller one the larger.
    smaller = np.where(below < 0, np.clip(smaller, 0.0, np.nextafter(0.5, 0.0)), 0.5)
    return np.asarray(np.where(mean > 0, 1 - smaller, smaller))


def _trapezoidal(mean: Array, deviation: Array) -> Array:
    nodes = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    weights = np.exp(-(nodes**2) / 2)
    values = expit(mean[:, None] + deviation[:, None] * nodes)
    return np.asarray(values @ (weights / weights.sum()))


def _remainder(mean: Array, deviation: Array) -> Array:
    nodes, weights = np.polynomial.legendre.leggauss(_TAIL_NODES)
    z, weights = _TAIL / 2 * (nodes + 1), _TAIL / 2 * weights
    m, s = mean[:, None], deviation[:, None]
    below, above = (np.exp(-(((side * z - m) / s) ** 2) / 2) for side in (-1, 1))
    missing = (below - above) @ (weights * expit(-z)) / (np.sqrt(2 * np.pi) * deviation)
    return np.asarray(ndtr(mean / deviation) + missing)


def softmax_mean(mean: Array, covariance: Array) -> Array:
    """Mean of the softmax of three classes or more under Gaussians.

    The error is below 1e-5 for three classes, however large the variances are. For more it is of
    the order of 1e-4 where the arguments have a deviation of about one, and of 1e-2 where they have
    a much larger one.
    """
    n_classes, rule, nodes = mean.shape[1], _over_sequence, _SEQUENCE_LENGTH
    if n_classes == 3:
        rule, nodes = _of_three, 13 * _GAUSS_NODES
    parts = blocks(len(mean), step=max(1, _BLOCK // (nodes * n_classes)))
    return np.concatenate([rule(mean[rows], covariance[rows]) for rows in parts])


def _of_three(mean: Array, covariance: Array) -> Array:
    """The two less likely classes by integration, for relative accuracy; the third is the rest."""
    order = np.argsort(mean, axis=1)
    mean = np.take_along_axis(mean, order, axis=1)
    covariance = covariance[np.arange(len(mean))[:, None, None], order[:, :, None], order[:, None]]
    first, second = (_share(mean @ c.T, c @ covariance @ c.T) for c in _CONTRASTS)
    sorted_ = np.column_stack([first, second, np.maximum(1 - first - second, 0)])
    probability = np.empty(mean.shape)
    np.put_along_axis(probability, order, sorted_, axis=1)
    return np.asarray(probability / probability.sum(axis=1, keepdims=True))


# Contrasts d and m of the latent functions, for the first class and for the second.
_CONTRASTS = (
    np.array([[0.0, 1.0, -1.0], [-1.0, 0.5, 0.5]]),
    np.array([[1.0, 0.0, -1.0], [0.5, -1.0, 0.5]]),
)


def _share(mean: Array, covariance: Array) -> Array:
    """E sigma(-m - log(2 cosh(d / 2))) for Gaussian (d, m): m = mean + slope t + rest."""
    (middle, centre), deviation = mean.T[:, :, None], np.sqrt(covariance[:, 0, :1])
    slope = np.zeros_like(deviation)
    np.divide(covariance[:, 0, 1:], deviation, out=slope, where=deviation > 0)
    rest = np.clip(covariance[:, 1, 1:] - slope**2, 0, None)
    t, weights = _between(_breaks(middle, deviation, centre, slope, rest))
    difference = np.abs(middle + deviation * t)
    argument = centre + slope * t + difference / 2 + np.log1p(np.exp(-difference))
    # Break points beyond the range of the Gaussian coincide at its ends, with no weight between.
    used = weights > _NEGLIGIBLE
    rows, argument = np.nonzero(used)[0], argument[used]
    total = np.zeros(argument.shape)
    for variance, weight in zip(*_logistic_mixture(), strict=True):
        total += weight * ndtr(argument * (-1 / np.sqrt(variance + rest[:, 0]))[rows])
    shares = np.bincount(rows, total * weights[used], minlength=len(mean))
    return shares.astype(np.float64, copy=False)


def _breaks(middle: Array, deviation: Array, centre: Array, slope: Array, rest: Array) -> Array:
    """Break points of the integrand, in standard deviations of the Gaussian, sorted."""
    reach = _BREAKS_OF_GAUSSIAN[-1]
    width = np.sqrt(rest + _LOGISTIC_VARIANCE)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        breaks = [(_BREAKS_OF_DIFFERENCE - middle) / deviation]
        for side in (-0.5, 0.5):
            along = slope + side * deviation
            breaks.append((_BREAKS_OF_SIGN * width - centre - side * middle) / along)
    inside = np.clip(np.nan_to_num(np.hstack(breaks)), -reach, reach)
    fixed = np.broadcast_to(_BREAKS_OF_GAUSSIAN, (len(middle), len(_BREAKS_OF_GAUSSIAN)))
    return np.sort(np.hstack([fixed, inside]), axis=1)


def _between(breaks: Array) -> tuple[Array, Array]:
    """Gauss nodes between break points, and their weights under a standard Gaussian."""
    nodes, weights = np.polynomial.legendre.leggauss(_GAUSS_NODES)
    half = np.diff(breaks, axis=1)[:, :, None] / 2
    t = (breaks[:, :-1, None] + half * (1 + nodes)).reshape(len(breaks), -1)
    density = (half * weights).reshape(t.shape) * np.exp(-(t**2) / 2)
    return t, density / density.sum(axis=1, keepdims=True)


@cache
def _logistic_mixture() -> tuple[Array, Array]:
    """Variances v and weights w with sigma(x) = sum w Phi(x / sqrt(v)), to 2e-6.

    They are a Gauss rule in the logarithm of a Kolmogorov variable.
    """
    logs = np.linspace(np.log(0.15), np.log(5.0), 2001)
    squares, j = np.exp(2 * logs), np.arange(1, 61)[:, None]
    terms = (-1.0) ** (j + 1) * j**2 * np.exp(-2 * j**2 * squares)
    density = np.clip(squares * terms.sum(axis=0), 0, None)
    root = np.sqrt(density / density.sum())
    basis = np.linalg.qr(root[:, None] * np.vander(logs, _MIXTURE, increasing=True))[0]
    nodes, vectors = np.linalg.eigh(basis.T @ (logs[:, None] * basis))
    return 4 * np.exp(2 * nodes), vectors[0] ** 2


def _over_sequence(mean: Array, covariance: Array) -> Array:
    contrasts = helmert(mean.shape[1])
    root = _root(contrasts @ covariance @ contrasts.T) @ contrasts
    arguments = mean[:, None, :] + _sequence(mean.shape[1] - 1) @ root
    return np.asarray(softmax(arguments, axis=-1).mean(axis=1))


def _root(matrices: Array) -> Array:
    """Symmetric square roots, which are continuous in the matrices, unlike eigenvectors."""
    values, vectors = np.linalg.eigh(matrices)
    scaled = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]
    return np.asarray(scaled @ vectors.transpose(0, 2, 1))


@cache
def _sequence(dimension: int) -> Array:
    """A Sobol sequence mapped to a standard Gaussian."""
    # Shifted by half a step, so that each coordinate by itself is a midpoint rule.
    uniform = qmc.Sobol(dimension, scramble=False).random(_SEQUENCE_LENGTH)
    return np.asarray(ndtri(uniform + 0.5 / _SEQUENCE_LENGTH))
