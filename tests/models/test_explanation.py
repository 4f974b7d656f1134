"""Contributions of training points: sums, orders, shapes, for every model of representer form."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.models import Contributions
from mercer.models.explanation import ExplainedModel
from mercer.models.svm.base import SupportVectorMachine
from model_samples import NOISELESS
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, _, _ = NOISELESS
RBF = mc.RBF(length_scale=1.5)


def models() -> list[type[Any]]:
    """Every public model."""
    public = (getattr(mc, name) for name in mc.__all__)
    return [c for c in public if inspect.isclass(c) and issubclass(c, ExplainedModel)]


def sum_of(found: Contributions) -> Array:
    return np.asarray(found.values.sum(axis=1) + found.rest + found.intercept)


def naive(model: Any, row: Array, top: int) -> tuple[list[int], list[float], float]:
    """Sort all terms in plain Python."""
    terms = [
        float(a) * float(model.kernel_([row], [x])[0, 0])
        for a, x in zip(model.dual_coef_, X, strict=True)
    ]
    order = sorted(range(len(terms)), key=lambda i: -abs(terms[i]))[:top]
    rest = sum(t for i, t in enumerate(terms) if i not in order)
    return order, [terms[i] for i in order], rest


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
@pytest.mark.parametrize("top", [1, 4, 30, 100])
def test_shown_rest_and_intercept_sum_to_the_function(model: type[Any], top: int) -> None:
    targets = (Y > 3).astype(int) if is_classifier(model()) else Y
    fitted = model(RBF).fit(X, targets)
    expected = fitted._function_values(Z).reshape(len(Z), -1)
    for output in range(expected.shape[1]):
        named = None if is_classifier(fitted) else output
        found = fitted.contributions(Z, top=top, output=named)
        n = len(fitted.points_)
        assert found.indices.shape == found.values.shape == (7, min(top, n))
        np.testing.assert_allclose(found.prediction, expected[:, output], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(sum_of(found), found.prediction, rtol=1e-12, atol=1e-14)
        if top >= n:
            assert np.all(found.rest == 0)


# Coefficients of support vector machines have scikit-learn's layout, and pairs of classes vote.
TRANSPARENT = [model for model in models() if not issubclass(model, SupportVectorMachine)]


@pytest.mark.parametrize("model", TRANSPARENT, ids=lambda model: model.__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_terms_are_those_of_the_formula(model: type[Any], n_classes: int) -> None:
    # The numbers that users see, from those that users see: f = K a + b.
    fitted = model(RBF)
    labels = np.digitize(Y, [3.0] if n_classes == 2 else [2.7, 3.3])
    if is_classifier(fitted):
        fitted.fit(X, labels)
        decide = getattr(fitted, "decision_function", None)
        expected = np.atleast_2d(decide(Z).T).T if decide else None
    else:
        targets = Y if n_classes == 2 or not get_tags(fitted).target_tags.multi_output else BOTH
        expected = np.atleast_2d(fitted.fit(X, targets).predict(Z).T).T
    n_outputs = fitted._function_values(Z).reshape(len(Z), -1).shape[1]
    decided = []
    for output in range(n_outputs):
        named = None if is_classifier(fitted) and n_classes == 2 else output
        found = fitted.contributions(Z, top=len(X), output=named)
        terms = np.zeros((len(Z), len(fitted.points_)))
        np.put_along_axis(terms, found.indices, found.values, axis=1)
        decided.append(terms.sum(axis=1) + found.intercept)
        cross = matrix(rbf, Z, fitted.points_.data, length_scale=fitted.kernel_.length_scale)
        shown = np.take_along_axis(cross, found.indices, axis=1)
        np.testing.assert_allclose(found.kernel_values, shown, rtol=1e-9)
        if hasattr(fitted, "dual_coef_"):
            coef = fitted.dual_coef_.reshape(len(fitted.points_), -1)[:, output]
            np.testing.assert_allclose(terms, cross * coef, rtol=1e-9, atol=1e-12)
    sums = np.column_stack(decided)
    if expected is not None:
        np.testing.assert_allclose(sums, expected, rtol=1e-8, atol=1e-10)
    else:  # a classifier that shows labels and probabilities alone
        codes = sums[:, 0] > 0 if n_outputs == 1 else sums.argmax(axis=1)
        assert fitted.predict(Z).tolist() == fitted.classes_[codes.astype(int)].tolist()


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("weights", [None, np.arange(30.0) % 4])
def test_local_regression_shares_targets(degree: Any, weights: Any) -> None:
    model = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X, BOTH, weights)
    kept = np.arange(30) if weights is None else np.flatnonzero(weights)
    w = np.ones(30) if weights is None else weights
    for row in (Z[0], Z[3], np.array([50.0, 50.0])):  # the last sees its nearest point alone
        # The weights of least squares in closed form: e' (D' V D)^-1 D' V.
        near = np.exp(-((X[kept] - row) ** 2).sum(axis=1) / (2 * 1.5**2)) * w[kept]
        columns = [np.ones(len(kept)), *(X[kept] - row).T] if degree else [np.ones(len(kept))]
        design = np.column_stack(columns)
        if near.sum() > 0:
            shares = (np.linalg.pinv(np.sqrt(near)[:, None] * design) * np.sqrt(near))[0]
        else:
            nearest = ((X[kept] - row) ** 2).sum(axis=1).argmin()
            shares = np.eye(len(kept))[nearest]
        for output in (0, 1):
            found = model.contributions(row, top=30, output=output)
            terms = np.zeros(len(kept))
            terms[found.indices[0]] = found.values[0]
            expected = shares * BOTH[kept, output]
            np.testing.assert_allclose(terms, expected, rtol=1e-7, atol=1e-9)
            assert found.intercept == 0
            total = model.predict(row[None])[0, output]
            assert found.prediction[0] == pytest.approx(total, rel=1e-9)
    assert "s_i(x) y_i" in str(model.contributions(Z, output=0))


def test_sums_are_explained_not_what_is_made_of_them() -> None:
    for loss in ("poisson", "gamma"):
        model = mc.KernelMachineRegressor(RBF, loss).fit(X, Y)
        found = model.contributions(Z, top=30)
        np.testing.assert_allclose(np.exp(sum_of(found)), model.predict(Z), rtol=1e-9)
    quantiles = mc.KernelQuantileRegressor(RBF, [0.2, 0.5, 0.8]).fit(X, Y)
    sums = [sum_of(quantiles.contributions(X, output=q)) for q in range(3)]
    np.testing.assert_allclose(np.column_stack(sums), quantiles.predict(X), rtol=1e-7)


def test_one_row_may_come_alone() -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    whole = model.contributions(Z[:1], top=3)
    frame = pd.DataFrame(X, columns=["a", "b"])
    by_name = mc.KernelRidge(RBF).fit(frame, Y)
    rows: list[tuple[Any, Any]] = [
        (model, Z[0]),
        (model, Z[0].tolist()),
        (model, tuple(Z[0])),
        (mc.KernelRidge(RBF).fit(sp.csr_array(X), Y), sp.csr_array(Z)[0]),
        (by_name, pd.DataFrame(Z, columns=["a", "b"]).iloc[0]),
        (mc.KernelRidge(mc.Precomputed()).fit(RBF(X), Y), RBF(Z, X)[0]),
    ]
    for fitted, row in rows:
        found = fitted.contributions(row, top=3)
        assert len(found) == 1
        assert found.indices.tolist() == whole.indices.tolist()
        np.testing.assert_allclose(found.values, whole.values, rtol=1e-7)

    words = ["abab", "abba", "baba", "aaaa"]
    strings = mc.KernelRidge(mc.Spectrum(2)).fit(words, [1.0, 2.0, 1.0, 3.0])
    np.testing.assert_array_equal(
        strings.contributions("aaab").values, strings.contributions(["aaab"]).values
    )
    mixed = pd.DataFrame({"word": words, "x": [0.0, 1.0, 2.0, 3.0]})
    both = mc.KernelRidge(mc.Spectrum(2).on("word") + mc.RBF().on("x")).fit(mixed, Y[:4])
    np.testing.assert_array_equal(
        both.contributions(mixed.iloc[2]).values, both.contributions(mixed.iloc[[2]]).values
    )
    with pytest.raises(DataError, match="3 features"):  # not three rows of one column
        mc.KernelRidge(RBF).fit(X[:, :1], Y).contributions([1.0, 2.0, 3.0])


def test_the_largest_terms_are_shown_in_order() -> None:
    model = mc.KernelRidge(RBF, alpha=0.1).fit(X, Y)
    found = model.contributions(Z, top=5)
    assert len(found) == 7
    for i, row in enumerate(Z):
        order, terms, rest = naive(model, row, 5)
        assert found.indices[i].tolist() == order
        np.testing.assert_allclose(found.values[i], terms, rtol=1e-10)
        assert found.rest[i] == pytest.approx(rest, abs=1e-12)
    kernel_values = np.take_along_axis(RBF(Z, X), found.indices, axis=1)
    np.testing.assert_allclose(found.kernel_values, kernel_values, rtol=1e-13)
    np.testing.assert_array_equal(
        found.values, found.kernel_values * model.dual_coef_[found.indices]
    )


@pytest.mark.parametrize("psd", ["clip", "flip", "shift"])
def test_a_repaired_matrix_still_sums(psd: Any) -> None:
    indefinite = mc.Sigmoid(gain=2.0, offset=-1.0)
    model = mc.KernelRidge(indefinite, alpha=0.5, psd=psd).fit(X, Y)
    found = model.contributions(Z, top=3)
    np.testing.assert_allclose(sum_of(found), model.predict(Z), rtol=1e-9)


def test_several_targets_are_explained_one_at_a_time() -> None:
    targets = np.column_stack([Y, -2 * Y, X[:, 1]])
    model = mc.KernelRidge(RBF).fit(X, targets)
    for output in range(3):
        found = model.contributions(Z, top=2, output=output)
        np.testing.assert_allclose(sum_of(found), model.predict(Z)[:, output], rtol=1e-12)
    for wrong in (3, -1, 0.5, True, "y", [0], np.array([0, 1])):
        with pytest.raises(ParameterError, match="one of the model's 3 targets; pass a number"):
            model.contributions(Z, output=wrong)
    first = model.contributions(Z, top=2)  # by default the first
    assert first.outputs.tolist() == [0] * 7
    np.testing.assert_array_equal(first.values, model.contributions(Z, top=2, output=0).values)
    assert "row 0: f(x) of target 0 = " in str(first)
    single = mc.KernelRidge(RBF).fit(X, targets[:, :1])
    assert single.contributions(Z).prediction.shape == (7,)


CLASSIFIERS = [c for c in models() if is_classifier(c())]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_no_model_needs_an_output(model: type[Any]) -> None:
    labels = np.array(["low", "mid", "top"])[np.digitize(Y, [2.7, 3.3])]
    if is_classifier(model()):
        fitted = model(RBF).fit(X, labels)
        found = fitted.contributions(Z, top=4)
        assert found.outputs.tolist() == fitted.predict(Z).tolist()
        assert found.kind == "class"
        assert f"row 0: f(x) of class {found.outputs[0].item()!r} = " in str(found)
        column = np.searchsorted(fitted.classes_, found.outputs)
        values = fitted._function_values(Z)[np.arange(len(Z)), column]
    else:
        several = get_tags(model()).target_tags.multi_output
        fitted = model(RBF).fit(X, BOTH if several else Y)
        found = fitted.contributions(Z, top=4)
        values = fitted._function_values(Z).reshape(len(Z), -1)[:, 0]
        assert found.kind == ("target" if several else "")
    np.testing.assert_allclose(sum_of(found), values, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.prediction, sum_of(found))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: model.__name__)
def test_classes_have_labels_and_numbers(model: type[Any]) -> None:
    codes = np.digitize(Y, [2.7, 3.3])
    named = model(RBF).fit(X, np.array(["low", "mid", "top"])[codes])
    for place, label in enumerate(["low", "mid", "top"]):
        by_label = named.contributions(Z, output=label)
        by_number = named.contributions(Z, output=place)
        np.testing.assert_array_equal(by_label.values, by_number.values)
        np.testing.assert_array_equal(by_label.prediction, by_number.prediction)
        expected = named._function_values(Z)[:, place]
        np.testing.assert_allclose(by_label.prediction, expected, rtol=1e-9, atol=1e-12)
        assert by_label.outputs.tolist() == [label] * 7
    counted = model(RBF).fit(X, codes + 1)  # a label wins over the number of another class
    np.testing.assert_allclose(
        counted.contributions(Z, output=1).values, named.contributions(Z, output="low").values
    )
    np.testing.assert_allclose(
        counted.contributions(Z, output=np.int64(2)).values,
        named.contributions(Z, output="mid").values,
    )
    for wrong in ("other", 3, -1, True, 0.5, ["low"]):
        with pytest.raises(
            ParameterError, match=r"model's 3 classes, \['low', 'mid', 'top'\]; pass"
        ):
            named.contributions(Z, output=wrong)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: model.__name__)
def test_two_classes_share_a_function(model: type[Any]) -> None:
    fitted = model(RBF).fit(X, np.where(Y > 3, "yes", "no"))
    values = fitted._function_values(Z)
    for output, sign, label in [
        *((None, 1, "yes"), ("yes", 1, "yes"), (1, 1, "yes")),
        *(("no", -1, "no"), (0, -1, "no")),
    ]:
        found = fitted.contributions(Z, top=5, output=output)
        np.testing.assert_allclose(sum_of(found), sign * values, rtol=1e-9, atol=1e-12)
        assert found.outputs.tolist() == [label] * 7
    assert "intercept -0\n" not in str(fitted.contributions(Z, output="no")) + "\n"
    truth = model(RBF).fit(X, Y > 3)
    np.testing.assert_allclose(truth.contributions(Z, output=False).prediction, -values)
    objects = model(RBF).fit(X, np.where(Y > 3, "yes", "no").astype(object))
    assert "of class 'no'" in str(objects.contributions(Z, output="no"))


def test_the_predicted_class_is_that_of_predict_where_averages_decide() -> None:
    # Far from the data averages over the posterior may prefer another class than the mode does.
    rng = np.random.default_rng(3)
    data, labels = rng.normal(size=(60, 1)), rng.integers(0, 3, size=60)
    fitted = mc.GaussianProcessClassifier(9.0 * mc.RBF(0.5), learn=False).fit(data, labels)
    places = np.linspace(-4, 4, 400)[:, None]
    predicted = fitted.predict(places)
    assert (fitted._function_values(places).argmax(axis=1) != predicted).any()
    assert fitted.contributions(places).outputs.tolist() == predicted.tolist()
    # A given matrix holds no k(x, x) for averages: the class that leads at the mode is explained.
    kernel = 9.0 * mc.RBF(0.5)
    given = mc.GaussianProcessClassifier(mc.Precomputed(), learn=False).fit(kernel(data), labels)
    found = given.contributions(kernel(places, data))
    mode = given._function_values(kernel(places, data)).argmax(axis=1)
    assert found.outputs.tolist() == mode.tolist()


def test_quantiles_have_levels() -> None:
    model = mc.KernelQuantileRegressor(RBF, [0.2, 0.5, 0.8]).fit(X, Y)
    for place, level in enumerate([0.2, 0.5, 0.8]):
        np.testing.assert_array_equal(
            model.contributions(Z, output=level).values, model.contributions(Z, output=place).values
        )
    assert "f(x) of quantile 0.2 = " in str(model.contributions(Z))
    with pytest.raises(ParameterError, match=r"3 quantiles, \[0.2, 0.5, 0.8\]; pass one"):
        model.contributions(Z, output=0.3)


# The user's own rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_rows_are_those_of_the_user(model: type[Any]) -> None:
    weights = np.where(np.arange(30) % 3, 1.0, 0.0)
    targets = (Y > 3).astype(int) if is_classifier(model()) else Y
    fitted = model(RBF).fit(X, targets, sample_weight=weights)
    found = fitted.contributions(Z, top=3)
    for row in range(len(Z)):
        np.testing.assert_array_equal(X[found.rows[row]], found.points(row))
    assert (weights[found.rows] > 0).all()
    for number in found.rows[0]:
        assert f"\n  {number:12d} " in str(found)
    assert found.to_dict()["training_row"].tolist() == found.rows.ravel().tolist()


@pytest.mark.parametrize("budget", [None, mc.budgets.Remove(8), mc.budgets.Quantize(0.3)])
def test_rows_of_later_calls_are_counted_on(budget: Any) -> None:
    weights = np.where(np.arange(30) % 4, 1.0, 0.0)
    first, second, third = slice(0, 11), slice(11, 13), slice(13, 30)
    lms = mc.KernelLMS(RBF, budget=budget)
    perceptron = mc.KernelPerceptron(RBF, budget=budget)
    for rows in (first, second, third):
        lms.partial_fit(X[rows], Y[rows], sample_weight=weights[rows])
        labels = np.where(Y[rows] > 3, "yes", "no")
        perceptron.partial_fit(X[rows], labels, ["no", "yes"], weights[rows])
    batch = mc.KernelLMS(RBF, method="batch", alpha=1.0).fit(X[first], Y[first])
    batch.set_params(method="stochastic", budget=budget, alpha=1.0)
    batch.partial_fit(X[11:], Y[11:])
    gp = mc.GaussianProcessRegressor(RBF, noise=0.1, learn=False)
    gp.fit(X[first], Y[first], weights[first])
    for rows in (second, third):
        gp.update(X[rows], Y[rows])
    for model in (lms, perceptron, batch, gp):
        np.testing.assert_array_equal(X[model.rows_], model.points_.data)
        found = model.contributions(Z, top=3)
        np.testing.assert_array_equal(X[found.rows[2]], found.points(2))


def test_rows_of_points_are_counted_in_what_was_given() -> None:
    part = RBF.prepare(X)[10:]  # remembers that it begins at row 10; the user gave 20 rows
    weights = np.append(0.0, np.ones(19))
    model = mc.GaussianProcessRegressor(RBF, noise=0.1, learn=False).fit(part, Y[10:], weights)
    assert model.rows_.tolist() == list(range(1, 20))


def test_of_equal_terms_the_earlier_point_comes_first() -> None:
    model = mc.KernelRidge(mc.Constant(1.0), alpha=1.0, fit_intercept=False)
    model.fit(np.zeros((5, 1)), np.ones(5))
    model.dual_coef_ = np.full(5, 0.25)  # those of the fit are equal but for rounding
    found = model.contributions([[0.0]], top=5)
    assert found.indices.tolist() == [[0, 1, 2, 3, 4]]


def test_data_of_every_kind() -> None:
    words = ["abab", "abba", "baba", "aaaa"]
    strings = mc.KernelRidge(mc.Spectrum(2)).fit(words, [1.0, 2.0, 1.0, 3.0])
    found = strings.contributions(["aaab"], top=2)
    assert list(found.points(0)) == [words[i] for i in found.indices[0]]
    np.testing.assert_allclose(sum_of(found), strings.predict(["aaab"]))

    frame = pd.DataFrame(X, columns=["a", "b"])
    model = mc.KernelRidge(RBF).fit(frame, Y)
    found = model.contributions(frame.iloc[:3], top=4)
    pd.testing.assert_frame_equal(
        found.points(1).reset_index(drop=True),
        frame.iloc[found.indices[1]].reset_index(drop=True),
    )

    rows = sp.csr_array(X)
    sparse = mc.KernelRidge(mc.Linear()).fit(rows, Y).contributions(rows[:2], top=3)
    np.testing.assert_allclose(sparse.points(0).toarray(), X[sparse.indices[0]])

    matrix = mc.KernelRidge(mc.Precomputed()).fit(RBF(X), Y)
    direct = mc.KernelRidge(RBF).fit(X, Y)
    np.testing.assert_allclose(
        matrix.contributions(RBF(Z, X), top=3).values,
        direct.contributions(Z, top=3).values,
        rtol=1e-9,
    )

    single = mc.KernelRidge(RBF).fit(X.astype(np.float32), Y.astype(np.float32))
    found = single.contributions(Z.astype(np.float32))
    np.testing.assert_allclose(sum_of(found), single.predict(Z.astype(np.float32)), rtol=1e-5)


def test_one_training_point() -> None:
    found = mc.KernelRidge(RBF).fit([[1.0]], [2.0]).contributions([[0.0]])
    assert found.indices.tolist() == [[0]]
    assert found.prediction == pytest.approx([2.0])


@pytest.mark.parametrize("top", [0, -1, 2.5, True, None, "all"])
def test_top_is_a_positive_whole_number(top: Any) -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    with pytest.raises(
        ParameterError,
        match=r"KernelRidge: top = .* whole number >= 1; pass for example 10",
    ):
        model.contributions(Z, top=top)


def test_bad_input_is_refused() -> None:
    with pytest.raises(NotFittedError):
        mc.KernelRidge(RBF).contributions(Z)
    model = mc.KernelRidge(RBF).fit(X, Y)
    with pytest.raises(DataError, match="3 features"):
        model.contributions(np.zeros((2, 3)))
    with pytest.raises(DataError, match="0 sample"):
        model.contributions(np.zeros((0, 2)))
    with pytest.raises(DataError, match="NaN"):
        model.contributions([[np.nan, 0.0]])
