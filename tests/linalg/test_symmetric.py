"""Triangles of symmetric matrices against numpy's, and asymmetry where it was put."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.linalg.symmetric import LowerTriangle, asymmetry, mirror

RNG = np.random.default_rng(0)
SIZES = pytest.mark.parametrize("n", [1, 255, 257, 600])  # about one block, and several


@SIZES
def test_mirrors_copy_the_upper_triangle(n: int) -> None:
    matrix = RNG.normal(size=(n, n))
    expected = np.triu(matrix) + np.triu(matrix, 1).T
    whole = LowerTriangle(matrix.T.copy()).full()
    mirror(matrix)
    np.testing.assert_array_equal(matrix, expected)
    np.testing.assert_array_equal(whole, expected)


@SIZES
def test_the_largest_asymmetry_is_found_where_it_is(n: int) -> None:
    matrix = RNG.normal(size=(n, n))
    matrix += matrix.T
    assert asymmetry(matrix).size == 0
    matrix[0, n - 1] += 0.25
    if n > 1:
        size, row, column = asymmetry(matrix)
        assert size == pytest.approx(0.25)
        assert {row, column} == {0, n - 1}
