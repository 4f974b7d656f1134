"""Losses against finite differences, brute-force conjugates and their definitions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
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


@CASES
def test_built_in_losses_pass_the_check_of_users(loss: Loss, y: float) -> None:
    mc.losses.check_convex(loss, np.array([y]), "Test")


def test_values_are_the_definitions() -> None:
    assert Squared().value(1.0, 3.0) == 2.0
    assert Huber(delta=1.0).value(0.0, 0.5) == 0.125
    assert Huber(delta=1.0).value(0.0, -3.0) == 2.5
    assert Absolute().value(1.0, 3.0) == 2.0
    assert Pinball(quantile=0.9).value(1.0, 0.0) == pytest.approx(0.9)
    assert Pinball(quantile=0.9).value(0.0, 1.0) == pytest.approx(0.1)
    assert EpsilonInsensitive(epsilon=0.5).value(0.0, -2.0) == 1.5
    assert Poisson().value(2.0, 0.0) == 1.0
    assert Gamma().value(2.0, 0.0) == 2.0
    assert Logistic().value(-1.0, 0.0) == pytest.approx(np.log(2))
    assert Hinge().value(-1.0, 0.5) == 1.5
    assert SquaredHinge().value(1.0, -1.0) == 2.0
    assert Exponential().value(-1.0, 1.0) == pytest.approx(np.e)


def test_several_quantiles_have_a_column_each() -> None:
    loss = Pinball(quantile=[0.1, 0.9])
    values = loss.value(np.array([0.0, 1.0]), np.array([[1.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(values, [[0.9, 0.1], [0.1, 0.9]])


def test_the_multinomial_of_two_classes_is_logistic() -> None:
    f = np.linspace(-3, 3, 7)
    both = np.column_stack([np.zeros(7), f])
    for code, sign in ((0, -1.0), (1, 1.0)):
        codes = np.full(7, code)
        np.testing.assert_allclose(Multinomial().value(codes, both), Logistic().value(sign, f))
        slope = Multinomial().derivative(codes, both)
        np.testing.assert_allclose(slope[:, 1], Logistic().derivative(sign, f))
        np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-15)


@pytest.mark.parametrize("loss", REGRESSION + CLASSIFICATION, ids=str)
def test_losses_are_values(loss: Loss) -> None:
    assert clone(loss) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss), vars(mc.losses)) == loss


def test_names_stand_for_losses() -> None:
    assert mc.losses.named("epsilon_insensitive", "Test") == EpsilonInsensitive()
    with pytest.raises(ParameterError, match=r"Test: loss = 'hubert' is not a loss.*'huber'"):
        mc.losses.named("hubert", "Test")


@pytest.mark.parametrize(
    ("cls", "values", "match"),
    [
        (Huber, {"delta": 0}, "delta > 0"),
        (EpsilonInsensitive, {"epsilon": -1}, "epsilon >= 0"),
        (Pinball, {"quantile": 0.0}, "0 < quantile < 1"),
        (Pinball, {"quantile": [0.5, 1.0]}, "0 < quantile < 1"),
        (Pinball, {"quantile": [0.5, 0.5]}, "twice"),
        (Pinball, {"quantile": []}, "empty"),
        (Huber, {"width": 1}, "width"),
    ],
)
def test_bad_parameters_are_refused(cls: Any, values: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        cls(**values)


def test_targets_outside_the_domain_are_refused() -> None:
    weights = np.ones(3)
    with pytest.raises(DataError, match=r"Test: y\[1\] = -2, but loss = Poisson\(\) needs"):
        Poisson().check_targets(np.array([0.0, -2.0, 1.0]), weights, "Test")
    with pytest.raises(DataError, match=r"y\[0\] = 0, but loss = Gamma\(\)"):
        Gamma().check_targets(np.array([0.0, 2.0, 1.0]), weights, "Test")
    with pytest.raises(DataError, match="all targets of positive weight are 0"):
        Poisson().check_targets(np.array([0.0, 5.0, 0.0]), np.array([1.0, 0.0, 1.0]), "Test")


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


def test_huge_arguments_do_not_overflow() -> None:
    big = np.array([-1e4, 1e4])
    for loss in (Poisson(), Gamma(), Logistic(), Exponential()):
        for quantity in (loss.value, loss.derivative, loss.curvature):
            assert np.isfinite(quantity(1.0, big)).all()
