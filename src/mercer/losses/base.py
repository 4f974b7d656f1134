"""Base classes of losses: convex functions of the prediction, for every target."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.tree import Parameterised

#: Largest exponent of exponential losses, which keeps products from overflowing.
_LARGEST_EXPONENT = 300.0
# The distance of the quartiles of a normal distribution of variance 1.
_NORMAL_QUARTILES = 1.3489795003921634


class Kink(NamedTuple):
    """A convex function of f that is linear on both sides of one point, where it is zero.

    Attributes
    ----------
    location : ndarray
        The location of the kink.
    low, high : ndarray
        The slopes to the left and to the right, low <= 0 <= high.
    """

    location: Array
    low: Array
    high: Array


class Loss(Parameterised):
    """Base of losses l(y, f), convex in the prediction f.

    A loss of your own derives from `RegressionLoss` or `ClassificationLoss` and has ``value`` and
    ``derivative``; without a ``curvature`` the solver takes differences of the derivative.
    Parameters are declared as those of kernels are.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.Huber(delta=2.0)
    Huber(delta=2.0)
    >>> mc.losses.Huber(delta=1.0).value(0.0, 3.0)
    array(2.5)
    """

    smooth: ClassVar[bool] = True
    is_convex: ClassVar[bool] = True

    #: The remedy in the error for a loss that is not convex.
    remedy: ClassVar[str] = "pass a loss that is convex in f, such as mercer.losses.Huber()"

    def value(self, y: Any, f: Any) -> Array:
        """The loss of predicting f where y is true, element by element.

        Parameters
        ----------
        y : array-like
            Targets.
        f : array-like
            Predictions.

        Returns
        -------
        ndarray
            The losses.
        """
        raise NotImplementedError(f"{type(self).__name__} has no value(y, f)")

    def derivative(self, y: Any, f: Any) -> Array:
        """The derivative in f, with the parameters of ``value``; at a kink, a subgradient."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative(y, f)")

    def curvature(self, y: Any, f: Any) -> Array:
        """The second derivative in f, >= 0; by default from differences of the first."""
        f = np.asarray(f, dtype=np.float64)
        step = np.cbrt(np.finfo(np.float64).eps) * np.maximum(1.0, np.abs(f))
        rise = np.asarray(self.derivative(y, f + step)) - np.asarray(self.derivative(y, f - step))
        return np.asarray(np.maximum(rise / (2 * step), 0.0))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The convex conjugate at slopes s, sup_f s f - l(y, f), which may be infinite."""
        raise NotImplementedError(f"{type(self).__name__} has no conjugate(y, s)")

    def _work(self) -> float:
        """Work of a fit over that of the logistic loss or, with kinks, of the median."""
        return 1.0


class RegressionLoss(Loss):
    """Base of losses with real targets; predictions are ``mean(f)``, by default f itself.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> class LogCosh(mc.losses.RegressionLoss):
    ...     def value(self, y, f):
    ...         return np.logaddexp(f - y, y - f) - np.log(2)
    ...
    ...     def derivative(self, y, f):
    ...         return np.tanh(f - y)
    >>> model = mc.KernelMachineRegressor(mc.Linear(), loss=LogCosh(), alpha=1e-6)
    >>> model.fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).predict([[3.0]]).round(3)
    array([7.])
    """

    def check_targets(self, y: Array, weights: Array, owner: str) -> None:
        """Refuse targets for which the loss has no meaning, or no minimum.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        weights : ndarray of shape (n,)
            Weights of the rows.
        owner : str
            The name that errors begin with.
        """

    def mean(self, f: Array) -> Array:
        """The prediction that belongs to a value of the function.

        Parameters
        ----------
        f : ndarray
            Values of the fitted function.

        Returns
        -------
        ndarray
            Predictions on the scale of the targets.
        """
        return f

    def start(self, y: Array, weights: Array) -> float:
        """An initial constant, near the best one.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        weights : ndarray of shape (n,)
            Weights of the rows, positive.

        Returns
        -------
        float
            The constant, by default the weighted median.
        """
        return weighted_quantile(y, weights, 0.5)


class ClassificationLoss(Loss):
    """Base of losses with targets -1 and +1; more classes are fitted one against the rest."""

    remedy: ClassVar[str] = "pass a loss that is convex in f, such as mercer.losses.Logistic()"

    def probability(self, f: Array) -> Array:
        """The probability of +1 at a value f of the function, for losses that estimate one.

        Parameters
        ----------
        f : ndarray
            Values of the fitted function.

        Returns
        -------
        ndarray
            The probabilities, increasing in f.
        """
        raise NotImplementedError(f"{type(self).__name__} estimates no probabilities")

    def log_odds(self, f: Array) -> Array:
        """The log-odds of +1 at a value f, by default the logit of the probability.

        A formula of its own keeps digits where the probability is close to 1.
        """
        return np.asarray(logit(self.probability(f)))

    @property
    def has_probability(self) -> bool:
        """Whether the loss estimates probabilities."""
        return type(self).probability is not ClassificationLoss.probability


class PiecewiseLinear(Loss):
    """Base of losses that are sums of kinks; they are minimised by finite smoothing."""

    smooth: ClassVar[bool] = False

    def kinks(self, y: Array) -> list[Kink]:
        """The kinks for these targets, from left to right; their sum is the loss.

        Parameters
        ----------
        y : ndarray
            Targets.

        Returns
        -------
        list of Kink
            The kinks, each with arrays that broadcast with y.
        """
        raise NotImplementedError(f"{type(self).__name__} has no kinks(y)")

    def value(self, y: Any, f: Any) -> Array:
        """The loss of predicting f where y is true, element by element."""
        kinks = self.kinks(np.asarray(y))
        return np.asarray(sum(np.where(f > c, high, low) * (f - c) for c, low, high in kinks))

    def derivative(self, y: Any, f: Any) -> Array:
        """The slope; at a kink, the one nearest to 0."""
        terms = [
            np.where(f == c, np.clip(0.0, low, high), np.where(f > c, high, low))
            for c, low, high in self.kinks(np.asarray(y))
        ]
        return np.asarray(sum(terms))

    def curvature(self, y: Any, f: Any) -> Array:
        """Zero, except at kinks, where there is none."""
        return np.zeros(np.broadcast_shapes(np.shape(y), np.shape(f)))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The convex conjugate, a piecewise linear function of the slope."""
        kinks = self.kinks(np.asarray(y))
        rest = np.asarray(s - sum(kink.low for kink in kinks), dtype=np.float64)
        total = np.asarray(sum(kink.low * kink.location for kink in kinks), dtype=np.float64)
        outside = rest < -1e-12
        for kink in kinks:
            share = np.clip(rest, 0.0, kink.high - kink.low)
            total, rest = total + share * kink.location, rest - share
        return np.where(outside | (rest > 1e-12), np.inf, total)


def weighted_quantile(y: Array, weights: Array, level: float) -> float:
    """The smallest target at or below which there is the share `level` of positive weights."""
    order = np.argsort(y)
    mass = np.cumsum(weights[order])
    return float(y[order][np.searchsorted(mass, level * mass[-1])])


def spread(y: Array, weights: Array) -> float:
    """The spread of targets with positive weights, which a few outliers do not change.

    It is the distance of the quartiles over that of a normal distribution of variance 1; the
    standard deviation if the quartiles are equal; 1 if all targets are.
    """
    quartiles = weighted_quantile(y, weights, 0.75) - weighted_quantile(y, weights, 0.25)
    if quartiles > 0:
        return quartiles / _NORMAL_QUARTILES
    mean = np.average(y, weights=weights)
    deviation = float(np.sqrt(np.average((y - mean) ** 2, weights=weights)))
    return deviation if deviation > 0 and np.ptp(y) > 0 else 1.0


def exponential(f: Any) -> Array:
    """The exponential function with a cap on the exponent, exp(min(f, 300))."""
    return np.asarray(np.exp(np.minimum(f, _LARGEST_EXPONENT)))


def refuse_targets(owner: str, loss: Loss, bad: NDArray[np.bool_], y: Array, rule: str) -> None:
    """Refuse targets outside the domain of a loss; `rule` is the domain, and the remedy."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{owner}: y[{row}] = {y[row]:g}, but loss = {loss!r} needs {rule}.")
