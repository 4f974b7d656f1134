"""Programmes side by side, against each of them alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.solvers.box_qp.problem import BoxProgramme, reduced
from mercer.solvers.box_qp.programmes import BoxProgrammes, BoxSolutions, edges_of, stretches

RNG = np.random.default_rng(5)
SIZES = (2, 7, 3, 40, 2)


def problems(sums: int) -> list[BoxProgramme]:
    """Boxes with zero as a bound, and starts within them."""
    found = []
    for size in SIZES:
        above = np.arange(size) < (size + 1) // 2
        costs = RNG.uniform(0.5, 2.0, size)
        lower, upper = np.where(above, 0.0, -costs), np.where(above, costs, 0.0)
        start = (lower + upper) * RNG.uniform(0.1, 0.9)
        programme = BoxProgramme(
            RNG.permutation(50)[:size], RNG.normal(size=size), lower, upper, start
        )
        found.append(replace(programme, n_first=int(above.sum())) if sums == 2 else programme)
    return found


def test_stretches_follow_each_other() -> None:
    begins, sizes = np.array([4, 0, 9, 9]), np.array([3, 0, 1, 2])
    assert stretches(begins, sizes).tolist() == [4, 5, 6, 9, 9, 10]
    assert edges_of(sizes).tolist() == [0, 3, 3, 4, 6]
    nothing = np.empty(0, np.int64)
    assert stretches(nothing, nothing).tolist() == []
    assert edges_of(nothing).tolist() == [0]


@pytest.mark.parametrize("starts", [[0], [0, 4], [0, 1, 5, 8]])
def test_sums_and_extremes_of_stretches(starts: list[int]) -> None:
    values = RNG.normal(size=10)
    parts = [values[a:b] for a, b in zip(starts, [*starts[1:], 10], strict=True)]
    for operation, each in ((np.add, sum), (np.maximum, max)):
        found = reduced(operation, values, np.array(starts))
        np.testing.assert_allclose(found, [each(part.tolist()) for part in parts], rtol=1e-14)


@pytest.mark.parametrize("sums", [1, 2])
def test_programmes_come_out_as_they_went_in(sums: int) -> None:
    given = problems(sums)
    several = BoxProgrammes.of(given)
    assert several.which.tolist() == [k for k, size in enumerate(SIZES) for _ in range(size)]
    for before, after in zip(given, several, strict=True):
        for name in ("rows", "linear", "lower", "upper", "start"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        assert after.n_first == before.n_first
    begins = np.cumsum((0, *SIZES))[:-1]
    assert several.groups[:, 0].tolist() == begins.tolist()
    if sums == 2:
        firsts = [problem.n_first for problem in given]
        assert several.groups[:, 1].tolist() == (begins + firsts).tolist()


def moved(programme: BoxProgramme, near: NDArray[np.float64]) -> list[float]:
    """Into the box, and then by the same share of what is left to the bounds."""
    n, first = len(near), programme.n_first
    found = [min(max(near[k], programme.lower[k]), programme.upper[k]) for k in range(n)]
    for group in [range(n)] if first is None else [range(first), range(first, n)]:
        lack = sum(programme.start[k] - found[k] for k in group)
        bounds = programme.upper if lack > 0 else programme.lower
        room = sum(bounds[k] - found[k] for k in group)
        for k in group:
            found[k] += (bounds[k] - found[k]) * (min(1.0, lack / room) if room else 0.0)
    return found


@pytest.mark.parametrize("scale", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("sums", [1, 2])
def test_points_that_keep_the_sums_of_each(sums: int, scale: float) -> None:
    given = problems(sums)
    near = [scale * RNG.normal(size=len(problem.rows)) for problem in given]
    found = np.split(BoxProgrammes.of(given).feasible(np.concatenate(near)), np.cumsum(SIZES)[:-1])
    for problem, point, values in zip(given, found, near, strict=True):
        np.testing.assert_allclose(point, moved(problem, values), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(problem.feasible(values), point, rtol=1e-12, atol=1e-13)
        assert (problem.lower - 1e-12 <= point).all()
        assert (point <= problem.upper + 1e-12).all()
        assert point.sum() == pytest.approx(problem.start.sum(), abs=1e-12)


def test_solutions_of_several_and_of_one() -> None:
    numbers = np.arange(3.0)
    several = BoxSolutions(
        np.array([2, 1, 3]),
        np.array([1.0, -1.0, 2.0, -3.0, 0.0, 3.0]),
        np.arange(6.0),
        np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
        *(numbers + shift for shift in (10, 20, 30, 40)),
        np.array([7, 8, 9]),
        np.array([True, False, True]),
    )
    assert several.absolute_sums.tolist() == [2.0, 2.0, 6.0]
    _, _, last = several
    assert last.coefficients.tolist() == [-3.0, 0.0, 3.0]
    assert last.product.tolist() == [3.0, 4.0, 5.0]
    assert (last.levels, last.squared_norm, last.objective) == ((4.0, 5.0), 12.0, 22.0)
    assert (last.dual_gap, last.violation, last.n_iter, last.converged) == (32.0, 42.0, 9, True)
    (again,) = BoxSolutions.alone(last)
    np.testing.assert_array_equal(again.coefficients, last.coefficients)
    assert (again.levels, again.violation, again.n_iter) == (last.levels, 42.0, 9)
