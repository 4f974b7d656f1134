"""Triangles of landmarks against the matrices that they factorise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.linalg.whitening import whiten


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitening_drops_what_is_null(dtype: Any) -> None:
    points = np.random.default_rng(0).normal(size=(200, 3))
    low = (points @ points.T).astype(dtype)
    found = whiten(low)
    assert found.rank == 3
    features = found.apply(low[:, found.kept].copy())
    assert features.dtype == dtype
    np.testing.assert_allclose(
        features @ features.T, low, atol=1e-4 if dtype == np.float32 else 1e-12
    )
    assert whiten(np.zeros((4, 4), dtype)).rank == 0
