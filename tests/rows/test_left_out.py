"""Copies of rows and groups, against comparisons of all pairs and sums by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError
from mercer.rows.left_out import copies, folds_of, group_codes, left_out, merged, target_shares
from mercer.rows.rows import InMemory, RowBlock

RNG = np.random.default_rng(0)
COPIED = RNG.integers(0, 12, size=30)
ROWS = RNG.integers(-2, 3, size=(12, 3)).astype(float)
ROWS[:, 0] += 0.1 * np.arange(12)
WORDS = ["abab", "baba", "bbbb", "aab", "ba", "bab", "aaaa", "abba", "baab", "b", "bb", "aabb"]


def product(x: Any, z: Any) -> float:
    return float(np.exp(x @ z / 8))


FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
DATA = {
    "array": (mc.RBF(), ROWS),
    "float32": (mc.RBF() * mc.Linear() + 1.0, ROWS.astype(np.float32)),
    "sparse": (mc.RBF(), sp.csr_array(ROWS)),
    "pandas": (mc.RBF().on("a", "b", "c"), FRAME),
    "polars": (mc.RBF().on("a") * mc.Laplacian().on("b", "c"), pl.DataFrame(FRAME)),
    "strings": (mc.Spectrum(2).normalized(), WORDS),
    "categories": (mc.Categorical(weight=1.0), pd.DataFrame({"w": WORDS})),
    "function": (mc.FunctionKernel(product, pairwise=True), ROWS),
    "a function of rows": (mc.RBF().scaled_by(lambda X: np.exp(-X[:, 0])), ROWS),
    "warped": (mc.RBF().warp(np.exp), ROWS),
    "precomputed": (mc.Precomputed(ROWS @ ROWS.T), np.arange(12)[:, None]),
}


def taken(data: Any, rows: Any) -> Any:
    if isinstance(data, list):
        return [data[i] for i in rows]
    return data.iloc[rows] if hasattr(data, "iloc") else data[rows]


@pytest.mark.parametrize("name", DATA)
def test_rows_are_copies_if_they_are_the_same_point(name: str) -> None:
    kernel, data = DATA[name]
    points = kernel.prepare(taken(data, COPIED))
    codes = copies(kernel, points)
    assert codes is not None
    # Distinct rows may have the same spectrum, but not other values.
    values = np.asarray(kernel(points, points), float)
    same = codes[:, None] == codes
    assert same[COPIED[:, None] == COPIED].all()
    squares = values.diagonal()
    distances = squares[:, None] + squares - 2 * values
    assert_allclose(distances[same], 0.0, atol=1e-6)
    assert (distances[~same] > 1e-6).all() or name == "strings"
    assert_array_equal(np.unique(codes), np.arange(codes.max() + 1))


@pytest.mark.parametrize("name", DATA)
def test_distinct_rows_have_no_copies(name: str) -> None:
    kernel, data = DATA[name]
    if name != "strings":
        assert copies(kernel, kernel.prepare(data)) is None


def test_a_precomputed_matrix() -> None:
    kernel, K = mc.Precomputed(), (ROWS @ ROWS.T)[np.ix_(COPIED, COPIED)]
    assert_array_equal(copies(kernel, kernel.prepare(K)), copies(mc.RBF(), mc.Points(ROWS[COPIED])))


def test_what_the_kernel_does_not_read_does_not_count() -> None:
    frame = FRAME.iloc[COPIED].assign(number=np.arange(30))
    kernel = mc.RBF().on("a", "b", "c")
    assert_array_equal(
        copies(kernel, kernel.prepare(frame)), copies(mc.RBF(), mc.Points(ROWS[COPIED]))
    )


def test_white_noise_and_a_constant_tell_nothing() -> None:
    for kernel in (mc.RBF() + mc.White(), mc.Constant(1.0)):
        assert copies(kernel, kernel.prepare(ROWS[COPIED])) is None
    assert copies(mc.RBF(), mc.Points(np.ones((5, 2)))) is None


def test_zeros_have_no_sign() -> None:
    codes = copies(mc.RBF(), mc.Points(np.array([[0.0], [-0.0], [1.0]])))
    assert_array_equal(codes, [0, 0, 1])


def test_merged_rows_have_sums_of_weights_and_means_of_targets() -> None:
    weights = RNG.uniform(0.5, 2.0, size=30)
    weights[[3, 4]] = 0.0
    weights[COPIED[7] == COPIED] = 0.0
    targets = RNG.normal(size=(30, 2))
    part = RowBlock(mc.Points(ROWS[COPIED]), targets, weights)
    codes = copies(mc.RBF(), part.points)
    assert codes is not None
    out = merged(part, codes)
    scatter = np.zeros(2)
    for i in range(codes.max() + 1):
        same = codes == i
        assert_allclose(out.part.mass[i], weights[same].sum())
        mass = weights[same] if weights[same].any() else np.ones(same.sum())
        mean = np.average(targets[same], axis=0, weights=mass)
        assert_allclose(out.part.targets[i], mean)
        assert_array_equal(out.part.points.data[i], part.points.data[np.flatnonzero(same)[0]])
        scatter += weights[same] @ (targets[same] - mean) ** 2
    assert_allclose(out.scatter, scatter / weights.sum())
    predicted = RNG.normal(size=out.part.targets.shape)
    residuals = out.residuals(out.part.targets - predicted, targets)
    assert_allclose(residuals, targets - predicted[codes])


def test_without_copies_and_groups_rows_are_as_they_are() -> None:
    rows = InMemory(RowBlock(mc.Points(ROWS), np.zeros((12, 1))))
    assert left_out(mc.RBF(), rows) is None
    groups = np.arange(12) % 3
    out = left_out(mc.RBF(), rows, groups)
    assert out is not None
    assert out.part is rows.part
    assert_array_equal(out.groups, groups)


def test_labels_of_groups() -> None:
    for labels in (["b", "a", "b"], np.array([7.5, 2.0, 7.5]), pd.Series([None, "x", None])):
        assert_array_equal(group_codes("Model", labels, 3), [0, 1, 0])
    with pytest.raises(DataError, match=r"Model: groups has shape \(2,\) and X has 3 rows; pass"):
        group_codes("Model", [1, 2], 3)
    with pytest.raises(DataError, match=r"single group.*at least two"):
        group_codes("Model", [1, 1, 1], 3)


def test_targets_count_in_their_own_unit() -> None:
    assert_allclose(target_shares(np.array([1.0, 4.0]), np.zeros(2)), [0.8, 0.2])
    assert_allclose(target_shares(np.array([1e-30, 4.0]), np.array([5.0, 0.0])), [0.0, 1.0])
    assert_allclose(target_shares(np.zeros(2), np.array([0.0, 1.0])), [0.5, 0.5])


def test_folds_are_fixed_and_balanced_and_keep_groups_together() -> None:
    codes, strata = RNG.integers(0, 20, 60), RNG.integers(0, 2, 60)
    folds = folds_of(60, codes, None)
    np.testing.assert_array_equal(folds, folds_of(60, codes, None))
    assert all(len(np.unique(folds[codes == code])) == 1 for code in np.unique(codes))
    folds = folds_of(60, None, strata)
    for stratum in (0, 1):
        sizes = np.bincount(folds[strata == stratum], minlength=5)
        assert np.ptp(sizes) <= 1


def test_a_row_that_is_alone_in_its_class_is_in_no_fold() -> None:
    folds = folds_of(11, None, np.array([0] * 5 + [1] * 5 + [2]))
    assert folds[-1] == -1
    assert np.bincount(folds[:-1]).tolist() == [2] * 5
