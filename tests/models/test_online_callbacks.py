"""Callbacks see a usable model after every step, and can end a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
KERNEL = mc.RBF(length_scale=[0.5, 4.0])


class Watch:
    """Predicts with the model of every step, and stops after some."""

    def __init__(self, steps: int | None = None) -> None:
        self.steps = steps
        self.predictions: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None, **kwargs: Any
    ) -> bool:
        self.predictions.append(fitted_estimator.predict(X[:3]))
        return len(self.predictions) == self.steps


MODELS = [
    mc.KernelLMS(KERNEL, 0.5, batch_size=10),
    mc.KernelLMS(KERNEL, 0.5, batch_size=10, budget=mc.budgets.Remove(7)),
    mc.KernelLMS(feature_map=mc.Polynomial(2), batch_size=10),
    mc.KernelLMS(KERNEL, alpha=0.5, method="batch"),
    mc.KernelPerceptron(KERNEL, batch_size=10),
    mc.NadarayaWatson(KERNEL),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_callbacks_see_and_stop(model: Any) -> None:
    y = Y > 0 if isinstance(model, mc.KernelPerceptron) else Y
    watch = Watch()
    model.set_callbacks(watch).fit(X, y)
    np.testing.assert_allclose(watch.predictions[-1], model.predict(X[:3]), rtol=1e-10)
    assert len(watch.predictions) > 2
    short = Watch(2)
    model.set_callbacks(short).fit(X, y)
    np.testing.assert_allclose(short.predictions[1], watch.predictions[1], rtol=1e-10)
    np.testing.assert_allclose(model.predict(X[:3]), short.predictions[1], rtol=1e-10)
    assert model.converged_ is False
