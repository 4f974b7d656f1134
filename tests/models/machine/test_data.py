"""Machines and their data: units, and losses and penalties that users get wrong."""

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
    with pytest.raises(DataError, match=r"the largest target is .*e\+150 .*; divide y"):
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
