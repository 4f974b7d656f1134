"""The search for hyper-parameters: a bounded maximum of an objective with a gradient.

The objective is a log marginal likelihood or a bound of it. Evaluations are expensive, may fail (a
matrix without a Cholesky factor), and there may be several maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, minimize

from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError, ValidityError

Objective = Callable[[Array], tuple[float, Array]]
Enough = float | Callable[[Array], float]

# Errors by which an objective says that it has no value at a point.
FAILURES = (ValidityError, DataError, ParameterError, np.linalg.LinAlgError)

# `gtol` of L-BFGS-B, for the unscaled objective.
_GTOL = 1e-5
# `ftol` of L-BFGS-B, for the unscaled objective.
_FTOL = 2e-9
# Gradient tolerance when theta is scaled by standard errors: 0.3 * sqrt(2 * enough). Below it a
# Newton step cannot gain more than `enough`, even for correlated parameters.
_GTOL_IN_ERRORS = 0.3
# Evaluations in one line search; what more of them would gain is rounding.
_LINE_SEARCH = 10
# Status of scipy where a line search fails.
_ABNORMAL = 2
# A failed line search counts as convergence if the gradient is below this share of 1 + |value|.
_FLAT = 1e-2
# Relative distance to a bound within which a parameter is at the bound.
_AT_BOUND = 1e-6
# Step of the finite differences of a gradient.
_DIFFERENCE = 1e-4
# Gain of a step (nats) below which a pilot search ends. Steps across a plateau may gain no more
# than 0.05.
PILOT_GAIN = 1e-2
# Steps, each with the gain of the last one, in which a later start has to reach the best value.
_STEPS_TO_BEST = 25
# Distance in every entry of theta, most of which are logarithms, to the best point within which a
# later start would find that point again.
_NEAR = 0.2
# Largest standard error of a parameter that a pilot search reports.
_LARGEST_SCALE = 1.0


@dataclass(frozen=True, eq=False)
class SubsampledObjective:
    """An objective computed from a subsample of the rows."""

    objective: Objective
    fraction: float  # the share of the rows in the subsample, and so of the curvature
    starts: Array  # (s, p): starts of a pilot search, beside that of the whole search


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
    at_bounds: NDArray[np.bool_]  # (p, 2): which entries of theta are at their low or high bound
    stopped: bool = False  # whether a callback ended the search
    ends: tuple[Array, ...] = ()  # where the search from each start ended
    # (p,): of a pilot search, the standard errors that the parameters will have given all rows
    scales: Array | None = None

    @classmethod
    def held(cls, theta: Array) -> Optimum:
        """The given hyper-parameters, without a search."""
        return cls(theta, np.nan, 0.0, 0, 0, True, np.zeros((len(theta), 2), dtype=bool))


Report = Callable[[Optimum], bool]


def maximise(
    objective: Objective,
    start: ArrayLike,
    bounds: ArrayLike,
    *,
    starts: Iterable[ArrayLike] = (),
    subsample: SubsampledObjective | None = None,
    scales: ArrayLike | None = None,
    enough: Enough | None = None,
    max_iter: int = 200,
    report: Report | None = None,
    before: Optimum | None = None,
) -> Optimum:
    """Maximise by L-BFGS-B from one or more starts, and keep the best.

    With a subsample, the first search begins at the maximum of a pilot search on it, with steps in
    the standard errors found there, if the objective is larger there than at `start`. A search ends
    where a step gains less than `enough`, if that is given. Its counts include those of `before`.
    """
    limits = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
    begin: Array = np.clip(np.asarray(start, dtype=np.float64), *limits.T)
    search = _Search(objective, limits, report, enough, max_iter, before)
    first_scales = scales
    search.evaluate(begin)
    search.tell()  # from here on an interrupt leaves a model
    if subsample is not None and max_iter and len(begin) and not search.stopped:
        pilot = pilot_search(
            subsample, begin, limits, enough=PILOT_GAIN, max_iter=max_iter, report=search.relay
        )
        if pilot is not None and search.evaluate(pilot.theta) and search.is_best(pilot.theta):
            begin, first_scales = pilot.theta, pilot.scales
    search.climb(begin, first_scales)
    for point in starts:
        search.climb(np.clip(np.asarray(point, dtype=np.float64), *limits.T), scales)
    return search.optimum()


def pilot_search(
    subsample: SubsampledObjective, start: ArrayLike, bounds: ArrayLike, **options: Any
) -> Optimum | None:
    """Maximise a subsampled objective from several starts; None if it has no value anywhere."""
    limits = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
    try:
        optimum = maximise(subsample.objective, start, limits, starts=subsample.starts, **options)
        curvature = _curvature(subsample.objective, optimum.theta, limits[:, 1])
    except FAILURES:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = 1 / np.sqrt(curvature / subsample.fraction)
    return replace(optimum, scales=np.where(errors < _LARGEST_SCALE, errors, _LARGEST_SCALE))


@dataclass(eq=False)
class _Search:
    """The best point and the counts of L-BFGS-B from several starts."""

    objective: Objective
    bounds: Array
    report: Report | None
    enough: Enough | None
    max_iter: int
    before: Optimum | None
    values: dict[bytes, tuple[float, Array] | None] = field(default_factory=dict)
    best: tuple[float, Array, Array] | None = None
    ends: list[Array] = field(default_factory=list)
    failure: BaseException | None = None
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False

    def evaluate(self, theta: Array) -> tuple[float, Array] | None:
        """The objective and its gradient, or None where it has no value."""
        key = theta.tobytes()
        if key not in self.values:
            self.values[key] = None
            try:
                value, slope = self.objective(theta)
            except FAILURES as error:
                self.failure = self.failure or error
                return None
            if np.isfinite(value) and np.isfinite(slope).all():
                gradient = np.array(slope, dtype=np.float64)
                self.values[key] = float(value), gradient
                if self.best is None or value > self.best[0]:
                    self.best = float(value), theta.copy(), gradient
        return self.values[key]

    def is_best(self, theta: Array) -> bool:
        """Whether no point has a larger value."""
        return self.best is not None and np.array_equal(self.best[1], theta)

    def _is_near_best(self, theta: Array) -> bool:
        """Whether a search from theta would find the best point again."""
        return self.best is not None and bool(np.abs(theta - self.best[1]).max() < _NEAR)

    def climb(self, start: Array, scales: ArrayLike | None) -> None:
        """Run L-BFGS-B from one start, in steps of theta in units of `scales`.

        Within bounds, L-BFGS-B takes the gradient itself as its first step, which on a thousand
        rows would end in a corner of the bounds. So the objective is divided by the norm of the
        gradient at the start.
        """
        first = None if self.stopped else self.evaluate(start)
        if first is None or not self.max_iter or not len(start):
            self.converged |= first is not None and not len(start)
            return
        assert self.best is not None
        before = -np.inf if self.is_best(start) else self.best[0]
        low, high = self.bounds.T
        lengths = np.ones(len(start)) if scales is None else np.asarray(scales, dtype=np.float64)
        unit = max(1.0, float(np.linalg.norm(first[1] * lengths)))
        reached, satisfied = first[0], False

        def negative(step: Array) -> tuple[float, Array]:
            """Minus the objective; where it has no value, more than at the start."""
            theta = np.clip(start + lengths * step, low, high)  # rounding may leave the bounds
            value, gradient = self.evaluate(theta) or (first[0] - unit, np.zeros(len(theta)))
            return -value / unit, -gradient * lengths / unit

        def after_step(intermediate_result: OptimizeResult) -> None:
            """Stop where the last step gained too little. The parameter's name is scipy's."""
            nonlocal reached, satisfied
            self.n_iter += 1
            self.tell()
            value = -float(intermediate_result.fun) * unit
            theta = start + lengths * intermediate_result.x
            enough = self._enough(theta)
            if enough is not None:
                # A later start ends early where steps like its last one would not reach the best.
                missing = max(0.0, before - value) / _STEPS_TO_BEST
                satisfied = value - reached <= max(enough, missing)
                satisfied |= value < before and self._is_near_best(theta)
            reached = value
            if self.stopped or satisfied:
                raise StopIteration

        tolerance, enough = _GTOL, self._enough(start)
        if enough is not None and scales is not None:
            tolerance = max(_GTOL, _GTOL_IN_ERRORS * float(np.sqrt(2 * enough)))
        result = minimize(
            negative,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            bounds=(self.bounds - start[:, None]) / lengths[:, None],
            callback=after_step,
            options={
                "maxiter": self.max_iter,
                "maxls": _LINE_SEARCH,
                "gtol": tolerance / unit,
                "ftol": _FTOL / unit if enough is None else 0.0,
            },
        )
        self.ends.append(np.clip(start + lengths * result.x, low, high))
        if self.best[0] > before:
            flat = self._gradient_norm() <= _FLAT * (1 + abs(self.best[0]))
            ended = satisfied or result.status == 0 or (result.status == _ABNORMAL and flat)
            self.converged = ended and not self.stopped

    def tell(self) -> None:
        """Report the best point."""
        if self.report is not None and self.best is not None:
            self.relay(self.optimum())

    def relay(self, optimum: Optimum) -> bool:
        """Report an optimum, and keep in mind whether the search is to stop."""
        self.stopped = self.report is not None and self.report(optimum)
        return self.stopped

    def optimum(self) -> Optimum:
        """The best point and the counts."""
        if self.best is None:
            raise self.failure or ValidityError(
                "the objective is not finite at any start; pass other starting values, or scale "
                "the data."
            )
        value, theta, _ = self.best
        n_iter, n_evaluations = self.n_iter, len(self.values)
        if self.before is not None:
            n_iter += self.before.n_iter
            n_evaluations += self.before.n_evaluations
        slack = _AT_BOUND * (1 + np.abs(theta))
        return Optimum(
            theta=theta,
            value=value,
            gradient_norm=self._gradient_norm(),
            n_iter=n_iter,
            n_evaluations=n_evaluations,
            converged=self.converged,
            at_bounds=np.abs(theta[:, None] - self.bounds) <= slack[:, None],
            stopped=self.stopped,
            ends=tuple(self.ends),
        )

    def _enough(self, theta: Array) -> float | None:
        """The gain of a step below which a search ends."""
        return self.enough(theta) if callable(self.enough) else self.enough

    def _gradient_norm(self) -> float:
        """The largest entry of the gradient that does not point out of the bounds."""
        assert self.best is not None
        _, theta, gradient = self.best
        low, high = self.bounds.T
        return float(np.abs(np.clip(theta + gradient, low, high) - theta).max(initial=0.0))


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
