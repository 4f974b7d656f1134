"""Losses for real targets: definitions, parameters and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.exceptions import DataError, ParameterError
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Gamma,
    Huber,
    Pinball,
    Poisson,
    Squared,
)


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


def test_several_quantiles_have_a_column_each() -> None:
    loss = Pinball(quantile=[0.1, 0.9])
    values = loss.value(np.array([0.0, 1.0]), np.array([[1.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(values, [[0.9, 0.1], [0.1, 0.9]])


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
