"""Dual problems of several functions over one kernel matrix, solved side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from scipy.sparse import csc_array, csr_array

from mercer.models.svm.duals import (
    REFINEMENT,
    Dual,
    DualSolutions,
    Flags,
    Options,
    Report,
    Rows,
    TwoClassDual,
    edges_of,
    products_at,
    solve_one,
)
from mercer.parallel import one_thread, thread_count
from mercer.solvers.box_qp.batch import BoxQPBatch
from mercer.solvers.box_qp.kernel_matrix import Positions, StoredMatrix, SymmetricMatrix

# Seconds from one report to the next.
_SECONDS = 0.05
# Number of rows up to which problems are solved many at a time, with a matrix in memory.
_FEW = 2048
# Number of rows up to which problems are, if the values of their rows are computed for them.
_FEW_COMPUTED = 512
# Number of rows of a stretch of the matrix; problems of the same two stretches share a part of it.
_STRETCH = 512
# Sum of squared numbers of rows of the problems that are solved between two reports.
_WORK = 2**26


def solve_several(
    matrix: SymmetricMatrix,
    dual: TwoClassDual,
    options: Options,
    *,
    warm_start: csr_array | None = None,
    eval_rows: Rows | None = None,
    report: Report | None = None,
) -> DualSolutions:
    """Solve the problems of several functions; `warm_start` has a column for each function."""
    columns = None if warm_start is None else warm_start.tocsc()
    jobs = _Jobs(matrix, dual, options, columns, eval_rows)
    try:
        jobs.run(report)
    finally:
        if report is not None:
            report(jobs.solutions)
    return jobs.solutions()


def _tiles(dual: TwoClassDual, numbers: Rows) -> list[Rows]:
    """Problems whose first rows, and whose last rows, are in the same stretch of the matrix.

    The rows of a pair of classes are two stretches: so each tile has few rows, shared by many
    problems.
    """
    edges = edges_of(dual.sizes)
    first = dual.rows[edges[numbers]] // _STRETCH
    last = dual.rows[edges[numbers + 1] - 1] // _STRETCH
    return _split(numbers, first * (int(dual.rows.max()) // _STRETCH + 1) + last)


def _split(numbers: Rows, keys: Rows) -> list[Rows]:
    """Numbers grouped by their keys."""
    order = np.argsort(keys, kind="stable")
    parts = np.split(numbers[order], np.flatnonzero(np.diff(keys[order])) + 1)
    return [part for part in parts if len(part)]


@dataclass(eq=False)
class _Jobs:
    """Problems of one matrix: those that are solved, and iterates of those that are begun."""

    matrix: SymmetricMatrix
    dual: TwoClassDual
    options: Options
    warm_start: csc_array | None  # coefficients of all rows, a column for each function
    eval_rows: Rows | None

    def __post_init__(self) -> None:
        self._solved: list[tuple[Rows, DualSolutions]] = []
        self._begun: dict[int, Callable[[], DualSolutions]] = {}
        self._stop = Event()

    def run(self, report: Report | None) -> None:
        """Solve all: small ones many at a time, others as many as there are threads."""
        is_stored = isinstance(self.matrix, StoredMatrix)
        few = _FEW if is_stored else min(_FEW, _FEW_COMPUTED)
        self._follow(self._batches(np.flatnonzero(self.dual.sizes <= few)), report)
        numbers = [] if self._stop.is_set() else self._unsolved()
        threads = min(thread_count(), len(numbers))
        if threads <= 1:
            self._follow(map(self._solve_one, numbers), report)
            return
        with ThreadPoolExecutor(threads) as pool:
            solve_alone = one_thread()(self._solve_one)
            waiting = [pool.submit(solve_alone, number) for number in numbers]
            try:
                self._follow((job.result() for job in waiting), report)
            finally:  # after Ctrl-C: problems that are begun end with what they have
                self._stop.set()
                for job in waiting:
                    job.cancel()

    def solutions(self) -> DualSolutions:
        """Solutions, and iterates of problems that are begun; while no thread works on them."""
        left = [number for number in self._unsolved() if number in self._begun]
        begun = [(np.array([number]), self._begun[number]()) for number in left]
        return DualSolutions.joined(len(self.dual), [*self._solved, *begun])

    def _unsolved(self) -> list[int]:
        """The numbers of problems that are not solved."""
        left = np.ones(len(self.dual), bool)
        for numbers, _ in self._solved:
            left[numbers] = False
        return np.flatnonzero(left).tolist()

    def _follow(self, ends: Iterable[None], report: Report | None) -> None:
        """Report as problems end, until a callback asks to stop."""
        last = time.monotonic()
        for _ in ends:
            if report is not None and time.monotonic() - last > _SECONDS:
                last = time.monotonic()
                if report(lambda: DualSolutions.joined(len(self.dual), self._solved)):
                    self._stop.set()
                    return

    def _solve_one(self, number: int) -> None:
        def report(solution: Callable[[], DualSolutions]) -> bool:
            self._begun[number] = solution
            self._check()
            return False

        numbers = np.array([number])
        solution = solve_one(
            self.matrix,
            self.dual.subset(numbers),
            self.options,
            warm_start=None if self.warm_start is None else self.warm_start[:, [number]],
            eval_rows=self.eval_rows,
            report=report,
            poll=self._check,
        )
        self._solved.append((numbers, solution))
        self._begun.pop(number, None)  # which frees the solver's arrays

    def _check(self) -> None:
        """Interrupt this thread: signals reach the main thread alone, which sets the event."""
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _batches(self, small: Rows) -> Iterator[None]:
        """Solve small problems with finite costs, tile by tile of the matrix."""
        if not np.isfinite(self.dual.costs).all():
            return
        is_stored = isinstance(self.matrix, StoredMatrix)
        for tile in [small] if is_stored else _tiles(self.dual, small):
            dual = self.dual.subset(tile)
            in_tile = np.zeros(self.matrix.size, bool)
            in_tile[dual.rows] = True
            rows = np.flatnonzero(in_tile)
            matrix, positions = self.matrix.among(rows)
            if not isinstance(matrix, StoredMatrix):
                continue
            places = np.empty(self.matrix.size, np.int64)
            places[rows] = positions
            # Callbacks are asked again after each part.
            for part in _split(np.arange(len(dual)), np.cumsum(dual.sizes**2) // _WORK):
                self._solve_batch(tile[part], dual.subset(part), matrix, places)
                yield

    def _solve_batch(
        self, numbers: Rows, dual: Dual, matrix: StoredMatrix, places: Positions
    ) -> None:
        """Solve the problems of these numbers, as far as one call of the engine does."""
        qp = dual.qp()
        start = None
        if self.warm_start is not None:
            start = np.asarray(self.warm_start[:, numbers][qp.rows, qp.problem_of_variable])
        batch = BoxQPBatch(qp, matrix, places, start)
        tol, max_iter = self.options

        def keep(functions: DualSolutions, chosen: Flags) -> None:
            self._solved.append((numbers[chosen], functions.subset(chosen)))

        try:
            batch.solve(tol=tol, max_iter=max_iter)
            solution = batch.solution()
            needed = dual.tolerances(solution, tol)
            more = solution.converged & (solution.violation > needed)
            if more.any():
                batch.solve(tol=np.where(more, REFINEMENT * needed, tol), max_iter=max_iter)
                solution = batch.solution()
                needed = dual.tolerances(solution, tol)
                solution = replace(solution, converged=solution.violation <= needed)
        except KeyboardInterrupt:
            solution = batch.solution()
            keep(dual.functions(qp, solution), solution.n_iter > 0)
            raise
        products = None
        if self.eval_rows is not None:
            products = products_at(self.matrix, qp, solution, self.eval_rows)
        ended = solution.converged | batch.is_exhausted
        keep(dual.functions(qp, solution, products), ended)
