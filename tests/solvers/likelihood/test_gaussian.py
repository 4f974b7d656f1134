"""Gaussian targets against scipy's density, and against conditioning without each row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer.solvers.likelihood.gaussian import Gaussian, Precision

N = 12
RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(N, N))
GRAM, NOISE, Y = ROOT @ ROOT.T, RNG.uniform(0.1, 1.0, size=N), RNG.normal(size=(N, 2))
COVARIANCE = GRAM + np.diag(NOISE)


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
    assert found.loo_density() == pytest.approx(density)
    assert Precision.of(GRAM.copy(), NOISE, Y).loo_density_with_slope()[0] == pytest.approx(density)
