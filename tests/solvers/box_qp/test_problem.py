"""Feasible points of quadratic programs, and sums of stretches of variables."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from box_qps import Array, classification, gaussian, points
from mercer.solvers.box_qp.problem import BoxQP, evaluated, reduced

RNG = np.random.default_rng(5)
SIZES = (2, 7, 3, 40, 2)


def hinge_gap(problem: BoxQP, K: Array, b: Array, level: float, C: float) -> float:
    """The primal objective of a function minus the dual one, by their definitions."""
    signs, values = -problem.linear, K @ b + level
    primal = b @ K @ b / 2 + C * np.maximum(0, 1 - signs * values).sum()
    return float(primal - (np.abs(b).sum() - b @ K @ b / 2))


@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("share", [0.3, 0.999])
def test_the_gap_is_that_of_the_function_that_is_returned(share: float, C: float) -> None:
    """A share of the best function: with large bounds it is scaled up, and the gap is smaller."""
    x, signs = points(0, 60)
    K = gaussian(x, 3.0)
    problem = classification(signs, C)
    system = np.block([[K, np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]])
    b = share * np.clip(np.linalg.solve(system, np.append(signs, 0.0))[:60], -1.0, 1.0)
    b -= b.mean()
    b = problem.feasible(b)
    room = problem.upper - b, b - problem.lower
    found = evaluated(problem, b, K @ b, K @ b, room, np.zeros(1, int), 1e-3)
    level = float(found.levels[0, 0])
    gap = hinge_gap(problem, K, found.coefficients, level, C)
    assert found.dual_gap[0] == pytest.approx(gap, rel=1e-9)
    np.testing.assert_allclose(found.product, K @ found.coefficients, rtol=1e-12, atol=1e-12)
    factor = float(np.linalg.norm(found.coefficients) / np.linalg.norm(b))
    assert found.dual_gap[0] <= hinge_gap(problem, K, b, level / factor, C) * (1 + 1e-12)
    if share > 0.9 and C > 1:
        assert 1.0 < factor < 1 / (1 - 1.01 / 4)


def problems(sums: int) -> list[BoxQP]:
    """Boxes with zero as a bound, and starts within them."""
    found = []
    for size in SIZES:
        above = np.arange(size) < (size + 1) // 2
        costs = RNG.uniform(0.5, 2.0, size)
        lower, upper = np.where(above, 0.0, -costs), np.where(above, costs, 0.0)
        start = (lower + upper) * RNG.uniform(0.1, 0.9)
        groups = np.array([[0, int(above.sum())][:sums]])
        linear = RNG.normal(size=size)
        found.append(BoxQP(RNG.permutation(50)[:size], linear, lower, upper, start, groups))
    return found


@pytest.mark.parametrize("starts", [[0], [0, 4], [0, 1, 5, 8]])
def test_sums_and_extremes_of_stretches(starts: list[int]) -> None:
    values = RNG.normal(size=10)
    parts = [values[a:b] for a, b in zip(starts, [*starts[1:], 10], strict=True)]
    for operation, each in ((np.add, sum), (np.maximum, max)):
        found = reduced(operation, values, np.array(starts))
        np.testing.assert_allclose(found, [each(part.tolist()) for part in parts], rtol=1e-14)


def moved(problem: BoxQP, near: Array) -> list[float]:
    """Into the box, and then by the same share of what is left to the bounds."""
    n, edges = len(near), [*problem.groups[0].tolist(), len(near)]
    found = [min(max(near[k], problem.lower[k]), problem.upper[k]) for k in range(n)]
    for group in (range(*ends) for ends in pairwise(edges)):
        lack = sum(problem.start[k] - found[k] for k in group)
        bounds = problem.upper if lack > 0 else problem.lower
        room = sum(bounds[k] - found[k] for k in group)
        for k in group:
            found[k] += (bounds[k] - found[k]) * (min(1.0, lack / room) if room else 0.0)
    return found


@pytest.mark.parametrize("scale", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("sums", [1, 2])
def test_points_that_keep_the_sums_of_each(sums: int, scale: float) -> None:
    given = problems(sums)
    for problem in given:
        near = scale * RNG.normal(size=len(problem.rows))
        point = problem.feasible(near)
        np.testing.assert_allclose(point, moved(problem, near), rtol=1e-12, atol=1e-13)
        assert (problem.lower - 1e-12 <= point).all()
        assert (point <= problem.upper + 1e-12).all()
        assert point.sum() == pytest.approx(problem.start.sum(), abs=1e-12)
