"""Stationary kernels against naive loops, closed forms, scikit-learn and extended precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import mercer as mc
import references as ref
from mercer import validity
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.tree import declared
from mercer.program.gradient import _parameter_plan
from mercer.testing import check_kernel
from references import differences, label

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(17, 3)), RNG.normal(size=(9, 3))
ARD = [0.5, 1.0, 2.0]

LOOPS: list[tuple[mc.Kernel, Any, dict[str, Any]]] = [
    (mc.RBF(), ref.rbf, {}),
    (mc.RBF(0.7), ref.rbf, {"length_scale": 0.7}),
    (mc.RBF(ARD), ref.rbf, {"length_scale": ARD}),
    (mc.Laplacian(0.7), ref.laplacian, {"length_scale": 0.7}),
    (mc.Laplacian(ARD), ref.laplacian, {"length_scale": ARD}),
    *(
        (mc.Matern(length_scale, nu=nu), ref.matern, {"length_scale": length_scale, "nu": nu})
        for length_scale in (0.7, ARD)
        for nu in (0.5, 1.5, 2.5, 3.5, 7.5, math.inf)
    ),
    (
        mc.RationalQuadratic(ARD, alpha=0.3),
        ref.rational_quadratic,
        {"length_scale": ARD, "alpha": 0.3},
    ),
    (mc.Periodic(1.3, 0.7), ref.periodic, {"period": 1.3, "length_scale": 0.7}),
    (mc.Periodic(1.3, ARD), ref.periodic, {"period": 1.3, "length_scale": ARD}),
    (mc.Cosine(0.3), ref.cosine, {"length_scale": 0.3}),
    (mc.Cosine(ARD), ref.cosine, {"length_scale": ARD}),
    (
        mc.SpectralMixture([1.0, 0.5], [0.3, 1.1], [1.0, 2.0]),
        ref.spectral_mixture,
        {"weights": [1.0, 0.5], "frequencies": [0.3, 1.1], "length_scale": [1.0, 2.0]},
    ),
    (
        mc.SpectralMixture([1.0, 0.5], [ARD, [-0.1, 0.2, 0.0]], [ARD, [1, 1, 3]]),
        ref.spectral_mixture,
        {
            "weights": [1.0, 0.5],
            "frequencies": [ARD, [-0.1, 0.2, 0.0]],
            "length_scale": [ARD, [1, 1, 3]],
        },
    ),
    *(
        (
            mc.Wendland(3.0, dimension=d, smoothness=s),
            ref.wendland,
            {"length_scale": 3.0, "dimension": d, "smoothness": s},
        )
        for d, s in ref.WENDLAND
        if d >= 3
    ),
]


@pytest.mark.parametrize(("kernel", "loop", "parameters"), LOOPS, ids=label)
def test_kernel_equals_its_loop(kernel: mc.Kernel, loop: Any, parameters: dict[str, Any]) -> None:
    assert_allclose(kernel(X), ref.matrix(loop, X, **parameters), rtol=1e-12, atol=1e-13)
    assert_allclose(kernel(X, Z), ref.matrix(loop, X, Z, **parameters), rtol=1e-12, atol=1e-13)
    assert_allclose(kernel.diag(X), [loop(x, x, **parameters) for x in X], rtol=1e-14)


@pytest.mark.parametrize("smoothness", [0, 1, 2])
def test_wendland_on_the_line_equals_its_loop(smoothness: int) -> None:
    kernel = mc.Wendland(1.5, dimension=1, smoothness=smoothness)
    wanted = ref.matrix(
        ref.wendland, X[:, :1], length_scale=1.5, dimension=1, smoothness=smoothness
    )
    assert_allclose(kernel(X[:, :1]), wanted, rtol=1e-12, atol=1e-13)


def test_scikit_learn_agrees() -> None:
    assert_allclose(mc.RBF.from_gamma(0.3)(X, Z), rbf_kernel(X, Z, gamma=0.3), rtol=1e-12)
    assert_allclose(mc.Laplacian(1 / 0.3)(X, Z), laplacian_kernel(X, Z, gamma=0.3), rtol=1e-12)
    ours = mc.RationalQuadratic(0.8, alpha=1.7)(X, Z)
    assert_allclose(ours, gp.RationalQuadratic(0.8, 1.7)(X, Z), rtol=1e-12)
    # scikit-learn takes the sine of the Euclidean distance, which is ours in one column only.
    x, z = X[:, :1], Z[:, :1]
    assert_allclose(mc.Periodic(1.3, 0.8)(x, z), gp.ExpSineSquared(0.8, 1.3)(x, z), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.3, 1.5, 2.5, 4.0, math.inf])
def test_scikit_learn_matern_agrees(nu: float) -> None:
    wanted = gp.Matern(length_scale=ARD, nu=nu)(X, Z)
    assert_allclose(mc.Matern(ARD, nu=nu)(X, Z), wanted, rtol=1e-10, atol=1e-12)


def test_matern_infinity_is_the_rbf() -> None:
    assert_allclose(mc.Matern(ARD, nu=math.inf)(X), mc.RBF(ARD)(X), rtol=1e-14)
    assert mc.Matern(nu=math.inf).theta.shape == (1,)


def test_smoothness_is_not_learned() -> None:
    assert mc.Matern(nu=1.3).theta_names == ["length_scale"]


def test_large_shape_of_rational_quadratic_is_the_rbf() -> None:
    assert_allclose(mc.RationalQuadratic(alpha=1e9)(X), mc.RBF()(X), atol=1e-7)


def test_from_gamma_is_the_bridge_and_refuses_what_is_not_positive() -> None:
    assert mc.RBF.from_gamma(0.125).length_scale == 2.0
    assert mc.RBF.from_gamma([0.125, 0.5]) == mc.RBF([2.0, 1.0])
    assert declared(mc.RBF.from_gamma(mc.Fixed(0.5)), "length_scale") == mc.Fixed(1.0)
    for bad in (-1, 0, "a", None):
        with pytest.raises(ParameterError, match=r"RBF\.from_gamma: gamma = .* pass"):
            mc.RBF.from_gamma(bad)


def test_periodic_repeats() -> None:
    kernel = mc.Periodic(period=0.7)
    assert_allclose(kernel(X, Z), kernel(X + 5 * 0.7, Z), rtol=1e-11)


def test_wendland_vanishes_beyond_its_support_and_states_its_dimension() -> None:
    kernel = mc.Wendland(0.5, dimension=3)
    far = ref.matrix(ref.squared_distance, X) >= 0.25
    assert (kernel(X)[far] == 0).all()
    with pytest.raises(DataError, match=r"Wendland: .*4 columns.*dimension = 3; pass dimension=4"):
        kernel(RNG.normal(size=(5, 4)))


def test_mixture_needs_one_row_for_each_component_and_column() -> None:
    with pytest.raises(ParameterError, match=r"SpectralMixture: .* component"):
        mc.SpectralMixture([1.0, 2.0], [0.0], [1.0, 1.0])
    with pytest.raises(ParameterError, match=r"SpectralMixture: frequencies has 2 columns"):
        mc.SpectralMixture([1.0], [[0.0, 1.0]], [1.0])(X)


@pytest.mark.parametrize("kernel", [mc.RBF([1, 2]), mc.Periodic(1.0, [1, 2]), mc.Cosine([1, 2])])
def test_one_length_for_each_column_or_one_for_all(kernel: mc.Kernel) -> None:
    with pytest.raises(ParameterError, match=r"length_scale has 2 values .* 3 columns; pass one"):
        kernel(X)


Long = np.longdouble

ORACLES: dict[str, tuple[Any, Any]] = {
    "rbf": (lambda h: mc.RBF(h), lambda D, h: np.exp(-((D / h) ** 2).sum(-1) / 2)),
    "laplacian": (lambda h: mc.Laplacian(h), lambda D, h: np.exp(-np.abs(D / h).sum(-1))),
    "matern": (
        lambda h: mc.Matern(h, nu=1.5),
        lambda D, h: (lambda r: (1 + r) * np.exp(-r))(np.sqrt(3 * ((D / h) ** 2).sum(-1))),
    ),
    "cauchy": (
        lambda h: mc.RationalQuadratic(h),
        lambda D, h: 1 / (1 + ((D / h) ** 2).sum(-1) / 2),
    ),
    "periodic": (
        lambda h: mc.Periodic(100 * h, 1.0),
        lambda D, h: np.exp(-2 * (np.sin(Long(np.pi) * D / (100 * Long(h))) ** 2).sum(-1)),
    ),
    "cosine": (lambda h: mc.Cosine(100 * h), lambda D, h: np.cos((D / (100 * Long(h))).sum(-1))),
}


@pytest.mark.parametrize("d", [1, 3, 20, 100])
@pytest.mark.parametrize("name", ORACLES)
def test_shifted_data_with_short_length_scales_do_not_cancel(name: str, d: int) -> None:
    """Data at 1e6 with a spread and length-scales a million times smaller."""
    kernel, oracle = ORACLES[name]
    length = 0.5 * d if name == "laplacian" else float(np.sqrt(d))
    X, Z = 1e6 + RNG.normal(size=(40, d)), 1e6 + RNG.normal(size=(30, d))
    Z[:5] = X[:5]
    for rows, cols, args in ((X, Z, (X, Z)), (X, X, (X,))):
        wanted = oracle(differences(rows, cols), Long(length))
        assert np.abs(kernel(length)(*args) - wanted).max() < 1e-12
        V = RNG.normal(size=(len(cols), 2))
        assert_allclose(kernel(length).gram(*args) @ V, (wanted @ V).astype(float), atol=1e-10)


@pytest.mark.parametrize("d", [1, 3, 20, 100])
@pytest.mark.parametrize("name", ORACLES)
def test_shifted_data_in_single_precision(name: str, d: int) -> None:
    kernel, oracle = ORACLES[name]
    length = 8.0 * (d if name == "laplacian" else np.sqrt(d))
    X, Z = ((1e6 + 8 * RNG.normal(size=(n, d))).astype(np.float32) for n in (40, 30))
    wanted = oracle(differences(X, Z), Long(length))
    K = kernel(float(length))(X, Z)
    assert K.dtype == np.float32
    assert np.abs(K - wanted).max() < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outlier", [1e3, 1e5, 1e8])
def test_an_outlier_does_not_spoil_the_others(outlier: float, dtype: Any) -> None:
    X = RNG.normal(size=(30, 3)).astype(dtype)
    X[0] = outlier
    wanted = np.exp(-(differences(X, X) ** 2).sum(-1) / 2)
    assert np.abs(mc.RBF()(X) - wanted).max() < (1e-5 if dtype == np.float32 else 1e-9)


def test_the_diagonal_is_exact() -> None:
    X = 1e6 + RNG.normal(size=(50, 40))
    for kernel in (mc.RBF(1e-3), mc.Matern(1e-3), mc.Laplacian(1e-3), mc.Matern(1e-3, nu=1.3)):
        for data in (X, X.astype(np.float32)):
            assert (np.diag(kernel(data)) == 1.0).all()
            assert (np.diag(kernel(data, data)) == 1.0).all()


def test_gradients_are_finite_on_the_diagonal_and_on_duplicate_rows() -> None:
    X = np.repeat(RNG.normal(size=(5, 2)), 2, axis=0)
    for kernel in (
        mc.Matern(nu=0.5),
        mc.Matern(nu=1.3),
        mc.Laplacian(),
        mc.Wendland(),
        mc.ArcCosine(),
    ):
        gram = kernel.gram(X)
        assert np.isfinite(gram.gradient()).all()
        assert np.isfinite(gram.input_gradient()).all()


@pytest.mark.parametrize("make", [mc.RBF, mc.Laplacian, mc.Matern, mc.RationalQuadratic])
def test_limits_of_the_length_scale(make: Any) -> None:
    X = RNG.normal(size=(20, 3))
    assert_allclose(make(1e-9)(X), np.eye(20), atol=1e-12)
    assert_allclose(make(1e9)(X), np.ones((20, 20)), atol=1e-7)


def test_limits_of_the_rbf_are_exact() -> None:
    X = RNG.normal(size=(20, 3))
    assert_array_equal(mc.RBF(1e-12)(X), np.eye(20))
    assert_array_equal(mc.RBF(1e12)(X), np.ones((20, 20)))


def test_huge_and_tiny_data_stay_finite() -> None:
    for size in (1e150, 1e-150):
        X = size * RNG.normal(size=(6, 3))
        K = mc.RBF(size)(X)
        assert_allclose(K, mc.RBF(1.0)(X / size), rtol=1e-12)
    assert np.isfinite(mc.RBF()(np.full((3, 2), 1e308))).all()


PLANE = RNG.normal(size=(25, 2))


def test_the_cosine_of_the_distance_is_no_kernel_but_that_of_the_signed_sum_is() -> None:
    def cosine_of_distance(points: np.ndarray) -> np.ndarray:
        return np.cos(np.linalg.norm(points[:, None] - points[None], axis=2))

    assert validity.check(cosine_of_distance(3 * PLANE)).valid is False
    assert validity.check(mc.Cosine([1.0, 0.5]), 3 * PLANE).valid is True


def test_a_wendland_function_is_valid_up_to_its_dimension_only() -> None:
    """(1 - r)_+ is a kernel on the line and not in three dimensions."""
    grid = np.stack(np.meshgrid(*[np.arange(5) * 0.45] * 3), axis=-1).reshape(-1, 3)
    r = np.linalg.norm(grid[:, None] - grid[None], axis=2)
    assert validity.check(np.maximum(1 - r, 0)).valid is False
    assert validity.check(mc.Wendland(dimension=1, smoothness=0), grid[:5, :1]).valid is True
    assert validity.check(mc.Wendland(dimension=3, smoothness=0), grid).valid is True


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 1.3])
def test_distances_that_overflow_give_zero(nu: float) -> None:
    X = np.array([[0.0], [1e200], [-1e200]])
    assert_allclose(mc.Matern(nu=nu)(X), np.eye(3))
    for smoothness in range(4):
        assert_allclose(mc.Wendland(smoothness=smoothness)(X), np.eye(3))


@pytest.mark.parametrize("d", [2, 40])
def test_gradients_for_each_column_have_as_many_requests_as_for_one(d: int) -> None:
    kernels = {
        mc.Periodic(1.3, np.linspace(0.5, 2.0, d)): 1,
        mc.SpectralMixture([1.0, 0.5], np.full((2, d), 0.1), np.ones((2, d))): 6,
    }
    for kernel, wanted in kernels.items():
        assert len(_parameter_plan((kernel.expression,))[2]) == wanted


def test_weights_for_each_column_are_differentiated() -> None:
    frequencies = np.array([[0.0, 0.3, -0.2], [0.1, 0.0, 0.4]])  # zero is an ordinary value
    mixture = mc.SpectralMixture([1.0, 0.5], frequencies, np.linspace(0.5, 2.0, 6).reshape(2, 3))
    periodic = mc.Periodic(1.3, [0.5, 2.0, 0.9])
    rows = np.random.default_rng(3).normal(size=(9, 3))
    for kernel in (mixture, periodic, 2.0 * periodic.on(0, 2, 1) + mixture, mixture.normalized()):
        check_kernel(kernel, rows)
    sines = np.sin(np.pi * (rows[:, None] - rows) / 1.3) / np.array([0.5, 2.0, 0.9])
    assert_allclose(periodic(rows), np.exp(-2 * (sines**2).sum(axis=2)), rtol=1e-12)


@pytest.mark.parametrize("rule", ["median", "scale", "columns"])
def test_the_cosine_takes_its_length_scale_from_the_data_as_the_rbf_does(rule: str) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 100.0]
    found = mc.Cosine(rule).resolve(rows).length_scale
    np.testing.assert_array_equal(found, mc.RBF(rule).resolve(rows).length_scale)
