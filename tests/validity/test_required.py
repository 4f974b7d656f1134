"""The memory of a Gram matrix, of its check and of its repair."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer import memory
from mercer.exceptions import DataError, MemoryForecastError, ValidityError
from mercer.linalg.cholesky import RIDGE
from mercer.validity import required

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


def test_an_indefinite_matrix_is_refused_unless_the_kernel_is_known_to_be_valid() -> None:
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    required.require_positive("Model", mc.Precomputed(), np.eye(2), RIDGE)
    required.require_positive("Model", RBF, K, RIDGE)
    with pytest.raises(ValidityError, match=r"^Model: the Gram matrix of Precomputed\(\) is not"):
        required.require_positive("Model", mc.Precomputed(), K, RIDGE)


def test_a_gram_matrix_that_overflows_is_refused() -> None:
    rows = RNG.normal(size=(4, 2))
    assert_allclose(required.gram_matrix("Model", RBF, RBF.prepare(rows), 2.0), RBF(rows))
    kernel = mc.Polynomial(3)
    with pytest.raises(DataError, match=r"^Model: Polynomial\(\) gives infinity; scale"):
        required.gram_matrix("Model", kernel, kernel.prepare(1e120 * rows), 2.0)
