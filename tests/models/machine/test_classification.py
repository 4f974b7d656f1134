"""Classifiers of any convex loss against peers and their optimality conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import (
    LogisticRegression,
)
from sklearn.svm import SVC, LinearSVC

import mercer as mc
from machine_problems import BINARY, RBF, THREE, WEIGHTS, N, X, Z, objective
from mercer import losses
from mercer.exceptions import (
    DataError,
    NumericalWarning,
    ParameterError,
)
from mercer.solvers.newton import curvature

Array = NDArray[np.floating[Any]]
LABELLED = ["logistic", "hinge", "squared_hinge", "exponential"]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["binary", "multinomial"])
def test_a_linear_kernel_is_logistic_regression(
    fit_intercept: bool, weights: Array | None, labels: NDArray[Any]
) -> None:
    peer = LogisticRegression(
        C=1 / 0.2, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12
    ).fit(X, labels, weights)
    model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.2, fit_intercept=fit_intercept)
    model.fit(X, labels, weights)
    np.testing.assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(Z), peer.predict(Z))
    if labels is BINARY:
        np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), rtol=1e-6)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5])
def test_hinge_is_the_support_vector_machine(weights: Array | None) -> None:
    alpha, gamma = 0.4, 1 / (2 * 1.5**2)
    peer = SVC(C=1 / alpha, gamma=gamma, tol=1e-9).fit(X, BINARY, weights)
    model = mc.KernelMachineClassifier(RBF, loss="hinge", alpha=alpha).fit(X, BINARY, weights)
    np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), atol=1e-6)
    w = np.ones(N) if weights is None else weights
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    K = RBF(X)
    dual = np.zeros(N)
    dual[peer.support_] = peer.dual_coef_[0]
    peers = (
        w @ np.maximum(1 - signs * (K @ dual + peer.intercept_), 0) + alpha / 2 * dual @ K @ dual
    )
    own = objective(model, RBF, X, signs, weights)
    assert own <= peers * (1 + 1e-9)
    assert own == pytest.approx(peers, rel=1e-6)


def test_squared_hinge_has_half_the_peers_c() -> None:
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    peer = LinearSVC(C=1 / (2 * 0.3), fit_intercept=False, tol=1e-10, max_iter=100_000)
    model = mc.KernelMachineClassifier(
        mc.Linear(), loss="squared_hinge", alpha=0.3, fit_intercept=False
    )
    expected = peer.fit(X, signs).decision_function(Z)
    np.testing.assert_allclose(model.fit(X, signs).decision_function(Z), expected, rtol=1e-6)


@pytest.mark.parametrize("labels", [BINARY, THREE])
def test_the_multinomial_loss_is_the_logistic_one(labels: Any) -> None:
    model = mc.KernelMachineClassifier(RBF, loss=losses.Multinomial(), alpha=0.3).fit(X, labels)
    other = mc.KernelLogisticRegression(RBF, alpha=0.3).fit(X, labels)
    np.testing.assert_array_equal(model.predict_proba(Z), other.predict_proba(Z))


@pytest.mark.parametrize("loss", LABELLED)
def test_classifiers_meet_their_dual_bound(loss: str) -> None:
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.1).fit(X, BINARY)
    a, K = model.dual_coef_, RBF(X)
    bound = -np.sum(model.loss_.conjugate(signs, -0.1 * a)) - 0.05 * a @ K @ a
    primal = objective(model, RBF, X, signs)
    assert 0 <= primal - bound + 1e-9 * primal <= 2e-8 * primal


def test_the_gradient_norm_is_the_gradients() -> None:
    model = mc.KernelMachineClassifier(RBF, alpha=0.1, max_iter=2, tol=1e-12)
    with pytest.warns(NumericalWarning, match="stopped after 2 steps with a norm of the gradient"):
        model.fit(X, BINARY)
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    K, a = RBF(X), model.dual_coef_
    slopes = losses.Logistic().derivative(signs, K @ a + model.intercept_)
    gradient = 0.1 * a + slopes
    # With an intercept, f is orthogonal to the mean of the kernel; the sum is the intercept's part.
    centred = gradient - gradient.mean()
    expected = np.sqrt(centred @ K @ centred + slopes.sum() ** 2)
    assert model.gradient_norm_ == pytest.approx(expected, rel=1e-6)


def test_a_multinomial_machine_is_at_its_minimum() -> None:
    model = mc.KernelLogisticRegression(RBF, alpha=0.05).fit(X, THREE, WEIGHTS + 1)
    K, codes = RBF(X), THREE
    shape = (N + 1, 3)

    def function(flat: Array) -> float:
        a, b = flat.reshape(shape)[:-1], flat.reshape(shape)[-1]
        value = (WEIGHTS + 1) @ losses.Multinomial().value(codes, K @ a + b)
        return float(value + 0.025 * np.sum(a * (K @ a)))

    start = np.vstack([model.dual_coef_, model.intercept_]).ravel()
    rng = np.random.default_rng(2)
    least = function(start)
    for size in np.geomspace(1e-4, 1, 20):
        assert function(start + size * rng.normal(size=start.size)) >= least * (1 - 1e-12)
    np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-9)
    slopes = (WEIGHTS + 1)[:, None] * losses.Multinomial().derivative(
        codes, K @ model.dual_coef_ + model.intercept_
    )
    np.testing.assert_allclose(-0.05 * model.dual_coef_, slopes, atol=1e-7)


@pytest.mark.parametrize("loss", LABELLED)
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_integer_weights_are_repeated_rows_for_classes_too(loss: str, labels: Any) -> None:
    rows = np.repeat(np.arange(N), WEIGHTS.astype(int))
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.5)
    weighted = model.fit(X, labels, WEIGHTS).decision_function(Z)
    repeated = model.fit(X[rows], labels[rows]).decision_function(Z)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-7)


def test_a_class_whose_rows_have_no_weight_is_no_class() -> None:
    weights = (THREE != 1).astype(float)
    model = mc.KernelMachineClassifier(RBF).fit(X, THREE, weights)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    with pytest.raises(DataError, match="only one class"):
        model.fit(X, THREE, (THREE == 1).astype(float))


class Modified(losses.ClassificationLoss):
    """Huber's loss of the margin, a class of a user."""

    def value(self, y: Any, f: Any) -> Any:
        m = y * f
        return np.where(m < 0, 1 - 2 * m, np.maximum(1 - m, 0) ** 2)

    def derivative(self, y: Any, f: Any) -> Any:
        m = y * f
        return -2 * y * np.where(m < 0, 1.0, np.maximum(1 - m, 0))


def test_a_users_loss_of_classes_is_minimised() -> None:
    model = mc.KernelMachineClassifier(RBF, loss=Modified(), alpha=0.3).fit(X, BINARY)
    signs = np.where(BINARY == "yes", 1.0, -1.0)
    least = objective(model, RBF, X, signs)
    dual = model.dual_coef_
    for size in np.geomspace(1e-4, 1, 10):
        model.dual_coef_ = dual + size * np.random.default_rng(3).normal(size=N)
        assert objective(model, RBF, X, signs) >= least * (1 - 1e-12)
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_probabilities_sum_to_one_and_agree_with_predict(loss: str, labels: Any) -> None:
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.1).fit(X, labels)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    assert model.score(X, labels) > 0.7


def test_losses_without_probabilities_have_no_predict_proba() -> None:
    model = mc.KernelMachineClassifier(RBF, loss="hinge").fit(X, BINARY)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


def test_logistic_probabilities_average_to_the_share_of_the_class() -> None:
    model = mc.KernelLogisticRegression(RBF, alpha=0.1).fit(X, THREE)
    shares = [np.mean(c == THREE) for c in range(3)]
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), shares, rtol=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "exponential"])
def test_a_function_that_is_zero_is_no_reason_for_alarm(loss: str) -> None:
    model = mc.KernelMachineClassifier(mc.RBF(length_scale=1.0), loss=loss)
    model.fit(np.ones((10, 1)), [0, 1] * 5)
    assert model.converged_
    np.testing.assert_allclose(model.decision_function(np.ones((1, 1))), 0, atol=1e-12)


class Savage(losses.ClassificationLoss):
    """Not convex: 1 / (1 + exp(y f))^2."""

    def value(self, y: Any, f: Any) -> Any:
        return 1 / (1 + np.exp(y * f)) ** 2

    def derivative(self, y: Any, f: Any) -> Any:
        return -2 * y * np.exp(y * f) / (1 + np.exp(y * f)) ** 3


def test_who_classifies_is_told_of_a_loss_for_classes() -> None:
    with pytest.raises(ParameterError, match=r"not convex.*Logistic\(\)"):
        mc.KernelMachineClassifier(RBF, loss=Savage()).fit(X, BINARY)


def test_one_class_is_refused() -> None:
    for model in (mc.KernelLogisticRegression(), mc.KernelMachineClassifier(loss="hinge")):
        with pytest.raises(DataError, match=r"only one class, 'yes', .* at least two classes"):
            model.fit(X, np.full(N, "yes"))


def test_labels_without_an_order_are_refused() -> None:
    with pytest.raises(DataError, match=r"labels that have no order.*drop the rows"):
        mc.KernelLogisticRegression().fit(X, np.array(["a", None] * (N // 2), dtype=object))


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_a_loss_without_probabilities_says_why(method: str) -> None:
    for loss in ("hinge", "squared_hinge"):
        model = mc.KernelMachineClassifier(RBF, loss=loss)
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match=f"{method}: .* no probabilities.*logistic"):
            getattr(model, method)
    assert not hasattr(mc.KernelMachineClassifier(RBF, loss="nonsense"), method)


def test_the_loss_that_was_fitted_decides_on_probabilities() -> None:
    model = mc.KernelMachineClassifier(RBF, loss="hinge").fit(X, BINARY)
    assert not hasattr(model.set_params(loss="logistic"), "predict_proba")
    assert hasattr(model.fit(X, BINARY).set_params(loss="hinge"), "predict_proba")


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
@pytest.mark.parametrize("labels", [BINARY, THREE])
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

    model = mc.KernelMachineClassifier(RBF, loss=Squares()).fit(X, BINARY)
    second = np.clip((model.decision_function(X) + 1) / 2, 0, 1)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], second, rtol=1e-12)
    inside = second > 0
    np.testing.assert_allclose(
        model.predict_log_proba(X)[inside, 1], np.log(second[inside]), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_many_classes_by_iterations_are_those_of_factors(
    alpha: float, fit_intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(140) % 20
    rows = rng.normal(size=(20, 3))[labels] + 0.3 * rng.normal(size=(140, 3))
    weights = rng.uniform(0.5, 2, size=140)
    model = mc.KernelLogisticRegression(mc.RBF(1.0), alpha, fit_intercept)
    iterated = clone(model).fit(rows, labels, weights)
    assert iterated.converged_
    monkeypatch.setattr("mercer.solvers.machine_fit._FEW_FUNCTIONS", 20)
    exact = clone(model).fit(rows, labels, weights)
    np.testing.assert_allclose(
        iterated.predict_proba(rows), exact.predict_proba(rows), rtol=1e-5, atol=1e-8
    )
    np.testing.assert_allclose(iterated.dual_coef_.sum(axis=1), 0, atol=1e-6)


def test_steps_with_many_classes_take_no_factor_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[int] = []
    whole = curvature.factorised

    def counted(matrix: Any) -> Any:
        orders.append(len(matrix))
        return whole(matrix)

    monkeypatch.setattr(curvature, "factorised", counted)
    rng = np.random.default_rng(1)
    labels = np.arange(120) % 40
    rows = rng.normal(size=(40, 3))[labels] + 0.3 * rng.normal(size=(120, 3))
    model = mc.KernelLogisticRegression(mc.RBF(1.0)).fit(rows, labels)
    assert model.converged_
    assert not orders
    assert model.n_iter_ < 20


@pytest.mark.parametrize("loss", LABELLED)
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_a_class_weight_of_two_is_every_row_of_the_class_repeated(
    labels: NDArray[Any], loss: str
) -> None:
    first = np.unique(labels)[0]
    rows = np.r_[np.arange(N), np.flatnonzero(labels == first)]
    model = mc.KernelMachineClassifier(RBF, loss=loss, alpha=0.5)
    weighted = clone(model).set_params(class_weight={first: 2.0}).fit(X, labels)
    repeated = clone(model).fit(X[rows], labels[rows])
    expected = repeated.decision_function(Z)
    np.testing.assert_allclose(weighted.decision_function(Z), expected, atol=1e-5)
    assert weighted.class_weight_.tolist() == [2.0] + [1.0] * (len(weighted.classes_) - 1)


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
def test_balanced_weights_are_those_of_logistic_regression(labels: NDArray[Any]) -> None:
    peer = LogisticRegression(
        C=1 / 0.2, class_weight="balanced", solver="newton-cholesky", tol=1e-12
    ).fit(X, labels)
    model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.2, class_weight="balanced")
    probabilities = model.fit(X, labels).predict_proba(Z)
    np.testing.assert_allclose(probabilities, peer.predict_proba(Z), rtol=1e-6)


def test_class_weights_multiply_sample_weights_in_a_search_too() -> None:
    factors = {label: 1.0 + i for i, label in enumerate(np.unique(BINARY))}
    product = WEIGHTS * np.array([factors[label] for label in BINARY])
    model = mc.KernelLogisticRegression(RBF, alpha="loo", class_weight=factors)
    model.fit(X, BINARY, WEIGHTS)
    plain = mc.KernelLogisticRegression(RBF, alpha="loo").fit(X, BINARY, product)
    np.testing.assert_allclose(model.search_errors_, plain.search_errors_)
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_)


def test_class_weights_need_rows_in_memory() -> None:
    solver = mc.solvers.NystromSolver(10, random_state=0)
    model = mc.KernelLogisticRegression(RBF, class_weight="balanced", solver=solver)
    with pytest.raises(DataError, match="class_weight counts rows in memory"):
        model.fit(mc.Blocks([(X[:20], BINARY[:20]), (X[20:], BINARY[20:])]))
