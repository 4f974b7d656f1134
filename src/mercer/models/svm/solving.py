"""Dual problems solved: one with all threads, or several side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ShortFitWarning, warn
from mercer.models.svm.duals import Dual, Machine
from mercer.parallel import one_thread, thread_count
from mercer.sampling import spread
from mercer.solvers.batches import Batch
from mercer.solvers.boxes import (
    BoxProgramme,
    BoxSolution,
    Positions,
    StoredMatrix,
    SymmetricMatrix,
)
from mercer.solvers.smo import solve

Array = NDArray[np.float64]
#: Called after a step with a function that returns the machines so far; True stops.
Report = Callable[[Callable[[], list[Machine]]], bool]

# How long it takes at least from one report of several problems to the next.
_SECONDS = 0.05
# Bounds in place of none, in the unit of coefficients, and how many rows tell that.
_WIDTHS, _SAMPLE = np.array([1e3, 1e6, 1e9, 1e12]), 64
# Problems of at most so many variables are solved many at a time; stretches of so many rows make
# parts of the matrix that can be stored; and the sum of squared sizes between two reports.
_FEW, _STRETCH, _WORK = 512, 512, 2**24
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
        Called after each step of a single problem, and after each of several. After Ctrl-C also
        with those that were being solved, as far as they came.

    Returns
    -------
    list of Machine
        One for each.
    """
    jobs = _Jobs(matrix, duals, options, near, everywhere)
    if len(duals) == 1:
        tell = None if report is None else lambda machine: report(lambda: [machine()])
        return [jobs.solve(0, tell)]
    try:
        jobs.run(report)
    finally:
        if report is not None:
            report(jobs.machines)
    return jobs.machines()


def with_rounding(
    matrix: SymmetricMatrix, machines: Sequence[Machine], options: Options
) -> list[Machine]:
    """Machines that do not claim more digits than kernel values of float64 give them.

    Parameters
    ----------
    matrix : SymmetricMatrix
        The kernel values of all rows.
    machines : sequence of Machine
        Solutions.
    options : Options
        Of the solver.

    Returns
    -------
    list of Machine
        Gaps contain what rounding may hide where that is more than the tolerance, and machines in
        whose values it shows are not converged.
    """
    largest = _largest(matrix, spread(matrix.size, _SAMPLE))
    return [machine.rounded(largest, options.tol) for machine in machines]


def _tiles(programmes: Sequence[BoxProgramme], numbers: Sequence[int]) -> list[list[int]]:
    """Problems whose first rows, and whose last rows, are of the same stretch of the matrix.

    The rows of pairs of classes are two stretches: so each tile has few rows, which many share.
    """
    tiles: dict[tuple[int, int], list[int]] = {}
    for number in numbers:
        rows = programmes[number].rows
        key = int(rows[0]) // _STRETCH, int(rows[-1]) // _STRETCH
        tiles.setdefault(key, []).append(number)
    return list(tiles.values())


def _parts(programmes: Sequence[BoxProgramme], tile: Sequence[int]) -> Iterator[list[int]]:
    """Problems that are solved before callbacks are asked again."""
    part, work = [], 0
    for number in tile:
        part.append(number)
        work += len(programmes[number].rows) ** 2
        if work > _WORK:
            yield part
            part, work = [], 0
    if part:
        yield part


def _largest(matrix: SymmetricMatrix, rows: Positions, places: Positions | None = None) -> float:
    """The largest value of some rows, at their places, with themselves; 1 if all are zero."""
    some = rows[:_SAMPLE] if places is None else places[rows[:_SAMPLE]]
    values, positions = matrix.block(some, precise=True)
    return float(np.abs(values[positions, positions]).max()) or 1.0


class _Jobs:
    """Problems of one matrix, and what is known of each: a machine, or the way to its last one."""

    def __init__(
        self,
        matrix: SymmetricMatrix,
        duals: Sequence[Dual],
        options: Options,
        near: Sequence[Array] | None,
        everywhere: bool,
    ) -> None:
        self.matrix = matrix
        self.duals = duals
        self.options = options
        self.near = near
        self.everywhere = everywhere
        self._done: list[Machine | None] = [None] * len(duals)
        self._begun: list[Callable[[], Machine]] = [_unsolved] * len(duals)
        self._stop = Event()

    # Several problems -----------------------------------------------------------------------------

    def run(self, report: Report | None) -> None:
        """Solve all: small ones many at a time, others as many as there are threads."""
        programmes = [dual.programme() for dual in self.duals]
        small = [n for n, programme in enumerate(programmes) if len(programme.rows) <= _FEW]
        self._follow(self._batches(programmes, small), report)
        if not self._stop.is_set():
            self._run_others(report)

    def _run_others(self, report: Report | None) -> None:
        """Solve those that no batch has."""
        numbers = [number for number, done in enumerate(self._done) if done is None]
        threads = min(thread_count(), len(numbers))
        if threads <= 1:
            self._follow(map(self._solve_one_of_several, numbers), report)
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting = [pool.submit(self._solve_alone, number) for number in numbers]
            try:
                self._follow((job.result() for job in waiting), report)
            finally:  # after Ctrl-C: those that have begun end with what they have
                self._stop.set()
                for job in waiting:
                    job.cancel()

    def machines(self) -> list[Machine]:
        """Those that are solved, the others as far as they came; while no thread works on them."""
        return [done or begun() for done, begun in zip(self._done, self._begun, strict=True)]

    def _solved(self) -> list[Machine]:
        """Those that are solved, and none in place of the others."""
        return [done or _unsolved() for done in self._done]

    def _follow(self, ends: Iterable[None], report: Report | None) -> None:
        """Report as problems end, until a callback asks to stop."""
        last = time.monotonic()
        for _ in ends:
            if report is not None and time.monotonic() - last > _SECONDS:
                last = time.monotonic()
                if report(self._solved):
                    self._stop.set()
                    return

    def _solve_alone(self, number: int) -> None:
        """Solve one problem beside others."""
        with one_thread():
            self._solve_one_of_several(number)

    def _solve_one_of_several(self, number: int) -> None:
        def tell(machine: Callable[[], Machine]) -> bool:
            self._begun[number] = machine
            self._check()
            return False

        self._done[number] = self.solve(number, tell)
        self._begun[number] = _unsolved  # which lets go of the solver's arrays

    def _check(self) -> None:
        """Signals reach the main thread alone, which tells the others."""
        if self._stop.is_set():
            raise KeyboardInterrupt

    # Batches of small problems --------------------------------------------------------------------

    def _batches(self, programmes: Sequence[BoxProgramme], small: Sequence[int]) -> Iterator[None]:
        """Solve small problems, those together that share a part of the matrix."""
        for tile in _tiles(programmes, small):
            rows = np.unique(np.concatenate([programmes[number].rows for number in tile]))
            matrix, positions = self.matrix.among(rows)
            if not isinstance(matrix, StoredMatrix):
                continue
            places = np.empty(self.matrix.size, np.int64)
            places[rows] = positions
            for numbers in _parts(programmes, tile):
                self._solve_batch(programmes, numbers, matrix, places)
                yield

    def _solve_batch(
        self,
        programmes: Sequence[BoxProgramme],
        numbers: Sequence[int],
        matrix: StoredMatrix,
        places: Positions,
    ) -> None:
        """Solve some problems; those that need more than a batch has are left."""
        near, limit = self.near, self.options.max_iter
        starts = None if near is None else [near[n][programmes[n].rows] for n in numbers]
        batch = Batch([programmes[number] for number in numbers], matrix, places, starts)
        if not batch.is_ordinary:
            return
        try:
            found = self._refined_batch(batch, programmes, numbers, matrix, places)
        except KeyboardInterrupt:
            for number, solution in zip(numbers, batch.solutions(), strict=True):
                if solution.n_iter:
                    machine = self.duals[number].machine
                    self._begun[number] = partial(machine, programmes[number], solution)
            raise
        for number, solution in zip(numbers, found, strict=True):
            if solution.converged or solution.n_iter == limit:
                product = self._product(programmes[number], None, solution)
                self._done[number] = self.duals[number].machine(
                    programmes[number], solution, product
                )

    def _refined_batch(
        self,
        batch: Batch,
        programmes: Sequence[BoxProgramme],
        numbers: Sequence[int],
        matrix: StoredMatrix,
        places: Positions,
    ) -> list[BoxSolution]:
        """Solutions whose violations are small in the units of their functions."""
        tol, limit = self.options.tol, self.options.max_iter
        tolerances = np.full(len(numbers), tol)
        for _ in range(1 + _REFINEMENTS):
            batch.solve(tol=tolerances, max_iter=limit)
            found = batch.solutions()
            units = [
                self.duals[number].unit(
                    solution, partial(_largest, matrix, programmes[number].rows, places)
                )
                for number, solution in zip(numbers, found, strict=True)
            ]
            needed = tol * np.array(units)
            violations = np.array([solution.violation for solution in found])
            more = (violations <= tolerances) & (violations > needed)
            if not more.any():
                break
            tolerances = np.where(more, needed, tolerances)
        # Less than the solver was asked for may be all that the unit needs.
        enough = (violations <= np.maximum(tolerances, needed)).tolist()
        return [
            solution if solution.converged == good else replace(solution, converged=good)
            for solution, good in zip(found, enough, strict=True)
        ]

    # One problem ----------------------------------------------------------------------------------

    def solve(self, number: int, tell: Callable[[Callable[[], Machine]], bool] | None) -> Machine:
        """Solve one problem; what is told is how to have the machine of the last step."""
        dual = self.duals[number]
        programme = dual.programme()
        near = None if self.near is None else self.near[number][programme.rows]
        matrix, rows = self.matrix.among(programme.rows)
        local = replace(programme, rows=rows)

        def report(solution: Callable[[], BoxSolution]) -> bool:
            assert tell is not None
            return tell(lambda: dual.machine(programme, solution()))

        found = self._found(dual, matrix, local, near, None if tell is None else report)
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
        unit = float(np.abs(programme.linear).max() or 1.0) / _largest(matrix, programme.rows)
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
        within = partial(solve, programme, matrix, report=report, poll=self._check)
        found = within(tol=tol, max_iter=left, near=near)
        # The unit is known only now; where it is small, the tolerance has to be.
        largest = partial(_largest, matrix, programme.rows)
        needed = tol * dual.unit(found, largest)
        for _ in range(_REFINEMENTS):
            if not found.converged or found.violation <= needed:
                break
            left = None if left is None else max(left - found.n_iter, 1)
            again = within(tol=needed, max_iter=left, near=found.coefficients)
            found = replace(again, n_iter=again.n_iter + found.n_iter)
            needed = tol * dual.unit(found, largest)
        # Less than the solver was asked for may be all that the unit needs.
        return replace(found, converged=found.converged or found.violation <= needed)

    def _product(
        self, programme: BoxProgramme, matrix: SymmetricMatrix | None, found: BoxSolution
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


def _unsolved() -> Machine:
    """The function zero, of which nothing is known."""
    nothing = np.empty(0)
    rows = np.empty(0, np.intp)
    return Machine(rows, nothing, 0.0, None, np.nan, np.inf, 0, False, squared_norm=0.0)
