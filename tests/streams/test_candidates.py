"""Landmarks are chosen among rows that, with all that is made of them, stay within a budget."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer as mc
from mercer.landmarks import selection

N, STEP, WIDTH = 24_000, 1_200, 300
ROW = WIDTH * 8


def blocks() -> Iterator[Any]:
    """58 MB in blocks of 3 MB, the same at every pass."""
    for start in range(0, N, STEP):
        yield np.random.default_rng(start).uniform(size=(STEP, WIDTH))


def peak_of(how: str, source: Any = blocks) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        mc.Nystrom(mc.RBF(8.0), 10, how, random_state=0).fit(source)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("how", ["rpcholesky", "kmeans++", "leverage"])
def test_wide_rows_count_in_the_budget(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    budget = 2**24
    monkeypatch.setattr(selection, "_CANDIDATE_BYTES", budget)
    monkeypatch.setattr("mercer.features.nystrom._SAMPLE", 500)
    # What a pass takes by itself, without candidates.
    beside = peak_of("uniform")
    assert peak_of(how) < beside + budget < N * ROW


def test_the_budget_is_used_and_holds_what_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = selection.pivoted_cholesky

    def counted(columns: Any, diagonal: Any, *args: Any, **options: Any) -> Any:
        seen.append(len(diagonal))
        return original(columns, diagonal, *args, **options)

    monkeypatch.setattr(selection, "pivoted_cholesky", counted)
    for budget in (2**23, 2**24, 2**28):
        monkeypatch.setattr(selection, "_CANDIDATE_BYTES", budget)
        mc.Nystrom(mc.RBF(8.0), 10, random_state=0).fit(blocks)
        rows = seen.pop()
        assert rows == N if budget == 2**28 else rows * (3 * ROW + 8 * 10) <= budget
        assert rows == N or rows * (3 * ROW + 8 * 10) > 0.9 * budget


def test_rows_of_other_kinds_count_as_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sp.random_array((3000, 2000), density=0.01, format="csr", random_state=0)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 30)))
    frame.columns = frame.columns.map("c{}".format)
    seen: list[int] = []
    original = selection.far_seeds

    def counted(columns: Any, diagonal: Any, *args: Any, **options: Any) -> Any:
        seen.append(len(diagonal))
        return original(columns, diagonal, *args, **options)

    monkeypatch.setattr(selection, "far_seeds", counted)
    monkeypatch.setattr(selection, "_CANDIDATE_BYTES", 2**20)
    for data, each in ((whole, 20 * 12 + 4), (frame, 30 * 8)):
        parts = [data[start : start + 1000] for start in (0, 1000, 2000)]
        mc.Nystrom(mc.Linear(), 5, "kmeans++", random_state=0).fit(mc.Blocks(parts))
        assert 0.5 * 2**20 < 3 * each * seen.pop() < 2**20
