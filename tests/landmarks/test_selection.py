"""Landmarks of every kind of kernel and data."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    MercerWarning,
    ParameterError,
    ValidityError,
)
from mercer.landmarks.selection import KernelColumns, select

Array = NDArray[np.floating[Any]]

METHODS = ["rpcholesky", "uniform", "kmeans++", "leverage"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
K = mc.RBF(2.0)(X)
WORDS = ["".join(RNG.choice(list("abc"), size=6)) for _ in range(120)]
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "word": WORDS})

DATA: dict[str, tuple[mc.Kernel, Any]] = {
    "vectors": (mc.RBF(), X),
    "float32": (mc.Matern(), X.astype(np.float32)),
    "sparse": (mc.Linear(), sp.csr_array(np.where(X > 0, X, 0))),
    "strings": (mc.Spectrum(2), WORDS),
    "frame": (mc.RBF().on("a", "b") * mc.Spectrum(2).normalized().on("word"), FRAME),
    "matrix": (mc.Precomputed(), K),
    "rows of a matrix": (mc.Precomputed(K), np.arange(120)[:, None]),
    "function": (mc.FunctionKernel(lambda a, b: a @ b.T + 1), X),
}


def data_rows(data: Any, rows: Any) -> Any:
    if isinstance(data, list):
        return [data[i] for i in rows]
    return data.iloc[rows] if isinstance(data, pd.DataFrame) else data[rows]


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("kind", DATA)
def test_landmarks_are_rows_of_any_data(kind: str, how: str) -> None:
    kernel, data = DATA[kind]
    chosen = select(kernel, data, how, 4, random_state=3)
    assert chosen.indices is not None
    assert len(set(chosen.indices.tolist())) == len(chosen) <= 4
    again = select(kernel, data, how, 4, random_state=3)
    assert chosen.indices.tolist() == again.indices.tolist()  # type: ignore[union-attr]
    expected = data_rows(data, chosen.indices)
    found = chosen.points.data
    if sp.issparse(expected):
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("how", METHODS)
def test_rows_of_weight_zero_are_never_chosen(how: str) -> None:
    weights = np.where(np.arange(120) < 20, RNG.uniform(0.5, 2, size=120), 0.0)
    for seed in range(3):
        chosen = select(mc.RBF(), X, how, 15, random_state=seed, sample_weight=weights)
        assert chosen.indices is not None
        assert (len(chosen), chosen.indices.max() < 20) == (15, True)
    everything = select(mc.RBF(), X, how, 20, sample_weight=weights)
    assert sorted(everything.indices.tolist()) == list(range(20))  # type: ignore[union-attr]


def test_weights_count_as_repetitions() -> None:
    repeats = RNG.integers(1, 4, size=40)
    rows = np.repeat(np.arange(40), repeats)
    kernel, points = mc.RBF(), mc.Points(X[:40])
    weighted = KernelColumns(kernel, points, repeats.astype(float))
    chosen = select(kernel, X[:40], "rpcholesky", 10, 0, sample_weight=repeats)
    gram = kernel(X[rows])
    at = [int(np.flatnonzero(rows == i)[0]) for i in chosen.indices]  # type: ignore[union-attr]
    residual = gram - gram[:, at] @ np.linalg.solve(gram[np.ix_(at, at)], gram[at])
    assert chosen.trace_error == pytest.approx(residual.trace() / gram.trace())
    assert weighted.diagonal.sum() == pytest.approx(gram.trace())
    some = np.array([3, 1])
    dense = np.sqrt(np.outer(repeats, repeats)) * kernel(X[:40])
    np.testing.assert_allclose(weighted.columns(some), dense[:, some])
    np.testing.assert_allclose(weighted.entries([5, 6], some), dense[[5, 6]][:, some])


@pytest.mark.parametrize("how", METHODS)
def test_more_landmarks_than_rows_are_all_rows(how: str) -> None:
    with pytest.warns(MercerWarning, match="n_landmarks = 121 is more than the 120 rows"):
        chosen = select(mc.RBF(), X, how, 121)
    assert chosen.indices.tolist() == list(range(120))  # type: ignore[union-attr]
    single = select(mc.RBF(), X[:1], how, 1)
    assert single.indices.tolist() == [0]  # type: ignore[union-attr]


@pytest.mark.parametrize("how", METHODS)
def test_duplicates_and_constants(how: str) -> None:
    repeated = X[np.repeat(np.arange(6), 20)]
    chosen = select(mc.RBF(), repeated, how, 50, random_state=0)
    if how in ("rpcholesky", "kmeans++"):
        assert len(np.unique(chosen.points.data, axis=0)) == len(chosen) == 6
    assert len(select(mc.RBF(), np.ones((30, 2)), how, 5)) in (1, 5)
    assert len(select(mc.Linear(), np.zeros((30, 2)), how, 5)) in (1, 5)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("how", METHODS)
def test_scales_of_kernels(how: str, scale: float) -> None:
    assert len(select(scale * mc.RBF(), X, how, 20, random_state=0)) == 20


def test_given_row_numbers_masks_and_points() -> None:
    kernel = mc.RBF()
    assert select(kernel, X, [5, 2, 5]).indices.tolist() == [5, 2]  # type: ignore[union-attr]
    masked = select(kernel, X, np.arange(120) < 3)
    assert masked.indices.tolist() == [0, 1, 2]  # type: ignore[union-attr]
    given = select(kernel, X, X[:7] + 1)
    assert given.indices is None
    np.testing.assert_array_equal(given.points.data, X[:7] + 1)
    assert len(select(mc.Spectrum(2), WORDS, ["abc", "cab"])) == 2
    frame = select(*DATA["frame"], FRAME[::2])
    assert len(frame) == 60
    prepared = select(kernel, X, mc.Points(X[:3]))
    assert len(prepared) == 3


def test_leverage_with_a_ridge_of_ones_own() -> None:
    chosen = select(mc.RBF(), X, "leverage", 20, random_state=0, alpha=0.1)
    assert len(chosen) == 20


def test_rpcholesky_explains_more_than_chance() -> None:
    crowd = np.concatenate([0.05 * RNG.normal(size=(400, 2)), RNG.uniform(-20, 20, size=(40, 2))])
    kernel = mc.RBF(1.0)
    gram = kernel(crowd)

    def error(how: str) -> float:
        at = select(kernel, crowd, how, 40, random_state=0).indices
        explained = gram[:, at] @ np.linalg.pinv(gram[np.ix_(at, at)]) @ gram[at]
        return float((gram - explained).trace() / gram.trace())

    adaptive = ("rpcholesky", "kmeans++", "leverage")
    assert max(map(error, adaptive)) < 0.5 * error("uniform")


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "leverage"])
def test_memory_does_not_grow_with_rows_times_landmarks(how: str) -> None:
    points = mc.RBF().prepare(RNG.normal(size=(20_000, 2)))
    select(mc.RBF(), points, how, 10, random_state=0)
    tracemalloc.start()
    select(mc.RBF(), points, how, 600, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Rows times landmarks would be 96 MB.
    assert peak < {"uniform": 1e6, "kmeans++": 45e6, "leverage": 35e6}[how]


def test_a_factor_that_does_not_fit_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(MemoryForecastError, match='"leverage" or "uniform"'):
        select(mc.RBF(), X, "rpcholesky", 50)


@pytest.mark.parametrize("n_landmarks", [0, -3, 2.5, "many", None, True])
def test_a_number_of_landmarks_is_a_whole_number(n_landmarks: Any) -> None:
    with pytest.raises(ParameterError, match="whole number >= 1"):
        select(mc.RBF(), X, "uniform", n_landmarks)


@pytest.mark.parametrize("how", ["random", "", 7, None, {"a": 1}, print, 2.5])
def test_unknown_ways_are_refused(how: Any) -> None:
    with pytest.raises(ParameterError, match="pass one of 'rpcholesky', 'uniform'"):
        select(mc.RBF(), X, how, 5)


@pytest.mark.parametrize(
    "how", [[], [120], [-1], np.zeros(120, bool), np.ones(3, bool), np.empty((0, 3))]
)
def test_landmarks_that_are_not_there_are_refused(how: Any) -> None:
    with pytest.raises(ParameterError, match="at least one"):
        select(mc.RBF(), X, how)


@pytest.mark.parametrize("alpha", ["x", 0, -1.0, np.nan, np.inf, True, [1.0]])
def test_a_ridge_is_a_positive_number(alpha: Any) -> None:
    for how in ("leverage", "uniform"):
        with pytest.raises(ParameterError, match=r"alpha = .* not a finite number > 0"):
            select(mc.RBF(), X, how, 5, alpha=alpha)


def test_other_bad_input() -> None:
    with pytest.raises(ParameterError, match=r"contains White.*noise="):
        select(mc.RBF() + 0.1 * mc.White(), X)
    with pytest.raises(ParameterError, match="row numbers"):
        select(mc.Precomputed(), K, K[:3])
    with pytest.raises(DataError, match="one finite weight"):
        select(mc.RBF(), X, "uniform", 3, sample_weight=np.zeros(120))
    with pytest.raises(DataError, match="NaN"):
        select(mc.RBF(), [[np.nan]], "uniform", 1)
    with pytest.raises(DataError, match="0 sample"):
        select(mc.RBF(), np.empty((0, 2)), "uniform", 1)
    with pytest.raises(DataError, match="infinity"):
        select(mc.Linear(), 1e200 * X, "rpcholesky", 5)
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        select(mc.Precomputed(), [[1.0, 2.0, 0], [2.0, 1.0, 0], [0, 0, 1.0]], "rpcholesky", 2)


@pytest.mark.parametrize("how", METHODS)
def test_no_row_is_drawn_twice(how: str) -> None:
    for seed in range(20):
        chosen = select(mc.RBF(0.3), X, how, 60, random_state=seed)
        assert chosen.indices is not None
        assert len(set(chosen.indices.tolist())) == len(chosen) == 60


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (np.full((2, 3), np.nan), "contains NaN"),
        (X[:5, :2], "columns"),
        (["a", "b"], "rows of numbers"),
    ],
)
def test_bad_landmarks_are_refused_in_the_name_of_their_owner(landmarks: Any, message: str) -> None:
    for solver in (mc.solvers.NystromSolver, mc.solvers.Falkon):
        model = mc.KernelRidge(solver=solver(landmarks=landmarks))
        with pytest.raises(DataError, match=f"KernelRidge: of the given landmarks.*{message}"):
            model.fit(X, X[:, 0])
    with pytest.raises(DataError, match=f"Nystrom: of the given landmarks.*{message}"):
        mc.Nystrom(landmarks=landmarks).fit(X)


def test_a_number_of_landmarks_is_sent_to_its_parameter() -> None:
    with pytest.raises(ParameterError, match="The number of landmarks is n_landmarks=10"):
        mc.Nystrom(landmarks=10).fit(X)
    with pytest.raises(ParameterError, match="is not a list of row numbers from 0 to 119"):
        select(mc.RBF(), X, [500])


def test_kernels_may_be_named() -> None:
    data = np.random.default_rng(0).normal(size=(30, 2))
    named = select("rbf", data, n_landmarks=5, random_state=0)
    expected = select(mc.RBF("scale"), data, n_landmarks=5, random_state=0)
    np.testing.assert_array_equal(named.indices, expected.indices)
    with pytest.raises(ParameterError, match="select: kernel = 'rfb' is not the name of a kernel"):
        select("rfb", data)
