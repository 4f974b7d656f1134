"""Newton's directions against the equations that they solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.solvers.newton.directions import HessianFactor
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span_sums import (
    Coefficients,
    HessianSums,
)
from span_problems import LOSSES, M, name, part, span

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_systems_are_solved(loss: RowLoss) -> None:
    here, k = span(), loss.n_outputs
    zero = Coefficients(np.zeros((M, k)), np.zeros(k))
    hessians = HessianSums(here, loss, zero)(part(loss))
    for fit_intercept in (True, False):
        system = HessianFactor(hessians, loss.hessian_factors, 0.3, fit_intercept)
        right = RNG.normal(size=(M + 1, k))
        right -= right.mean(axis=1, keepdims=True) if k > 1 else 0.0
        v, b = system.solve(right[:-1], right[-1])
        both = np.vstack([v, b])
        image = sum(
            np.outer(hessian @ (both @ factor), factor)
            for hessian, factor in zip(hessians, loss.hessian_factors, strict=True)
        )
        image[:-1] += 0.3 * v
        kept = slice(None) if fit_intercept else slice(-1)
        assert_allclose(image[kept], right[kept], atol=1e-8)
