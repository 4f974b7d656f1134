"""The kernel perceptron against loops over single rows, and its bound on mistakes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
TWO = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
THREE = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
Z = RNG.normal(size=(11, 2))
WEIGHTS = np.where(np.arange(N) % 5 == 2, 0.0, RNG.uniform(0.2, 3.0, size=N))
RBF = mc.RBF(length_scale=0.7)
K = matrix(rbf, X, length_scale=0.7)


def exceptions_of_principle(estimator: mc.KernelPerceptron) -> dict[str, str]:
    """Checks that contradict what a weight means."""
    reason = "a weight is a factor of one step; a row repeated takes a second step of its own"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@parametrize_with_checks(
    [
        mc.KernelPerceptron(max_iter=30),
        mc.KernelPerceptron(averaged=True, max_iter=5),
        mc.KernelPerceptron(budget=mc.budgets.Remove(60), max_iter=5),
    ],
    expected_failed_checks=exceptions_of_principle,
)
@pytest.mark.filterwarnings("ignore:KernelPerceptron. still:mercer.exceptions.NumericalWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    # Some checks label rows at random: they are not separated in few passes, as the warning says.
    check(estimator)


def naive_two(
    gram: Array, y: Array, passes: int, weights: Any = None
) -> tuple[Array, Array, list[int]]:
    """The last and the mean coefficients, and the mistakes, of a loop over single rows."""
    w = np.ones(len(y)) if weights is None else weights
    coef, total, mistakes = np.zeros(len(y)), np.zeros(len(y)), []
    for _ in range(passes):
        for i in range(len(y)):
            if w[i] == 0:
                continue
            wrong = y[i] * sum(gram[i, j] * coef[j] for j in range(len(y))) <= 0
            coef[i] += w[i] * y[i] if wrong else 0
            total += coef
            mistakes.append(int(wrong))
    return coef, total / len(mistakes), mistakes


def naive_many(
    gram: Array, y: Any, classes: int, passes: int, weights: Any = None
) -> tuple[Array, Array, list[int]]:
    w = np.ones(len(y)) if weights is None else weights
    coef, total, mistakes = np.zeros((len(y), classes)), np.zeros((len(y), classes)), []
    for _ in range(passes):
        for i in range(len(y)):
            if w[i] == 0:
                continue
            scores = [sum(gram[i, j] * coef[j, c] for j in range(len(y))) for c in range(classes)]
            others = [c for c in range(classes) if c != y[i]]
            rival = max(others, key=lambda c: scores[c])
            wrong = scores[y[i]] <= scores[rival]
            if wrong:
                coef[i, y[i]] += w[i]
                coef[i, rival] -= w[i]
            total += coef
            mistakes.append(int(wrong))
    return coef, total / len(mistakes), mistakes


@pytest.mark.filterwarnings("ignore:KernelPerceptron. still:mercer.exceptions.NumericalWarning")
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 256])
@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_mini_batches_are_the_loop(
    averaged: bool, batch_size: int, passes: int, weights: Any
) -> None:
    signs = np.where(TWO == "same", 1.0, -1.0)
    settings: Any = {"averaged": averaged, "batch_size": batch_size, "max_iter": passes}
    two = mc.KernelPerceptron(RBF, **settings).fit(X, TWO, weights)
    three = mc.KernelPerceptron(RBF, **settings).fit(X, THREE, weights)
    for model, found in (
        (two, naive_two(K, signs, passes, weights)),
        (three, naive_many(K, THREE, 3, passes, weights)),
    ):
        last, mean, mistakes = found
        coef = mean if averaged else last
        cross = matrix(rbf, Z, X, length_scale=0.7)
        np.testing.assert_allclose(model.decision_function(Z), cross @ coef, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(model.learning_curve_, np.cumsum(mistakes))
        assert model.n_mistakes_ == sum(mistakes)
        assert len(model.points_) == np.count_nonzero(last.reshape(N, -1).any(axis=1))
        assert model.n_iter_ == passes


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("y", [TWO, THREE])
def test_partial_fits_are_one_pass(averaged: bool, y: Any) -> None:
    whole = mc.KernelPerceptron(RBF, averaged=averaged)
    whole.partial_fit(X, y, np.unique(y), WEIGHTS)
    parts = mc.KernelPerceptron(RBF, averaged=averaged)
    for rows in (slice(0, 1), slice(1, 20), slice(20, N)):
        parts.partial_fit(X[rows], y[rows], np.unique(y), sample_weight=WEIGHTS[rows])
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, rtol=1e-12)
    np.testing.assert_array_equal(parts.learning_curve_, whole.learning_curve_)
    np.testing.assert_array_equal(parts.predict(Z), whole.predict(Z))


def test_weights_are_those_of_a_linear_perceptron() -> None:
    kept = WEIGHTS > 0
    peer = Perceptron(fit_intercept=False, shuffle=False, max_iter=4, tol=None)
    peer.fit(X[kept], TWO[kept], sample_weight=WEIGHTS[kept])
    with pytest.warns(NumericalWarning, match="still mistakes"):
        model = mc.KernelPerceptron(mc.Linear(), max_iter=4).fit(X, TWO, WEIGHTS)
    np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:KernelPerceptron. still:mercer.exceptions.NumericalWarning")
@pytest.mark.parametrize("budget", [None, mc.budgets.Remove(7), mc.budgets.Quantize(0.3)])
def test_a_row_of_weight_zero_is_absent(budget: Any) -> None:
    settings: Any = {"budget": budget, "max_iter": 3, "shuffle": True, "random_state": 0}
    kept = WEIGHTS > 0
    default = mc.RBF(length_scale="scale")
    model = mc.KernelPerceptron(default, **settings).fit(X, THREE, WEIGHTS)
    fewer = mc.KernelPerceptron(default, **settings).fit(X[kept], THREE[kept], WEIGHTS[kept])
    np.testing.assert_allclose(model.dual_coef_, fewer.dual_coef_, rtol=1e-9)
    np.testing.assert_allclose(model.points_.data, fewer.points_.data)
    np.testing.assert_array_equal(model.learning_curve_, fewer.learning_curve_)
    # A class that only such rows have is absent too.
    labels = np.where(kept, TWO, "never")
    only = mc.KernelPerceptron(RBF, **settings).fit(X, labels, WEIGHTS)
    assert only.classes_.tolist() == ["other", "same"]
    only.partial_fit(X, labels, sample_weight=WEIGHTS)
    with pytest.raises(DataError, match=r"only one class.*positive weight"):
        mc.KernelPerceptron(RBF).fit(X, TWO, TWO == "same")
    with pytest.raises(DataError, match="never"):
        only.partial_fit(X, labels)
    for labels_ in (X[:, 0], np.full(N, np.nan)):
        with pytest.raises(DataError, match="Pass one label for each row"):
            mc.KernelPerceptron(RBF).fit(X, labels_)
    for weights in (-WEIGHTS, np.zeros(N), WEIGHTS[:5], np.full(N, np.nan)):
        with pytest.raises(DataError, match="one finite weight >= 0"):
            mc.KernelPerceptron(RBF).fit(X, TWO, weights)


@pytest.mark.parametrize("margin", [0.05, 0.2])
def test_the_bound_on_mistakes(margin: float) -> None:
    normal = np.array([0.6, -0.8])
    points = RNG.uniform(-1, 1, size=(500, 2))
    points = points[np.abs(points @ normal) >= margin]
    radius = np.linalg.norm(points, axis=1).max()
    y = points @ normal > 0
    model = mc.KernelPerceptron(mc.Linear(), max_iter=1000, shuffle=True, random_state=0)
    model.fit(points, y)
    assert model.converged_
    assert 0 < model.n_mistakes_ <= (radius / margin) ** 2
    np.testing.assert_array_equal(model.predict(points), y)


def test_convergence_is_a_pass_without_mistakes() -> None:
    model = mc.KernelPerceptron(mc.RBF(length_scale=0.2)).fit(X, TWO)
    assert model.converged_
    assert not np.diff(model.learning_curve_)[-N + 1 :].any()
    assert model.score(X, TWO) == 1.0
    contradiction = [[0.0], [0.0]], [0, 1]
    with pytest.warns(NumericalWarning, match=r"still mistakes in the last of 4 passes \(2\)"):
        short = mc.KernelPerceptron(max_iter=4, kernel=RBF).fit(*contradiction)
    assert (short.n_iter_, short.converged_) == (4, False)
    assert not mc.KernelPerceptron(RBF, averaged=True, max_iter=4).fit(*contradiction).converged_


@pytest.mark.parametrize(
    "budget",
    [
        mc.budgets.Remove(8),
        mc.budgets.Remove(8, "smallest"),
        mc.budgets.Project(8),
        mc.budgets.Quantize(0.7),
    ],
)
@pytest.mark.parametrize("y", [TWO, THREE])
def test_budgets_do_not_depend_on_batches(budget: Any, y: Any) -> None:
    one = mc.KernelPerceptron(RBF, budget=budget, max_iter=2, batch_size=1).fit(X, y)
    many = mc.KernelPerceptron(RBF, budget=budget, max_iter=2, batch_size=17).fit(X, y)
    np.testing.assert_allclose(many.dual_coef_, one.dual_coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(many.learning_curve_, one.learning_curve_)
    assert len(many.points_) <= (getattr(budget, "size", N))


def test_averages_with_quantized_centres() -> None:
    budget = mc.budgets.Quantize(1e-6)
    exact = mc.KernelPerceptron(RBF, averaged=True, max_iter=3).fit(X, THREE)
    model = mc.KernelPerceptron(RBF, averaged=True, max_iter=3, budget=budget).fit(X, THREE)
    np.testing.assert_allclose(model.decision_function(Z), exact.decision_function(Z), rtol=1e-9)


def test_strings_and_frames() -> None:
    words = ["abab", "baba", "cdcd", "dcdc"]
    model = mc.KernelPerceptron(mc.Spectrum(2)).fit(words, ["x", "x", "y", "y"])
    assert model.predict(["abba", "cddc"]).tolist() == ["x", "y"]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    framed = mc.KernelPerceptron(mc.RBF(length_scale=0.2)).fit(frame, TWO)
    assert framed.score(frame, TWO) == 1.0


# Bad input ---------------------------------------------------------------------------------------


def test_classes_are_known_from_the_first_call() -> None:
    model = mc.KernelPerceptron(RBF)
    with pytest.raises(DataError, match="classes must be passed on the first call"):
        model.partial_fit(X, TWO)
    model.partial_fit(X[:2], ["b", "b"], classes=["c", "a", "b"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    before = dict(vars(model))
    with pytest.raises(DataError, match=r"label .*'z'.* not among the classes"):
        model.partial_fit(X[:2], ["a", "z"])
    with pytest.raises(DataError, match="are not those of the first"):
        model.partial_fit(X[:2], ["a", "b"], classes=["a", "b"])
    with pytest.raises(DataError, match="3 features"):
        model.partial_fit(np.ones((2, 3)), ["a", "b"])
    assert vars(model) == before


def test_bad_data_and_parameters() -> None:
    with pytest.raises(DataError, match=r"y has only one class, 1, .* at least two classes"):
        mc.KernelPerceptron().fit(X, np.ones(N, dtype=int))
    with pytest.raises(DataError, match=r"classes = \[1\] lists only one class; list all labels"):
        mc.KernelPerceptron().partial_fit(X, np.ones(N, dtype=int), classes=[1])
    with pytest.raises(DataError, match=r"partial_fit: classes = \['p'\] lists only one"):
        mc.KernelPerceptron().partial_fit(X, TWO, classes=["p"])
    with pytest.raises(DataError, match="59 labels"):
        mc.KernelPerceptron().fit(X, TWO[:-1])
    with pytest.raises(DataError):
        mc.KernelPerceptron().fit(X, X[:, 0])
    with pytest.raises(ParameterError, match="needs all points"):
        mc.KernelPerceptron(averaged=True, budget=mc.budgets.Remove(3)).fit(X, TWO)
    with pytest.raises(NotFittedError):
        mc.KernelPerceptron().predict(X)
    model = mc.KernelPerceptron(RBF).partial_fit(X, TWO, classes=np.unique(TWO))
    with pytest.raises(ParameterError, match="averaged = True was False"):
        model.set_params(averaged=True).partial_fit(X, TWO)
    assert not hasattr(mc.KernelPerceptron(mc.Precomputed()), "partial_fit")


def test_an_interrupted_fit_keeps_the_rows_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = mc.KernelPerceptron._advance, [0]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] > 2:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(mc.KernelPerceptron, "_advance", interrupted)
    model = mc.KernelPerceptron(RBF, batch_size=10)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, TWO)
    assert model.converged_ is False
    monkeypatch.undo()
    expected = mc.KernelPerceptron(RBF).partial_fit(X[:20], TWO[:20], classes=np.unique(TWO))
    np.testing.assert_array_equal(model.predict(Z), expected.predict(Z))
    assert model.learning_curve_.shape == (20,)


def test_what_is_missing_says_why() -> None:
    model = mc.KernelPerceptron(mc.Precomputed())
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"no partial_fit: rows of a given matrix.*use Prec"):
        _ = model.partial_fit
    assert "classes" in inspect.signature(mc.KernelPerceptron.partial_fit).parameters


@pytest.mark.parametrize("y", [TWO, THREE])
def test_class_weights_are_factors_of_steps(y: NDArray[Any]) -> None:
    classes = np.unique(y)
    factors = dict(zip(classes, 1.0 + np.arange(len(classes)), strict=True))
    own = WEIGHTS * np.array([factors[label] for label in y])
    model = mc.KernelPerceptron(RBF, averaged=True, max_iter=3, class_weight=factors)
    plain = mc.KernelPerceptron(RBF, averaged=True, max_iter=3).fit(X, y, own)
    np.testing.assert_allclose(model.fit(X, y, WEIGHTS).dual_coef_, plain.dual_coef_)
    np.testing.assert_array_equal(model.class_weight_, list(factors.values()))
    balanced = mc.KernelPerceptron(RBF, averaged=True, max_iter=3, class_weight="balanced")
    counts = np.unique(y, return_counts=True)[1]
    np.testing.assert_allclose(balanced.fit(X, y).class_weight_, N / (len(classes) * counts))


def test_class_weights_of_further_rows() -> None:
    factors = {"same": 2.0, "other": 0.5}
    own = np.where(TWO == "same", 2.0, 0.5)
    model, plain = mc.KernelPerceptron(RBF, class_weight=factors), mc.KernelPerceptron(RBF)
    for rows in (slice(0, 20), np.flatnonzero(TWO == "same")):
        model.partial_fit(X[rows], TWO[rows], classes=["same", "other"])
        plain.partial_fit(X[rows], TWO[rows], classes=["same", "other"], sample_weight=own[rows])
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_)
    with pytest.raises(ParameterError, match="counts all rows, and more may come"):
        mc.KernelPerceptron(RBF, class_weight="balanced").partial_fit(X, TWO, classes=TWO)
