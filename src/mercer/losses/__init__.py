"""Losses: one small class each, with value, derivative, curvature and conjugate."""

from __future__ import annotations

from mercer.exceptions import ParameterError
from mercer.losses.base import (
    ClassificationLoss,
    Kink,
    Loss,
    PiecewiseLinear,
    RegressionLoss,
)
from mercer.losses.checks import check_convex
from mercer.losses.classification import Exponential, Hinge, Logistic, Multinomial, SquaredHinge
from mercer.losses.regression import (
    Absolute,
    EpsilonInsensitive,
    Gamma,
    Huber,
    Pinball,
    Poisson,
    Squared,
)

__all__ = [
    "Absolute",
    "ClassificationLoss",
    "EpsilonInsensitive",
    "Exponential",
    "Gamma",
    "Hinge",
    "Huber",
    "Kink",
    "Logistic",
    "Loss",
    "Multinomial",
    "PiecewiseLinear",
    "Pinball",
    "Poisson",
    "RegressionLoss",
    "Squared",
    "SquaredHinge",
    "check_convex",
    "named",
]

#: Names of losses with default parameters.
NAMES: dict[str, Loss] = {
    "squared": Squared(),
    "absolute": Absolute(),
    "huber": Huber(),
    "pinball": Pinball(),
    "epsilon_insensitive": EpsilonInsensitive(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "exponential": Exponential(),
}


def named(loss: object, owner: str) -> Loss:
    """The loss of a parameter ``loss``: a loss itself, or the name of one.

    Parameters
    ----------
    loss : Loss or str
        A loss, or the name of one with default parameters.
    owner : str
        The name that errors begin with.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.losses.named("huber", "Example")
    Huber()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in NAMES:
        return NAMES[loss]
    raise ParameterError(
        f"{owner}: loss = {loss!r} is not a loss; pass one of {', '.join(map(repr, NAMES))}, or an "
        "object such as mercer.losses.Huber(delta=1.0), or one of a class of your own that derives "
        "from mercer.losses.RegressionLoss or ClassificationLoss."
    )
