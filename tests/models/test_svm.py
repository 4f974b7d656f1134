"""Support vector machines against scikit-learn's, whose code they replace."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from mercer.models.kernel_matrix import LazyMatrix

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
SIGNS = np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * RNG.normal(size=90) > 0, "yes", "no")
CLASSES = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.2, 1.0, 2.0])
Y = np.sin(X[:, 0]) + X[:, 1]
WEIGHTS = RNG.uniform(0.5, 2.0, size=90)
NEW = RNG.normal(size=(40, 3))
TIGHT = 1e-7

NAMED: list[dict[str, Any]] = [
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.3},
    {"gamma": "auto"},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
    {"kernel": "poly", "gamma": 0.5},
]


# Weighted and repeated rows are the same to within the tolerance: they are compared to 1e-7.
@parametrize_with_checks([mc.SVC(tol=1e-10), mc.SVR(tol=1e-10), mc.OneClassSVM(tol=1e-10)])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def libsvm(name: str, **parameters: Any) -> Any:
    return getattr(sklearn.svm, name)(tol=TIGHT, **parameters)


@pytest.mark.parametrize("parameters", NAMED)
@pytest.mark.parametrize("labels", [SIGNS, CLASSES], ids=["two", "four"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_classification_is_that_of_libsvm(parameters: Any, labels: Any, weights: Any) -> None:
    peer = libsvm("SVC", C=2.0, **parameters).fit(X, labels, weights)
    model = mc.SVC(C=2.0, tol=TIGHT, break_ties=False, **parameters).fit(X, labels, weights)
    assert (model.predict(NEW) == peer.predict(NEW)).all()
    assert model.decision_function(NEW) == pytest.approx(peer.decision_function(NEW), abs=1e-3)
    assert model.support_.tolist() == peer.support_.tolist()
    assert model.n_support_.tolist() == peer.n_support_.tolist()
    assert model.dual_coef_ == pytest.approx(peer.dual_coef_, abs=1e-3)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-3)
    assert model.support_vectors_ == pytest.approx(peer.support_vectors_)
    assert model.classes_.tolist() == peer.classes_.tolist()
    assert model.converged_
    assert model.dual_gap_ < 1e-4


def test_the_default_kernel_is_that_of_libsvm() -> None:
    expected = libsvm("SVC").fit(X, SIGNS).decision_function(NEW)
    assert mc.SVC(tol=TIGHT).fit(X, SIGNS).decision_function(NEW) == pytest.approx(
        expected, abs=1e-3
    )


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_shapes_of_the_decision_function(shape: str) -> None:
    peer = libsvm("SVC", decision_function_shape=shape).fit(X, CLASSES)
    model = mc.SVC(tol=TIGHT, decision_function_shape=shape).fit(X, CLASSES)
    assert model.decision_function(NEW) == pytest.approx(peer.decision_function(NEW), abs=1e-3)


def test_predictions_are_the_largest_value() -> None:
    model = mc.SVC(tol=TIGHT).fit(X, CLASSES)
    values = model.decision_function(NEW)
    assert (model.predict(NEW) == model.classes_[values.argmax(axis=1)]).all()


@pytest.mark.parametrize("weights", [{0: 3.0, 2: 0.5}, "balanced"])
def test_weights_of_classes(weights: Any) -> None:
    peer = libsvm("SVC", class_weight=weights).fit(X, CLASSES)
    model = mc.SVC(tol=TIGHT, class_weight=weights).fit(X, CLASSES)
    assert model.decision_function(NEW) == pytest.approx(peer.decision_function(NEW), abs=1e-3)


@pytest.mark.parametrize("parameters", NAMED)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_regression_is_that_of_libsvm(parameters: Any, weights: Any) -> None:
    peer = libsvm("SVR", C=2.0, **parameters).fit(X, Y, weights)
    model = mc.SVR(C=2.0, tol=TIGHT, **parameters).fit(X, Y, weights)
    assert model.predict(NEW) == pytest.approx(peer.predict(NEW), abs=1e-3)
    assert model.support_.tolist() == peer.support_.tolist()
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-3)


@pytest.mark.parametrize("nu", [0.1, 0.5])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_novelties_are_those_of_libsvm(nu: float, weights: Any) -> None:
    peer = libsvm("OneClassSVM", nu=nu, gamma=0.5).fit(X, sample_weight=weights)
    model = mc.OneClassSVM(nu=nu, gamma=0.5, tol=TIGHT).fit(X, sample_weight=weights)
    assert model.decision_function(NEW) == pytest.approx(peer.decision_function(NEW), abs=1e-3)
    assert model.score_samples(NEW) == pytest.approx(peer.score_samples(NEW), abs=1e-3)
    assert (model.predict(NEW) == peer.predict(NEW)).all()
    counted = np.ones(90) if weights is None else weights
    below = counted[model.decision_function(X) < -1e-6].sum() / counted.sum()
    carrying = counted[model.support_].sum() / counted.sum()
    assert below <= nu <= carrying + 1e-9


def test_a_weight_of_zero_is_a_row_removed() -> None:
    weights = np.where(np.arange(90) % 3, 1.0, 0.0)
    kept = weights > 0
    for model, y in ((mc.SVC(tol=TIGHT), CLASSES), (mc.SVR(tol=TIGHT), Y)):
        kernel = mc.RBF(length_scale=1.0)
        whole = clone(model).set_params(kernel=kernel).fit(X, y, weights)
        part = clone(model).set_params(kernel=kernel).fit(X[kept], y[kept])
        values = whole._function_values(NEW)
        assert values == pytest.approx(part._function_values(NEW), abs=1e-4)
        assert set(whole.support_) <= set(np.flatnonzero(kept))


def test_a_given_matrix_is_used_as_it_is() -> None:
    kernel = mc.RBF(length_scale=1.2)
    K, cross = kernel(X), kernel(NEW, X)
    expected = mc.SVC(kernel, tol=TIGHT).fit(X, CLASSES).decision_function(NEW)
    for given in ("precomputed", mc.Precomputed()):
        model = mc.SVC(given, tol=TIGHT).fit(K, CLASSES)
        assert model.decision_function(cross) == pytest.approx(expected, abs=1e-5)


def test_sparse_rows_give_the_same() -> None:
    dense = np.where(np.abs(X) > 0.5, X, 0.0)
    kernel = mc.RBF(length_scale=1.0)
    expected = mc.SVC(kernel, tol=TIGHT).fit(dense, SIGNS)
    model = mc.SVC(kernel, tol=TIGHT).fit(sp.csr_array(dense), SIGNS)
    values = model.decision_function(sp.csr_array(dense))
    assert values == pytest.approx(expected.decision_function(dense), abs=1e-5)


def test_strings_and_columns_by_name() -> None:
    words = ["abab", "baba", "abba", "cdcd", "dcdc", "cddc"]
    model = mc.SVC(mc.Spectrum(2), C=10.0).fit(words, [0, 0, 0, 1, 1, 1])
    assert model.predict(["ababab", "cdcdcd"]).tolist() == [0, 1]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = mc.SVC(mc.RBF().on("b", "a"), tol=TIGHT).fit(frame, SIGNS)
    by_number = mc.SVC(mc.RBF(), tol=TIGHT).fit(X[:, :2], SIGNS)
    assert by_name.decision_function(frame) == pytest.approx(
        by_number.decision_function(X[:, :2]), abs=1e-5
    )
    assert list(by_name.support_vectors_.columns) == ["a", "b", "c"]


def test_many_rows_take_the_lazy_matrix() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2200, 2))
    labels = np.digitize(x[:, 0] + 0.3 * rng.normal(size=2200), [0.0])
    peer = libsvm("SVC", gamma=0.5).fit(x, labels)
    model = mc.SVC(mc.RBF(), tol=1e-5).fit(x, labels)
    assert model.decision_function(x) == pytest.approx(peer.decision_function(x), abs=1e-3)
    three = np.digitize(x[:, 0], [-0.5, 0.5])
    model = mc.SVC(mc.RBF(), tol=1e-5, break_ties=False).fit(x, three)
    peer = libsvm("SVC", gamma=0.5).fit(x, three)
    assert (model.predict(x) == peer.predict(x)).mean() > 0.999


def test_single_precision_data() -> None:
    narrow = X.astype(np.float32)
    model = mc.SVC(mc.RBF()).fit(narrow, SIGNS)
    expected = mc.SVC(mc.RBF()).fit(X, SIGNS).decision_function(NEW)
    assert model.decision_function(NEW.astype(np.float32)) == pytest.approx(expected, abs=5e-3)


def test_a_grid_of_kernels_scores_differently() -> None:
    grid = {"kernel__length_scale": [0.01, 1.0, 100.0]}
    search = GridSearchCV(mc.SVC(mc.RBF(length_scale=1.0)), grid, cv=3).fit(X, SIGNS)
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_contributions_add_up() -> None:
    model = mc.SVC(mc.RBF()).fit(X, SIGNS)
    explained = model.contributions(NEW, top=5)
    assert explained.prediction == pytest.approx(model.decision_function(NEW))


def test_contributions_of_several_classes_add_up_the_pairs() -> None:
    model = mc.SVC(mc.RBF(), decision_function_shape="ovo").fit(X, CLASSES)
    pairs = model.decision_function(NEW)
    expected = pairs[:, [0, 1, 2]].sum(axis=1)  # the first class against the others
    found = model.contributions(NEW, top=5, output=0)
    assert found.prediction == pytest.approx(expected)
    third = model.contributions(NEW, top=5, output=2)
    assert third.prediction == pytest.approx(pairs[:, 5] - pairs[:, 1] - pairs[:, 3])
    assert (X[third.rows[0]] == third.points(0)).all()


def test_data_may_change_after_the_fit() -> None:
    data = X.copy()
    model = mc.SVC(mc.RBF()).fit(data, SIGNS)
    before = model.decision_function(NEW)
    data[:] = 0.0
    assert (model.decision_function(NEW) == before).all()


def test_stopping_short_is_said() -> None:
    with pytest.warns(NumericalWarning, match="stopped after 3 exchanges"):
        model = mc.SVC(max_iter=3).fit(X, SIGNS)
    assert not model.converged_
    assert model.violation_ > model.tol
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mc.SVC(max_iter=-1).fit(X, SIGNS).converged_


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"C": 0.0}, "C = 0.0 is not a number > 0"),
        ({"C": "1"}, "C = '1' is not a number"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"kernel": "gauss"}, "is not one of 'linear'"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma"),
        ({"kernel": mc.RBF(), "gamma": 1.0}, "goes with a kernel by name"),
        ({"decision_function_shape": "all"}, "decision_function_shape"),
        ({"break_ties": "yes"}, "break_ties"),
    ],
)
def test_wrong_parameters_are_refused(parameters: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        mc.SVC(**parameters).fit(X, SIGNS)


def test_wrong_data_are_refused() -> None:
    with pytest.raises(DataError, match="only one class"):
        mc.SVC().fit(X, np.ones(90))
    with pytest.raises(DataError, match="one target"):
        mc.SVR().fit(X, np.ones((90, 2)))
    with pytest.raises(ParameterError, match="epsilon"):
        mc.SVR(epsilon=-1.0).fit(X, Y)
    with pytest.raises(ParameterError, match="nu"):
        mc.OneClassSVM(nu=1.5).fit(X)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
def test_hard_data_end_with_a_gap_or_a_warning(C: float) -> None:
    cases = [
        (np.repeat(X[:5], 6, axis=0), np.tile([0, 1], 15)),
        (np.zeros((10, 2)), np.arange(10) % 3),
        (X[:2], np.array([0, 1])),
        (X[:6] * 1e200, np.arange(6) % 2),
        (X[:6] * 1e-200, np.arange(6) % 2),
    ]
    for x, labels in cases:
        model = mc.SVC(mc.RBF(), C=C, max_iter=100_000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, labels)
        assert model.converged_ or caught
        assert np.isfinite(model.dual_gap_)
        assert set(model.predict(x)) <= set(labels)


def test_iris_without_order() -> None:
    x, labels = load_iris(return_X_y=True)
    order = np.random.default_rng(3).permutation(150)
    model = mc.SVC(tol=TIGHT).fit(x[order], labels[order])
    peer = libsvm("SVC").fit(x[order], labels[order])
    assert model.support_.tolist() == peer.support_.tolist()
    assert model.dual_coef_.shape == peer.dual_coef_.shape


def test_an_interrupt_keeps_the_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    block = LazyMatrix.block

    def interrupted(self: LazyMatrix, rows: Any, *, precise: bool) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt
        return block(self, rows, precise=precise)

    rng = np.random.default_rng(5)
    x = rng.normal(size=(2100, 2))
    labels = (x[:, 0] + rng.normal(size=2100) > 0).astype(int)
    monkeypatch.setattr(LazyMatrix, "block", interrupted)
    model = mc.SVC(mc.RBF())
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, labels)
    assert not model.converged_
    assert model.n_iter_[0] > 0
    assert model.score(x, labels) > 0.5


def bundle(name: str) -> Any:
    return np.load(Path(os.environ["MERCER_DATA"]) / "classification" / f"{name}.npz")


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA is not set: svmguide1")
def test_accuracies_of_the_guide_to_libsvm() -> None:
    data = bundle("svmguide1")
    train, test, y, truth = (data[k] for k in ("X_train", "X_test", "y_train", "y_test"))
    low, high = train.min(axis=0), train.max(axis=0)
    scaled = [2 * (x - low) / (high - low) - 1 for x in (train, test)]

    def correct(a: Array, b: Array, **parameters: Any) -> int:
        model = mc.SVC("rbf", tol=1e-6, **parameters).fit(a, y)
        return int((model.predict(b) == truth).sum())

    assert correct(train, test, C=1.0, gamma=0.25) == 2677  # of 4,000: 66.925 %
    # The guide has 96.15 %, one row more: its value is 2e-4, and LIBSVM too misses it when it goes
    # on below its default tolerance.
    assert correct(*scaled, C=1.0, gamma=0.25) == 3845
    assert correct(*scaled, C=2.0, gamma=2.0) == 3875  # 96.875 %


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA is not set: USPS")
def test_error_on_usps() -> None:
    data = bundle("usps")
    model = mc.SVC("rbf", C=10.0, gamma=1 / 128).fit(data["X_train"], data["y_train"])
    assert (model.predict(data["X_test"]) != data["y_test"]).mean() <= 0.047
