"""Every loss against finite differences and brute-force conjugates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from loss_cases import CASES, CLASSIFICATION, REGRESSION
from mercer.exceptions import ParameterError
from mercer.losses import (
    EpsilonInsensitive,
    Exponential,
    Gamma,
    Logistic,
    Loss,
    Poisson,
)

# Points that are no kink of any loss above.
F = np.array([-3.1, -1.7, -0.55, 0.05, 0.61, 0.93, 1.9, 3.3, 4.2])


@CASES
def test_the_derivative_is_that_of_the_value(loss: Loss, y: float) -> None:
    h = 1e-6
    slope = (loss.value(y, F + h) - loss.value(y, F - h)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(y, F), slope, rtol=1e-7, atol=1e-8)


@CASES
def test_the_curvature_is_that_of_the_derivative(loss: Loss, y: float) -> None:
    h = 1e-5
    bend = (loss.derivative(y, F + h) - loss.derivative(y, F - h)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(y, F), bend, rtol=1e-6, atol=1e-8)
    differences = Loss.curvature(loss, y, F)
    np.testing.assert_allclose(differences, loss.curvature(y, F), rtol=1e-5, atol=1e-6)


@CASES
def test_the_conjugate_is_the_largest_difference_to_a_line(loss: Loss, y: float) -> None:
    """On slopes that the loss takes, the supremum is attained within the grid."""
    grid = np.linspace(-8, 8, 160_001)
    for f in (-2.0, -0.4, 0.7, 2.2):
        s = float(loss.derivative(y, f))
        brute = np.max(s * grid - loss.value(y, grid))
        assert loss.conjugate(y, s) == pytest.approx(brute, abs=1e-6)


@CASES
def test_beyond_the_slopes_of_a_loss_its_conjugate_is_infinite(loss: Loss, y: float) -> None:
    steepest = loss.derivative(y, np.array([-200.0, 200.0]))
    for end, sign in zip(steepest, (-1, 1), strict=True):
        if abs(end) < 50:
            assert loss.conjugate(y, end + sign * 0.01) == np.inf


@pytest.mark.parametrize("loss", REGRESSION + CLASSIFICATION, ids=str)
def test_losses_are_values(loss: Loss) -> None:
    assert clone(loss) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss), vars(mc.losses)) == loss


def test_names_stand_for_losses() -> None:
    assert mc.losses.named("epsilon_insensitive", "Test") == EpsilonInsensitive()
    with pytest.raises(ParameterError, match=r"Test: loss = 'hubert' is not a loss.*'huber'"):
        mc.losses.named("hubert", "Test")


def test_huge_arguments_do_not_overflow() -> None:
    big = np.array([-1e4, 1e4])
    for loss in (Poisson(), Gamma(), Logistic(), Exponential()):
        for quantity in (loss.value, loss.derivative, loss.curvature):
            assert np.isfinite(quantity(1.0, big)).all()
