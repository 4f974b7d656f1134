"""Hyper-parameters and landmarks, learned together by the collapsed bound.

Landmarks that a kernel chooses are chosen again when the kernel has changed, and taken if the bound
is larger with them, until it is not (Burt, Rasmussen and van der Wilk 2020). Landmarks that are to
be learned then move as well, along the exact gradient of the bound.

A bound far below the likelihood has its maximum elsewhere: it prefers functions that landmarks
explain. A search that may choose the number of landmarks then takes more of them, and where those
are too few, the whole matrix of some rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.selection import Landmarks
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective, LandmarkPosterior
from mercer.solvers.dense import Cholesky
from mercer.solvers.likelihood.maximise import (
    FAILURES,
    PILOT_GAIN,
    Objective,
    Optimum,
    maximise,
    pilot_search,
)

# Times that landmarks are chosen again at most.
_ROUNDS = 5
# Nats by which the bound has to grow for a new choice of landmarks to be taken.
_WORTH = 0.1
# How far below the likelihood a bound may be, in nats per square root of the number of rows. In the
# logarithm of a length-scale the gap changes by ten times as much and more, and the curvature of
# the likelihood is of the order of the number of rows, so that a step from one maximum to the other
# gains less than about one nat.
_LOOSE = 0.05
# Stop when a step gains less than this per row (nats). Rounding of sums over rows and the choice of
# landmarks change the bound by more than what is gained beyond.
_GAIN = 1e-7
# Stop when a step gains less than this many units of the rounding error of the bound.
_GAIN_IN_ROUNDING = 30.0
# Stop when a step gains less than this per row (nats) while landmarks move.
_MOVING_GAIN = 1e-6
# Stop when a step with the whole matrix gains less than this (nats): a parameter then is within a
# third of its standard error.
_EXACT_GAIN = 0.05
# Difference of a parameter (logarithms) by which two maxima differ.
_APART = 0.5
# Rows of the pilot search at most.
_PILOT_ROWS = 500


class FallbackBudget(NamedTuple):
    """Limits of a search whose first landmarks explain too little of the kernel."""

    landmarks: int = 0  # the largest number of landmarks; 0 for those of the solver
    rows: int = 0  # rows whose whole matrix is used if those are too few; 0 for none
    part: int = 0  # rows of the largest part of all rows whose whole matrix follows


class LandmarkSearch:
    """A search of hyper-parameters on some rows, through landmarks."""

    def __init__(
        self,
        owner: str,
        whole: ExactObjective,
        solver: Any,
        numbers: NDArray[np.intp] | None,
        fallback: FallbackBudget,
        given: Landmarks | None,
    ) -> None:
        self.owner, self.whole, self.solver, self.numbers = owner, whole, solver, numbers
        self.fallback, self.given = fallback, given
        self.data = whole if numbers is None else whole.at_rows(numbers)
        self.loose, self.best = False, Optimum.held(whole.theta)
        self.options: dict[str, Any] = {}  # what all calls of `maximise` share
        self.current = self._select(whole.theta)
        moves = isinstance(solver.landmarks, str) and solver.landmarks == "learn"
        self.positions = self._require_positions() if moves else None

    def _select(self, theta: Array) -> LandmarkObjective:
        chosen = LandmarkObjective.selected(
            self.data.at(theta), self.solver, self.owner, self.given
        )
        return replace(chosen, data=self.data)

    @property
    def objective(self) -> LandmarkObjective:
        """The bound of all rows with the current landmarks."""
        current = self.current
        if self.numbers is None:
            return current
        rows = None if current.rows is None else self.numbers[current.rows]
        return replace(current, data=self.whole, rows=rows)

    def posterior(self, theta: Array) -> LandmarkPosterior:
        """The posterior of all rows with the current landmarks."""
        return LandmarkPosterior.at(self.objective, theta)

    def maximise(self, *, n_restarts: int, random_state: Any, **options: Any) -> Optimum:
        """Search from the start and from restarts, and improve the landmarks on the way."""
        self.options = options
        starts, space, pilot = self.data.starts(n_restarts, random_state), self.data.space, None
        subsample = self.data.subsample(most=_PILOT_ROWS)
        if subsample is not None:
            pilot = pilot_search(
                subsample, space.start, space.bounds, enough=PILOT_GAIN, **self.options
            )
        if pilot is not None and pilot.stopped:
            return pilot
        begin, scales = self._start(pilot)
        if self.loose:
            ends = () if pilot is None else pilot.ends
            return self._by_whole_matrix([begin, *ends], scales, starts)
        self._climb(self.current.value_and_gradient, begin, starts=starts, scales=scales)
        self._improve()
        if self.loose and not self.best.stopped:
            return self._by_whole_matrix([self.best.theta], scales, ())
        if self.positions is not None and not self.best.stopped:
            self._move(self.positions)
        return self.best

    def _climb(self, objective: Objective, begin: Array, **options: Any) -> None:
        """Search from here on; the end is no worse than the best point so far."""
        options = {"enough": self._enough} | options | self.options
        self.best = maximise(objective, begin, self.data.space.bounds, before=self.best, **options)

    def _enough(self, theta: Array) -> float:
        """The gain of a step at which the search stops."""
        rounding = self.current.rounding_at(theta)
        return max(_GAIN * len(self.data.points), _GAIN_IN_ROUNDING * rounding)

    def _start(self, pilot: Optimum | None) -> tuple[Array, Array | None]:
        """Where to begin, with landmarks for it: the pilot's maximum, unless the start is better.

        A loose bound cannot tell which is better; then it is the pilot's maximum.
        """
        start = self.data.space.start
        if pilot is None:
            return start, None
        before = self.current, self.solver
        at_start = self._value_and_gap(start)[0]
        if self._adapt_to(pilot.theta) > at_start or self.loose:
            return pilot.theta, pilot.scales
        self.current, self.solver = before
        return start, None

    def _improve(self) -> None:
        """Choose landmarks for the learned kernel and search again, while the bound grows."""
        for _ in range(_ROUNDS if self._chooses_by_kernel else 0):
            if self.best.stopped:
                return
            before = self.current, self.solver
            if not self._adapt_to(self.best.theta) > self.best.value + _WORTH:
                self.current, self.solver = before
                return
            if self.loose:
                return
            self._climb(self.current.value_and_gradient, self.best.theta)

    def _adapt_to(self, theta: Array) -> float:
        """Choose landmarks for theta, more of them where the bound is loose; return the bound."""
        while True:
            if self._chooses_by_kernel:
                self.current = self._select(theta)
            value, gap = self._value_and_gap(theta)
            loose = gap > _LOOSE * np.sqrt(len(self.data.points))
            more = min(2 * self.solver.n_landmarks, self.fallback.landmarks)
            if not loose or more <= self.solver.n_landmarks:
                self.loose = loose and self.fallback.rows > 0
                return value
            self.solver = replace(self.solver, n_landmarks=more)

    def _value_and_gap(self, theta: Array) -> tuple[float, float]:
        """The bound and its gap to the likelihood; minus infinity where it has no value."""
        try:
            return self.current.value_and_gap(theta)
        except FAILURES:
            return -np.inf, 0.0

    @property
    def _chooses_by_kernel(self) -> bool:
        how = self.solver.landmarks
        return (
            isinstance(how, str)
            and how != "uniform"
            and len(self.current.landmarks) < len(self.data.points)
        )

    def _by_whole_matrix(
        self, candidates: list[Array], scales: Array | None, starts: Any
    ) -> Optimum:
        """Learn from the whole matrix of some rows, and then from those of parts of all rows.

        The search begins at the two likeliest of the candidates. Rows of a part are close to each
        other: a part is as dense as all rows, which some rows anywhere are not.
        """
        self.solver = Cholesky()
        n, few = len(self.data.points), min(self.fallback.rows, len(self.data.points))
        some = self.data.at_rows(np.sort(np.random.default_rng(0).permutation(n)[:few]))
        wider = None if scales is None else scales * np.sqrt(n / few)
        begin, *others = self._likeliest(some, candidates)
        options = {"starts": [*others, *starts], "scales": wider, "enough": _EXACT_GAIN}
        self._climb(some.value_and_gradient, begin, **options)
        if few < n and not self.best.stopped:
            objective = self.data.by_parts(self.best.theta, max(few, self.fallback.part))
            self._climb(objective, self.best.theta, scales=scales, enough=_EXACT_GAIN)
        return self.best

    def _likeliest(self, data: ExactObjective, candidates: list[Array]) -> list[Array]:
        """The two candidates of the largest likelihood, which differ by more than a step."""

        def value(theta: Array) -> float:
            try:
                return data.value(theta)
            except FAILURES:
                return -np.inf

        values = [value(theta) for theta in candidates]
        order = [candidates[i] for i in np.argsort(values)[::-1]]
        others = [theta for theta in order if np.abs(theta - order[0]).max() > _APART]
        return [order[0], *others[:1]]

    def _require_positions(self) -> Positions:
        """The positions of all rows; a kernel without derivatives in them is refused at once."""
        positions = Positions.of(self.data.kernel, self.data.points, self.owner)
        landmarks = positions.at(positions.places[self.current.rows])
        self.current = replace(self.current, landmarks=landmarks)
        self.data.kernel.gram(self.current.landmarks).input_gradient()
        return positions

    def _move(self, positions: Positions) -> None:
        """Search in hyper-parameters and positions, these in units of the range of the data."""
        rows = positions.places
        low, spread = rows.min(axis=0), np.ptp(rows, axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        size, space, best = len(self.best.theta), self.data.space, self.best

        def placed(vector: Array) -> LandmarkObjective:
            shares = vector[size:].reshape(-1, len(low))
            places = np.clip(low + shares * unit, low, low + spread)
            return LandmarkObjective(self.data, positions.at(places))

        def objective(vector: Array) -> tuple[float, Array]:
            value, slope, moved = placed(vector).value_and_gradients(vector[:size])
            return value, np.concatenate([slope, (moved * unit).ravel()])

        def in_theta(optimum: Optimum) -> Optimum:
            theta, at_bounds = optimum.theta[:size], optimum.at_bounds[:size]
            return replace(optimum, theta=theta, at_bounds=at_bounds)

        def tell(optimum: Optimum) -> bool:
            if optimum.value >= best.value:
                self.current = placed(optimum.theta)
            return bool(self.options["report"](in_theta(optimum)))

        start = (rows[self.current.rows] - low) / unit
        box = np.column_stack([np.zeros(start.size), np.tile(spread / unit, len(start))])
        optimum = maximise(
            objective,
            np.concatenate([best.theta, start.ravel()]),
            np.vstack([space.bounds, box]),
            enough=lambda vector: max(_MOVING_GAIN * len(rows), self._enough(vector[:size])),
            before=best,
            **self.options | {"report": tell},
        )
        self.current, self.best = placed(optimum.theta), in_theta(optimum)


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of rows, and the container in which other positions become points."""

    kernel: Kernel  # the kernel that points are prepared for
    places: Array  # (n, d): the rows
    frame: nw.DataFrame[Any] | None  # the container that they come from, if it has named columns

    @classmethod
    def of(cls, kernel: Kernel, points: Points, owner: str) -> Positions:
        """The positions of rows, all columns of which have to be numbers."""
        rows, kind = points.data, type(points.data).__name__
        frame = nw.from_native(rows, pass_through=True, eager_only=True)
        if kernel.input_tags()["pairwise"]:
            kind = "a kernel matrix"
        elif isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "fiu":
            return cls(kernel, rows.astype(np.float64), None)
        elif isinstance(frame, nw.DataFrame):
            others = [name for name, dtype in frame.schema.items() if not dtype.is_numeric()]
            if not others:
                return cls(kernel, frame.to_numpy().astype(np.float64), frame)
            kind = f"the column {others[0]!r} of {frame.schema[others[0]]}"
        raise ParameterError(
            f'{owner}: landmarks = "learn" moves landmarks along a gradient, for which all columns '
            f'of X have to be numbers, got {kind}; pass landmarks="rpcholesky", which chooses '
            "among the rows."
        )

    def at(self, places: Array) -> Points:
        """Points at other positions."""
        numbers = np.ascontiguousarray(places, dtype=np.float64)
        if self.frame is None:
            return self.kernel.prepare(numbers)
        columns = dict(zip(self.frame.columns, numbers.T, strict=True))
        moved = nw.from_dict(columns, backend=self.frame.implementation)
        return self.kernel.prepare(moved.to_native())
