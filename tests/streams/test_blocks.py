"""Fits to streams of blocks give what fits to arrays give."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.preprocessing import PolynomialFeatures

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, MercerWarning, ParameterError
from mercer.landmarks import selection

Array = NDArray[np.floating[Any]]
S = mc.solvers

RNG = np.random.default_rng(0)
N = 2500
X = RNG.normal(size=(N, 3)) + 5
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=N) + 20
BOTH = np.column_stack([Y, 10 * X[:, 1]])
W = RNG.uniform(0.1, 3.0, size=N)
W[:7] = 0
Z = RNG.normal(size=(11, 3)) + 5
CUTS = [0, 1, 40, 1100, 1100, 2200, N]


def stream(y: Array = Y, weights: Array | None = None, rows: Any = X) -> Iterator[Any]:
    """Blocks of a row, of few, of many and of none, once."""
    for first, last in pairwise(CUTS):
        part = slice(first, last)
        block = (rows[part], y[part])
        yield block if weights is None else (*block, weights[part])


def close(found: Array, wanted: Array) -> None:
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


SOLVERS = [
    S.NystromSolver(60, random_state=0),
    S.NystromSolver(60, landmarks="rpcholesky", random_state=0),
    S.NystromSolver(60, landmarks="kmeans++", random_state=0),
    S.NystromSolver(60, landmarks="leverage", random_state=0),
    S.NystromSolver(landmarks=X[:50]),
    S.NystromSolver(landmarks=np.arange(0, N, 40)),
    S.Falkon(30, landmarks="kmeans++", tol=1e-12, random_state=0),
    S.RandomFeatures(mc.RandomFourier(n_components=41, random_state=0)),
    S.RandomFeatures(mc.Nystrom(n_landmarks=30, random_state=0)),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: f"{type(s).__name__}")
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_blocks_give_what_arrays_give(solver: Any, weights: Array | None) -> None:
    kernel = mc.Matern("scale", nu=1.5)
    model = mc.KernelRidge(kernel, 0.1, solver=solver)
    wanted = model.fit(X, BOTH, weights)
    expected, length = wanted.predict(Z), wanted.kernel_.length_scale
    found = model.fit(stream(BOTH, weights))
    close(found.predict(Z), expected)
    assert found.kernel_.length_scale == pytest.approx(length, rel=1e-12)
    assert found.n_features_in_ == 3
    assert found.solver_ == solver


@pytest.mark.parametrize("alpha", ["loo", "gcv"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_searches_over_blocks(alpha: Any, weights: Array | None, fit_intercept: bool) -> None:
    model = mc.KernelRidge(
        mc.Matern(),
        alpha,
        fit_intercept,
        length_scales=[1.0, "scale", "median"],
        solver=S.NystromSolver(50, landmarks="kmeans++", random_state=1),
    )
    wanted = model.fit(X, Y, weights)
    errors, expected = wanted.search_errors_, wanted.predict(Z)
    lengths = [kernel.length_scale for kernel in wanted.search_kernels_]
    found = model.fit(stream(Y, weights))
    assert_allclose(found.search_errors_, errors, rtol=1e-6)
    assert_allclose([k.length_scale for k in found.search_kernels_], lengths, rtol=1e-12)
    close(found.predict(Z), expected)


def test_features_of_the_kernel_itself() -> None:
    model = mc.KernelRidge(mc.Polynomial(2), 0.5, solver=S.Primal())
    wanted = model.fit(X, BOTH, W).predict(Z)
    values = model.primal_coef().values
    found = model.fit(stream(BOTH, W))
    close(found.predict(Z), wanted)
    close(found.primal_coef().values, values)
    with pytest.raises(AttributeError, match=r"KernelRidge: rows that come in blocks.*primal_coef"):
        found.contributions(Z)
    assert not hasattr(found, "dual_coef_")
    path = model.path(stream(BOTH, W), None, [0.5, 2.0])
    close(path.predict(Z)[0], wanted)


class Again:
    """Can be iterated as often as one likes, and counts how often."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return stream()


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


def test_a_fit_makes_few_passes() -> None:
    source = Again()
    mc.KernelRidge(alpha=0.1, solver=S.NystromSolver(40, random_state=0)).fit(source)
    # A survey, the landmarks, the moments, and at most three that win back digits.
    assert source.passes <= 6


def test_a_search_of_length_scales_makes_a_few_passes_for_each() -> None:
    source = Again()
    scales = np.geomspace(0.3, 3.0, 11)
    solver = S.NystromSolver(40, random_state=0)
    mc.KernelRidge(mc.RBF(1.0), "loo", length_scales=scales, solver=solver).fit(source)
    assert 11 * 3 < source.passes <= 11 * 5  # "about 50" in docs/dask.md


def frames(module: Any) -> Iterator[Any]:
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "price": Y, "w": W}
    for i, (first, last) in enumerate(pairwise(CUTS)):
        names = list(table) if i % 2 else list(table)[::-1]
        part = {name: table[name][first:last] for name in names}
        yield pa.table(part) if module is pa else module.DataFrame(part)


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


SOLVERS_BY_NAME = [
    S.NystromSolver(40, random_state=0),
    S.NystromSolver(landmarks=X[:40]),
    S.RandomFeatures(mc.RandomFourier(n_components=41, random_state=0)),
]


@pytest.mark.parametrize("solver", SOLVERS_BY_NAME, ids=["chosen", "given", "features"])
@pytest.mark.parametrize("module", [pd, pl, pa], ids=["pandas", "polars", "pyarrow"])
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


def test_single_precision_stays_single() -> None:
    model = mc.KernelRidge(mc.Matern(2.0), solver=S.NystromSolver(40, random_state=0))
    single = X.astype(np.float32)
    found = model.fit(stream(rows=single)).predict(single[:5])
    assert found.dtype == np.float32
    assert_allclose(found, model.fit(single, Y).predict(single[:5]), rtol=1e-3)


@pytest.fixture
def nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is so small that it is held as a whole."""
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)


@pytest.mark.usefixtures("nothing_is_gathered")
def test_auto_takes_features_or_landmarks() -> None:
    assert repr(mc.KernelRidge(mc.Polynomial(2)).fit(stream()).solver_) == "Primal()"
    assert mc.KernelRidge().fit([(X[:50], Y[:50])]).solver_ == S.NystromSolver(50)
    words = [(["abab", "abc", "ccab"], [1.0, 2.0, 3.0])] * 2
    assert isinstance(mc.KernelRidge(mc.Spectrum(2)).fit(words).solver_, S.NystromSolver)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_small_streams_are_gathered_where_all_rows_are_wanted(weights: Array | None) -> None:
    few = slice(0, 300)
    given = None if weights is None else weights[few]
    blocks = list(stream(BOTH, weights))[:2]
    blocks.append(tuple(column[40:300] for column in (X, BOTH, weights) if column is not None))
    for model in (
        mc.KernelRidge(mc.Matern("scale"), "gcv"),
        mc.KernelRidge(solver=S.ConjugateGradient(random_state=0)),
    ):
        wanted = model.fit(X[few], BOTH[few], given).predict(Z)
        found = model.fit(blocks)
        assert isinstance(found.solver_, S.Cholesky | S.ConjugateGradient)
        assert np.array_equal(found.predict(Z), wanted)
        assert found.effective_dof_ > 0  # and with all diagnostics


def test_small_streams_of_strings_and_frames_are_gathered() -> None:
    words, scores = ["abab", "abc", "ccab", "bbbb"], np.arange(4.0)
    strings = mc.KernelRidge(mc.Spectrum(2))
    wanted = strings.fit(words, scores).predict(words)
    halves = [(words[:2], scores[:2]), (words[2:], scores[2:])]
    assert np.array_equal(strings.fit(halves).predict(words), wanted)
    some = [frame for frame in frames(pd) if len(frame) < 50]
    frames_of = mc.KernelRidge(mc.RBF(1.0).on("a")).fit(some, "price", "w")
    assert frames_of.solver_ == S.Cholesky()
    assert list(frames_of.feature_names_in_) == ["c", "b", "a"]


@pytest.mark.parametrize(
    "solver",
    [
        S.NystromSolver(40, landmarks="kmeans++", random_state=0),
        S.RandomFeatures(mc.RandomFourier(mc.Matern(), n_components=41, random_state=0)),
    ],
    ids=lambda s: type(s).__name__,
)
def test_paths_over_blocks(solver: Any) -> None:
    model, alphas = mc.KernelRidge(mc.Matern(), solver=solver), [0.1, 10.0]
    wanted = model.path(X, BOTH, alphas, W)
    found = model.path(stream(BOTH, W), None, alphas)
    close(found.predict(Z), wanted.predict(Z))
    assert_allclose(found.loo_errors, wanted.loo_errors, rtol=1e-8)
    assert_allclose(found.gcv_errors, wanted.gcv_errors, rtol=1e-8)


class Watch:
    """Predicts with the model of every step, and stops after the third."""

    def __init__(self) -> None:
        self.predictions: list[Array] = []

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None, **kwargs: Any
    ) -> bool:
        self.predictions.append(fitted_estimator.predict(Z))
        return len(self.predictions) == 3


def test_predictions_of_paths_in_blocks() -> None:
    path = mc.KernelRidge(solver=S.NystromSolver(40, random_state=0)).path(
        stream(BOTH), None, [0.1, 1.0]
    )
    wanted = path.predict(X)
    assert wanted.shape == (2, N, 2)
    close(path.predict(stream(BOTH)), wanted)


def test_points_in_blocks_with_targets_in_memory() -> None:
    model = mc.KernelRidge(mc.Matern("scale"), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y, W).predict(Z)

    def points() -> Iterator[Array]:
        return (rows for rows, _ in stream())

    for source in (points(), points, mc.Blocks(points)):
        close(model.fit(source, Y, W).predict(Z), wanted)
    close(model.fit(points(), pd.Series(Y), W.tolist()).predict(Z), wanted)
    assert model.score(points(), Y, W) == pytest.approx(model.score(X, Y, W), rel=1e-10)
    with pytest.raises(DataError, match="y has 2499 rows, but the blocks have at least 2500"):
        model.fit(points(), Y[1:])
    with pytest.raises(DataError, match="y has 2501 rows, but the blocks have 2500"):
        model.fit(points(), np.append(Y, 1.0))
    with pytest.raises(DataTypeError, match="single value"):
        model.fit(points(), 2.0)
    with pytest.raises(DataTypeError, match="hold their own"):
        model.fit(stream(), Y)
    with pytest.raises(DataTypeError, match="hold their own"):
        model.fit(frames(pd), "price", W)


def test_callbacks_see_every_iteration_over_blocks() -> None:
    watch = Watch()
    model = mc.KernelRidge(mc.Matern(), solver=S.Falkon(30, random_state=0))
    model.set_callbacks(watch)
    model.fit(stream())
    assert model.n_iter_ == 3
    assert np.array_equal(watch.predictions[2], model.predict(Z))


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


def test_predictions_and_features_in_blocks() -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(40, random_state=0)).fit(stream())
    wanted = model.predict(X)
    close(model.predict(stream()), wanted)
    close(model.predict(X[i : i + 500] for i in range(0, N, 500)), wanted)
    close(model.predict(mc.Blocks([X[:5], X[5:]])), wanted)
    with pytest.raises(DataError, match="empty"):
        model.predict(iter([]))


@pytest.mark.parametrize(
    "transformer",
    [
        mc.RandomFourier(n_components=21, random_state=0),
        mc.RandomFourier(mc.RBF("median"), n_components=21, random_state=0),
        mc.RandomFourier(n_components=20, method="structured", random_state=0),
        mc.Fastfood(n_components=20, random_state=0),
        mc.TensorSketch(mc.Polynomial(2), n_components=30, random_state=0),
        mc.PositiveFeatures(n_components=30, random_state=0),
        mc.ArcCosineFeatures(n_components=30, random_state=0),
        mc.Nystrom(n_landmarks=30, random_state=0),
        mc.Nystrom(n_landmarks=30, landmarks="uniform", random_state=0),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transformers_in_blocks(transformer: Any) -> None:
    rows = X / 5
    wanted = transformer.fit(rows).transform(rows)
    fitted = transformer.fit(stream(rows=rows))
    found = fitted.transform(stream(rows=rows))
    assert_allclose(found @ found[0], wanted @ wanted[0], rtol=1e-8, atol=1e-10)
    assert fitted.n_features_in_ == 3
    both = fitted.fit_transform(stream(rows=rows))
    assert_allclose(both, found, rtol=1e-7, atol=1e-9)
    bare = transformer.fit(rows[i : i + 700] for i in range(0, N, 700)).transform(rows[:5])
    assert_allclose(bare, found[:5], rtol=1e-7, atol=1e-9)


def test_many_candidates_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_CANDIDATE_BYTES", 8 * 60 * 400)
    solver = S.NystromSolver(60, landmarks="rpcholesky", random_state=0)
    model = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(stream())
    again = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(stream())
    assert len(model.points_) == 60
    assert np.array_equal(model.points_.data, again.points_.data)
    assert model.trace_error_ < 0.2


# What is refused ----------------------------------------------------------------------------------


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


def test_one_weight_for_all_rows() -> None:
    model = mc.KernelRidge(mc.Matern("scale"), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y, 2.0).predict(Z)

    def points() -> Iterator[Array]:
        return (rows for rows, _ in stream())

    for blocks, y in ((stream(), None), (points(), Y), (mc.Blocks(points), Y)):
        close(model.fit(blocks, y, np.float32(2.0)).predict(Z), wanted)
    assert model.score(stream(), None, 2.0) == pytest.approx(model.score(X, Y), rel=1e-10)
    table = pd.concat(frames(pd))[["w", "c", "b", "a"]]
    wanted = model.fit(table, Y, 2.0).predict(table)
    close(model.fit(frames(pd), "price", 2).predict(table), wanted)
    with pytest.raises(DataTypeError, match=r"sample_weight = 2 .* weights of their own"):
        model.fit([(X, Y, W)], sample_weight=2.0)
    for bad in (-1.0, np.nan):
        with pytest.raises(DataError, match="finite weight >= 0"):
            model.fit(stream(), sample_weight=bad)


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


@pytest.mark.parametrize("module", [pd, pl], ids=["pandas", "polars"])
def test_transformers_give_frames_of_blocks(module: Any) -> None:
    name = module.__name__
    transformer = mc.RandomFourier(n_components=4, random_state=0).set_output(transform=name)
    found = transformer.fit_transform(X[i : i + 999] for i in range(0, N, 999))
    assert isinstance(found, module.DataFrame)
    assert list(found.columns) == [f"randomfourier{i}" for i in range(4)]
    assert_allclose(found.to_numpy(), transformer.transform(X).to_numpy(), rtol=1e-10)
    if module is pd:
        assert found.index.tolist() == list(range(N))
        table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(N) + 7)
        parts = mc.Blocks([table[:100], table[100:]])
        assert transformer.fit(table).transform(parts).index.tolist() == table.index.tolist()


def test_an_iterator_is_empty_when_it_has_been_used() -> None:
    used = stream()
    fit(used, solver=S.NystromSolver(5, random_state=0))
    with pytest.raises(DataError, match="fresh one"):
        fit(used)


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


def test_a_forecast_does_not_use_an_iterator_up() -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(20, random_state=0))
    blocks = stream()
    with pytest.raises(DataTypeError, match=r"forecast: X is a generator.*mercer\.Blocks"):
        mc.forecast(model, blocks)
    kept = mc.Blocks(blocks)
    assert isinstance(mc.forecast(model, kept).chosen, S.NystromSolver)
    close(model.fit(kept).predict(Z), model.fit(X, Y).predict(Z))


@pytest.mark.usefixtures("nothing_is_gathered")
@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral(), S.ConjugateGradient()], ids=str)
def test_solvers_that_need_all_rows_say_so(solver: Any) -> None:
    with pytest.raises(DataError, match=r"needs all 2500 rows in memory.*solvers\.NystromSolver"):
        fit(stream(), solver=solver)


@pytest.mark.usefixtures("nothing_is_gathered")
def test_more_that_blocks_cannot_do() -> None:
    with pytest.raises(DataTypeError, match="hold their own"):
        fit(mc.Blocks(stream), Y)
    with pytest.raises(DataTypeError, match="yields no blocks"):
        mc.Blocks(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="NystromSolver"):
        mc.KernelRidge(mc.Spectrum(2), solver=S.Primal()).fit([(["ab", "b"], [1.0, 2.0])])
    with pytest.raises(ParameterError, match="valid kernel"):
        mc.KernelRidge(mc.Sigmoid()).fit(stream())
    with pytest.raises(ParameterError, match="one of mercer's own"):
        fit(stream(), solver=S.RandomFeatures(PolynomialFeatures(2)))
    with pytest.raises(DataError, match="whole matrix"):
        mc.KernelRidge(mc.Precomputed()).fit([(np.eye(3)[:2], [1.0, 2.0])])
    model = fit(stream(), solver=S.NystromSolver(20, random_state=0))
    with pytest.raises(DataError, match="kept 20 of the 2500 rows"):
        _ = model.loo_residuals_
    with pytest.warns(MercerWarning, match="more than the 30 rows"):
        fit([(X[:30], Y[:30])], solver=S.NystromSolver(31))
    with pytest.raises(DataError, match="needs all"):
        mc.KernelRidge(solver=S.Spectral()).path(stream(), None, [1.0])


LABELS = np.where(np.median(Y) < Y, 1, 0)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (mc.GaussianProcessRegressor(mc.RBF(1.0)), Y),
        (mc.GaussianProcessClassifier(mc.RBF(1.0)), LABELS),
        (mc.KernelLMS(mc.RBF(1.0)), Y),
        (mc.KernelPerceptron(mc.RBF(1.0)), LABELS),
        (mc.NadarayaWatson(mc.RBF(1.0)), Y),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else type(value).__name__,
)
def test_models_that_take_no_blocks_say_what_to_do(model: Any, y: Any) -> None:
    lazy = da.from_array(X, chunks=(500, 3))
    for given in (
        (mc.Blocks([(X, y)]),),
        (iter([(X, y)]),),
        ([(X, y)],),
        (mc.Blocks([X]), y),
        (lazy,),
        (lazy, y),
    ):
        with pytest.raises(DataTypeError, match=r"X comes in blocks, but .*; pass"):
            model.fit(*given)
    with pytest.raises(DataError, match="requires y to be passed"):
        model.fit(X)


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = fit(stream(), solver=S.NystromSolver(20, random_state=0))
    before = model.predict(Z)
    with pytest.raises(DataError):
        model.fit(broken(17, with_nan))
    assert np.array_equal(model.predict(Z), before)


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
