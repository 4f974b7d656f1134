"""Random Fourier features are unbiased, of the stated variance, with an error of D^(-1/2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import NoFeatureMapError
from monte_carlo import assert_mean, assert_variance, estimates, points

MIXTURE = mc.SpectralMixture(
    weights=[1.0], frequencies=[[0.1, 0.2, 0.0]], length_scale=[[1.0, 2.0, 3.0]]
)
STATIONARY = {
    "RBF": mc.RBF(length_scale=1.5),
    "ARD": mc.RBF(length_scale=[1.0, 2.0, 4.0]),
    "Matern 1/2": mc.Matern(nu=0.5, length_scale=2.0),
    "Matern 0.8": mc.Matern(nu=0.8, length_scale=2.0),
    "Matern 5/2": mc.Matern(nu=2.5),
    "Matern infinity": mc.Matern(nu=np.inf),
    "Laplacian": mc.Laplacian(length_scale=[3.0, 5.0, 4.0]),
    "RationalQuadratic": mc.RationalQuadratic(alpha=0.6),
    "Periodic": mc.Periodic(period=3.0, length_scale=[0.8, 1.0, 2.0]),
    "SpectralMixture": MIXTURE,
    "scaled, on columns": 3.0 * mc.RBF().on(0, 2),
    "product": mc.RBF(length_scale=2.0) * mc.Matern(length_scale=3.0).on(1),
    "power": mc.RBF(length_scale=3.0) ** 3,
    "locally periodic": mc.RBF(length_scale=4.0).on(0) * mc.Periodic(period=2.0).on(0),
    "wave": mc.RBF(length_scale=2.0) * mc.Cosine(length_scale=1.5),
    "wave with a mixture": mc.Cosine(length_scale=3.0) * MIXTURE,
    "mixture squared": MIXTURE**2,
    "three one-sided factors": mc.Cosine().on(0) * MIXTURE * mc.RBF() * mc.Cosine(2.0).on(1),
    "more waves than room": mc.Cosine(length_scale=2.0) ** 3,
}


@pytest.mark.parametrize(
    ("name", "n_components"), [("RBF", 10), ("RBF", 1), *((name, 7) for name in STATIONARY)]
)
def test_independent_frequencies_are_unbiased_with_the_stated_variance(
    name: str, n_components: int
) -> None:
    kernel = STATIONARY[name]
    x, z = points(2, 3, seed=1)
    X = np.array([x, z, x, 0.5 * z])
    values = estimates(
        lambda seed: mc.RandomFourier(kernel, n_components, method="iid", random_state=seed), X
    )
    exact = kernel(X)[0, 1:]
    assert_mean(values, exact)
    scale = kernel.diag(X[:1])[0]
    # An odd one out is a cosine at a random phase: half a pair by weight, of variance 1 + k(2d)/2.
    doubled = np.array([kernel(2 * X[[0]], 2 * X[[j]])[0, 0] for j in (1, 2, 3)]) / scale
    pair = (1 + doubled) / 2 - (exact / scale) ** 2
    single = 1 + doubled / 2 - (exact / scale) ** 2
    pairs, odd = divmod(n_components, 2)
    expected = (pairs * 4 * pair + odd * single) * (scale / n_components) ** 2
    assert_variance(values[:, expected > 1e-9], expected[expected > 1e-9])


SUMS = {
    "two terms": mc.RBF(length_scale=2.0) + 0.5 * mc.Matern().on(0),
    "with a constant": mc.RBF() + 2.0,
    "with a wave": mc.Laplacian(length_scale=3.0) + mc.Cosine(length_scale=2.0),
    "a mixture": mc.SpectralMixture(
        weights=[1.0, 0.5], frequencies=[0.1, 0.3], length_scale=[1.0, 3.0]
    ),
    "nested": (mc.RBF() + 0.2) * (mc.Matern().on(1) + mc.RBF(length_scale=5.0)),
    "polynomial": mc.RBF(length_scale=2.0).polynomial([0.5, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("method", ["orthogonal", "iid", "sobol"])
def test_sums_are_unbiased_under_every_method(name: str, method: str) -> None:
    kernel, X = SUMS[name], points(4, 3, seed=2)
    values = estimates(
        lambda seed: mc.RandomFourier(kernel, 24, method=method, random_state=seed), X, 80
    )
    assert_mean(values, kernel(X)[0, 1:])


DEPENDENT = ["RBF", "ARD", "Matern 0.8", "Laplacian", "Periodic", "product", "wave with a mixture"]
DEPENDENT += ["mixture squared", "three one-sided factors", "more waves than room"]


def test_kernels_of_the_table_are_products_of_values() -> None:
    """The oracle of products with waves, from cosines of NumPy, not from the kernels' algebra."""
    x, z = points(2, 3, seed=1)
    wave = np.cos((x - z).sum() / 3) * np.cos(2 * np.pi * (x - z) @ [0.1, 0.2, 0.0])
    bump = np.exp(-(((x - z) / [1.0, 2.0, 3.0]) ** 2).sum() / 2)
    found = STATIONARY["wave with a mixture"](x[None], z[None])
    assert_allclose(found, wave * bump, rtol=1e-12)
    cube = np.cos((x - z).sum() / 2) ** 3
    assert_allclose(STATIONARY["more waves than room"](x[None], z[None]), cube, rtol=1e-12)


@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.parametrize("method", ["orthogonal", "sobol"])
def test_dependent_frequencies_are_unbiased(name: str, method: str) -> None:
    kernel, X = STATIONARY[name], points(4, 3, seed=3)
    values = estimates(
        lambda seed: mc.RandomFourier(kernel, 12, method=method, random_state=seed), X
    )
    assert_mean(values, kernel(X)[0, 1:])


@pytest.mark.parametrize("d", [1, 2, 3, 8, 21])
@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF(length_scale="scale"),
        mc.Matern(nu=1.5, length_scale="median"),
        mc.RationalQuadratic(),
    ],
    ids=["RBF", "Matern", "RationalQuadratic"],
)
def test_fastfood_is_unbiased(d: int, kernel: mc.Kernel) -> None:
    X = points(4, d, seed=d)
    exact = kernel.resolve(X)(X)[0, 1:]
    values = estimates(lambda seed: mc.Fastfood(kernel, 32, random_state=seed), X)
    assert_mean(values, exact)


def test_structured_features_have_next_to_no_bias() -> None:
    """Not unbiased, but close: within 0.01 of the kernel at d = 200 and at d = 5."""
    for d in (5, 200):
        X = points(6, d, seed=4)
        kernel = mc.RBF(length_scale="scale").resolve(X)
        values = estimates(
            lambda seed, k=kernel: mc.RandomFourier(
                k, 2048, method="structured", random_state=seed
            ),
            X,
            30,
        )
        assert_allclose(values.mean(axis=0), kernel(X)[0, 1:], atol=0.01)


def kernel_error(n_components: int, seeds: int = 12, d: int = 10, **parameters: Any) -> float:
    X = points(60, d, seed=5)
    kernel = mc.RBF(length_scale=np.sqrt(d))
    errors = []
    for seed in range(seeds):
        Phi = mc.RandomFourier(kernel, n_components, random_state=seed, **parameters).fit_transform(
            X
        )
        errors.append(np.mean((Phi @ Phi.T - kernel(X)) ** 2))
    return float(np.sqrt(np.mean(errors)))


@pytest.mark.parametrize("method", ["iid", "orthogonal", "structured"])
def test_the_error_falls_as_the_root_of_the_number_of_components(method: str) -> None:
    few, many = (kernel_error(n, method=method) for n in (100, 1600))
    assert 4 / 1.5 < few / many < 4 * 1.5


def test_dependent_frequencies_have_the_smaller_error() -> None:
    errors = {m: kernel_error(400, method=m) for m in ("iid", "orthogonal", "structured")}
    assert errors["orthogonal"] < 0.75 * errors["iid"]
    assert errors["structured"] < 1.1 * errors["iid"]
    plane = {m: kernel_error(400, d=2, method=m) for m in ("iid", "sobol")}
    assert plane["sobol"] < 0.3 * plane["iid"]


def test_exact_parts_are_exact() -> None:
    X = points(10, 2)
    wave = 3.0 * mc.Cosine(length_scale=2.0) + 4.0
    Phi = mc.RandomFourier(wave, 50, random_state=0).fit_transform(X)
    assert Phi.shape == (10, 3)
    assert_allclose(Phi @ Phi.T, wave(X), atol=1e-12)


@pytest.mark.parametrize("method", ["orthogonal", "iid", "sobol", "structured"])
@pytest.mark.parametrize(
    ("kernel", "naive", "width"),
    [
        (mc.Cosine(1.0) ** 2, lambda t: np.cos(t.sum(-1)) ** 2, 4),
        (mc.Cosine(1.0) * mc.Cosine(2.0), lambda t: np.cos(t.sum(-1)) * np.cos(t.sum(-1) / 2), 4),
        (
            mc.Cosine().on(0) * mc.Cosine().on(1) * mc.Cosine(0.5).on(0),
            lambda t: np.cos(t[..., 0]) * np.cos(t[..., 1]) * np.cos(2 * t[..., 0]),
            8,
        ),
        (
            3.0 * mc.Cosine().on(0) * mc.Cosine().on(1) + mc.Cosine([2.0, 4.0]) + 0.5,
            lambda t: 3 * np.cos(t).prod(-1) + np.cos(t[..., 0] / 2 + t[..., 1] / 4) + 0.5,
            7,
        ),
    ],
    ids=["square", "product", "on columns", "sum"],
)
def test_products_of_waves_are_exact(
    method: str, kernel: mc.Kernel, naive: Callable[[np.ndarray], np.ndarray], width: int
) -> None:
    X = points(6, 2)
    Phi = mc.RandomFourier(kernel, 50, method=method, random_state=0).fit_transform(X)
    assert Phi.shape == (6, width)
    assert_allclose(Phi @ Phi.T, naive(X[:, None] - X), atol=1e-12)


def test_products_of_waves_without_room_are_drawn() -> None:
    """Of 20 factors there are a million sums of frequencies; error 1 / sqrt(m) at the most."""
    X, kernel = points(6, 2), mc.Cosine(4.0) ** 20 + mc.Cosine()
    Phi = mc.RandomFourier(kernel, 4002, random_state=0).fit_transform(X)
    t = (X[:, None] - X).sum(-1)
    assert Phi.shape == (6, 4002)
    # Of each of 15 pairs beyond 6 standard errors: less than 1e-7.
    assert_allclose(Phi @ Phi.T, np.cos(t / 4) ** 20 + np.cos(t), atol=6 / np.sqrt(2000))


def test_structured_features_of_shifted_measures_are_refused() -> None:
    for kernel in (MIXTURE * mc.Cosine(), MIXTURE**2, mc.RBF() * mc.Cosine()):
        for transformer in (mc.RandomFourier(kernel, 20, method="structured"), mc.Fastfood(kernel)):
            with pytest.raises(NoFeatureMapError, match='with method="orthogonal"'):
                transformer.fit(points(5, 3))


@pytest.mark.parametrize(
    "kernel",
    [
        (3 * mc.RBF(1.5)).normalized(),
        (3 * mc.RBF(2.0) + 2 * mc.Matern() * mc.RBF().on(0)).normalized(),
        4 * (mc.RBF() + mc.Constant(2.0)).normalized(),
        (2 * mc.Periodic() + mc.Cosine()).on(0).normalized(),
        mc.SpectralMixture([1.0, 2.0], [[0.1], [0.3]], [[1.0], [2.0]]).on(0).normalized(),
    ],
    ids=str,
)
def test_stationary_kernels_that_are_normalised(kernel: Any) -> None:
    # The mean over m independent cosines of differences has a standard deviation below
    # k(x, x) / sqrt(m): six of them, over all 400 pairs, are exceeded once in a million times.
    rows = np.random.default_rng(0).normal(size=(20, 3))
    phi = mc.RandomFourier(kernel, 4000, method="iid", random_state=0).fit_transform(rows)
    assert_allclose(phi @ phi.T, kernel(rows), atol=6 * kernel.diag(rows).max() / np.sqrt(2000))


def test_kernels_without_random_features_say_what_to_do() -> None:
    with pytest.raises(NoFeatureMapError, match=r"kernel\.feature_map.*mercer\.Nystrom"):
        mc.RandomFourier(mc.Spectrum(2)).fit(["abc", "bcd"])
    product = mc.ArcCosine() * mc.ArcCosine(order=0)
    sentence = r"ArcCosine\(\) \* ArcCosine\(order=0\) is a product"
    with pytest.raises(NoFeatureMapError, match=sentence):
        mc.ArcCosineFeatures(product).fit(np.eye(3))
    with pytest.raises(NoFeatureMapError, match=r"RBF\(\) is not an arc-cosine kernel"):
        mc.ArcCosineFeatures(mc.RBF()).fit(np.eye(3))
    with pytest.raises(NoFeatureMapError, match=r"normalized\(\) has no spectral measure"):
        mc.RandomFourier((mc.RBF() + mc.Linear()).normalized()).fit(np.eye(3))
