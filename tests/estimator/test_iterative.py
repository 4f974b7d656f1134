"""Callbacks see a usable model after every step of every iterative model, and can end a fit."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.callback import CallbackSupportMixin, ScoringMonitor
from sklearn.metrics import accuracy_score, r2_score

import mercer as mc
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
