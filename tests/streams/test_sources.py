"""The arguments of fit as sources of blocks: arrays in files, targets beside blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import PolynomialFeatures

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, MercerWarning, ParameterError
from stream_data import CUTS, W, X, Y, Z, close, stream

Array = NDArray[np.floating[Any]]
S = mc.solvers


def frames(module: Any) -> Iterator[Any]:
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "price": Y, "w": W}
    for i, (first, last) in enumerate(pairwise(CUTS)):
        names = list(table) if i % 2 else list(table)[::-1]
        part = {name: table[name][first:last] for name in names}
        yield pa.table(part) if module is pa else module.DataFrame(part)


@pytest.fixture
def nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is so small that it is held as a whole."""
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)


def test_points_in_blocks_with_targets_in_memory() -> None:
    model = mc.KernelRidge(mc.Matern("scale"), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y, W).predict(Z)

    def points() -> Iterator[Array]:
        return (rows for rows, _ in stream())

    for source in (points(), points, mc.Blocks(points)):
        close(model.fit(source, Y, W).predict(Z), wanted)
    close(model.fit(points(), pd.Series(Y), W.tolist()).predict(Z), wanted)
    assert model.score(points(), Y, W) == pytest.approx(model.score(X, Y, W), rel=1e-10)
    with pytest.raises(DataError, match="y has 2499 rows, but the blocks have at least 2500"):
        model.fit(points(), Y[1:])
    with pytest.raises(DataError, match="y has 2501 rows, but the blocks have 2500"):
        model.fit(points(), np.append(Y, 1.0))
    with pytest.raises(DataTypeError, match="single value"):
        model.fit(points(), 2.0)
    with pytest.raises(DataTypeError, match="hold their own"):
        model.fit(stream(), Y)
    with pytest.raises(DataTypeError, match="hold their own"):
        model.fit(frames(pd), "price", W)


def fit(blocks: Any, *args: Any, solver: Any = "auto") -> mc.KernelRidge:
    found: mc.KernelRidge = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(blocks, *args)
    return found


def test_one_weight_for_all_rows() -> None:
    model = mc.KernelRidge(mc.Matern("scale"), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y, 2.0).predict(Z)

    def points() -> Iterator[Array]:
        return (rows for rows, _ in stream())

    for blocks, y in ((stream(), None), (points(), Y), (mc.Blocks(points), Y)):
        close(model.fit(blocks, y, np.float32(2.0)).predict(Z), wanted)
    assert model.score(stream(), None, 2.0) == pytest.approx(model.score(X, Y), rel=1e-10)
    table = pd.concat(frames(pd))[["w", "c", "b", "a"]]
    wanted = model.fit(table, Y, 2.0).predict(table)
    close(model.fit(frames(pd), "price", 2).predict(table), wanted)
    with pytest.raises(DataTypeError, match=r"sample_weight = 2 .* weights of their own"):
        model.fit([(X, Y, W)], sample_weight=2.0)
    for bad in (-1.0, np.nan):
        with pytest.raises(DataError, match="finite weight >= 0"):
            model.fit(stream(), sample_weight=bad)


@pytest.mark.usefixtures("nothing_is_gathered")
def test_more_that_blocks_cannot_do() -> None:
    with pytest.raises(DataTypeError, match="hold their own"):
        fit(mc.Blocks(stream), Y)
    with pytest.raises(DataTypeError, match="yields no blocks"):
        mc.Blocks(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="NystromSolver"):
        mc.KernelRidge(mc.Spectrum(2), solver=S.Primal()).fit([(["ab", "b"], [1.0, 2.0])])
    with pytest.raises(ParameterError, match="valid kernel"):
        mc.KernelRidge(mc.Sigmoid()).fit(stream())
    with pytest.raises(ParameterError, match="one of mercer's own"):
        fit(stream(), solver=S.RandomFeatures(PolynomialFeatures(2)))
    with pytest.raises(DataError, match="whole matrix"):
        mc.KernelRidge(mc.Precomputed()).fit([(np.eye(3)[:2], [1.0, 2.0])])
    model = fit(stream(), solver=S.NystromSolver(20, random_state=0))
    with pytest.raises(DataError, match="kept 20 of the 2500 rows"):
        _ = model.loo_residuals_
    with pytest.warns(MercerWarning, match="more than the 30 rows"):
        fit([(X[:30], Y[:30])], solver=S.NystromSolver(31))
    with pytest.raises(DataError, match="needs all"):
        mc.KernelRidge(solver=S.Spectral()).path(stream(), None, [1.0])


LABELS = np.where(np.median(Y) < Y, 1, 0)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (mc.GaussianProcessRegressor(mc.RBF(1.0)), Y),
        (mc.GaussianProcessClassifier(mc.RBF(1.0)), LABELS),
        (mc.KernelLMS(mc.RBF(1.0)), Y),
        (mc.KernelPerceptron(mc.RBF(1.0)), LABELS),
        (mc.NadarayaWatson(mc.RBF(1.0)), Y),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else type(value).__name__,
)
def test_models_that_take_no_blocks_say_what_to_do(model: Any, y: Any) -> None:
    lazy = da.from_array(X, chunks=(500, 3))
    for given in (
        (mc.Blocks([(X, y)]),),
        (iter([(X, y)]),),
        ([(X, y)],),
        (mc.Blocks([X]), y),
        (lazy,),
        (lazy, y),
    ):
        with pytest.raises(DataTypeError, match=r"X comes in blocks, but .*; pass"):
            model.fit(*given)
    with pytest.raises(DataError, match="requires y to be passed"):
        model.fit(X)
