"""Targets in blocks and Dask collections, labels and numbers, are those of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.streams.targets import Labels, OneNumber, checked_weights

S = mc.solvers
RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 2))
TWO = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=N) > 0, "same", "different")
THREE = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
W = RNG.uniform(0.5, 2.0, size=N)
W[:5] = 0
SOLVER = S.NystromSolver(30, landmarks="kmeans++", random_state=0)


def blocks(y: Any, weights: Any = None) -> Iterator[Any]:
    for first in range(0, N, 250):
        part = slice(first, first + 250)
        yield (X[part], y[part]) if weights is None else (X[part], y[part], weights[part])


def test_what_blocks_tell_is_added_up() -> None:
    y, weights = np.array([3, -7, 2, 5, 9]), np.array([1.0, 0.0, 2.0, 1.0, 0.0])
    cuts = (slice(0, 2), slice(2, 5))
    numbers = [OneNumber("model").seen(y[c], len(y[c]), weights[c])[0] for c in cuts]
    total = numbers[0] + numbers[1]
    assert (total.least, total.largest, total.shape) == (2.0, 5.0, ())  # of positive weight
    assert total.read(y, 5).tolist() == [[value] for value in y]
    for joint in (True, False):
        seen = [Labels("model", joint).seen(y[c], len(y[c]), weights[c])[0] for c in cuts]
        labels = seen[0] + seen[1]
        assert labels.classes is not None
        assert labels.classes.tolist() == [2, 3, 5]
        wanted = [[1.0], [0.0], [2.0]] if joint else [[-1, 1, -1], [1, -1, -1], [-1, -1, 1]]
        assert labels.read([3, 2, 5], 3).tolist() == wanted


@pytest.mark.parametrize("bad", [[1.0], [1.0, -1.0], [1.0, np.nan], ["a", "b"], 2.0], ids=str)
def test_weights_are_one_finite_number_for_each_row(bad: Any) -> None:
    assert checked_weights(None, 2, "model") is None
    assert checked_weights([0, 2], 2, "model").tolist() == [0.0, 2.0]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="one finite weight >= 0 for each of 2 rows"):
        checked_weights(bad, 2, "model")


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "labels", "weights"),
    [
        ("logistic", TWO, None),
        ("logistic", THREE, W),
        ("squared_hinge", TWO, W),
        ("squared_hinge", THREE, None),
    ],
    ids=["two", "three", "hinge-two", "hinge-three"],
)
def test_labels_give_the_results_of_arrays(loss: str, labels: Any, weights: Any) -> None:
    model = mc.KernelMachineClassifier(mc.Matern("scale"), loss, 0.1, solver=SOLVER, tol=1e-11)
    wanted = model.fit(X, labels, weights).decision_function(X)
    classes = model.classes_
    found = model.fit(blocks(labels, weights))
    assert found.classes_.tolist() == classes.tolist()
    assert_allclose(found.decision_function(X), wanted, rtol=1e-8, atol=1e-8)
    chunks = [da.from_array(v, chunks=250) for v in (X, labels)]
    given = None if weights is None else da.from_array(weights, chunks=300)
    lazy = model.fit(*chunks, given)
    assert_allclose(lazy.decision_function(X), wanted, rtol=1e-8, atol=1e-8)
    predicted = lazy.predict(chunks[0])
    assert isinstance(predicted, da.Array)
    assert (predicted.compute() == lazy.predict(X)).all()
    if loss == "logistic":
        probabilities = lazy.predict_proba(chunks[0]).compute()
        assert_allclose(probabilities, lazy.predict_proba(X), rtol=1e-10)


def test_classes_are_those_of_all_blocks() -> None:
    model = mc.KernelLogisticRegression(mc.RBF(1.0), solver=SOLVER)
    found = model.fit(blocks(np.sort(THREE)))  # no block has all of them
    assert found.classes_.tolist() == [0, 1, 2]
    assert found.rows_.shape == (30,)
    kept = Labels("model", joint=True, classes=np.array(["a", "b", "c"]))
    assert kept.read(["c", "a"], 2).tolist() == [[2.0], [0.0]]


def test_labels_of_arrays_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = mc.KernelMachineClassifier(mc.RBF(1.0), solver=SOLVER)
    wanted = model.fit(X, TWO).predict_proba(X)
    assert_allclose(model.fit(mapped, TWO).predict_proba(mapped), wanted, rtol=1e-6)
    assert (
        mc.KernelMachineClassifier(mc.RBF(1.0)).fit(mapped[:50], TWO[:50]).solver_ == S.Cholesky()
    )
    regressor = mc.KernelHuberRegressor(mc.RBF(1.0))
    assert regressor.fit(mapped[:50], X[:50, 0]).predict(mapped).shape == (N,)


def test_auto_takes_landmarks_unless_all_rows_may_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    for model, y in (
        (mc.KernelMachineClassifier(mc.RBF(1.0)), TWO),
        (mc.KernelMachineClassifier(mc.RBF(1.0), "hinge"), THREE),
        (mc.KernelMachineRegressor(mc.RBF(1.0), "absolute"), X[:, 0]),
    ):
        wanted = model.fit(X[:60], y[:60]).predict(X)
        found = model.fit([(X[:20], y[:20]), (X[20:60], y[20:60])])
        assert found.solver_ == S.Cholesky()
        assert np.array_equal(found.predict(X), wanted)
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
    found = mc.KernelMachineClassifier(mc.RBF(1.0)).fit([(X[:60], TWO[:60])])
    assert found.solver_ == S.NystromSolver(60, "rpcholesky", random_state=0)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_scores_of_labels_are_those_of_arrays(weights: Any) -> None:
    model = mc.KernelMachineClassifier(mc.Matern("scale"), solver=SOLVER).fit(X, TWO)
    wanted = model.score(X, TWO, weights)
    assert model.score(blocks(TWO, weights)) == pytest.approx(wanted, rel=1e-12)
    chunks = [da.from_array(v, chunks=250) for v in (X, TWO)]
    given = None if weights is None else da.from_array(weights, chunks=300)
    assert model.score(*chunks, given) == pytest.approx(wanted, rel=1e-12)


def test_labels_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
    model = mc.KernelMachineClassifier(mc.RBF(1.0), solver=SOLVER)
    with pytest.raises(DataError, match="only one class"):
        model.fit([(X, np.ones(N))])
    with pytest.raises(DataError, match=r"not whole numbers, first 0\.12573 in row 0"):
        model.fit([(X, X[:, 0])])
    with pytest.raises(DataError, match="first nan in row 703"):
        model.fit(blocks(np.where(np.arange(N) == 703, np.nan, THREE)))
    with pytest.raises(DataError, match="numbers in some blocks"):
        model.fit([(X, TWO), (X, THREE)])
    with pytest.raises(DataError, match="no order"):
        model.fit([(X[:2], np.array(["a", None], dtype=object))])
    with pytest.raises(DataError, match="one label for each row"):
        model.fit([(X, X)])
    with pytest.raises(DataError, match="requires y"):
        model.fit(mc.Blocks([X]))
    with pytest.raises(ParameterError, match="smooth loss"):
        mc.KernelMachineClassifier(mc.RBF(1.0), loss="hinge").fit([(X, TWO)])
    with pytest.raises(DataError, match=r"solvers\.NystromSolver"):
        mc.KernelMachineClassifier(mc.RBF(1.0), solver=S.Cholesky()).fit([(X, TWO)])


# Numbers ------------------------------------------------------------------------------------------

Y = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_t(2, size=N)
COUNTS = RNG.poisson(np.exp(Y)).astype(float)
COUNTS[:250] = 0  # the first block has nothing but zeros
COUNT_WEIGHTS = RNG.uniform(0.5, 2.0, size=N)
COUNT_WEIGHTS[300:305] = 0
SOLVERS = [
    S.NystromSolver(40, landmarks="kmeans++", random_state=0),
    S.Falkon(40, landmarks="kmeans++", random_state=0),
]
MODELS = [
    (mc.KernelMachineRegressor(mc.Matern("scale"), "squared", 0.1), Y, COUNT_WEIGHTS),
    (mc.KernelMachineRegressor(mc.Matern("scale"), "poisson", 0.1), COUNTS, COUNT_WEIGHTS),
    (mc.KernelMachineRegressor(mc.Matern("scale"), "gamma", 0.1, False), np.exp(Y), None),
    (mc.KernelHuberRegressor(mc.Matern("scale"), 0.2, 0.1), Y, None),
]


def chunked(values: Any, rows: int = 250) -> Any:
    return da.from_array(values, chunks=(rows, -1)[: values.ndim])


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    ("model", "y", "weights"), MODELS, ids=["squared", "poisson", "gamma", "huber"]
)
def test_numbers_give_the_results_of_arrays(model: Any, y: Any, solver: Any, weights: Any) -> None:
    model = model.set_params(solver=solver)
    wanted = model.fit(X, y, weights).predict(X)
    for found in (
        model.fit(blocks(y, weights)),
        model.fit(chunked(X), chunked(y), None if weights is None else chunked(weights, 300)),
    ):
        assert_allclose(found.predict(X), wanted, rtol=1e-8, atol=1e-8)
        assert found.rows_.shape == (40,)
        assert found.converged_
    explained = r2_score(y, found.predict(X), sample_weight=weights)
    assert found.score(blocks(y, weights)) == pytest.approx(explained, rel=1e-10)


def test_few_numbers_are_gathered() -> None:
    model = mc.KernelHuberRegressor(mc.RBF(1.0))
    wanted = model.fit(X, Y).predict(X)
    found = model.fit(chunked(X), chunked(Y))
    assert found.solver_ == S.Cholesky()
    assert np.array_equal(found.predict(X), wanted)


def test_numbers_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
    solver = SOLVERS[0]
    counts = mc.KernelMachineRegressor(mc.RBF(1.0), "poisson", solver=solver)
    with pytest.raises(DataError, match="targets >= 0"):
        counts.fit(blocks(Y))
    with pytest.raises(DataError, match="all targets of positive weight are 0"):
        counts.fit(blocks(0 * Y))
    positive = mc.KernelMachineRegressor(mc.RBF(1.0), "gamma", solver=solver)
    with pytest.raises(DataError, match="targets > 0"):
        positive.fit(blocks(COUNTS))
    with pytest.raises(DataError, match="1d array, got 2 targets"):
        counts.fit(blocks(np.column_stack([COUNTS, COUNTS])))
    with pytest.raises(DataError, match="the largest target is"):
        counts.fit(blocks(1e150 * COUNTS))
    with pytest.raises(ParameterError, match="smooth loss"):
        mc.KernelMachineRegressor(mc.RBF(1.0), "absolute").fit(blocks(Y))
    quantiles = mc.KernelQuantileRegressor(mc.RBF(1.0)).fit(X[:50], Y[:50])
    with pytest.raises(DataTypeError, match="score of quantiles"):
        quantiles.score(blocks(Y))
