"""Penalties: strictly increasing functions of the norm of the fitted function."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.kernels.parameters import Positive
from mercer.kernels.tree import Parameterised
from mercer.losses.checks import tried

__all__ = ["HalfSquare", "Norm", "Penalty", "Power", "check_increasing"]

# Norms at which a penalty is checked.
_TRIALS = np.geomspace(1e-3, 1e2, 121)


class Penalty(Parameterised):
    """Base of penalties Omega(t) of the norm t of a function.

    A penalty of your own defines ``value`` and ``derivative``. It must be strictly increasing, so
    that every minimiser is a sum of kernels at the training points (representer theorem).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> class Logarithm(mc.penalties.Penalty):
    ...     def value(self, t):
    ...         return np.log1p(t)
    ...
    ...     def derivative(self, t):
    ...         return 1 / (1 + t)
    >>> mc.penalties.check_increasing(Logarithm(), "Example")
    """

    def value(self, t: Any) -> Array:
        """The penalty of functions of norm t.

        Parameters
        ----------
        t : array-like
            Norms, 0 or more.

        Returns
        -------
        ndarray
            The penalties.
        """
        raise NotImplementedError(f"{type(self).__name__} has no value(t)")

    def derivative(self, t: Any) -> Array:
        """The derivative in norms t > 0, which is positive."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative(t)")

    @property
    def is_convex(self) -> bool:
        """Whether the derivative does not decrease over a grid of norms."""
        with np.errstate(all="ignore"):
            slopes = np.asarray(self.derivative(_TRIALS), float)
        slopes = slopes[np.isfinite(slopes)]
        return bool(np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:])))


class HalfSquare(Penalty):
    """Half the squared norm, t^2 / 2: the default.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.penalties.HalfSquare().value(4.0))
    8.0
    """

    def value(self, t: Any) -> Array:
        """The penalty, t^2 / 2."""
        return np.asarray(t, float) ** 2 / 2

    def derivative(self, t: Any) -> Array:
        """The norm itself."""
        return np.asarray(t, float)


class Norm(Penalty):
    """The norm t itself; a large enough weight makes the function exactly constant.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.penalties.Norm().derivative(4.0))
    1.0
    """

    def value(self, t: Any) -> Array:
        """The penalty, t."""
        return np.asarray(t, float)

    def derivative(self, t: Any) -> Array:
        """One."""
        return np.ones(np.shape(t))


class Power(Penalty):
    """A power of the norm, t^p / p; not convex below p = 1.

    Parameters
    ----------
    exponent : float, default=2.0
        The exponent p.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.penalties.Power(exponent=3.0).derivative(2.0))
    4.0
    """

    exponent = Positive(2.0, learned=False)

    def value(self, t: Any) -> Array:
        """The penalty, t^p / p."""
        return np.asarray(np.asarray(t, float) ** self.exponent / self.exponent)

    def derivative(self, t: Any) -> Array:
        """The derivative, t^(p - 1)."""
        return np.asarray(np.asarray(t, float) ** (self.exponent - 1))


def check_increasing(penalty: object, owner: str) -> None:
    """Refuse objects that are not penalties, and penalties that are not strictly increasing.

    Parameters
    ----------
    penalty : Penalty
        A penalty.
    owner : str
        The name that errors begin with.

    Raises
    ------
    ParameterError
        If the penalty of a larger norm is not larger.
    """
    if not isinstance(penalty, Penalty):
        raise ParameterError(
            f"{owner}: penalty = {penalty!r} is not a penalty; pass an object such as "
            "mercer.penalties.Norm(), or one of a class that derives from mercer.penalties.Penalty."
        )
    subject = f"{owner}: penalty = {penalty!r}"
    values, slopes = (
        tried(subject, penalty, name, {"t": _TRIALS}) for name in ("value", "derivative")
    )
    # Rounding may make the values of a saturating penalty equal, but not its derivatives zero.
    bad = np.flatnonzero((np.diff(values) < 0) | ~(slopes[1:] > 0) | np.isnan(values[1:]))
    if bad.size:
        at = bad[0]
        raise ParameterError(
            f"{subject} is not strictly increasing: it is {values[at]:.6g} at "
            f"norm {_TRIALS[at]:.4g}, and {values[at + 1]:.6g} at norm {_TRIALS[at + 1]:.4g}, with "
            f"derivative {slopes[at + 1]:.3g}; pass one such as mercer.penalties.Norm(): "
            "only where larger norms cost more is the best function a sum of kernels."
        )
