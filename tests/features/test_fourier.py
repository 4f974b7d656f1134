"""Random features as estimates: unbiased, of the stated variance, with an error of D^(-1/2).

Statistical tests use fixed seeds. Each compares a mean, or a variance, with its expectation in
standard errors, and fails beyond 4.9 of them, which happens to a right program once in a million.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard
from scipy.stats import kstest

import mercer as mc
from mercer import _core
from mercer.exceptions import DataError, NoFeatureMapError
from mercer.features.expansion import expand, shares
from mercer.features.normal_draws import normals_and_uniforms
from mercer.features.projections import fastfood, sorf

LIMIT = 4.9
SEEDS = 100


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def estimates(make: Callable[[int], Any], X: np.ndarray, seeds: int = SEEDS) -> np.ndarray:
    """Estimate k(x, z) for the first row and all the others, with many seeds."""
    maps = (make(seed).fit_transform(X) for seed in range(seeds))
    return np.array([Phi[1:] @ Phi[0] for Phi in maps])


def assert_mean(values: np.ndarray, expected: np.ndarray) -> None:
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (values.mean(axis=0) - expected) / np.maximum(error, 1e-12)
    assert abs(z).max() < LIMIT, z


def assert_variance(values: np.ndarray, expected: np.ndarray) -> None:
    squares = (values - values.mean(axis=0)) ** 2
    error = squares.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (squares.mean(axis=0) * len(values) / (len(values) - 1) - expected) / error
    assert abs(z).max() < LIMIT, z


# --------------------------------------------------------------------------------------------------
# Random Fourier features

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


def test_components_follow_the_weights() -> None:
    assert shares("map", [3.0, 1.0], [0, 0], 8) == [6, 2]
    assert shares("map", [1e9, 1.0, 1.0], [0, 0, 0], 5) == [3, 1, 1]
    assert shares("map", [1.0, 1.0, 7.0], [0, 0, 2], 5) == [2, 1, 2]
    kernel = (mc.RBF() + 2.0) * (mc.Matern() + 0 * mc.RBF()) + 5.0
    assert [term.weight for term in expand(kernel)] == [1.0, 2.0, 5.0]


# --------------------------------------------------------------------------------------------------
# What the draws are made of


@pytest.mark.parametrize("method", ["iid", "orthogonal", "sobol"])
@pytest.mark.parametrize("columns", [1, 3, 17])
def test_every_row_of_a_draw_is_normal(method: str, columns: int) -> None:
    rows = [
        normals_and_uniforms(method, 7, columns, 2, np.random.default_rng(seed))
        for seed in range(150)
    ]
    for row in (0, 6):  # Kolmogorov-Smirnov at 1e-6, of one entry in each independent draw
        assert kstest([g[row, 0] for g, _ in rows], "norm").pvalue > 1e-6
        assert kstest([u[row, 1] for _, u in rows], "uniform").pvalue > 1e-6


def test_orthogonal_rows() -> None:
    g, _ = normals_and_uniforms("orthogonal", 25, 10, 0, np.random.default_rng(0))
    products = g @ g.T
    for group in (slice(0, 10), slice(10, 20), slice(20, 25)):
        block = products[group, group]
        assert_allclose(block, np.diag(np.diag(block)), atol=1e-12)


def dense(diagonals: np.ndarray, permutations: np.ndarray | None) -> np.ndarray:
    """The product of Hadamard matrices that the engine applies, written out."""
    size = diagonals.shape[-1]
    blocks = []
    for b, block in enumerate(diagonals):
        matrix = np.eye(size)
        for stage, diagonal in enumerate(block):
            if stage == 1 and permutations is not None:
                matrix = matrix[permutations[b]]
            matrix = hadamard(size) @ np.diag(diagonal) @ matrix
        blocks.append(matrix)
    return np.concatenate(blocks)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 64, 512])
def test_the_transform_is_a_product_with_the_hadamard_matrix(size: int, dtype: Any) -> None:
    X = points(11, size).astype(dtype)
    out = np.empty((11, size), dtype)
    _core.hadamard(X, np.ones((1, 1, size), dtype), None, np.ones((1, size), dtype), out, 2)
    tolerance = 100 * np.finfo(dtype).eps * np.sqrt(size)
    assert_allclose(out, X @ hadamard(size), atol=tolerance)


@pytest.mark.parametrize("draw", [sorf, fastfood])
@pytest.mark.parametrize(("d", "width"), [(200, 512), (1, 3), (300, 700), (130, 129)])
def test_structured_products(draw: Any, d: int, width: int) -> None:
    rng = np.random.default_rng(0)
    diagonals, permutations = draw(width, d, rng)
    blocks, _, size = diagonals.shape
    scales = rng.standard_normal((blocks, size))
    matrix = (dense(diagonals, permutations) * scales.reshape(-1, 1))[:width, :d]
    norms = np.linalg.norm(dense(diagonals, permutations), axis=1)
    assert_allclose(norms, 1.0, atol=1e-12)
    X = np.asfortranarray(points(9, d))
    out = np.full((9, width + 5), -7.0)
    _core.hadamard(X, diagonals, permutations, scales, out[:, :width], 1)
    assert_allclose(out[:, :width], X @ matrix.T, atol=1e-10)
    assert_array_equal(out[:, width:], -7.0)
    again = np.empty((9, width))
    _core.hadamard(X, diagonals, permutations, scales, again, 2)
    assert_array_equal(out[:, :width], again)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("angles", "columns"), [(1, 1), (1, 2), (8, 16), (9, 17), (13, 26), (0, 0)]
)
def test_waves(dtype: Any, angles: int, columns: int) -> None:
    X = (points(20, angles) * 10.0 ** np.arange(20)[:, None]).astype(dtype)
    values = np.zeros((20, columns + 3), dtype)[:, :columns]
    values[:, :angles] = X
    _core.waves(values, angles, 0.5, 2)
    wide = X.astype(np.float64)
    assert_allclose(values[:, :angles], np.cos(wide) / 2, atol=np.finfo(dtype).eps)
    assert_allclose(values[:, angles:], np.sin(wide[:, : columns - angles]) / 2, atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"diagonals": np.ones((1, 1, 3)), "scales": np.ones((1, 3))}, "power of two"),
        ({"diagonals": np.ones((1, 1, 2)), "scales": np.ones((1, 2))}, "more columns"),
        ({"permutations": np.full((1, 4), 4)}, "permutation leaves"),
        ({"scales": np.ones((1, 2))}, "scales must have"),
        ({"scales": np.ones((1, 4), np.float32)}, "of the type of X"),
        ({"out": np.empty((5, 5))}, "width of the output"),
        ({"out": np.empty((4, 4))}, "one row per row"),
        ({"out": np.empty((4, 5)).T}, "rows of out must be contiguous"),
        ({"X": np.ones((5, 4), int)}, "float32 or float64"),
    ],
)
def test_the_engine_refuses_what_would_leave_its_arrays(
    arguments: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {
        "X": np.ones((5, 4)),
        "diagonals": np.ones((1, 1, 4)),
        "permutations": None,
        "scales": np.ones((1, 4)),
        "out": np.empty((5, 4)),
    }
    with pytest.raises(ValueError, match=message):
        _core.hadamard(**{**given, **arguments}, threads=1)
    with pytest.raises(ValueError, match="waves: the angles"):
        _core.waves(np.empty((2, 5)), 2, 1.0, 1)


# --------------------------------------------------------------------------------------------------
# Polynomials, exponentials, arc-cosines


@pytest.mark.parametrize(("degree", "n_components"), [(1, 15), (2, 1), (2, 16), (3, 15)])
def test_tensor_sketch_is_unbiased_with_the_stated_variance(degree: int, n_components: int) -> None:
    offset, gain = 0.5, 0.7
    kernel = mc.Polynomial(degree=degree, offset=offset, gain=gain)
    X = points(4, 3, seed=6)
    values = estimates(
        lambda seed: mc.TensorSketch(kernel, n_components, random_state=seed), X, 500
    )
    assert_mean(values, kernel(X)[0, 1:])
    full = np.column_stack([np.sqrt(gain) * X, np.full(4, np.sqrt(offset))])
    x, Z = full[0], full[1:]
    a, q = (Z @ x) ** 2, (Z**2) @ (x**2)
    b, c = (x @ x) * (Z * Z).sum(axis=1) - q, a - q
    first = (a + b) ** degree + (a + c) ** degree - 2 * a**degree
    second = (a + b + c) ** degree - (a + b) ** degree - (a + c) ** degree + a**degree
    # Modulo 1 every sum of places is 0 twice over, as modulo any odd number it is not.
    even = 2 if n_components % 2 == 0 else 1
    expected = first / n_components + even * second / n_components**2
    assert_variance(values, expected)


def test_tensor_sketch_of_compositions() -> None:
    kernel = 2.0 * mc.Polynomial(degree=2).on(0, 1) * mc.Linear().on(2) + mc.Linear() + 1.5
    X = points(4, 3, seed=7)
    values = estimates(lambda seed: mc.TensorSketch(kernel, 40, random_state=seed), X, 200)
    assert_mean(values, kernel(X)[0, 1:])


def test_the_error_of_a_tensor_sketch_falls_with_its_width() -> None:
    X, kernel = points(20, 5), mc.Polynomial(degree=2)
    errors = []
    for n_components in (64, 1024):
        maps = [
            mc.TensorSketch(kernel, n_components, random_state=s).fit_transform(X)
            for s in range(20)
        ]
        errors.append(np.sqrt(np.mean([(Phi @ Phi.T - kernel(X)) ** 2 for Phi in maps])))
    assert 4 / 1.5 < errors[0] / errors[1] < 4 * 1.5


@pytest.mark.parametrize("n_components", [10, 1])
def test_positive_features_are_unbiased_with_the_stated_variance(n_components: int) -> None:
    X = 0.4 * points(4, 3, seed=8)
    kernel = 2.0 * (mc.Linear() / 1.5).exp()
    values = estimates(
        lambda seed: mc.PositiveFeatures(kernel, n_components, method="iid", random_state=seed),
        X,
        500,
    )
    exact = kernel(X)[0, 1:]
    assert_mean(values, exact)
    t = ((X[0] + X[1:]) ** 2).sum(axis=1) / 1.5
    if n_components == 1:
        assert_variance(values, exact**2 * (np.exp(t) - 1))
    else:
        assert_variance(values, exact**2 * (np.cosh(t) - 1) / (n_components / 2))


@pytest.mark.parametrize("method", ["orthogonal", "sobol"])
def test_dependent_positive_features_are_unbiased(method: str) -> None:
    X = 0.5 * points(4, 3, seed=9)
    kernel = (mc.Linear().on(0) + 0.5 * mc.Linear().on(1, 2) + 0.3).exp() + 0.5 * mc.Linear().exp()
    values = estimates(
        lambda seed: mc.PositiveFeatures(kernel, 21, method=method, random_state=seed), X, 200
    )
    assert_mean(values, kernel(X)[0, 1:])


def test_positive_features_do_not_overflow_on_the_way() -> None:
    """Attention at norms where exp(w.x), exp(-|x|^2 / 2) and the kernel are out of range."""
    X = 40.0 * points(5, 64, seed=10)
    transformer = mc.PositiveFeatures(n_components=200, random_state=0).fit(X)
    logs = transformer.log_transform(X)
    assert np.isfinite(logs).all()
    small = 0.01 * X
    assert_allclose(np.log(transformer.transform(small)), transformer.log_transform(small))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 16.0), (np.float32, 5.5)])
def test_positive_features_that_vanish_are_refused(dtype: Any, scale: float) -> None:
    X = points(20, 16)
    long = (scale * X).astype(dtype)
    kernel = (mc.Linear() / 4).exp() + 0.5
    transformer = mc.PositiveFeatures(kernel, 500, random_state=0).fit(X)
    # In logarithms nothing is lost: a loop over float64 says which rows have nothing in range.
    W = transformer.maps_[0].matrices[0]
    signed = np.hstack([W, -W[:, :-1]])  # 499 features, and that of the constant
    largest = np.array([(x @ signed).max() / 2 - x @ x / 8 for x in scale * X]) - np.log(499) / 2
    gone = np.flatnonzero(2 * largest < np.log(np.finfo(dtype).tiny))
    assert 0 < len(gone) < 20
    with pytest.raises(DataError, match=rf"features of row {gone[0]} are below .* log_transform"):
        transformer.transform(long)
    kept = np.delete(long, gone, axis=0)
    Phi, logs = transformer.transform(kept), transformer.log_transform(kept)
    assert ((Phi[:, :-1] ** 2).sum(axis=1) > 0).all()
    rtol = np.sqrt(np.finfo(dtype).eps)
    assert_allclose(np.log(Phi.max(axis=1)), logs.max(axis=1), rtol=rtol)
    assert_allclose(transformer.log_transform(long)[:, :-1].max(axis=1), largest, rtol=rtol)


def test_positive_features_beyond_the_upper_end_are_refused_too() -> None:
    X = 60.0 * points(3, 1)
    transformer = mc.PositiveFeatures(mc.Linear().exp() * np.exp(600.0), 50, random_state=0).fit(X)
    transformer.maps_[0].matrices[0][:] = 60.0  # w.x - |x|^2 / 2 is largest, 1800, at x = w
    with pytest.raises(DataError, match=r"beyond the range of float64.* log_transform"):
        transformer.transform(np.array([[60.0]]))


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_features_are_unbiased_with_the_stated_variance(order: int) -> None:
    kernel, X = mc.ArcCosine(order=order), points(4, 3, seed=11)
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 9, method="iid", random_state=seed), X, 500
    )
    exact = kernel(X)[0, 1:]
    assert_mean(values, exact)
    assert_variance(values, (2 * mc.ArcCosine(order=2 * order)(X)[0, 1:] - exact**2) / 9)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("method", ["orthogonal", "sobol"])
def test_dependent_arc_cosine_features_are_unbiased(order: int, method: str) -> None:
    kernel, X = 0.5 * mc.ArcCosine(order=order).on(0, 1) + mc.ArcCosine(order=1), points(4, 3)
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 15, method=method, random_state=seed), X, 200
    )
    assert_mean(values, kernel(X)[0, 1:])


@pytest.mark.parametrize("method", ["iid", "orthogonal", "sobol"])
def test_thresholds_agree_with_the_kernel_at_zero(method: str) -> None:
    kernel, X = mc.ArcCosine(order=0), np.vstack([np.zeros((2, 3)), points(3, 3, seed=12)])
    values = estimates(
        lambda seed: mc.ArcCosineFeatures(kernel, 9, method=method, random_state=seed), X, 400
    )
    # 1 - theta / pi, with theta = 0 for zero and itself and pi / 2 for zero and all others.
    exact = np.array([1.0, 0.5, 0.5, 0.5])
    assert_allclose(kernel(X)[0, 1:], exact, rtol=1e-12)
    assert_allclose(kernel.diag(X), 1.0, rtol=1e-12)
    assert_mean(values, exact)
    if method == "iid":
        assert_variance(values, (2 * exact - exact**2) / 9)


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
