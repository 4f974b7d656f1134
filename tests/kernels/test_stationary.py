"""Stationary kernels against naive loops, closed forms, scikit-learn and extended precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import mercer as mc
import references as ref
from mercer.exceptions import DataError, ParameterError
from references import label

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


SMOOTHNESS = [
    0.05,
    0.1,
    0.3,
    0.49,
    0.51,
    0.8,
    1.0,
    1.3,
    1.99,
    2.0,
    2.01,
    3.5,
    10,
    19.9,
    20,
    40,
    200,
]


@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_matern_of_any_smoothness_is_good_to_twelve_digits(nu: float) -> None:
    mp = pytest.importorskip("mpmath")
    kernel = mc.Matern(nu=float(nu))
    with mp.workdps(40):
        order = mp.mpf(float(nu))
        for r in np.concatenate([np.geomspace(1e-12, 60.0, 20), np.linspace(0.01, 8.0, 15)]):
            z = mp.sqrt(2 * order) * mp.mpf(float(r))
            wanted = 2 ** (1 - order) / mp.gamma(order) * z**order * mp.besselk(order, z)
            # One pair at a time: rough kernels magnify the last bit of a distance.
            found = kernel([[0.0]], [[r]])[0, 0]
            assert abs(mp.mpf(float(found)) - wanted) < 1e-12
    assert kernel([[0.3]])[0, 0] == 1.0


@pytest.mark.parametrize("nu", [0.8, 1.3, 2.0, 3.5, 40.0])
def test_matern_of_any_smoothness_has_the_right_slope(nu: float) -> None:
    mp = pytest.importorskip("mpmath")
    points, origin = np.geomspace(0.05, 10, 12)[:, None], np.zeros((1, 1))
    for x in points:
        found = mc.Matern(nu=nu).gram(x[None], origin).gradient()[0]
        z = mp.sqrt(2 * nu) * mp.mpf(float(x[0]))
        # d/dr of z^nu K_nu(z) is -z^nu K_{nu-1}(z) dz/dr; theta = log(length_scale), so -r d/dr.
        wanted = (
            2 ** (1 - mp.mpf(nu)) / mp.gamma(nu) * z ** (mp.mpf(nu) + 1) * mp.besselk(nu - 1, z)
        )
        assert_allclose(found, float(wanted), rtol=1e-8, atol=1e-11)


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
    assert mc.RBF.from_gamma(mc.Fixed(0.5)).declared("length_scale") == mc.Fixed(1.0)
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
