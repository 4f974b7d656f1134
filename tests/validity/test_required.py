"""The memory of a Gram matrix, of its check and of its repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    MemoryForecastError,
)

RNG = np.random.default_rng(3)

RBF = mc.RBF()


@pytest.mark.parametrize(("psd", "matrices"), [("raise", 4.1), ("clip", 7.6)])
def test_copies_made_by_checks_and_repairs_are_forecast(
    monkeypatch: pytest.MonkeyPatch, psd: Any, matrices: float
) -> None:
    rows = RNG.normal(size=(30, 2))
    size = 30 * 30 * 8
    sigmoid = mc.KernelRidge(mc.Sigmoid(gain=0.01, offset=1.0), psd=psd, alpha=10.0)
    monkeypatch.setattr(memory, "available", lambda: int(matrices * size) - 1)
    with pytest.raises(MemoryForecastError, match=r"KernelRidge on 30 rows needs .*; fit on fewer"):
        sigmoid.fit(rows, rows[:, 0])
    mc.KernelRidge(RBF).fit(rows, rows[:, 0])
    monkeypatch.setattr(memory, "available", lambda: int(matrices * size) + 1)
    try:
        sigmoid.fit(rows, rows[:, 0])
    except mc.exceptions.ValidityError:
        assert psd == "raise"


def test_the_forecast_of_a_repair_is_not_exceeded() -> None:
    import tracemalloc

    from mercer.validity import required

    n = 600
    A = RNG.normal(size=(n, n))
    for K, copies, act in (
        (A + A.T, required._CHECK_COPIES, mc.validity.check),
        (-A @ A.T, required._REPAIR_COPIES, mc.validity.repair),
    ):
        tracemalloc.start()
        act(K)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= copies * 8 * n * n
