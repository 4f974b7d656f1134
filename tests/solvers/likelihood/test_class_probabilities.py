"""Means under Gaussians against adaptive integration in extended precision and dense grids."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal

from mercer.solvers.likelihood import class_probabilities

Array = NDArray[np.float64]

MEANS = (0.0, 1e-9, 0.3, 4.0, 30.0)
DEVIATIONS = (1e-4, 0.7, 2.0, 2.001, 9.0, 1e3)


def exact_logistic_mean(mean: float, deviation: float) -> float:
    """Adaptive integration around the step of the logistic function, in 25 digits."""
    with mpmath.workdps(25):
        centre = -mean / deviation
        breaks = {centre + k / deviation for k in (-20, -3, 0, 3, 20)} | {0.0}
        points = [-14.0, *sorted(b for b in breaks if abs(b) < 14), 14.0]

        def integrand(t: mpmath.mpf) -> mpmath.mpf:
            return mpmath.npdf(t) / (1 + mpmath.exp(-(mean + deviation * t)))

        return float(mpmath.quad(integrand, points))


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_logistic_mean_is_exact_for_every_width(deviation: float) -> None:
    means = np.array([s * m for m in MEANS for s in (1, -1)])
    expected = [exact_logistic_mean(m, deviation) for m in means]
    found = class_probabilities.logistic_mean(means, np.full(len(means), deviation**2))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-16)


def test_the_logistic_mean_without_variance_is_the_logistic_function() -> None:
    means = np.linspace(-50, 50, 41)
    found = class_probabilities.logistic_mean(means, np.zeros(41))
    np.testing.assert_allclose(found, expit(means), rtol=1e-13)


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_sign_of_a_mean_decides_which_class_is_likelier(deviation: float) -> None:
    means = np.array([1e-300, 1e-17, 1e-8, 1.0, 1e6])
    variance = np.full(5, deviation**2)
    upper = class_probabilities.logistic_mean(means, variance)
    lower = class_probabilities.logistic_mean(-means, variance)
    assert (upper > lower).all()
    np.testing.assert_allclose(upper + lower, 1, rtol=1e-15)


def gaussians(n_classes: int, deviation: float, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    mean = deviation * rng.normal(size=(6, n_classes))
    factor = rng.normal(size=(6, n_classes, n_classes)) / np.sqrt(n_classes)
    covariance = factor @ factor.transpose(0, 2, 1) + np.eye(n_classes)
    return mean, deviation**2 * covariance / 2


def dense_softmax_mean(mean: Array, covariance: Array, nodes: int) -> Array:
    """Gauss-Hermite in all dimensions, from a Cholesky factor."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.array(list(product(points, repeat=len(mean))))
    share = np.prod(list(product(weights / weights.sum(), repeat=len(mean))), axis=1)
    values = softmax(mean + grid @ np.linalg.cholesky(covariance).T, axis=1)
    return np.asarray(share @ values)


@pytest.mark.parametrize(
    ("n_classes", "deviation", "nodes", "tolerance"),
    [(3, 0.5, 30, 1e-6), (3, 1.0, 50, 1e-5), (4, 0.8, 14, 1e-3), (5, 0.5, 9, 1e-3)],
)
def test_the_softmax_mean(n_classes: int, deviation: float, nodes: int, tolerance: float) -> None:
    mean, covariance = gaussians(n_classes, deviation)
    found = class_probabilities.softmax_mean(mean, covariance)
    expected = [dense_softmax_mean(m, c, nodes) for m, c in zip(mean, covariance, strict=True)]
    np.testing.assert_allclose(found, expected, atol=tolerance)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("deviation", [3.0, 30.0])
def test_three_classes_under_wide_gaussians_against_a_fine_grid(deviation: float) -> None:
    mean, covariance = gaussians(3, deviation)
    step = 0.5 / (2 * deviation)  # the softmax varies over lengths of one
    axis = np.arange(-6.5, 6.5, step)
    weights = np.exp(-(axis**2) / 2)
    weights /= weights.sum()
    found = class_probabilities.softmax_mean(mean, covariance)
    for m, c, shares in zip(mean[:3], covariance[:3], found, strict=False):
        to_last = np.array([[1.0, 0, -1], [0, 1, -1]])
        root = np.linalg.cholesky(to_last @ c @ to_last.T)
        u, v = np.meshgrid(axis, axis, indexing="ij")
        first, second = (to_last @ m)[:, None, None] + np.tensordot(root, [u, v], axes=1)
        peak = np.maximum(np.maximum(first, second), 0)
        parts = np.exp(np.array([first, second, np.zeros_like(first)]) - peak)
        expected = np.einsum("cij,i,j->c", parts / parts.sum(axis=0), weights, weights)
        np.testing.assert_allclose(shares, expected, atol=1e-5)


@pytest.mark.parametrize("deviation", [1e4, 1e8])
def test_three_classes_under_very_wide_gaussians_are_normal_probabilities(deviation: float) -> None:
    """The softmax is then the largest argument: a probability of two signs."""
    mean, covariance = gaussians(3, deviation, seed=1)
    mean[0] = 0.0
    found = class_probabilities.softmax_mean(mean, covariance)
    for m, c, shares in zip(mean, covariance, found, strict=True):
        for k in range(3):
            over = np.array([np.eye(3)[k] - np.eye(3)[j] for j in range(3) if j != k])
            law = multivariate_normal(np.zeros(2), over @ c @ over.T / deviation**2)
            assert shares[k] == pytest.approx(law.cdf(over @ m / deviation), abs=1e-5)


def test_three_classes_where_one_or_both_dimensions_have_no_variance() -> None:
    mean = np.array([[3.0, -1.0, 0.5], [900.0, 0.0, 1000.0]])
    np.testing.assert_allclose(
        class_probabilities.softmax_mean(mean, np.zeros((2, 3, 3))),
        softmax(mean, axis=1),
        atol=1e-5,
    )
    along = np.array([1.0, 0.0, -2.0])
    for deviation in (0.3, 5.0, 500.0):
        covariance = deviation**2 * np.outer(along, along)
        nodes = np.linspace(-8, 8, 400_001)
        density = np.exp(-(nodes**2) / 2)
        values = softmax(mean[0] + deviation * nodes[:, None] * along, axis=1)
        expected = density @ values / density.sum()
        found = class_probabilities.softmax_mean(mean[:1], covariance[None])[0]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [4, 10])
def test_more_classes_under_wide_gaussians(n_classes: int) -> None:
    """Against random draws: five standard errors, of at most 60 shares: one alarm in 10,000."""
    mean, covariance = gaussians(n_classes, 100.0)
    found = class_probabilities.softmax_mean(mean, covariance)
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(100_000, n_classes))
    for m, c, shares in zip(mean, covariance, found, strict=True):
        expected = softmax(m + draws @ np.linalg.cholesky(c).T, axis=1).mean(axis=0)
        error = 5 * np.sqrt(0.25 / len(draws))
        np.testing.assert_allclose(shares, expected, atol=0.01 + error)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_softmax_mean_does_not_see_common_shifts(n_classes: int) -> None:
    mean, covariance = gaussians(n_classes, 1.0)
    shifted = class_probabilities.softmax_mean(mean + 100, covariance + 7)
    expected = class_probabilities.softmax_mean(mean, covariance)
    np.testing.assert_allclose(shifted, expected, atol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_the_softmax_mean_is_the_same_in_any_company(n_classes: int) -> None:
    mean, covariance = gaussians(n_classes, 1.0)
    # Where all covariances are equal, eigenvectors are arbitrary.
    covariance[0] = 3 * np.eye(n_classes)
    together = class_probabilities.softmax_mean(mean, covariance)
    alone = [
        class_probabilities.softmax_mean(mean[i : i + 1], covariance[i : i + 1])[0]
        for i in range(6)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
