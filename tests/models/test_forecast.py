"""What a fit would cost: the model is left alone, and what cannot be forecast is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from mercer import memory
from mercer.exceptions import DataTypeError, ParameterTypeError
from mercer.landmarks.selection import KernelColumns

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


def _friedman(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 5))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    return X, f + 5 * X[:, 4] + rng.normal(size=n)


@pytest.mark.parametrize(
    "model",
    [mc.KernelRidge(), mc.KernelRidge(alpha=0.1), mc.KernelLogisticRegression()],
    ids=repr,
)
def test_products_are_forecast_as_they_are_counted(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernel values of iterations, within a factor of four at every size."""
    count, multiply = [0], KernelColumns.multiply

    def counted(self: Any, columns: Any) -> Any:
        count[0] += 1
        return multiply(self, columns)

    monkeypatch.setattr(KernelColumns, "multiply", counted)
    solver = mc.solvers.ConjugateGradient(random_state=0)
    for n in (600, 2400):
        X, y = _friedman(n)
        targets = y > np.median(y) if isinstance(model, mc.KernelLogisticRegression) else y
        count[0] = 0
        asked = clone(model).set_params(solver=solver).fit(X, targets)
        table = mc.forecast(asked, X)
        (cost,) = (c for c in table.costs if isinstance(c.solver, mc.solvers.ConjugateGradient))
        assert count[0] / 4 < cost.pairs / n**2 < 4 * count[0]


@pytest.mark.parametrize(
    "model",
    [mc.KernelRidge(), mc.KernelRidge(alpha="loo"), mc.KernelLogisticRegression()],
    ids=repr,
)
def test_memory_is_forecast_as_it_is_allocated(model: Any) -> None:
    n = 900
    X, y = _friedman(n)
    targets = y > np.median(y) if isinstance(model, mc.KernelLogisticRegression) else y
    model = clone(model).set_params(solver=mc.solvers.Cholesky())
    (cost,) = (c for c in mc.forecast(model, X).costs if c.solver == mc.solvers.Cholesky())
    model.fit(X, targets)  # whatever is kept for the next fit
    tracemalloc.start()
    model.fit(X, targets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 1.6 < cost.size < 1.6 * peak


def test_what_has_no_forecast_is_told_what_has() -> None:
    with pytest.raises(ParameterTypeError, match=r"is a Nystrom, whose cost is not known; pass a"):
        mc.forecast(mc.Nystrom(), X)
