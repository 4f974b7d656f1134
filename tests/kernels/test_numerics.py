"""Cancellation, limits, and single precision, against extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc

RNG = np.random.default_rng(9)
Long = np.longdouble


def differences(X: np.ndarray, Z: np.ndarray) -> Any:
    return X.astype(Long)[:, None, :] - Z.astype(Long)[None, :, :]


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


def test_constant_data_resolve_to_one() -> None:
    X = np.full((5, 2), 3.7)
    for name in ("scale", "median"):
        assert mc.RBF(name).resolve(X).length_scale == 1.0
        assert mc.Laplacian(name).resolve(X).length_scale == 1.0


def test_heuristic_length_scales() -> None:
    X = RNG.normal(size=(40, 3))
    scale = mc.RBF("scale").resolve(X).length_scale
    assert_allclose(scale, np.sqrt(3 * X.var() / 2), rtol=1e-12)
    assert_allclose(
        1 / (2 * scale**2), 1 / (3 * X.var()), rtol=1e-12
    )  # scikit-learn's gamma="scale"
    distances = np.sqrt((differences(X, X) ** 2).sum(-1)).astype(float)[np.triu_indices(40, 1)]
    assert_allclose(mc.RBF("median").resolve(X).length_scale, np.median(distances), rtol=1e-12)
    weights = RNG.integers(0, 3, 40)
    weighted = mc.RBF("scale").resolve(X, weights).length_scale
    assert_allclose(weighted, mc.RBF("scale").resolve(np.repeat(X, weights, axis=0)).length_scale)
    inside = (2.0 * mc.RBF("scale").on(1) + mc.Linear()).resolve(X)
    assert_allclose(inside.get_params()["rbf__length_scale"], np.sqrt(X[:, 1].var() / 2))
    warped = mc.RBF("scale").warp(np.exp).resolve(X)
    assert_allclose(warped.kernel.length_scale, np.sqrt(3 * np.exp(X).var() / 2))
    held = mc.RBF(mc.Fixed("scale")).resolve(X)
    assert len(held.theta) == 0
    assert mc.RBF(mc.Bounded("scale", 5.0, 6.0)).resolve(X).length_scale == 5.0
    shifted = mc.RBF("scale").resolve(X + 1e8).length_scale
    assert_allclose(shifted, scale, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("dtype", "offset"),
    [(np.float32, 0.0), (np.float32, 1e3), (np.float64, 1.0), (np.float64, 1e8)],
)
@pytest.mark.parametrize("unit", [1e-25, 1.0, 1e25])
def test_length_scales_of_sparse_data_are_those_of_dense(
    unit: float, dtype: Any, offset: float, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 7)) + offset
    table[rng.uniform(size=table.shape) < (0.0 if offset > 1 else 0.7)] = 0.0
    table = (unit * table).astype(dtype)
    weights = rng.integers(0, 3, size=200).astype(float) if weighted else None
    # In units of the largest entry, each row as often as its weight says.
    counts = np.ones(200, int) if weights is None else weights.astype(int)
    plain = np.repeat(table.astype(np.longdouble), counts, axis=0)
    expected = float(np.sqrt(np.longdouble(7) / 2) * plain.std())
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        found = mc.RBF("scale").resolve(form(table), weights).length_scale
        assert_allclose(found, expected, rtol=1e-12)
    assert_allclose(mc.RBF("scale").resolve(table, weights).length_scale, expected, rtol=1e-12)


def test_length_scales_of_sparse_data_without_scale() -> None:
    constant = sp.csr_array(np.full((50, 3), 0.1))
    assert mc.RBF("scale").resolve(constant).length_scale == 1.0
    assert mc.RBF("scale").resolve(sp.csr_array((50, 3))).length_scale == 1.0
    twice = sp.csr_array((np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    dense = mc.RBF("scale").resolve(twice.toarray()).length_scale
    assert_allclose(mc.RBF("scale").resolve(twice).length_scale, dense, rtol=1e-14)
