"""Probabilities of support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import svm
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import mercer as mc
from mercer.models.svm.probability import Calibration

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(1)
X, Y = make_moons(160, noise=0.25, random_state=0)
Z = RNG.uniform(-2, 2, size=(40, 2))
RBF = mc.RBF(length_scale=0.5)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_agree_with_predictions(classes: int) -> None:
    data, y = load_iris(return_X_y=True)
    y = y if classes == 3 else (y == 1).astype(int)
    model = mc.SVC(probability=True, random_state=0).fit(data, y)
    probabilities = model.predict_proba(data)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(data), model.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_array_equal(model.predict(data), mc.SVC().fit(data, y).predict(data))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(data)), probabilities)
    assert 0 <= model.calibration_error_ < 0.2


@pytest.mark.parametrize("labels", [[0, 0, 0, 1, 1, 1], ["b", "b", "b", "a", "a", "a"]])
def test_the_prediction_is_most_probable_where_scores_tie(labels: list[Any]) -> None:
    for data in ([[-2.0], [-1.0], [-1.5], [1.0], [2.0], [1.5]], np.ones((6, 1))):
        model = mc.SVC("linear", probability=True, random_state=0).fit(data, labels)
        rows = np.r_[0.0, np.geomspace(1e-300, 1.0, 200), -np.geomspace(1e-300, 1.0, 200)][:, None]
        predicted = model.predict(rows)
        for found in (model.predict_proba(rows), model.predict_log_proba(rows)):
            np.testing.assert_array_equal(predicted, model.classes_[found.argmax(axis=1)])
        np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_allclose(model.predict_proba(rows[:1]), 0.5, rtol=1e-14)


@pytest.mark.parametrize("break_ties", [True, False])
def test_votes_that_tie_go_to_the_most_probable(break_ties: bool) -> None:
    data, y = load_digits(return_X_y=True)
    data, y = data[:400], y[:400]
    model = mc.SVC(C=0.05, probability=True, random_state=0, break_ties=break_ties).fit(data, y)
    most = model.predict_proba(data).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(data), model.classes_[most])


@pytest.mark.parametrize(("first", "second"), [(31, 70), (51, 51)])
def test_shares_as_large_as_can_be(first: int, second: int) -> None:
    """Folds of such rows may have less: their own largest share is taken."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [first, second])
    data = rng.normal(size=(len(y), 2)) + y[:, None]
    nu = 2 * min(first, second) / len(y)
    model = mc.NuSVC(nu=nu, probability=True, random_state=0).fit(data, y)
    assert model.converged_
    scores = np.empty(len(y))
    for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(data, y):
        share = 2 * np.bincount(y[train]).min() / len(train)
        gamma = 1 / (2 * data.var())
        # A little less, which LIBSVM takes for feasible however it rounds.
        peer = svm.NuSVC(nu=min(nu, share) * (1 - 1e-9), gamma=gamma, tol=1e-6)
        scores[held] = peer.fit(data[train], y[train]).decision_function(data[held])
    want = Calibration.of(scores, y, np.ones(len(y)))
    values = model.decision_function(data)
    np.testing.assert_allclose(
        model.predict_proba(data), np.exp(want.log_probabilities(values)), atol=0.01
    )


def test_probabilities_of_a_former_fit_are_forgotten() -> None:
    model = mc.SVC(probability=True, random_state=0).fit(X, Y)
    model.set_params(probability=False, C=1000.0, gamma=50.0).fit(X, Y)
    with pytest.raises(NotFittedError, match="probabilities were not learned"):
        model.set_params(probability=True).predict_proba(X)


def test_the_slope_comes_from_rows_that_were_left_out() -> None:
    model = mc.SVC(RBF, probability=True, random_state=3, tol=1e-8).fit(X, Y)
    scores = np.empty(len(X))
    for train, held in StratifiedKFold(5, shuffle=True, random_state=3).split(X, Y):
        peer = svm.SVC(gamma=2.0, tol=1e-8).fit(X[train], Y[train])
        scores[held] = peer.decision_function(X[held])
    # Platt's targets: (N+ + 1) / (N+ + 2) for rows of the second class, 1 / (N- + 2) for others.
    above, below = np.sum(Y == 1), np.sum(Y == 0)
    target = np.where(Y == 1, (above + 1) / (above + 2), 1 / (below + 2))
    slopes = np.geomspace(0.05, 50, 4001)
    errors = [
        (target * np.logaddexp(0, -b * scores) + (1 - target) * np.logaddexp(0, b * scores)).sum()
        for b in slopes
    ]
    best = slopes[np.argmin(errors)]
    values = model.decision_function(Z)
    np.testing.assert_allclose(model.predict_proba(Z)[:, 1], expit(best * values), atol=2e-3)


def test_probabilities_of_a_known_rule() -> None:
    # P(y = 1 | x) = expit(4 x): of 4000 rows, the learned probabilities are near on average.
    x = RNG.uniform(-1, 1, size=(4000, 1))
    y = RNG.uniform(size=4000) < expit(4 * x[:, 0])
    model = mc.SVC(mc.RBF(length_scale=1.0), probability=True, random_state=0).fit(x, y)
    grid = np.linspace(-0.9, 0.9, 19)[:, None]
    # The standard error of a share in a tenth of the rows is 0.025 at most.
    assert np.abs(model.predict_proba(grid)[:, 1] - expit(4 * grid[:, 0])).mean() < 0.06
    assert model.calibration_error_ < 0.06


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (10, 2), (10, 3), (1000, 5)])
@pytest.mark.parametrize("weight", [1e-300, 0.5, 1e300])
def test_scores_without_errors_leave_doubt(rows: int, classes: int, weight: float) -> None:
    """All scores are 1 for the right class and 0 for others: the targets themselves are best."""
    codes = np.repeat(np.arange(classes), rows)
    columns = np.eye(classes)[codes]
    scores = 2 * columns[:, 1] - 1 if classes == 2 else columns
    found = Calibration.of(scores, codes, np.full(len(codes), weight))
    probabilities = np.exp(found.log_probabilities(scores))
    right, wrong = (rows + 1) / (rows + classes), 1 / (rows + classes)
    np.testing.assert_allclose(probabilities, np.where(columns == 1, right, wrong), rtol=1e-4)
    assert found.error == pytest.approx(1 - right, rel=1e-4)


def test_few_rows_of_great_weight_are_few() -> None:
    codes, weights = np.repeat([0, 1], 50), np.tile([1.0] * 5 + [1e-9] * 45, 2)
    found = Calibration.of(2.0 * codes - 1, codes, weights)
    probabilities = np.exp(found.log_probabilities(np.array([1.0])))
    np.testing.assert_allclose(probabilities, [[1 / 7, 6 / 7]], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_probabilities_of_classes_that_few_rows_separate() -> None:
    ours, theirs = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y, held = np.repeat([0, 1], 20), np.repeat([0, 1], 500)
        data, new = (rng.normal(size=(len(k), 2)) + 3.0 * k[:, None] for k in (y, held))
        for machine, losses in ((mc.SVC, ours), (svm.SVC, theirs)):
            model = machine(kernel="linear", probability=True, random_state=0).fit(data, y)
            losses.append(log_loss(held, model.predict_proba(new)))
    # Without the doubt in its targets the mean was 0.251, against 0.113.
    assert np.mean(ours) <= 1.05 * np.mean(theirs)
    assert max(ours) <= 1.2 * max(theirs)


def test_random_numbers_of_any_kind() -> None:
    def drawn(random_state: Any) -> Array:
        model = mc.SVC(RBF, probability=True, random_state=random_state).fit(X, Y)
        return np.asarray(model.predict_proba(Z))

    np.testing.assert_array_equal(drawn(3), drawn(np.random.RandomState(3)))
    first, second = (drawn(np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_probabilities_have_to_be_asked_for() -> None:
    model = mc.SVC().fit(X, Y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="probability=True"):
        model.predict_proba  # noqa: B018


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupt_in_the_folds_keeps_the_machine(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    model = mc.SVC(RBF, probability=True)
    if again:
        model.fit(X, np.roll(Y, 1))
    monkeypatch.setattr(mc.SVC, "_calibrate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), mc.SVC(RBF).fit(X, Y).predict(X))
    with pytest.raises(NotFittedError, match="probabilities were not learned"):
        model.predict_proba(X)
