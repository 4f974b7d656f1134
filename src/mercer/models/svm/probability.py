"""Probabilities of classes, from values at rows that a machine has not learned from.

Each function f of two classes has the odds exp(a f + b). The slope a and the offset b minimise the
cross-entropy of the values that each row gets from a machine fitted without it [1]_. Its targets
are Platt's: not 1 and 0, but what the rule of succession leaves to doubt,

    (N + 1) / (N + 2) for the side of a row, which has N rows, and 1 / (N + 2) for the other,

so that a stays finite where the values separate the sides, however few the rows are. It is positive
in any case: more of f is never less probable. How the odds of several functions become
probabilities of classes is told by the scheme of the functions.

References
----------
.. [1] J. Platt (2000). Probabilistic outputs for support vector machines. Advances in Large Margin
   Classifiers.
.. [2] H.-T. Lin, C.-J. Lin, R. Weng (2007). A note on Platt's probabilistic outputs for support
   vector machines. Machine Learning 68.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from mercer.models.svm.schemes import Codes, Scheme, Sides

Array = NDArray[np.floating[Any]]

_BINS = 10
# The least slope, for values of mean 0 and variance 1.
_LEAST = 1e-3
# Newton's method ends where it promises to gain less for a row, and after so many steps, which are
# halved where they lead to more than rounding can make of what was there.
_GAIN, _STEPS, _NOISE, _HALVINGS = 1e-15, 100, 1e-13, 40
# Logarithms that differ by less are equal but for rounding; and those so far apart are those of
# different probabilities, however they are rounded.
_ROUNDING = 1e-14
_APART = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Calibration:
    """From values of functions to probabilities."""

    scheme: Scheme  # how the functions tell the classes apart
    slopes: Array  # (n_functions,): the a and b of the logarithms of odds, a f + b
    offsets: Array  # (n_functions,): the a and b of the logarithms of odds, a f + b
    error: float  # the class-wise calibration error at the rows that these were learned from

    @classmethod
    def of(cls, scheme: Scheme, values: Array, codes: Codes, weights: Array) -> Calibration:
        """The best for given values."""
        slopes, offsets = Sigmoids.of(values, scheme.sides(codes), weights).best()
        found = scheme.coupled(slopes * values + offsets)
        return cls(scheme, slopes, offsets, calibration_error(found, codes, weights))

    def log_probabilities(self, values: Array) -> Array:
        """Logarithms of the probabilities; the largest is so in each row however it is rounded."""
        found = self.scheme.coupled(self.slopes * values + self.offsets)
        return with_largest(found)


@dataclass(frozen=True, eq=False)
class Sigmoids:
    """Problems of slopes and offsets, side by side: each value belongs to one of them."""

    # (m,): of functions, in units in which those of each problem have mean 0 and variance 1
    values: Array
    # (m,): how probable the side that the function speaks for is to be, and what it counts
    targets: Array
    # (m,): how probable the side that the function speaks for is to be, and what it counts
    weights: Array
    which: Codes  # (m,): the number of the problem
    # (n_problems,): what was subtracted from the values, and what they were then divided by
    centres: Array
    # (n_problems,): what was subtracted from the values, and what they were then divided by
    units: Array

    @classmethod
    def of(cls, values: Array, sides: Sides, weights: Array) -> Sigmoids:
        """One problem for each function, of the rows on its two sides."""
        rows, signs, sizes = sides
        which = np.repeat(np.arange(len(sizes)), sizes)
        own = values[rows, which].astype(np.float64)
        relative = shares(weights[rows], which)
        sums = np.bincount(which, relative)
        centres = np.bincount(which, relative * own) / sums
        own = own - centres[which]
        units = np.sqrt(np.bincount(which, relative * own**2) / sums)
        units[units == 0] = 1.0
        targets = smoothed(which, signs > 0, weights[rows])
        return cls(own / units[which], targets, relative, which, centres, units)

    def best(self) -> tuple[Array, Array]:
        """Slopes and offsets that minimise the cross-entropies."""
        start = np.zeros_like(self._sums), logit(self._total(self.targets) / self._sums)
        slopes, offsets = self._newton(*start, np.ones(len(self._sums), dtype=bool))
        free = slopes > _LEAST
        if not free.all():
            slopes, offsets = self._newton(np.where(free, slopes, _LEAST), offsets, free)
        slopes = slopes / self.units
        return slopes, offsets - slopes * self.centres

    @cached_property
    def _sums(self) -> Array:
        return np.asarray(np.bincount(self.which, self.weights), dtype=np.float64)

    def _total(self, terms: Array) -> Array:
        """Weighted sums of each problem."""
        return np.asarray(np.bincount(self.which, self.weights * terms), dtype=np.float64)

    def _entropies(self, slopes: Array, offsets: Array) -> Array:
        odds = slopes[self.which] * self.values + offsets[self.which]
        return self._total(np.logaddexp(0, odds) - self.targets * odds)

    def _newton(
        self, slopes: Array, offsets: Array, free: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Newton's method for all problems at once, in some of which the slope stays [2]_."""
        entropies = self._entropies(slopes, offsets)
        for _ in range(_STEPS):
            along, up, gains = self._step(slopes, offsets, free)
            sizes = np.where(gains > _GAIN * self._sums, 1.0, 0.0)
            if not sizes.any():
                break
            for _ in range(_HALVINGS):
                tried = slopes + sizes * along, offsets + sizes * up
                found = self._entropies(*tried)
                worse = found > entropies + _NOISE * self._sums
                if not worse.any():
                    break
                sizes[worse] /= 2
            (slopes, offsets), entropies = tried, found
        return slopes, offsets

    def _step(
        self, slopes: Array, offsets: Array, free: NDArray[np.bool_]
    ) -> tuple[Array, Array, Array]:
        """The steps of slopes and offsets, and what they gain to second order."""
        probabilities = expit(slopes[self.which] * self.values + offsets[self.which])
        residuals = self.targets - probabilities
        curvature = probabilities * (1 - probabilities)
        ridge = 1e-12 * self._sums
        first, second = self._total(residuals * self.values) * free, self._total(residuals)
        high = self._total(curvature * self.values**2) + ridge
        cross = self._total(curvature * self.values) * free
        low = self._total(curvature) + ridge
        determinant = high * low - cross**2
        along = (low * first - cross * second) / determinant
        up = (high * second - cross * first) / determinant
        return along, up, first * along + second * up


def with_largest(log_probabilities: Array) -> Array:
    """Probabilities of which one is the largest: of classes that tie, that of the first."""
    rows = np.arange(len(log_probabilities))
    largest = log_probabilities.max(axis=1)
    first = np.argmax(log_probabilities >= largest[:, None] - _ROUNDING, axis=1)
    found = log_probabilities.astype(np.float64)
    found[rows, first] = -np.inf
    others = found.max(axis=1)
    found[rows, first] = np.maximum(log_probabilities[rows, first], others + _APART)
    return found


def shares(weights: Array, groups: Codes) -> Array:
    """Weights as shares of the largest of their group, whose squares do not overflow."""
    largest = np.zeros(groups.max() + 1)
    np.maximum.at(largest, groups, weights)
    return weights / largest[groups]


def smoothed(problems: Codes, above: NDArray[np.bool_], weights: Array) -> Array:
    """What is to be expected of rows like those of each side, after having seen so many."""
    groups = 2 * problems + above
    relative = shares(weights, groups)
    sums, squares = (np.bincount(groups, terms) for terms in (relative, relative**2))
    doubt = 1.0 / (sums[groups] ** 2 / squares[groups] + 2)
    return np.where(above, 1.0 - doubt, doubt)


def calibration_error(log_probabilities: Array, codes: Codes, weights: Array) -> float:
    r"""By how much probabilities of classes differ from shares, in bins for each class.

    .. math:: \tfrac12 \sum_c \sum_b \left| \sum_{i: p_{ic} \in b} w_i ([y_i = c] - p_{ic}) \right|
        \Big/ \sum_i w_i

    with ten bins b of equal width: the sum over classes keeps apart the errors of different
    classes, which would cancel in bins of the probability of whatever class is predicted.
    """
    probabilities = np.exp(log_probabilities)
    n_classes = probabilities.shape[1]
    relative = weights / weights.max()
    bins = np.minimum((probabilities * _BINS).astype(np.intp), _BINS - 1)
    places = bins + _BINS * np.arange(n_classes)
    missing = relative[:, None] * (np.eye(n_classes)[codes] - probabilities)
    differences = np.bincount(places.ravel(), missing.ravel())
    return float(np.abs(differences).sum() / (2 * relative.sum()))
