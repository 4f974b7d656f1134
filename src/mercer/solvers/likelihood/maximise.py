"""The search for hyper-parameters: a bounded maximum of an objective with a gradient.

The objective is a log marginal likelihood or something like it, so evaluations are dear, may fail
(a matrix without a factor) and may have several maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, minimize

from mercer.exceptions import DataError, ParameterError, ValidityError

Array = NDArray[np.floating[Any]]
Objective = Callable[[Array], tuple[float, Array]]
Enough = float | Callable[[Array], float]

# What an objective may raise where it has no value.
FAILURES = (ValidityError, DataError, ParameterError, np.linalg.LinAlgError)

# Largest entry of the gradient at a maximum, and the relative gain of a step that is not worth more
# of them, for the objective in its own unit.
_GRADIENT = 1e-5
_GAIN = 2e-9

# A search that ends because rounding hides any further gain has converged if its slope is this
# small beside its value; before that it is tried again, with curvature learned anew.
_FLAT = 1e-2
_ATTEMPTS = 3
_AT_BOUND = 1e-6

# scipy's status of a line search that finds no way up.
_ABNORMAL = 2

# So many evaluations in a row that differ from the best by less than is enough: it is flat there.
_IDLE = 4

# Evaluations along one line: beyond these, what is left to gain is rounding.
_ON_A_LINE = 10

# The step of differences of a sketch's gradient, and the longest step that they may suggest.
_DIFFERENCE = 1e-4
_LONGEST = 1.0

# Where steps are in standard errors: a slope in them, as a share of the root of twice the gain
# that is enough, at which no step gains so much, though the entries of theta depend on each other.
_SLACK = 0.3


@dataclass(frozen=True, eq=False)
class Sketch:
    """A cheap likeness of an objective: the same sum over some of the data."""

    objective: Objective  # as that of `maximise`
    # how much of the data it sees: its curvature is about this share of the whole one's
    share: float
    starts: Array  # (s, p): where to begin, beside the start of the search


@dataclass(frozen=True, eq=False)
class Glance:
    """What a sketch says of the objective that it is like."""

    theta: Array  # (p,): where the sketch is largest
    lengths: Array  # (p,): standard errors of what all the data will say: the lengths of good steps


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best point of a search."""

    theta: Array  # (p,): where the objective is largest
    value: float  # the objective there
    # largest entry of the gradient there, leaving out those that point out of the bounds
    gradient_norm: float
    n_iter: int  # iterations of all starts together
    n_evaluations: int  # evaluations of the objective, of all starts together
    converged: bool  # whether the start that led here ended at a maximum
    at_low: NDArray[np.bool_]  # (p,): which entries of theta are at a bound
    at_high: NDArray[np.bool_]  # (p,): which entries of theta are at a bound

    @classmethod
    def held(cls, theta: Array) -> Optimum:
        """What there is without a search."""
        nowhere = np.zeros(len(theta), dtype=bool)
        return cls(theta, np.nan, 0.0, 0, 0, True, nowhere, nowhere)


Report = Callable[[Optimum], bool]


def maximise(
    objective: Objective,
    start: ArrayLike,
    bounds: ArrayLike,
    *,
    starts: Iterable[ArrayLike] = (),
    sketch: Sketch | None = None,
    lengths: ArrayLike | None = None,
    enough: Enough | None = None,
    max_iter: int = 200,
    report: Report | None = None,
) -> Optimum:
    """Maximise by L-BFGS-B from one or more starts, and keep the best.

    With a sketch, the first search goes to the best maximum of the sketch from several starts, and
    continues from there, with steps of the length that the sketch's curvature suggests, if the
    objective is larger there than at the start.
    """
    limits = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
    search = _Search(objective, limits, sketch, lengths, report, enough)
    for point in (start, *starts):
        search.climb(np.asarray(point, dtype=np.float64), max_iter)
        if search.stopped:
            break
    return search.optimum()


def glance(
    sketch: Sketch,
    start: ArrayLike,
    bounds: ArrayLike,
    *,
    enough: Enough | None = None,
    max_iter: int = 200,
    report: Report | None = None,
) -> Glance | None:
    """Look where a sketch is largest, and how steep its sides are."""
    limits = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
    try:
        found = maximise(
            sketch.objective,
            start,
            limits,
            starts=sketch.starts,
            enough=enough,
            max_iter=max_iter,
            report=report,
        )
        curvature = _curvature(sketch.objective, found.theta, limits[:, 1])
    except FAILURES:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = 1 / np.sqrt(curvature / sketch.share)
    return Glance(found.theta, np.where(lengths < _LONGEST, lengths, _LONGEST))


class _Search:
    """The best point so far, and the counts, over all starts."""

    def __init__(
        self,
        objective: Objective,
        bounds: Array,
        sketch: Sketch | None,
        lengths: ArrayLike | None,
        report: Report | None,
        enough: Enough | None,
    ) -> None:
        self.objective, self.bounds, self.sketch, self.report = objective, bounds, sketch, report
        self.lengths = None if lengths is None else np.asarray(lengths, dtype=np.float64)
        self.enough = enough
        self.best: tuple[float, Array, Array] | None = None
        self.failure: BaseException | None = None
        self.n_iter = self.n_evaluations = 0
        self.converged = self.stopped = False

    def climb(self, start: Array, max_iter: int) -> None:
        """Run L-BFGS-B from one start."""
        low, high = self.bounds.T
        before = -np.inf if self.best is None else self.best[0]
        climb = self._begin(np.clip(start, low, high), max_iter)
        if climb is None or self.stopped:
            return
        if not len(start) or not max_iter:
            self.converged |= not len(start)
            return
        ended = self._descend(climb, max_iter)
        if self.best is not None and self.best[0] > before:
            self.converged = ended and not self.stopped

    def _descend(self, climb: _Climb, max_iter: int) -> bool:
        """Run L-BFGS-B; whether it ended at a maximum."""
        point, left = climb.start / climb.lengths, max_iter
        for _ in range(_ATTEMPTS):
            try:
                result = minimize(
                    climb.descend,
                    point,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=self.bounds / climb.lengths[:, None],
                    callback=climb.step,
                    options={
                        "maxiter": left,
                        "maxls": _ON_A_LINE,
                        "gtol": climb.slope,
                        "ftol": climb.gain,
                    },
                )
            except _Flat:
                return True
            point, left = result.x, left - int(result.nit)
            ended = result.status != _ABNORMAL or self.enough is not None
            if ended or not result.nit or left <= 0:
                break
        return climb.satisfied or self._ended_well(result)

    def _begin(self, start: Array, max_iter: int) -> _Climb | None:
        """Where to climb from: the start, or where a sketch leads; None if there is no value."""
        first = self.evaluate(start)
        given = None if first is None else _Climb(self, start, self.lengths, first)
        if self.n_evaluations > 1:
            return given
        self._tell()  # an interrupt from now on has something to keep
        if self.sketch is None or self.stopped or not (max_iter and len(start)):
            return given
        found = self._sketched(self.sketch, start, max_iter)
        if found is None:
            return given
        second = self.evaluate(found.theta)
        if second is None or (first is not None and first[0] >= second[0]):
            return given
        return _Climb(self, found.theta, found.lengths, second)

    def _sketched(self, sketch: Sketch, start: Array, max_iter: int) -> Glance | None:
        def tell(found: Optimum) -> bool:
            self.stopped = self.report is not None and self.report(found)
            return self.stopped

        return glance(sketch, start, self.bounds, max_iter=max_iter, report=tell)

    def evaluate(self, theta: Array) -> tuple[float, Array] | None:
        """The objective, or None where it has no value."""
        self.n_evaluations += 1
        try:
            value, gradient = self.objective(theta)
        except FAILURES as error:
            self.failure = self.failure or error
            return None
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        if self.best is None or value > self.best[0]:
            self.best = float(value), theta.copy(), np.array(gradient, dtype=np.float64)
        return float(value), np.asarray(gradient, dtype=np.float64)

    def optimum(self) -> Optimum:
        """What was found."""
        if self.best is None:
            raise self.failure or ValidityError(
                "the objective is not finite at any start; pass other starting values, or scale "
                "the data."
            )
        value, theta, _ = self.best
        slack = _AT_BOUND * (1 + np.abs(theta))
        return Optimum(
            theta=theta,
            value=value,
            gradient_norm=self._slope(),
            n_iter=self.n_iter,
            n_evaluations=self.n_evaluations,
            converged=self.converged,
            at_low=theta <= self.bounds[:, 0] + slack,
            at_high=theta >= self.bounds[:, 1] - slack,
        )

    def step(self) -> None:
        """Tell whoever watches after an iteration."""
        self.n_iter += 1
        self._tell()

    def worth(self, theta: Array) -> float | None:
        """The gain that is enough."""
        return self.enough(theta) if callable(self.enough) else self.enough

    def _tell(self) -> None:
        if self.report is not None and self.best is not None:
            self.stopped = self.report(self.optimum())

    def _ended_well(self, result: Any) -> bool:
        assert self.best is not None
        flat = self._slope() <= _FLAT * (1 + abs(self.best[0]))
        return bool(result.status == 0 or (result.status == _ABNORMAL and flat))

    def _slope(self) -> float:
        """The largest entry of the gradient that does not point out of the bounds."""
        assert self.best is not None
        _, theta, gradient = self.best
        low, high = self.bounds.T
        moved = np.clip(theta + gradient, low, high) - theta
        return float(np.abs(moved).max(initial=0.0))


class _Flat(Exception):  # noqa: N818 - not an error
    """Raised out of a line search that no longer tells values from rounding."""


class _Climb:
    """The objective as scipy minimises it: finite everywhere, and of slope 1 or less at the start.

    Within bounds, L-BFGS-B takes the gradient itself as its first step. The evidence of a thousand
    rows has one long enough to end in a corner, from which there may be no way back. The variables
    are theta / lengths, in which a step of 1 is a good one in each of them.
    """

    def __init__(
        self, search: _Search, start: Array, lengths: Array | None, first: tuple[float, Array]
    ) -> None:
        self.search, self.start, self.first = search, start, first
        self.knows_errors = lengths is not None
        self.lengths = np.ones(len(start)) if lengths is None else lengths
        self.worst = -first[0]
        self.unit = max(1.0, float(np.linalg.norm(first[1] * self.lengths)))
        self.reached, self.idle, self.satisfied = first[0], 0, False

    @property
    def gain(self) -> float:
        """The relative gain, as scipy counts it, of a step that is not worth more of them."""
        return _GAIN / self.unit if self.search.enough is None else 0.0

    @property
    def slope(self) -> float:
        """The largest entry of the gradient, as scipy sees it, at which the search ends."""
        enough = self.search.worth(self.start)
        if enough is None or not self.knows_errors:
            return _GRADIENT / self.unit
        return max(_GRADIENT, _SLACK * float(np.sqrt(2 * enough))) / self.unit

    def step(self, intermediate_result: OptimizeResult) -> None:
        """After an iteration: is there anything left to gain? The parameter's name is scipy's."""
        self.search.step()
        value = -float(intermediate_result.fun) * self.unit
        enough = self.search.worth(np.asarray(intermediate_result.x) * self.lengths)
        self.satisfied = enough is not None and value - self.reached <= enough
        self.reached = value
        if self.search.stopped or self.satisfied:
            raise StopIteration

    def _count_idle(self, theta: Array, value: float) -> None:
        enough = self.search.worth(theta)
        near = enough is not None and abs(value - self.reached) <= enough
        self.idle = self.idle + 1 if near else 0
        if self.idle == _IDLE:
            raise _Flat

    def descend(self, variables: Array) -> tuple[float, Array]:
        """Minus the objective and its gradient."""
        low, high = self.search.bounds.T
        theta = np.clip(variables * self.lengths, low, high)  # rounding may leave the bounds
        if np.array_equal(variables, self.start / self.lengths):
            found: tuple[float, Array] | None = self.first
        else:
            found = self.search.evaluate(theta)
        if found is None:
            # A wall, not a cliff without end: the line search interpolates between values.
            return (self.worst + 10 * (1 + abs(self.worst))) / self.unit, np.zeros_like(theta)
        self._count_idle(theta, found[0])
        self.worst = max(self.worst, -found[0])
        return -found[0] / self.unit, -found[1] * self.lengths / self.unit


def _curvature(objective: Objective, theta: Array, high: Array) -> Array:
    """Minus the second derivatives in each entry, by differences of the gradient."""
    _, slope = objective(theta)
    curvature = np.empty(len(theta))
    for i, bound in enumerate(high):
        step = _DIFFERENCE if theta[i] + _DIFFERENCE <= bound else -_DIFFERENCE
        moved = theta.copy()
        moved[i] += step
        curvature[i] = (slope[i] - objective(moved)[1][i]) / step
    return curvature
