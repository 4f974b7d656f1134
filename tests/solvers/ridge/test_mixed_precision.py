"""Ridge on features: float32 on the way, float64 in the end."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.solvers.ridge.mixed_precision import feature_ridge


def oracle(
    features: np.ndarray, targets: np.ndarray, alpha: float, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Least squares of the stacked problem, by orthogonal factors."""
    mean = features.mean(axis=0) if fit_intercept else 0.0
    middle = targets.mean(axis=0) if fit_intercept else np.zeros(targets.shape[1])
    m = features.shape[1]
    stacked = np.vstack([features - mean, np.sqrt(alpha) * np.eye(m)])
    right = np.vstack([targets - middle, np.zeros((m, targets.shape[1]))])
    coef = np.linalg.lstsq(stacked, right, rcond=None)[0]
    return coef, middle - mean @ coef if fit_intercept else middle


def draw(n: int, m: int, t: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, m)) + 3.0, rng.standard_normal((n, t)) + 10.0


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "m"), [(300, 20), (20, 40), (1, 3), (5, 1), (3000, 5)])
@pytest.mark.parametrize("alpha", [10.0, 1e-3])
def test_the_answer_is_that_of_least_squares(
    n: int, m: int, alpha: float, fit_intercept: bool
) -> None:
    features, targets = draw(n, m)
    found = feature_ridge(features, targets, alpha, fit_intercept=fit_intercept)
    coef, intercept = oracle(features, targets, alpha, fit_intercept)
    assert found.residual < 1e-11
    assert_allclose(found.coef, coef, atol=1e-9)
    assert_allclose(found.intercept, intercept, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-9])
def test_nearly_dependent_features_and_small_penalties(alpha: float) -> None:
    """Eigenvalues far below what float32 resolves: the second pass in float64 takes over."""
    x = np.random.default_rng(0).uniform(-1, 1, size=(400, 1))
    fourier = mc.RandomFourier(mc.RBF(length_scale=1.0), 60, method="sobol", random_state=0)
    features, targets = fourier.fit_transform(x), np.column_stack([np.sin(3 * x), np.cos(x)])
    found = feature_ridge(features, targets, alpha)
    coef, intercept = oracle(features, targets, alpha, True)
    assert found.residual < 1e-10
    assert_allclose(features @ found.coef + found.intercept, features @ coef + intercept, atol=1e-7)


def test_few_steps_are_enough() -> None:
    features, targets = draw(2000, 100)
    assert feature_ridge(features, targets, 1.0).n_iter <= 4


def test_duplicates_constants_and_solved_targets() -> None:
    features, _ = draw(50, 4)
    features = np.column_stack([features, features, np.ones(50)])
    targets = np.column_stack([np.zeros(50), np.full(50, 7.0), features[:, 0]])
    found = feature_ridge(features, targets, 1e-8)
    assert_allclose(found.coef[:, :2], 0.0, atol=1e-12)
    assert_allclose(found.intercept[:2], [0.0, 7.0], atol=1e-12)
    assert_allclose(features @ found.coef + found.intercept, targets, atol=1e-6)


def test_features_whose_squares_leave_the_range_are_refused() -> None:
    features, targets = draw(30, 4)
    with pytest.raises(OverflowError, match="beyond the range of their type; divide X"):
        feature_ridge(2.0**510 * features, targets, 1.0)
