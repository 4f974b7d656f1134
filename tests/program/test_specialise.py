"""Expressions rewritten for the engine against the ones that were written, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc
from mercer.kernels.base import pairs_of
from mercer.program import engine, reference
from mercer.program.expression import walk
from mercer.program.specialise import floating_type, specialise

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))


@pytest.mark.parametrize(
    ("kernel", "container", "primitive"),
    [
        (mc.RBF(0.7), np.asarray, "decay"),
        (mc.Laplacian(0.7), np.asarray, "decay"),
        (mc.Matern(0.7, nu=0.5), np.asarray, "decay"),
        (mc.Periodic(1.3, 0.7), np.asarray, "squared_distance"),
        (mc.RBF(0.7), sp.csr_array, "sparse_dot"),
        (mc.Polynomial(2), sp.csr_array, "sparse_dot"),
    ],
)
def test_the_engine_runs_another_primitive_with_the_same_value(
    kernel: mc.Kernel, container: Any, primitive: str
) -> None:
    pairs = pairs_of(kernel, container(X), container(Z))
    root = specialise(kernel.expression, pairs).root
    assert primitive in {node.op for node in walk((root,))}
    assert primitive not in {node.op for node in walk((kernel.expression,))}
    wanted = reference.evaluate(kernel.expression, pairs_of(kernel, X, Z))
    assert_allclose(engine.gram(kernel.expression, pairs), wanted, rtol=1e-10)


def test_floating_types() -> None:
    single = X.astype(np.float32)
    expression = mc.RBF().expression
    for rows, cols, wanted in ((single, single, "f4"), (single, Z, "f8"), (X, Z, "f8")):
        assert floating_type(expression, pairs_of(mc.RBF(), rows, cols)) == np.dtype(wanted)
    sparse = pairs_of(mc.RBF(), sp.csr_array(single))
    chosen = specialise(expression, sparse)
    assert (chosen.computed, chosen.given) == (np.float64, np.float32)
    assert specialise(expression, pairs_of(mc.RBF(), X), narrow=True).given == np.float32


def far_clusters(dtype: Any) -> Any:
    """Whole numbers in two clusters: float32 holds them, but not a third of them."""
    near = RNG.integers(0, 10, size=(30, 2))
    return (near + 1_000_000 * (np.arange(30) % 2)[:, None]).astype(dtype)


def distances(A: Any, B: Any, scale: Any = 1.0) -> tuple[Any, Any]:
    """Squared and absolute distances in extended precision."""
    A, B = np.longdouble(A)[:, None], np.longdouble(B)[None]
    t = (A - B) / np.longdouble(scale)
    return np.sum(t * t, axis=2), np.sum(np.abs(t), axis=2)


FAR = [
    (mc.RBF(3.0), lambda A, B: np.exp(-distances(A, B, 3.0)[0] / 2)),
    (mc.RBF([3.0, 7.0]), lambda A, B: np.exp(-distances(A, B, [3.0, 7.0])[0] / 2)),
    (mc.Laplacian(3.0), lambda A, B: np.exp(-distances(A, B, 3.0)[1])),
    (mc.Matern(3.0, nu=0.5), lambda A, B: np.exp(-np.sqrt(distances(A, B, 3.0)[0]))),
    (mc.RationalQuadratic(3.0), lambda A, B: 1 / (1 + distances(A, B, 3.0)[0] / 2)),
]


@pytest.mark.parametrize(("kernel", "exact"), FAR, ids=[repr(k) for k, _ in FAR])
def test_clusters_far_apart_keep_their_digits_in_float32(kernel: mc.Kernel, exact: Any) -> None:
    A, B = far_clusters(np.float32), far_clusters(np.float32)
    v = RNG.normal(size=len(B)).astype(np.float32)
    for _ in range(2):  # the second call goes straight to the engine
        K = kernel(A)
        assert K.dtype == np.float32
        assert_allclose(K, exact(A, A).astype(float), rtol=0, atol=2e-7)
        assert_allclose(kernel(A, B), exact(A, B).astype(float), rtol=0, atol=2e-7)
    product = kernel.gram(A, B) @ v
    assert product.dtype == np.float32
    assert_allclose(product, exact(A, B).astype(float) @ v, rtol=0, atol=1e-5)
    twofold = kernel.gram(A.astype(float)).gradient(np.ones((30, 30)))
    assert_allclose(kernel.gram(A).gradient(np.ones((30, 30))), twofold, rtol=1e-5)


def test_clusters_far_apart_agree_with_scikit_learn() -> None:
    A = far_clusters(np.float32)
    wanted = rbf_kernel(A, gamma=1 / 18)
    assert_allclose(mc.RBF(3.0)(A), wanted, rtol=0, atol=2e-7)


def test_narrow_results_of_clusters_far_apart_are_computed_in_float64() -> None:
    pairs = pairs_of(mc.RBF(3.0), far_clusters(float))
    chosen = specialise(mc.RBF(3.0).expression, pairs, narrow=True)
    assert (chosen.computed, chosen.given) == (np.float64, np.float32)


def test_ordinary_data_stay_in_float32() -> None:
    ordinary = RNG.normal(size=(50, 3)).astype(np.float32)
    pixels = RNG.integers(0, 256, size=(50, 3)).astype(np.float32)
    for kernel, data in ((mc.RBF(0.1), ordinary), (mc.RBF(100.0), pixels), (mc.Linear(), pixels)):
        assert specialise(kernel.expression, pairs_of(kernel, data)).computed == np.float32
