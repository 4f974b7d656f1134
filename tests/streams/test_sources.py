"""The arguments of fit as sources of blocks: arrays in files, targets beside blocks."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.preprocessing import PolynomialFeatures

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, MercerWarning, ParameterError
from stream_data import W, X, Y, Z, close, fit, frames, stream

Array = NDArray[np.floating[Any]]
S = mc.solvers


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


# Arrays in files ----------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(3000, 3))
TARGETS = np.sin(ROWS).sum(axis=1) + 3
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(ROWS))
MODEL = mc.KernelRidge(mc.Matern("scale"), 0.1, solver=S.NystromSolver(40, random_state=0))


def mapped(folder: Path, values: Any, mode: Any = "r") -> Any:
    np.save(folder / "rows.npy", values)
    return np.load(folder / "rows.npy", mmap_mode=mode)


@pytest.mark.parametrize(
    ("mode", "dtype"), [("r", np.float64), ("r+", np.float32), ("c", np.int16)]
)
def test_an_array_in_a_file_is_like_one_in_memory(tmp_path: Path, mode: str, dtype: Any) -> None:
    rows = (10 * ROWS).astype(dtype)
    # In memory, float32 is summed in other blocks: the difference is rounding.
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    wanted = MODEL.fit(rows, TARGETS, WEIGHTS).predict(rows)
    data = mapped(tmp_path, rows, mode)
    assert_allclose(MODEL.fit(data, TARGETS, WEIGHTS).predict(data), wanted, rtol=tolerance)
    assert_allclose(
        MODEL.fit(np.asarray(data), list(TARGETS), WEIGHTS).predict(data[:9]),
        wanted[:9],
        rtol=tolerance,
    )


def test_one_weight_for_all_rows_of_a_file(tmp_path: Path) -> None:
    data = mapped(tmp_path, ROWS)
    assert_allclose(
        MODEL.fit(data, TARGETS, 2.0).predict(ROWS),
        MODEL.fit(ROWS, TARGETS, 2.0).predict(ROWS),
        rtol=1e-8,
    )


def test_small_arrays_in_files_are_left_to_the_dense_solvers(tmp_path: Path) -> None:
    data = mapped(tmp_path, ROWS[:200])
    assert mc.KernelRidge().fit(data, TARGETS[:200]).solver_ == S.Cholesky()
    spectral = mc.KernelRidge(solver=S.Spectral()).fit(data, TARGETS[:200])
    assert spectral.loo_residuals_.shape == (200,)
    with pytest.raises(DataError, match="X has 200 rows"):
        MODEL.fit(data, TARGETS[:199])


def test_of_a_large_file_little_is_in_memory(tmp_path: Path) -> None:
    n, d = 400_000, 25  # 80 MB
    data = np.lib.format.open_memmap(
        tmp_path / "large.npy", mode="w+", dtype=np.float64, shape=(n, d)
    )
    targets = np.lib.format.open_memmap(
        tmp_path / "targets.npy", mode="w+", dtype=np.float64, shape=(n,)
    )
    for start in range(0, n, 50_000):
        block = RNG.standard_normal((50_000, d))
        data[start : start + 50_000] = block
        targets[start : start + 50_000] = block[:, 0]
    model = mc.KernelRidge(alpha=1.0, solver=S.NystromSolver(20, random_state=0))
    fourier = mc.RandomFourier(n_components=4, random_state=0)
    tracemalloc.start()
    try:
        model.fit(data, targets)
        fitted = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        model.predict(data)
        fourier.fit(data).transform(data)
        applied = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fitted < 45e6
    assert applied < 60e6
