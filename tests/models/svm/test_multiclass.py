"""Machines of several classes: one function for each pair or each class, votes and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_digits, load_iris
from sklearn.multiclass import OneVsRestClassifier

import mercer as mc
from irises import NAMES, SPECIES, TOL, TWO, WEIGHTS, X, Z, nearness
from mercer.exceptions import DataError

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"kernel": "linear"},
    {"kernel": "poly"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
    {"kernel": "rbf", "gamma": "auto"},
    {"kernel": "rbf", "gamma": 2.0, "C": 10.0},
    {"class_weight": "balanced"},
    {"class_weight": {"setosa": 2.0, "versicolor": 0.5}},
    {"decision_function_shape": "ovo"},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_three_classes(arguments: dict[str, Any], weights: Any) -> None:
    ours = mc.SVC(tol=TOL, **arguments).fit(X, NAMES, weights)
    theirs = svm.SVC(tol=TOL, **arguments).fit(X, NAMES, weights)
    assert ours.converged_
    assert ours.dual_coef_.shape == (2, len(ours.support_))
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.n_support_.sum() == len(ours.support_)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=nearness(ours))
    np.testing.assert_allclose(
        ours.decision_function(Z), theirs.decision_function(Z), atol=nearness(ours)
    )
    np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)


def test_the_layout_of_coefficients() -> None:
    ours, theirs = (
        Machine(C=10.0, gamma=0.5, tol=1e-10).fit(X, NAMES) for Machine in (mc.SVC, svm.SVC)
    )
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)


def test_balanced_weights_count_the_rows_of_positive_weight() -> None:
    """scikit-learn counts all rows, so that it is given those that count."""
    weights = np.where(np.arange(len(X)) % 3 > 0, WEIGHTS, 0.0)
    ours = mc.SVC(class_weight="balanced", gamma=0.5, tol=TOL).fit(X, TWO, weights)
    kept = weights > 0
    theirs = svm.SVC(class_weight="balanced", gamma=0.5, tol=TOL)
    theirs.fit(X[kept], TWO[kept], weights[kept])
    np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(
        ours.decision_function(Z), theirs.decision_function(Z), atol=nearness(ours)
    )


def test_values_of_zero_belong_to_the_second_class() -> None:
    apart, sides = np.array([[-1.0], [1.0]]), np.array(["a", "b"])
    for machine in (mc.SVC, svm.SVC):
        model = machine(kernel="linear").fit(apart, sides)
        assert model.decision_function([[0.0]]) == 0
        assert model.predict([[0.0]]) == "b"


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(DataError, match="only one class"):
        mc.SVC().fit(X[:50], SPECIES[:50])


def test_one_class_against_the_rest() -> None:
    data, y = load_iris(return_X_y=True)
    ours = mc.SVC(multi_class="ovr", tol=1e-8).fit(data, y)
    peer = OneVsRestClassifier(svm.SVC(tol=1e-8)).fit(data, y)
    np.testing.assert_allclose(
        ours.decision_function(data), peer.decision_function(data), atol=1e-3
    )
    assert ours.dual_coef_.shape[0] == 3


@pytest.mark.filterwarnings("ignore:.*nearly 0 for all pairs")
def test_ties_are_broken_by_the_decision_function() -> None:
    data, y = load_digits(return_X_y=True)
    data, y = data[:400], y[:400]
    model = mc.SVC(C=0.05).fit(data, y)
    scores = model.decision_function(data)
    np.testing.assert_array_equal(model.predict(data), model.classes_[scores.argmax(axis=1)])
    first = mc.SVC(C=0.05, break_ties=False).fit(data, y)
    np.testing.assert_array_equal(first.predict(data), svm.SVC(C=0.05).fit(data, y).predict(data))
