"""Methods of fitted models on blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError
from stream_data import N, X, close, stream

S = mc.solvers


def test_predictions_and_features_in_blocks() -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(40, random_state=0)).fit(stream())
    wanted = model.predict(X)
    close(model.predict(stream()), wanted)
    close(model.predict(X[i : i + 500] for i in range(0, N, 500)), wanted)
    close(model.predict(mc.Blocks([X[:5], X[5:]])), wanted)
    with pytest.raises(DataError, match="empty"):
        model.predict(iter([]))


@pytest.mark.parametrize(
    "transformer",
    [
        mc.RandomFourier(n_components=21, random_state=0),
        mc.RandomFourier(mc.RBF("median"), n_components=21, random_state=0),
        mc.RandomFourier(n_components=20, method="structured", random_state=0),
        mc.Fastfood(n_components=20, random_state=0),
        mc.TensorSketch(mc.Polynomial(2), n_components=30, random_state=0),
        mc.PositiveFeatures(n_components=30, random_state=0),
        mc.ArcCosineFeatures(n_components=30, random_state=0),
        mc.Nystrom(n_landmarks=30, random_state=0),
        mc.Nystrom(n_landmarks=30, landmarks="uniform", random_state=0),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transformers_in_blocks(transformer: Any) -> None:
    rows = X / 5
    wanted = transformer.fit(rows).transform(rows)
    fitted = transformer.fit(stream(rows=rows))
    found = fitted.transform(stream(rows=rows))
    assert_allclose(found @ found[0], wanted @ wanted[0], rtol=1e-8, atol=1e-10)
    assert fitted.n_features_in_ == 3
    both = fitted.fit_transform(stream(rows=rows))
    assert_allclose(both, found, rtol=1e-7, atol=1e-9)
    bare = transformer.fit(rows[i : i + 700] for i in range(0, N, 700)).transform(rows[:5])
    assert_allclose(bare, found[:5], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("module", [pd, pl], ids=["pandas", "polars"])
def test_transformers_give_frames_of_blocks(module: Any) -> None:
    name = module.__name__
    transformer = mc.RandomFourier(n_components=4, random_state=0).set_output(transform=name)
    found = transformer.fit_transform(X[i : i + 999] for i in range(0, N, 999))
    assert isinstance(found, module.DataFrame)
    assert list(found.columns) == [f"randomfourier{i}" for i in range(4)]
    assert_allclose(found.to_numpy(), transformer.transform(X).to_numpy(), rtol=1e-10)
    if module is pd:
        assert found.index.tolist() == list(range(N))
        table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(N) + 7)
        parts = mc.Blocks([table[:100], table[100:]])
        assert transformer.fit(table).transform(parts).index.tolist() == table.index.tolist()
