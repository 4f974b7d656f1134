"""Budgets against loops over single rows that keep a dictionary by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import ParameterError, ValidityError
from mercer.models.online.expansion import BudgetedRowPass
from references import rbf

Array = NDArray[np.floating[Any]]
Dictionary = list[tuple[int, float]]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
Z = RNG.normal(size=(9, 2))
STEP, ALPHA = 0.6, 0.05
RBF = mc.RBF(length_scale=0.8)


def k(i: int, j: int) -> float:
    return rbf(X[i], X[j], length_scale=0.8)


def naive(keep: Callable[[Dictionary, int, float], Dictionary]) -> tuple[Dictionary, Array]:
    """KLMS with a dictionary that `keep` updates: pairs of row and coefficient, oldest first."""
    terms: Dictionary = []
    errors = []
    for i in range(N):
        error = Y[i] - sum(a * k(i, j) for j, a in terms)
        terms = [(j, (1 - STEP * ALPHA) * a) for j, a in terms]
        terms = keep(terms, i, STEP * error)
        errors.append(error)
    return terms, np.array(errors)


def oldest(terms: Dictionary, i: int, a: float) -> Dictionary:
    return [*terms, (i, a)][-12:]


def smallest(terms: Dictionary, i: int, a: float) -> Dictionary:
    if len(terms) == 12:
        least = min(range(12), key=lambda place: abs(terms[place][1]))
        terms = terms[:least] + terms[least + 1 :]
    return [*terms, (i, a)]


def quantize(terms: Dictionary, i: int, a: float) -> Dictionary:
    distances = [np.sqrt(max(2 - 2 * k(i, j), 0)) for j, _ in terms]
    if not terms or min(distances) > 0.4:
        return [*terms, (i, a)]
    near = int(np.argmin(distances))
    return [(j, b + a if place == near else b) for place, (j, b) in enumerate(terms)]


def project(terms: Dictionary, i: int, a: float) -> Dictionary:
    """Try the removal of each term, with the projection found by least squares."""
    terms = [*terms, (i, a)]
    if len(terms) <= 12:
        return terms
    rows = [j for j, _ in terms]
    gram = np.array([[k(p, q) for q in rows] for p in rows])
    best, kept = np.inf, terms
    for place, (_, b) in enumerate(terms):
        rest = [q for q in range(13) if q != place]
        share = np.linalg.lstsq(gram[np.ix_(rest, rest)], gram[rest, place], rcond=None)[0]
        lost = b**2 * (gram[place, place] - gram[place, rest] @ share)
        if lost < best:
            best = lost
            kept = [(rows[q], terms[q][1] + b * s) for q, s in zip(rest, share, strict=True)]
    return kept


@pytest.mark.parametrize("batch_size", [1, 7, 256])
@pytest.mark.parametrize(
    ("budget", "keep", "tolerance"),
    [
        (mc.budgets.Remove(12), oldest, 1e-11),
        (mc.budgets.Remove(12, "smallest"), smallest, 1e-11),
        (mc.budgets.Quantize(0.4), quantize, 1e-11),
        # The ridge of 1e-10 shows in the coefficients of points that almost depend on each other.
        (mc.budgets.Project(12), project, 1e-5),
    ],
)
def test_mini_batches_are_the_loop(
    budget: Any, keep: Any, tolerance: float, batch_size: int
) -> None:
    terms, errors = naive(keep)
    model = mc.KernelLMS(RBF, STEP, ALPHA, budget=budget, batch_size=batch_size).fit(X, Y)
    np.testing.assert_array_equal(model.points_.data, X[[j for j, _ in terms]])
    np.testing.assert_allclose(
        model.dual_coef_, [a for _, a in terms], rtol=tolerance, atol=tolerance
    )
    np.testing.assert_allclose(model.learning_curve_, errors, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1, 20, N - 3])
@pytest.mark.parametrize("batch_size", [1, 9, 256])
def test_several_passes_are_the_loop(size: int, batch_size: int) -> None:
    """Rows may come back while they are in the dictionary, or after they left it."""
    terms: Dictionary = []
    for i in [*range(N), *range(N), *range(N)]:
        error = Y[i] - sum(a * k(i, j) for j, a in terms)
        terms = [(j, (1 - STEP * ALPHA) * a) for j, a in terms]
        if i in [j for j, _ in terms]:
            terms = [(j, a + STEP * error if i == j else a) for j, a in terms]
        else:
            terms = [*terms, (i, STEP * error)][-size:]
    budget = mc.budgets.Remove(size)
    model = mc.KernelLMS(RBF, STEP, ALPHA, budget=budget, batch_size=batch_size, max_iter=3)
    model.fit(X, Y)
    np.testing.assert_array_equal(model.points_.data, X[[j for j, _ in terms]])
    np.testing.assert_allclose(model.dual_coef_, [a for _, a in terms], rtol=1e-10, atol=1e-13)


BUDGETS = [
    mc.budgets.Remove(5),
    mc.budgets.Remove(5, "smallest"),
    mc.budgets.Project(5),
    mc.budgets.Quantize(0.8),
]


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_budget_holds_at_every_moment(budget: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    change = BudgetedRowPass.change

    def watched(self: BudgetedRowPass, *args: Any) -> None:
        sizes.append(len(self.members))
        change(self, *args)

    monkeypatch.setattr(BudgetedRowPass, "change", watched)
    labels = Y > 0
    mc.KernelPerceptron(RBF, budget=budget, max_iter=2).fit(X, labels)
    limit = getattr(budget, "size", N // 2)  # centres are apart: far fewer than there are rows
    assert 0 < max(sizes) <= limit
    plain = mc.KernelLMS(RBF, budget=budget, batch_size=1)
    for i in range(N):
        assert len(plain.partial_fit(X[i : i + 1], Y[i : i + 1]).points_) <= limit


@pytest.mark.parametrize("budget", BUDGETS)
def test_partial_fits_are_one_pass(budget: Any) -> None:
    whole = mc.KernelLMS(RBF, 0.5, 0.1, budget=budget).fit(X, Y)
    parts = mc.KernelLMS(RBF, 0.5, 0.1, budget=budget)
    for start in range(0, N, 13):
        parts.partial_fit(X[start : start + 13], Y[start : start + 13])
    np.testing.assert_array_equal(parts.points_.data, whole.points_.data)
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [N, 10 * N])
def test_a_budget_with_room_changes_nothing(size: int) -> None:
    free = mc.KernelLMS(RBF, 0.5, 0.1, max_iter=2).fit(X, Y)
    for budget in (mc.budgets.Remove(size), mc.budgets.Project(size), mc.budgets.Quantize(1e-6)):
        model = mc.KernelLMS(RBF, 0.5, 0.1, max_iter=2, budget=budget).fit(X, Y)
        np.testing.assert_allclose(model.dual_coef_, free.dual_coef_, rtol=1e-10, atol=1e-13)


def test_projection_loses_nothing_where_the_points_span_all_functions() -> None:
    # A linear kernel in two columns: two points carry every function.
    free = mc.KernelLMS(mc.Linear(), 0.05).fit(X, Y)
    model = mc.KernelLMS(mc.Linear(), 0.05, budget=mc.budgets.Project(2)).fit(X, Y)
    assert len(model.points_) == 2
    np.testing.assert_allclose(model.predict(Z), free.predict(Z), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_of_one_point(budget: Any, dtype: Any) -> None:
    copies = np.zeros((20, 2), dtype=dtype)
    model = mc.KernelLMS(RBF, 0.5, budget=budget).fit(copies, np.ones(20))
    assert np.isfinite(model.dual_coef_).all()
    assert len(model.points_) <= 5
    if not isinstance(budget, mc.budgets.Remove):
        assert model.predict(copies[:1])[0] == pytest.approx(1.0, abs=1e-3)


def test_single_precision() -> None:
    for budget in BUDGETS:
        single = mc.KernelLMS(RBF, 0.5, budget=budget).fit(X.astype(np.float32), Y)
        double = mc.KernelLMS(RBF, 0.5, budget=budget).fit(X.astype(np.float32).astype(float), Y)
        np.testing.assert_allclose(single.predict(Z), double.predict(Z), atol=1e-2)


def test_a_smaller_budget_takes_effect() -> None:
    for small in (mc.budgets.Remove(3), mc.budgets.Project(3)):
        model = mc.KernelLMS(RBF, 0.5, budget=mc.budgets.Remove(10)).fit(X, Y)
        model.set_params(budget=small).partial_fit(Z[:1], [0.0])
        assert len(model.points_) == 3


@pytest.mark.filterwarnings("ignore:KernelLMS. the Gram:mercer.exceptions.NumericalWarning")
def test_projection_needs_a_valid_kernel() -> None:
    indefinite = mc.Precomputed(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        mc.KernelLMS(indefinite, 0.1, budget=mc.budgets.Project(1)).fit([[0], [1]], [1.0, 2.0])


@pytest.mark.parametrize("budget", BUDGETS)
def test_budgets_are_values(budget: Any) -> None:
    assert clone(mc.KernelLMS(budget=budget)).budget == budget
    assert eval(repr(budget), vars(mc.budgets)) == budget


@pytest.mark.parametrize("size", [0, -1, 2.5, "many", True])
def test_bad_sizes(size: Any) -> None:
    for budget in (mc.budgets.Remove, mc.budgets.Project):
        with pytest.raises(ParameterError, match="size = "):
            budget(size)


def test_bad_budgets() -> None:
    with pytest.raises(ParameterError, match="which = 'newest'"):
        mc.budgets.Remove(3, "newest")  # type: ignore[arg-type]
    for radius in (0.0, -1.0, np.nan, np.inf, "far"):
        with pytest.raises(ParameterError, match="radius"):
            mc.budgets.Quantize(radius)  # type: ignore[arg-type]
