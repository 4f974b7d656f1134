"""Losses for classes against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.losses import (
    Exponential,
    Hinge,
    Logistic,
    Multinomial,
    SquaredHinge,
)


def test_values_of_losses_of_classes_are_the_definitions() -> None:
    assert Logistic().value(-1.0, 0.0) == pytest.approx(np.log(2))
    assert Hinge().value(-1.0, 0.5) == 1.5
    assert SquaredHinge().value(1.0, -1.0) == 2.0
    assert Exponential().value(-1.0, 1.0) == pytest.approx(np.e)


def test_the_multinomial_of_two_classes_is_logistic() -> None:
    f = np.linspace(-3, 3, 7)
    both = np.column_stack([np.zeros(7), f])
    for code, sign in ((0, -1.0), (1, 1.0)):
        codes = np.full(7, code)
        np.testing.assert_allclose(Multinomial().value(codes, both), Logistic().value(sign, f))
        slope = Multinomial().derivative(codes, both)
        np.testing.assert_allclose(slope[:, 1], Logistic().derivative(sign, f))
        np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-15)
