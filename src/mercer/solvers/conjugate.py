r"""Conjugate gradients for many right-hand sides, each with a shift of its own.

Column j of X solves (A + shift_j I) x_j = b_j for one symmetric positive semi-definite A that is
only ever multiplied with: all columns share each product A @ V, whatever their shifts. So several
targets, the column of the intercept, and a whole path of regularisations cost one pass over the
matrix for each iteration. A column that has converged waits for the others without further work.

See Hestenes and Stiefel (1952); the preconditioner is that of `mercer.solvers.lowrank`.
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


@dataclass(frozen=True, eq=False)
class Progress:
    """Where the iterations are, and, at the end, the answer.

    Attributes
    ----------
    solution : ndarray of shape (n, r)
        The columns X.
    residuals : ndarray of shape (r,)
        Norms |b_j - (A + shift_j) x_j| / |b_j| of the columns; 0 for a column of zeros.
    history : ndarray of shape (n_iter + 1, r)
        These norms at the start and after each iteration, as the recurrence estimates them.
    n_iter : int
        Products with A after the first.
    converged : bool
        Whether every column is below the tolerance.
    stopped : bool
        Whether a report asked to stop.
    """

    solution: Array
    residuals: Array
    history: Array
    n_iter: int
    converged: bool
    stopped: bool = False


def solve(
    multiply: Multiply,
    right: Array,
    shifts: Array | float,
    *,
    precondition: Precondition | None = None,
    start: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    report: Report | None = None,
    orthogonal: bool = False,
) -> Progress:
    """Solve (A + shift_j I) x_j = b_j for every column.

    Parameters
    ----------
    multiply : callable
        ``multiply(V)`` returns A @ V for V of shape (n, r).
    right : ndarray of shape (n, r)
        The right-hand sides.
    shifts : ndarray of shape (r,) or float
        What is added to the diagonal, for each column.
    precondition : callable, optional
        ``precondition(V, shifts)`` returns about (A + shift_j I)^-1 v_j for the columns that are
        left, whose shifts it is given.
    start : ndarray of shape (n, r), optional
        Where to begin: an earlier solution is taken up where it was left.
    tol : float
        The relative residual at which a column is done.
    max_iter : int
        Products with A after the first.
    report : callable, optional
        Called after each iteration; True stops.
    orthogonal : bool
        Whether all residuals are kept, and each is made orthogonal to those before it; not for
        use with a preconditioner. That takes the room of all iterations, and fewer of them; and
        rounding does not grow on the way, so that sums in another order give the same iterations.

    Returns
    -------
    Progress
        The solution. Its residuals are computed anew from the products, not by the recurrence.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import conjugate
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> found = conjugate.solve(lambda V: A @ V, np.ones((3, 2)), np.array([0.0, 1.0]), tol=1e-12)
    >>> found.solution.round(4).tolist()
    [[1.0, 0.5], [0.5, 0.3333], [0.25, 0.2]]
    >>> found.n_iter, found.converged
    (3, True)
    """
    run = _Run(multiply, right, shifts, precondition, start, orthogonal=orthogonal)
    stopped = False
    while run.n_iter < max_iter and not run.is_done(tol) and not stopped:
        run.step(tol)
        stopped = report is not None and report(run.progress(tol))
    return replace(run.finish(tol), stopped=stopped)


def complaint(progress: Progress, levers: str) -> str:
    """Why the iterations stopped short, and what to do, as a clause; empty if they did not.

    Parameters
    ----------
    progress : Progress
        Where they stopped.
    levers : str
        What to raise.

    Returns
    -------
    str
        For a warning.
    """
    if progress.converged or progress.stopped:
        return ""
    return (
        f"the iterations stopped after {progress.n_iter} with a relative residual of "
        f"{progress.residuals.max(initial=0.0):.2g}; raise {levers}, or accept this by a larger tol"
    )


class _Run:
    """The state of the iterations."""

    def __init__(
        self,
        multiply: Multiply,
        right: Array,
        shifts: Array | float,
        precondition: Precondition | None,
        start: Array | None,
        *,
        orthogonal: bool,
    ) -> None:
        self.multiply, self.right = multiply, right
        self.shifts = np.broadcast_to(np.asarray(shifts, right.dtype), right.shape[1:])
        self.precondition = precondition or (lambda V, shifts: V)
        self.norms = np.linalg.norm(right, axis=0)
        self.solution = np.zeros_like(right) if start is None else start.astype(right.dtype)
        self.residual = right.copy() if start is None else self._true_residual()
        self.direction = np.zeros_like(right)
        self.slope = np.zeros(right.shape[1])
        self.stuck = np.zeros(right.shape[1], dtype=bool)
        self.history = [self._relative(self.residual)]
        self.best, self.least = self.solution.copy(), self.history[0]
        self.n_iter = 0
        self.basis: list[Array] | None = [] if orthogonal else None

    def is_done(self, tol: float) -> bool:
        return not self._active(tol).any()

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
        self.stuck[active] = ~good
        self.n_iter += 1
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

    def progress(self, tol: float) -> Progress:
        last = self.history[-1]
        return Progress(
            self.solution.copy(),
            last,
            np.array(self.history),
            self.n_iter,
            bool((last <= tol).all()),
        )

    def finish(self, tol: float) -> Progress:
        """The answer, with residuals that do not trust the recurrence."""
        residuals = self._relative(self._true_residual()) if self.n_iter else self.history[0]
        # The recurrence ends a little below what rounding allows: a factor of two is not a failure.
        converged = bool((residuals <= 2 * tol).all())
        if not converged and not (self.least >= residuals).all():
            residuals = self._return_to_the_best(residuals)
        return Progress(self.solution, residuals, np.array(self.history), self.n_iter, converged)

    def _return_to_the_best(self, residuals: Array) -> Array:
        """Where rounding led the last iterations astray, take what was best, and its residuals."""
        last, self.solution = self.solution, self.best
        before = self._relative(self._true_residual())
        worse = ~(before < residuals)
        self.solution[:, worse] = last[:, worse]
        return np.where(worse, residuals, before)

    def _active(self, tol: float) -> NDArray[np.bool_]:
        return (self.history[-1] > tol) & ~self.stuck

    def _true_residual(self) -> Array:
        image = self.multiply(self.solution) + self.shifts * self.solution
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
