"""Dask collections give what arrays give, without a cluster."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.metrics import r2_score
from threadpoolctl import threadpool_info, threadpool_limits

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, NumericalWarning
from mercer.parallel import one_thread
from mercer.rows.rows import RowBlock
from mercer.streams import dask as streams
from mercer.streams.dask import DaskBlocks
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import Numbers
from stream_data import close

Array = NDArray[np.floating[Any]]
S = mc.solvers
RNG = np.random.default_rng(0)
N = 1500
X = RNG.normal(size=(N, 3))
BOTH = np.column_stack([np.sin(X).sum(axis=1) + 3, X[:, 0]])
Y = BOTH[:, 0]
W = RNG.uniform(0.5, 2.0, size=N)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, w=W)

SOLVERS = [
    S.NystromSolver(40, random_state=0),
    S.NystromSolver(40, landmarks="rpcholesky", random_state=0),
    S.Falkon(20, landmarks="kmeans++", tol=1e-12, random_state=0),
    S.RandomFeatures(mc.RandomFourier(n_components=41, random_state=0)),
]


def small_chunks() -> Any:
    """Nothing is so small that the client gathers it."""
    return dask.config.set({"array.chunk-size": "1B"})


def chunked(values: Array, rows: Any = 400, columns: int = -1) -> da.Array:
    return da.from_array(values, chunks=(rows, columns) if values.ndim > 1 else rows)


def unknown(array: da.Array) -> da.Array:
    """The same rows, of which nobody knows how many are in a chunk."""
    return array[da.ones(len(array), chunks=array.chunks[0], dtype=bool)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_arrays(solver: Any, weights: Array | None) -> None:
    model = mc.KernelRidge(mc.Matern("scale"), 0.1, solver=solver)
    wanted = model.fit(X, BOTH, weights).predict(X)
    given = None if weights is None else chunked(weights, 500)
    found = model.fit(chunked(X, 400, 2), chunked(BOTH, 700, 1), given)
    close(found.predict(X), wanted)
    lazy = found.predict(chunked(X, 400, 2))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((400, 400, 400, 300), (2,))
    close(lazy.compute(), wanted)


@pytest.mark.parametrize(
    "solver",
    [
        S.NystromSolver(200, random_state=0),
        S.Falkon(100, random_state=0),
        S.Falkon(60, landmarks="kmeans++", random_state=0),
        S.RandomFeatures(mc.RandomFourier(mc.RBF(1.0), n_components=101, random_state=0)),
    ],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize(("alpha", "weights"), [(1e-6, None), (1.0, W)], ids=["plain", "weighted"])
def test_landmarks_that_are_nearly_dependent(
    solver: Any, alpha: float, weights: Array | None
) -> None:
    # k(Z, Z) has eigenvalues below rounding here, and tolerances are the default ones.
    model = mc.KernelRidge(mc.RBF(1.0), alpha, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # Falkon at the smaller alpha
        wanted = model.fit(X, BOTH, weights).predict(X)
        found = model.fit(chunked(X), chunked(BOTH), None if weights is None else chunked(weights))
    close(found.predict(X), wanted)


def test_small_collections_give_what_auto_gives_in_memory() -> None:
    model = mc.KernelRidge(mc.Matern("scale"), "loo")
    wanted = model.fit(X, BOTH, W).predict(X)
    found = model.fit(chunked(X), chunked(BOTH), chunked(W))
    assert found.solver_ == S.Cholesky()
    assert np.array_equal(found.predict(X), wanted)
    none = np.where(np.arange(N) < 700, 0.0, 1.0)
    assert model.fit(chunked(X), chunked(Y), chunked(none)).solver_ == S.Cholesky()
    with small_chunks():
        assert model.fit(chunked(X), chunked(Y), chunked(none)).solver_ == S.NystromSolver(
            500, random_state=0
        )


def test_targets_and_weights_count_in_what_is_gathered() -> None:
    wide = np.repeat(Y[:, None], 5, axis=1)
    points, targets, weights = X.nbytes, wide.nbytes, W.nbytes
    for limit, given, taken in (
        (points + targets + weights, (wide, W), S.Cholesky()),
        (points + targets + weights - 1, (wide, W), S.NystromSolver(500, random_state=0)),
        (points + targets, (wide, None), S.Cholesky()),
        (points + targets - 1, (wide, None), S.NystromSolver(500, random_state=0)),
    ):
        y, w = (None if values is None else chunked(values) for values in given)
        with dask.config.set({"array.chunk-size": f"{limit}B"}):
            assert mc.KernelRidge(mc.RBF(1.0)).fit(chunked(X), y, w).solver_ == taken
    labels = np.where(Y > 3, "a long label, to be counted", "low")
    classifier = mc.KernelLogisticRegression(mc.RBF(1.0))
    for limit, taken in ((points + labels.nbytes, S.Cholesky), (points + 8 * N, S.NystromSolver)):
        with dask.config.set({"array.chunk-size": f"{limit}B"}):
            fitted = classifier.fit(chunked(X), da.from_array(labels, chunks=400))
            assert isinstance(fitted.solver_, taken)


def test_landmarks_that_auto_takes_are_no_more_than_the_rows_that_count() -> None:
    weights = np.where(np.arange(N) < N - 60, 0.0, 1.0)
    with small_chunks():
        found = mc.KernelRidge(mc.RBF(1.0)).fit(chunked(X), chunked(Y), chunked(weights))
    assert found.solver_ == S.NystromSolver(60, random_state=0)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_scores_and_paths(weights: Array | None) -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(30, random_state=0)).fit(X, BOTH)
    given = None if weights is None else chunked(weights, 300)
    wanted = r2_score(BOTH, model.predict(X), sample_weight=weights)
    assert model.score(X, BOTH, weights) == pytest.approx(wanted, rel=1e-12)
    assert model.score(chunked(X), chunked(BOTH), given) == pytest.approx(wanted, rel=1e-12)
    path = model.path(X, BOTH, [0.1, 1.0], weights)
    lazy = model.path(chunked(X), chunked(BOTH), [0.1, 1.0], given)
    assert_allclose(lazy.loo_errors, path.loo_errors, rtol=1e-8)
    predicted = lazy.predict(chunked(X))
    assert isinstance(predicted, da.Array)
    assert predicted.shape == (2, N, 2)
    close(predicted.compute(), path.predict(X))


def test_scores_of_constants_and_of_single_rows() -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(30, random_state=0)).fit(
        X, 0 * Y + 2
    )
    same, other = chunked(0 * Y + 2), chunked(0 * Y + 3)
    assert model.score(chunked(X), same) == model.score(X, same.compute()) == 1.0
    assert model.score(chunked(X), other) == model.score(X, other.compute()) == 0.0
    with pytest.warns(NumericalWarning, match="one row has no variance"):
        assert np.isnan(model.score(chunked(X[:1]), chunked(Y[:1])))
    with pytest.raises(DataError, match="no rows"):
        model.score(da.zeros((0, 3)), da.zeros(0))


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF("median"), solver=S.NystromSolver(5, random_state=0)),
        mc.KernelRidge(
            mc.RBF("median") + mc.Laplacian("median").on(0, 1),
            solver=S.NystromSolver(5, random_state=0),
        ),
        mc.KernelRidge(mc.RBF(30.0), solver=S.Falkon(5, random_state=0)),
        mc.KernelRidge(mc.RBF(30.0), solver=S.RandomFeatures(mc.RandomFourier(n_components=10))),
        mc.KernelRidge(mc.Polynomial(2).on(0, 1, 2), solver=S.Primal()),
        mc.RandomFourier(mc.Matern("median"), n_components=10),
    ],
    ids=["median", "medians", "falkon", "features", "primal", "transformer"],
)
def test_what_comes_back_is_less_than_a_chunk(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # In float32: a chunk is small, and sums in float64 are compared with it.
    rows = RNG.random(size=(480, 500)).astype(np.float32)
    chunk, sizes = rows[:20].nbytes, list[int]()
    computed = streams._computed

    def weighed(owner: str, result: Any) -> Any:
        found = computed(owner, result)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(streams, "_computed", weighed)
    with dask.config.set({"array.chunk-size": chunk}):
        model.fit(chunked(rows, 20), chunked(rows[:, 0], 20))
    assert max(sizes) < chunk
    length = getattr(model.kernel_, "length_scale", 30.0)
    if length != 30.0:
        assert length == pytest.approx(np.median(pdist(rows.astype(float))), rel=1e-10)


def test_no_rows_have_the_shape_that_some_have() -> None:
    model = mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(30, random_state=0)).fit(X, BOTH)
    assert model.predict(X[:0]).shape == model.predict(chunked(X)[:0]).compute().shape == (0, 2)
    with pytest.raises(DataError, match=r"columns|features"):
        model.predict(np.zeros((0, 5)))


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF(1.0).warp(np.log), solver=S.NystromSolver(9, random_state=0)),
        mc.KernelMachineRegressor(
            mc.RBF(1.0).warp(np.log), loss="huber", solver=S.NystromSolver(9, random_state=0)
        ),
        mc.Nystrom(mc.RBF(1.0).warp(np.log), 9, random_state=0),
        mc.RandomFourier(mc.RBF(1.0).warp(np.log), n_components=6, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_kernels_that_are_not_defined_at_zero(model: Any) -> None:
    rows, y = np.exp(X), BOTH[:, 1]
    with small_chunks():
        model.fit(chunked(rows), chunked(y))
    method = model.predict if hasattr(model, "predict") else model.transform
    lazy = method(chunked(rows))
    wanted = method(rows)
    assert lazy.shape == wanted.shape
    assert lazy.dtype == wanted.dtype
    close(lazy.compute(), wanted)
    assert method(rows[:0]).shape == (0, *wanted.shape[1:])
    if isinstance(model, mc.KernelRidge):
        path = model.path(chunked(rows), chunked(y), [0.1, 1.0])
        assert path.predict(chunked(rows)).shape == (2, N)
        assert path.predict(rows[:0]).shape == (2, 0)


def test_data_frames_of_kernels_that_do_not_take_made_up_values() -> None:
    frame = pd.DataFrame({"c": np.exp(X[:, 0]) + 5, "kind": np.where(Y > 3, "u", "v")})
    warped = mc.RBF(1.0).warp(lambda part: np.log(part - 5)).on("c")
    kernel = warped * mc.Categorical(1.0).on("kind")
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(9, random_state=0)).fit(frame, Y)
    close(model.predict(dd.from_pandas(frame, npartitions=3)).compute(), model.predict(frame))


def test_data_frames_of_features() -> None:
    transformer = mc.RandomFourier(n_components=4, random_state=0).set_output(transform="pandas")
    wanted = transformer.fit_transform(X)
    for rows in (chunked(X), unknown(chunked(X))):
        lazy = transformer.fit_transform(rows)
        assert isinstance(lazy, dd.DataFrame)
        assert lazy.columns.tolist() == wanted.columns.tolist()
        assert_allclose(lazy.compute().to_numpy(), wanted.to_numpy(), rtol=1e-10)
    assert transformer.transform(chunked(X)).compute().index.tolist() == list(range(N))
    table = FRAME[["a", "b", "c"]].set_index(np.arange(N) + 5)
    lazy = transformer.fit(table).transform(dd.from_pandas(table, npartitions=3))
    pd.testing.assert_frame_equal(lazy.compute(), transformer.transform(table), rtol=1e-10)
    transformer.fit(X).set_output(transform="polars")
    with pytest.raises(DataTypeError, match=r'set_output\(transform="pandas"\)'):
        transformer.transform(chunked(X))


@pytest.mark.parametrize("alpha", ["loo", "gcv"])
def test_searches(alpha: Any) -> None:
    solver = S.NystromSolver(40, landmarks="kmeans++", random_state=0)
    model = mc.KernelRidge(mc.Matern(), alpha, length_scales=[1.0, "median"], solver=solver)
    wanted = model.fit(X, Y, W)
    errors, predicted = wanted.search_errors_, wanted.predict(X)
    found = model.fit(chunked(X), chunked(Y), chunked(W))
    assert_allclose(found.search_errors_, errors, rtol=1e-6)
    close(found.predict(X), predicted)


def test_data_frames() -> None:
    kernel = mc.Matern().on("a") + mc.RBF(1.0).on("b", "c")
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(40, random_state=0))
    points = FRAME[["a", "b", "c"]]
    wanted = model.fit(points, Y, W).predict(points)
    frame = dd.from_pandas(FRAME, npartitions=4)
    lazy_points = frame[["a", "b", "c"]]
    for y, weight in (
        (frame["y"], frame["w"]),
        (chunked(Y), W),
        (frame["y"].values, chunked(W, 9)),
    ):
        close(model.fit(lazy_points, y, weight).predict(points), wanted)
    found = model.fit(frame, "y", "w")
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    close(found.predict(lazy_points).compute(), wanted)
    filtered = frame[frame["a"] > 5]  # nothing is left in any partition
    assert found.predict(filtered[["a", "b", "c"]]).compute().shape == (0,)
    assert model.fit(lazy_points, frame[["y", "w"]]).predict(lazy_points).compute().shape == (N, 2)


WORDS = pd.DataFrame({"word": ["ab" * (i % 5 + 1) for i in range(300)], "y": np.arange(300.0)})
WORDS["kind"] = WORDS["word"].str.len().astype("category")
WORDS["size"] = WORDS["word"].str.len().astype("Float64")


@pytest.mark.parametrize(
    "kernel",
    [
        mc.Spectrum(2).on("word"),
        mc.Spectrum(2).normalized().on("word"),
        mc.Categorical().on("word"),
        mc.Categorical(1.0).on("kind") + mc.RBF(1.0).on("size"),
    ],
    ids=str,
)
def test_columns_of_strings_and_of_values_that_may_be_missing(kernel: Any) -> None:
    local, solver = WORDS.drop(columns="y"), S.NystromSolver(5, random_state=0)
    frame = dd.from_pandas(WORDS, npartitions=3)
    lazy = frame.drop(columns="y")
    ridge = mc.KernelRidge(kernel, solver=solver)
    classifier = mc.KernelMachineClassifier(kernel, solver=solver)
    landmarks = mc.Nystrom(kernel, 4, random_state=0)
    with small_chunks():
        wanted = ridge.fit(local, WORDS["y"]).predict(local)
        close(ridge.fit(lazy, frame["y"]).predict(lazy).compute(), wanted)
        labels = classifier.fit(local, WORDS["word"]).predict(local)
        found = classifier.fit(lazy, frame["word"]).predict(lazy)
        assert found.compute().tolist() == labels.tolist()
        wanted = landmarks.fit(local).transform(local)
        found = landmarks.fit(lazy).transform(lazy).compute()
        close(found @ found.T, wanted @ wanted.T)


def test_series_and_arrays_of_strings() -> None:
    model = mc.KernelRidge(mc.Spectrum(2), solver=S.NystromSolver(5, random_state=0))
    words = WORDS["word"]
    wanted = model.fit(words, WORDS["y"]).predict(words)
    y = WORDS["y"].to_numpy()
    for lazy in (
        dd.from_pandas(words, npartitions=3),
        da.from_array(words.to_numpy(object), chunks=100),
        da.from_array(words.to_numpy(str), chunks=100),
    ):
        with small_chunks():
            close(model.fit(lazy, y).predict(lazy).compute(), wanted)


def test_one_weight_for_all_rows() -> None:
    model = mc.KernelRidge(mc.Matern(), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y, 2.0).predict(X)
    frame = dd.from_pandas(FRAME.drop(columns="w"), npartitions=4)
    with small_chunks():
        for rows in (chunked(X), unknown(chunked(X))):
            close(model.fit(rows, chunked(Y), 2.0).predict(X), wanted)
        named = model.fit(frame, "y", 2)
        close(named.predict(FRAME[["a", "b", "c"]]), wanted)
        assert named.score(frame, "y", 2.0) == pytest.approx(named.score(frame, "y"), rel=1e-12)
        with pytest.raises(DataError, match="finite weight >= 0"):
            model.fit(chunked(X), chunked(Y), -1.0)


def test_chunks_of_unknown_and_of_unequal_size() -> None:
    model = mc.KernelRidge(mc.Matern(), solver=S.NystromSolver(40, random_state=0))
    wanted = model.fit(X, Y).predict(X)
    rows, y = unknown(chunked(X)), unknown(chunked(Y))
    close(model.fit(rows, y).predict(X), wanted)
    close(model.fit(rows, chunked(Y)).predict(rows).compute(), wanted)
    close(model.fit(rows, Y).predict(X), wanted)
    with pytest.raises(DataError, match=r"chunks of 400, 400, 400, 300 rows, y of 700, 700, 100"):
        model.fit(rows, unknown(chunked(Y, 700)))
    for short in (chunked(Y[:-1]), chunked(Y[:-1], 700), unknown(chunked(Y[:-1])), Y[:-1]):
        with pytest.raises(DataError, match="y has 1499 rows, but X has 1500"):
            model.fit(chunked(X), short)
    with pytest.raises(DataError, match="sample_weight has 1499 rows, but X has 1500"):
        model.fit(chunked(X), chunked(Y), chunked(W[:-1]))
    holes = chunked(X)[da.from_array(X[:, 0] > 0.5, chunks=400)]
    some = chunked(Y)[da.from_array(X[:, 0] > 0.5, chunks=400)]
    kept = X[:, 0] > 0.5
    close(model.fit(holes, some).predict(X), model.fit(X[kept], Y[kept]).predict(X))


@pytest.mark.parametrize("model", [mc.KernelRidge(), mc.KernelMachineClassifier()], ids=repr)
def test_a_collection_without_targets_is_refused_at_once(model: Any) -> None:
    def unread(block: Array) -> Array:
        raise AssertionError("a chunk was read")

    rows = chunked(X).map_blocks(unread, meta=np.empty((0, 0)))
    frame = dd.from_pandas(FRAME, npartitions=4)
    refused = pytest.raises(DataError, match=r"requires y to be passed.*\(frame, \"price\"\)")
    for data in (rows, frame):
        with refused as caught:
            model.fit(data)
        assert "block" not in str(caught.value)
    fitted = model.fit(X, (Y > 3).astype(int))
    with refused:
        fitted.score(rows)


@pytest.mark.parametrize(
    "transformer",
    [
        mc.RandomFourier(n_components=21, random_state=0),
        mc.Fastfood(n_components=20, random_state=0),
        mc.TensorSketch(mc.Polynomial(2), n_components=30, random_state=0),
        mc.PositiveFeatures(n_components=30, random_state=0),
        mc.ArcCosineFeatures(n_components=30, random_state=0),
        mc.Nystrom(n_landmarks=30, random_state=0),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transformers(transformer: Any) -> None:
    wanted = transformer.fit(X).transform(X)
    fitted = transformer.fit(chunked(X))
    lazy = fitted.transform(chunked(X))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == wanted.shape
    found = lazy.compute()
    close(found, wanted)
    assert fitted.fit_transform(unknown(chunked(X))).compute().shape == wanted.shape


def test_collections_without_rows_are_refused_with_empty_targets() -> None:
    rows, y = da.from_array(X, chunks=200), da.from_array(Y, chunks=200)
    none = rows[rows[:, 0] > 1e9]
    for targets in (y[:0], y[y > 1e9], np.zeros(0)):
        with pytest.raises(DataError, match=r"KernelRidge: found 0 sample.*no rows in any chunk"):
            mc.KernelRidge(mc.RBF(1.0), solver=S.NystromSolver(20)).fit(none, targets)


def test_what_is_refused() -> None:
    model = mc.KernelRidge(mc.Matern(), solver=S.NystromSolver(40, random_state=0))
    with pytest.raises(DataError, match="requires y"):
        model.fit(chunked(X))
    with pytest.raises(DataTypeError, match="3 dimensions"):
        model.fit(da.zeros((4, 2, 2)), da.zeros(4))
    with pytest.raises(DataError, match="'nope' is no column of X"):
        model.fit(dd.from_pandas(FRAME, npartitions=2), "nope")
    with pytest.raises(DataTypeError, match="Bag"):
        model.fit(db.from_sequence([1, 2]), Y)
    with small_chunks(), pytest.raises(DataError, match="NystromSolver"):
        mc.KernelRidge(solver=S.Cholesky()).fit(chunked(X), chunked(Y))
    with pytest.raises(DataError, match="Dask collection has no rows"):
        model.fit(da.zeros((0, 3)), da.zeros(0))
    spoilt = X.copy()
    spoilt[1234, 1] = np.nan
    with pytest.raises(DataError, match="first in row 1234, column 1"):
        model.fit(chunked(spoilt), chunked(Y))
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError, match=r"y contains NaN or infinity \(first in row 1234\)"):
            model.fit(chunked(X), chunked(np.where(np.arange(N) == 1234, bad, Y)))


def test_forecasts() -> None:
    assert mc.forecast(mc.KernelRidge(mc.RBF(1.0)), chunked(X)).chosen == S.Cholesky()
    with small_chunks():
        costs = mc.forecast(mc.KernelRidge(mc.RBF(1.0)), chunked(X))
    assert costs.chosen == S.NystromSolver(500, random_state=0)
    assert "come in blocks" in costs.reason
    assert [cost.obstacle for cost in costs.costs][1:3] == ["rows come in blocks"] * 2
    assert mc.forecast(mc.KernelRidge(mc.Linear()), mc.Blocks([X, X])).chosen == S.Primal()


def test_forecasts_of_machines() -> None:
    machine = mc.KernelMachineClassifier(mc.RBF(1.0))
    assert mc.forecast(machine, chunked(X)).chosen == S.Cholesky()
    twice = mc.forecast(machine, mc.Blocks(iter([X, X])))  # more rows than a factor is cheapest for
    assert twice.chosen == mc.forecast(machine, np.vstack([X, X])).chosen
    with small_chunks():
        costs = mc.forecast(machine, chunked(X))
        several = mc.forecast(machine, chunked(X), chunked(np.arange(N) % 40))
    assert isinstance(costs.chosen, S.NystromSolver)
    assert costs.reason == f"{N} rows come in blocks"
    assert costs.costs[1].obstacle == "rows come in blocks"
    # One joint problem of all classes.
    assert several.chosen.n_landmarks < costs.chosen.n_landmarks


def test_models_that_need_all_rows_do_not_fetch_them_unasked() -> None:
    with pytest.raises(DataError, match="X comes in blocks"):
        mc.GaussianProcessRegressor(mc.RBF(1.0)).fit(chunked(X), Y)


def test_sums_do_not_depend_on_chance() -> None:
    rows = StreamRows(
        DaskBlocks.of("test", chunked(X, 100), chunked(Y, 100)),
        mc.RBF(1.0),
        "test",
        Numbers("test"),
    )

    def sines(part: RowBlock) -> Any:
        return np.sin(1e3 * part.points.data).sum()

    found = {float(rows.map_sum(sines)) for _ in range(5)}
    assert len(found) == 1


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads of the engine and of BLAS, also in threads that a test starts."""
    monkeypatch.setenv("MERCER_NUM_THREADS", "2")
    with threadpool_limits(2), mc.threads(2):
        assert blas_threads() == {2}
        yield


@pytest.mark.usefixtures("two_threads")
def test_tasks_use_one_thread_and_give_the_others_back() -> None:
    outside, seen, later = [], [], []
    barrier = threading.Barrier(2, timeout=60)
    left = threading.Event()

    def task(first: bool) -> None:
        outside.append((mc.thread_count(), blas_threads()))
        barrier.wait()
        with one_thread():
            barrier.wait()
            seen.append((mc.thread_count(), blas_threads()))
            barrier.wait()
            if not first:  # the other task has ended: its threads are not given back yet
                left.wait(60)
                later.append((mc.thread_count(), blas_threads()))
        left.set()

    threads = [threading.Thread(target=task, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outside == [(2, {2})] * 2
    assert seen == [(1, {1})] * 2
    assert later == [(1, {1})]
    assert (mc.thread_count(), blas_threads()) == (2, {2})


@pytest.mark.usefixtures("two_threads")
def test_sums_over_chunks_use_one_thread() -> None:
    source = DaskBlocks.of("test", chunked(X, 500), chunked(Y, 500))
    rows = StreamRows(source, mc.RBF(1.0), "test", Numbers("test"))
    seen: list[tuple[int, set[int]]] = []

    def watched(part: RowBlock) -> int:
        seen.append((mc.thread_count(), blas_threads()))
        return len(part.points)

    assert rows.map_sum(watched) == N
    assert seen == [(1, {1})] * 3
    assert blas_threads() == {2}


def test_tasks_have_names_that_can_be_read() -> None:
    names: set[str] = set()

    class Watch(dask.callbacks.Callback):  # type: ignore[misc]
        def _posttask(self, key: Any, *args: Any) -> None:
            names.add(dask.utils.key_split(key))

    with Watch():
        mc.KernelRidge(solver=S.NystromSolver(10, random_state=0)).fit(chunked(X), chunked(Y))
    wanted = {"mercer-survey-chunk", "mercer-feature-moments-chunk", "mercer-normal-product-sum"}
    assert wanted <= names
