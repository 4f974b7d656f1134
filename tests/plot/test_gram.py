"""Gram matrices as heat maps: values, orders, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

RNG = np.random.default_rng(0)
LINE = RNG.permutation(np.linspace(0, 10, 30))[:, None]
CLASSES = np.array(["b", "a", "c"])[np.arange(30) % 3]
RBF = mc.RBF(length_scale=1.0)
draw = mc.plot.GramDisplay.from_kernel


@pytest.mark.parametrize("order", ["auto", "spectral", "given"])
def test_the_image_is_the_matrix_in_the_order_stated(order: Any) -> None:
    display = draw(RBF, LINE, order=order)
    assert sorted(display.rows) == list(range(30))
    np.testing.assert_allclose(display.matrix, RBF(LINE[display.rows]), rtol=1e-12)
    np.testing.assert_array_equal(display.image_.get_array(), display.matrix)
    assert display.figure_.axes[-1].get_ylabel() == "$k(x_i, x_j)$"


def test_the_spectral_order_finds_a_line() -> None:
    found = LINE[draw(RBF, LINE).rows, 0]
    steps = np.diff(found)
    assert np.all(steps > 0) or np.all(steps < 0)


def test_the_spectral_order_keeps_blocks_together() -> None:
    blocks = RNG.permutation(np.repeat([0.0, 50.0, 100.0], 7))
    found = blocks[draw(RBF, blocks[:, None]).rows]
    assert np.count_nonzero(np.diff(found)) == 2


def test_targets_are_sorted_and_classes_are_named() -> None:
    display = draw(RBF, LINE, CLASSES)
    assert list(CLASSES[display.rows]) == sorted(CLASSES)
    assert display.groups == [("a", 10), ("b", 10), ("c", 10)]
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose(display.ax_.get_xticks(), [4.5, 14.5, 24.5])
    assert display.ax_.get_xlabel() == "30 points, sorted by target"
    for label in "abc":
        within = LINE[display.rows[CLASSES[display.rows] == label], 0]
        assert np.all(np.diff(within) > 0) or np.all(np.diff(within) < 0)
    numbers = draw(RBF, LINE, np.sin(LINE).ravel())
    assert np.all(np.diff(np.sin(LINE[numbers.rows, 0])) >= 0)
    assert numbers.groups is None


def test_of_many_points_a_sample_is_shown_and_stated() -> None:
    display = draw(RBF, LINE, max_points=10, random_state=3)
    assert len(set(display.rows)) == 10
    assert display.ax_.get_xlabel() == "10 of 30 points, similar ones together"
    np.testing.assert_allclose(display.matrix, RBF(LINE[display.rows]), rtol=1e-12)
    again = draw(RBF, LINE, max_points=10, random_state=3)
    np.testing.assert_array_equal(display.rows, again.rows)


def test_colours_are_symmetric_where_values_are_negative() -> None:
    plain = draw(RBF, LINE).image_
    assert plain.get_clim() == (0.0, 1.0)
    signed = draw(mc.Linear(), LINE - LINE.mean()).image_
    low, high = signed.get_clim()
    assert low == -high
    assert draw(RBF, LINE, cmap="magma", vmax=2.0).image_.get_clim() == (0.0, 2.0)


def test_the_points_of_a_model() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale="median")).fit(LINE, np.sin(LINE).ravel())
    display = mc.plot.GramDisplay.from_estimator(model, CLASSES)
    np.testing.assert_allclose(display.matrix, model.kernel_(LINE[display.rows]), rtol=1e-12)
    assert display.groups is not None


def test_kernels_of_every_kind() -> None:
    words = ["abab", "baba", "xyxy", "yxyx"]
    rows = draw(mc.Spectrum(2), words).rows
    assert set(rows[:2]) in ({0, 1}, {2, 3})
    heuristic = draw(mc.RBF(length_scale="median"), LINE)
    resolved = mc.RBF(length_scale="median").resolve(LINE)
    np.testing.assert_allclose(heuristic.matrix, resolved(LINE[heuristic.rows]), rtol=1e-12)
    white = draw(2.0 * mc.White(), LINE, order="given", max_points=5)
    np.testing.assert_array_equal(white.matrix, 2 * np.eye(5))
    given = draw(mc.Precomputed(), RBF(LINE), max_points=7)
    np.testing.assert_allclose(given.matrix, RBF(LINE[given.rows]), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_few_points(n: int) -> None:
    assert draw(RBF, LINE[:n]).matrix.shape == (n, n)
    assert draw(mc.Linear(), np.zeros((n, 1)), ["a"] * n).groups == [("a", n)]


def test_kernels_may_be_named() -> None:
    named = draw("rbf", LINE, order="given")
    np.testing.assert_allclose(named.matrix, draw(mc.RBF("scale"), LINE, order="given").matrix)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="order = 'random' is unknown; pass one of"):
        draw(RBF, LINE, order="random")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="needs targets; pass y"):
        draw(RBF, LINE, order="target")
    with pytest.raises(ParameterError, match="max_points = 0"):
        draw(RBF, LINE, max_points=0)
    with pytest.raises(ParameterError, match="GramDisplay: kernel = 3 is not a kernel"):
        draw(3, LINE)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="y has shape"):
        draw(RBF, LINE, CLASSES[:4])
    with pytest.raises(DataError):
        draw(RBF, [[np.nan]])
    with pytest.raises(DataError, match="NaN or infinity; scale the data"):
        draw(mc.Linear(), np.full((3, 1), 1e300))
    with pytest.raises(DataTypeError, match="y cannot be sorted"):
        draw(RBF, LINE[:4], [None, "a", None, "b"])


def test_one_point_is_not_several() -> None:
    display = mc.plot.GramDisplay.from_kernel(mc.RBF(), [[0.0]])
    assert display.ax_.get_xlabel() == "1 point, similar ones together"


def test_the_title_names_the_kernel_and_counts_large_eigenvalues() -> None:
    blocks = np.repeat([0.0, 50.0, 100.0, 150.0], 5)[:, None]
    display = draw(mc.RBF(length_scale="median"), blocks)
    name, counted = display.ax_.get_title().split("\n")
    assert name.startswith("Gram matrix of RBF(length_scale=")
    values = np.sort(np.linalg.eigvalsh(display.matrix))[::-1]
    needed = next(m for m in range(1, 21) if values[:m].sum() >= 0.95 * values.sum())
    assert counted == f"{needed} of 20 eigenvalues hold 95%"


def test_eigenvalues_are_drawn_on_demand() -> None:
    assert draw(RBF, LINE).spectrum_ is None
    display = draw(RBF, LINE, eigenvalues=True)
    expected = np.sort(np.linalg.eigvalsh(RBF(LINE)))[::-1]
    drawn = display.spectrum_.get_ydata()  # type: ignore[union-attr]
    np.testing.assert_allclose(drawn, expected[: len(drawn)], rtol=1e-6, atol=1e-12)
    assert draw(RBF, LINE[:1], eigenvalues=True).spectrum_ is not None
