"""A real cluster of processes on this machine: workers that die, chunks that stay where they are.

Every test waits a bounded time. Processes are few, and shared by the tests that do not break them.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import ClusterError, DataError

distributed = pytest.importorskip("distributed")

# Sockets and processes of a cluster that was killed on purpose are left to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Array = NDArray[np.floating[Any]]
S = mc.solvers
ROWS, CHUNK = 600, 100
MODEL = mc.KernelRidge(mc.Matern("scale"), 0.1, solver=S.NystromSolver(30, random_state=0))

CLASSIFIER = mc.KernelMachineClassifier(
    mc.Matern("scale"), "logistic", 0.1, tol=1e-11, solver=S.NystromSolver(30, random_state=0)
)


def rows_of(chunk: int) -> Array:
    return np.random.default_rng(chunk).normal(size=(CHUNK, 3))


def target_of(rows: Array) -> Array:
    return np.asarray(np.sin(rows).sum(axis=1) + 3)


X = np.concatenate([rows_of(i) for i in range(ROWS // CHUNK)])
Y = target_of(X)


def load(chunk: int, client: int, folder: str = "", wait: float = 0.0) -> Array:
    """Load a chunk: in a worker, never in the process of the client; slowly until one is killed."""
    if os.getpid() == client:
        raise AssertionError("a chunk was loaded in the process of the client")
    if wait and not Path(folder, "killed").exists():
        Path(folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(wait)
    return rows_of(chunk)


def collection(folder: str = "", wait: float = 0.0) -> tuple[Any, Any]:
    loaded = [
        da.from_delayed(
            dask.delayed(load)(i, os.getpid(), folder, wait), shape=(CHUNK, 3), dtype=float
        )
        for i in range(ROWS // CHUNK)
    ]
    rows = da.concatenate(loaded)
    return rows, rows.map_blocks(target_of, drop_axis=1, dtype=float)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as started,
    ):
        yield started


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


def test_results_are_the_local_ones_and_chunks_stay_with_the_workers(client: Any) -> None:
    wanted = MODEL.fit(X, Y).predict(X)
    rows, y = collection()
    found = MODEL.fit(rows, y)
    assert_allclose(found.predict(X), wanted, rtol=1e-8)
    assert_allclose(found.predict(rows).mean().compute(), wanted.mean(), rtol=1e-8)
    fourier = mc.RandomFourier(n_components=20, random_state=0).fit(rows)
    lazy = fourier.transform(rows)
    assert_allclose(lazy.sum().compute(), fourier.transform(X).sum(), rtol=1e-8)
    with pytest.raises(AssertionError, match="process of the client"):
        dask.compute(rows, scheduler="synchronous")  # the chunks do tell


def test_auto_and_scores_are_the_local_ones_too(client: Any) -> None:
    rows, y = collection()
    model = mc.KernelRidge(mc.Matern("scale"))
    wanted = model.fit(X, Y).predict(X)
    assert np.array_equal(model.fit(rows, y).predict(X), wanted)
    # No more than a chunk is held by the client: what is larger is fitted over landmarks.
    with dask.config.set({"array.chunk-size": X[:CHUNK].nbytes}):
        assert isinstance(model.fit(rows, y).solver_, S.NystromSolver)
    assert_allclose(model.score(rows, y), model.score(X, Y), rtol=1e-8)


WIDTH, LONG = 100, 5_000


def wide_rows(chunk: int) -> Array:
    """Rows of which three in a chunk are far from all others."""
    rows = np.random.default_rng(chunk).normal(size=(LONG, WIDTH))
    rows[:3] *= 3
    return rows


@pytest.mark.parametrize(
    ("estimator", "how"),
    [("transformer", "rpcholesky"), ("transformer", "kmeans++"), ("ridge", "leverage")],
)
def test_the_client_holds_landmarks_and_no_candidates(
    client: Any, estimator: str, how: str
) -> None:
    chunk, count, m = LONG * WIDTH * 8, 6, 8
    loaded = [dask.delayed(wide_rows)(i) for i in range(count)]
    rows = da.concatenate([da.from_delayed(part, (LONG, WIDTH), float) for part in loaded])
    y = rows[:, 0]
    model: Any = mc.Nystrom(mc.RBF(14.0), m, how, random_state=0)
    if estimator == "ridge":
        solver = S.NystromSolver(m, landmarks=how, random_state=0)
        model = mc.KernelRidge(mc.RBF(14.0), solver=solver)
    gc.collect()
    tracemalloc.start()
    try:
        with dask.config.set({"array.chunk-size": chunk}):
            model.fit(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The data are six chunks; even what messages and graphs take beside is less than one.
    assert peak < chunk
    chosen = model.landmarks_ if estimator == "transformer" else model.points_
    everything = np.concatenate([wide_rows(i) for i in range(count)])
    numbers = [np.flatnonzero((everything == row).all(axis=1)) for row in chosen.data]
    assert [len(found) for found in numbers] == [1] * len(chosen)


@pytest.mark.parametrize("seed", [np.random.RandomState, np.random.default_rng], ids=["old", "new"])
def test_landmarks_chosen_on_a_worker_are_the_local_ones(client: Any, seed: Any) -> None:
    states = seed(3), seed(3)
    wanted = mc.Nystrom(mc.RBF(1.0), 20, random_state=states[0]).fit(X)
    with dask.config.set({"array.chunk-size": "1B"}):
        found = mc.Nystrom(mc.RBF(1.0), 20, random_state=states[1]).fit(collection()[0])
    assert_allclose(found.landmarks_.data, wanted.landmarks_.data, rtol=0)
    assert found.landmark_indices_.tolist() == wanted.landmark_indices_.tolist()
    assert found.trace_error_ == pytest.approx(wanted.trace_error_, rel=1e-10)
    # What is drawn next is what would be drawn next.
    assert states[0].normal() == states[1].normal()


def test_tasks_have_names_on_the_dashboard(client: Any) -> None:
    MODEL.fit(*collection())
    names = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert {"mercer-survey-chunk", "mercer-feature-moments-chunk"} <= names


def test_what_a_task_raises_is_what_the_user_sees(client: Any) -> None:
    rows, y = collection()
    spoilt = da.where(rows > 3.0, np.nan, rows)
    with pytest.raises(DataError, match="contains NaN"):
        MODEL.fit(spoilt, y)


def fitted_in_a_task() -> Array:
    """Fit to a collection within a task, whose tasks need threads of the same workers."""
    rows = da.from_array(X, chunks=CHUNK)
    return np.asarray(MODEL.fit(rows, da.from_array(Y, chunks=CHUNK)).predict(X[:3]))


def test_fits_within_tasks_leave_their_threads_to_others(client: Any) -> None:
    wanted = MODEL.fit(X, Y).predict(X[:3])
    # More tasks than threads: each waits for others, which wait for a thread.
    fits = [client.submit(fitted_in_a_task, pure=False) for _ in range(3)]
    try:
        for fit in fits:
            assert_allclose(fit.result(timeout=60), wanted, rtol=1e-8)
    finally:
        client.cancel(fits)


def test_a_worker_that_is_killed_does_not_lose_the_fit(client: Any, tmp_path: Path) -> None:
    wanted = CLASSIFIER.fit(X, Y > 3).predict_proba(X)
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            # After the first pass: a worker that is in the middle of a chunk.
            marks = sorted(tmp_path.iterdir(), key=lambda mark: mark.stat().st_mtime_ns)
            if len(marks) > ROWS // CHUNK + 1:
                killed.append(int(marks[-1].name.partition("-")[0]))
                os.kill(killed[0], 9)
                Path(tmp_path, "killed").touch()
            time.sleep(0.01)

    watcher = threading.Thread(target=kill)
    watcher.start()
    rows, y = collection(str(tmp_path), wait=0.1)
    found = CLASSIFIER.fit(rows, y > 3).predict_proba(X)
    watcher.join(timeout=60)
    assert killed
    assert_allclose(found, wanted, rtol=1e-8)


def test_a_cluster_that_is_gone_is_an_error_and_not_a_wait() -> None:
    with (
        dask.config.set({"mercer.cluster-timeout": 1.0}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster),
    ):
        rows, y = da.from_array(X, chunks=CHUNK), da.from_array(Y, chunks=CHUNK)
        before = MODEL.fit(rows, y).predict(X)
        cluster.scale(0)
        with pytest.raises(ClusterError, match=r"no worker answered.*distributed\.Client"):
            MODEL.fit(rows, y)
        assert np.array_equal(MODEL.predict(X), before)


STARTED = threading.Event()


def slow(block: Array) -> Array:
    """Take a while, and tell those who wait for it."""
    STARTED.set()
    time.sleep(0.5)
    return block


def test_a_scheduler_that_dies_is_an_error_and_not_a_wait() -> None:
    with (
        dask.config.set({"mercer.cluster-timeout": 1.0, "distributed.comm.timeouts.connect": "1s"}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, timeout=1),
    ):

        def close() -> None:
            STARTED.wait(30)
            cluster.close()

        rows = da.from_array(X, chunks=CHUNK).map_blocks(slow, meta=np.empty((0, 0)))
        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(ClusterError, match="start one"):
            MODEL.fit(rows, da.from_array(Y, chunks=CHUNK))
        closer.join(timeout=30)
