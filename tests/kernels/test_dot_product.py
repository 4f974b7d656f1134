"""Dot-product kernels against naive loops, definitions and scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, sigmoid_kernel

import mercer as mc
import references as ref
from mercer import validity
from references import label

RNG = np.random.default_rng(1)
X, Z = RNG.normal(size=(15, 4)), RNG.normal(size=(8, 4))

LOOPS: list[tuple[mc.Kernel, Any, dict[str, Any]]] = [
    (mc.Linear(), ref.dot, {}),
    (mc.Polynomial(), ref.polynomial, {}),
    (mc.Polynomial(5, 0.0, 0.3), ref.polynomial, {"degree": 5, "offset": 0.0, "gain": 0.3}),
    (mc.Polynomial(1, 2.0, 3.0), ref.polynomial, {"degree": 1, "offset": 2.0, "gain": 3.0}),
    (mc.Sigmoid(0.4, -0.3), ref.sigmoid, {"gain": 0.4, "offset": -0.3}),
    *((mc.Monomials(d), ref.monomials, {"degree": d}) for d in (1, 2, 5)),
    *((mc.Anova(d), ref.anova, {"degree": d}) for d in (1, 2, 3, 4, 5)),
    *((mc.ArcCosine(o), ref.arc_cosine, {"order": o}) for o in (0, 1, 2)),
]


@pytest.mark.parametrize(("kernel", "loop", "parameters"), LOOPS, ids=label)
def test_kernel_equals_its_loop(kernel: mc.Kernel, loop: Any, parameters: dict[str, Any]) -> None:
    size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z))) if kernel.is_psd else 1.0
    gap = np.abs(kernel(X, Z) - ref.matrix(loop, X, Z, **parameters))
    assert (gap <= 1e-13 * size + 1e-13).all()
    assert_allclose(kernel.diag(X), [loop(x, x, **parameters) for x in X], rtol=1e-7)


def test_scikit_learn_agrees() -> None:
    assert_allclose(mc.Linear()(X, Z), linear_kernel(X, Z), rtol=1e-12, atol=1e-13)
    ours = mc.Polynomial(degree=4, offset=0.5, gain=0.3)(X, Z)
    assert_allclose(ours, polynomial_kernel(X, Z, 4, gamma=0.3, coef0=0.5), rtol=1e-11, atol=1e-12)
    ours = mc.Sigmoid(gain=0.3, offset=0.5)(X, Z)
    assert_allclose(ours, sigmoid_kernel(X, Z, gamma=0.3, coef0=0.5), rtol=1e-12, atol=1e-13)


def test_high_odd_powers_keep_the_sign_of_negative_numbers() -> None:
    s = X[:5] @ Z[:4].T / 4
    for kernel in (mc.Polynomial(101, 0.0, 0.25), (0.25 * mc.Linear()) ** 101):
        assert_allclose(kernel(X[:5], Z[:4]), s**101, rtol=1e-11)


def test_anova_of_more_columns_than_there_are_is_zero() -> None:
    assert (mc.Anova(degree=5)(X) == 0).all()


def test_sum_of_anova_kernels_is_the_product_over_columns() -> None:
    total = 1.0 + sum(mc.Anova(degree=m)(X) for m in range(1, 5))
    assert_allclose(total, mc.Monomials(degree=1)(X), rtol=1e-10, atol=1e-12)


def test_arc_cosine_of_order_one_halves_the_linear_kernel_on_both_sides() -> None:
    """k1(x, z) - k1(x, -z) = x.z (ReLU(t) - ReLU(-t) = t), and k1(x, x) = |x|^2."""
    kernel = mc.ArcCosine(order=1)
    assert_allclose(kernel(X, Z) - kernel(X, -Z), X @ Z.T, atol=1e-13)
    assert_allclose(kernel.diag(X), (X**2).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_keeps_digits_at_tiny_and_flat_angles(order: int) -> None:
    angles = np.array([1e-12, 1e-8, 1e-3, math.pi - 1e-8, math.pi])
    Z = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sin, cos = np.sin(angles), np.cos(angles)
    wanted = (
        math.pi - angles,
        sin + (math.pi - angles) * cos,
        3 * sin * cos + (math.pi - angles) * (1 + 2 * cos**2),
    )[order] / math.pi
    found = mc.ArcCosine(order)(np.array([[1.0, 0.0]]), Z)[0]
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)


def test_arc_cosine_takes_zero_huge_and_tiny_rows() -> None:
    rows = np.array([[0.0, 0.0], [1e160, 1e160], [1e-160, 0.0]])
    K = mc.ArcCosine(order=0)(rows)
    assert np.isfinite(K).all()
    assert_allclose(K[1, 2], 0.75, rtol=1e-14)
    assert_allclose(mc.ArcCosine(order=1)(rows[[0, 2]])[0], 0.0)


def test_sigmoid_says_that_it_is_indefinite_and_is() -> None:
    assert mc.Sigmoid().is_psd is False
    assert validity.check(mc.Sigmoid(gain=1.0, offset=-1.0), X).valid is False
    assert (mc.Sigmoid() + mc.RBF()).is_psd is None


def test_the_geometric_sum_of_products_is_not_the_cube_of_one_plus_a_product() -> None:
    x, z = np.array([[2.0]]), np.array([[3.0]])
    t = 6.0
    assert mc.Monomials(degree=3)(x, z)[0, 0] == 1 + t + t**2 + t**3 == 259.0
    assert mc.Polynomial(degree=3)(x, z)[0, 0] == (1 + t) ** 3 == 343.0


PLANE = RNG.normal(size=(25, 2))


def test_the_cube_of_the_inner_product_is_a_valid_kernel_everywhere() -> None:
    kernel = mc.Polynomial(degree=3, offset=0.0)
    assert kernel.is_psd
    assert validity.check(kernel, PLANE).valid is True
    assert validity.check(mc.Linear() ** 3, -np.abs(PLANE)).valid is True


def test_the_product_of_geometric_sums_spans_each_degree_in_each_variable() -> None:
    names = mc.Monomials(degree=2).feature_names(PLANE)
    assert len(names) == (2 + 1) ** 2  # x1^2 x2^2 has degree 4 in total
    assert np.linalg.matrix_rank(mc.Monomials(degree=2)(PLANE)) == 9


def test_directions_of_the_smallest_rows() -> None:
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert_allclose(mc.ArcCosine(0)(5e-320 * X), mc.ArcCosine(0)(X), rtol=1e-3)
