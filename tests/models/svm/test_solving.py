"""Dual problems of several functions side by side, against each of them alone."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import (
    load_iris,
)
from sklearn.svm import SVC, NuSVC

import mercer as mc
from few_rows import CODES, COUNTS, RBF, WEIGHTS, X
from mercer import _core
from mercer.exceptions import (
    ShortFitWarning,
)
from mercer.models.svm import duals, solving
from mercer.solvers.box_qp import batch
from mercer.solvers.box_qp.kernel_matrix import RoundedMatrix

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(11)
# LIBSVM has kernel values of float32.
FLOAT32 = 1e-5


@pytest.mark.parametrize("few", [5, 512])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize(
    ("machine", "peer"),
    [(mc.SVC(RBF, C=3.0), SVC(C=3.0)), (mc.NuSVC(RBF, nu=0.1), NuSVC(nu=0.1))],
    ids=["SVC", "NuSVC"],
)
def test_each_pair_is_a_machine_of_two_classes(
    machine: Any, peer: Any, weights: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solving, "_FEW", few)
    monkeypatch.setattr(solving, "_STRETCH", 8)
    monkeypatch.setattr(solving, "_WORK", 100)
    model = clone(machine).set_params(tol=1e-9, decision_function_shape="ovo")
    values = model.fit(X, CODES, weights).decision_function(X)
    assert model.converged_
    alone = clone(peer).set_params(tol=1e-13, gamma=1 / (2 * 1.5**2))
    for number, pair in enumerate(combinations(range(len(COUNTS)), 2)):
        own = np.isin(CODES, pair)
        given = None if weights is None else weights[own]
        # Of two classes a function speaks for the second.
        want = -alone.fit(X[own], CODES[own], given).decision_function(X)
        np.testing.assert_allclose(values[:, number], want, atol=FLOAT32)
        # The value of SVC's dual problem is half the squared length less the sum of the a_i.
        b = np.abs(alone.dual_coef_[0])
        squared = -want[own][alone.support_] @ alone.dual_coef_[0]
        squared -= alone.intercept_[0] * alone.dual_coef_[0].sum()
        less = b.sum() if isinstance(model, mc.SVC) else 0.0
        assert model.objective_[number] == pytest.approx(squared / 2 - less, rel=FLOAT32)
        assert 0 <= model.dual_gap_[number] <= 1e-6


def test_an_interrupted_batch_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, calls = _core.smo_batch, []

    def interrupted(*arguments: Any) -> None:
        # After two exchanges of each problem in the second part; what follows asks for none.
        calls.append(arguments[-2])
        *first, limit, threads = arguments
        engine(*first, min(limit, 2) if len(calls) == 2 else limit, threads)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(solving, "_WORK", 100)  # parts of a few pairs
    whole = mc.SVC(RBF, C=3.0).fit(X, CODES)
    monkeypatch.setattr(_core, "smo_batch", interrupted)
    model = mc.SVC(RBF, C=3.0, decision_function_shape="ovo")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, CODES)
    assert not model.converged_
    assert calls[-1] == 0
    exact = model.n_iter_ == whole.n_iter_
    begun = (model.n_iter_ > 0) & ~exact
    assert exact.any()
    assert (model.n_iter_[begun] == 2).all()
    assert begun.any()
    untouched = model.n_iter_ == 0
    assert untouched.any()
    assert np.isposinf(model.dual_gap_[untouched]).all()
    assert np.isfinite(model.dual_gap_[~untouched]).all()
    values = model.decision_function(X)
    assert not values[:, untouched].any()
    expected = whole.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(values[:, exact], expected[:, exact], atol=1e-12)


def test_pairs_that_had_all_exchanges_are_not_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(*arguments: Any, **options: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(batch, "exchanges_allowed", lambda max_iter, count: 3)
    monkeypatch.setattr(duals, "solve", alone)
    with pytest.warns(ShortFitWarning, match="stopped after 3 steps"):
        model = mc.SVC(RBF, C=3.0).fit(X, CODES)
    assert model.n_iter_.max() == 3
    assert np.isfinite(model.dual_gap_).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_an_interrupt_before_the_first_pair_is_solved(
    monkeypatch: pytest.MonkeyPatch, scheme: str, threads: int
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    data, y = load_iris(return_X_y=True)
    monkeypatch.setattr(solving, "_FEW", 0)
    monkeypatch.setattr(duals, "solve", interrupted)
    model = mc.SVC(multi_class=scheme)
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    assert len(model.support_) == 0
    assert model.n_iter_.tolist() == [0, 0, 0]
    assert np.isposinf(model.dual_gap_).all()
    # Functions that are not begun say nothing: all rows are alike.
    assert len(set(model.predict(data))) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_keeps_how_far_small_pairs_came(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    engine = _core.smo_batch

    def interrupted(*arguments: Any) -> None:
        *others, limit, threads = arguments
        engine(*others, min(limit, 5), threads)
        if limit:
            raise KeyboardInterrupt

    data, y = load_iris(return_X_y=True)
    whole = mc.SVC(RBF).fit(data, y)
    monkeypatch.setattr(_core, "smo_batch", interrupted)
    model = mc.SVC(RBF)
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    assert model.n_iter_.tolist() == [5, 5, 5]
    assert (model.objective_ > whole.objective_).all()
    assert (model.objective_ - model.dual_gap_ <= whole.objective_).all()
    assert len(model.support_) <= 3 * 10


@pytest.mark.parametrize("kernel", [RBF, mc.Linear()])
def test_small_pairs_are_solved_like_large_ones(
    monkeypatch: pytest.MonkeyPatch, kernel: mc.Kernel
) -> None:
    rng = np.random.default_rng(5)
    y = rng.permutation(np.repeat(np.arange(12), rng.integers(4, 30, size=12)))
    data = 6 * rng.normal(size=(12, 3))[y] + rng.normal(size=(len(y), 3))
    monkeypatch.setattr(solving, "_STRETCH", 32)  # pairs are of several parts of the matrix
    monkeypatch.setattr(solving, "_WORK", 1000)
    few = [mc.SVC(kernel, tol=1e-8).fit(data, y), mc.NuSVC(kernel, nu=0.1, tol=1e-8).fit(data, y)]
    monkeypatch.setattr(solving, "_FEW", 0)
    for model in few:
        large = clone(model).fit(data, y)
        assert model.converged_
        np.testing.assert_allclose(model.objective_, large.objective_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, large.intercept_, atol=1e-5)
        for one, other in [(model, large), (large, model)]:
            assert (one.objective_ - one.dual_gap_ <= other.objective_ + 1e-12).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_keeps_the_pairs_that_are_solved(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    data, y = load_iris(return_X_y=True)
    solve = duals.solve

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if arguments[0].rows.min() == 50:  # the pair without the first class, which comes last
            raise KeyboardInterrupt
        return solve(*arguments, **options)

    monkeypatch.setattr(solving, "_FEW", 0)
    whole = mc.SVC().fit(data, y)
    monkeypatch.setattr(duals, "solve", interrupted)
    model = mc.SVC()
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    values, want = (m.set_params(decision_function_shape="ovo") for m in (model, whole))
    difference = values.decision_function(data) - want.decision_function(data)
    same = np.abs(difference).max(axis=0) < 1e-9
    assert same.tolist() == [True, True, False]
    assert set(model.predict(data)) <= set(y)


def test_pairs_that_share_rows() -> None:
    """Threads keep and drop rows of one store at the same time."""
    data, labels = RNG.normal(size=(400, 4)), RNG.integers(0, 6, 400)

    def gaussian(A: Array, B: Array) -> Array:
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1))

    with mc.threads(4):
        shared = mc.SVC(gaussian, cache_size=0.3, C=10.0, tol=1e-5).fit(data, labels)
    alone = mc.SVC("rbf", gamma=1.0, C=10.0, tol=1e-5).fit(data, labels)
    np.testing.assert_allclose(
        shared.decision_function(data), alone.decision_function(data), atol=1e-3
    )


@pytest.mark.filterwarnings("ignore:.*nearly 0 for all pairs")
@pytest.mark.parametrize("machine", [mc.SVC(C=10.0), mc.NuSVC(nu=0.1)], ids=["SVC", "NuSVC"])
@pytest.mark.parametrize("probability", [False, True])
def test_pairs_of_a_matrix_in_float32(
    machine: Any, probability: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wide rows: values are stored in float32, and functions are as exact as in float64."""
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(4), 40)
    data = 0.4 * rng.normal(size=(4, 220))[y] + rng.normal(size=(160, 220))
    model = clone(machine).set_params(probability=probability, random_state=0)
    exact = clone(model).fit(data, y)
    monkeypatch.setattr("mercer.solvers.box_qp.kernel_matrix._SMALL", 100)
    model.fit(data, y)
    assert isinstance(model._matrix(model.kernel_.prepare(data))[0], RoundedMatrix)
    assert model.converged_
    assert (np.abs(model.objective_ - exact.objective_) <= model.dual_gap_ + exact.dual_gap_).all()
    gram, codes = model.kernel_(data[model.support_]), y[model.support_]
    for number, (first, second) in enumerate(combinations(range(4), 2)):
        b = np.where(codes == first, model.dual_coef_[second - 1], 0.0)
        b = np.where(codes == second, model.dual_coef_[first], b)
        less = np.abs(b).sum() if isinstance(model, mc.SVC) else 0.0
        assert model.objective_[number] == pytest.approx(b @ gram @ b / 2 - less, rel=1e-9)
    if probability:
        near = exact.predict_proba(data)
        np.testing.assert_allclose(model.predict_proba(data), near, atol=2e-2)
