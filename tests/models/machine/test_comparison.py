"""Losses at rows left out, against fits without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import mercer as mc
from mercer.models.machine.comparison import compared
from mercer.rows.left_out import folds_of

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=N)
TWO = np.where(Y + 0.3 * RNG.normal(size=N) > 0, "up", "down")
THREE = np.digitize(Y, [-0.4, 0.4])
RBF = mc.RBF(length_scale=1.0)
ALPHAS = np.geomspace(1.0, 10.0, 3)


def loss_at(model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    """Return the losses of a fitted model, from its public methods."""
    if hasattr(model, "classes_"):
        values = model.decision_function(rows)
        if values.ndim == 2 and isinstance(model.loss_, mc.losses.Logistic):
            places = np.searchsorted(model.classes_, targets)
            return np.asarray(-model.predict_log_proba(rows)[np.arange(len(rows)), places])
        positive = model.classes_ if values.ndim == 2 else model.classes_[1:]
        signs = np.where(targets[:, None] == positive, 1.0, -1.0)
        losses = model.loss_.value(signs, values.reshape(signs.shape))
        return np.asarray(losses.sum(axis=1))
    levels = np.atleast_1d(getattr(model.loss_, "quantile", np.nan))
    if len(levels) == 1:
        return np.asarray(model.loss_.value(targets, model.predict(rows)))
    columns = zip(levels, model.predict(rows).T, strict=True)
    each = [mc.losses.Pinball(quantile=float(q)).value(targets, f) for q, f in columns]
    return np.asarray(sum(each))


def refitted(model: Any, y: NDArray[Any], sets: NDArray[Any], weights: Any = None) -> list[float]:
    """Return the mean losses of fits without each set of rows, for each alpha."""
    means = []
    for alpha in ALPHAS:
        losses = np.zeros(N)
        for each in np.unique(sets):
            out = sets == each
            kept = None if weights is None else weights[~out]
            plain = clone(model).set_params(alpha=alpha).fit(X[~out], y[~out], kept)
            losses[out] = loss_at(plain, X[out], y[out])
        means.append(float(np.average(losses, weights=weights)))
    return means


MACHINES = [
    (mc.KernelLogisticRegression(RBF), TWO),
    (mc.KernelLogisticRegression(RBF, fit_intercept=False), THREE),
    (mc.KernelLogisticRegression(RBF), THREE),
    (mc.KernelMachineClassifier(RBF, loss="squared_hinge"), TWO),
    (mc.KernelMachineClassifier(RBF, loss="squared_hinge"), THREE),
    (mc.KernelHuberRegressor(RBF, delta=0.3), Y),
]


@pytest.mark.parametrize("solver", ["auto", mc.solvers.NystromSolver(N, random_state=0)])
@pytest.mark.parametrize(("model", "y"), MACHINES)
def test_leave_one_out_is_close_to_fits_without_each_row(model: Any, y: Any, solver: Any) -> None:
    search = clone(model).set_params(alpha="loo", alphas=ALPHAS, solver=solver).fit(X, y)
    # One Newton step, from the last step but one: close, and not exact.
    np.testing.assert_allclose(
        search.search_errors_[0], refitted(model, y, np.arange(N)), rtol=0.02
    )
    assert search.criterion_ == "loo"


def test_leave_one_out_counts_weights() -> None:
    weights = RNG.uniform(0.5, 2.0, N)
    model = mc.KernelLogisticRegression(RBF)
    search = clone(model).set_params(alpha="loo", alphas=ALPHAS).fit(X, TWO, weights)
    expected = refitted(model, TWO, np.arange(N), weights)
    np.testing.assert_allclose(search.search_errors_[0], expected, rtol=0.02)


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2.0, N)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["auto", mc.solvers.NystromSolver(12, random_state=0)])
def test_leave_one_out_of_the_squared_loss_is_that_of_ridge(
    solver: Any, fit_intercept: bool, weights: Any
) -> None:
    options: dict[str, Any] = {"alpha": "loo", "fit_intercept": fit_intercept, "solver": solver}
    ridge = mc.KernelRidge(RBF, **options).fit(X, Y, weights)
    model = mc.KernelMachineRegressor(RBF, **options).fit(X, Y, weights)
    np.testing.assert_allclose(model.alphas_, ridge.alphas_)
    known = np.isfinite(model.search_errors_)
    assert known.sum() > 5
    expected = ridge.search_errors_[known] / 2
    np.testing.assert_allclose(model.search_errors_[known], expected, rtol=1e-8)
    np.testing.assert_allclose(model.alpha_, ridge.alpha_)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-6)


@pytest.mark.parametrize("groups", [None, RNG.integers(0, 9, N + 8)])
def test_copies_and_groups_are_left_out_together_as_by_ridge(groups: Any) -> None:
    data, y = np.vstack([X, X[:8]]), np.append(Y, Y[:8] + 0.2)
    ridge = mc.KernelRidge(RBF, alpha="loo", alphas=ALPHAS).fit(data, y, groups=groups)
    model = mc.KernelMachineRegressor(RBF, alpha="loo", alphas=ALPHAS).fit(data, y, groups=groups)
    np.testing.assert_allclose(model.search_errors_, ridge.search_errors_ / 2, rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", mc.solvers.NystromSolver(N, random_state=0)])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        *MACHINES,
        (mc.KernelMachineClassifier(RBF, loss="hinge"), TWO),
        (mc.KernelQuantileRegressor(RBF, quantile=0.3), Y),
        (mc.KernelQuantileRegressor(RBF, quantile=[0.1, 0.9]), Y),
        (mc.KernelMachineRegressor(RBF, loss="epsilon_insensitive"), Y),
    ],
)
def test_cross_validation_is_that_of_fits_without_each_fold(
    model: Any, y: Any, solver: Any
) -> None:
    search = clone(model).set_params(alpha="cv", alphas=ALPHAS, solver=solver).fit(X, y)
    strata = np.unique(y, return_inverse=True)[1] if y.dtype.kind != "f" else None
    folds = folds_of(N, None, strata)
    np.testing.assert_allclose(search.search_errors_[0], refitted(model, y, folds), rtol=2e-3)
    assert search.criterion_ == "cv"


class Table:
    """A criterion with given losses."""

    def __init__(self, losses: dict[float, float]) -> None:
        self.losses, self.asked = losses, [0.0][:0]

    def loss(self, alpha: float) -> float:
        self.asked.append(alpha)
        return self.losses[alpha]

    def solution(self) -> Any:
        return self.asked[-1]


def test_a_path_ends_when_losses_have_risen_for_long() -> None:
    table = Table({16.0: 3.0, 8.0: 2.0, 4.0: 2.01, 2.0: 2.02, 1.0: 2.5, 0.5: 9.0})
    alphas = np.array([0.5, 16.0, 8.0, 1.0, 4.0, 2.0])
    errors, best = compared(table, alphas)  # type: ignore[arg-type]
    assert table.asked == [16.0, 8.0, 4.0, 2.0, 1.0]
    assert errors.tolist() == [np.inf, 3.0, 2.0, 2.5, 2.01, 2.02]
    assert best == 8.0  # type: ignore[comparison-overlap]
