"""Arrays in files, of which no more than the budget is ever in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import (
    DataError,
)

S = mc.solvers
RNG = np.random.default_rng(0)
N = 3000
X = RNG.normal(size=(N, 3))
Y = np.sin(X).sum(axis=1) + 3
W = RNG.uniform(0.5, 2.0, size=N)
MODEL = mc.KernelRidge(mc.Matern("scale"), 0.1, solver=S.NystromSolver(40, random_state=0))


def mapped(folder: Path, values: Any, mode: Any = "r") -> Any:
    np.save(folder / "rows.npy", values)
    return np.load(folder / "rows.npy", mmap_mode=mode)


@pytest.mark.parametrize(
    ("mode", "dtype"), [("r", np.float64), ("r+", np.float32), ("c", np.int16)]
)
def test_an_array_in_a_file_is_like_one_in_memory(tmp_path: Path, mode: str, dtype: Any) -> None:
    rows = (10 * X).astype(dtype)
    # In memory, float32 is summed in other blocks: the difference is rounding.
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    wanted = MODEL.fit(rows, Y, W).predict(rows)
    data = mapped(tmp_path, rows, mode)
    assert_allclose(MODEL.fit(data, Y, W).predict(data), wanted, rtol=tolerance)
    assert_allclose(
        MODEL.fit(np.asarray(data), list(Y), W).predict(data[:9]), wanted[:9], rtol=tolerance
    )


def test_one_weight_for_all_rows_of_a_file(tmp_path: Path) -> None:
    data = mapped(tmp_path, X)
    assert_allclose(MODEL.fit(data, Y, 2.0).predict(X), MODEL.fit(X, Y, 2.0).predict(X), rtol=1e-8)


def test_small_arrays_in_files_are_left_to_the_dense_solvers(tmp_path: Path) -> None:
    data = mapped(tmp_path, X[:200])
    assert mc.KernelRidge().fit(data, Y[:200]).solver_ == S.Cholesky()
    assert mc.KernelRidge(solver=S.Spectral()).fit(data, Y[:200]).loo_residuals_.shape == (200,)
    with pytest.raises(DataError, match="X has 200 rows"):
        MODEL.fit(data, Y[:199])


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
