"""Draws are normal, and orthogonal where they should be."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from mercer.features.normal_draws import normals_and_uniforms


@pytest.mark.parametrize("method", ["iid", "orthogonal", "sobol"])
@pytest.mark.parametrize("columns", [1, 3, 17])
def test_every_row_of_a_draw_is_normal(method: str, columns: int) -> None:
    rows = [
        normals_and_uniforms(method, 7, columns, 2, np.random.default_rng(seed))
        for seed in range(150)
    ]
    for row in (0, 6):  # Kolmogorov-Smirnov at 1e-6, of one entry in each independent draw
        assert kstest([g[row, 0] for g, _ in rows], "norm").pvalue > 1e-6
        assert kstest([u[row, 1] for _, u in rows], "uniform").pvalue > 1e-6


def test_orthogonal_rows() -> None:
    g, _ = normals_and_uniforms("orthogonal", 25, 10, 0, np.random.default_rng(0))
    products = g @ g.T
    for group in (slice(0, 10), slice(10, 20), slice(20, 25)):
        block = products[group, group]
        assert_allclose(block, np.diag(np.diag(block)), atol=1e-12)
