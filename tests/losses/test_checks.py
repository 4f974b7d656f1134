"""Losses of users are checked for convexity and for their derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from loss_cases import CASES
from mercer.exceptions import ParameterError
from mercer.losses import Loss


@CASES
def test_built_in_losses_pass_the_check_of_users(loss: Loss, y: float) -> None:
    mc.losses.check_convex(loss, np.array([y]), "Test")


class Welsch(mc.losses.RegressionLoss):
    """Bounded, hence not convex."""

    def value(self, y: Any, f: Any) -> Any:
        return 1 - np.exp(-((y - f) ** 2) / 2)

    def derivative(self, y: Any, f: Any) -> Any:
        return (f - y) * np.exp(-((y - f) ** 2) / 2)


class Wrong(mc.losses.RegressionLoss):
    """A derivative with a factor too much."""

    def value(self, y: Any, f: Any) -> Any:
        return (f - y) ** 2

    def derivative(self, y: Any, f: Any) -> Any:
        return f - y


def test_a_loss_that_is_not_convex_is_refused_with_a_witness() -> None:
    with pytest.raises(ParameterError, match="is not convex: for y =") as caught:
        mc.losses.check_convex(Welsch(), np.linspace(0, 1, 5), "Test")
    words = str(caught.value).replace(";", " ").split()
    y, first, second = (float(words[i + 2]) for i, w in enumerate(words[:-2]) if w in ("y", "f"))
    ends = Welsch().value(y, first) + Welsch().value(y, second)
    assert Welsch().value(y, (first + second) / 2) > ends / 2


def test_a_derivative_that_is_not_the_values_is_refused() -> None:
    with pytest.raises(ParameterError, match="correct derivative"):
        mc.losses.check_convex(Wrong(), np.linspace(0, 1, 5), "Test")
