from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from inference_levels import require_level
from mercer.inference import conditional_independence_test
from mercer.inference.conditional import Residuals, Smoother

rng = np.random.default_rng(0)


def test_leave_one_out_is_that_of_fits_without_a_row() -> None:
    """The error of the chosen ridge, by kernel ridge regressions without each row."""
    z, x = rng.normal(size=(2, 12, 1))
    K, targets = mc.RBF()(z), mc.RBF()(x)
    smoother = Smoother.of(targets, mc.RBF(), mc.Points(z))
    errors = []
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        # Coefficients of the penalised problem with an intercept, as one linear system.
        system = np.ones((12, 12))
        system[:11, :11] = K[np.ix_(rest, rest)] + smoother.ridge * np.eye(11)
        system[11, 11] = 0.0
        w = np.linalg.solve(system, np.append(K[rest, i], 1.0))[:11]
        errors.append(
            targets[i, i] - 2 * w @ targets[rest, i] + w @ targets[np.ix_(rest, rest)] @ w
        )
    variance = np.mean(targets.diagonal()) - targets.mean()
    assert smoother.loo_error == pytest.approx(np.mean(errors) / variance, rel=1e-6)


def test_residuals_of_a_part_come_from_the_other_parts() -> None:
    z, x = rng.normal(size=(2, 10, 1))
    targets = mc.RBF()(x)
    parts = [np.arange(5), np.arange(5, 10)]
    residuals = Residuals.of(targets, [mc.RBF()], mc.Points(z), parts)
    weights = Smoother.of(targets[5:, 5:], mc.RBF(), mc.Points(z[5:])).weights(mc.Points(z[:5]))
    operator = np.hstack([np.eye(5), -weights])
    np.testing.assert_allclose(residuals.gram[:5, :5], operator @ targets @ operator.T, atol=1e-9)


def test_level_and_power() -> None:
    """60 simulations; the bound on the level is three times alpha, with a false alarm of 1e-6."""
    null = other = 0
    for seed in range(60):
        z, a, b = rng.normal(size=(3, 60, 1))
        options: dict[str, Any] = {"n_resamples": 49, "random_state": seed}
        null += conditional_independence_test(z + a, z + b, z, **options).reject
        other += conditional_independence_test(z + a, z + a + b, z, **options).reject
    require_level(null, 60, 0.15)
    assert other > 40


def test_a_constant_z_gives_a_test_of_independence() -> None:
    x = rng.normal(size=(80, 1))
    ones = np.ones((80, 1))
    assert conditional_independence_test(x, x**2, ones, random_state=0).reject
    result = conditional_independence_test(x, rng.normal(size=(80, 1)), ones, random_state=0)
    assert result.pvalue > 0.01
    assert result.details["loo_error_x"] == pytest.approx(1.0, abs=0.1)


def test_bad_input() -> None:
    x = np.ones((10, 1))
    with pytest.raises(mc.exceptions.DataError, match="z has 9 rows"):
        conditional_independence_test(x, x, x[:9])
    with pytest.raises(mc.exceptions.DataError, match=r"1 row\(s\)"):
        conditional_independence_test(x[:1], x[:1], x[:1])
    assert conditional_independence_test(x, x, x, random_state=0).pvalue == 1.0
