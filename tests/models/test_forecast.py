"""What a fit would cost: the model is left alone, and what cannot be forecast is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import memory
from mercer.exceptions import DataTypeError, ParameterTypeError

X = np.random.default_rng(0).normal(size=(50, 2))


@pytest.mark.parametrize(
    "model",
    [mc.KernelRidge(), mc.KernelLogisticRegression(), mc.GaussianProcessRegressor()],
    ids=lambda model: type(model).__name__,
)
def test_the_model_is_not_fitted(model: Any) -> None:
    before = dict(vars(model))
    found = mc.forecast(model, X)
    assert found.chosen in [cost.solver for cost in found.costs]
    assert vars(model) == before


ONE_WAY = [
    mc.SVC(),
    mc.NuSVC(),
    mc.SVR("linear"),
    mc.NuSVR(),
    mc.OneClassSVM(),
    mc.SVDD(),
    mc.GaussianProcessClassifier(),
    mc.NadarayaWatson(),
    mc.KernelLMS(),
    mc.KernelPerceptron(),
]


@pytest.mark.parametrize(
    ("model", "machines"),
    [
        (mc.SVCSearch(), 275),
        (mc.SVCSearch(Cs=[1.0], length_scales=None, cv=3), 3),
        (mc.SVCSearch(mc.SVC(mc.RBF()), [1.0, 2.0], [0.5, 1.0, 2.0]), 30),
        (mc.SVCSearch(mc.SVC(mc.RBF()), [1.0], {"length_scale": [0.5, 1.0]}, cv=2), 4),
    ],
)
def test_a_search_costs_what_its_machines_do(model: Any, machines: int) -> None:
    before = dict(vars(model))
    found = mc.forecast(model, X, X[:, 0] > 0)
    assert vars(model) == before
    assert f"it fits {machines} machines" in str(found)
    model.fit(X, X[:, 0] > 0)
    assert len(model.cv_results_["params"]) * model.n_splits_ == machines


@pytest.mark.parametrize("model", ONE_WAY, ids=lambda model: type(model).__name__)
def test_models_with_one_way_have_one_line(model: Any) -> None:
    before = dict(vars(model))
    few, many = mc.forecast(model, X), mc.forecast(model, np.tile(X, (60, 1)))
    assert vars(model) == before
    assert few.is_possible
    (one,), (other,) = few.costs, many.costs
    assert 0 < one.size < other.size
    assert 0 < one.seconds < other.seconds
    assert str(few).count(type(model).__name__) == 1
    assert " s\n* it has one way" in str(few)


@pytest.mark.parametrize("model", [mc.KernelRidge(), mc.SVC()])
def test_memory_that_is_not_there_is_said(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    table = mc.forecast(model, X)
    assert "does not fit in memory" in str(table)


def test_what_cannot_be_forecast_is_refused() -> None:
    with pytest.raises(ParameterTypeError, match="model is a RandomFourier, whose cost is not"):
        mc.forecast(mc.RandomFourier(), X)  # type: ignore[arg-type]
    rows = iter([(X, X[:, 0])])
    with pytest.raises(DataTypeError, match=r"gone through once.*pass mercer\.Blocks"):
        mc.forecast(mc.KernelRidge(), rows)
    assert len(list(rows)) == 1  # it was not used up
