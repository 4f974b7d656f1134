"""Functions of many pairs of classes, side by side, against each of them alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import SVC, NuSVC

import mercer as mc
from mercer import _core
from mercer.exceptions import ShortFitWarning
from mercer.models.svm import solving
from mercer.models.svm.duals import filled
from mercer.models.svm.functions import Machines
from mercer.models.svm.schemes import scheme_of
from mercer.solvers.box_qp import batch

RNG = np.random.default_rng(11)
# Classes of one row to nine, in no order.
COUNTS = (3, 1, 9, 4, 1, 6, 2)
CODES = RNG.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
X = RNG.normal(size=(len(CODES), 3)) + np.eye(3)[CODES % 3]
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(CODES))
RBF = mc.RBF(length_scale=1.5)
# LIBSVM has kernel values of float32.
FLOAT32 = 1e-5


def naive_sides(n: int, multi_class: str, codes: NDArray[np.intp]) -> list[dict[int, float]]:
    """For each function its rows and their signs, in the order of the rows."""
    rows = list(enumerate(codes.tolist()))
    if n == 2:
        return [{k: 1.0 if code == 1 else -1.0 for k, code in rows}]
    if multi_class == "ovr":
        return [{k: 1.0 if code == own else -1.0 for k, code in rows} for own in range(n)]
    found = []
    for first, second in combinations(range(n), 2):
        ours = {k: 1.0 for k, code in rows if code == first}
        found.append(ours | {k: -1.0 for k, code in rows if code == second})
    return found


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_sides_of_every_function(n_classes: int, multi_class: str) -> None:
    codes = CODES[n_classes > CODES]
    positions, signs, sizes = scheme_of(n_classes, multi_class).sides(codes)
    want = naive_sides(n_classes, multi_class, codes)
    assert sizes.tolist() == [len(side) for side in want]
    assert positions.tolist() == [row for side in want for row in side]
    assert signs.tolist() == [sign for side in want for sign in side.values()]


def test_values_are_filled_from_the_first_on() -> None:
    upper, sizes = RNG.uniform(0.1, 1.0, size=20), np.array([1, 5, 1, 8, 5])
    totals = RNG.uniform(0.0, 1.2, size=5) * [part.sum() for part in np.split(upper, [1, 6, 7, 15])]
    want, k = [], 0
    for size, total in zip(sizes, totals, strict=True):
        for value in upper[k : k + size]:
            want.append(min(value, total))
            total -= want[-1]
        k += size
    np.testing.assert_allclose(filled(upper, totals, sizes), want, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(filled(upper[:1], totals[0]), want[:1])


@pytest.mark.parametrize("few", [0, 5, 512])
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
        # After two exchanges of each problem in the second tile; what follows asks for none.
        calls.append(arguments[-2])
        *first, limit, threads = arguments
        engine(*first, min(limit, 2) if len(calls) == 2 else limit, threads)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(solving, "_STRETCH", 8)
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
    monkeypatch.setattr(solving, "solve", alone)
    with pytest.warns(ShortFitWarning, match="stopped after 3 steps"):
        model = mc.SVC(RBF, C=3.0).fit(X, CODES)
    assert model.n_iter_.max() == 3
    assert np.isfinite(model.dual_gap_).all()


def machines(n: int, seed: int) -> Machines:
    """Functions of five terms each, of ten rows."""
    rng = np.random.default_rng(seed)
    return replace(
        Machines.unsolved(n),
        rows=rng.integers(10, size=5 * n),
        dual=rng.normal(size=5 * n),
        which=np.repeat(np.arange(n), 5),
        products=rng.normal(size=(n, 4)),
        intercept=rng.normal(size=n),
        objective=rng.normal(size=n),
        gap=rng.uniform(size=n),
        n_iter=rng.integers(9, size=n),
        converged=rng.uniform(size=n) < 0.5,
    )


def test_parts_are_joined_in_the_order_of_their_numbers() -> None:
    first, second = machines(2, 0), machines(3, 1)
    found = Machines.joined(7, [(np.array([5, 0]), first), (np.array([6, 2, 3]), second)])
    table = found.coefficients(10).toarray()
    for part, numbers in ((first, [5, 0]), (second, [6, 2, 3])):
        np.testing.assert_array_equal(table[:, numbers], part.coefficients(10).toarray())
        np.testing.assert_array_equal(found.values[:, numbers], part.values)
        for name in ("intercept", "objective", "gap", "n_iter", "converged"):
            np.testing.assert_array_equal(getattr(found, name)[numbers], getattr(part, name))
    missing = [1, 4]
    assert not table[:, missing].any()
    assert np.isnan(found.objective[missing]).all()
    assert np.isposinf(found.gap[missing]).all()
    assert not found.converged[missing].any()
    assert len(Machines.joined(7, [])) == 7


def test_some_of_the_functions_times_factors() -> None:
    whole = machines(4, 2)
    chosen, factors = np.array([True, False, False, True]), np.array([2.0, 0.5])
    found = whole.some(chosen).scaled(factors)
    want = whole.coefficients(10).toarray()[:, chosen] * factors
    np.testing.assert_allclose(found.coefficients(10).toarray(), want, rtol=1e-14)
    np.testing.assert_allclose(found.values, whole.values[:, chosen] * factors)
    np.testing.assert_allclose(found.objective, whole.objective[chosen] * factors**2)
    np.testing.assert_allclose(found.gap, whole.gap[chosen] * factors**2)
    np.testing.assert_array_equal(found.n_iter, whole.n_iter[chosen])
    assert whole.some(np.ones(4, bool)) is whole
