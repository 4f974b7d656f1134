"""Penalties: what may be one, and which weight of the squared norm stands for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.penalties import HalfSquare, Norm, Penalty, Power, check_increasing
from mercer.solvers.newton.penalty import effective_alpha

T = np.array([0.1, 0.7, 1.0, 3.0])


class Saturating(Penalty):
    def value(self, t: Any) -> Any:
        return 1 - np.exp(-np.asarray(t))

    def derivative(self, t: Any) -> Any:
        return np.exp(-np.asarray(t))


class Flat(Penalty):
    def value(self, t: Any) -> Any:
        return np.maximum(t, 1.0)

    def derivative(self, t: Any) -> Any:
        return np.where(np.asarray(t) > 1, 1.0, 0.0)


@pytest.mark.parametrize("penalty", [HalfSquare(), Norm(), Power(exponent=3.0), Saturating()])
def test_the_derivative_is_that_of_the_value(penalty: Penalty) -> None:
    slope = (penalty.value(T + 1e-6) - penalty.value(T - 1e-6)) / 2e-6
    np.testing.assert_allclose(penalty.derivative(T), slope, rtol=1e-8)
    check_increasing(penalty, "Test")


def test_convexity_is_seen() -> None:
    convex = [HalfSquare(), Norm(), Power(exponent=1.5)]
    assert all(penalty.is_convex for penalty in convex)
    assert not Power(exponent=0.5).is_convex
    assert not Saturating().is_convex


def test_what_does_not_increase_strictly_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"Test: penalty = Flat\(\) is not strictly increasing"
    ):
        check_increasing(Flat(), "Test")
    with pytest.raises(ParameterError, match="is not a penalty"):
        check_increasing("norm", "Test")


def shrunk(beta: float) -> tuple[float, float]:
    """The minimiser of (2 - f)^2 / 2 + beta f^2 / 2 for one number f."""
    f = 2 / (1 + beta)
    return (2 - f) ** 2 / 2, f


@pytest.mark.parametrize(
    "penalty", [Norm(), Power(exponent=3.0), Power(exponent=0.5), Saturating()]
)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_one_number_is_shrunk_as_by_brute_force(penalty: Penalty, alpha: float) -> None:
    grid = np.linspace(0, 2, 2_000_001)
    best = grid[np.argmin((2 - grid) ** 2 / 2 + alpha * penalty.value(grid))]
    assert shrunk(effective_alpha(shrunk, alpha, penalty))[1] == pytest.approx(best, abs=2e-6)


def test_names_are_public() -> None:
    assert mc.penalties.Norm() == Norm()
    assert repr(Power(exponent=3.0)) == "Power(exponent=3.0)"
