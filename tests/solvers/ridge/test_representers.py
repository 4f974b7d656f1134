"""Coefficients of rows from those of features: the same function, by the representer theorem."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import mercer as mc
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers.protocol import FeatureFunction, RidgeTask
from mercer.solvers.ridge.representers import Representers, of_path

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3)), RNG.normal(size=(30, 2))
W = RNG.uniform(0.5, 2.0, size=30)


def test_rows_carry_the_function_of_features_at_every_alpha() -> None:
    alphas, mean = np.array([0.1, 3.0]), W @ X / W.sum()
    centred, middle = X - mean, W @ Y / W.sum()
    square = centred.T @ (W[:, None] * centred)
    coef = np.stack(
        [np.linalg.solve(square + a * np.eye(3), centred.T @ (W[:, None] * Y)) for a in alphas]
    )
    intercept = middle - mean @ coef
    task = RidgeTask("Owner", mc.Linear(), InMemory(RowBlock(mc.Points(X), Y, W)), True, alphas)
    flat = np.moveaxis(coef, 0, 1).reshape(3, -1)  # the columns of one alpha after another
    function = FeatureFunction(lambda points: points.data.copy(), flat)
    found = of_path(task, function, intercept, alphas)
    assert_allclose(X.T @ found.dual, coef, rtol=1e-9)
    assert_allclose(found.dual.sum(axis=1), 0, atol=1e-9)


def test_rows_in_blocks_carry_no_coefficients() -> None:
    rows = InMemory(RowBlock(mc.Points(X), Y))
    found = Representers.of_stream(rows, (4, 2))
    assert found.dual.shape == (4, 0, 2)
    assert_allclose(found.points.data, X[:1])
