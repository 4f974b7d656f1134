"""Projections by Hadamard matrices, and the engine behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard

from mercer import _core
from mercer.features.projections import fastfood, sorf
from monte_carlo import points


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
