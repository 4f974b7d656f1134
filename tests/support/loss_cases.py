"""One loss of each kind, with targets of both signs or classes."""

from __future__ import annotations

import pytest

from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Poisson,
    Squared,
    SquaredHinge,
)

REGRESSION: list[Loss] = [
    Squared(),
    Huber(delta=0.7),
    Absolute(),
    Pinball(quantile=0.2),
    EpsilonInsensitive(epsilon=0.3),
    Poisson(),
    Gamma(),
]
CLASSIFICATION: list[Loss] = [Logistic(), Hinge(), SquaredHinge(), Exponential()]
ALL = [(loss, y) for loss in REGRESSION for y in (0.4, 2.5)] + [
    (loss, y) for loss in CLASSIFICATION for y in (-1.0, 1.0)
]
CASES = pytest.mark.parametrize(("loss", "y"), ALL, ids=lambda v: str(v))
