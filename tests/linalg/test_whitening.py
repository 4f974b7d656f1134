"""Triangles of landmarks against the matrices that they factorise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.exceptions import ValidityError
from mercer.linalg.whitening import whiten, whiten_with_jitter


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


@pytest.mark.parametrize("policy", ["pivots", "jitter"])
def test_a_triangle_is_a_factor_of_its_landmarks(policy: str) -> None:
    root = np.random.default_rng(1).normal(size=(6, 6))
    square, columns = root @ root.T, root[:, :2]
    found = whiten(square) if policy == "pivots" else whiten_with_jitter(square, 2.0**-52)
    R, kept = found.upper, found.kept
    np.testing.assert_allclose(R.T @ R, square[np.ix_(kept, kept)], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(R @ found.to_coefficients(columns), columns, atol=1e-9)
    np.testing.assert_allclose(R.T @ found.gradient_to_coordinates(columns), columns, atol=1e-9)
    np.testing.assert_allclose(found.inverse() @ R, np.eye(6), atol=1e-9)


def test_jitter_keeps_every_landmark() -> None:
    found = whiten_with_jitter(np.ones((4, 4)), 2.0**-52)
    assert found.rank == 4
    assert 0 < found.jitter < 1e-4
    np.testing.assert_allclose(found.upper.T @ found.upper, np.ones((4, 4)), atol=1e-3)
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        whiten_with_jitter(np.diag([1.0, -1.0]), 2.0**-52)
