from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from inference_levels import require_level
from mercer.inference import conditional_independence_test
from mercer.inference.conditional import (
    Regression,
    chosen,
    split_residuals,
    unsplit_residuals,
)

rng = np.random.default_rng(0)


def weights_at(K: Any, row: int, rest: Any, ridge: float) -> Any:
    """The weights of other rows in the prediction at a row, as one linear system."""
    m = len(rest)
    system = np.ones((m + 1, m + 1))  # the last row and column are those of the intercept
    system[:m, :m] = K[np.ix_(rest, rest)] + ridge * np.eye(m)
    system[m, m] = 0.0
    return np.linalg.solve(system, np.append(K[rest, row], 1.0))[:m]


def test_leave_one_out_is_that_of_fits_without_a_row() -> None:
    z, features = rng.normal(size=(12, 1)), rng.normal(size=(12, 3))
    K = mc.RBF()(z)
    _, ridge, share = chosen([Regression.of(mc.RBF(), mc.Points(z))], features)
    errors = []
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        w = weights_at(K, i, rest, ridge)
        errors.append(np.square(features[i] - w @ features[rest]).sum())
    assert share == pytest.approx(np.mean(errors) / np.var(features, axis=0).sum(), rel=1e-6)


def test_split_residuals_of_a_part_come_from_the_other_parts() -> None:
    z, features = rng.normal(size=(10, 1)), rng.normal(size=(10, 2))
    parts = [np.arange(5), np.arange(5, 10)]
    residuals = split_residuals([features], [mc.RBF()], mc.Points(z), parts)[0]
    _, ridge, _ = chosen([Regression.of(mc.RBF(), mc.Points(z[:5]))], features[:5])
    w = weights_at(mc.RBF()(z), 7, parts[0], ridge)
    np.testing.assert_allclose(residuals.observed[7], features[7] - w @ features[:5], atol=1e-9)
    observed, draw = residuals.draws(1, np.random.RandomState(0))
    np.testing.assert_array_equal(np.abs(draw), np.abs(observed))


def test_bootstrap_samples_are_residuals_of_fitted_values_with_signed_noise() -> None:
    z, features = rng.normal(size=(15, 1)), rng.normal(size=(15, 2))
    residuals = unsplit_residuals([features], [mc.RBF()], mc.Points(z))[0]
    operator = residuals.operator
    assert operator is not None
    fitted = features - residuals.observed
    _, draw = residuals.draws(1, np.random.RandomState(0))
    signs = 2.0 * np.random.RandomState(0).randint(2, size=(15, 1)) - 1.0
    sample = fitted + signs * residuals.observed / operator.diagonal()[:, None] ** (2 / 3)
    np.testing.assert_allclose(draw, operator @ sample, atol=1e-10)
    np.testing.assert_allclose(operator.sum(axis=1), 0.0, atol=1e-10)


@pytest.mark.parametrize(("split", "level"), [(False, 0.05), (True, 0.1)])
def test_level_and_power(split: bool, level: float) -> None:
    """60 simulations; a level of `level` gives a false alarm of 1e-6."""
    null = other = 0
    for seed in range(60):
        z, a, b = rng.normal(size=(3, 60, 1))
        options: dict[str, Any] = {"split": split, "n_resamples": 49, "random_state": seed}
        null += conditional_independence_test(z + a, z + b, z, **options).reject
        other += conditional_independence_test(z + a, z + a + b, z, **options).reject
    require_level(null, 60, level)
    assert other > 40


def test_what_the_regressions_miss_is_no_dependence() -> None:
    """30 simulations of a function of three columns; the level is 0.05, the false alarm 1e-6."""
    rejections = 0
    for seed in range(30):
        z, noise = rng.normal(size=(80, 3)), rng.normal(size=(2, 80, 1))
        x, y = np.sin(2 * z.sum(axis=1, keepdims=True) / np.sqrt(3)) + 0.5 * noise
        result = conditional_independence_test(x, y, z, n_resamples=39, random_state=seed)
        rejections += result.reject
    require_level(rejections, 30, 0.05)


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
    with pytest.raises(mc.exceptions.ParameterError, match="split = 3"):
        conditional_independence_test(x, x, x, split=3)  # type: ignore[arg-type]
    assert conditional_independence_test(x, x, x, random_state=0).pvalue == 1.0
