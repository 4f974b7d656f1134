"""Targets by name; callbacks and interrupts find a usable model after every step."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.callback import CallbackSupportMixin, ScoringMonitor
from sklearn.metrics import accuracy_score, r2_score

import mercer as mc
from mercer.exceptions import DataError
from mercer.models.kernel_regression.local_fits import Smoother

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
KERNEL = mc.RBF(length_scale=[0.5, 4.0])
NAMES = ("accuracy", "r2")


class Watch:
    """Predicts with the model of every step, counts tasks, and stops after some steps."""

    def __init__(self, steps: int | None = None) -> None:
        self.steps = steps
        self.begun = self.ended = 0
        self.expected: int | None = None
        self.predictions: list[Any] = []
        self.models: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        self.begun += 1
        if context.parent is None:
            self.expected = context.max_subtasks

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None, **kwargs: Any
    ) -> bool:
        self.ended += 1
        self.predictions.append(fitted_estimator.predict(X[:3]))
        self.models.append(fitted_estimator)
        return len(self.predictions) == self.steps


CONFIGURED = [
    mc.KernelLMS(KERNEL, 0.5, batch_size=10),
    mc.KernelLMS(KERNEL, 0.5, batch_size=10, budget=mc.budgets.Remove(7)),
    mc.KernelLMS(feature_map=mc.Polynomial(2), batch_size=10),
    mc.KernelLMS(KERNEL, alpha=0.5, method="batch"),
    mc.KernelPerceptron(KERNEL, batch_size=10),
    mc.NadarayaWatson(KERNEL),
    mc.NadarayaWatson(KERNEL, degree=1),
    mc.KernelRidge(KERNEL, 1e-3, solver=mc.solvers.ConjugateGradient(None)),
    mc.KernelRidge(KERNEL, 1e-3, solver=mc.solvers.Falkon(landmarks=range(5))),
    mc.KernelLogisticRegression(KERNEL, 1e-3, solver=mc.solvers.NystromSolver(landmarks=range(10))),
    mc.KernelHuberRegressor(KERNEL, 0.1, solver=mc.solvers.Falkon(landmarks=range(10))),
    mc.KernelLogisticRegression(mc.Polynomial(3), 1e-3, solver=mc.solvers.Primal()),
    mc.KernelHuberRegressor(
        KERNEL, 0.1, solver=mc.solvers.RandomFeatures(mc.RandomFourier(None, 90, random_state=0))
    ),
    mc.KernelLogisticRegression(
        KERNEL, 1e-3, solver=mc.solvers.ConjugateGradient(rank=5, random_state=0)
    ),
]


def others() -> list[Any]:
    """The public models with callbacks that are not configured above; no searches of models."""
    public = (getattr(mc, name) for name in mc.__all__)
    classes = [c for c in public if inspect.isclass(c) and issubclass(c, CallbackSupportMixin)]
    classes = [c for c in classes if not issubclass(c, MetaEstimatorMixin)]
    return [c(KERNEL) for c in classes if c not in {type(model) for model in CONFIGURED}]


def targets(model: Any) -> Any:
    return Y > 0 if is_classifier(model) else Y


@pytest.mark.filterwarnings("ignore:Gaussian.* the search for hyper-parameters stopped")
@pytest.mark.parametrize("model", [*CONFIGURED, *others()], ids=str)
def test_callbacks_see_and_stop(model: Any) -> None:
    model, y = clone(model), targets(model)
    watch = Watch()
    model.set_callbacks(watch).fit(X, y)
    assert len(watch.predictions) >= 2  # one step is enough for squared loss
    assert watch.begun == watch.ended
    assert watch.expected is None or watch.ended <= watch.expected + 1
    short = Watch(2)
    model.set_callbacks(short).fit(X, y)
    if np.asarray(short.predictions[1]).dtype.kind == "f":
        np.testing.assert_allclose(short.predictions[1], watch.predictions[1], rtol=1e-10)
    else:
        assert short.predictions[1].tolist() == watch.predictions[1].tolist()


@pytest.mark.parametrize("model", CONFIGURED, ids=str)
def test_the_last_step_is_the_model(model: Any) -> None:
    model, y = clone(model), targets(model)
    watch = Watch()
    model.set_callbacks(watch).fit(X, y)
    np.testing.assert_allclose(watch.predictions[-1], model.predict(X[:3]), rtol=1e-10)
    short = Watch(2)
    model.set_callbacks(short).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:3]), short.predictions[1], rtol=1e-10)
    assert model.converged_ is False


@pytest.mark.parametrize("model", [*CONFIGURED, *others()], ids=str)
def test_scikit_learns_scores_on_the_way(model: Any) -> None:
    monitor = ScoringMonitor(scoring="accuracy" if is_classifier(model) else "r2")
    fitted = clone(model).set_callbacks(monitor).fit(X, targets(model))
    scores = [entry[name] for entry in monitor.get_logs().data for name in entry if name in NAMES]
    assert len(scores) >= 2
    score = accuracy_score if is_classifier(model) else r2_score
    assert scores[-1] == pytest.approx(score(targets(model), fitted.predict(X)))


@pytest.mark.parametrize("degree", [0, 1])
def test_the_grid_of_bandwidths_is_reported(degree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    mc.NadarayaWatson(KERNEL, degree=degree).set_callbacks(watch).fit(X, Y)
    grid = watch.models[:11]
    errors = [model.loo_error_ for model in grid]
    assert errors == sorted(errors, reverse=True)  # the best so far
    for model in grid:
        expected = float(np.mean(model.loo_residuals_**2))
        assert model.loo_error_ == pytest.approx(expected, rel=1e-9)
        assert (model.n_iter_, model.converged_) == (0, False)

    original, calls = Smoother.loo_error, [0]

    def interrupted(self: Smoother) -> float:
        calls[0] += 1
        if calls[0] > 3:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(Smoother, "loo_error", interrupted)
    model = mc.NadarayaWatson(KERNEL, degree=degree)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    np.testing.assert_allclose(model.predict(X[:3]), watch.predictions[2], rtol=1e-10)


@pytest.mark.parametrize("model", [*CONFIGURED, *others()], ids=str)
def test_scikit_learns_progress_bar(model: Any) -> None:
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    plain, drawn = clone(model), clone(model).set_callbacks(ProgressBar())
    expected = plain.fit(X, targets(model)).predict(X[:3])
    assert drawn.fit(X, targets(model)).predict(X[:3]).tolist() == expected.tolist()


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


MACHINES = textwrap.dedent(
    """
    import os, signal, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import mercer as mc
    from mercer.models.svm import solving

    rng = np.random.default_rng(0)
    X, y, threads = rng.normal(size=(1500, 10)), rng.integers(0, 3, 1500), mc.thread_count()
    check, polling = solving._Jobs._check, set()
    solving._FEW = 512  # so that no function is solved beside others in one call

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
        [sys.executable, "-c", MACHINES],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "MERCER_NUM_THREADS": threads},
    )
    assert done.stdout.split() == ["SVC", "NuSVC"], done.stderr


PRICE = np.sin(X[:, 0])
FRAME = pd.DataFrame(X, columns=["a", "b"])
TABLE = FRAME.assign(price=PRICE, weight=np.arange(60) % 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(),
        mc.KernelHuberRegressor(),
        mc.GaussianProcessRegressor(mc.RBF(), noise=0.1, learn=False),
        mc.NadarayaWatson(),
        mc.KernelLMS(),
        mc.SVR(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_targets_and_weights_may_be_columns_of_a_data_frame(model: Any, library: Any) -> None:
    table, points = library(TABLE), library(FRAME)
    weights = TABLE["weight"].to_numpy()
    wanted = clone(model).fit(points, PRICE, sample_weight=weights)
    model.fit(table, "price", sample_weight="weight")
    assert list(model.feature_names_in_) == ["a", "b"]
    expected = wanted.predict(points)
    assert_allclose(model.predict(points), expected, rtol=1e-12)
    assert_allclose(model.predict(table), expected, rtol=1e-12)
    score = wanted.score(points, PRICE)
    assert model.score(table, "price") == pytest.approx(score, rel=1e-12)
    assert model.score(points, PRICE) == pytest.approx(score, rel=1e-12)
    weighted = wanted.score(points, PRICE, sample_weight=weights)
    assert model.score(table, "price", sample_weight="weight") == pytest.approx(weighted, rel=1e-12)
    model.fit(points, PRICE)
    with pytest.raises(DataError, match="feature"):
        model.predict(table)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        mc.SVC(),
        mc.KernelLogisticRegression(),
        mc.GaussianProcessClassifier(mc.RBF(), learn=False),
        mc.KernelPerceptron(),
        mc.SVCSearch(Cs=[1.0], length_scales=None),
    ],
    ids=repr,
)
def test_labels_may_be_a_column_of_a_data_frame(model: Any) -> None:
    labels = np.where(PRICE > 0, "high", "low")
    table = FRAME.assign(kind=labels)
    wanted = clone(model).fit(FRAME, labels)
    model.fit(table, "kind")
    assert (model.predict(table) == wanted.predict(FRAME)).all()
    assert model.score(table, "kind") == wanted.score(FRAME, labels)
    model.fit(FRAME, list(labels))  # a list of labels is not a list of names
    assert (model.predict(FRAME) == wanted.predict(FRAME)).all()


def test_several_targets_may_be_columns() -> None:
    model = mc.KernelRidge().fit(TABLE, ["price", "weight"])
    wanted = mc.KernelRidge().fit(FRAME, TABLE[["price", "weight"]])
    assert_allclose(model.predict(TABLE), wanted.predict(FRAME), rtol=1e-12)
    path = mc.KernelRidge(mc.RBF()).path(TABLE, "price", [1.0], "weight")
    expected = mc.KernelRidge(mc.RBF()).path(FRAME, PRICE, [1.0], TABLE["weight"])
    assert_allclose(path.dual_coef, expected.dual_coef)


def test_a_model_learns_more_rows_from_a_data_frame_with_their_targets() -> None:
    table = TABLE[["a", "b", "price"]]
    model = mc.KernelLMS(mc.RBF()).partial_fit(table[:30], "price").partial_fit(table, "price")
    wanted = mc.KernelLMS(mc.RBF()).partial_fit(FRAME[:30], PRICE[:30]).partial_fit(FRAME, PRICE)
    assert_allclose(model.predict(table), wanted.predict(FRAME), rtol=1e-12)


def test_a_name_that_is_no_column() -> None:
    with pytest.raises(DataError, match=r"KernelRidge: column 'pric' is not in .* mean 'price'"):
        mc.KernelRidge().fit(TABLE, "pric")
    with pytest.raises(DataError, match=r"'weigth' is not in .* did you mean 'weight'"):
        mc.KernelRidge().fit(TABLE, "price", sample_weight="weigth")
    with pytest.raises(DataError, match="'price' names a column, and the columns of an array"):
        mc.SVC().fit(X, "price")
