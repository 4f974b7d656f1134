"""Dual problems solved: one with all threads, or several side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from mercer.exceptions import ShortFitWarning, warn
from mercer.models.svm.duals import Dual
from mercer.models.svm.functions import Machines, Rows
from mercer.parallel import one_thread, thread_count
from mercer.sampling import spread
from mercer.solvers.box_qp.batch import Batch
from mercer.solvers.box_qp.problem import (
    BoxProgramme,
    BoxSolution,
    Positions,
    StoredMatrix,
    SymmetricMatrix,
    reduced,
)
from mercer.solvers.box_qp.programmes import BoxProgrammes, BoxSolutions
from mercer.solvers.box_qp.smo import solve

Array = NDArray[np.float64]
#: Called after a step with a function that returns the machines so far; True stops.
Report = Callable[[Callable[[], Machines]], bool]

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
    """Tell that machines of which only scores are kept are not as exact as asked."""
    if short:
        warn(
            f"{owner}: {short} of the machines that were fitted without some of the rows stopped "
            "before every row was within tol; raise max_iter, scale the data, or lower C.",
            ShortFitWarning,
        )


@dataclass(frozen=True)
class Options:
    """What the solver is told beside the problem."""

    tol: float  # the violation that is allowed
    max_iter: int | None  # the largest number of steps; None for the solver's own limit


def solved(
    matrix: SymmetricMatrix,
    dual: Dual,
    options: Options,
    *,
    near: csr_array | None = None,
    at: Rows | None = None,
    report: Report | None = None,
) -> Machines:
    """Solve dual problems."""
    jobs = _Jobs(matrix, dual, options, near, at)
    if len(dual) == 1:
        return jobs.solve(0, report)
    try:
        jobs.run(report)
    finally:
        if report is not None:
            report(jobs.machines)
    return jobs.machines()


def with_rounding(matrix: SymmetricMatrix, machines: Machines, options: Options) -> Machines:
    """Machines that do not claim more digits than kernel values of float64 give them."""
    return machines.rounded(_largest(matrix, spread(matrix.size, _SAMPLE)), options.tol)


def _tiles(dual: Dual, numbers: Rows) -> list[Rows]:
    """Problems whose first rows, and whose last rows, are of the same stretch of the matrix.

    The rows of pairs of classes are two stretches: so each tile has few rows, which many share.
    """
    first = dual.rows[dual.edges[numbers]] // _STRETCH
    last = dual.rows[dual.edges[numbers + 1] - 1] // _STRETCH
    return _split(numbers, first * (int(dual.rows.max()) // _STRETCH + 1) + last)


def _parts(dual: Dual) -> list[Rows]:
    """Problems that are solved before callbacks are asked again."""
    return _split(np.arange(len(dual)), np.cumsum(np.diff(dual.edges) ** 2) // _WORK)


def _split(numbers: Rows, keys: Rows) -> list[Rows]:
    """Numbers that have the same key."""
    order = np.argsort(keys, kind="stable")
    parts = np.split(numbers[order], np.flatnonzero(np.diff(keys[order])) + 1)
    return [part for part in parts if len(part)]


def _largest(matrix: SymmetricMatrix, rows: Positions) -> float:
    """The largest value of some rows with themselves; 1 if all are zero."""
    values, positions = matrix.block(rows[:_SAMPLE], precise=True)
    return float(np.abs(values[positions, positions]).max()) or 1.0


class _Jobs:
    """Problems of one matrix, and what is known of them: machines, or the way to their last one."""

    def __init__(
        self,
        matrix: SymmetricMatrix,
        dual: Dual,
        options: Options,
        near: csr_array | None,
        at: Rows | None,
    ) -> None:
        self.matrix = matrix
        self.dual = dual
        self.options = options
        self.near = near
        self.at = at
        self._found: list[tuple[Rows, Machines]] = []
        self._begun: dict[int, Callable[[], Machines]] = {}
        self._stop = Event()

    # Several problems -----------------------------------------------------------------------------

    def run(self, report: Report | None) -> None:
        """Solve all: small ones many at a time, others as many as there are threads."""
        self._follow(self._batches(np.flatnonzero(np.diff(self.dual.edges) <= _FEW)), report)
        if not self._stop.is_set():
            self._run_others(report)

    def _run_others(self, report: Report | None) -> None:
        """Solve those that no batch has."""
        numbers = self._left()
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

    def machines(self) -> Machines:
        """Those that are solved, the others as far as they came; while no thread works on them."""
        left = [number for number in self._left() if number in self._begun]
        begun = [(np.array([number]), self._begun[number]()) for number in left]
        return Machines.joined(len(self.dual), [*self._found, *begun])

    def _solved(self) -> Machines:
        """Those that are solved, and none in place of the others."""
        return Machines.joined(len(self.dual), self._found)

    def _left(self) -> list[int]:
        """Problems that are not solved."""
        left = np.ones(len(self.dual), bool)
        for numbers, _ in self._found:
            left[numbers] = False
        return np.flatnonzero(left).tolist()

    def _keep(self, numbers: Rows, machines: Machines, chosen: NDArray[np.bool_]) -> None:
        """Some machines of these numbers."""
        self._found.append((numbers[chosen], machines.some(chosen)))

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
        def tell(machine: Callable[[], Machines]) -> bool:
            self._begun[number] = machine
            self._check()
            return False

        self._keep(np.array([number]), self.solve(number, tell), np.array([True]))
        self._begun.pop(number, None)  # which lets go of the solver's arrays

    def _check(self) -> None:
        """Signals reach the main thread alone, which tells the others."""
        if self._stop.is_set():
            raise KeyboardInterrupt

    # Batches of small problems --------------------------------------------------------------------

    def _batches(self, small: Rows) -> Iterator[None]:
        """Solve small problems, those together that share a part of the matrix."""
        for tile in _tiles(self.dual, small):
            dual = self.dual.some(tile)
            seen = np.zeros(self.matrix.size, bool)
            seen[dual.rows] = True
            rows = np.flatnonzero(seen)
            matrix, positions = self.matrix.among(rows)
            if not isinstance(matrix, StoredMatrix):
                continue
            places = np.empty(self.matrix.size, np.int64)
            places[rows] = positions
            for part in _parts(dual):
                self._solve_batch(tile[part], dual.some(part), matrix, places)
                yield

    def _solve_batch(
        self, numbers: Rows, dual: Dual, matrix: StoredMatrix, places: Positions
    ) -> None:
        """Solve the problems of these numbers; those that need more than a batch has are left."""
        programmes = dual.programmes()
        batch = Batch(programmes, matrix, places, self._near(numbers, programmes))
        if not batch.is_ordinary:
            return

        def largest() -> Array:
            values = np.abs(matrix.values.diagonal())[places[dual.rows]]
            found = reduced(np.maximum, values, dual.edges[:-1])
            return np.where(found == 0, 1.0, found).astype(np.float64)

        try:
            found = self._refined_batch(dual, batch, largest)
        except KeyboardInterrupt:
            begun = batch.solutions()
            self._keep(numbers, dual.machines(programmes, begun), begun.n_iter > 0)
            raise
        ended = found.converged | batch.is_exhausted
        products = self._products(programmes, found)
        self._keep(numbers, dual.machines(programmes, found, products), ended)

    def _refined_batch(
        self, dual: Dual, batch: Batch, largest: Callable[[], Array]
    ) -> BoxSolutions:
        """Solutions whose violations are small in the units of their functions."""
        tol, limit = self.options.tol, self.options.max_iter
        tolerances = np.full(len(dual), tol)
        for _ in range(1 + _REFINEMENTS):
            batch.solve(tol=tolerances, max_iter=limit)
            found = batch.solutions()
            needed = tol * dual.units(found, largest)
            more = (found.violation <= tolerances) & (found.violation > needed)
            if not more.any():
                break
            tolerances = np.where(more, needed, tolerances)
        # Less than the solver was asked for may be all that the unit needs.
        return replace(found, converged=found.violation <= np.maximum(tolerances, needed))

    def _near(self, numbers: Rows, programmes: BoxProgrammes) -> Array | None:
        """Where to begin with the variables of some problems."""
        if self.near is None:
            return None
        return np.asarray(self.near[programmes.variables.rows, numbers[programmes.which]])

    def _products(self, programmes: BoxProgrammes, found: BoxSolutions) -> Array | None:
        """Values at the rows that are asked for, of one problem after another."""
        if self.at is None:
            return None
        places = programmes.which, programmes.variables.rows
        shape = len(programmes.sizes), self.matrix.size
        weights = coo_array((found.coefficients, places), shape).tocsr()
        weights.eliminate_zeros()
        products = np.empty((len(programmes.sizes), len(self.at)))
        for number, ends in enumerate(pairwise(weights.indptr)):
            own = slice(*ends)
            rows = weights.indices[own].astype(np.int64)
            products[number] = self.matrix.times(rows, weights.data[own], precise=True, at=self.at)
        return products

    # One problem ----------------------------------------------------------------------------------

    def solve(self, number: int, tell: Report | None) -> Machines:
        """Solve one problem; what is told is how to have the machine of the last step."""
        numbers = np.array([number])
        dual = self.dual.some(numbers)
        programmes = dual.programmes()
        (programme,) = programmes
        matrix, rows = self.matrix.among(programme.rows)
        local = replace(programme, rows=rows)

        def report(solution: Callable[[], BoxSolution]) -> bool:
            assert tell is not None
            return tell(lambda: dual.machines(programmes, BoxSolutions.alone(solution())))

        near = self._near(numbers, programmes)
        alone = self._within_boxes(dual, matrix, local, near, None if tell is None else report)
        found = BoxSolutions.alone(alone)
        if self.at is not None and matrix is self.matrix:
            return dual.machines(programmes, found, found.product[None, self.at])
        return dual.machines(programmes, found, self._products(programmes, found))

    def _within_boxes(
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
        needed = tol * self._unit(dual, matrix, programme, found)
        for _ in range(_REFINEMENTS):
            if not found.converged or found.violation <= needed:
                break
            left = None if left is None else max(left - found.n_iter, 1)
            again = within(tol=needed, max_iter=left, near=found.coefficients)
            found = replace(again, n_iter=again.n_iter + found.n_iter)
            needed = tol * self._unit(dual, matrix, programme, found)
        # Less than the solver was asked for may be all that the unit needs.
        return replace(found, converged=found.converged or found.violation <= needed)

    @staticmethod
    def _unit(
        dual: Dual, matrix: SymmetricMatrix, programme: BoxProgramme, found: BoxSolution
    ) -> float:
        """What the values of a function are measured in."""

        def largest() -> Array:
            return np.array([_largest(matrix, programme.rows)])

        return float(dual.units(BoxSolutions.alone(found), largest)[0])
