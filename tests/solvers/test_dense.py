"""Solvers that store the matrix of all pairs of rows, against plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc

S = mc.solvers


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("alpha", ["gcv", "loo", 1.0, 0.0])
def test_rows_that_are_all_alike(alpha: Any, dtype: Any) -> None:
    # Once the mean is out, nothing is left but rounding. All candidates have the same error up to
    # rounding, so that any may be chosen; coefficients are at most 30 / alpha, and values of the
    # function are off by their rounding.
    rows = np.tile(np.array([0.3, 1.7], dtype), (60, 1))
    y = np.arange(60.0)
    model = mc.KernelRidge(mc.RBF(3.0), alpha, alphas=[1.0, 10.0, 60.0], solver=S.Spectral())
    model.fit(rows, y)
    assert_allclose(model.predict(rows[:1]), 29.5, rtol=1e-5)
    assert_allclose(model.effective_dof_, 1.0, atol=1e-4)
