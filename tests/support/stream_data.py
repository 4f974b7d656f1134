"""Rows in blocks of different lengths, for tests of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 2500
X = RNG.normal(size=(N, 3)) + 5
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=N) + 20
BOTH = np.column_stack([Y, 10 * X[:, 1]])
W = RNG.uniform(0.1, 3.0, size=N)
W[:7] = 0
Z = RNG.normal(size=(11, 3)) + 5
CUTS = [0, 1, 40, 1100, 1100, 2200, N]


def stream(y: Array = Y, weights: Array | None = None, rows: Any = X) -> Iterator[Any]:
    """Blocks of a row, of few, of many and of none, once."""
    for first, last in pairwise(CUTS):
        part = slice(first, last)
        block = (rows[part], y[part])
        yield block if weights is None else (*block, weights[part])


def close(found: Array, wanted: Array) -> None:
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


class Again:
    """Can be iterated as often as one likes, and counts how often."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return stream()


def frames(module: Any) -> Iterator[Any]:
    """Data frames of the blocks, with targets and weights, and columns in either order."""
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "price": Y, "w": W}
    for i, (first, last) in enumerate(pairwise(CUTS)):
        names = list(table) if i % 2 else list(table)[::-1]
        part = {name: table[name][first:last] for name in names}
        yield pa.table(part) if module is pa else module.DataFrame(part)


def fit(blocks: Any, *args: Any, solver: Any = "auto") -> mc.KernelRidge:
    found: mc.KernelRidge = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(blocks, *args)
    return found


def broken(block: int, change: Callable[[Any, Any], Any]) -> Iterator[Any]:
    """Blocks of 100 rows, of which one is changed."""
    for i, first in enumerate(range(0, N, 100)):
        pair = (X[first : first + 100].copy(), Y[first : first + 100].copy())
        yield change(*pair) if i == block else pair


def with_nan(rows: Array, y: Array) -> Any:
    rows[5, 2] = np.nan
    return rows, y
