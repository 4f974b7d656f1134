"""Losses for two classes, coded as -1 and +1, and the multinomial loss for several."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax, xlogy

from mercer.arrays import Array
from mercer.losses.base import ClassificationLoss, Kink, Loss, PiecewiseLinear, exponential


class Logistic(ClassificationLoss):
    """The negative log-likelihood of classes with log-odds f, log(1 + exp(-y f)).

    Three and more classes are fitted jointly, by `Multinomial`.

    Examples
    --------
    >>> import mercer as mc
    >>> round(float(mc.losses.Logistic().value(1.0, 0.0)), 4)
    0.6931
    """

    def value(self, y: Any, f: Any) -> Array:
        """The loss."""
        return np.asarray(np.logaddexp(0.0, -(y * f)))

    def derivative(self, y: Any, f: Any) -> Array:
        """The probability of the other class, with the sign of that class."""
        return np.asarray(-y * expit(-(y * f)))

    def curvature(self, y: Any, f: Any) -> Array:
        """The product of both probabilities."""
        return np.asarray(expit(y * f) * expit(-(y * f)))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The negative entropy of p = -y s in [0, 1]."""
        p = np.asarray(-y * s)
        inside = (p >= -1e-12) & (p <= 1 + 1e-12)
        p = np.clip(p, 0.0, 1.0)
        return np.where(inside, xlogy(p, p) + xlogy(1 - p, 1 - p), np.inf)

    def probability(self, f: Array) -> Array:
        """The logistic function of f."""
        return np.asarray(expit(f))

    def log_odds(self, f: Array) -> Array:
        """The value f itself."""
        return f


class Multinomial(Loss):
    """The negative log-likelihood of several classes, log sum_c exp(f_c) - f_y.

    Targets are codes 0, 1, ... and predictions have a column for each class.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> mc.losses.Multinomial().value(np.array([2]), np.zeros((1, 3))).round(4)
    array([1.0986])
    """

    def value(self, y: Any, f: Any) -> Array:
        """The loss of each row."""
        # Use differences to the true class, so that a small loss keeps its digits.
        codes = np.asarray(y)[:, None]
        others = f - np.take_along_axis(f, codes, axis=1)
        np.put_along_axis(others, codes, -np.inf, axis=1)
        return np.asarray(np.logaddexp(0.0, logsumexp(others, axis=1)))

    def derivative(self, y: Any, f: Any) -> Array:
        """The probabilities, minus one for the true class."""
        gradient = self.probability(f)
        rows = np.arange(len(gradient))
        gradient[rows, y] = 0.0
        gradient[rows, y] = -gradient.sum(axis=1)
        return gradient

    def probability(self, f: Array) -> Array:
        """The softmax of each row of f."""
        return np.asarray(softmax(f, axis=1))


class Hinge(ClassificationLoss, PiecewiseLinear):
    """The loss of support vector machines, max(1 - y f, 0).

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.Hinge().value(1.0, [-1.0, 0.5, 3.0])
    array([2. , 0.5, 0. ])
    """

    def kinks(self, y: Array) -> list[Kink]:
        """One kink, where f is the class."""
        return [Kink(y, np.minimum(-y, 0.0), np.maximum(-y, 0.0))]

    def _work(self) -> float:
        return 0.33  # most rows are beyond the margin


class SquaredHinge(ClassificationLoss):
    """Half the squared hinge, max(1 - y f, 0)^2 / 2.

    The half is that of the squared loss: a machine with ``C`` and without it has C = 1/(2 alpha).

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.SquaredHinge().value(1.0, -1.0))
    2.0
    """

    def value(self, y: Any, f: Any) -> Array:
        """The loss."""
        return np.asarray(np.maximum(1 - y * np.asarray(f), 0.0) ** 2 / 2)

    def derivative(self, y: Any, f: Any) -> Array:
        """The margin violation, with the sign of the other class."""
        return np.asarray(-y * np.maximum(1 - y * np.asarray(f), 0.0))

    def curvature(self, y: Any, f: Any) -> Array:
        """One where the margin is less than 1."""
        return np.asarray(y * np.asarray(f) < 1, dtype=np.float64)

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, v + v^2 / 2 with v = y s <= 0."""
        v = np.asarray(y * s)
        return np.where(v <= 1e-12, v + v * v / 2, np.inf)

    def _work(self) -> float:
        return 0.4  # rows beyond the margin have no second derivative


class Exponential(ClassificationLoss):
    """The loss of boosting, exp(-y f); f is half the log-odds.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.Exponential().value(1.0, 0.0))
    1.0
    """

    def value(self, y: Any, f: Any) -> Array:
        """The loss."""
        return exponential(-(y * f))

    def derivative(self, y: Any, f: Any) -> Array:
        """The loss, with the sign of the other class."""
        return np.asarray(-y * exponential(-(y * f)))

    def curvature(self, y: Any, f: Any) -> Array:
        """The loss itself."""
        return exponential(-(y * f))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, v - v log(-v) with v = y s <= 0."""
        v = np.asarray(y * s)
        size = np.maximum(-v, 0.0)
        return np.where(v <= 0, xlogy(size, size) - size, np.inf)

    def probability(self, f: Array) -> Array:
        """The logistic function of 2 f."""
        return np.asarray(expit(2 * f))

    def log_odds(self, f: Array) -> Array:
        """The double of f."""
        return 2 * f
