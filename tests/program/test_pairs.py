"""Pairs of points: blocks, diagonals, scales and what a type cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import pairs_of
from mercer.program import reference
from mercer.program.expression import Scale
from mercer.program.pairs import Values

RNG = np.random.default_rng(0)


def test_a_scale_beyond_the_floating_type_is_refused() -> None:
    X = RNG.normal(size=(4, 2))
    with pytest.raises(DataError, match="exceed the range of float64"):
        mc.RBF(1e-200)(1e200 * X)
    # In float32, data so far apart are computed in float64.
    np.testing.assert_array_equal(mc.RBF(1e-60)(X.astype(np.float32)), np.eye(4))


def test_blocks_diagonals_and_transposes_are_parts_of_the_matrix() -> None:
    X, Z = RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2))
    kernel = mc.RBF()
    pairs, K = pairs_of(kernel, X, Z), kernel(X, Z)
    for part, wanted in (
        (pairs.block([4, 1], slice(1, 3)), K[[4, 1], 1:3]),
        (pairs.transposed(), K.T),
        (pairs.diagonal(), np.diag(K)),
        (pairs_of(kernel, Z).diagonal(), np.ones(4)),
    ):
        np.testing.assert_allclose(reference.evaluate(kernel.expression, part), wanted, rtol=1e-12)


def test_the_scale_of_each_column() -> None:
    values = Values({"length_scale": [0.5, 2.0]})
    scale = Scale("length_scale", power=-1, factor=3.0)
    np.testing.assert_allclose(values.scale(scale, 2), [6.0, 1.5])
    with pytest.raises(ParameterError, match="length_scale has 2 values but the kernel sees 3"):
        values.scale(scale, 3)
