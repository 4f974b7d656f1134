"""Feasible points of box-constrained quadratic programs, and sums of stretches of variables."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.solvers.box_qp.problem import BoxQP, reduced

RNG = np.random.default_rng(5)
SIZES = (2, 7, 3, 40, 2)


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


def moved(problem: BoxQP, near: NDArray[np.float64]) -> list[float]:
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
