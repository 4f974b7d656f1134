"""Machines of any convex loss: penalties, parameters, data that are refused, and short fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from machine_problems import BINARY, COUNTS, RBF, N, X, Y, Z
from mercer import losses, memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from mercer.solvers.kinks import smoothing
from mercer.solvers.newton import dense

Array = NDArray[np.floating[Any]]


@parametrize_with_checks(
    [
        mc.KernelMachineRegressor(),
        mc.KernelHuberRegressor(),
        mc.KernelQuantileRegressor(alpha=0.1),
        mc.KernelMachineClassifier(),
        mc.KernelMachineClassifier(loss="hinge"),
        mc.KernelLogisticRegression(),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
@pytest.mark.parametrize(
    "penalty",
    [mc.penalties.Norm(), mc.penalties.Power(exponent=3.0), mc.penalties.Power(exponent=0.7)],
)
def test_a_penalty_is_minimised_over_all_weights_of_the_square(loss: str, penalty: Any) -> None:
    alpha, K = 0.5, RBF(X)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=alpha, penalty=penalty).fit(X, Y)

    def value(fitted: Any) -> float:
        a = fitted.dual_coef_
        norm = np.sqrt(max(a @ K @ a, 0.0))
        return float(
            fitted.loss_.value(Y, K @ a + fitted.intercept_).sum() + alpha * penalty.value(norm)
        )

    others = [
        value(mc.KernelMachineRegressor(RBF, loss=loss, alpha=beta).fit(X, Y))
        for beta in np.append(np.geomspace(1e-3, 1e3, 25), model.alpha_ * np.array([0.99, 1.01]))
        if np.isfinite(beta)
    ]
    assert value(model) <= min(others) * (1 + 1e-9)
    assert value(model) >= min(others) * (1 - 1e-3)


def test_the_default_penalty_is_the_power_of_two() -> None:
    model = mc.KernelMachineRegressor(RBF, loss="huber", alpha=0.3)
    plain = model.fit(X, Y).predict(Z)
    power = clone(model).set_params(penalty=mc.penalties.Power(exponent=2.0)).fit(X, Y)
    np.testing.assert_allclose(power.predict(Z), plain, rtol=1e-7)
    assert power.alpha_ == pytest.approx(0.3, rel=1e-7)


def test_a_norm_that_is_penalised_enough_is_zero() -> None:
    penalty = mc.penalties.Norm()
    model = mc.KernelMachineRegressor(RBF, alpha=1e4, penalty=penalty).fit(X, Y)
    assert np.isinf(model.alpha_)
    assert np.all(model.dual_coef_ == 0)
    np.testing.assert_allclose(model.predict(Z), Y.mean(), rtol=1e-9)


class Cauchy(losses.RegressionLoss):
    def value(self, y: Any, f: Any) -> Any:
        return np.log1p((f - y) ** 2)

    def derivative(self, y: Any, f: Any) -> Any:
        return 2 * (f - y) / (1 + (f - y) ** 2)


def test_a_loss_that_is_not_convex_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"KernelMachineRegressor: loss = Cauchy\(\) is not convex"
    ):
        mc.KernelMachineRegressor(RBF, loss=Cauchy()).fit(X, Y)


def test_data_frames_strings_and_matrices() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = mc.RBF(length_scale=1.5).on("a", "b") + mc.Linear().on("c")
    model = mc.KernelQuantileRegressor(kernel, alpha=0.1).fit(frame, Y)
    assert model.predict(frame).shape == (N,)
    words = ["abab", "abba", "baba", "cdcd", "dcdc", "ccdd"]
    labels = [0, 0, 0, 1, 1, 1]
    text = mc.KernelLogisticRegression(mc.Spectrum(2), alpha=0.1).fit(words, labels)
    np.testing.assert_array_equal(text.predict(["abab", "cdcd"]), [0, 1])
    given = mc.KernelMachineClassifier(mc.Precomputed(), loss="hinge", alpha=0.1).fit(
        RBF(X), BINARY
    )
    plain = mc.KernelMachineClassifier(RBF, loss="hinge", alpha=0.1).fit(X, BINARY)
    np.testing.assert_allclose(given.decision_function(RBF(Z, X)), plain.decision_function(Z))


def test_float32_data_are_solved_in_double_precision() -> None:
    single = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X.astype(np.float32), BINARY)
    double = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X, BINARY)
    np.testing.assert_allclose(single.predict_proba(Z), double.predict_proba(Z), atol=1e-4)


def test_parameters_of_the_loss_are_searched() -> None:
    model = mc.KernelMachineRegressor(RBF, loss="huber", alpha=0.1)
    model.set_params(loss__delta=2.0, kernel__length_scale=3.0)
    assert (model.loss, model.kernel) == (losses.Huber(delta=2.0), mc.RBF(length_scale=3.0))
    search = GridSearchCV(model, {"loss__delta": [0.01, 1.0], "alpha": [0.1]}, cv=3).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    power = mc.KernelMachineRegressor(RBF, penalty=mc.penalties.Power(exponent=3.0))
    assert power.set_params(penalty__exponent=1.5).penalty == mc.penalties.Power(exponent=1.5)
    names = mc.KernelQuantileRegressor(RBF).get_params(deep=False)
    assert "loss" not in names
    assert "quantile" in names


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (mc.KernelMachineRegressor(alpha=0), "alpha = 0 is not a finite number > 0"),
        (mc.KernelMachineRegressor(alpha=-1.0), "alpha = -1.0"),
        (mc.KernelMachineRegressor(alpha="gcv"), "alpha = 'gcv'"),
        (mc.KernelMachineRegressor(alpha=np.inf), "alpha = inf"),
        (mc.KernelMachineRegressor(tol=0.0), "tol = 0.0"),
        (mc.KernelMachineRegressor(max_iter=0), "max_iter = 0"),
        (
            mc.KernelMachineRegressor(loss="hinge"),
            r"loss = Hinge\(\) is not for real targets.*Class",
        ),
        (mc.KernelMachineRegressor(loss="nonsense"), "is not a loss"),
        (mc.KernelMachineRegressor(penalty="norm"), "is not a penalty"),
        (mc.KernelQuantileRegressor(quantile=1.0), "0 < quantile < 1"),
        (mc.KernelQuantileRegressor(quantile=[0.2, -0.1]), "0 < quantile < 1"),
        (mc.KernelHuberRegressor(delta=-1), "delta > 0"),
        (mc.KernelMachineRegressor("gauss"), "is not the name of a kernel"),
    ],
)
def test_bad_parameters_are_refused(model: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        model.fit(X, Y)


def test_bad_data_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"y\[\d+\] = -\S+, but loss = Poisson\(\) needs targets >= 0"
    ):
        mc.KernelMachineRegressor(RBF, loss="poisson").fit(X, Y - 7)
    with pytest.raises(DataError, match="all targets of positive weight are 0"):
        mc.KernelMachineRegressor(RBF, loss="poisson").fit(X, np.zeros(N))
    with pytest.raises(DataError, match="only one class, 'a'"):
        mc.KernelMachineClassifier(RBF).fit(X, ["a"] * N)
    with pytest.raises(
        ParameterError, match=r"Huber\(\) is not for classes.*KernelMachineRegressor"
    ):
        mc.KernelMachineClassifier(RBF, loss="huber").fit(X, BINARY)
    with pytest.raises(DataError, match="Unknown label type"):
        mc.KernelMachineClassifier(RBF).fit(X, Y)
    with pytest.raises(DataError):
        mc.KernelMachineRegressor(RBF).fit(X, BINARY)
    with pytest.raises(DataError, match="at least one non-zero"):
        mc.KernelMachineRegressor(RBF).fit(X, Y, np.zeros(N))
    with pytest.raises(DataError, match="59 labels"):
        mc.KernelMachineClassifier(RBF).fit(X, BINARY[:-1])
    with pytest.raises(ValidityError, match=r"no minimum: .*mercer\.validity\.repair"):
        mc.KernelMachineRegressor(mc.Precomputed()).fit(np.array([[1.0, 2], [2, 1]]), [0.0, 1.0])
    with pytest.raises(DataError, match="NaN or infinity"):
        mc.KernelMachineRegressor(mc.Linear()).fit(1e200 * X, Y)


def test_memory_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryForecastError, match="KernelMachineRegressor on 60 rows"):
        mc.KernelMachineRegressor(RBF).fit(X, Y)


@pytest.mark.parametrize(
    ("loss", "module", "name"),
    [("poisson", dense, "step"), ("pinball", smoothing, "step")],
)
def test_an_interrupt_keeps_the_last_step(
    loss: str, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = getattr(module._Problem, name), []

    def step(self: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(module._Problem, name, step)
    model = mc.KernelMachineRegressor(RBF, loss=loss, alpha=0.01)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, COUNTS)
    assert model.converged_ is False
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict(Z)).all()


def test_a_kernel_far_too_large_for_its_alpha_is_announced() -> None:
    """Terms of rows that cancel to the last digit leave no function: better said than found out."""
    for loss in ("huber", "absolute"):
        model = mc.KernelMachineRegressor(
            mc.Linear(), loss=loss, alpha=1e-6, solver=mc.solvers.Cholesky()
        )
        with pytest.warns(NumericalWarning, match="scale the data"):
            model.fit(1e8 * X, Y)
        assert not model.converged_


def test_advice_after_rounding_is_not_to_go_on() -> None:
    model = mc.KernelHuberRegressor(RBF, tol=1e-20)
    with pytest.warns(NumericalWarning, match="rounding: scale the data, or raise alpha or tol"):
        model.fit(X, Y)
    assert model.n_iter_ < 20
    with pytest.warns(NumericalWarning, match=r"raise alpha, tol or max_iter \(1\)"):
        model.set_params(max_iter=1).fit(X, Y)


class StopAfter:
    """A callback that asks for a stop."""

    def __init__(self, steps: int) -> None:
        self.steps, self.seen = steps, 0

    def setup(self, estimator: Any, context: Any) -> None:
        self.seen = 0

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> bool:
        if context.parent is None:
            return False
        self.seen += 1
        return self.seen >= self.steps


def test_a_callback_may_stop_the_fit() -> None:
    callback = StopAfter(2)
    model = mc.KernelLogisticRegression(RBF, alpha=1e-6).set_callbacks(callback)
    model.fit(X, BINARY)
    assert (model.n_iter_, model.converged_, callback.seen) == (2, False, 2)


def test_short_fits_with_kinks_are_announced() -> None:
    with pytest.warns(NumericalWarning, match="duality gap of .*max_iter") as caught:
        model = mc.KernelQuantileRegressor(RBF, alpha=1e-3, max_iter=3).fit(X, Y)
    assert not model.converged_
    assert model.dual_gap_ > 0
    assert caught[0].filename == __file__  # the line to change, not one of the library


class Logarithm(mc.penalties.Penalty):
    """log(1 + t): increasing, but not convex."""

    def value(self, t: Any) -> Any:
        return np.log1p(t)

    def derivative(self, t: Any) -> Any:
        return 1 / (1 + np.asarray(t))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_a_penalty_that_is_not_convex_finds_the_best_of_all_weights(loss: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 2))
    targets = rng.poisson(np.exp(np.sin(rows[:, 0]))).astype(float)
    kernel, alpha = mc.RBF(length_scale=1.0), 0.1
    model = mc.KernelMachineRegressor(kernel, loss, alpha, penalty=Logarithm()).fit(rows, targets)
    assert model.converged_
    K, pointwise = kernel(rows), losses.Squared() if loss == "squared" else losses.Poisson()

    def objective(fit: Any) -> float:
        norm = np.sqrt(fit.dual_coef_ @ K @ fit.dual_coef_)
        value = pointwise.value(targets, K @ fit.dual_coef_ + fit.intercept_).sum()
        return float(value + alpha * np.log1p(norm))

    others = [
        mc.KernelMachineRegressor(kernel, loss, beta).fit(rows, targets)
        for beta in np.logspace(-6, 3, 28)
    ]
    best = min(objective(fit) for fit in others if fit.converged_)
    assert objective(model) <= best * (1 + 1e-6) + 1e-9
