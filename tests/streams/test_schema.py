"""Columns and types of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from stream_data import CUTS, N, W, X, Y, Z, close, fit, frames, stream

S = mc.solvers


SOLVERS_BY_NAME = [
    S.NystromSolver(40, random_state=0),
    S.NystromSolver(landmarks=X[:40]),
    S.RandomFeatures(mc.RandomFourier(n_components=41, random_state=0)),
]


@pytest.mark.parametrize(
    ("module", "solver"),
    list(zip([pd, pl, pa], SOLVERS_BY_NAME, strict=True)),
    ids=["pandas-chosen", "polars-given", "pyarrow-features"],
)
def test_columns_of_blocks_are_found_by_name_in_every_pass(module: Any, solver: Any) -> None:
    # The length-scales tell the columns apart, and rows of an array have none to mix up.
    model = mc.KernelRidge(mc.Matern([3.0, 20.0, 1.0]), 0.1, solver=solver)
    wanted = model.fit(X, Y)
    expected, score = wanted.predict(X), wanted.score(X, Y, W)
    path = model.path(X, Y, alphas=[0.1, 1.0]).predict(X)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(price=Y, w=W)

    def blocks(*columns: str) -> Iterator[Any]:
        for i, (first, last) in enumerate(pairwise(CUTS)):
            names = list(columns) if i % 2 else list(columns)[::-1]
            names = names if i else ["a", "b", "c", *(n for n in columns if n in ("price", "w"))]
            part = {name: table[name].to_numpy()[first:last] for name in names}
            yield pa.table(part) if module is pa else module.DataFrame(part)

    found = model.fit(blocks("a", "b", "price", "c"), "price")
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    close(found.predict(blocks("a", "c", "b")), expected)
    close(found.predict(mc.Blocks(blocks("c", "price", "b", "a"), target="price")), expected)
    found_score = found.score(blocks("price", "b", "w", "c", "a"), "price", "w")
    assert found_score == pytest.approx(score, rel=1e-8)
    found_path = model.path(blocks("b", "a", "c", "price"), "price", alphas=[0.1, 1.0])
    close(found_path.predict(blocks("c", "b", "a")), path)
    close(found_path.predict(table[["c", "b", "a"]]), path)
    with pytest.raises(DataError, match="same order"):
        found.predict(table[["c", "b", "a"]])


@pytest.mark.parametrize(
    "transformer",
    [
        mc.RandomFourier(mc.RBF([3.0, 20.0, 1.0]), 20, random_state=0),
        mc.Nystrom(mc.RBF([3.0, 20.0, 1.0]), 20, "uniform", random_state=0),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transformers_find_columns_of_blocks_by_name(transformer: Any) -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    parts = [table[:900], table[["c", "a", "b"]][900:1800], table[["b", "a", "c"]][1800:]]
    wanted = transformer.fit(X).transform(X)
    found = transformer.fit_transform(iter(parts))
    assert_allclose(found @ found[0], wanted @ wanted[0], rtol=1e-8, atol=1e-10)
    assert_allclose(transformer.transform(mc.Blocks(parts)), found, rtol=1e-12)


def records(frame: Any) -> Any:
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(
            mc.Matern([3.0, 20.0, 1.0]), 0.1, solver=S.NystromSolver(40, random_state=0)
        ),
        mc.RandomFourier(mc.RBF([3.0, 20.0, 1.0]), 20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_batches_of_records_have_names(model: Any, in_blocks: bool) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    cuts = [slice(i, i + 500) for i in range(0, N, 500)]
    apply = model.predict if hasattr(model, "predict") else model.transform
    wanted = model.fit(X, Y) and apply(X)
    if in_blocks:
        model.fit((records(frame[cut]), Y[cut]) for cut in cuts)
    else:
        model.fit(records(frame), Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    close(apply(records(frame)), wanted)
    close(apply(records(frame[["c", "a", "b"]][cut]) for cut in cuts), wanted)
    with pytest.raises(DataError, match="same order"):
        apply(records(frame[["c", "b", "a"]]))
    renamed = frame.rename(columns={"b": "area"})
    for other in (records(renamed), (records(renamed[cut]) for cut in cuts)):
        with pytest.raises(DataError, match="unseen at fit time:\n- area"):
            apply(other)
    if hasattr(model, "score"):
        turned = frame[["b", "c", "a"]]
        found = model.score((records(turned[cut]), Y[cut]) for cut in cuts)
        assert found == pytest.approx(model.score(frame, Y), rel=1e-8)
        with pytest.raises(DataError, match="unseen at fit time"):
            model.score((records(renamed[cut]), Y[cut]) for cut in cuts)


@pytest.mark.parametrize(
    "model",
    [
        mc.SVC(mc.RBF([3.0, 20.0, 1.0])),
        mc.GaussianProcessRegressor(mc.RBF(mc.Fixed(2.0)), noise=mc.Fixed(0.1)),
        mc.NadarayaWatson(mc.RBF([3.0, 20.0, 1.0])),
        mc.features.TaylorRBF(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_reads_names_of_batches(model: Any) -> None:
    frame = pd.DataFrame(X[:200], columns=["a", "b", "c"]).astype(np.float32)
    labels = (Y[:200] > 20).astype(float)
    model.fit(records(frame), labels)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    apply = model.predict if hasattr(model, "predict") else model.transform
    found = apply(records(frame))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert np.array_equal(found, model.fit(table, labels) and apply(table))
    with pytest.raises(DataError, match="same order"):
        apply(records(frame[["c", "b", "a"]]))


def test_blocks_of_records_of_sparse_rows_and_of_strings() -> None:
    batches = (table.to_batches()[0] for table in frames(pa) if len(table))
    model = mc.KernelRidge(mc.Linear(), solver=S.Primal())
    by_name = model.fit(batches, "price", "w")
    assert_allclose(
        np.sort(by_name.primal_coef().values), np.sort(model.fit(X, Y, W).primal_coef().values)
    )

    sparse = sp.random(300, 20, density=0.2, format="csr", random_state=0)
    target = np.asarray(sparse.sum(axis=1)).ravel()
    parts = [(sparse[i : i + 100], target[i : i + 100]) for i in range(0, 300, 100)]
    model = mc.KernelRidge(mc.Linear(), solver=S.NystromSolver(20, random_state=0))
    close(
        model.fit(mc.Blocks(parts)).predict(sparse[:9]),
        model.fit(sparse, target).predict(sparse[:9]),
    )

    words = ["abab", "abc", "ccab", "bbbb", "cabc", "aabb"] * 3
    blocks = [(words[:7], Y[:7]), (words[7:], Y[7:18])]
    model = mc.KernelRidge(
        mc.Spectrum(2), solver=S.NystromSolver(landmarks=["abab", "abc", "ccab", "bb"])
    )
    close(model.fit(mc.Blocks(blocks)).predict(words), model.fit(words, Y[:18]).predict(words))


def test_blocks_of_different_numbers_are_those_of_the_widest_type() -> None:
    pieces = [X[:1000].astype(np.float32), np.round(X[1000:2000]).astype(int), X[2000:]]
    whole = np.concatenate([piece.astype(float) for piece in pieces])
    blocks = [(piece, y) for piece, y in zip(pieces, np.split(Y, [1000, 2000]), strict=True)]
    model = mc.KernelRidge(
        mc.RBF(2.0), solver=S.NystromSolver(40, landmarks="kmeans++", random_state=0)
    )
    close(model.fit(blocks).predict(Z), model.fit(whole, Y).predict(Z))
    table = [pd.DataFrame({"a": p[:, 0]}).assign(y=y) for p, y in blocks]
    assert model.fit(table, "y").points_.data["a"].dtype == np.float64


def test_columns_of_frames_must_match() -> None:
    whole = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    with pytest.raises(DataError, match=r"a column 'b', .* none of that name"):
        fit([whole, whole.rename(columns={"b": "c"})], "y")
    with pytest.raises(DataError, match="one type in each column"):
        mc.KernelRidge(mc.RBF(1.0).on("a")).fit([whole, whole.assign(b="x")], "y")
    with pytest.raises(DataError, match="did you mean 'y'"):
        fit([whole], "Y")
    with pytest.raises(DataTypeError, match="'price' was asked for, but a block is a tuple"):
        fit(stream(), "price")
    with pytest.raises(DataTypeError, match="no columns with names"):
        fit(mc.Blocks([X], target="y"))


def test_frames_of_two_libraries_are_refused_by_place() -> None:
    whole = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    other = pl.DataFrame({name: whole[name].to_numpy() for name in whole})
    message = (
        r"KernelRidge: .* row 0 has data frames of pandas, .* row 2500 has .* of polars; yield"
    )
    for solver in ("auto", S.NystromSolver(20, random_state=0)):
        with pytest.raises(DataError, match=message):
            mc.KernelRidge(solver=solver).fit(iter([whole, other]), "y")
