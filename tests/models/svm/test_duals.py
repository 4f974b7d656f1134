"""Dual problems of support vector machines, and the functions of their solutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import NuSVC

import mercer as mc
from mercer.models.svm.duals import DualSolutions, edges_of, initial_point, stretches

RNG = np.random.default_rng(11)
CLOUD = RNG.normal(size=(200, 3))


def solutions(n: int, seed: int) -> DualSolutions:
    """Functions of five terms each, of ten rows."""
    rng = np.random.default_rng(seed)
    return replace(
        DualSolutions.joined(n, []),
        rows=rng.integers(10, size=5 * n),
        dual=rng.normal(size=5 * n),
        function_of_term=np.repeat(np.arange(n), 5),
        products=rng.normal(size=(n, 4)),
        intercept=rng.normal(size=n),
        objective=rng.normal(size=n),
        gap=rng.uniform(size=n),
        n_iter=rng.integers(9, size=n),
        converged=rng.uniform(size=n) < 0.5,
    )


def test_parts_are_joined_in_the_order_of_their_numbers() -> None:
    first, second = solutions(2, 0), solutions(3, 1)
    found = DualSolutions.joined(7, [(np.array([5, 0]), first), (np.array([6, 2, 3]), second)])
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
    assert len(DualSolutions.joined(7, [])) == 7


def test_some_of_the_functions_times_factors() -> None:
    whole = solutions(4, 2)
    chosen, factors = np.array([True, False, False, True]), np.array([2.0, 0.5])
    found = whole.subset(chosen).scaled(factors)
    want = whole.coefficients(10).toarray()[:, chosen] * factors
    np.testing.assert_allclose(found.coefficients(10).toarray(), want, rtol=1e-14)
    np.testing.assert_allclose(found.values, whole.values[:, chosen] * factors)
    np.testing.assert_allclose(found.objective, whole.objective[chosen] * factors**2)
    np.testing.assert_allclose(found.gap, whole.gap[chosen] * factors**2)
    np.testing.assert_array_equal(found.n_iter, whole.n_iter[chosen])


def test_initial_points_are_filled_from_the_first_on() -> None:
    upper, sizes = RNG.uniform(0.1, 1.0, size=20), np.array([1, 5, 1, 8, 5])
    totals = RNG.uniform(0.0, 1.2, size=5) * [part.sum() for part in np.split(upper, [1, 6, 7, 15])]
    want, k = [], 0
    for size, total in zip(sizes, totals, strict=True):
        for value in upper[k : k + size]:
            want.append(min(value, total))
            total -= want[-1]
        k += size
    np.testing.assert_allclose(initial_point(upper, totals, sizes), want, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(initial_point(upper[:1], totals[0]), want[:1])


def test_stretches_follow_each_other() -> None:
    begins, sizes = np.array([4, 0, 9, 9]), np.array([3, 0, 1, 2])
    assert stretches(begins, sizes).tolist() == [4, 5, 6, 9, 9, 10]
    assert edges_of(sizes).tolist() == [0, 3, 3, 4, 6]
    nothing = np.empty(0, np.int64)
    assert stretches(nothing, nothing).tolist() == []
    assert edges_of(nothing).tolist() == [0]


@pytest.mark.parametrize("nu", [1e-3, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_margins_of_any_size(nu: float, scale: float) -> None:
    """Of planes that part the classes, and one row a long way off: the conditions hold."""
    data, labels = CLOUD.copy(), (CLOUD[:, 0] > 0).astype(int)
    data[0] *= 1e3
    model = mc.NuSVC("linear", nu=nu).fit(scale * data, labels)
    assert model.converged_
    signs = np.where(labels == 1, 1.0, -1.0)
    margins = signs * model.decision_function(scale * data)
    bounds = np.abs(model.dual_coef_).max()
    errors = margins < 1 - 2e-3
    assert errors.mean() <= nu
    assert 0 <= model.dual_gap_[0] < 0.05 * model.objective_[0]
    assert (margins[model.support_][np.abs(model.dual_coef_[0]) < bounds] < 1 + 2e-3).all()


def test_a_tiny_margin_is_refined_until_rows_are_within_the_tolerance() -> None:
    X, y = load_iris(return_X_y=True)
    model = mc.NuSVC(nu=0.01, decision_function_shape="ovo").fit(X, y)  # warnings are errors
    assert model.converged_
    peer = NuSVC(nu=0.01, tol=1e-10, decision_function_shape="ovo").fit(X, y)
    wanted = peer.decision_function(X)
    error = np.abs(model.decision_function(X) - wanted).max(axis=0)
    # Values at the margin are within 2 tol of 1; far ones are in units of the margin.
    assert (error < 2e-3 * np.abs(wanted).max(axis=0)).all()
