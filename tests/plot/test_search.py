"""The scores of a search: maps, curves and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.svm import SVC

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
RBF = mc.RBF(length_scale=1.5)
MOONS, LABELS = make_moons(60, noise=0.3, random_state=0)
draw = mc.plot.SearchDisplay.from_estimator


def test_the_search_is_the_models() -> None:
    scales = [0.5, 5.0, 1.0]
    alphas = [1.0, 0.01, 0.1]
    model = mc.KernelRidge(mc.RBF(), alpha="gcv", alphas=alphas, length_scales=scales).fit(X, Y)
    display = draw(model)
    np.testing.assert_array_equal(display.parameters["alpha"], np.sort(alphas))
    np.testing.assert_allclose(display.parameters["length_scale"], np.sort(scales))
    expected = model.search_errors_[np.ix_([0, 2, 1], [1, 2, 0])]
    np.testing.assert_array_equal(display.scores, expected)
    assert display.image_ is not None
    np.testing.assert_array_equal(np.ma.getdata(display.image_.get_array()), expected)
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    assert display.ax_.get_ylabel() == "length_scale"
    best = display.best_.get_xydata()[0]  # type: ignore[index]
    assert best[0] == model.alpha_
    assert best[1] == pytest.approx(model.kernel_.length_scale)  # type: ignore[attr-defined]
    assert display.near_best_ is None
    assert display.figure_.axes[-1].get_ylabel() == "GCV error"


def test_the_line_of_a_ridge_search_is_one_standard_error_above_the_least() -> None:
    scales = np.geomspace(0.1, 10, 8)
    model = mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=scales).fit(X, Y)
    squares = model.loo_residuals_**2
    display = draw(model)
    assert display.near_best_ is not None
    level = model.search_errors_.min() + np.std(squares, ddof=1) / np.sqrt(len(X))
    np.testing.assert_allclose(display.near_best_.levels, [level], rtol=1e-6)


def test_a_search_over_several_parameters_names_them() -> None:
    kernel = mc.RBF().on(0) + mc.Matern().on(1)
    lengths = {"rbf__length_scale": [1.0, 2.0], "matern__length_scale": [3.0]}
    display = draw(mc.KernelRidge(kernel, alpha=0.5, length_scales=lengths).fit(X, Y))
    assert list(display.parameters) == ["rbf__length_scale"]
    assert display.scores.shape == (2,)
    assert display.ax_.get_ylabel() == "leave-one-out error"
    lengths["matern__length_scale"] = [3.0, 4.0]
    display = draw(mc.KernelRidge(kernel, alpha="loo", length_scales=lengths).fit(X, Y))
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert sorted(ticks) == ["1, 3", "1, 4", "2, 3", "2, 4"]


def test_multiples_of_a_vector_of_length_scales_are_numbers() -> None:
    vector = np.array([1.0, 2.0, 4.0])
    scales = [0.1 * vector, vector, 5 * vector]
    display = draw(mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=scales).fit(X, Y))
    means = display.parameters["length_scale (geometric mean)"]
    np.testing.assert_allclose(means, [0.2, 2.0, 10.0])


def test_one_alpha_of_zero_is_a_curve_over_kernels() -> None:
    only_zero = mc.KernelRidge(mc.RBF(), alpha=0, length_scales=[1.0, 2.0]).fit(X, Y)
    assert draw(only_zero).scores.shape == (2,)


@pytest.mark.parametrize(
    "search",
    [
        mc.SVCSearch(Cs=[0.1, 1.0, 10.0], length_scales=[0.3, 1.0, 3.0]),
        GridSearchCV(
            mc.SVC(mc.RBF()),
            {"C": [10.0, 0.1, 1.0], "kernel__length_scale": [3.0, 0.3, 1.0]},
        ),
    ],
    ids=lambda search: type(search).__name__,
)
def test_cross_validation_over_two_numbers_is_a_map(search: Any) -> None:
    display = draw(search.fit(MOONS, LABELS))
    assert list(display.parameters) == ["C", "length_scale"]
    table = search.cv_results_
    for params, score in zip(table["params"], table["mean_test_score"], strict=True):
        column = list(display.parameters["C"]).index(params["C"])
        row = list(display.parameters["length_scale"]).index(params["kernel__length_scale"])
        assert display.scores[row, column] == score
    assert display.larger_is_better
    assert display.criterion == "accuracy"
    best = table["std_test_score"][search.best_index_] / np.sqrt(5)
    assert display.standard_error == pytest.approx(best)
    if display.near_best_ is not None:
        np.testing.assert_allclose(display.near_best_.levels, [search.best_score_ - best])
    assert "best: C = " in display.ax_.get_title()


def test_one_number_is_a_curve_of_errors_with_the_sign_of_errors() -> None:
    search = GridSearchCV(
        mc.KernelRidge(RBF), {"alpha": [1.0, 0.1, 10.0]}, scoring="neg_mean_squared_error"
    ).fit(X, Y)
    display = draw(search)
    order = [1, 0, 2]
    assert display.line_ is not None
    np.testing.assert_array_equal(display.line_.get_xdata(), [0.1, 1.0, 10.0])
    errors = -search.cv_results_["mean_test_score"][order]
    np.testing.assert_allclose(display.line_.get_ydata(), errors)
    assert (display.criterion, display.larger_is_better) == ("mean squared error", False)
    assert display.near_best_ is not None
    near = errors.min() + search.cv_results_["std_test_score"][search.best_index_] / np.sqrt(5)
    assert display.near_best_.get_ydata()[0] == pytest.approx(near)
    assert display.ax_.get_xscale() == "log"


def test_other_parameters_are_a_list_with_the_best_first() -> None:
    kernels = [mc.RBF(), mc.Linear()]
    grid = {"kernel": kernels, "C": [1.0, 10.0], "class_weight": [None, "balanced"]}
    search = GridSearchCV(mc.SVC(), grid).fit(MOONS, LABELS)
    display = draw(search)
    assert display.line_ is not None
    scores = np.sort(search.cv_results_["mean_test_score"])[::-1]
    np.testing.assert_array_equal(display.line_.get_xdata(), scores)
    labels = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert len(labels) == 8
    assert "RBF()" in labels[0]
    random = RandomizedSearchCV(
        SVC(), {"C": np.geomspace(0.1, 10, 30), "gamma": np.geomspace(0.1, 10, 30)}, n_iter=25,
        random_state=0,
    ).fit(MOONS, LABELS)  # fmt: skip
    assert draw(random).scores.shape == (20,)


def test_a_number_and_a_kernel_are_a_map_with_names() -> None:
    search = GridSearchCV(mc.SVC(), {"kernel": [mc.RBF(), mc.Linear()], "C": [1.0, 10.0]})
    display = draw(search.fit(MOONS, LABELS))
    assert display.scores.shape == (2, 2)
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == ["RBF()", "Linear()"]
    assert display.near_best_ is None


def test_grids_with_different_parameters_are_a_list() -> None:
    grids = [{"C": [1.0, 2.0]}, {"kernel": ["linear"], "C": [1.0]}]
    display = draw(GridSearchCV(SVC(), grids).fit(MOONS, LABELS))
    labels = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert sorted(labels) == ["C = 1", "C = 1, kernel = linear", "C = 2"]


def test_failed_candidates_are_left_out() -> None:
    search = GridSearchCV(SVC(), {"C": [1.0, -1.0, 10.0]})
    with pytest.warns(Warning, match="fits failed|non-finite"):
        search.fit(MOONS, LABELS)
    display = draw(search)
    assert np.isnan(display.scores).sum() == 1
    assert np.isfinite(display.best_.get_ydata()).all()  # type: ignore[call-overload]
    search.set_params(scoring=lambda *_: np.nan, param_grid={"C": [1.0, 10.0]})
    with pytest.warns(Warning, match="non-finite"):
        search.fit(MOONS, LABELS)
    with pytest.raises(ParameterError, match="no candidate of GridSearchCV has a finite score"):
        draw(search)


def test_one_of_several_scores_is_drawn() -> None:
    scoring = ["accuracy", "roc_auc"]
    search = GridSearchCV(SVC(), {"C": [1.0, 10.0]}, scoring=scoring, refit="roc_auc")
    display = draw(search.fit(MOONS, LABELS))
    np.testing.assert_array_equal(display.scores, search.cv_results_["mean_test_roc_auc"])
    assert display.criterion == "roc auc"
    with pytest.raises(ParameterError, match="several scores and refit = False; pass the name"):
        draw(search.set_params(refit=False).fit(MOONS, LABELS))


@pytest.mark.parametrize("criterion", ["loo", "cv"])
def test_the_search_of_a_machine_is_drawn(criterion: str) -> None:
    model = mc.KernelLogisticRegression(mc.RBF(), alpha=criterion, length_scales=[0.5, 1.0, 2.0])
    display = draw(model.fit(X, Y > 0))
    known = np.where(np.isfinite(model.search_errors_), model.search_errors_, np.nan)
    np.testing.assert_array_equal(display.scores, known)
    names = {"loo": "leave-one-out error", "cv": "cross-validation error"}
    assert display.criterion == names[criterion]
    assert display.best_.get_xydata()[0][0] == model.alpha_  # type: ignore[index]


@pytest.mark.parametrize(
    "model", [mc.KernelRidge(RBF, alpha="loo"), mc.KernelHuberRegressor(RBF, alpha="loo")]
)
def test_the_errors_of_one_kernel_are_a_curve(model: Any) -> None:
    display = draw(model.fit(X, Y))
    errors = model.search_errors_[0]
    np.testing.assert_array_equal(display.line_.get_xdata(), model.alphas_)
    np.testing.assert_array_equal(
        display.line_.get_ydata(), np.where(np.isfinite(errors), errors, np.nan)
    )
    best = display.best_.get_xydata()[0]  # type: ignore[index]
    assert best.tolist() == [model.alpha_, errors.min()]
    assert display.ax_.get_xscale() == "log"
