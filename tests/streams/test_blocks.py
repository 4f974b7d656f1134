"""Objects that yield blocks, and objects that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask.dataframe as dd
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from stream_data import Again, W, X, Y, Z, close, fit, frames, stream

S = mc.solvers


@pytest.mark.parametrize(
    "make",
    [
        stream,
        lambda: stream,
        lambda: list(stream()),
        lambda: mc.Blocks(list(stream())),
        lambda: mc.Blocks(stream()),
        lambda: mc.Blocks(stream),
        Again,
    ],
    ids=["generator", "function", "list", "Blocks", "of-generator", "of-function", "class"],
)
def test_what_yields_blocks(make: Callable[[], Any]) -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y).predict(Z)
    close(model.fit(make()).predict(Z), wanted)


@pytest.mark.parametrize("module", [pd, pl, pa], ids=["pandas", "polars", "pyarrow"])
def test_data_frames_with_targets_by_name(module: Any) -> None:
    kernel = mc.RBF(1.0).on("a", "b") + mc.RBF(2.0).on("c")
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(40, random_state=0))
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    fresh = pd.DataFrame(Z, columns=["a", "b", "c"])
    wanted = model.fit(table[["c", "b", "a"]], Y, W).predict(fresh[["c", "b", "a"]])
    found = model.fit(frames(module), "price", "w")
    assert list(found.feature_names_in_) == ["c", "b", "a"]
    close(found.predict(fresh[["c", "b", "a"]]), wanted)
    close(
        model.fit(mc.Blocks(frames(module), target="price", weight="w")).intercept_,
        found.intercept_,
    )
    both = model.fit(frames(module), ["price", "w"])
    assert both.predict(fresh[["c", "b", "a"]]).shape == (11, 2)


@pytest.mark.parametrize(
    "blocks", [iter([]), lambda: iter([]), mc.Blocks([]), mc.Blocks([(X[:0], Y[:0])])]
)
def test_an_empty_stream_is_refused(blocks: Any) -> None:
    with pytest.raises(DataError, match="empty"):
        fit(blocks)


def test_functions_that_return_nothing_are_refused() -> None:
    with pytest.raises(DataTypeError, match="function returned a NoneType"):
        fit(lambda: None)


def test_rows_of_lists_are_not_blocks() -> None:
    model = fit(stream(), solver=S.NystromSolver(20, random_state=0))
    close(model.predict([tuple(row) for row in Z]), model.predict(Z))


def test_an_iterator_is_empty_when_it_has_been_used() -> None:
    used = stream()
    fit(used, solver=S.NystromSolver(5, random_state=0))
    with pytest.raises(DataError, match="fresh one"):
        fit(used)


@pytest.mark.parametrize("library", ["polars", "dask"])
def test_blocks_that_are_not_computed_are_refused(library: str) -> None:
    if library == "polars":
        block: Any = pl.DataFrame({"a": X[:, 0], "y": Y}).lazy()
    else:
        block = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "y": Y}), npartitions=2)
    for blocks in (iter([block]), [block], mc.Blocks([block])):
        with pytest.raises(DataTypeError, match=r"not been computed.*yield frame\.collect\(\)"):
            fit(blocks, "y")
    with pytest.raises(DataTypeError, match="not been computed"):
        fit(iter([(block, Y)]))


class Loader:
    """Blocks with a number, and no items by number."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    def __iter__(self) -> Iterator[Any]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)


class Pages(Loader):
    """Blocks by number."""

    def __getitem__(self, number: int) -> Any:
        return self.blocks[number]


@pytest.mark.parametrize("container", [list, tuple, Loader, Pages])
def test_collections_of_blocks(container: Any) -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(30, random_state=0))
    wanted = model.fit(X, Y).predict(X)
    blocks = container(list(stream()))
    close(model.fit(blocks).predict(X), wanted)
    assert model.score(blocks) == pytest.approx(model.score(X, Y), rel=1e-8)
    close(model.predict(mc.Blocks(blocks)), wanted)
    frames = [pd.DataFrame(x, columns=list("abc")).assign(y=y) for x, y in stream()]
    close(model.fit(container(frames), "y").predict(pd.DataFrame(X, columns=list("abc"))), wanted)
    if container is Loader:
        close(model.fit(X, Y).predict(blocks), wanted)


def test_sequences_that_may_be_rows_are_told_how_to_be_blocks() -> None:
    model = mc.KernelRidge(mc.RBF(1.0)).fit(X[:50], Y[:50])
    with pytest.raises(DataError, match=r"different shapes; .*mercer\.Blocks"):
        model.predict([(X[:5], Y[:5]), (X[5:10], Y[5:10])])
