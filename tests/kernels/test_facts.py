"""Facts about kernels that are often stated wrongly."""

from __future__ import annotations

import math

import numpy as np
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import additive_chi2_kernel

import mercer as mc
from mercer import validity

RNG = np.random.default_rng(10)
X = RNG.normal(size=(25, 2))


def test_the_geometric_sum_of_products_is_not_the_cube_of_one_plus_a_product() -> None:
    x, z = np.array([[2.0]]), np.array([[3.0]])
    t = 6.0
    assert mc.Monomials(degree=3)(x, z)[0, 0] == 1 + t + t**2 + t**3 == 259.0
    assert mc.Polynomial(degree=3)(x, z)[0, 0] == (1 + t) ** 3 == 343.0


def test_the_cube_of_the_inner_product_is_a_valid_kernel_everywhere() -> None:
    kernel = mc.Polynomial(degree=3, offset=0.0)
    assert kernel.is_psd
    assert validity.check(kernel, X).valid is True
    assert validity.check(mc.Linear() ** 3, -np.abs(X)).valid is True


def test_xor_lifted_by_its_product_is_split_by_the_right_plane() -> None:
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    labels = np.array([0, 1, 1, 0])
    x1, x2 = points.T
    plane = x1 + x2 - 2 * x1 * x2
    assert ((plane > 0.5) == labels).all()
    assert not ((x1 * x2 > 0.5) == labels).all()
    assert not ((x1 * x2 < 0.5) == labels).all()


def test_monomials_of_degree_five_in_a_hundred_variables() -> None:
    assert math.comb(105, 5) == 96_560_646
    assert mc.features.dimension(100, 5) == 96_560_646


def test_the_gradient_of_the_ridge_objective() -> None:
    """J(a) = |y - K a|^2 / 2 + lambda a'Ka / 2 has the gradient -K (y - K a) + lambda K a."""
    K, y, a, penalty = mc.RBF()(X), RNG.normal(size=25), RNG.normal(size=25), 0.3

    def objective(v: np.ndarray) -> float:
        residual = y - K @ v
        return float(residual @ residual + penalty * v @ K @ v) / 2

    step = 1e-5
    slopes = [(objective(a + step * e) - objective(a - step * e)) / (2 * step) for e in np.eye(25)]
    assert_allclose(slopes, -K @ (y - K @ a) + penalty * K @ a, rtol=1e-6, atol=1e-7)


def test_eigenvalues_of_the_example_matrix() -> None:
    K = np.array([[1, 0.8, 0.3], [0.8, 1, 0.5], [0.3, 0.5, 1]])
    assert_allclose(np.linalg.eigvalsh(K)[::-1], [2.095, 0.736, 0.169], atol=5e-4)
    report = validity.check(K)
    assert report.valid
    assert_allclose(report.min_eigenvalue, 0.169, atol=5e-4)


def test_the_exponential_of_an_unbounded_kernel_is_a_kernel() -> None:
    kernel = mc.Linear().exp()
    assert kernel.is_psd
    assert validity.check(kernel, 2 * X).valid is True


def test_the_product_of_geometric_sums_spans_each_degree_in_each_variable() -> None:
    names = mc.Monomials(degree=2).feature_names(X)
    assert len(names) == (2 + 1) ** 2  # x1^2 x2^2 has degree 4 in total
    assert np.linalg.matrix_rank(mc.Monomials(degree=2)(X)) == 9


def test_the_negative_chi2_distance_is_no_kernel_but_the_harmonic_sum_is() -> None:
    histograms = RNG.random((20, 4))
    assert validity.check(additive_chi2_kernel(histograms)).valid is False
    assert validity.check(mc.AdditiveChi2(), histograms).valid is True


def test_the_cosine_of_the_distance_is_no_kernel_but_that_of_the_signed_sum_is() -> None:
    def cosine_of_distance(points: np.ndarray) -> np.ndarray:
        return np.cos(np.linalg.norm(points[:, None] - points[None], axis=2))

    assert validity.check(cosine_of_distance(3 * X)).valid is False
    assert validity.check(mc.Cosine([1.0, 0.5]), 3 * X).valid is True


def test_a_wendland_function_is_valid_up_to_its_dimension_only() -> None:
    """(1 - r)_+ is a kernel on the line and not in three dimensions."""
    grid = np.stack(np.meshgrid(*[np.arange(5) * 0.45] * 3), axis=-1).reshape(-1, 3)
    r = np.linalg.norm(grid[:, None] - grid[None], axis=2)
    assert validity.check(np.maximum(1 - r, 0)).valid is False
    assert validity.check(mc.Wendland(dimension=1, smoothness=0), grid[:5, :1]).valid is True
    assert validity.check(mc.Wendland(dimension=3, smoothness=0), grid).valid is True


def test_minus_the_squared_distance_is_only_conditionally_positive() -> None:
    K = -((X[:, None] - X[None]) ** 2).sum(axis=2)
    refuted = validity.check(K)
    assert refuted.valid is False
    assert refuted.witness is not None
    assert refuted.witness @ K @ refuted.witness < 0
    assert validity.check(K, conditional=True).valid is True
