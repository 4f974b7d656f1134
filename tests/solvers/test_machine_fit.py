"""What solvers of machines cost, and which one is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import memory
from mercer.kernels.base import validated
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers.machine_fit import MachineFit
from mercer.solvers.protocol import PATIENCE

S = mc.solvers
RBF = mc.RBF(1.0)


def fit(n: int, outputs: int = 1, *, joint: bool = False, smooth: bool = True) -> MachineFit:
    rows = InMemory(RowBlock(validated(RBF, np.zeros((n, 8))), np.empty((n, 0))))
    return MachineFit(RBF, rows, outputs, joint, smooth)


def test_iterations_are_taken_where_factors_cost_more() -> None:
    assert not fit(550).matrix_is_expensive
    assert not replace(fit(1500), alpha=1e-3).matrix_is_expensive  # iterations would be many
    assert fit(5000).matrix_is_expensive
    assert not fit(20_000).products_are_expensive
    assert fit(50_000).products_are_expensive
    assert fit(50_000).work(S.ConjugateGradient()) > PATIENCE


def test_factors_for_every_class_are_not_needed() -> None:
    one, many = (fit(2000, k, joint=k > 1).dense(eigenvectors=False)[1] for k in (1, 60))
    assert one < many < 60 * one / 10


def test_losses_with_kinks_go_from_the_matrix_to_landmarks() -> None:
    few, many = fit(2500, smooth=False), fit(8000, smooth=False)
    assert not few.matrix_is_expensive
    assert many.matrix_is_expensive
    assert S.ConjugateGradient().obstacle(many) == "the loss has kinks"
    assert not S.NystromSolver(1000).obstacle(many)
    assert many.landmarks == 1000


@pytest.mark.parametrize("n", [20_000, 50_000])
def test_quantiles_of_many_rows_fit_in_little_memory(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 3 * 2**30)
    table: Any = mc.forecast(mc.KernelQuantileRegressor(RBF), np.zeros((n, 8)))
    assert table.is_possible
    assert type(table.chosen).__name__ == "NystromSolver"
