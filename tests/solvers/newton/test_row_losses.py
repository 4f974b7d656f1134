"""Losses of rows: derivatives against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.solvers.newton.row_losses import RowLoss
from span_problems import LOSSES, N, name, targets

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_derivatives_of_rows(loss: RowLoss) -> None:
    y, step = targets(loss), 1e-5
    f, u = RNG.normal(size=(2, N, loss.n_outputs))
    rise = (loss.value(y, f + step * u) - loss.value(y, f - step * u)) / (2 * step)
    assert_allclose(np.sum(loss.derivative(y, f) * u, axis=1), rise, atol=1e-8)
    second = (loss.derivative(y, f + step * u) - loss.derivative(y, f - step * u)) / (2 * step)
    assert_allclose(loss.hessian_product(y, f, u), second, atol=1e-7)
    factors = loss.hessian_factors
    assert_allclose((loss.hessian_weights(y, f) * (u @ factors.T)) @ factors, second, atol=1e-7)
    diagonal = loss.block_diagonal()
    assert_allclose(diagonal.hessian_factors, np.eye(loss.n_outputs))
    for j, unit in enumerate(np.eye(loss.n_outputs)):
        column = np.broadcast_to(unit, f.shape)
        product = loss.hessian_product(y, f, column)[:, j]
        assert_allclose(diagonal.hessian_weights(y, f)[:, j], product, atol=1e-12)
