"""Hyper-parameters and landmarks, learned together by the collapsed bound.

Landmarks that are chosen by a kernel are chosen again when the kernel has changed, and taken if the
bound is better with them, until it is not (Burt, Rasmussen and van der Wilk 2020). Landmarks that
are to be learned then move as well, along the exact gradient of the bound.

A bound far below the likelihood has its maximum elsewhere: it prefers functions that landmarks can
carry. A search that may choose how many landmarks there are takes more of them then, and where
those are too few, the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.landmarks.selection import Landmarks
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.landmark_posterior import LandmarkPosterior
from mercer.models.gaussian_process.landmarks import LandmarkEvidence
from mercer.models.gaussian_process.plan import Reserve
from mercer.models.gaussian_process.positions import Positions
from mercer.parallel import blas_threads
from mercer.solvers.dense import Cholesky
from mercer.solvers.likelihood.maximise import (
    FAILURES,
    Glance,
    Objective,
    Optimum,
    Report,
    Sketch,
    glance,
    maximise,
)

Array = NDArray[np.floating[Any]]

# How often landmarks are chosen again, and the gain, in units of log density, that is worth it.
_ROUNDS = 5
_WORTH = 0.1
# How far below the likelihood a bound may be, in nats for the root of the number of rows. In the
# logarithm of a length-scale it changes by ten times as much and more, the curvature of the
# likelihood is of the order of that number, and a step from one maximum to the other then gains
# less than about one nat.
_LOOSE = 0.05
# The gain of a step, for each row, that is not worth more of them. Sums over rows are rounded, and
# landmarks are chosen again: what is gained beyond this is not what data say.
_GAIN = 1e-7
# The same in units of the rounding of the bound, which is larger where landmarks are close.
_ROUNDED = 30.0
# The same while landmarks move: there is always a little to be gained by moving one of them.
_MOVING_GAIN = 1e-6
# The gain of a step with the whole matrix that is not worth more of them; and where it follows a
# search on part of the rows, which ends within a few standard errors: each step is dear.
_EXACT_GAIN = 0.05
_LAST_GAIN = 0.5
# So many times as many rows as a part of them are worth a search on the part first.
_MORE = 1.25
# Rows that a first look at the hyper-parameters takes, with their whole matrix.
_SKETCHED = 500
# The gain of a step there that is not worth more of them: its maximum is but a start.
_SKETCH_GAIN = 0.01
_HELD = "uniform"


class LandmarkSearch:
    """A search of hyper-parameters on some rows, through landmarks."""

    def __init__(
        self,
        owner: str,
        whole: GaussianEvidence,
        solver: Any,
        numbers: NDArray[np.intp] | None = None,
        reserve: Reserve | None = None,
        given: Landmarks | None = None,
    ) -> None:
        self.owner, self.whole, self.solver, self.numbers = owner, whole, solver, numbers
        self.given = given
        self.data = whole if numbers is None else whole.of_rows(numbers)
        self.reserve = Reserve(0) if reserve is None else reserve
        self.loose = False
        self.current = self._select(whole.theta)
        moves = isinstance(solver.landmarks, str) and solver.landmarks == "learn"
        self.positions = self._require_positions() if moves else None

    def _select(self, theta: Array) -> LandmarkEvidence:
        kernel, _ = self.data.at(theta)
        return LandmarkEvidence.selected(self.data, kernel, self.solver, self.owner, self.given)

    @property
    def evidence(self) -> LandmarkEvidence:
        """All rows with the landmarks of the moment."""
        current = self.current
        if self.numbers is None:
            return current
        rows = None if current.rows is None else self.numbers[current.rows]
        return replace(current, data=self.whole, rows=rows)

    def posterior(self, theta: Array) -> LandmarkPosterior:
        """All rows seen through the landmarks of the moment."""
        return LandmarkPosterior.at(self.evidence, theta)

    def maximise(
        self, *, n_restarts: int, random_state: Any, max_iter: int, report: Report
    ) -> Optimum:
        """Search from the start and from restarts, and improve the landmarks on the way."""
        space, run = self.data.space, Run(report)
        starts = space.restarts(n_restarts, random_state)
        seen = self._glance(run, max_iter)
        if run.stopped:
            return run.latest
        begin, lengths = self._start(seen)
        if self.loose:
            return self._exactly(run, begin, lengths, starts, max_iter)
        run.add(
            self._climb(
                self.current.log_likelihood_with_gradient,
                begin,
                run,
                max_iter,
                starts=starts,
                lengths=lengths,
            )
        )
        self._improve(run, max_iter)
        if self.loose and not run.stopped:
            return self._exactly(run, run.best.theta, lengths, (), max_iter)
        if self.positions is not None and not run.stopped:
            self._move(self.positions, run, max_iter)
        return run.best

    def _glance(self, run: Run, max_iter: int) -> Glance | None:
        """Where some rows lead, by their whole matrix."""
        sketch = self._sketch()
        if sketch is None:
            return None
        space = self.data.space
        options: dict[str, Any] = {"enough": _SKETCH_GAIN, "max_iter": max_iter}
        return glance(sketch, space.start, space.bounds, report=run.tell, **options)

    def _sketch(self) -> Sketch | None:
        """Some rows with their whole matrix, which is too small for more than one thread."""
        found = self.data.sketch("log_likelihood_with_gradient", _SKETCHED)
        if found is None:
            return None

        def objective(theta: Array) -> tuple[float, Array]:
            with blas_threads(1):
                return found.objective(theta)

        return replace(found, objective=objective)

    def _climb(
        self, objective: Objective, begin: Array, run: Run, max_iter: int, **options: Any
    ) -> Optimum:
        return maximise(
            objective,
            begin,
            self.data.space.bounds,
            max_iter=max_iter,
            report=run.tell,
            **{"enough": self._enough} | options,
        )

    def _enough(self, theta: Array) -> float:
        """The gain of a step that is not worth more of them."""
        return max(_GAIN * len(self.data.points), _ROUNDED * self.current.rounding_at(theta))

    # Landmarks ----------------------------------------------------------------------------------

    def _start(self, seen: Glance | None) -> tuple[Array, Array | None]:
        """Where to begin, with landmarks for it: where some rows lead, unless the start is better.

        Whether it is better, a loose bound cannot say.
        """
        start = self.data.space.start
        if seen is None:
            return start, None
        before = self.current, self.solver
        at_start = self._look(start)[0]
        if self._fitted_to(seen.theta) > at_start or self.loose:
            return seen.theta, seen.lengths
        self.current, self.solver = before
        return start, None

    def _improve(self, run: Run, max_iter: int) -> None:
        """Choose landmarks for the kernel that was found, and go on, while they are better."""
        for _ in range(_ROUNDS if self._chooses_by_kernel else 0):
            if run.stopped:
                return
            before = self.current, self.solver
            if not self._fitted_to(run.best.theta) > run.best.value + _WORTH:
                self.current, self.solver = before
                return
            if self.loose:
                return
            objective = self.current.log_likelihood_with_gradient
            run.add(self._climb(objective, run.best.theta, run, max_iter))

    def _fitted_to(self, theta: Array) -> float:
        """Choose landmarks for theta, more of them where it takes more; the bound there."""
        while True:
            if self._chooses_by_kernel:
                self.current = self._select(theta)
            value, gap = self._look(theta)
            loose = gap > _LOOSE * np.sqrt(len(self.data.points))
            more = min(2 * self.solver.n_landmarks, self.reserve.landmarks)
            if not loose or more <= self.solver.n_landmarks:
                self.loose = loose and self.reserve.rows > 0
                return value
            self.solver = replace(self.solver, n_landmarks=more)

    def _look(self, theta: Array) -> tuple[float, float]:
        """The bound, and how far it is below the likelihood; minus infinity where there is none."""
        try:
            return self.current.look_at(theta)
        except FAILURES:
            return -np.inf, 0.0

    @property
    def _chooses_by_kernel(self) -> bool:
        how = self.solver.landmarks
        return (
            isinstance(how, str)
            and how != _HELD
            and len(self.current.landmarks) < len(self.data.points)
        )

    # The whole matrix ---------------------------------------------------------------------------

    def _exactly(
        self, run: Run, begin: Array, lengths: Array | None, starts: Any, max_iter: int
    ) -> Optimum:
        """Learn from the whole matrix: that of some rows, and then that of all if it may be."""
        self.solver = Cholesky()
        n, few, enough = len(self.data.points), self.reserve.rows, _EXACT_GAIN
        if n > _MORE * few:
            rows = np.sort(np.random.default_rng(0).choice(n, size=few, replace=False))
            wider = None if lengths is None else lengths * np.sqrt(n / few)
            part = self.data.of_rows(rows).log_likelihood_with_gradient
            options = {"starts": starts, "lengths": wider, "enough": enough}
            run.add(self._climb(part, begin, run, max_iter, **options))
            if run.stopped or not self.reserve.everything:
                return run.best
            begin, starts, enough = run.best.theta, (), _LAST_GAIN
        options = {"starts": starts, "lengths": lengths, "enough": enough}
        whole = self.data.log_likelihood_with_gradient
        run.add(self._climb(whole, begin, run, max_iter, **options))
        return run.best

    # Positions ----------------------------------------------------------------------------------

    def _require_positions(self) -> Positions:
        """Where rows are; what cannot be differentiated says so now, and not after minutes."""
        positions = Positions.of(self.data.kernel, self.data.points, self.owner)
        found = Positions.of(self.data.kernel, self.current.landmarks, self.owner)
        self.current = replace(self.current, landmarks=positions.at(found.places))
        self.data.kernel.gram(self.current.landmarks).input_gradient()
        return positions

    def _move(self, positions: Positions, run: Run, max_iter: int) -> None:
        """Climb in hyper-parameters and positions, these in units of the range of the data."""
        rows = positions.places
        low, spread = rows.min(axis=0), np.ptp(rows, axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        size, space = len(run.best.theta), self.data.space

        def placed(vector: Array) -> LandmarkEvidence:
            shares = vector[size:].reshape(-1, len(low))
            places = np.clip(low + shares * unit, low, low + spread)
            return LandmarkEvidence(self.data, positions.at(places))

        def objective(vector: Array) -> tuple[float, Array]:
            value, slope, moved = placed(vector).with_position_gradient(vector[:size])
            return value, np.concatenate([slope, (moved * unit).ravel()])

        def tell(found: Optimum) -> bool:
            if found.value >= run.best.value:
                self.current = placed(found.theta)
            return run.tell(_of_hyper_parameters(found, size))

        now = Positions.of(self.data.kernel, self.current.landmarks, self.owner)
        start = (now.places - low) / unit
        box = np.column_stack([np.zeros(start.size), np.tile(spread / unit, len(start))])
        found = maximise(
            objective,
            np.concatenate([run.best.theta, start.ravel()]),
            np.vstack([space.bounds, box]),
            enough=lambda vector: max(_MOVING_GAIN * len(rows), self._enough(vector[:size])),
            max_iter=max_iter,
            report=tell,
        )
        self.current = placed(found.theta)
        run.add(_of_hyper_parameters(found, size))


class Run:
    """The best so far, and the counts, over several searches."""

    def __init__(self, report: Callable[[Optimum], bool]) -> None:
        self.report, self.stopped = report, False
        self.before: Optimum | None = None
        self.told: Optimum | None = None

    @property
    def latest(self) -> Optimum:
        """What was said last."""
        assert self.told is not None
        return self.told

    @property
    def best(self) -> Optimum:
        """What the searches so far have found."""
        assert self.before is not None
        return self.before

    def tell(self, found: Optimum) -> bool:
        """Pass on what a search says, with the counts of those before it."""
        self.told = self._counted(found)
        self.stopped = self.report(self.told)
        return self.stopped

    def add(self, found: Optimum) -> None:
        """End one search: it began at the best so far, and is no worse."""
        self.before = self._counted(found)

    def _counted(self, found: Optimum) -> Optimum:
        if self.before is None:
            return found
        return replace(
            found,
            n_iter=found.n_iter + self.before.n_iter,
            n_evaluations=found.n_evaluations + self.before.n_evaluations,
        )


def _of_hyper_parameters(found: Optimum, size: int) -> Optimum:
    """What was found, without the positions."""
    return replace(
        found,
        theta=found.theta[:size],
        at_low=found.at_low[:size],
        at_high=found.at_high[:size],
    )
