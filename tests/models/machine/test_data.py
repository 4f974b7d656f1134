"""Machines and their data: units, losses that users get wrong, log-probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from mercer import losses
from mercer.exceptions import DataError, MercerError, NumericalWarning, ParameterError

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 2))
Y = np.exp(0.5 * X[:, 0] + 0.3 * RNG.normal(size=N))
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=N), [-0.5, 0.5])
RBF = mc.RBF(length_scale=1.0)

REGRESSION = ["squared", "huber", "absolute", "pinball", "epsilon_insensitive", "poisson", "gamma"]
CLASSES = ["logistic", "hinge", "squared_hinge", "exponential"]


def machine(loss: Any, **params: Any) -> Any:
    if isinstance(loss, losses.ClassificationLoss) or loss in CLASSES:
        return mc.KernelMachineClassifier(RBF, loss=loss, **params)
    return mc.KernelMachineRegressor(RBF, loss=loss, **params)


def targets(loss: Any) -> Any:
    return LABELS if loss in CLASSES else Y


# Units --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", REGRESSION + CLASSES)
@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_only_the_ratio_of_weights_and_alpha_matters(loss: str, unit: float) -> None:
    weights = RNG.uniform(0.5, 2.0, size=N)
    model = machine(loss, alpha=0.3).fit(X, targets(loss), sample_weight=weights)
    other = machine(loss, alpha=0.3 * unit).fit(X, targets(loss), sample_weight=weights * unit)
    assert other.converged_
    assert other.alpha_ == pytest.approx(0.3 * unit)
    np.testing.assert_allclose(other.dual_coef_, model.dual_coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other.intercept_, model.intercept_, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", ["huber", "hinge"])
def test_weights_of_more_than_twelve_decades_are_refused(loss: str) -> None:
    uneven = np.where(np.arange(N) < 5, 1e-13, 1.0)
    with pytest.raises(DataError, match=r"from 1e-13 to 1, a ratio above 1e\+12; set weights"):
        machine(loss).fit(X, targets(loss), sample_weight=uneven)


@pytest.mark.parametrize("loss", ["squared", "pinball"])
def test_targets_whose_squares_overflow_are_refused(loss: str) -> None:
    with pytest.raises(DataError, match=r"y reaches .*e\+150 .* divide y"):
        machine(loss).fit(X, 1e150 * Y)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_gamma_multiplies_its_mean_by_the_unit_of_the_targets(scale: float) -> None:
    y = Y / Y.max()
    means = machine("gamma").fit(X, y).predict(X)
    model = machine("gamma").fit(X, scale * y)
    assert model.converged_
    np.testing.assert_allclose(model.predict(X) / scale, means, rtol=1e-7)


def test_poisson_with_a_constant_finds_the_mean_or_says_that_it_does_not() -> None:
    for scale in (1e-9, 1.0, 1e9):
        model = mc.KernelMachineRegressor(
            mc.Constant(1.0), loss="poisson", solver=mc.solvers.Cholesky()
        ).fit(X, scale * Y)
        assert model.converged_
        np.testing.assert_allclose(model.predict(X), scale * Y.mean(), rtol=1e-6)
    with pytest.warns(NumericalWarning, match=r"cancel.* raise alpha"):  # coefficients of 1e90
        model.fit(X, 1e90 * Y)
    assert not model.converged_


@pytest.mark.parametrize("scale", [2.0**20, 2.0**-20, 1e6])
@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "pinball", "epsilon_insensitive"])
def test_units_of_the_target_change_units_alone(loss: str, scale: float) -> None:
    """The tolerance is relative: powers of two round nothing, and leave the steps as they are.

    Other units round otherwise, so that the active set may be known a few steps earlier or later.
    """
    kinked = loss in ("absolute", "pinball", "epsilon_insensitive")
    chosen, scaled = losses.named(loss, "Test"), losses.named(loss, "Test")
    if loss == "huber":
        scaled = losses.Huber(delta=1.35 * scale)
    if loss == "epsilon_insensitive":
        scaled = losses.EpsilonInsensitive(epsilon=0.1 * scale)
    alpha = 0.1 / scale if kinked else 0.1
    model = machine(chosen, alpha=0.1).fit(X, Y)
    other = machine(scaled, alpha=alpha).fit(X, scale * Y)
    assert model.converged_
    assert other.converged_
    steps = 0 if np.log2(scale).is_integer() else 5
    assert abs(other.n_iter_ - model.n_iter_) <= steps
    np.testing.assert_allclose(other.predict(X), scale * model.predict(X), rtol=1e-7)


def test_units_of_the_target_do_not_change_several_quantiles() -> None:
    levels = [0.3, 0.5, 0.7]
    model = mc.KernelQuantileRegressor(RBF, quantile=levels, alpha=0.01).fit(X, Y)
    for scale in (2.0**20, 2.0**-20):
        other = mc.KernelQuantileRegressor(RBF, quantile=levels, alpha=0.01 / scale)
        other.fit(X, scale * Y)
        assert (other.n_iter_, other.converged_) == (model.n_iter_, True)
        np.testing.assert_allclose(other.predict(X), scale * model.predict(X), rtol=1e-9)


def test_the_gap_is_judged_beside_the_objective() -> None:
    for tol in (1e-2, 1e-8):
        model = mc.KernelQuantileRegressor(RBF, alpha=1e-3, tol=tol).fit(X, 1e9 * Y)
        residuals = 1e9 * Y - model.predict(X)
        energy = model.dual_coef_ @ RBF(X) @ model.dual_coef_
        objective = np.abs(residuals).sum() / 2 + 1e-3 / 2 * energy
        assert 0 <= model.dual_gap_ <= tol * objective


# Losses that users get wrong ----------------------------------------------------------------------


class Base(losses.RegressionLoss):
    """Half the square, to be spoilt."""

    def value(self, y: Any, f: Any) -> Any:
        return (f - y) ** 2 / 2

    def derivative(self, y: Any, f: Any) -> Any:
        return f - y


class NotANumber(Base):
    def value(self, y: Any, f: Any) -> Any:
        return np.where(f > 0, f - y * np.log(np.abs(f) + 1e-9), np.nan)


class Total(Base):
    def value(self, y: Any, f: Any) -> Any:
        return float(np.sum((f - y) ** 2) / 2)


class Column(Base):
    def derivative(self, y: Any, f: Any) -> Any:
        return (f - y)[:, None]


class Words(Base):
    def derivative(self, y: Any, f: Any) -> Any:
        return "f - y"


class Lost(Base):
    def derivative(self, y: Any, f: Any) -> Any:
        return np.full_like(f, np.nan)


class Bent(Base):
    def curvature(self, y: Any, f: Any) -> Any:
        return -np.ones_like(f)


class WithoutDerivative(losses.RegressionLoss):
    def value(self, y: Any, f: Any) -> Any:
        return (f - y) ** 2 / 2


class WithoutValue(losses.RegressionLoss):
    def derivative(self, y: Any, f: Any) -> Any:
        return f - y


class WithoutKinks(losses.RegressionLoss, losses.PiecewiseLinear):
    pass


@pytest.mark.parametrize(
    ("loss", "match"),
    [
        (NotANumber(), r"a value\(y, f\) of nan at y = .*, f = .*; let it be a number"),
        (Total(), r"a value\(y, f\) of shape \(\) for f of shape .*; let value\(y, f\) return"),
        (Column(), r"a derivative\(y, f\) of shape \(\d+, 1\) for f of shape \(\d+,\)"),
        (Words(), r"a derivative\(y, f\) that is not numbers; let derivative\(y, f\) return"),
        (Lost(), r"a derivative\(y, f\) of nan"),
        (Bent(), r"a curvature\(y, f\) of -1 at .*; let it be 0 or more"),
        (WithoutDerivative(), r"has no derivative\(y, f\); define it"),
        (WithoutValue(), r"has no value\(y, f\); define it"),
        (WithoutKinks(), r"has no kinks\(y\); define it"),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, losses.Loss) else "",
)
def test_a_loss_that_does_not_answer_is_refused(loss: Any, match: str) -> None:
    model = mc.KernelMachineRegressor(RBF, loss=loss)
    with pytest.raises(MercerError, match=match) as caught:
        model.fit(X, Y)
    assert str(caught.value).startswith("KernelMachineRegressor: loss = ")
    assert str(caught.value).endswith(".")
    assert not hasattr(model, "dual_coef_")


class Savage(losses.ClassificationLoss):
    """Not convex: 1 / (1 + exp(y f))^2."""

    def value(self, y: Any, f: Any) -> Any:
        return 1 / (1 + np.exp(y * f)) ** 2

    def derivative(self, y: Any, f: Any) -> Any:
        return -2 * y * np.exp(y * f) / (1 + np.exp(y * f)) ** 3


def test_who_classifies_is_told_of_a_loss_for_classes() -> None:
    with pytest.raises(ParameterError, match=r"not convex.*Logistic\(\)"):
        mc.KernelMachineClassifier(RBF, loss=Savage()).fit(X, LABELS)


def test_one_class_is_refused() -> None:
    for model in (mc.KernelLogisticRegression(), mc.KernelMachineClassifier(loss="hinge")):
        with pytest.raises(DataError, match=r"only one class, 'yes', .* at least two classes"):
            model.fit(X, np.full(N, "yes"))


def test_labels_without_an_order_are_refused() -> None:
    with pytest.raises(DataError, match=r"labels that have no order.*drop the rows"):
        mc.KernelLogisticRegression().fit(X, np.array(["a", None] * (N // 2), dtype=object))


class Slopeless(mc.penalties.Penalty):
    def value(self, t: Any) -> Any:
        return t


class Flat(mc.penalties.Penalty):
    def value(self, t: Any) -> Any:
        return 3.0

    def derivative(self, t: Any) -> Any:
        return 1.0


@pytest.mark.parametrize(
    ("penalty", "match"),
    [
        (Slopeless(), r"has no derivative\(t\); define it"),
        (Flat(), r"a value\(t\) of shape \(\) .* a number for each"),
    ],
)
def test_a_penalty_that_does_not_answer_is_refused(penalty: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        mc.KernelMachineRegressor(RBF, penalty=penalty).fit(X, Y)


# Probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_a_loss_without_probabilities_says_why(method: str) -> None:
    for loss in ("hinge", "squared_hinge"):
        model = mc.KernelMachineClassifier(RBF, loss=loss)
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match=f"{method}: .* no probabilities.*logistic"):
            getattr(model, method)
    assert not hasattr(mc.KernelMachineClassifier(RBF, loss="nonsense"), method)


def test_the_loss_that_was_fitted_decides_on_probabilities() -> None:
    model = mc.KernelMachineClassifier(RBF, loss="hinge").fit(X, LABELS)
    assert not hasattr(model.set_params(loss="logistic"), "predict_proba")
    assert hasattr(model.fit(X, LABELS).set_params(loss="hinge"), "predict_proba")


def extended(model: Any, f: Array) -> NDArray[np.longdouble]:
    """Log-probabilities from their definitions, in numbers of a larger range."""
    wide = f.astype(np.longdouble)
    odds = wide * (2 if isinstance(model.loss_, losses.Exponential) else 1)
    if f.ndim == 1:
        return np.asarray(-np.log1p(np.exp(np.column_stack([odds, -odds]))))
    logarithms = wide if isinstance(model.loss_, losses.Logistic) else -np.log1p(np.exp(-odds))
    others = np.exp(logarithms[:, None, :] - logarithms[:, :, None])
    others[:, range(f.shape[1]), range(f.shape[1])] = 0
    return np.asarray(-np.log1p(others.sum(axis=2)))


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp < 16000, reason="no wider range of numbers")
@pytest.mark.parametrize("labels", [LABELS, THREE])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_log_probabilities_do_not_underflow(loss: str, labels: Any) -> None:
    model = mc.KernelMachineClassifier(mc.Linear(), loss=loss, alpha=0.1).fit(X, labels)
    for scale in (1.0, 300.0):  # log-odds of thousands, whose probabilities are no numbers
        fresh = scale * X
        logarithms = model.predict_log_proba(fresh)
        assert np.isfinite(logarithms).all()
        expected = extended(model, model.decision_function(fresh))
        np.testing.assert_allclose(logarithms, expected.astype(float), rtol=1e-12, atol=1e-15)
        shares = model.predict_proba(fresh)
        np.testing.assert_allclose(shares, np.exp(expected).astype(float), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert logarithms.min() < -800


def test_a_users_probability_has_a_logarithm() -> None:
    class Squares(losses.ClassificationLoss):
        def value(self, y: Any, f: Any) -> Any:
            return (1 - y * f) ** 2

        def derivative(self, y: Any, f: Any) -> Any:
            return -2 * y * (1 - y * f)

        def probability(self, f: Any) -> Any:
            return np.clip((f + 1) / 2, 0, 1)

    model = mc.KernelMachineClassifier(RBF, loss=Squares()).fit(X, LABELS)
    second = np.clip((model.decision_function(X) + 1) / 2, 0, 1)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], second, rtol=1e-12)
    inside = second > 0
    np.testing.assert_allclose(
        model.predict_log_proba(X)[inside, 1], np.log(second[inside]), rtol=1e-12, atol=1e-12
    )
