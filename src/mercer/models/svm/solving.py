"""Dual problems solved: one with all threads, or several side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ShortFitWarning, warn
from mercer.models.svm.duals import Dual, Machine
from mercer.parallel import one_thread, thread_count
from mercer.solvers.boxes import BoxProgramme, BoxSolution, SymmetricMatrix
from mercer.solvers.smo import solve

Array = NDArray[np.float64]
#: Called after a step with a function that returns the machines so far; True stops.
Report = Callable[[Callable[[], list[Machine]]], bool]

# How long it takes at least from one report of several problems to the next.
_SECONDS = 0.05
# Bounds in place of none, in the unit of coefficients, and how many rows tell that.
_WIDTHS, _SAMPLE = np.array([1e3, 1e6, 1e9, 1e12]), 64
# How often a solution is refined; the unit changes little after the first time.
_REFINEMENTS = 3


def warn_of_folds(owner: str, short: int) -> None:
    """Tell that machines of which only scores are kept are not as exact as asked.

    Parameters
    ----------
    owner : str
        The name of the model.
    short : int
        How many they are.
    """
    if short:
        warn(
            f"{owner}: {short} of the machines that were fitted without some of the rows stopped "
            "before every row was within tol; raise max_iter, scale the data, or lower C.",
            ShortFitWarning,
        )


@dataclass(frozen=True)
class Options:
    """What the solver is told beside the problem.

    Attributes
    ----------
    tol : float
        The violation that is allowed.
    max_iter : int or None
        The largest number of steps; None for the solver's own limit.
    """

    tol: float
    max_iter: int | None


def solved(
    matrix: SymmetricMatrix,
    duals: Sequence[Dual],
    options: Options,
    *,
    near: Sequence[Array] | None = None,
    everywhere: bool = False,
    report: Report | None = None,
) -> list[Machine]:
    """Solve dual problems.

    Parameters
    ----------
    matrix : SymmetricMatrix
        The kernel values of all rows.
    duals : sequence of Dual
        The problems.
    options : Options
        Of the solver.
    near : sequence of ndarray of shape (n,), optional
        Coefficients of all rows to start from, for each problem.
    everywhere : bool, default=False
        Whether the machines are to know their values at all rows, those left out too.
    report : callable, optional
        Called after each step of a single problem, and after each of several.

    Returns
    -------
    list of Machine
        One for each.
    """
    jobs = _Jobs(matrix, duals, options, near, everywhere)
    if len(duals) == 1:
        return [jobs.solve(0, report)]
    threads = min(thread_count(), len(duals))
    if threads == 1:
        return jobs.collected(map(jobs.solve, range(len(duals))), report)
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(jobs.solve_alone, number) for number in range(len(duals))]
        try:
            return jobs.collected((job.result() for job in waiting), report)
        finally:  # after Ctrl-C those that have not begun are not waited for
            for job in waiting:
                job.cancel()


def _largest(matrix: SymmetricMatrix, programme: BoxProgramme) -> float:
    """The largest value of some rows with themselves; 1 if all are zero."""
    values, positions = matrix.block(programme.rows[:_SAMPLE], precise=True)
    return float(np.abs(values[positions, positions]).max()) or 1.0


@dataclass(frozen=True, eq=False)
class _Jobs:
    matrix: SymmetricMatrix
    duals: Sequence[Dual]
    options: Options
    near: Sequence[Array] | None
    everywhere: bool

    def solve(self, number: int, report: Report | None = None) -> Machine:
        """Solve one problem."""
        dual = self.duals[number]
        programme = dual.programme()
        near = None if self.near is None else self.near[number][programme.rows]
        matrix, rows = self.matrix.among(programme.rows)
        local = replace(programme, rows=rows)

        def tell(solution: Callable[[], BoxSolution]) -> bool:
            assert report is not None
            return report(lambda: [dual.machine(programme, solution())])

        told = None if report is None else tell
        found = self._found(dual, matrix, local, near, told)
        return dual.machine(programme, found, self._product(programme, matrix, found))

    def _found(
        self,
        dual: Dual,
        matrix: SymmetricMatrix,
        programme: BoxProgramme,
        near: Array | None,
        report: Any,
    ) -> BoxSolution:
        """Without bounds: the solution within bounds so wide that no variable is at one."""
        if programme.is_bounded:
            return self._refined(dual, matrix, programme, near, report)
        unit = float(np.abs(programme.linear).max() or 1.0) / _largest(matrix, programme)
        steps = 0
        for bound in unit * _WIDTHS:
            found = self._refined(dual, matrix, programme.within(bound), near, report)
            steps, near = steps + found.n_iter, found.coefficients
            found = replace(found, n_iter=steps)
            if not found.converged or np.abs(found.coefficients).max() < bound:
                return found
        # It grows without end: there is no function without errors.
        return replace(found, converged=False, dual_gap=np.inf)

    def _refined(
        self,
        dual: Dual,
        matrix: SymmetricMatrix,
        programme: BoxProgramme,
        near: Array | None,
        report: Any,
    ) -> BoxSolution:
        """A solution whose violations are small in the unit of its function."""
        tol, left = self.options.tol, self.options.max_iter
        found = solve(programme, matrix, tol=tol, max_iter=left, near=near, report=report)
        # The unit is known only now; where it is small, the tolerance has to be.
        largest = _largest(matrix, programme)
        needed = tol * dual.unit(found, largest)
        for _ in range(_REFINEMENTS):
            if not found.converged or found.violation <= needed:
                break
            left = None if left is None else max(left - found.n_iter, 1)
            near = found.coefficients
            again = solve(programme, matrix, tol=needed, max_iter=left, near=near, report=report)
            found = replace(again, n_iter=again.n_iter + found.n_iter)
            needed = tol * dual.unit(found, largest)
        # Less than the solver was asked for may be all that the unit needs.
        return replace(found, converged=found.converged or found.violation <= needed)

    def _product(
        self, programme: BoxProgramme, matrix: SymmetricMatrix, found: BoxSolution
    ) -> Array | None:
        """Values at all rows, which the solver has unless it was given some rows alone."""
        if not self.everywhere:
            return None
        if matrix is self.matrix:
            return found.product
        weights = np.bincount(programme.rows, found.coefficients, self.matrix.size).astype(
            np.float64, copy=False
        )
        rows = np.flatnonzero(weights)
        return self.matrix.times(rows, weights[rows], precise=True)

    def solve_alone(self, number: int) -> Machine:
        """Solve one problem beside others."""
        with one_thread():
            return self.solve(number)

    def collected(self, found: Iterable[Machine], report: Report | None) -> list[Machine]:
        """The machines one after another; those that are not reached stay at their start."""
        machines: list[Machine] = []
        last = time.monotonic()
        try:
            for machine in found:
                machines.append(machine)
                if report is not None and time.monotonic() - last > _SECONDS:
                    last = time.monotonic()
                    if report(lambda: self._completed(machines)):
                        break
        finally:
            if report is not None:
                report(lambda: self._completed(machines))
        return self._completed(machines)

    def _completed(self, machines: list[Machine]) -> list[Machine]:
        return machines + [self._unsolved(dual) for dual in self.duals[len(machines) :]]

    def _unsolved(self, dual: Dual) -> Machine:
        programme = dual.programme()
        levels = (0.0,) * len(programme.groups)
        start = BoxSolution(
            programme.start, np.zeros(self.matrix.size), levels, np.nan, np.inf, np.inf, 0, False
        )
        return dual.machine(programme, start)
