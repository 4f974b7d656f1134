r"""Newton's method for a smooth convex loss of the functions of a span, from sums over rows.

With coordinates v in which the squared norm is |v|^2 (`spans.Span`), the functions minimise

.. math:: \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac\alpha2 \|v\|^2, \qquad f(x) = \phi(x)^\top v + b .

`span_steps.Exactly` asks the rows for the second derivative, n m^2 operations: one pass of the
rows for each step, as losses at several lengths of a step and the derivatives where it is whole
come together. `span_steps.ByIterations` solves Newton's equations by conjugate gradients, each
iteration a pass of n m operations, preconditioned by the second derivative of a sample of rows.

First steps are taken with alphas that fall to the one that is asked for and, where there are many
rows, on every s-th of them: few steps on all rows are then left. See Marteau-Ferey, Bach and Rudi
(2019), Globally convergent Newton methods for ill-conditioned generalized self-concordant losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.rows.rows import RowSource
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span_sums import BentAlong, Compare, Mass, Place, Probe, Probed, Squares
from mercer.solvers.newton.spans import Span

Array = NDArray[np.floating[Any]]
Start = tuple[Array, Array]

_LENGTHS = tuple(0.5**i for i in range(12))
_SHORTEST = 1e-12
_SUFFICIENT = 1e-4
_FLAT = 0.9
_IDLE_STEPS = 3
_EPS = float(np.finfo(np.float64).eps)

# Alphas fall by this factor, from this share of the sum of k(x, x), with few steps for each.
_FALL = 10.0
_FIRST = 1 / 300
_STEPS_OF_PATH, _TOL_OF_PATH = 2, 0.1
# A sample has so many rows for each coordinate, at least so many, and at most one of so many rows.
_ROWS_FOR_EACH, _FEWEST, _WORTH_A_SAMPLE = 8, 4000, 8


@dataclass(frozen=True, eq=False)
class SpanState:
    """Where the method stands after a step."""

    coordinates: Array  # (m, k): the v
    intercept: Array  # (k,): the constants b
    loss: float  # the weighted sum of losses
    error: float  # the norm of the gradient in v and b
    residual: float  # the same relative to the terms that cancel in it
    # the objective is at most this much above its minimum over functions with the same constants
    bound: float
    converged: bool  # whether the gradient is as small as was asked for
    # why the last step is not what it should be, as a clause; empty if nothing is known
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class Point:
    """Coordinates and constants, and what the rows say of them."""

    coordinates: Array  # the v and b
    intercept: Array  # the v and b
    probed: Probed  # sums over the rows
    gradient: Array  # (m, k): of the objective, in v
    objective: float  # its value
    rounding: float  # what rounding can do to a difference of values


class Direct(Protocol):
    """Where to go from a point."""

    @property
    def curved(self) -> bool:
        """Whether the second derivative is asked of all rows."""
        ...

    def __call__(self, problem: Problem, point: Point) -> tuple[Array, Array]:
        """Changes of coordinates and constants."""
        ...


@dataclass(frozen=True, eq=False)
class Problem:
    """A smooth loss of the functions of a span."""

    rows: RowSource
    span: Span  # the functions
    loss: RowLoss  # the loss of a row
    alpha: float  # positive weight of half the squared norm
    fit_intercept: bool  # whether constants are fitted, or stay as they are
    stride: int = 1  # 1 for all rows, more for a sample of them

    def at(self, coordinates: Array, intercept: Array, *, curved: bool) -> Point:
        """A point, by a pass over the rows."""
        still = Place(np.zeros_like(coordinates), np.zeros_like(intercept))
        probed = self._probe(self.place(coordinates, intercept), still, (0.0,), curved)
        return self._point(coordinates, intercept, probed)

    def place(self, coordinates: Array, intercept: Array) -> Place:
        """The same as rows are multiplied with it."""
        return Place(self.span.outward(coordinates), intercept)

    def squares(
        self, point: Point, loss: RowLoss | None = None, stride: int | None = None
    ) -> Array:
        """The second derivative of the loss, not of zeros alone."""
        found = point.probed.squares
        place = self.place(point.coordinates, point.intercept)
        summand = Squares(self.span, loss or self.loss, place, stride or self.stride)
        if not found.size or loss is not None:
            found = self.rows.map_sum(summand)
        if not found[:, -1, -1].any():
            found = self.rows.map_sum(replace(summand, flat=True))
        return found

    def bent(self, point: Point, coordinates: Array, intercept: Array) -> tuple[Array, Array]:
        """The second derivative of the objective times a direction."""
        place = self.place(point.coordinates, point.intercept)
        turn = self.place(coordinates, intercept)
        found = self.rows.map_sum(BentAlong(self.span, self.loss, place, turn, self.stride))
        return self.span.inward(found.pull) + self.alpha * coordinates, found.push

    def moved(self, point: Point, turn: Start, *, curved: bool) -> Point:
        """The point after a step in a direction; the same if no step lowers the objective.

        A whole step is taken if it lowers the objective by a fraction of what its slope promises
        and does not lead up again on the other side, else the best of several shorter ones.
        """
        first = float(np.sum(point.gradient * turn[0]) + point.probed.push @ turn[1])
        begin, line = self.place(point.coordinates, point.intercept), self.place(*turn)
        scale = 1.0
        while scale > _SHORTEST:
            lengths = scale * np.array(_LENGTHS)
            probed = self._probe(begin, line, tuple(lengths), curved and scale == 1)
            ends = point.coordinates + lengths[:, None, None] * turn[0]
            values = probed.losses + self.alpha / 2 * np.sum(ends**2, axis=(1, 2))
            slope = probed.slopes[0] + self.alpha * float(np.sum(ends[0] * turn[0]))
            allowed = point.objective + _SUFFICIENT * scale * first + point.rounding
            if values[0] <= allowed and slope <= _FLAT * abs(first):
                return self._point(ends[0], point.intercept + scale * turn[1], probed)
            best = int(np.argmin(values))
            if values[best] < point.objective:
                constants = point.intercept + lengths[best] * turn[1]
                return self.at(ends[best], constants, curved=curved)
            scale = float(lengths[-1]) / 2
        return point

    def state(self, point: Point, tol: float, excused: bool) -> SpanState:
        """The point with the norm of its gradient, measured against the terms that cancel.

        Where steps no longer lower the objective, rounding is an excuse, as in `newton`, as long as
        the objective is known to be near its minimum.
        """
        probed = point.probed
        error, terms = float(np.linalg.norm(point.gradient)), self.terms(point)
        slopes, bends, products = np.sqrt(probed.sizes)
        reach, length = self.span.reach, self._length(point.coordinates)
        lost = _EPS * reach * (self.span.stretch * slopes + bends * length)
        parts = reach * np.sqrt(len(self.rows)) * float(slopes + products)
        ratio = error / terms if terms > 0 else 0.0
        bound = error**2 / (2 * self.alpha)
        worth = max(abs(point.objective), self._penalty(point))
        excused = excused and bound <= 100 * tol * worth
        small = error <= tol * terms + min(8 * excused * lost, 100 * tol * parts)
        small = small or (excused and bound <= _EPS * worth)
        if self.fit_intercept:
            total, sums = float(np.linalg.norm(probed.push)), float(probed.terms.sum())
            noise = _EPS * (sums + np.sqrt(len(self.rows)) * bends * length)
            small = small and total <= tol * sums + min(8 * excused * noise, 100 * tol * sums)
            ratio = max(ratio, total / sums if sums > 0 else 0.0)
            error = float(np.hypot(error, total))
        return SpanState(
            point.coordinates,
            point.intercept,
            float(probed.losses[0]),
            error,
            ratio,
            bound,
            bool(small),
        )

    def _penalty(self, point: Point) -> float:
        return self.alpha / 2 * float(np.sum(point.coordinates**2))

    def terms(self, point: Point) -> float:
        """The norms of the two terms of the gradient, that of the loss and that of the penalty."""
        penalty = self.alpha * point.coordinates
        return float(np.linalg.norm(penalty) + np.linalg.norm(point.gradient - penalty))

    def _length(self, coordinates: Array) -> float:
        """What values are sums of, about, whose rounding is theirs."""
        size = float(np.linalg.norm(self.span.outward(coordinates)))
        return size * self.span.reach ** (1 if self.span.whitened else 2)

    def _probe(self, place: Place, turn: Place, lengths: tuple[float, ...], curved: bool) -> Probed:
        summand = Probe(self.span, self.loss, place, turn, lengths, self.stride, curved)
        return self.rows.map_sum(summand)

    def _point(self, coordinates: Array, intercept: Array, probed: Probed) -> Point:
        gradient = self.span.inward(probed.pull) + self.alpha * coordinates
        objective = float(probed.losses[0]) + self.alpha / 2 * float(np.sum(coordinates**2))
        values = float(np.sqrt(probed.sizes[0])) * self._length(coordinates)
        rounding = 4 * _EPS * (abs(objective) + values)
        return Point(coordinates, intercept, probed, gradient, objective, rounding)


def minimise(
    problem: Problem, direct: Direct, start: Start, *, tol: float, max_iter: int
) -> Iterator[SpanState]:
    """Yield the state after every step, until the gradient is small."""
    point, idle, more = problem.at(*start, curved=direct.curved), 0, True
    for _ in range(max_iter):
        turn = direct(problem, point)
        moved = problem.moved(point, turn, curved=direct.curved and more)
        whole = np.array_equal(moved.coordinates, point.coordinates + turn[0])
        idle = 0 if moved.objective < point.objective - point.rounding else idle + 1
        point = moved
        state = problem.state(point, tol, excused=idle > 0)
        yield state
        if state.converged or idle >= _IDLE_STEPS:
            return
        # Second derivatives come with the next step, unless it is likely to be cut or the last.
        more = whole and state.residual > np.sqrt(tol)


def descend(
    problem: Problem, direct: Direct, start: Start, *, tol: float, max_iter: int
) -> Iterator[SpanState]:
    """The same after first steps at larger alphas, on few of the rows where there are many."""
    steps, best = 0, start
    sample = _sample(problem)
    ends = [start]
    for stage in [*_easier(sample), *([sample] if sample.stride > 1 else [])]:
        allowed = min(_STEPS_OF_PATH, max_iter - 1 - steps)
        if allowed < 1:
            break
        for state in minimise(stage, direct, ends[-1], tol=_TOL_OF_PATH, max_iter=allowed):
            steps, best = steps + 1, (state.coordinates, state.intercept)
            yield replace(state, converged=False)
        ends.append(best)
    # What suits a sample need not suit all rows: the more so, the smaller alpha is.
    start = _best(problem, ends) if sample.stride > 1 else best
    yield from minimise(problem, direct, start, tol=tol, max_iter=max_iter - steps)


def _sample(problem: Problem) -> Problem:
    """The problem on every s-th row that counts, with an alpha as large beside their loss."""
    fewest = max(_FEWEST, _ROWS_FOR_EACH * len(problem.span))
    stride = problem.rows.statistics.rows // fewest
    if stride < _WORTH_A_SAMPLE:
        return problem
    few, all_of_them = (problem.rows.map_sum(Mass(problem.span, step))[0] for step in (stride, 1))
    return replace(problem, stride=stride, alpha=problem.alpha * few / all_of_them)


def _easier(problem: Problem) -> Iterator[Problem]:
    """The same with alphas that fall."""
    total = _FIRST * problem.rows.map_sum(Mass(problem.span, problem.stride))[1]
    if problem.alpha < total:
        falls = int(np.log(total / problem.alpha) / np.log(_FALL))
        for fall in range(falls, 0, -1):
            yield replace(problem, alpha=problem.alpha * _FALL**fall)


def _best(problem: Problem, starts: list[Start]) -> Start:
    """The one with the least objective, by one pass for all of them."""
    places = tuple(problem.place(*start) for start in starts)
    values = problem.rows.map_sum(Compare(problem.span, problem.loss, places))
    values = values + [problem.alpha / 2 * np.sum(start[0] ** 2) for start in starts]
    return starts[int(np.argmin(values))]
