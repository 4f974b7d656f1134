"""The search for hyper-parameters on functions whose maxima are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.exceptions import NotDifferentiableError, ValidityError
from mercer.solvers.likelihood import maximise

Array = NDArray[np.float64]
WIDE = [[-10.0, 10.0]]


def bowl(theta: Array) -> tuple[float, Array]:
    return -float(np.sum((theta - 1) ** 2)), -2 * (theta - 1)


def two_hills(theta: Array) -> tuple[float, Array]:
    """A hill of height 1 at -3 and one of height 2 at 3."""
    left, right = np.exp(-((theta + 3) ** 2)), 2 * np.exp(-((theta - 3) ** 2))
    return float((left + right)[0]), -2 * (theta + 3) * left - 2 * (theta - 3) * right


def test_a_maximum_inside_the_bounds() -> None:
    found = maximise.maximise(bowl, np.full(3, 5.0), np.tile([-10, 10], (3, 1)))
    np.testing.assert_allclose(found.theta, 1, atol=1e-5)
    assert found.converged
    assert not found.at_bounds.any()
    assert found.n_evaluations >= found.n_iter >= 1
    assert found.gradient_norm < 1e-4


def test_a_maximum_at_a_bound_and_a_start_outside() -> None:
    found = maximise.maximise(bowl, [100.0], [[2.0, 4.0]])
    assert found.theta == [2.0]
    assert found.converged
    assert found.at_bounds.tolist() == [[True, False]]
    assert found.gradient_norm == 0.0


def test_a_search_ends_where_a_step_gains_too_little() -> None:
    def narrow(theta: Array) -> tuple[float, Array]:
        scales = np.array([1.0, 100.0, 1e4])
        return -float(scales @ (theta - 1) ** 4), -4 * scales * (theta - 1) ** 3

    start, bounds = np.zeros(3), np.tile([-10, 10], (3, 1))
    long = maximise.maximise(narrow, start, bounds)
    short = maximise.maximise(narrow, start, bounds, enough=1.0)
    assert short.converged
    assert short.n_evaluations < long.n_evaluations
    assert -50 < short.value <= long.value


def test_the_best_of_several_starts() -> None:
    assert maximise.maximise(two_hills, [-3.5], WIDE).value == pytest.approx(1, abs=1e-6)
    found = maximise.maximise(two_hills, [-3.5], WIDE, starts=[[2.5], [-2.0]])
    assert found.value == pytest.approx(2, abs=1e-6)
    assert found.converged


@pytest.mark.parametrize("later", [4.5, -4.2])  # on the same hill, and on the lower one
def test_a_later_start_ends_early_unless_it_may_reach_the_best(later: float) -> None:
    alone = maximise.maximise(two_hills, [later], WIDE, enough=1e-9)
    first = maximise.maximise(two_hills, [3.5], WIDE, enough=1e-9)
    both = maximise.maximise(two_hills, [3.5], WIDE, starts=[[later]], enough=1e-9)
    assert both.n_evaluations < first.n_evaluations + alone.n_evaluations
    assert both.value == first.value
    better = maximise.maximise(two_hills, [-3.5], WIDE, starts=[[4.5]], enough=1e-9)
    np.testing.assert_allclose(better.theta, 3.0, atol=1e-3)


@pytest.mark.parametrize("kind", ["raises", "nan", "infinite gradient"])
def test_a_region_without_values_turns_the_search_back(kind: str) -> None:
    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient = bowl(theta)
        if theta[0] > 1.2:
            if kind == "raises":
                raise ValidityError("no factor")
            return (np.nan, gradient) if kind == "nan" else (value, gradient * np.inf)
        return value, gradient

    found = maximise.maximise(objective, [-8.0], WIDE, starts=[[5.0]])
    assert found.theta[0] == pytest.approx(1, abs=1e-4)


def test_failure_everywhere_gives_the_first_reason() -> None:
    def objective(theta: Array) -> Any:
        raise ValidityError(f"no factor at {theta[0]:g}")

    with pytest.raises(ValidityError, match="at 3"):
        maximise.maximise(objective, [3.0], WIDE, starts=[[4.0]])
    with pytest.raises(ValidityError, match="not finite at any start"):
        maximise.maximise(lambda theta: (np.nan, theta), [3.0], WIDE)


def test_other_errors_are_not_swallowed() -> None:
    def objective(theta: Array) -> Any:
        raise NotDifferentiableError("no gradient")

    with pytest.raises(NotDifferentiableError):
        maximise.maximise(objective, [3.0], WIDE)


def test_reports_and_stops() -> None:
    seen: list[float] = []

    def rosenbrock(theta: Array) -> tuple[float, Array]:
        x, y = theta
        gradient = [2 * (x - 1) + 400 * x * (x * x - y), 200 * (y - x * x)]
        return -((1 - x) ** 2) - 100 * (y - x * x) ** 2, -np.array(gradient)

    def report(found: maximise.Optimum) -> bool:
        assert found.n_iter == len(seen)  # the first report is that of the start
        seen.append(found.value)
        value, gradient = rosenbrock(found.theta)
        assert found.value == value
        assert found.gradient_norm == pytest.approx(
            np.abs(np.clip(found.theta + gradient, -5, 5) - found.theta).max()
        )
        return len(seen) == 5

    bounds = np.tile([-5.0, 5.0], (2, 1))
    stopped = maximise.maximise(rosenbrock, [-1.0, 2.0], bounds, starts=[[0, 0]], report=report)
    assert len(seen) == 5
    assert seen == sorted(seen)
    assert not stopped.converged
    assert stopped.value == seen[-1]
    assert stopped.n_iter == 4
    start = maximise.maximise(rosenbrock, [-1.0, 2.0], bounds, report=lambda found: True)
    assert (start.n_iter, start.n_evaluations, start.converged) == (0, 1, False)
    short = maximise.maximise(rosenbrock, [-1.0, 2.0], bounds, max_iter=3)
    assert not short.converged
    assert short.n_iter == 3


@pytest.mark.parametrize("bounds", [[-9.0, 9.0], [-9.0, 1.5]], ids=["inside", "at a bound"])
def test_a_pilot_search_leads_to_the_same_maximum_sooner(bounds: list[float]) -> None:
    curvature = np.diag([1e4, 1.0]) + 0.3

    def objective(theta: Array, top: float = 2.0, share: float = 1.0) -> tuple[float, Array]:
        away = theta - [top, top]
        return -share * float(away @ curvature @ away), -2 * share * curvature @ away

    limits = np.tile(bounds, (2, 1))
    subsample = maximise.SubsampledObjective(
        lambda theta: objective(theta, 1.9, 0.25), 0.25, np.empty((0, 2))
    )
    plain = maximise.maximise(objective, [-3.0, -3.0], limits)
    led = maximise.maximise(objective, [-3.0, -3.0], limits, subsample=subsample)
    assert led.converged
    assert led.value == pytest.approx(plain.value, rel=1e-6, abs=1e-8)
    assert led.n_evaluations < plain.n_evaluations


@pytest.mark.parametrize("kind", ["misleads", "fails"])
def test_a_pilot_search_that_is_of_no_use(kind: str) -> None:
    def useless(theta: Array) -> tuple[float, Array]:
        if kind == "fails":
            raise ValidityError("no factor")
        return -float((theta - 9) @ (theta - 9)), -2 * (theta - 9)

    def objective(theta: Array) -> tuple[float, Array]:
        return -float(theta @ theta), -2 * theta

    limits = np.tile([-9.0, 9.0], (2, 1))
    subsample = maximise.SubsampledObjective(useless, 0.1, np.empty((0, 2)))
    found = maximise.maximise(objective, [1.0, 2.0], limits, subsample=subsample)
    assert found.converged
    np.testing.assert_allclose(found.theta, 0, atol=1e-4)


def test_a_pilot_search_looks_further_than_the_search() -> None:
    limits = np.array([[-9.0, 9.0]])
    alone = maximise.maximise(two_hills, [-2.5], limits)
    subsample = maximise.SubsampledObjective(two_hills, 1.0, np.array([[2.5]]))
    led = maximise.maximise(two_hills, [-2.5], limits, subsample=subsample)
    assert alone.theta[0] == pytest.approx(-3, abs=1e-3)
    assert led.theta[0] == pytest.approx(3, abs=1e-3)


def test_a_pilot_search_reports_and_can_be_stopped() -> None:
    seen: list[Array] = []

    def report(found: maximise.Optimum) -> bool:
        seen.append(found.theta)
        return len(seen) == 3

    def sharp(theta: Array) -> tuple[float, Array]:
        away = theta - [1.0, 2.0]
        return -float(away @ away), -2 * away

    def slow(theta: Array) -> tuple[float, Array]:
        away = (theta - [1.0, 2.0]) * [1.0, 30.0]
        return -float(away @ away), -2 * away * [1.0, 30.0]

    limits = np.tile([-9.0, 9.0], (2, 1))
    subsample = maximise.SubsampledObjective(slow, 1.0, np.empty((0, 2)))
    found = maximise.maximise(sharp, [-5.0, -5.0], limits, subsample=subsample, report=report)
    assert len(seen) == 3
    assert not found.converged
    assert found.value > sharp(np.array([-5.0, -5.0]))[0]  # what the pilot search found is kept
    assert found.n_evaluations == 2


def test_nothing_to_learn() -> None:
    found = maximise.maximise(lambda theta: (7.0, theta), [], np.empty((0, 2)))
    assert (found.value, found.n_iter, found.converged) == (7.0, 0, True)
    assert found.theta.shape == (0,)


def test_an_interrupt_passes_through() -> None:
    def objective(theta: Array) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maximise.maximise(objective, [3.0], WIDE)


def rounded_bowl(theta: Array) -> tuple[float, Array]:
    """A bowl whose values and slopes are rounded far above the rounding of a float."""
    value, gradient = bowl(theta)
    return round(1e4 * value) / 1e4, gradient + 0.02 * np.sin(1e9 * theta)


def test_a_search_ends_at_the_rounding_of_its_objective() -> None:
    start, bounds = np.full(3, 5.0), np.tile([-10, 10], (3, 1))
    found = maximise.maximise(rounded_bowl, start, bounds, enough=lambda theta: 1e-3)
    assert found.converged
    assert found.n_evaluations < 20
    np.testing.assert_allclose(found.theta, 1, atol=0.05)


def test_a_start_within_its_errors_is_left_alone() -> None:
    def narrow(theta: Array) -> tuple[float, Array]:
        return -5e3 * float(theta @ theta), -1e4 * theta

    errors = np.full(2, 0.01)
    near = maximise.maximise(narrow, [1e-4, 0], WIDE * 2, scales=errors, enough=0.1)
    assert (near.n_evaluations, near.converged) == (1, True)
    far = maximise.maximise(narrow, [0.5, -0.5], WIDE * 2, scales=errors, enough=0.1)
    assert far.converged
    assert 0 <= -far.value < 0.1
    assert far.n_evaluations < 12


def test_a_pilot_search() -> None:
    scales = np.array([50.0, 200.0])

    def objective(theta: Array) -> tuple[float, Array]:
        return -float(scales @ (theta - 1) ** 2), -2 * scales * (theta - 1)

    seen: list[float] = []

    def report(found: maximise.Optimum) -> bool:
        seen.append(found.value)
        return False

    subsample = maximise.SubsampledObjective(objective, 0.25, np.empty((0, 2)))
    found = maximise.pilot_search(subsample, [0.0, 0.0], WIDE * 2, enough=0.01, report=report)
    assert found is not None
    np.testing.assert_allclose(found.theta, 1, atol=0.02)
    np.testing.assert_allclose(found.scales, 1 / np.sqrt(4 * 2 * scales), rtol=1e-6)
    assert seen == sorted(seen)

    def fails(theta: Array) -> Any:
        raise ValidityError("no factor")

    nothing = maximise.SubsampledObjective(fails, 0.25, np.empty((0, 2)))
    assert maximise.pilot_search(nothing, [0.0, 0.0], WIDE * 2) is None
