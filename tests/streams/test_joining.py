"""Sources that write every block into the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer as mc

RNG = np.random.default_rng(0)
N = 2500
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
W = RNG.uniform(0.5, 2.0, size=N)

KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "list": list,
    "series": lambda values: pd.Series(values, copy=False),
}


def reused(size: int, *, whole: bool = True, kind: str = "array") -> Iterator[Any]:
    """Blocks of one size and a last one of fewer rows; what was yielded before is overwritten."""
    points, y, w = np.empty((size, 2)), np.empty(size), np.empty(size)
    column: Any = KINDS[kind](y)
    for start in range(0, N, size):
        rows = slice(start, min(start + size, N))
        count = rows.stop - start
        points[:count], y[:count], w[:count] = X[rows], Y[rows], W[rows]
        if isinstance(column, list):
            column[:] = y[:count].tolist()
        yield (points[:count], column[:count], w[:count]) if whole else points[:count]
        points[:], y[:], w[:] = np.nan, np.nan, np.nan


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 100, 700, 1024, 1300])
def test_rows_are_those_that_were_yielded(size: int, kind: str) -> None:
    # Each block is looked at before the next is asked for, as by whoever adds up.
    seen = [
        tuple(np.array(column) for column in block)
        for block in mc.Blocks(lambda: reused(size, kind=kind))
    ]
    for found, wanted in zip(map(np.concatenate, zip(*seen, strict=True)), (X, Y, W), strict=True):
        assert np.array_equal(found, wanted)
    if kind == "array":  # small ones are joined, and others are left alone
        assert all(len(block[0]) >= min(1024, N) for block in seen[:-1])


def test_nothing_is_copied_but_what_waits() -> None:
    small, large = X[:600], X[600:2000]
    parts = [block[0] for block in mc.Blocks([large, small, small])]
    assert parts[0] is large
    assert np.array_equal(parts[1], np.concatenate([small, small]))


@pytest.mark.parametrize("size", [7, 100, 700, 1300])
def test_models_see_every_row_once(size: int) -> None:
    alpha, scale = 0.1, 1.3

    def kernel(A: Any, B: Any) -> Any:
        squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
        return np.exp(-squares / (2 * scale**2))

    # Ridge regression over given landmarks, by its normal equations.
    landmarks = X[:10]
    cross = kernel(X, landmarks)
    square = cross.T @ (W[:, None] * cross) + alpha * kernel(landmarks, landmarks)
    wanted = cross @ np.linalg.solve(square, cross.T @ (W * Y))
    solver = mc.solvers.NystromSolver(landmarks=landmarks)
    model = mc.KernelRidge(mc.RBF(scale), alpha, fit_intercept=False, solver=solver)
    for source in (lambda: reused(size), reused(size)):
        found = model.fit(source).predict(reused(size, whole=False))
        assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
