"""The search of C and length-scales, against grid searches of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.solvers.box_qp import kernel_matrix as kernel_matrices
from mercer.solvers.box_qp.kernel_matrix import StoredMatrix
from moons import RBF, X, Y


@pytest.mark.parametrize("classes", [2, 3])
def test_the_search_finds_what_a_grid_search_finds(classes: int) -> None:
    data, y = load_iris(return_X_y=True)
    y = y if classes == 3 else (y == 1).astype(int)
    data = data + 0.3 * np.random.default_rng(2).normal(size=data.shape)
    costs, lengths = [0.1, 1.0, 10.0], [0.5, 1.0, 3.0]
    search = mc.SVCSearch(mc.SVC(tol=1e-6), costs, lengths).fit(data, y)
    grid = GridSearchCV(
        svm.SVC(tol=1e-6), {"gamma": [0.5 / length**2 for length in lengths], "C": costs}
    ).fit(data, y)
    table = {
        (p["C"], round(0.5 / p["kernel__length_scale"] ** 2, 9)): k
        for k, p in enumerate(search.cv_results_["params"])
    }
    order = [table[p["C"], round(p["gamma"], 9)] for p in grid.cv_results_["params"]]
    for name, values in grid.cv_results_.items():
        if name.endswith("test_score") and not name.startswith("rank"):
            np.testing.assert_allclose(search.cv_results_[name][order], values, atol=1e-12)
    assert set(search.cv_results_) - set(grid.cv_results_) == {"param_kernel__length_scale"}
    assert set(grid.cv_results_) - set(search.cv_results_) == {"param_gamma"}
    assert search.best_score_ == pytest.approx(grid.best_score_)
    best = search.best_params_
    alone = mc.SVC(mc.RBF(length_scale=best["kernel__length_scale"]), C=best["C"], tol=1e-6)
    np.testing.assert_array_equal(search.predict(data), alone.fit(data, y).predict(data))
    assert search.score(data, y) == search.best_estimator_.score(data, y)


def test_the_path_of_a_machine_is_a_search() -> None:
    found = mc.SVC(RBF).path(X, Y, [1.0, 5.0], [0.3, 0.5], cv=3)
    search = mc.SVCSearch(mc.SVC(RBF), [1.0, 5.0], [0.3, 0.5], cv=3).fit(X, Y)
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


def test_other_scores_and_folds() -> None:
    folds = list(StratifiedKFold(3).split(X, Y))
    search = mc.SVCSearch(mc.SVC(RBF), [1.0], None, cv=folds, scoring="roc_auc", refit=False)
    search.fit(X, Y)
    scores = []
    for train, held in folds:
        peer = svm.SVC(gamma=2.0).fit(X[train], Y[train]).decision_function(X[held])
        wins = peer[Y[held] == 1][:, None] > peer[Y[held] == 0]
        scores.append(wins.mean())
    assert search.best_score_ == pytest.approx(np.mean(scores), abs=1e-3)
    assert search.n_splits_ == 3
    assert not hasattr(search, "predict")


@pytest.mark.parametrize("form", [np.ndarray.tolist, lambda rows: np.isin(np.arange(len(X)), rows)])
def test_folds_may_be_lists_or_flags(form: Any) -> None:
    folds = [(form(train), form(held)) for train, held in StratifiedKFold(3).split(X, Y)]
    search = mc.SVCSearch(mc.SVC(RBF, tol=1e-6), [1.0, 10.0], None, cv=folds).fit(X, Y)
    grid = GridSearchCV(svm.SVC(gamma=2.0, tol=1e-6), {"C": [1.0, 10.0]}, cv=folds).fit(X, Y)
    for number in range(3):
        name = f"split{number}_test_score"
        np.testing.assert_array_equal(search.cv_results_[name], grid.cv_results_[name])


def test_named_kernels_are_searched_as_they_are() -> None:
    for arguments in ({"gamma": 20.0}, {"kernel": "linear"}, {"kernel": "poly", "gamma": 0.5}):
        search = mc.SVC(tol=1e-6, **arguments).path(X, Y, [1.0, 10.0])
        grid = GridSearchCV(svm.SVC(tol=1e-6, **arguments), {"C": [1.0, 10.0]}).fit(X, Y)
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"], atol=1e-12
        )
    train = mc.RBF(length_scale=0.5)(X)
    given = mc.SVC(kernel="precomputed").path(train, Y, [1.0])
    assert given.best_score_ == pytest.approx(mc.SVC(RBF).path(X, Y, [1.0]).best_score_)


def test_scores_and_probabilities_of_the_best() -> None:
    labels = (Y == 1) & (X[:, 0] > 0.5)
    search = mc.SVCSearch(mc.SVC(RBF, probability=True), [1.0], None, scoring="f1").fit(X, labels)
    grid = GridSearchCV(svm.SVC(gamma=2.0), {"C": [1.0]}, scoring="f1").fit(X, labels)
    assert search.score(X, labels) == pytest.approx(grid.score(X, labels), abs=0.02)
    assert search.predict_proba(X).shape == (len(X), 2)
    assert search.refit_time_ > 0
    with pytest.raises(ParameterError, match="scoring needs probabilities"):
        mc.SVCSearch(mc.SVC(RBF, probability=True), [1.0], None, scoring="neg_log_loss").fit(X, Y)


def test_groups_stay_together() -> None:
    groups = np.arange(len(X)) // 10
    search = mc.SVCSearch(mc.SVC(RBF), [1.0], None, cv=GroupKFold(4)).fit(X, Y, groups=groups)
    want = GridSearchCV(svm.SVC(gamma=2.0), {"C": [1.0]}, cv=GroupKFold(4))
    want.fit(X, Y, groups=groups)
    assert search.best_score_ == pytest.approx(want.best_score_, abs=0.01)
    path = mc.SVC(RBF).path(X, Y, [1.0], cv=GroupKFold(4), groups=groups)
    assert path.best_score_ == search.best_score_


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (mc.SVCSearch(Cs=[]), r"Cs = \[\]"),
        (mc.SVCSearch(Cs=[-1.0]), r"Cs = \[-1\.0\]"),
        (mc.SVCSearch(mc.NuSVC()), "is not a mercer.SVC"),
        (mc.SVCSearch(svm.SVC()), "is not a mercer.SVC"),
        (mc.SVCSearch(mc.SVC(mc.Linear()), length_scales=[1.0]), "SVCSearch: length_scales"),
        (mc.SVCSearch(mc.SVC(solver=mc.solvers.NystromSolver(5))), "has landmarks"),
        (mc.SVCSearch(mc.SVC(C={0: 1.0, 1: 2.0})), "gives a C to each class.*class_weight"),
        (mc.SVCSearch(length_scales="all"), "length_scales = 'all' holds no values"),
    ],
)
def test_bad_searches(search: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        search.fit(X, Y)


@pytest.mark.parametrize("arguments", [{}, {"kernel": "poly"}, {"gamma": "auto"}], ids=str)
def test_gamma_is_that_of_the_rows_learned_from(arguments: Any) -> None:
    data = X.copy()
    data[::16] *= 10.0  # so that gamma differs from fold to fold
    search = mc.SVC(tol=1e-6, **arguments).path(data, Y, [1.0, 10.0])
    grid = GridSearchCV(svm.SVC(tol=1e-6, **arguments), {"C": [1.0, 10.0]}).fit(data, Y)
    for fold in range(5):
        name = f"split{fold}_test_score"
        np.testing.assert_allclose(search.cv_results_[name], grid.cv_results_[name], atol=1e-12)
    np.testing.assert_array_equal(search.predict(data), grid.predict(data))


def test_heuristic_length_scales_are_those_of_the_rows_learned_from() -> None:
    data, weights = X.copy(), np.random.default_rng(1).uniform(0.1, 2.0, len(X))
    data[::16] *= 10.0
    model = mc.SVC(mc.RBF(length_scale="median"), tol=1e-6)
    folds, known = list(StratifiedKFold(4).split(data, Y)), []
    for train, held in folds:
        fitted = clone(model).fit(data[train], Y[train], weights[train])
        known.append(fitted.score(data[held], Y[held], weights[held]))
    search = model.path(data, Y, [1.0], cv=folds, sample_weight=weights)
    found = [search.cv_results_[f"split{fold}_test_score"][0] for fold in range(4)]
    np.testing.assert_allclose(found, known, atol=1e-12)


@pytest.mark.parametrize("n_kernels", [1, 5])
def test_folds_share_the_matrix_of_a_kernel(
    n_kernels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: one matrix for all folds, unless the kernel differs from fold to fold."""
    made: list[Any] = []
    matrix = mc.SVC._matrix
    monkeypatch.setattr(mc.SVC, "_matrix", lambda *a, **k: made.append(0) or matrix(*a, **k))
    model = mc.SVC(gamma=1.0) if n_kernels == 1 else mc.SVC(gamma="scale")
    mc.SVCSearch(model, [1.0, 10.0], None, refit=False).fit(X, Y)
    assert len(made) == n_kernels


def test_a_matrix_for_many_problems_is_stored_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_matrices, "_SMALL", 100)
    points = RBF.prepare(X)
    stored = kernel_matrices.kernel_matrix(RBF, points, reused=True)
    assert isinstance(stored, StoredMatrix)
    np.testing.assert_allclose(stored.values, rbf_kernel(X, gamma=2.0), rtol=1e-12)
    for matrix in (
        kernel_matrices.kernel_matrix(RBF, points),
        kernel_matrices.kernel_matrix(RBF, points, 8.0 * len(X) ** 2 - 1, reused=True),
    ):
        assert isinstance(matrix, kernel_matrices.LazyMatrix)


# Progress -----------------------------------------------------------------------------------------


class Watch:
    """Counts the tasks of the search itself."""

    def __init__(self) -> None:
        self.expected: int | None = None
        self.ended: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        if context.parent is None:
            self.expected = context.max_subtasks

    def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        self.ended.append(context.task_name)


@pytest.mark.parametrize("refit", [True, False])
def test_callbacks_are_told_of_every_kernel_in_every_fold(refit: bool) -> None:
    watch = Watch()
    search = mc.SVCSearch(mc.SVC(RBF), [1.0, 2.0], [0.3, 0.5], cv=3, refit=refit)
    search.set_callbacks(watch).fit(X, Y)
    assert watch.expected == 6 + refit
    assert watch.ended == ["kernel in a fold"] * 6 + ["refit"] * refit + ["fit"]


# As an estimator ----------------------------------------------------------------------------------


def test_a_search_within_a_cross_validation() -> None:
    data, y = load_iris(return_X_y=True)
    search = mc.SVCSearch(mc.SVC(gamma=0.5, tol=1e-6), [0.1, 10.0], None)
    grid = GridSearchCV(svm.SVC(gamma=0.5, tol=1e-6), {"C": [0.1, 10.0]})
    np.testing.assert_allclose(
        cross_val_score(search, data, y), cross_val_score(grid, data, y), atol=1e-12
    )


def test_before_the_fit() -> None:
    search = mc.SVCSearch(mc.SVC(RBF, probability=True), [1.0], None)
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(search, name)(X)
    with pytest.raises(NotFittedError):
        search.score(X, Y)
    assert not hasattr(mc.SVCSearch(), "predict_proba")
    with pytest.raises(AttributeError, match=r"has no predict_log_proba: .*probability=True"):
        mc.SVCSearch().predict_log_proba  # noqa: B018
    with pytest.raises(AttributeError, match="has no score: refit=False"):
        mc.SVCSearch(refit=False).score  # noqa: B018


def test_logarithms_of_probabilities() -> None:
    search = mc.SVC(RBF, probability=True, random_state=0).path(X, Y, [1.0], cv=2)
    np.testing.assert_allclose(np.exp(search.predict_log_proba(X)), search.predict_proba(X))


@pytest.mark.parametrize("kernel", ["linear", "poly", mc.RBF(length_scale=mc.Fixed(0.5))], ids=str)
def test_kernels_without_a_length_scale_to_choose(kernel: Any) -> None:
    automatic = mc.SVCSearch(mc.SVC(kernel), [1.0, 10.0]).fit(X, Y)
    as_it_is = mc.SVCSearch(mc.SVC(kernel), [1.0, 10.0], None).fit(X, Y)
    assert automatic.best_params_ == as_it_is.best_params_
    np.testing.assert_array_equal(
        automatic.cv_results_["mean_test_score"], as_it_is.cv_results_["mean_test_score"]
    )


def test_fewer_rows_than_folds_are_told_so() -> None:
    with pytest.raises(DataError, match=r"SVCSearch: .* n_samples=3. Pass more rows, or fewer"):
        mc.SVCSearch().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
