"""Regressors of smooth losses on blocks and Dask collections give what they give on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

S = mc.solvers
RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 2))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_t(2, size=N)
COUNTS = RNG.poisson(np.exp(Y)).astype(float)
COUNTS[:250] = 0  # the first block has nothing but zeros
W = RNG.uniform(0.5, 2.0, size=N)
W[300:305] = 0
SOLVERS = [
    S.NystromSolver(40, landmarks="kmeans++", random_state=0),
    S.Falkon(40, landmarks="kmeans++", random_state=0),
]
MODELS = [
    (mc.KernelMachineRegressor(mc.Matern("scale"), "squared", 0.1), Y, W),
    (mc.KernelMachineRegressor(mc.Matern("scale"), "poisson", 0.1), COUNTS, W),
    (mc.KernelMachineRegressor(mc.Matern("scale"), "gamma", 0.1, False), np.exp(Y), None),
    (mc.KernelHuberRegressor(mc.Matern("scale"), 0.2, 0.1), Y, None),
]


def blocks(y: Any, weights: Any = None) -> Iterator[Any]:
    for first in range(0, N, 250):
        part = slice(first, first + 250)
        yield (X[part], y[part]) if weights is None else (X[part], y[part], weights[part])


def chunked(values: Any, rows: int = 250) -> Any:
    return da.from_array(values, chunks=(rows, -1)[: values.ndim])


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    ("model", "y", "weights"), MODELS, ids=["squared", "poisson", "gamma", "huber"]
)
def test_results_are_those_of_arrays(model: Any, y: Any, solver: Any, weights: Any) -> None:
    model = model.set_params(solver=solver)
    wanted = model.fit(X, y, weights).predict(X)
    for found in (
        model.fit(blocks(y, weights)),
        model.fit(chunked(X), chunked(y), None if weights is None else chunked(weights, 300)),
    ):
        assert_allclose(found.predict(X), wanted, rtol=1e-8, atol=1e-8)
        assert found.rows_.shape == (40,)
        assert found.converged_
    explained = r2_score(y, found.predict(X), sample_weight=weights)
    assert found.score(blocks(y, weights)) == pytest.approx(explained, rel=1e-10)


def test_auto_is_that_of_memory() -> None:
    model = mc.KernelHuberRegressor(mc.RBF(1.0))
    wanted = model.fit(X, Y).predict(X)
    found = model.fit(chunked(X), chunked(Y))
    assert found.solver_ == S.Cholesky()
    assert np.array_equal(found.predict(X), wanted)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
    solver = SOLVERS[0]
    counts = mc.KernelMachineRegressor(mc.RBF(1.0), "poisson", solver=solver)
    with pytest.raises(DataError, match="targets >= 0"):
        counts.fit(blocks(Y))
    with pytest.raises(DataError, match="all targets of positive weight are 0"):
        counts.fit(blocks(0 * Y))
    positive = mc.KernelMachineRegressor(mc.RBF(1.0), "gamma", solver=solver)
    with pytest.raises(DataError, match="targets > 0"):
        positive.fit(blocks(COUNTS))
    with pytest.raises(DataError, match="1d array, got 2 targets"):
        counts.fit(blocks(np.column_stack([COUNTS, COUNTS])))
    with pytest.raises(DataError, match="overflow"):
        counts.fit(blocks(1e150 * COUNTS))
    with pytest.raises(ParameterError, match="smooth loss"):
        mc.KernelMachineRegressor(mc.RBF(1.0), "absolute").fit(blocks(Y))
    quantiles = mc.KernelQuantileRegressor(mc.RBF(1.0)).fit(X[:50], Y[:50])
    with pytest.raises(DataTypeError, match="score of quantiles"):
        quantiles.score(blocks(Y))
