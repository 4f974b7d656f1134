"""Kernel discriminant analysis against linear discriminants and ridge on codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, make_circles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, ParameterError

IRIS, SPECIES = load_iris(return_X_y=True)


@parametrize_with_checks(
    [mc.KernelDiscriminantAnalysis(), mc.KernelDiscriminantAnalysis(alpha=1.0)]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def explained(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Shares of the variance of columns that are linear functions of others."""
    design = np.column_stack([np.ones(len(first)), first])
    rest = second - design @ np.linalg.lstsq(design, second, rcond=None)[0]
    return 1 - rest.var(axis=0) / second.var(axis=0)


def test_the_linear_kernel_spans_linear_discriminants() -> None:
    model = mc.KernelDiscriminantAnalysis(mc.Linear(), alpha=1e-8).fit(IRIS, SPECIES)
    linear = LinearDiscriminantAnalysis().fit(IRIS, SPECIES)
    np.testing.assert_allclose(explained(model.transform(IRIS), linear.transform(IRIS)), 1.0)
    assert np.mean(model.predict(IRIS) == linear.predict(IRIS)) > 0.98
    assert np.abs(model.predict_proba(IRIS) - linear.predict_proba(IRIS)).mean() < 0.01


def test_two_classes_give_ridge_on_codes() -> None:
    X, y = make_circles(100, factor=0.4, noise=0.1, random_state=0)
    model = mc.KernelDiscriminantAnalysis(mc.RBF(0.5), alpha=0.1).fit(X, y)
    ridge = mc.KernelRidge(mc.RBF(0.5), alpha=0.1).fit(X, np.where(y, 1.0, -1.0))
    correlation = np.corrcoef(model.transform(X)[:, 0], ridge.predict(X))[0, 1]
    assert abs(correlation) == pytest.approx(1.0)
    assert model.score(X, y) > 0.95


def test_coordinates_are_sums_over_points() -> None:
    model = mc.KernelDiscriminantAnalysis(mc.RBF(1.0)).fit(IRIS[::2], SPECIES[::2])
    expected = mc.RBF(1.0)(IRIS, IRIS[::2]) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.transform(IRIS), expected, atol=1e-9)


def test_left_out_values_have_unit_variance_within_classes() -> None:
    model = mc.KernelDiscriminantAnalysis(mc.RBF(1.0)).fit(IRIS, SPECIES)
    indicators = (SPECIES[:, None] == model.classes_).astype(float)
    places = model._directions.place(indicators - model.ridge_.loo_residuals_)
    apart = places - np.array([places[c == SPECIES].mean(axis=0) for c in range(3)])[SPECIES]
    np.testing.assert_allclose(apart.T @ apart / (150 - 3), np.eye(2), atol=1e-6)


def test_probabilities_and_scores_agree() -> None:
    model = mc.KernelDiscriminantAnalysis().fit(IRIS[::2], SPECIES[::2])
    proba = model.predict_proba(IRIS)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(IRIS)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(IRIS)), proba)


def test_digits_are_told_apart_by_new_rows() -> None:
    X, y = load_digits(return_X_y=True)
    model = mc.KernelDiscriminantAnalysis().fit(X[:600], y[:600])
    linear = LinearDiscriminantAnalysis().fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > linear.score(X[600:], y[600:]) + 0.02


def test_priors_move_the_boundary() -> None:
    X, y = make_circles(100, factor=0.6, noise=0.15, random_state=0)
    even = mc.KernelDiscriminantAnalysis(mc.RBF(0.5)).fit(X, y)
    rare = mc.KernelDiscriminantAnalysis(mc.RBF(0.5), priors=[0.95, 0.05]).fit(X, y)
    assert rare.predict(X).sum() < even.predict(X).sum()
    np.testing.assert_allclose(
        rare.decision_function(X) - even.decision_function(X), np.log(0.05 / 0.95), atol=1e-9
    )


def test_a_column_of_a_frame_names_the_labels() -> None:
    frame = pd.DataFrame(IRIS, columns=list("abcd")).assign(kind=np.array(list("xyz"))[SPECIES])
    model = mc.KernelDiscriminantAnalysis().fit(frame, "kind")
    assert set(model.predict(frame)) == set("xyz")


def test_landmarks_serve_many_rows() -> None:
    solver = mc.solvers.NystromSolver(40, random_state=0)
    model = mc.KernelDiscriminantAnalysis(solver=solver, alpha=0.1).fit(IRIS, SPECIES)
    assert len(model.points_) <= 40
    assert model.score(IRIS, SPECIES) > 0.95


def test_bad_input() -> None:
    with pytest.raises(DataError, match="only one class"):
        mc.KernelDiscriminantAnalysis().fit(IRIS, np.zeros(150))
    with pytest.raises(ParameterError, match="at most 2"):
        mc.KernelDiscriminantAnalysis(n_components=3).fit(IRIS, SPECIES)
    with pytest.raises(ParameterError, match="priors"):
        mc.KernelDiscriminantAnalysis(priors=[0.5, 0.5]).fit(IRIS, SPECIES)


def test_weights_of_classes_are_weights_of_rows() -> None:
    keep = np.r_[0:50, 50:60, 100:150]
    X, y = IRIS[keep], SPECIES[keep]
    weights = np.array([2.0, 5.0, 1.0])
    by_class = mc.KernelDiscriminantAnalysis(alpha=0.1, class_weight=dict(enumerate(weights)))
    by_row = mc.KernelDiscriminantAnalysis(alpha=0.1).fit(X, y, weights[y])
    np.testing.assert_allclose(by_class.fit(X, y).predict_proba(X), by_row.predict_proba(X))
    balanced = mc.KernelDiscriminantAnalysis(alpha=0.1, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(balanced.priors_, 1 / 3)
