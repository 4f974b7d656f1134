r"""Conjugate gradients for many right-hand sides, each with a shift of its own.

Column j of X solves (A + shift_j I) x_j = b_j for one symmetric positive semi-definite A, which is
needed only in products A @ V. All columns share each product, whatever their shifts, so that
several targets, the column of the intercept, and a whole regularisation path cost one pass over the
matrix per iteration. A column that has converged is left out of further products.

See Hestenes and Stiefel (1952); the preconditioner is that of `mercer.linalg.low_rank`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array

Multiply = Callable[[Array], Array]
Precondition = Callable[[Array, Array], Array]
Report = Callable[["Progress"], bool]

# A saved state is resumed exactly if its residual still matches to this share of the tolerance, or
# to this share of itself; otherwise its solution is only a starting point.
_SAME_TO_TOLERANCE = 0.1
_SAME_TO_ROUNDING = 1e-4

#: The smallest tolerance, in rounding units of the products.
ROUNDING = 64
#: Factor by which the true residual may exceed the tolerance, which the recurrence estimates.
SLACK = 2.0


@dataclass(frozen=True, eq=False)
class State:
    """State of stopped iterations, from which they can be resumed."""

    solution: Array  # (n, r)
    residual: Array  # (n, r)
    direction: Array  # (n, r)
    slope: Array  # (r,): the decrease along each direction
    history: Array  # (n_iter + 1, r): the relative residuals so far


@dataclass(frozen=True, eq=False)
class Progress:
    """The current iterate, and at the end the answer."""

    solution: Array  # (n, r): the columns X
    residuals: Array  # (r,): norms |b_j - (A + shift_j) x_j| / |b_j|; 0 for a column of zeros
    history: Array  # (n_iter + 1, r): these norms at the start and after each iteration, estimated
    n_iter: int  # products with A after the first, including those of a resumed `state`
    converged: bool  # whether every column is below the tolerance
    state: State
    stopped: bool = False  # whether a report asked to stop
    stalled: bool = False  # whether rounding ended the iterations above the tolerance


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
    """Solve (A + shift_j I) x_j = b_j for every column.

    With `orthogonal`, all residuals are kept, and each is made orthogonal to those before it.
    """
    run = _Run(multiply, right, shifts, precondition, orthogonal=orthogonal)
    run.begin(start, tol)
    last, stopped, moved = run.n_iter + max_iter, False, True
    while run.n_iter < last and not stopped:
        if not (moved and run.active(tol).any()) and not run.restart(tol):
            break
        moved = run.step(tol)
        stopped = report is not None and report(run.progress(tol))
    answer = run.finish(tol)
    stalled = not (answer.converged or stopped) and run.n_iter < last
    return replace(answer, stopped=stopped, stalled=stalled)


def convergence_warning(progress: Progress, remedies: str, ridge: str = "alpha") -> str:
    """A clause on why the iterations stopped early, with remedies; empty if they converged."""
    if progress.converged or progress.stopped:
        return ""
    residual = f"with a relative residual of {progress.residuals.max(initial=0.0):.2g}"
    if progress.stalled:
        return (
            f"the iterations stalled after {progress.n_iter} {residual}, because rounding does not "
            f"let it become smaller; raise {ridge}, take a direct solver, or accept this by a "
            "larger tol"
        )
    return (
        f"the iterations stopped after {progress.n_iter} {residual}; raise {remedies}, or accept "
        "this by a larger tol"
    )


class _Run:
    """The iterations, and the best solution so far by its true (not estimated) residual."""

    def __init__(
        self,
        multiply: Multiply,
        right: Array,
        shifts: Array | float,
        precondition: Precondition | None,
        *,
        orthogonal: bool,
    ) -> None:
        self.multiply, self.right = multiply, right
        self.shifts = np.broadcast_to(np.asarray(shifts, right.dtype), right.shape[1:])
        self.precondition = precondition or (lambda V, shifts: V)
        self.norms = np.linalg.norm(right, axis=0)
        self.solution, self.residual = np.zeros_like(right), right.copy()
        self.direction = np.zeros_like(right)
        self.slope: Array = np.zeros(right.shape[1])
        self.history = [self._relative(self.residual)]
        self.basis: list[Array] | None = [] if orthogonal else None

    def begin(self, start: Array | State | None, tol: float) -> None:
        """Resume a state of the same equations; use any other start as an initial guess."""
        if isinstance(start, State):
            if start.solution.shape == self.right.shape:
                self._resume(start, tol)
        elif start is not None:
            self._guess(start.astype(self.right.dtype))
        self.best, self.least = self.solution.copy(), self.history[-1]
        self.lowest, self.lowest_estimate = self.solution.copy(), self.history[-1]
        self.known: Array | None = None if self.n_iter else self.history[0]

    def _guess(self, solution: Array) -> None:
        """Start from a solution of other equations, in the columns where it is better than zero."""
        residual = self._true_residual(solution)
        useful = self._relative(residual) < self.history[0]
        self.solution[:, useful] = solution[:, useful]
        self.residual[:, useful] = residual[:, useful]
        self.history = [self._relative(self.residual)]

    def _resume(self, state: State, tol: float) -> None:
        drift = self._relative(self._true_residual(state.solution) - state.residual)
        # A zero right-hand side has the solution zero, and no relative residual.
        other = state.solution[:, self.norms == 0].any()
        rounding = _SAME_TO_ROUNDING * self._relative(state.residual)
        if other or not (drift <= np.maximum(_SAME_TO_TOLERANCE * tol, rounding)).all():
            self._guess(state.solution)
            return
        self.solution, self.residual = state.solution.copy(), state.residual.copy()
        self.direction, self.slope = state.direction.copy(), state.slope.copy()
        self.history = list(state.history)

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1

    def active(self, tol: float) -> NDArray[np.bool_]:
        """Columns whose estimated residual is above the tolerance."""
        return self.history[-1] > tol

    def restart(self, tol: float) -> bool:
        """Restart columns whose true residual is above the tolerance, unless that is rounding.

        Rounding errors separate the recurrence from the true residual. Restarts go on as long as
        each halves the true residual. Returns False if no column was restarted.
        """
        if self.known is not None:
            return False
        residual, least = self._true_residual(self.solution), self.least
        sizes = self._relative(residual)
        self._keep_better(sizes)
        wrong = (sizes > SLACK * tol) & (sizes <= least / 2)
        self.residual[:, wrong], self.direction[:, wrong] = residual[:, wrong], 0.0
        self.slope[wrong] = 0.0
        for earlier in self.basis or ():
            earlier[:, wrong] = 0.0
        self.history[-1] = np.where(wrong, sizes, self.history[-1])
        return bool(wrong.any())

    def _keep_better(self, sizes: Array) -> None:
        """Compute true residuals, and keep the columns of the solution that are the best so far."""
        self.known = sizes
        better = sizes < self.least
        self.best[:, better] = self.solution[:, better]
        self.least = np.where(better, sizes, self.least)

    def step(self, tol: float) -> bool:
        """One product with A and a step of each column; False if no column makes progress."""
        active = np.flatnonzero(self.active(tol))
        self._orthogonalise(active)
        residual, shifts = self.residual[:, active], self.shifts[active]
        preconditioned = self.precondition(residual, shifts)
        slope = _inner(residual, preconditioned)
        with np.errstate(divide="ignore", invalid="ignore"):
            keep = np.where(self.slope[active] > 0, slope / self.slope[active], 0.0)
        direction = preconditioned + keep * self.direction[:, active]
        image = self.multiply(direction) + shifts * direction
        curvature = _inner(direction, image)
        good = curvature > 0
        length = np.where(good, slope / np.where(good, curvature, 1.0), 0.0)
        self.solution[:, active] += length * direction
        self.residual[:, active] -= length * image
        self.direction[:, active], self.slope[active] = direction, slope
        self.known = None
        self.history.append(self._relative(self.residual))
        self._keep_lowest()
        return bool(good.any())

    def _keep_lowest(self) -> None:
        """Keep columns whose estimated residual has halved.

        Where A is singular and b is not quite in its range, residuals fall and then grow.
        """
        halved = self.history[-1] < self.lowest_estimate / 2
        self.lowest[:, halved] = self.solution[:, halved]
        self.lowest_estimate = np.where(halved, self.history[-1], self.lowest_estimate)

    def _orthogonalise(self, active: NDArray[np.intp]) -> None:
        """Make each residual orthogonal to all previous ones, which rounding prevents."""
        if self.basis is None:
            return
        residual = self.residual[:, active]
        for _ in range(2):  # Gram-Schmidt, twice for full orthogonality
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
        estimates, state = self.history[-1], self.state()
        converged = bool((estimates <= tol).all())
        return Progress(state.solution, estimates, state.history, self.n_iter, converged, state)

    def finish(self, tol: float) -> Progress:
        """The best solution, with its true residuals."""
        if self.known is None:
            self._keep_better(self._relative(self._true_residual(self.solution)))
        assert self.known is not None
        solution, residuals, state = self.solution, self.known, self.state()
        converged = bool((residuals <= SLACK * tol).all())
        if not converged:
            sizes = self._relative(self._true_residual(self.lowest))
            self.best = np.where(sizes < self.least, self.lowest, self.best)
            self.least = np.minimum(sizes, self.least)
            solution, residuals = np.where(self.least < residuals, self.best, solution), self.least
        return Progress(solution, residuals, state.history, self.n_iter, converged, state)

    def _true_residual(self, solution: Array) -> Array:
        image = self.multiply(solution) + self.shifts * solution
        residual: Array = self.right - image
        return residual

    def _relative(self, residual: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = np.linalg.norm(residual, axis=0) / self.norms
        return np.where(self.norms > 0, sizes, 0.0)


def _inner(a: Array, b: Array) -> Array:
    """Inner products of columns, summed in float64."""
    products: Array = np.einsum("ij,ij->j", a, b, dtype=np.float64)
    return products
