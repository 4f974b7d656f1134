"""The interior-point method against LIBSVM, and the conditions of a minimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from box_qps import ONE_SUM, Array, check_conditions, classification, gaussian, points, quadratic
from mercer.solvers.box_qp import interior_point
from mercer.solvers.box_qp.kernel_matrix import StoredMatrix
from mercer.solvers.box_qp.problem import BoxQP, BoxSolution, evaluated
from mercer.solvers.box_qp.smo import solve


def at_minimum(problem: BoxQP, K: Array) -> BoxSolution:
    """The point that the method returns, with its certificates."""
    point = interior_point.minimum(problem, K, problem.rows)
    assert point is not None
    product = K @ np.bincount(problem.rows, point, len(K))
    room = problem.upper - point, point - problem.lower
    return evaluated(problem, point, product, product[problem.rows], room, np.zeros(1, int), 1e-6)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e6])
@pytest.mark.parametrize("kind", ["gaussian", "linear"])
def test_classification(kind: str, C: float) -> None:
    x, signs = points(0, 80)
    K = gaussian(x, 0.3) if kind == "gaussian" else x @ x.T
    problem = classification(signs, C * np.random.default_rng(1).uniform(0.5, 2.0, 80))
    found = at_minimum(problem, K)
    size = np.abs(found.coefficients).sum()
    check_conditions(problem, K, found, 1e-12 * size + 1e-9)
    assert 0 <= found.dual_gap[0] <= 1e-9 * abs(found.objective[0]) + 1e-13 * size * C
    if C < 100:
        weights = np.abs(problem.upper + problem.lower) / C
        model = SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, signs, weights)
        b = np.zeros(80)
        b[model.support_] = model.dual_coef_[0]
        assert found.objective == pytest.approx(quadratic(K, b) - b @ signs, rel=1e-6)


def test_two_variables_for_each_row() -> None:
    """Regression: the matrix over the variables is singular."""
    x, signs = points(2, 60)
    K, zeros, y = gaussian(x, 0.3), np.zeros(60), np.sin(x[:, 0]) + 0.1 * signs
    for epsilon, C in ((0.1, 1.0), (0.1, 1e4), (0.0, 10.0)):
        problem = BoxQP(
            rows=np.tile(np.arange(60), 2),
            linear=np.concatenate([epsilon - y, -epsilon - y]),
            lower=np.concatenate([zeros, zeros - C]),
            upper=np.concatenate([zeros + C, zeros]),
            start=np.zeros(120),
            groups=ONE_SUM,
        )
        found = at_minimum(problem, K)
        check_conditions(problem, K, found, 1e-7)
        exact = solve(problem, StoredMatrix(K), tol=1e-8)
        assert found.objective == pytest.approx(exact.objective, rel=1e-6)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_two_sums(share: float) -> None:
    """The nearest points of two reduced hulls; at the smallest share these intersect."""
    x, signs = points(3, 80, d=2)
    order = np.argsort(-signs, kind="stable")
    above = int((signs > 0).sum())
    ordered, K = signs[order], x @ x.T
    starts = np.where(ordered > 0, share * 40 / above, -share * 40 / (80 - above))
    problem = replace(
        classification(ordered, 1.0),
        rows=order,
        linear=np.zeros(80),
        start=starts,
        groups=np.array([[0, above]]),
    )
    found = at_minimum(problem, K)
    check_conditions(problem, K, found, 1e-8)
    assert found.dual_gap[0] <= 1e-9


def test_points_of_a_problem_that_is_not_convex_are_feasible() -> None:
    x, signs = points(4, 40)
    problem = classification(signs, 10.0)
    point = interior_point.minimum(problem, -gaussian(x, 0.3), problem.rows)
    if point is not None:
        assert (problem.lower <= point).all()
        assert (point <= problem.upper).all()
        assert point.sum() == pytest.approx(0.0, abs=1e-10)


def test_variables_without_room_are_left_to_exchanges() -> None:
    x, signs = points(5, 40)
    costs = np.where(np.arange(40) == 7, 0.0, 1.0)
    problem = classification(signs, costs)
    assert interior_point.minimum(problem, gaussian(x, 0.3), problem.rows) is None


def test_slow_exchanges_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear kernel with large bounds, with which exchanges alone take millions of steps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 4))
    signs = np.where(x[:, 0] + rng.normal(size=150) > 0, 1.0, -1.0)
    problem = classification(signs, 1e5)
    called: list[int] = []
    minimum = interior_point.minimum

    def counted(*arguments: object) -> Array | None:
        called.append(1)
        return minimum(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(interior_point, "minimum", counted)
    found = solve(problem, StoredMatrix(x @ x.T))
    assert called == [1]
    assert found.converged
    assert found.n_iter < 150_000
    check_conditions(problem, x @ x.T, found, 1e-3)
    short = solve(problem, StoredMatrix(x @ x.T), max_iter=20_000)
    assert called == [1]
    assert not short.converged
    assert short.n_iter == 20_000
    assert short.objective > found.objective
