"""Scores are those of scikit-learn, at once and in blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import r2_score

import mercer as mc
from mercer.exceptions import DataError

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
BOTH = np.column_stack([np.sin(X).sum(axis=1) + 0.5, X[:, 0] ** 2])
Y = BOTH[:, 0]
W = RNG.uniform(0.5, 2.0, size=120)
RIDGE = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=S.NystromSolver(20, random_state=0))


def ways(model: Any, y: Any, weights: Any = None) -> list[float]:
    """The score of arrays, of blocks of very different sizes, and of a Dask collection."""
    cuts = [0, 1, 7, 90, 120]
    blocks = [
        (X[a:b], y[a:b], None if weights is None else weights[a:b]) for a, b in pairwise(cuts)
    ]
    lazy = [da.from_array(values, chunks=(50, *values.shape[1:])) for values in (X, y)]
    return [
        model.score(X, y, weights),
        model.score(mc.Blocks(lambda: (block for block in blocks)), None),
        model.score(*lazy, None if weights is None else da.from_array(weights, chunks=50)),
    ]


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_scores_of_arrays_blocks_and_collections(weights: Any) -> None:
    model = RIDGE.fit(X, BOTH)
    for y in (BOTH, -BOTH, BOTH + 100.0):
        wanted = r2_score(y, model.predict(X), sample_weight=weights)
        assert ways(model, y, weights) == pytest.approx([wanted] * 3, rel=1e-9)


def test_constant_targets() -> None:
    model = RIDGE.fit(X, 0 * Y)
    assert ways(model, 0 * Y) == [1.0] * 3
    assert ways(model, 0 * Y + 1) == [0.0] * 3


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelMachineRegressor(mc.RBF(1.0), "huber"),
        mc.GaussianProcessRegressor(mc.RBF(mc.Fixed(1.0)), noise=mc.Fixed(0.1)),
        mc.NadarayaWatson(mc.RBF(1.0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scores_of_other_regressors(model: Any) -> None:
    model.fit(X, Y)
    predicted = model.predict(X)
    for weights in (None, W):
        wanted = r2_score(Y, predicted, sample_weight=weights)
        assert model.score(X, Y, weights) == pytest.approx(wanted, rel=1e-12)
    assert model.score(X, Y, 2.0) == pytest.approx(model.score(X, Y), rel=1e-12)


def test_what_is_refused() -> None:
    model = RIDGE.fit(X, Y)
    with pytest.raises(DataError, match=r"KernelRidge: a score needs true targets"):
        model.score(X)
    with pytest.raises(DataError, match=r"y has shape \(119,\) but X has 120 rows"):
        model.score(X, Y[1:])
    for y in (BOTH, da.from_array(BOTH, chunks=(50, 2))):
        rows = X if y is BOTH else da.from_array(X, chunks=(50, 2))
        with pytest.raises(DataError, match="y has 2 targets for each row, and predictions have 1"):
            model.score(rows, y)
