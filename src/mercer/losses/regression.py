"""Losses for real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.parameters import NonNegative, Positive, Real
from mercer.losses.base import (
    Kink,
    PiecewiseLinear,
    RegressionLoss,
    exponential,
    refuse_targets,
    weighted_quantile,
)

_LOGARITHM_OF_LARGEST = float(np.log(np.finfo(np.float64).max))


class Squared(RegressionLoss):
    """Half the squared residual, (y - f)^2 / 2: estimates the mean.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.Squared().value(1.0, 4.0))
    4.5
    """

    def value(self, y: Any, f: Any) -> Array:
        """The loss, (f - y)^2 / 2."""
        return np.asarray(f - y) ** 2 / 2

    def derivative(self, y: Any, f: Any) -> Array:
        """The residual with the sign changed, f - y."""
        return np.asarray(f - y)

    def curvature(self, y: Any, f: Any) -> Array:
        """One."""
        return np.ones(np.broadcast_shapes(np.shape(y), np.shape(f)))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, s^2 / 2 + s y."""
        return np.asarray(s * s / 2 + s * y)

    def start(self, y: Array, weights: Array) -> float:
        """The weighted mean."""
        return float(np.average(y, weights=weights))

    def _work(self) -> float:
        return 1 / 7  # one Newton step


class Huber(RegressionLoss):
    """Quadratic up to a residual of delta, linear beyond: the mean, robust to outliers.

    Parameters
    ----------
    delta : float, default=1.35
        Residuals up to delta count as (y - f)^2 / 2, larger ones as delta (|y - f| - delta / 2).

    References
    ----------
    .. [1] P. J. Huber (1964). Robust estimation of a location parameter. Annals of Mathematical
       Statistics 35(1).

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.Huber(delta=1.0).derivative(0.0, 5.0))
    1.0
    """

    delta = Positive(1.35, learned=False)

    def value(self, y: Any, f: Any) -> Array:
        """The loss."""
        size = np.abs(f - y)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - inner / 2))

    def derivative(self, y: Any, f: Any) -> Array:
        """The residual with the sign changed, cut at delta."""
        return np.asarray(np.clip(f - y, -self.delta, self.delta))

    def curvature(self, y: Any, f: Any) -> Array:
        """One for residuals up to delta, zero beyond."""
        return np.asarray(np.abs(f - y) <= self.delta, dtype=np.float64)

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, s^2 / 2 + s y for abs(s) <= delta."""
        inside = np.abs(s) <= self.delta * (1 + 1e-12)
        return np.where(inside, s * s / 2 + s * y, np.inf)

    def _work(self) -> float:
        return 4 / 7  # four Newton steps


class Absolute(RegressionLoss, PiecewiseLinear):
    """The absolute residual: estimates the median.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.Absolute().value(1.0, 4.0)
    array(3.)
    """

    def kinks(self, y: Array) -> list[Kink]:
        """One kink at the target, with slopes -1 and 1."""
        one = np.ones(np.shape(y))
        return [Kink(y, -one, one)]


class EpsilonInsensitive(RegressionLoss, PiecewiseLinear):
    """The absolute residual beyond epsilon, max(|y - f| - epsilon, 0): support vector regression.

    Parameters
    ----------
    epsilon : float, default=0.1
        Largest residual without loss.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.EpsilonInsensitive(epsilon=1.0).value(1.0, 4.0)
    array(2.)
    """

    epsilon = NonNegative(0.1, learned=False)

    def kinks(self, y: Array) -> list[Kink]:
        """Two kinks, epsilon below and above the target."""
        one, zero = np.ones(np.shape(y)), np.zeros(np.shape(y))
        return [Kink(y - self.epsilon, -one, zero), Kink(y + self.epsilon, zero, one)]


class _Level(Real):
    """A number between 0 and 1, both excluded, or several."""

    _noun = "a number between 0 and 1"

    def _rule(self) -> str:
        return f"0 < {self.name} < 1"

    def _satisfied(self, value: float | Array) -> NDArray[np.bool_]:
        return np.asarray((np.asarray(value) > 0) & (np.asarray(value) < 1))


class Pinball(RegressionLoss, PiecewiseLinear):
    r"""The loss of quantiles: quantile (y - f) above f, (1 - quantile) (f - y) below.

    Parameters
    ----------
    quantile : float or array of shape (n_quantiles,), default=0.5
        Which quantile of the target is estimated. With several, one function is fitted for each,
        and at the training points a higher quantile is never below a lower one.

    References
    ----------
    .. [1] R. Koenker, G. Bassett (1978). Regression quantiles. Econometrica 46(1).
    .. [2] I. Takeuchi, Q. V. Le, T. D. Sears, A. J. Smola (2006). Nonparametric quantile
       estimation. Journal of Machine Learning Research 7.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.Pinball(quantile=0.9).value(1.0, [0.0, 2.0])
    array([0.9, 0.1])
    """

    quantile = _Level(0.5, ndim=1, learned=False)

    def _check(self) -> None:
        levels = np.atleast_1d(self.quantile)
        if not levels.size or len(np.unique(levels)) < levels.size:
            raise ParameterError(
                f"Pinball: quantile = {levels.tolist()} is empty or names a quantile twice; pass "
                "different numbers between 0 and 1, such as [0.1, 0.5, 0.9]."
            )

    @property
    def levels(self) -> Array:
        """The quantiles, also a single one, as an array."""
        return np.atleast_1d(self.quantile)

    @property
    def several(self) -> bool:
        """Whether quantiles are a list, so that predictions have one column per quantile."""
        return np.ndim(self.quantile) == 1

    def kinks(self, y: Array) -> list[Kink]:
        """One kink at the target; for several quantiles, columns."""
        target = np.asarray(y)[..., None] if self.several else np.asarray(y)
        shape = np.broadcast_shapes(target.shape, np.shape(self.quantile))
        level = np.broadcast_to(self.quantile, shape)
        return [Kink(np.broadcast_to(target, level.shape), -level, 1 - level)]

    def start(self, y: Array, weights: Array) -> float:
        """The weighted quantile, the middle one of several."""
        return weighted_quantile(y, weights, float(np.median(self.levels)))

    def _work(self) -> float:
        # Few slopes are free for extreme quantiles.
        return float(np.mean(4 * self.levels * (1 - self.levels)))


class _LogLink(RegressionLoss):
    """Losses of a positive mean, exp(f)."""

    def mean(self, f: Array) -> Array:
        """The mean, exp(f), at most the largest finite number."""
        return np.asarray(np.exp(np.minimum(f, _LOGARITHM_OF_LARGEST)))

    def start(self, y: Array, weights: Array) -> float:
        """The logarithm of the weighted mean."""
        return float(np.log(np.average(y, weights=weights)))


class Poisson(_LogLink):
    """The negative log-likelihood of counts with mean exp(f), up to a constant: exp(f) - y f.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.Poisson().derivative(3.0, 0.0))
    -2.0
    """

    def check_targets(self, y: Array, weights: Array, owner: str) -> None:
        """Refuse negative targets, and targets that are all zero."""
        refuse_targets(
            owner, self, y < 0, y, "targets >= 0; use Squared() or Huber() for negative ones"
        )
        if not np.any((y > 0) & (weights > 0)):
            raise DataError(
                f"{owner}: all targets of positive weight are 0, so that the mean exp(f) of "
                f"loss = {self!r} would be 0 and f minus infinity; pass data with a positive count."
            )

    def value(self, y: Any, f: Any) -> Array:
        """The loss, exp(f) - y f."""
        return np.asarray(exponential(f) - y * f)

    def derivative(self, y: Any, f: Any) -> Array:
        """The mean minus the target."""
        return np.asarray(exponential(f) - y)

    def curvature(self, y: Any, f: Any) -> Array:
        """The mean."""
        return np.asarray(exponential(f) + 0 * np.asarray(y))

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, m log m - m with m = s + y >= 0."""
        m = np.asarray(s + y)
        positive = np.maximum(m, 0.0)
        return np.where(m >= 0, xlogy(positive, positive) - positive, np.inf)


class Gamma(_LogLink):
    """The negative log-likelihood of a gamma law with mean exp(f), scaled: y exp(-f) + f.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.losses.Gamma().derivative(3.0, 0.0))
    -2.0
    """

    def check_targets(self, y: Array, weights: Array, owner: str) -> None:
        """Refuse targets that are not positive."""
        refuse_targets(owner, self, y <= 0, y, "targets > 0; use Poisson() where some are 0")

    def value(self, y: Any, f: Any) -> Array:
        """The loss, y exp(-f) + f."""
        return np.asarray(_ratio(y, f) + f)

    def derivative(self, y: Any, f: Any) -> Array:
        """One minus the ratio of target and mean."""
        return np.asarray(1 - _ratio(y, f))

    def curvature(self, y: Any, f: Any) -> Array:
        """The ratio of target and mean."""
        return _ratio(y, f)

    def conjugate(self, y: Any, s: Any) -> Array:
        """The conjugate, -(1 - s) (1 + log(y / (1 - s))) for s <= 1."""
        rest = np.maximum(1 - np.asarray(s), 0.0)
        inside = np.asarray(s) <= 1
        return np.where(inside, xlogy(rest, rest) - rest - xlogy(rest, y), np.inf)


def _ratio(y: Any, f: Any) -> Array:
    """The ratio of target and mean, y exp(-f), with a cap on its logarithm."""
    return exponential(np.log(y) - f)
