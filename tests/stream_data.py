"""Rows in blocks of different lengths, for tests of streams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from numpy.typing import NDArray

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
