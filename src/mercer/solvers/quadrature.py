r"""Means of the logistic function and of the softmax under a Gaussian, without random numbers.

The logistic function is analytic in a strip of half-width pi, where the trapezoidal rule with
step h is off by a multiple of exp(-2 pi^2 / h) only. For wide Gaussians the step function, whose
mean is the normal distribution function, is taken out first:

.. math::

   \int \sigma(z)\, N(z; \mu, s^2)\, dz = \Phi(\mu / s)
       + \int_0^\infty \sigma(-z) \bigl( N(-z; \mu, s^2) - N(z; \mu, s^2) \bigr)\, dz ,

whose integrand has decayed at z = 40. The softmax has one Gaussian dimension less than classes,
because it does not change when all arguments are shifted: two are covered by a grid, more by
a Sobol sequence.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import qmc

Array = NDArray[np.floating[Any]]

# Up to this deviation the trapezoidal rule is accurate to rounding.
_NARROW = 2.0
_STEP = 0.25
_REACH = 8.5

# The remainder of the step function, beyond which exp(-z) is below rounding.
_TAIL = 40.0
_TAIL_NODES = 80

# The softmax: a grid in a disc, or points of a sequence.
_GRID_STEP = 0.3
_GRID_REACH = 5.5
_SEQUENCE_LENGTH = 2**12

# Numbers in memory at a time.
_BLOCK = 2**20


def logistic_mean(mean: Array, variance: Array) -> Array:
    """Mean of the logistic function under Gaussians, to about 1e-12.

    Parameters
    ----------
    mean, variance : ndarray of shape (m,)
        Of each Gaussian.

    Returns
    -------
    ndarray of shape (m,)
        Probabilities; those of the negative means are less than these where the mean is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import quadrature
    >>> quadrature.logistic_mean(np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 4.0])).round(4)
    array([0.5   , 0.7311, 0.6477])
    """
    # The smaller of the two probabilities, by symmetry: it keeps its digits where it is tiny.
    below, deviation = -np.abs(mean), np.sqrt(variance)
    smaller = np.empty(len(below))
    narrow = deviation <= _NARROW
    for choice, rule in ((narrow, _trapezoidal), (~narrow, _remainder)):
        smaller[choice] = rule(below[choice], deviation[choice])
    # What rounding adds must not turn the two around.
    smaller = np.where(below < 0, np.clip(smaller, 0.0, np.nextafter(0.5, 0.0)), 0.5)
    probability: Array = np.where(mean > 0, 1 - smaller, smaller)
    return probability


def _trapezoidal(mean: Array, deviation: Array) -> Array:
    nodes = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    weights = np.exp(-(nodes**2) / 2)
    values = expit(mean[:, None] + deviation[:, None] * nodes)
    total: Array = values @ (weights / weights.sum())
    return total


def _remainder(mean: Array, deviation: Array) -> Array:
    nodes, weights = np.polynomial.legendre.leggauss(_TAIL_NODES)
    z, weights = _TAIL / 2 * (nodes + 1), _TAIL / 2 * weights
    m, s = mean[:, None], deviation[:, None]
    below, above = (np.exp(-(((side * z - m) / s) ** 2) / 2) for side in (-1, 1))
    missing = (below - above) @ (weights * expit(-z)) / (np.sqrt(2 * np.pi) * deviation)
    total: Array = ndtr(mean / deviation) + missing
    return total


def softmax_mean(mean: Array, covariance: Array) -> Array:
    """Mean of the softmax under Gaussians.

    The error is below 1e-5 for three classes and of the order of 1e-4 for more, where the arguments
    have a deviation of about one; it grows with the deviation.

    Parameters
    ----------
    mean : ndarray of shape (m, C)
        Of each Gaussian.
    covariance : ndarray of shape (m, C, C)
        Of each Gaussian.

    Returns
    -------
    ndarray of shape (m, C)
        Probabilities; rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import quadrature
    >>> mean = np.array([[1.0, 0.0, -1.0]])
    >>> quadrature.softmax_mean(mean, np.zeros((1, 3, 3))).round(4)
    array([[0.6652, 0.2447, 0.09  ]])
    >>> quadrature.softmax_mean(mean, 4 * np.eye(3)[None]).round(4)
    array([[0.515 , 0.3094, 0.1756]])
    """
    n_classes = mean.shape[1]
    contrasts = helmert(n_classes)
    spread = _root(contrasts @ covariance @ contrasts.T) @ contrasts
    nodes, weights = _nodes(n_classes - 1)
    probability = np.empty(mean.shape)
    step = max(1, _BLOCK // (len(nodes) * n_classes))
    for start in range(0, len(mean), step):
        rows = slice(start, start + step)
        values = softmax(mean[rows, None, :] + nodes @ spread[rows], axis=-1)
        probability[rows] = np.einsum("s,msc->mc", weights, values)
    # The weights sum to 1 up to rounding.
    total: Array = probability / probability.sum(axis=1, keepdims=True)
    return total


def _root(matrices: Array) -> Array:
    """The symmetric square roots: unlike eigenvectors, they are continuous in the matrices."""
    values, vectors = np.linalg.eigh(matrices)
    scaled = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]
    root: Array = scaled @ vectors.transpose(0, 2, 1)
    return root


@cache
def _nodes(dimension: int) -> tuple[Array, Array]:
    """Nodes and weights for the mean under a standard Gaussian."""
    if dimension > 2:
        return _sequence(dimension)
    axis = np.arange(_GRID_STEP / 2, _GRID_REACH, _GRID_STEP)
    axis = np.concatenate([-axis[::-1], axis])
    grid = np.stack(np.meshgrid(*[axis] * dimension), axis=-1).reshape(-1, dimension)
    squares = (grid**2).sum(axis=1)
    inside = squares < _GRID_REACH**2
    weights = np.exp(-squares[inside] / 2)
    return grid[inside], weights / weights.sum()


def _sequence(dimension: int) -> tuple[Array, Array]:
    # Shifted by half a step, so that each coordinate by itself is a midpoint rule.
    uniform = qmc.Sobol(dimension, scramble=False).random(_SEQUENCE_LENGTH)
    nodes: Array = ndtri(uniform + 0.5 / _SEQUENCE_LENGTH)
    return nodes, np.full(_SEQUENCE_LENGTH, 1 / _SEQUENCE_LENGTH)
