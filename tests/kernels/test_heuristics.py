"""Length-scales from data against their formulas, for dense and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from references import differences

RNG = np.random.default_rng(9)


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


def test_the_scale_of_huge_data_is_a_number() -> None:
    X = np.array([[1e200], [-1e200], [5e199]])
    length = mc.RBF("scale").resolve(X).length_scale
    assert_allclose(length, 1e200 * mc.RBF("scale").resolve(X / 1e200).length_scale)
