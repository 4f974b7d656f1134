"""The weight of the squared norm that stands for a penalty, where the norm is known."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mercer as mc
from mercer.solvers.newton.penalty import effective_alpha

SIZE = 3.0


def measure(beta: float) -> tuple[float, float]:
    """The minimiser of (t - SIZE)^2 / 2 + beta t^2 / 2 has norm SIZE / (1 + beta)."""
    norm = SIZE / (1 + beta)
    return (norm - SIZE) ** 2 / 2, norm


@pytest.mark.parametrize("alpha", [0.01, 0.5, 2.9])
def test_a_norm_shrinks_by_alpha(alpha: float) -> None:
    beta = effective_alpha(measure, alpha, mc.penalties.Norm())
    assert measure(beta)[1] == pytest.approx(SIZE - alpha)


def test_a_norm_that_is_penalised_enough_is_zero() -> None:
    assert effective_alpha(measure, SIZE + 0.1, mc.penalties.Norm()) == np.inf


@pytest.mark.parametrize("exponent", [1.5, 2.0, 3.0])
def test_a_power_is_stationary(exponent: float) -> None:
    penalty = mc.penalties.Power(exponent=exponent)
    norm = measure(effective_alpha(measure, 0.4, penalty))[1]
    assert norm - SIZE + 0.4 * float(penalty.derivative(norm)) == pytest.approx(0.0, abs=1e-8)


class Logarithm(mc.penalties.Penalty):
    """log(1 + t): increasing, but not convex."""

    def value(self, t: float) -> float:
        return float(np.log1p(t))

    def derivative(self, t: float) -> float:
        return 1 / (1 + t)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
def test_a_penalty_that_is_not_convex_is_minimised_over_all_norms(alpha: float) -> None:
    norm = measure(effective_alpha(measure, alpha, Logarithm()))[1]
    grid = np.linspace(0, SIZE, 30_001)
    best = np.min((grid - SIZE) ** 2 / 2 + alpha * np.log1p(grid))
    assert (norm - SIZE) ** 2 / 2 + alpha * np.log1p(norm) <= best + 1e-7


def test_fits_that_do_not_converge_are_passed_over() -> None:
    """An infinite loss is no number to subtract, and gives no warning."""

    def partial(beta: float) -> tuple[float, float]:
        loss, norm = measure(beta)
        return (loss if beta > 0.01 else np.inf), norm

    with warnings.catch_warnings(action="error"):
        beta = effective_alpha(partial, 0.4, mc.penalties.Power(exponent=0.5))
    grid = np.geomspace(0.0101, 10, 20_001)
    norms = SIZE / (1 + grid)
    values = (norms - SIZE) ** 2 / 2 + 0.4 * 2 * np.sqrt(norms)
    assert beta == pytest.approx(grid[np.argmin(values)], rel=1e-2)
