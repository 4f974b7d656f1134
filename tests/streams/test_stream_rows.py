"""Fits to streams of blocks give what fits to arrays give."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from mercer.landmarks import selection
from stream_data import BOTH, Again, N, W, X, Y, Z, broken, close, fit, frames, stream, with_nan

Array = NDArray[np.floating[Any]]
S = mc.solvers
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


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF("columns"),
        mc.Laplacian("columns").on("a", "c") + mc.Matern("median").on("b"),
        mc.RBF("median").standardized().on("c", "a") * mc.Categorical().on("kind"),
        mc.Missing().on("a") + mc.RBF("columns").standardized().on("a", "b"),
    ],
    ids=str,
)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_rules_of_thumb_of_blocks_are_those_of_frames(kernel: Any, weights: Any) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if "kind" in repr(kernel) or "Missing" in repr(kernel):
        frame["kind"] = [None if i % 7 == 0 else "abc"[i % 3] for i in range(N)]
    if "Missing" in repr(kernel):
        frame.loc[::5, "a"] = np.nan
    wanted = kernel.resolve(frame, weights)
    parts = [slice(i, i + 37) for i in range(0, N, 37)]
    blocks = [
        (frame[part], Y[part], *(() if weights is None else (weights[part],))) for part in parts
    ]
    solver = S.NystromSolver(5, random_state=0)
    model = mc.KernelRidge(kernel, solver=solver).fit(mc.Blocks(lambda: iter(blocks)))
    found, expected = model.kernel_.get_params(), wanted.get_params()
    assert model.kernel_.unresolved() == []
    for path, value in expected.items():
        if not isinstance(value, str):
            assert_allclose(found[path], value, rtol=1e-9)


@pytest.mark.parametrize(
    ("alpha", "weights", "fit_intercept"),
    [("loo", None, False), ("loo", W, True), ("gcv", W, False)],
    ids=["plain-loo", "weighted-loo", "weighted-gcv"],
)
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


def test_a_fit_makes_few_passes() -> None:
    source = Again()
    mc.KernelRidge(alpha=0.1, solver=S.NystromSolver(40, random_state=0)).fit(source)
    # A survey, the landmarks, the moments, and at most three that win back digits.
    assert source.passes <= 6


@pytest.mark.filterwarnings("ignore:.*that was compared, has the least")
def test_a_search_of_length_scales_makes_a_few_passes_for_each() -> None:
    source = Again()
    scales = np.geomspace(0.3, 3.0, 11)
    solver = S.NystromSolver(40, random_state=0)
    mc.KernelRidge(mc.RBF(1.0), "loo", length_scales=scales, solver=solver).fit(source)
    assert 11 * 3 < source.passes <= 11 * 5  # "about 50" in docs/dask.md


def test_single_precision_stays_single() -> None:
    model = mc.KernelRidge(mc.Matern(2.0), solver=S.NystromSolver(40, random_state=0))
    single = X.astype(np.float32)
    found = model.fit(stream(rows=single)).predict(single[:5])
    assert found.dtype == np.float32
    assert_allclose(found, model.fit(single, Y).predict(single[:5]), rtol=1e-3)


@pytest.mark.usefixtures("nothing_is_gathered")
def test_auto_takes_features_or_landmarks() -> None:
    assert repr(mc.KernelRidge(mc.Polynomial(2)).fit(stream()).solver_) == "Primal()"
    assert mc.KernelRidge().fit([(X[:50], Y[:50])]).solver_ == S.NystromSolver(50, random_state=0)
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


def test_callbacks_see_every_iteration_over_blocks() -> None:
    watch = Watch()
    model = mc.KernelRidge(mc.Matern(), solver=S.Falkon(30, random_state=0))
    model.set_callbacks(watch)
    model.fit(stream())
    assert model.n_iter_ == 3
    assert np.array_equal(watch.predictions[2], model.predict(Z))


def test_many_candidates_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_CANDIDATE_BYTES", 8 * 60 * 400)
    solver = S.NystromSolver(60, landmarks="rpcholesky", random_state=0)
    model = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(stream())
    again = mc.KernelRidge(mc.RBF(1.0), solver=solver).fit(stream())
    assert len(model.points_) == 60
    assert np.array_equal(model.points_.data, again.points_.data)
    assert model.trace_error_ < 0.2


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


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = fit(stream(), solver=S.NystromSolver(20, random_state=0))
    before = model.predict(Z)
    with pytest.raises(DataError):
        model.fit(broken(17, with_nan))
    assert np.array_equal(model.predict(Z), before)


# Rows within a budget: candidates for landmarks, with all that is made of them --------------------

LONG, STEP, WIDTH = 24_000, 1_200, 300
ROW = WIDTH * 8


def wide_blocks() -> Iterator[Any]:
    """58 MB in blocks of 3 MB, the same at every pass."""
    for start in range(0, LONG, STEP):
        yield np.random.default_rng(start).uniform(size=(STEP, WIDTH))


def peak_of(how: str, source: Any = wide_blocks) -> int:
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
    assert peak_of(how) < beside + budget < LONG * ROW


def test_the_budget_is_used_and_holds_what_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = selection.pivoted_cholesky

    def counted(columns: Any, diagonal: Any, *args: Any, **options: Any) -> Any:
        seen.append(len(diagonal))
        return original(columns, diagonal, *args, **options)

    monkeypatch.setattr(selection, "pivoted_cholesky", counted)
    for budget in (2**23, 2**24, 2**28):
        monkeypatch.setattr(selection, "_CANDIDATE_BYTES", budget)
        mc.Nystrom(mc.RBF(8.0), 10, random_state=0).fit(wide_blocks)
        rows = seen.pop()
        assert rows == LONG if budget == 2**28 else rows * (3 * ROW + 8 * 10) <= budget
        assert rows == LONG or rows * (3 * ROW + 8 * 10) > 0.9 * budget


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
