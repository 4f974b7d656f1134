"""Scores of rows left out and their table, against grid searches of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn import svm
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, precision_score
from sklearn.model_selection import GridSearchCV

import mercer as mc
from mercer.exceptions import DataWarning, ParameterError
from moons import RBF, X, Y

Array = NDArray[np.floating[Any]]


def test_folds_that_stop_short_are_told_of() -> None:
    with pytest.warns(ConvergenceWarning, match="SVCSearch: 5 of the machines"):
        mc.SVCSearch(mc.SVC(RBF, max_iter=1), [1.0], None, refit=False).fit(X, Y)


def test_scores_that_are_no_numbers_rank_last() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 2))
    rare = (data[:, 0] + 0.5 * rng.normal(size=200) > 1.3).astype(int)
    costs, scoring = [1e-3, 1.0, 10.0], make_scorer(precision_score, zero_division=np.nan)
    search = mc.SVCSearch(mc.SVC(gamma=0.5, tol=1e-6), costs, None, scoring=scoring)
    with pytest.warns(UserWarning, match="mean scores of 1 of 3 candidates are not finite"):
        search.fit(data, rare)
    grid = GridSearchCV(svm.SVC(gamma=0.5, tol=1e-6), {"C": costs}, scoring=scoring)
    with pytest.warns(UserWarning, match="non-finite"):
        grid.fit(data, rare)
    for name in ("rank_test_score", "mean_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], grid.cv_results_[name], atol=1e-12)
    assert search.best_params_["C"] == grid.best_params_["C"] == 1.0


def test_no_candidate_has_a_score() -> None:
    search = mc.SVCSearch(mc.SVC(RBF), [1.0, 2.0], None, scoring=lambda *_: np.nan)
    with pytest.warns(UserWarning, match="no candidate has a score, and the first is taken"):
        search.fit(X, Y)
    assert search.cv_results_["rank_test_score"].tolist() == [1, 1]
    assert search.best_params_["C"] == 1.0


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, csr_array])
def test_a_scorer_receives_the_rows_left_out(kind: Any) -> None:
    def right_hand_side(model: Any, rows: Any, labels: Array) -> float:
        first = np.asarray(rows.todense() if hasattr(rows, "todense") else rows)[:, 0]
        return float(np.mean((model.predict(rows) == labels)[first > 0.5]))

    data = kind(X)
    search = mc.SVC(RBF, tol=1e-6).path(data, Y, [1.0], scoring=right_hand_side)
    grid = GridSearchCV(svm.SVC(gamma=2.0, tol=1e-6), {"C": [1.0]}, scoring=right_hand_side)
    assert search.best_score_ == pytest.approx(grid.fit(X, Y).best_score_, abs=1e-12)


def test_scorers_that_cannot_be_served() -> None:
    def search(scoring: Any) -> None:
        mc.SVC(RBF).path(X, Y, [1.0], scoring=scoring)

    with pytest.raises(ParameterError, match="asks for other rows than those left out"):
        search(lambda model, rows, labels: model.predict(rows[:3]).mean())
    with pytest.raises(ParameterError, match=r"scoring = \['accuracy', 'f1'\] is several scores"):
        search(["accuracy", "f1"])
    with pytest.raises(ParameterError, match=r"scoring returns .*, which is not a number"):
        search(lambda model, rows, labels: {"one": 1.0})
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        search(lambda model, rows, labels: rows.nothing)


@pytest.mark.parametrize("scoring", [None, "roc_auc"])
def test_weights_count_in_learning_and_in_scores(scoring: Any) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 2))
    y = (data[:, 0] + rng.normal(size=200) > 0).astype(int)
    weights = rng.uniform(0, 3, size=200)
    weights[::7] = 0.0
    model, costs = mc.SVC(mc.RBF(), tol=1e-6), [0.1, 1.0, 10.0]
    search = mc.SVCSearch(model, costs, [1.0], scoring=scoring).fit(data, y, weights)
    grid = GridSearchCV(model, {"C": costs, "kernel__length_scale": [1.0]}, scoring=scoring)
    grid.fit(data, y, sample_weight=weights)
    same_table(search.cv_results_, grid.cv_results_)
    np.testing.assert_allclose(search.predict(data), grid.predict(data))
    plain = mc.SVCSearch(model, costs, [1.0], scoring=scoring).fit(data, y)
    assert plain.best_score_ != pytest.approx(search.best_score_, abs=1e-3)


def test_scorers_without_weights_are_told_of() -> None:
    def right(model: Any, rows: Any, labels: Array) -> float:
        return float(np.mean(model.predict(rows) == labels))

    weights = np.random.default_rng(0).uniform(0, 3, size=len(X))
    model = mc.SVC(RBF, tol=1e-6)
    with pytest.warns(DataWarning, match=r"scoring = .*right.* takes no sample_weight"):
        search = model.path(X, Y, [1.0, 5.0], scoring=right, sample_weight=weights)
    grid = GridSearchCV(model, {"C": [1.0, 5.0]}, scoring=right)
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        grid.fit(X, Y, sample_weight=weights)
    same_table(search.cv_results_, grid.cv_results_)


def same_table(found: Any, want: Any) -> None:
    """Names, order, types and values, but for the times."""
    assert list(found) == list(want)
    for name, values in want.items():
        if name == "params":
            assert found[name] == values
            continue
        assert type(found[name]) is type(values)
        assert found[name].dtype == values.dtype
        if name.startswith("param_"):
            np.testing.assert_array_equal(found[name].mask, values.mask)
        if not name.endswith("_time"):
            np.testing.assert_allclose(found[name], values, atol=1e-12)


@pytest.mark.parametrize("lengths", [[3.0, 0.5, 1.0], None])
def test_the_table_is_that_of_a_grid_search(lengths: Any) -> None:
    """On iris many candidates tie, and the first of them is best."""
    data, y = load_iris(return_X_y=True)
    model, costs = mc.SVC(mc.RBF(), tol=1e-6), [10.0, 1.0, 5.0]
    grid = {"C": costs} | ({} if lengths is None else {"kernel__length_scale": lengths})
    search = mc.SVCSearch(model, costs, lengths).fit(data, y)
    want = GridSearchCV(model, grid).fit(data, y)
    same_table(search.cv_results_, want.cv_results_)
    assert search.best_params_ == want.best_params_
    assert search.best_index_ == want.best_index_
    np.testing.assert_array_equal(
        search.decision_function(data), want.best_estimator_.decision_function(data)
    )


def test_length_scales_by_path_are_in_the_order_of_their_names() -> None:
    kernel = mc.RBF(length_scale=1.0).on(0) + mc.Matern(nu=1.5, length_scale=1.0).on(1)
    paths = [path for path in kernel.get_params() if path.endswith("length_scale")]
    lengths = {paths[1]: [2.0, 0.5], paths[0]: [1.0]}
    model = mc.SVC(kernel, tol=1e-6)
    search = model.path(X, Y, [1.0, 10.0], lengths)
    grid = {"C": [1.0, 10.0]} | {f"kernel__{path}": values for path, values in lengths.items()}
    want = GridSearchCV(model, grid).fit(X, Y)
    same_table(search.cv_results_, want.cv_results_)
    assert search.best_params_ == want.best_params_


def test_values_for_each_column_are_objects() -> None:
    model = mc.SVC(mc.RBF(length_scale=[1.0, 2.0]))
    search = mc.SVCSearch(model, [1.0], [[0.5, 0.5], [1.0, 2.0]]).fit(X, Y)
    column = search.cv_results_["param_kernel__length_scale"]
    assert column.dtype == object
    assert [list(value) for value in column] == [[0.5, 0.5], [1.0, 2.0]]
