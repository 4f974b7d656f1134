"""Spans of functions: coordinates against the norm, rows against features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.solvers.newton.span_sums import (
    WeightSums,
)
from span_problems import KERNEL, LOSSES, SPANS, M, Monomials, W, X, part, span

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


def test_coordinates_are_those_of_the_norm() -> None:
    plain, whitened = span(whitened=False), span()
    v = RNG.normal(size=(M, 2))
    c = plain.to_coefficients(v)
    square = KERNEL(plain.landmarks.points)
    assert_allclose(np.sum(c * (square @ c)), np.sum(v**2))
    (rows, _, _), *_ = plain.rows(part(LOSSES[0]))
    (features, _, _), *_ = whitened.rows(part(LOSSES[0]))
    assert_allclose(rows @ c, features @ v, atol=1e-9)
    gradient = plain.gradient_to_coordinates(rows.T @ W)
    assert_allclose(gradient, whitened.gradient_to_coordinates(features.T @ W), atol=1e-8)


def test_features_are_rows_about_an_origin() -> None:
    rows, phi = part(LOSSES[0]), Monomials(sparse=False)(mc.Points(X))
    for kind, origin in (("features", 0.0), ("about", np.arange(6.0)), ("sparse", 0.0)):
        found = [block for block, _, _ in SPANS[kind].rows(rows)]
        assert all(sp.issparse(block) == (kind == "sparse") for block in found)
        dense = [block.toarray() if sp.issparse(block) else block for block in found]
        assert_allclose(np.concatenate(dense), phi - origin)
        squares = np.sum((phi - origin) ** 2, axis=1)
        assert_allclose(SPANS[kind].diag(rows.points), squares)
        assert_allclose(WeightSums(SPANS[kind])(rows), [W.sum(), W @ squares])
