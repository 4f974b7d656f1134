"""Problems side by side, against each of them alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from box_qps import TIGHT, check_conditions, classification, gaussian, points, quadratic
from mercer import _core
from mercer.solvers.box_qp.batch import BoxQPBatch
from mercer.solvers.box_qp.kernel_matrix import StoredMatrix
from mercer.solvers.box_qp.problem import BoxQP, BoxSolution
from mercer.solvers.box_qp.smo import solve

NUMBERS = ("levels", "squared_norm", "objective", "dual_gap", "violation", "n_iter", "converged")


def side_by_side(problems: Sequence[BoxQP]) -> BoxQP:
    """Problems with as many sums as each other, as one."""
    begins = np.cumsum([0, *(len(problem.rows) for problem in problems)])
    joined = {
        name: np.concatenate([getattr(problem, name) for problem in problems])
        for name in ("rows", "linear", "lower", "upper", "start")
    }
    pairs = zip(begins, problems, strict=False)
    groups = np.concatenate([begin + problem.groups for begin, problem in pairs])
    return BoxQP(**joined, groups=groups)


def each(several: BoxQP, solution: BoxSolution) -> list[BoxSolution]:
    """The solutions of problems side by side, one by one."""
    edges = [*several.groups[:, 0].tolist(), len(several.rows)]
    parts = []
    for number, ends in enumerate(pairwise(edges)):
        own, one = slice(*ends), slice(number, number + 1)
        numbers = {name: getattr(solution, name)[one] for name in NUMBERS}
        parts.append(BoxSolution(solution.coefficients[own], solution.product[own], **numbers))
    return parts


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("sums", [1, 2])
def test_a_batch_of_problems_is_solved_like_each(sums: int, C: float, narrow: bool) -> None:
    rng = np.random.default_rng(3)
    x, _ = points(17, 120)
    K = gaussian(x, 0.4)
    matrix = StoredMatrix(K if narrow else K.astype(np.float32))
    exact = matrix.values.astype(np.float64)
    problems = []
    for size in (2, 3, 16, 17, 60, 111):
        rows = rng.permutation(120)[:size]
        side = np.where(np.arange(size) < (size + 1) // 2, 1.0, -1.0)
        problem = replace(classification(side, C * rng.uniform(0.5, 1.5, size)), rows=rows)
        if sums == 2:
            first = int((side > 0).sum())
            start = (problem.lower + problem.upper) / 3
            groups = np.array([[0, first]])
            problem = replace(problem, linear=np.zeros(size), start=start, groups=groups)
        problems.append(problem)
    several = side_by_side(problems)
    batch = BoxQPBatch(several, matrix)
    batch.solve(tol=TIGHT)
    for problem, found in zip(problems, each(several, batch.solution()), strict=True):
        part = exact[np.ix_(problem.rows, problem.rows)]
        alone = solve(replace(problem, rows=np.arange(len(part))), StoredMatrix(part), tol=TIGHT)
        assert found.converged
        check_conditions(replace(problem, rows=np.arange(len(part))), part, found, 2 * TIGHT)
        assert found.product == pytest.approx(part @ found.coefficients, abs=1e-12 * C)
        assert found.objective == pytest.approx(alone.objective, rel=1e-7, abs=1e-12)
        assert found.levels == pytest.approx(alone.levels, abs=1e-5 * max(1.0, C))
        assert 0 <= found.dual_gap <= 1e-6 * len(part) * max(C, 1.0)


def test_a_batch_has_a_limit_and_goes_on_from_where_it_is() -> None:
    x, signs = points(18, 90)
    K = gaussian(x, 0.4)
    problem = classification(signs, 10.0)
    several = side_by_side([problem, problem])
    batch = BoxQPBatch(several, StoredMatrix(K))
    batch.solve(tol=TIGHT, max_iter=7)
    first, _ = each(several, batch.solution())
    assert first.n_iter == 7
    assert not first.converged
    assert first.objective == pytest.approx(
        quadratic(K, first.coefficients) - np.abs(first.coefficients).sum()
    )
    batch.solve(tol=np.array([1e-2, TIGHT]))
    rough, exact = each(several, batch.solution())
    assert 7 < rough.n_iter < exact.n_iter
    assert exact.violation <= TIGHT < rough.violation <= 1e-2
    assert rough.objective - exact.objective <= rough.dual_gap


def test_a_batch_starts_near_a_point() -> None:
    x, signs = points(19, 80)
    matrix, problem = StoredMatrix(gaussian(x, 0.4)), classification(signs, 2.0)
    cold = BoxQPBatch(problem, matrix)
    cold.solve(tol=TIGHT)
    exact = cold.solution()
    warm = BoxQPBatch(problem, matrix, warm_start=exact.coefficients)
    warm.solve(tol=10 * TIGHT)
    again = warm.solution()
    assert again.n_iter < exact.n_iter / 4
    assert again.objective == pytest.approx(exact.objective, rel=1e-7)


def test_arrays_of_a_batch_have_to_fit() -> None:
    ones, count = np.ones(3), np.zeros(1, np.int64)
    rows = np.arange(3)

    def run(begins: Any, splits: Any, rows: Any, linear: Any = ones) -> None:
        fixed = (linear, ones, ones, ones.copy(), ones.copy(), ones.copy(), ones.copy())
        _core.smo_batch(np.eye(3), begins, splits, rows, *fixed, count, False, np.ones(1), 10, 1)

    run(np.array([0, 3]), np.array([3]), rows)
    for begins, splits, at, linear in [
        ([0, 2], [3], rows, ones),
        ([1, 3], [2], rows, ones),
        ([0, 3], [4], rows, ones),
        ([0, 3], [3], rows + 1, ones),
        ([0, 3], [3], rows, ones[:2]),
        ([0, 1, 3], [1], rows, ones),
    ]:
        with pytest.raises((ValueError, IndexError)):
            run(np.array(begins), np.array(splits), at, linear)
