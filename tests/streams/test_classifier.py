"""Classifiers on blocks and Dask collections give what they give on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.streams.targets import Labels

S = mc.solvers
RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 2))
TWO = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=N) > 0, "same", "different")
THREE = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
W = RNG.uniform(0.5, 2.0, size=N)
W[:5] = 0
SOLVER = S.NystromSolver(30, landmarks="kmeans++", random_state=0)


def blocks(labels: Any, weights: Any = None) -> Iterator[Any]:
    for first in range(0, N, 250):
        part = slice(first, first + 250)
        block = (X[part], labels[part])
        yield block if weights is None else (*block, weights[part])


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
def test_results_are_those_of_arrays(loss: str, labels: Any, weights: Any) -> None:
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


def test_arrays_in_files(tmp_path: Path) -> None:
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
    assert found.solver_ == S.NystromSolver(60)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_scores_are_those_of_arrays(weights: Any) -> None:
    model = mc.KernelMachineClassifier(mc.Matern("scale"), solver=SOLVER).fit(X, TWO)
    wanted = model.score(X, TWO, weights)
    assert model.score(blocks(TWO, weights)) == pytest.approx(wanted, rel=1e-12)
    chunks = [da.from_array(v, chunks=250) for v in (X, TWO)]
    given = None if weights is None else da.from_array(weights, chunks=300)
    assert model.score(*chunks, given) == pytest.approx(wanted, rel=1e-12)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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
