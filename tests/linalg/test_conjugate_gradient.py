"""Conjugate gradients and their preconditioner, against dense solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from mercer.linalg import conjugate_gradient
from mercer.linalg.low_rank import LowRankInverse

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(3)
N = 120
TURN = np.linalg.qr(RNG.normal(size=(N, N)))[0]
VALUES = 10.0 ** np.linspace(2, -6, N)
A = (TURN * VALUES) @ TURN.T
B = RNG.normal(size=(N, 4))
SHIFTS = np.array([1.0, 0.1, 0.01, 0.0])


def times(V: Array) -> Array:
    return A @ V


def exact(shifts: Array = SHIFTS) -> Array:
    columns = [np.linalg.solve(A + s * np.eye(N), b) for s, b in zip(shifts, B.T, strict=True)]
    return np.column_stack(columns)


def test_every_column_has_its_own_shift() -> None:
    shifts = SHIFTS + 0.01
    found = conjugate_gradient.solve(times, B, shifts, tol=1e-12, max_iter=2000)
    assert found.converged
    assert_allclose(found.solution, exact(shifts), rtol=1e-8, atol=1e-8)
    residual = B - (A @ found.solution + shifts * found.solution)
    assert_allclose(found.residuals, np.linalg.norm(residual, axis=0) / np.linalg.norm(B, axis=0))
    assert found.history.shape == (found.n_iter + 1, 4)
    assert_allclose(found.history[0], 1.0)


def test_a_preconditioner_saves_iterations_and_leaves_the_answer() -> None:
    shifts = np.full(4, 1e-3)
    factor = TURN[:, :60] * np.sqrt(VALUES[:60])
    inverse = LowRankInverse.of(factor.copy())
    plain = conjugate_gradient.solve(times, B, shifts, tol=1e-8, max_iter=5000)
    led = conjugate_gradient.solve(times, B, shifts, tol=1e-8, precondition=inverse)
    assert led.converged
    assert led.n_iter < plain.n_iter / 5
    assert_allclose(led.solution, exact(shifts), rtol=1e-5, atol=1e-5)


def test_the_inverse_of_a_factor_that_is_almost_dependent() -> None:
    factor = RNG.normal(size=(N, 5)) @ RNG.normal(size=(5, 9))  # rank 5
    inverse = LowRankInverse.of(factor.copy())
    shifts = np.array([1e-3, 1.0, 1e3, 1.0])
    wanted = [
        s * np.linalg.solve(factor @ factor.T + s * np.eye(N), b)
        for s, b in zip(shifts, B.T, strict=True)
    ]
    assert_allclose(inverse(B, shifts), np.column_stack(wanted), rtol=1e-8, atol=1e-9)


def test_shifts_below_rounding_leave_a_positive_definite_inverse() -> None:
    factor = TURN[:, :60] * 10.0 ** np.linspace(4, -4, 60)  # squares from 1e8 to 1e-8
    inverse = LowRankInverse.of(factor)
    for shift in (1e-12, 1e-30, 0.0):
        matrix = inverse(np.eye(N), np.full(N, shift))
        assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[0] > 0
    assert_allclose(LowRankInverse.of(np.zeros((3, 0)))(np.eye(3), np.ones(3)), np.eye(3))


def test_it_takes_up_where_it_was_left() -> None:
    shifts = np.full(4, 0.1)
    first = conjugate_gradient.solve(times, B, shifts, tol=1e-10, max_iter=5)
    assert (first.n_iter, first.converged) == (5, False)
    second = conjugate_gradient.solve(times, B, shifts, tol=1e-10, start=first.solution)
    assert_allclose(second.history[0], first.residuals, rtol=1e-6)
    assert second.converged
    assert_allclose(second.solution, exact(shifts), rtol=1e-7, atol=1e-8)


def test_reports_can_stop() -> None:
    seen: list[int] = []

    def report(progress: conjugate_gradient.Progress) -> bool:
        seen.append(progress.n_iter)
        return progress.n_iter == 3

    found = conjugate_gradient.solve(times, B, 0.1, tol=1e-12, report=report)
    assert seen == [1, 2, 3]
    assert not found.converged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_and_matrices_of_no_rank(dtype: Any) -> None:
    right = np.zeros((3, 2), dtype)
    right[0, 1] = 4
    found = conjugate_gradient.solve(lambda V: 0 * V, right, 2.0)
    assert_allclose(found.solution, right / 2)
    assert found.solution.dtype == dtype
    assert found.converged
    nothing = conjugate_gradient.solve(lambda V: 0 * V, right, 0.0)  # no solution
    assert not nothing.converged
    assert_allclose(nothing.solution, 0)


def test_iterations_of_exact_arithmetic() -> None:
    distinct = np.diag(np.repeat([1.0, 3.0, 9.0], 40))
    found = conjugate_gradient.solve(lambda V: distinct @ V, B, 0.0, tol=1e-10)
    assert found.n_iter == 3  # as many as there are eigenvalues


def test_iterations_that_are_led_astray_return_to_the_best() -> None:
    # Products that are wrong in the fourth digit: the recurrence goes on, and the solution away.
    noise = 1e-4 * np.random.default_rng(5).normal(size=(N, N))

    def wrong(vectors: Array) -> Array:
        return A @ vectors + noise @ vectors

    found = conjugate_gradient.solve(wrong, B, np.full(4, 1e-6), tol=1e-12, max_iter=600)
    assert not found.converged
    residual = B - (wrong(found.solution) + 1e-6 * found.solution)
    relative = np.linalg.norm(residual, axis=0) / np.linalg.norm(B, axis=0)
    assert_allclose(found.residuals, relative, rtol=1e-6)
    assert (found.residuals <= 1).all()  # no worse than zero


def test_a_state_is_taken_up_as_if_nothing_had_happened() -> None:
    shifts = np.full(4, 0.1)
    whole = conjugate_gradient.solve(times, B, shifts, tol=1e-10)
    found = conjugate_gradient.solve(times, B, shifts, tol=1e-10, max_iter=4)
    for limit in (1, 3, 500):
        found = conjugate_gradient.solve(
            times, B, shifts, tol=1e-10, start=found.state, max_iter=limit
        )
    assert_array_equal(found.solution, whole.solution)
    assert_array_equal(found.history, whole.history)
    assert found.n_iter == whole.n_iter


def test_a_state_of_other_equations_is_a_guess() -> None:
    shifts = np.full(4, 0.1)
    first = conjugate_gradient.solve(times, B, shifts, tol=1e-10)
    near = B * (1 + 1e-4)
    found = conjugate_gradient.solve(times, near, shifts, tol=1e-10, start=first.state)
    assert_allclose(
        found.solution, np.linalg.solve(A + 0.1 * np.eye(N), near), rtol=1e-5, atol=1e-8
    )
    assert found.history[0].max() < 1e-3
    for other in (-B, B[:, :2]):  # worse than nothing, or of another shape
        found = conjugate_gradient.solve(times, other, 0.1, tol=1e-10, start=first.state)
        assert found.converged
        assert_allclose(found.history[0], 1.0)


def test_rounding_of_the_recurrence_is_made_good() -> None:
    # A matrix of condition 1e9: the residual of the recurrence falls below what the solution has.
    diagonal = np.geomspace(1e-9, 1, 60)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))[0]
    matrix, right = turn * diagonal @ turn.T, turn[:, :1]
    found = conjugate_gradient.solve(lambda V: matrix @ V, right, 0.0, tol=1e-7, max_iter=20_000)
    left = np.linalg.norm(right - matrix @ found.solution) / np.linalg.norm(right)
    assert found.residuals.max() == pytest.approx(left, rel=1e-3)
    assert found.converged == (left <= 2e-7)
    assert found.converged


def test_residuals_kept_apart_need_no_more_iterations_than_unknowns() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    matrix = (basis * np.logspace(-9, 0, 40)) @ basis.T
    right = rng.normal(size=(40, 2))
    right[:, 1] = basis[:, -1]  # an eigenvector, done after one iteration
    kept = conjugate_gradient.solve(
        lambda V: matrix @ V, right, 1e-9, tol=1e-6, max_iter=400, orthogonal=True
    )
    plain = conjugate_gradient.solve(lambda V: matrix @ V, right, 1e-9, tol=1e-6, max_iter=400)
    assert kept.converged
    assert kept.n_iter <= 40 < plain.n_iter
    assert kept.history[2:, 1] == pytest.approx(kept.history[1, 1])
    exact = np.linalg.solve(matrix + 1e-9 * np.eye(40), right)
    np.testing.assert_allclose(
        (matrix + 1e-9 * np.eye(40)) @ kept.solution, right, atol=2e-6 * np.linalg.norm(right)
    )
    np.testing.assert_allclose(kept.solution[:, 1], exact[:, 1], rtol=1e-6, atol=1e-8)


def test_what_is_worse_than_the_start_is_not_returned() -> None:
    # The products of the last look at the residuals belie those that the iterations were led by.
    calls = iter(range(1000))

    def multiply(vectors: Array) -> Array:
        return times(vectors) if next(calls) < 3 else -50.0 * vectors

    found = conjugate_gradient.solve(multiply, B, 0.1, tol=1e-12, max_iter=3)
    assert not found.converged
    assert_array_equal(found.solution, 0.0)
    assert_array_equal(found.residuals, 1.0)


def test_a_limit_and_a_stall_are_told_apart() -> None:
    short = conjugate_gradient.solve(times, B, 1e-6, tol=1e-12, max_iter=2)
    assert "raise max_iter" in conjugate_gradient.convergence_warning(short, "max_iter")
    noise = 1e-4 * np.random.default_rng(5).normal(size=(N, N))
    ended = conjugate_gradient.solve(
        lambda V: times(V) + noise @ V, B, 1e-6, tol=1e-12, max_iter=10**5
    )
    assert ended.stalled
    assert "max_iter" not in conjugate_gradient.convergence_warning(ended, "max_iter")


@pytest.mark.parametrize("outside", [1e-2, 1e-5])
def test_a_right_side_outside_the_range_leaves_a_residual_of_that_part(outside: float) -> None:
    # Only the first 20 directions are in the range: residuals fall to what is outside, then grow.
    values = 10.0 ** np.linspace(0, -2, 20)
    singular = (TURN[:, :20] * values) @ TURN[:, :20].T
    right = singular @ RNG.normal(size=(N, 1))
    right /= np.linalg.norm(right)
    right = right + outside * TURN[:, 20:21]
    found = conjugate_gradient.solve(lambda V: singular @ V, right, 0.0, tol=1e-12, max_iter=500)
    assert not found.converged
    left = np.linalg.norm(right - singular @ found.solution, axis=0) / np.linalg.norm(right)
    assert_allclose(found.residuals, left, rtol=1e-6)
    assert 0.9 * outside < found.residuals[0] < 3 * outside
