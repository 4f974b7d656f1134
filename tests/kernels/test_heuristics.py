"""Length-scales from data against their formulas, for dense and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.kernels.heuristics import Spread
from mercer.kernels.vector import widest_and_narrowest
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


@pytest.mark.parametrize("kind", [mc.RBF, mc.Laplacian, mc.Matern, mc.RationalQuadratic])
def test_a_length_scale_for_each_column_is_the_rule_scale_of_standardised_data(kind: Any) -> None:
    X = RNG.normal(size=(60, 4)) * [1e-3, 1.0, 50.0, 1e6] + [0.0, 5.0, -3.0, 1e6]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    lengths = kind("columns").resolve(X)
    assert_allclose(lengths.length_scale, kind("scale").resolve(Z).length_scale * X.std(axis=0))
    assert_allclose(lengths(X), kind("scale").resolve(Z)(Z), rtol=1e-7)
    weights = RNG.integers(0, 3, 60)
    repeated = kind("columns").resolve(np.repeat(X, weights, axis=0)).length_scale
    assert_allclose(kind("columns").resolve(X, weights).length_scale, repeated, rtol=1e-12)


def test_a_constant_column_has_no_part_in_a_length_scale_for_each() -> None:
    X = np.column_stack([RNG.normal(size=30), np.full(30, 0.1), 1e3 * RNG.normal(size=30)])
    found = mc.RBF("columns").resolve(X).length_scale
    assert_allclose(found[[0, 2]], mc.RBF("columns").resolve(X[:, [0, 2]]).length_scale)
    assert found[1] == 1.0
    assert_allclose(mc.RBF("columns").resolve(np.ones((5, 2))).length_scale, 1 / np.sqrt(2))


def test_length_scales_for_each_column_in_compositions_and_within_bounds() -> None:
    X = RNG.normal(size=(30, 3)) * [1.0, 20.0, 300.0]
    deviations = X.std(axis=0)
    inside = (2.0 * mc.RBF("columns").on(2, 0) + mc.Matern("columns")).resolve(X)
    assert_allclose(inside.get_params()["rbf__length_scale"], deviations[[2, 0]])
    assert_allclose(inside.get_params()["matern__length_scale"], np.sqrt(1.5) * deviations)
    assert len(mc.RBF(mc.Fixed("columns")).resolve(X).theta) == 0
    within = mc.RBF(mc.Bounded("columns", 5.0, 100.0)).resolve(X).length_scale
    assert_allclose(within, np.clip(np.sqrt(1.5) * deviations, 5.0, 100.0))
    single = mc.RBF("columns").resolve(X.astype(np.float32))(X.astype(np.float32))
    assert single.dtype == np.float32
    rows = sp.csr_array(np.where(RNG.uniform(size=X.shape) < 0.5, 0.0, X))
    dense = mc.RBF("columns").resolve(rows.toarray()).length_scale
    assert_allclose(mc.RBF("columns").resolve(rows).length_scale, dense, rtol=1e-12)


def test_spreads_of_parts_add_up_with_holes() -> None:
    X = RNG.normal(size=(50, 3)) * [1.0, 1e5, 1e-200] + [1e7, 0.0, 0.0]
    X[RNG.uniform(size=X.shape) < 0.3] = np.nan
    weight = RNG.uniform(size=50)
    whole = Spread.of(X, weight)
    parts = [Spread.of(X[rows], weight[rows]) for rows in (slice(0, 7), slice(7, 8), slice(8, 50))]
    total = parts[0] + parts[1] + parts[2]
    for j in range(3):
        known = ~np.isnan(X[:, j])
        mean = np.average(X[known, j], weights=weight[known])
        unit = abs(X[known, j]).max()
        squares = np.average(((X[known, j] - mean) / unit) ** 2, weights=weight[known])
        for found in (whole, total):
            assert_allclose(found.weight[j], weight[known].sum(), rtol=1e-12)
            assert_allclose(found.means[j], mean, rtol=1e-12)
            assert_allclose(found.deviations[j], unit * np.sqrt(squares), rtol=1e-7)


def columns_of_many_kinds(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    rare = rng.uniform(size=n) < 0.002
    heavy = rng.standard_t(2, size=n)
    return {
        "normal": rng.normal(size=n),
        "rare": rare.astype(float),
        "even": (rng.uniform(size=n) < 0.5).astype(float),
        "heavy": heavy / heavy.std(),
        "constant": np.full(n, 4.0),
        "border": np.where(rare, rng.uniform(size=n), 0.0),
    }


def test_columns_that_one_length_scale_serves_give_no_warning() -> None:
    columns = columns_of_many_kinds(4000)
    assert widest_and_narrowest(np.column_stack(list(columns.values()))) is None
    assert widest_and_narrowest(np.ones((5, 3))) is None
    assert widest_and_narrowest(np.array([[1.0, 2e9]])) is None


def test_the_widest_and_the_narrowest_column_are_found() -> None:
    columns = columns_of_many_kinds(4000)
    X = np.column_stack([*columns.values(), 1e3 * columns["normal"], 25 * columns["normal"]])
    pair = widest_and_narrowest(X)
    assert pair is not None
    assert pair[0] == 6
    assert pair[1] in (2, 3)
    assert widest_and_narrowest(X[:, [0, 7]]) is None


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
