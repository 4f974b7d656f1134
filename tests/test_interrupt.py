"""Ctrl-C stops long work and keeps what there is of a model: tested with a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import mercer as mc

    X = np.random.default_rng(0).normal(size=(200_000, 20))
    gram, small = mc.RBF().gram(X), mc.RBF().gram(X[:300])
    v = np.ones(300)
    wanted = mc.RBF()(X[:300]) @ v
    print("ready", flush=True)
    try:
        # Far longer than the test is willing to wait.
        for _ in range(1000):
            gram @ np.ones(200_000)
    except KeyboardInterrupt:
        assert np.allclose(small @ v, wanted, rtol=1e-12)
        print("interrupted", flush=True)
    """
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_stops_a_long_product_and_the_next_one_is_right(threads: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MERCER_NUM_THREADS": threads},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", process.communicate()[1]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.7)  # it is now inside the engine
        process.send_signal(signal.SIGINT)
        # The engine promises a second, a loaded machine gets more; all products would take hours.
        out, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out.strip() == "interrupted", errors
    assert process.returncode == 0


FITS = textwrap.dedent(
    """
    import os, signal, sys, threading, warnings
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import mercer as mc

    class Signal:
        "Sends SIGINT soon after the first step, from a thread of its own."
        sent = False
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context, **kwargs): ...
        def on_fit_task_end(self, estimator, context, **kwargs):
            if not self.sent:
                self.sent = True
                threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
            return False

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=1500)
    ard, rbf = mc.RBF(length_scale=np.ones(4)), mc.RBF(length_scale=1.0)
    for model, targets in [
        (mc.GaussianProcessRegressor(1.0 * ard), y),
        (mc.GaussianProcessClassifier(1.0 * ard), y > 0),
        (mc.KernelMachineRegressor(rbf, "absolute", alpha=0.01), y),
        (mc.KernelLogisticRegression(rbf, alpha=1e-6, tol=1e-15), y > 0),
        (mc.KernelHuberRegressor(rbf, 0.1, 1e-6, solver=mc.solvers.NystromSolver(800)), y),
        (mc.KernelHuberRegressor(rbf, 0.1, 1e-5, solver=mc.solvers.ConjugateGradient(rank=9)), y),
        (mc.NadarayaWatson(ard), y),
        (mc.KernelLMS(rbf, max_iter=10_000), y),
        (mc.KernelLMS(rbf, method="batch", alpha=1e-6, max_iter=100_000), y),
        (mc.KernelPerceptron(rbf, max_iter=10_000), rng.permutation(y > 0)),
        (mc.SVR(rbf, C=1e6, epsilon=0.0, tol=1e-9), y),
    ]:
        try:
            model.set_callbacks(Signal()).fit(X, targets)
        except KeyboardInterrupt:
            assert model.converged_ is False
            assert len(model.predict(X[:3])) == len(model.contributions(X[:3])) == 3
            print(type(model).__name__, flush=True)
    """
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_an_interrupted_fit_keeps_its_last_step() -> None:
    # Each fit takes a second or more, or thousands of steps; the signal comes after the first one.
    done = subprocess.run(
        [sys.executable, "-c", FITS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == [
        *("GaussianProcessRegressor", "GaussianProcessClassifier", "KernelMachineRegressor"),
        *(
            "KernelLogisticRegression",
            "KernelHuberRegressor",
            "KernelHuberRegressor",
            "NadarayaWatson",
            "KernelLMS",
            "KernelLMS",
        ),
        "KernelPerceptron",
        "SVR",
    ], done.stderr


SEVERAL = textwrap.dedent(
    """
    import os, signal, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import mercer as mc
    from mercer.models.svm import solving

    rng = np.random.default_rng(0)
    X, y, threads = rng.normal(size=(1500, 10)), rng.integers(0, 3, 1500), mc.thread_count()
    check, polling = solving._Jobs._check, set()

    def polled(jobs):
        # Once, when exchanges are under way in as many functions as there are threads.
        if threading.get_ident() not in polling:
            polling.add(threading.get_ident())
            if len(polling) == threads:
                os.kill(os.getpid(), signal.SIGINT)
        check(jobs)

    solving._Jobs._check = polled
    for model in (mc.SVC(C=1e9, gamma=0.1, tol=1e-9), mc.NuSVC(nu=0.01, gamma=0.1, tol=1e-9)):
        polling.clear()
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            begun = model.n_iter_ > 0
            assert model.converged_ is False
            assert begun.sum() == threads
            assert np.isfinite(model.dual_gap_[begun]).all()
            assert np.isposinf(model.dual_gap_[~begun]).all()
            values = model.set_params(decision_function_shape="ovo").decision_function(X)
            # Functions that were begun have learned something, and the others are zero.
            np.testing.assert_array_equal(np.abs(values).max(axis=0) > 0, begun)
            print(type(model).__name__, flush=True)
    """
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_keeps_functions_that_are_being_solved(threads: str) -> None:
    # Each function takes millions of exchanges, in one call of the engine.
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "MERCER_NUM_THREADS": threads},
    )
    assert done.stdout.split() == ["SVC", "NuSVC"], done.stderr
