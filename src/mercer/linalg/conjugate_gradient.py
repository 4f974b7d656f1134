r"""Conjugate gradients for many right-hand sides, each with a shift of its own.

Column j of X solves (A + shift_j I) x_j = b_j for one symmetric positive semi-definite A that is
only ever multiplied with: all columns share each product A @ V, whatever their shifts. So several
targets, the column of the intercept, and a whole path of regularisations cost one pass over the
matrix for each iteration. A column that has converged waits for the others without further work.

See Hestenes and Stiefel (1952); the preconditioner is that of `mercer.linalg.low_rank`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Multiply = Callable[[Array], Array]
Precondition = Callable[[Array, Array], Array]
Report = Callable[["Progress"], bool]

# A search direction is useless when rounding makes its curvature this small beside the shift.
_TINY = 1e-300
# Iterations go on as if they had not stopped if residuals are what they were, but for this share
# of the tolerance, or this share of themselves, which rounding may take.
_SAME = 0.1
_ROUNDED = 1e-4


#: The least tolerance, in units of rounding of the products: no residual is known better.
ROUNDING = 64
#: The recurrence ends a little below what rounding allows: a factor of two is not a failure.
SLACK = 2.0


@dataclass(frozen=True, eq=False)
class State:
    """State of stopped iterations, from which they can be resumed."""

    solution: Array  # (n, r): of each column
    residual: Array  # (n, r): of each column
    direction: Array  # (n, r): of each column
    slope: Array  # (r,): the decrease along each direction
    history: Array  # (n_iter + 1, r): the relative residuals so far


@dataclass(frozen=True, eq=False)
class Progress:
    """Where the iterations are, and, at the end, the answer."""

    solution: Array  # (n, r): the columns X
    # (r,): norms |b_j - (A + shift_j) x_j| / |b_j| of the columns; 0 for a column of zeros
    residuals: Array
    # (n_iter + 1, r): these norms at the start and after each iteration, as the recurrence
    # estimates them
    history: Array
    n_iter: int  # products with A after the first, those before `state` was taken up included
    converged: bool  # whether every column is below the tolerance
    state: State  # from which to go on
    stopped: bool = False  # whether a report asked to stop
    stalled: bool = False  # whether rounding, and no limit, ended them short of the tolerance


def solve(
    multiply: Multiply,
    right: Array,
    shifts: Array | float,
    *,
    precondition: Precondition | None = None,
    start: Array | State | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    report: Report | None = None,
    orthogonal: bool = False,
) -> Progress:
    """Solve (A + shift_j I) x_j = b_j for every column."""
    run = _Run(multiply, right, shifts, precondition, orthogonal=orthogonal)
    run.begin(start, tol)
    last, stopped = run.n_iter + max_iter, False
    while run.n_iter < last and not stopped and not (run.is_done(tol) and run.is_right(tol)):
        run.step(tol)
        stopped = report is not None and report(run.progress(tol))
    found = run.finish(tol)
    stalled = not (found.converged or stopped) and run.n_iter < last
    return replace(found, stopped=stopped, stalled=stalled)


def complaint(progress: Progress, levers: str, ridge: str = "alpha") -> str:
    """Why the iterations stopped short, and what to do, as a clause; empty if they did not."""
    if progress.converged or progress.stopped:
        return ""
    left = f"with a relative residual of {progress.residuals.max(initial=0.0):.2g}"
    if progress.stalled:
        return (
            f"the iterations stalled after {progress.n_iter} {left}, below which rounding does not "
            f"let them go; raise {ridge}, take a direct solver, or accept this by a larger tol"
        )
    return (
        f"the iterations stopped after {progress.n_iter} {left}; raise {levers}, or accept this by "
        "a larger tol"
    )


class _Run:
    """The state of the iterations, of right-hand sides divided by powers of two next above them.

    What is squared then neither overflows nor vanishes, and nothing is rounded.
    """

    def __init__(
        self,
        multiply: Multiply,
        right: Array,
        shifts: Array | float,
        precondition: Precondition | None,
        *,
        orthogonal: bool,
    ) -> None:
        largest = np.abs(right).max(axis=0, initial=0.0)
        self.exponents = np.frexp(np.where(np.isfinite(largest), largest, 0.0))[1]
        self.multiply, self.right = multiply, np.ldexp(right, -self.exponents)
        self.shifts = np.broadcast_to(np.asarray(shifts, right.dtype), right.shape[1:])
        self.precondition = precondition or (lambda V, shifts: V)
        self.norms = np.linalg.norm(self.right, axis=0)
        self.solution, self.residual = np.zeros_like(right), self.right.copy()
        self.direction = np.zeros_like(right)
        self.slope: Array = np.zeros(right.shape[1])
        self.stuck = np.zeros(right.shape[1], dtype=bool)
        self.history = [self._relative(self.residual)]
        self.basis: list[Array] | None = [] if orthogonal else None

    def begin(self, start: Array | State | None, tol: float) -> None:
        """Take up a state of these equations as it was, any other as a guess."""
        if isinstance(start, State):
            if start.solution.shape == self.right.shape:
                self._take_up(start, tol)
        elif start is not None:
            self._guess(np.ldexp(start.astype(self.right.dtype), -self.exponents))
        self.best, self.least = self.solution.copy(), self.history[-1]
        self.start, self.start_left = self.best.copy(), self.least
        # What is worse than the start is no place to begin anew from.
        self.renewed = 2 * self.history[0]
        self.true: Array | None = None if self.n_iter else self.history[0]

    def _guess(self, solution: Array) -> None:
        """Start from a solution of other equations, in those columns where it is of use."""
        residual = self._true_residual(solution)
        useful = self._relative(residual) < self.history[0]
        self.solution[:, useful] = solution[:, useful]
        self.residual[:, useful] = residual[:, useful]
        self.history = [self._relative(self.residual)]

    def _take_up(self, state: State, tol: float) -> None:
        drift = self._relative(self._true_residual(state.solution) - state.residual)
        # Of a right-hand side of zeros nothing is relative, and the solution is zero.
        other = state.solution[:, self.norms == 0].any()
        most = np.maximum(_SAME * tol, _ROUNDED * self._relative(state.residual))
        if other or not (drift <= most).all():
            self._guess(state.solution)
            return
        self.solution, self.residual = state.solution.copy(), state.residual.copy()
        self.direction, self.slope = state.direction.copy(), state.slope.copy()
        self.history = list(state.history)

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1

    def is_done(self, tol: float) -> bool:
        return not self._active(tol).any()

    def is_right(self, tol: float) -> bool:
        """Whether to leave it at what the recurrence says, or to begin anew from where it led.

        Rounding takes it away from the residual. As long as that is halved each time, beginning
        anew comes closer.
        """
        if self.true is not None:
            return True
        residual = self._true_residual(self.solution)
        self.true = sizes = self._relative(residual)
        wrong = (sizes > SLACK * tol) & (sizes <= self.renewed / 2)
        self.renewed[wrong], self.slope[wrong], self.stuck[wrong] = sizes[wrong], 0.0, False
        self.residual[:, wrong], self.direction[:, wrong] = residual[:, wrong], 0.0
        for earlier in self.basis or ():
            earlier[:, wrong] = 0.0
        self.best[:, wrong] = self.solution[:, wrong]
        self.least = np.where(wrong, sizes, self.least)
        self.history[-1] = np.where(wrong, sizes, self.history[-1])
        return not wrong.any()

    def step(self, tol: float) -> None:
        """One product with A, and a step along each column's direction."""
        active = np.flatnonzero(self._active(tol))
        self._keep_apart(active)
        residual, shifts = self.residual[:, active], self.shifts[active]
        preconditioned = self.precondition(residual, shifts)
        slope = _inner(residual, preconditioned)
        with np.errstate(divide="ignore", invalid="ignore"):
            keep = np.where(self.slope[active] > 0, slope / self.slope[active], 0.0)
        direction = preconditioned + keep * self.direction[:, active]
        image = self.multiply(direction) + shifts * direction
        curvature = _inner(direction, image)
        good = curvature > _TINY
        length = np.where(good, slope / np.where(good, curvature, 1.0), 0.0)
        self.solution[:, active] += length * direction
        self.residual[:, active] -= length * image
        self.direction[:, active], self.slope[active] = direction, slope
        self.stuck[active], self.true = ~good, None
        self.history.append(self._relative(self.residual))
        better = self.history[-1] < self.least
        self.best[:, better] = self.solution[:, better]
        self.least = np.minimum(self.history[-1], self.least)

    def _keep_apart(self, active: NDArray[np.intp]) -> None:
        """Take from each residual what rounding put into it of those before."""
        if self.basis is None:
            return
        residual = self.residual[:, active]
        for _ in range(2):  # the second time for what the first left
            for earlier in self.basis:
                residual -= earlier[:, active] * _inner(earlier[:, active], residual)
        norms = np.linalg.norm(residual, axis=0)
        self.residual[:, active] = residual
        kept = np.zeros_like(self.residual)
        kept[:, active] = residual / np.where(norms > 0, norms, 1.0)
        self.basis.append(kept)

    def state(self) -> State:
        return State(
            self.solution.copy(),
            self.residual.copy(),
            self.direction.copy(),
            self.slope.copy(),
            np.array(self.history),
        )

    def progress(self, tol: float) -> Progress:
        last = self.history[-1]
        return self._told(last, bool((last <= tol).all()), self.state())

    def finish(self, tol: float) -> Progress:
        """The answer, with residuals that do not trust the recurrence."""
        residuals, state = self.true, self.state()
        if residuals is None:
            residuals = self._relative(self._true_residual(self.solution))
        converged = bool((residuals <= SLACK * tol).all())
        if not converged:
            residuals = self._return_to_the_best(residuals)
        return self._told(residuals, converged, state)

    def _told(self, residuals: Array, converged: bool, state: State) -> Progress:
        with np.errstate(over="ignore", under="ignore"):
            solution = np.ldexp(self.solution, self.exponents)
        return Progress(solution, residuals, state.history, self.n_iter, converged, state)

    def _return_to_the_best(self, residuals: Array) -> Array:
        """Where rounding led the last iterations astray, take what was best, and its residuals.

        What was best is what the recurrence said, which may be wrong: never worse than the start.
        """
        if not (self.least >= residuals).all():
            last, self.solution = self.solution, self.best
            before = self._relative(self._true_residual(self.solution))
            worse = ~(before < residuals)
            self.solution[:, worse] = last[:, worse]
            residuals = np.where(worse, residuals, before)
        lost = ~(residuals <= self.start_left)
        self.solution[:, lost] = self.start[:, lost]
        return np.where(lost, self.start_left, residuals)

    def _active(self, tol: float) -> NDArray[np.bool_]:
        return (self.history[-1] > tol) & ~self.stuck

    def _true_residual(self, solution: Array) -> Array:
        image = self.multiply(solution) + self.shifts * solution
        found: Array = self.right - image
        return found

    def _relative(self, residual: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.linalg.norm(residual, axis=0) / self.norms
        return np.where(self.norms > 0, found, 0.0)


def _inner(a: Array, b: Array) -> Array:
    """Inner products of columns, summed in float64."""
    found: Array = np.einsum("ij,ij->j", a, b, dtype=np.float64)
    return found
