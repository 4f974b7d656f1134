"""Iterators kept in a temporary file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataError
from mercer.streams import spool
from stream_data import X, Y

S = mc.solvers


def test_a_generator_is_not_kept_in_memory() -> None:
    size = 20_000

    def many() -> Iterator[Any]:
        rng = np.random.default_rng(0)
        for _ in range(25):  # 80 MB
            rows = rng.standard_normal((size, 20))
            yield rows, rows[:, 0]

    model = mc.KernelRidge(mc.RBF("scale"), 1.0, solver=S.NystromSolver(10, random_state=0))
    tracemalloc.start()
    try:
        model.fit(many())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()], ids=repr)
def test_an_iterator_that_broke_off_is_not_taken_for_one_that_ended(error: BaseException) -> None:
    def breaking() -> Iterator[Any]:
        yield X[:1100], Y[:1100]
        yield X[1100:2200], Y[1100:2200]
        raise error

    blocks = mc.Blocks(breaking())
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(30, random_state=0))
    with pytest.raises(type(error)):
        model.fit(blocks)
    for again in (model.fit, list):
        with pytest.raises(DataError, match=r"broke off after 2 .*pass a fresh iterator") as raised:
            again(blocks)
        assert raised.value.__cause__ is error
    assert not hasattr(model, "dual_coef_")


def test_a_spool_starts_again_where_it_was_left() -> None:
    def numbers() -> Iterator[int]:
        yield from range(5)

    kept = spool.Spool(numbers())
    iterator = iter(kept)
    assert [next(iterator), next(iterator)] == [0, 1]
    assert list(kept) == [0, 1, 2, 3, 4]
    assert list(kept) == [0, 1, 2, 3, 4]


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", full)
    with pytest.raises(DataError, match="TMPDIR"):
        mc.KernelRidge(solver=mc.solvers.NystromSolver(40)).fit(iter([(X, Y)]))
