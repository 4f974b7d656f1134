"""Support vector regression, checked by definition."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.exceptions import DataWarning
from moons import NUMBERS, RBF, K, X, Z


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_conditions_of_a_regression(epsilon: float) -> None:
    model = mc.SVR(RBF, C=2.0, epsilon=epsilon, tol=1e-6).fit(X, NUMBERS)
    b = np.zeros(len(X))
    b[model.support_] = model.dual_coef_[0]
    residuals = NUMBERS - (K @ b + model.intercept_[0])
    for i in range(len(X)):
        if b[i] == 0:
            assert abs(residuals[i]) <= epsilon + 2e-6
        elif abs(b[i]) == 2.0:
            assert np.sign(b[i]) * residuals[i] >= epsilon - 2e-6
        else:
            assert abs(np.sign(b[i]) * residuals[i] - epsilon) <= 2e-6
    loss = np.maximum(0, np.abs(residuals) - epsilon).sum()
    primal = b @ K @ b / 2 + 2.0 * loss
    assert abs(primal + model.objective_ - model.dual_gap_) < 1e-8 * primal


def test_a_tube_that_was_found_is_one_that_could_be_given() -> None:
    found = mc.NuSVR(RBF, nu=0.3, C=5.0, tol=1e-8).fit(X, NUMBERS)
    given = mc.SVR(RBF, C=5.0, epsilon=found.epsilon_, tol=1e-8).fit(X, NUMBERS)
    np.testing.assert_allclose(found.predict(Z), given.predict(Z), atol=1e-3)


@pytest.mark.filterwarnings("ignore:SVR. epsilon")
@pytest.mark.parametrize("machine", [mc.SVR, mc.NuSVR])
@pytest.mark.parametrize("scale", [0.0, 1e-4])
def test_functions_without_support_vectors_are_constants(machine: Any, scale: float) -> None:
    model = machine().fit(X, 3.0 + scale * NUMBERS)
    np.testing.assert_allclose(model.predict(Z), 3.0, atol=0.01)
    assert len(model.contributions(Z[:2])) == 2
    assert len(model.support_) == model.dual_coef_.shape[1] == len(model.support_vectors_)


def test_costs_beyond_all_bounds_change_nothing() -> None:
    targets = np.sin(X[:, 0])  # which some function meets, so that no coefficient is at a bound
    found = []
    for C in (1e8, 1e12):
        # Rows that are off by tol cost more than the function, and a gap says so.
        with pytest.warns(ConvergenceWarning, match="more than the objective itself"):
            found.append(mc.SVR(RBF, C=C).fit(X, targets).predict(Z))
    np.testing.assert_allclose(found[1], found[0], atol=0.01)


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_no_errors_are_allowed_beside_the_tube(epsilon: float) -> None:
    """The gap asks for a smaller tolerance, with bounds that stay finite; LIBSVM is the oracle."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 2))
    targets = np.sin(data[:, 0])
    model = mc.SVR(mc.RBF(), C=np.inf, epsilon=epsilon).fit(data, targets)
    assert model.converged_
    assert np.isfinite(model.dual_gap_)
    assert np.abs(model.predict(data) - targets).max() < epsilon + 1e-3
    oracle = svm.SVR(gamma=0.5, C=1e6, epsilon=epsilon, tol=1e-8).fit(data, targets)
    np.testing.assert_allclose(model.predict(data), oracle.predict(data), atol=2e-3)


def test_a_tube_that_holds_all_targets_is_said() -> None:
    X = np.linspace(0, 1, 30)[:, None]
    y = 1e-6 * np.sin(6 * X.ravel())
    with pytest.warns(DataWarning, match=r"half the range of y, 2e-06.*lower epsilon"):
        model = mc.SVR(mc.RBF(0.3)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), model.predict(X[:1])[0], atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mc.SVR(mc.RBF(0.3), epsilon=0.01).fit(X, 1e6 * y).score(X, 1e6 * y) > 0.9
