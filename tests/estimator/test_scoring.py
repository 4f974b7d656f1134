"""Scores are those of the same targets in any unit, at once and in blocks."""

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


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1.0, 1e160, 1e200, 1e300])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_scores_do_not_depend_on_the_unit(scale: float, sign: int, weights: Any) -> None:
    wanted = r2_score(sign * BOTH, RIDGE.fit(X, BOTH).predict(X), sample_weight=weights)
    model = RIDGE.fit(X, BOTH * scale)
    assert ways(model, sign * BOTH * scale, weights) == pytest.approx([wanted] * 3, rel=1e-9)


def test_each_target_has_its_unit_and_so_has_each_block() -> None:
    scales = np.array([1e-200, 1e200])
    wanted = r2_score(-BOTH, RIDGE.fit(X, BOTH).predict(X))
    assert ways(RIDGE.fit(X, BOTH * scales), -BOTH * scales) == pytest.approx([wanted] * 3)
    # Blocks of zeros, which have no unit, before and after some of tiny numbers.
    tiny = np.where((np.arange(120) > 6) & (np.arange(120) < 90), Y, 0.0)
    wanted = r2_score(-tiny, RIDGE.fit(X, tiny).predict(X))
    assert ways(RIDGE.fit(X, tiny * 1e-200), -tiny * 1e-200) == pytest.approx([wanted] * 3)


def test_predictions_in_another_unit_than_targets() -> None:
    model = RIDGE.fit(X, Y)
    for found in ways(model, Y * 1e-300):
        assert found == -np.inf
    assert ways(model, Y * 1e100) == pytest.approx([r2_score(Y, 0 * Y)] * 3)


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


def test_tiny_targets_of_other_regressors() -> None:
    model = mc.GaussianProcessRegressor(mc.RBF(mc.Fixed(1.0)), noise=mc.Fixed(0.1)).fit(X, Y)
    assert model.score(X, Y * 1e-200) == -np.inf


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
