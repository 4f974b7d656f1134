"""Blocks that are refused by their place, and sources that change between passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataError
from stream_data import N, W, X, Y, stream

Array = NDArray[np.floating[Any]]
S = mc.solvers


class Again:
    """Can be iterated as often as one likes, and counts how often."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return stream()


def fit(blocks: Any, *args: Any, solver: Any = "auto") -> mc.KernelRidge:
    found: mc.KernelRidge = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(blocks, *args)
    return found


def broken(block: int, change: Callable[[Any, Any], Any]) -> Iterator[Any]:
    for i, first in enumerate(range(0, N, 100)):
        pair = (X[first : first + 100].copy(), Y[first : first + 100].copy())
        yield change(*pair) if i == block else pair


def with_nan(rows: Array, y: Array) -> Any:
    rows[5, 2] = np.nan
    return rows, y


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_nan, r"row 1100: .*NaN \(first in row 1705, column 2\)"),
        (
            lambda rows, y: (rows, np.where(y > 20, np.nan, y)),
            r"y contains NaN or infinity \(first in row 17\d\d\)",
        ),
        (lambda rows, y: (rows[:, :2], y), "has 3 columns, .* row 1700 has 2 columns"),
        (lambda rows, y: (rows, y[:-1]), r"row 1700: .*shape \(99,\) where X has 100 rows"),
        (lambda rows, y: (sp.csr_array(rows), y), "arrays, .* sparse matrices"),
        (lambda rows, y: (rows.astype(str), y), "row 1700"),
        (lambda rows, y: (rows, y, np.ones(100)), "some blocks have weights"),
        (lambda rows, y: (rows, np.column_stack([y, y])), "the same number of targets"),
        (lambda rows, y: (rows, y, y, y), "tuple of 4"),
        (lambda rows, y: (3.0, y), "float, which has no rows"),
        (lambda rows, y: (rows, ["a"] * 100), "y has values of type"),
        (lambda rows, y: (rows, y * 1j), "Complex data not supported"),
        (lambda rows, y: rows, "requires y to be passed"),
    ],
    ids=lambda value: "" if callable(value) else str(value)[:20],
)
def test_a_bad_block_is_refused_by_place(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)) as caught:
        fit(broken(17, change))
    assert "Traceback" not in str(caught.value)


def test_weights_are_checked() -> None:
    with pytest.raises(DataError, match="weight >= 0"):
        fit([(X, Y, -W)])
    with pytest.raises(DataError, match="weights are 0"):
        fit([(X, Y, 0 * W)])


def test_a_source_that_changes_is_refused() -> None:
    class Shrinking(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            blocks = list(stream())
            return iter(blocks if self.passes < 3 else blocks[:-1])

    with pytest.raises(DataError, match="found 2200 rows where the first found 2500"):
        fit(Shrinking(), solver=S.NystromSolver(20, random_state=0))

    class Short(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return iter(list(stream())[: 6 if self.passes < 2 else 1])

    # Also where the pass that is short looks for landmarks, and skips the blocks without any.
    with pytest.raises(DataError, match="found 1 rows where the first found 2500"):
        fit(Short(), solver=S.NystromSolver(landmarks=np.arange(100, 200)))

    class Narrowing(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return stream(rows=X if self.passes < 2 else X[:, :2])

    with pytest.raises(DataError, match="columns"):
        fit(Narrowing(), solver=S.NystromSolver(20, random_state=0))


@pytest.mark.parametrize("change", ["points", "targets", "weights", "order", "texts"])
def test_sources_with_other_values_in_every_pass_are_refused(change: str) -> None:
    calls = 0

    def blocks() -> Iterator[Any]:
        nonlocal calls
        calls += 1
        rows, y, weights = X.copy(), Y.copy(), W.copy()
        kinds = np.where(Y > 20, "u", "v")
        if change == "points":
            rows += 0.5 * calls
        elif change == "targets":
            y[-1] += calls
        elif change == "weights":
            weights[-1] += calls
        elif change == "order":
            rows, y, weights = (a[np.random.default_rng(calls).permutation(N)] for a in (X, Y, W))
        else:
            kinds[1500] = str(calls)
        for part in (slice(0, 1500), slice(1500, N)):
            frame = pd.DataFrame(rows[part], columns=list("abc")).assign(kind=kinds[part])
            yield frame, y[part], weights[part]

    kernel = mc.RBF(1.0).on("a", "b", "c") + mc.Categorical().on("kind")
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(30, random_state=0))
    with pytest.raises(DataError, match=r"other values than the first; yield the same rows"):
        model.fit(blocks)
    if change != "targets":  # the classes are the same
        classifier = mc.KernelLogisticRegression(kernel, solver=S.NystromSolver(30, random_state=0))
        with pytest.raises(DataError, match=r"other values than the first; yield the same rows"):
            classifier.fit(lambda: ((x, np.where(y > 20, "u", "v"), w) for x, y, w in blocks()))
