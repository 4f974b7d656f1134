"""Gaussian targets against scipy's density, and against conditioning without each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal, norm

from mercer.solvers.likelihood.gaussian import Gaussian, Precision

N = 12
RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(N, N))
GRAM, NOISE, Y = ROOT @ ROOT.T, RNG.uniform(0.1, 1.0, size=N), RNG.normal(size=(N, 2))
COVARIANCE = GRAM + np.diag(NOISE)


def loo_density(gaussian: Gaussian) -> float:
    """The sum of the logarithms of the density of each target given all others."""
    residuals, variances = gaussian.leave_one_out()
    return float(norm.logpdf(residuals, scale=np.sqrt(variances)[:, None]).sum())


def test_the_likelihood_is_the_density_of_all_targets() -> None:
    expected = sum(multivariate_normal(np.zeros(N), COVARIANCE).logpdf(y) for y in Y.T)
    assert Gaussian.of(GRAM.copy(), NOISE, Y).log_likelihood() == pytest.approx(expected)
    value, _ = Precision.of(GRAM.copy(), NOISE, Y).log_likelihood_with_slope()
    assert value == pytest.approx(expected)


def test_leave_one_out_is_conditioning_without_each_row() -> None:
    found = Gaussian.of(GRAM.copy(), NOISE, Y)
    residuals, variances = found.leave_one_out()
    density = 0.0
    for i in range(N):
        rest = np.arange(N) != i
        shares = np.linalg.solve(COVARIANCE[np.ix_(rest, rest)], COVARIANCE[rest, i])
        mean, variance = shares @ Y[rest], COVARIANCE[i, i] - shares @ COVARIANCE[rest, i]
        np.testing.assert_allclose(residuals[i], Y[i] - mean, rtol=1e-8)
        assert variances[i] == pytest.approx(variance)
        density += multivariate_normal(mean, variance * np.eye(2)).logpdf(Y[i])
    assert loo_density(found) == pytest.approx(density)
    assert Precision.of(GRAM.copy(), NOISE, Y).loo_density_with_slope()[0] == pytest.approx(density)


# An unknown constant mean ------------------------------------------------------------------------

BASIS = null_space(np.ones((1, N)))  # orthonormal differences of targets


def of_differences(covariance: Any) -> float:
    """The density of the differences of targets, in the unit of an integral over the constant."""
    normal = multivariate_normal(np.zeros(N - 1), BASIS.T @ covariance @ BASIS)
    return sum(float(normal.logpdf(BASIS.T @ y)) - 0.5 * np.log(N) for y in Y.T)


def test_the_likelihood_of_an_unknown_mean_is_that_of_differences() -> None:
    expected = of_differences(COVARIANCE)
    found = Gaussian.of(GRAM.copy(), NOISE, Y, constant=True)
    assert found.log_likelihood() == pytest.approx(expected)
    value, _ = Precision.of(GRAM.copy(), NOISE, Y, constant=True).log_likelihood_with_slope()
    assert value == pytest.approx(expected)


def test_an_unknown_mean_is_a_constant_of_huge_variance() -> None:
    huge = 1e8
    found = Gaussian.of(GRAM.copy(), NOISE, Y, constant=True)
    limit = Gaussian.of(GRAM + huge, NOISE, Y)
    # The prior of the constant has the density (2 pi huge)^(-1/2) where the data are.
    unit = 0.5 * np.log(2 * np.pi * huge)
    assert found.log_likelihood() == pytest.approx(limit.log_likelihood() + 2 * unit, abs=1e-5)
    np.testing.assert_allclose(found.dual, limit.dual, atol=1e-5)
    for mine, other in zip(found.leave_one_out(), limit.leave_one_out(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    assert loo_density(found) == pytest.approx(loo_density(limit), abs=1e-5)
    residuals = Y[::-1] + 3
    other = Gaussian.solved(found.factor, residuals, constant=True)
    np.testing.assert_allclose(COVARIANCE @ other.dual + other.constant, residuals, atol=1e-10)
    np.testing.assert_allclose(other.dual.sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("criterion", [Gaussian.log_likelihood, loo_density])
def test_slopes_with_an_unknown_mean_are_finite_differences(criterion: Any) -> None:
    direction = RNG.normal(size=(N, N))
    direction += direction.T
    precision = Precision.of(GRAM.copy(), NOISE, Y, constant=True)
    _, slope = getattr(precision, f"{criterion.__name__}_with_slope")()
    step = 1e-6
    ends = [
        criterion(Gaussian.of(GRAM + h * direction, NOISE, Y, constant=True)) for h in (-step, step)
    ]
    wanted = (ends[1] - ends[0]) / (2 * step)
    assert np.sum(slope.full() * direction) == pytest.approx(wanted, rel=1e-5)


def test_one_row_says_nothing_about_itself_where_the_mean_is_unknown() -> None:
    found = Gaussian.of(np.eye(1), 0.5, np.full((1, 1), 3.0), constant=True)
    assert found.log_likelihood() == pytest.approx(0.0)
    assert found.mean is not None
    assert found.mean.value == pytest.approx(3.0)
    assert found.leave_one_out()[1] == np.inf
