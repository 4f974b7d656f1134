"""What a fit would cost: the model is left alone, and what cannot be forecast is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

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


ESTIMATORS = [
    value
    for name in mc.__all__
    if isinstance(value := getattr(mc, name), type) and issubclass(value, BaseEstimator)
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_estimator_has_a_forecast_or_a_reason(kind: type) -> None:
    if not hasattr(kind, "predict"):
        with pytest.raises(ParameterTypeError, match="cost is not known; pass a regressor"):
            mc.forecast(kind(), X)
        return
    table = mc.forecast(kind(), X)
    (cost,) = [cost for cost in table.costs if type(cost.solver) is type(table.chosen)]
    assert cost.seconds > 0
    assert cost.size > 0
    assert "bytes" in str(table) or "iB" in str(table)


def taken(model: Any, rows: Any = X, y: Any = None) -> Any:
    """The cost of the solver that is taken."""
    table = mc.forecast(model, rows, y)
    return next(cost for cost in table.costs if type(cost.solver) is type(table.chosen))


MANY = np.random.default_rng(0).normal(size=(600, 2))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (mc.KernelRidge(), mc.KernelRidge(alpha="loo")),
        (mc.KernelRidge(alpha="loo"), mc.KernelRidge(alpha="cv")),
        (mc.KernelRidge(alpha="loo"), mc.KernelRidge(alpha="loo", length_scales="auto")),
        (mc.KernelRidge(solver="cholesky"), mc.KernelRidge(solver="spectral")),
        (mc.KernelRidge(solver="nystrom"), mc.KernelRidge(alpha="loo", solver="nystrom")),
        (
            mc.KernelRidge(alpha="loo", solver="nystrom"),
            mc.KernelRidge(alpha="cv", solver="nystrom"),
        ),
        (
            mc.KernelRidge(solver="random_features"),
            mc.KernelRidge(alpha="loo", solver="random_features"),
        ),
        (mc.KernelMachineRegressor(), mc.KernelHuberRegressor()),
        (mc.KernelLogisticRegression(), mc.KernelLogisticRegression(alpha="loo")),
        (
            mc.KernelLogisticRegression(solver="nystrom"),
            mc.KernelLogisticRegression(alpha="loo", solver="nystrom"),
        ),
        (mc.KernelQuantileRegressor(), mc.KernelQuantileRegressor(alpha="cv")),
        (mc.KernelQuantileRegressor(quantile=0.05), mc.KernelQuantileRegressor()),
        (
            mc.GaussianProcessRegressor(learn=False, noise=0.1),
            mc.GaussianProcessRegressor(),
        ),
        (mc.SVC(), mc.SVC(probability=True)),
        (mc.SVC(probability=True), mc.SVCSearch()),
        (mc.OneClassSVM(nu=0.1), mc.OneClassSVM(nu=0.9)),
    ],
    ids=lambda model: repr(model)[:60],
)
def test_what_does_more_costs_more(less: Any, more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mercer.solvers.forecast", "mercer.models.forecast"):
        monkeypatch.setattr(f"{module}.operations_per_second", lambda: 1e9)
        monkeypatch.setattr(f"{module}.seconds_per_pair", lambda kernel, points: 3e-8)
    labels = MANY[:, 0] > 0
    assert taken(less, MANY, labels).seconds < taken(more, MANY, labels).seconds


@pytest.mark.parametrize(
    "model",
    [mc.SVC(), mc.NuSVC(nu=0.1), mc.KernelLogisticRegression(), mc.GaussianProcessClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_more_classes_cost_more(model: Any) -> None:
    two, many = (taken(model, MANY, np.arange(600) % k) for k in (2, 60))
    assert two.seconds < many.seconds
    assert two.size < many.size


def test_a_kernel_without_length_scales_is_one_candidate() -> None:
    table = mc.forecast(mc.SVCSearch(mc.SVC("linear"), Cs=[1.0, 10.0]), X, X[:, 0] > 0)
    assert "it fits 10 machines" in str(table)


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
    [
        mc.KernelRidge(),
        mc.KernelRidge(alpha="loo"),
        mc.KernelLogisticRegression(),
        mc.KernelLogisticRegression(alpha="loo"),
        mc.KernelQuantileRegressor(),
        mc.KernelMachineClassifier(loss="hinge"),
    ],
    ids=repr,
)
def test_memory_is_forecast_as_it_is_allocated(model: Any) -> None:
    n = 900
    X, y = _friedman(n)
    targets = y > np.median(y) if hasattr(model, "decision_function") else y
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
