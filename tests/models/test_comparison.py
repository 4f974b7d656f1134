"""A comparison: scores of scikit-learn on the same folds, in order, with failures as lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import kernels
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import mercer as mc
from mercer.exceptions import DataError, ParameterError, ParameterTypeError
from mercer.models import comparison

RNG = np.random.default_rng(2)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=60)
MODELS: dict[str, Any] = {
    "kernel": mc.RBF(1.0),
    "line": LinearRegression(),
    "mean": DummyRegressor(),
    "process": mc.GaussianProcessRegressor(1.0 * mc.RBF(1.0)),
}


def test_scores_are_those_of_cross_validation_on_the_same_folds() -> None:
    folds = KFold(4, shuffle=True, random_state=0)
    table = mc.compare(MODELS, X, Y, cv=folds)
    for name, model in MODELS.items():
        given = mc.KernelRidge(model, alpha="loo") if isinstance(model, mc.Kernel) else model
        assert_allclose(table[name].scores, cross_val_score(given, X, Y, cv=folds), rtol=1e-9)
    means = [result.score for result in table.results]
    assert means == sorted(means, reverse=True)
    assert table.results[-1].name == "mean"
    assert len(table) == 4


def test_errors_of_differences_are_paired() -> None:
    frame = mc.compare(MODELS, X, Y).to_frame()
    assert frame.loc[frame.index[0], "difference"] == 0
    folds = [cross_val_score(m, X, Y, cv=5) for m in (MODELS["process"], LinearRegression())]
    table = mc.compare({"process": MODELS["process"], "line": MODELS["line"]}, X, Y)
    difference = folds[1] - folds[0]
    line = table.to_frame().loc["line"]
    assert line["difference"] == pytest.approx(difference.mean(), rel=1e-6)
    expected = np.std(difference, ddof=1) / np.sqrt(5)
    assert line["difference_std_error"] == pytest.approx(expected, rel=1e-6)
    assert line["std_error"] == pytest.approx(np.std(folds[1], ddof=1) / np.sqrt(5))


def test_models_tell_what_they_know() -> None:
    table = mc.compare(MODELS, X, Y)
    ridge = mc.KernelRidge(mc.RBF(1.0), alpha="loo").fit(X, Y)
    loo = np.sqrt(np.mean(ridge.loo_residuals_**2))
    assert table["kernel"].loo_error == pytest.approx(loo)
    assert table["kernel"].dof == pytest.approx(ridge.effective_dof_)
    process = table["process"].model
    assert table["process"].log_likelihood == process.log_marginal_likelihood_
    assert np.isnan(table["line"].dof)
    assert all(result.seconds >= 0 for result in table.results)
    assert process.predict(X).shape == (60,)


def test_a_model_that_fails_is_a_line_with_its_error() -> None:
    table = mc.compare({"fails": mc.Chi2(), "line": LinearRegression()}, X, Y)
    assert [result.name for result in table.results] == ["line", "fails"]
    assert "Negative values" in table["fails"].error
    assert np.isnan(table["fails"].scores).all()
    assert "fails failed: KernelRidge: Negative values" in repr(table)
    alone = mc.compare([mc.Chi2()], X, Y)
    assert alone.best.error


@pytest.mark.parametrize("kind", [np.asarray, lambda y: pd.Series(y).astype("category")])
def test_kernels_of_labels_are_logistic_regressions(kind: Any) -> None:
    data, target = load_iris(return_X_y=True)
    names = kind(np.array(["a", "b", "c"])[target])
    table = mc.compare([mc.RBF("scale"), mc.Linear()], data, names, cv=3)
    assert table.scoring == "accuracy"
    assert all(isinstance(r.model, mc.KernelLogisticRegression) for r in table.results)
    assert table.best.score > 0.9


def test_whole_numbers_are_labels_if_they_are_few() -> None:
    few, many = np.arange(60) % 3, np.arange(60)
    assert mc.compare([mc.RBF(1.0)], X, few).scoring == "accuracy"
    assert mc.compare([mc.RBF(1.0)], X, many).scoring == "r2"
    assert mc.compare([mc.RBF(1.0)], X, few.astype(float)).scoring == "r2"
    assert mc.compare([mc.RBF(1.0), LinearRegression()], X, few).scoring == "r2"
    assert mc.compare([mc.RBF(1.0), mc.SVC()], X, few).scoring == "accuracy"


def test_other_scores_frames_and_groups_are_taken() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    kernels = [mc.RBF(1.0).on("a"), mc.RBF(1.0).on("b")]
    error = "neg_mean_absolute_error"
    table = mc.compare(kernels, frame, Y, cv=GroupKFold(3), scoring=error, groups=np.arange(60) % 6)
    assert table.scoring == error
    assert table.best.score < 0
    assert len(table.best.scores) == 3


def test_equal_models_of_a_list_are_numbered() -> None:
    table = mc.compare([mc.RBF(1.0), mc.RBF(1.0)], X, Y, cv=2)
    assert sorted(r.name for r in table.results) == [
        "RBF()",
        "RBF() (2)",
    ]
    with pytest.raises(KeyError, match="was not compared"):
        table["Linear()"]


def test_long_comparisons_report_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison, "_PATIENCE", 0.0)
    mc.compare([DummyRegressor(), LinearRegression()], X, Y)
    assert "compare: 1 of 2 models after" in capsys.readouterr().err
    monkeypatch.undo()
    mc.compare([DummyRegressor(), LinearRegression()], X, Y)
    assert capsys.readouterr().err == ""


def test_tables_print() -> None:
    table = mc.compare(MODELS, X, Y)
    title, header, *lines = repr(table).splitlines()
    assert title == "r2, mean of 5 folds (standard error)"
    assert header.split()[:3] == ["model", "score", "to"]
    assert len(lines) == 4
    assert table._repr_html_().count("<tr>") == 5


@pytest.mark.parametrize("models", [[], {}, None, mc.RBF(), "RBF"])
def test_nothing_to_compare_is_refused(models: Any) -> None:
    with pytest.raises(ParameterError, match=r"compare: models = .* holds no models; pass a list"):
        mc.compare(models, X, Y)


def test_too_few_rows_or_targets_are_refused() -> None:
    for data, targets in ((X, Y[:5]), (X[:3], Y[:3])):
        with pytest.raises(DataError, match=r"compare: .* Pass one target for each row"):
            mc.compare([mc.RBF()], data, targets)


@pytest.mark.parametrize("model", [mc.KernelRidge, 3.0])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ParameterTypeError, match="neither a kernel nor a model with fit"):
        mc.compare({"it": model}, X, Y)


def test_the_target_may_be_a_column_of_the_data_frame() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = mc.compare(MODELS, frame.assign(target=Y), "target")
    given = mc.compare(MODELS, frame, Y)
    for name in MODELS:
        assert_allclose(named[name].scores, given[name].scores)
    with pytest.raises(DataError, match="did you mean 'target'"):
        mc.compare(MODELS, frame.assign(target=Y), "targets")


def test_an_unknown_scoring_is_refused_before_any_fit() -> None:
    with pytest.raises(ParameterError, match=r"'r22' is not a scorer .* did you mean 'r2'"):
        mc.compare(MODELS, X, Y, scoring="r22")
    with pytest.raises(ParameterError, match="the names are those of"):
        mc.compare(MODELS, X, Y, scoring="quite another")


def test_a_list_may_hold_names_of_kernels_pairs_and_kernels_of_scikit_learn() -> None:
    given = ["rbf", ("line", mc.Linear()), kernels.RBF(1.0), ("mean", DummyRegressor())]
    table = mc.compare(given, X, Y, cv=3)
    assert {r.name for r in table.results} == {"rbf", "line", "RBF(length_scale=1)", "mean"}
    expected = cross_val_score(mc.KernelRidge("rbf", alpha="loo"), X, Y, cv=3)
    assert_allclose(table["rbf"].scores, expected)
    assert not any(r.error for r in table.results)
    by_name = mc.compare({"smooth": "rbf"}, X, Y, cv=3)
    assert_allclose(by_name["smooth"].scores, expected)
    with pytest.raises(ParameterError, match="compare: kernel = 'rfb' is not the name of a kernel"):
        mc.compare(["rfb"], X, Y)
    with pytest.raises(ParameterTypeError, match="is a class, which is neither a kernel nor"):
        mc.compare([mc.RBF], X, Y)
