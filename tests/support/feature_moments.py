"""Features, targets and weights in blocks of rows, for tests of sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(7)
N, M, T = 90, 6, 2
PHI = RNG.normal(size=(N, M)) + 2
Y = PHI @ RNG.normal(size=(M, T)) + RNG.normal(size=(N, T)) + 50
W = RNG.uniform(0.2, 2.0, size=N)
ORIGIN = np.array([40.0, 60.0])


def blocks(weights: Array | None, dtype: Any = np.float64) -> Any:
    for rows in (slice(0, 40), slice(40, 41), slice(41, N)):
        part = None if weights is None else weights[rows]
        yield PHI[rows].astype(dtype), Y[rows], part
