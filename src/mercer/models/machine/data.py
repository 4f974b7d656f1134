"""A loss with its data, as the solvers take them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.kernels.points import Points
from mercer.losses import Kink, PiecewiseLinear
from mercer.losses.base import spread
from mercer.rows.rows import RowBlock
from mercer.solvers.kinks import quantiles, smoothing
from mercer.solvers.kinks.smoothing import Kinks
from mercer.solvers.newton import dense
from mercer.solvers.newton.method import Start, State, solve_in_turn
from mercer.solvers.newton.row_losses import RowLoss, WeightedLoss

# An array; for smooth losses also a matrix that is known by its products, `dense.Scalable`; for
# losses with kinks also a low-rank matrix.
Gram = Any
States = Iterator[State]
Rows = NDArray[np.intp]


class Task(ABC):
    """Functions to fit to given targets, with a common Gram matrix."""

    n_outputs: int  # the number of functions
    constants: Array  # (n_outputs,): initial intercepts
    weights: Array  # (n,): the positive weights of the rows
    columns: Array  # (n, t): the targets

    row_losses: tuple[RowLoss, ...] = ()  # smooth losses; empty if there are kinks
    row_targets: Array  # (n, t): their targets; no columns if there are kinks
    # the losses with their data, each minimised alone, and the number of functions of each
    parts: Sequence[tuple[int, Any]]
    #: ``minimise(gram, part, alpha, start, **options)`` yields the states of one part.
    minimise: ClassVar[Callable[..., States]]

    @property
    def joint(self) -> bool:
        """Whether several functions are fitted together."""
        return 0 < len(self.row_losses) < self.n_outputs

    def states(self, gram: Gram, alpha: float, start: Start, **options: Any) -> States:
        """Yield the states of all functions after every step of one part."""
        solvers = [
            (outputs, partial(self.minimise, gram, part, alpha, **options))
            for outputs, part in self.parts
        ]
        return solve_in_turn(solvers, start)

    def final(self, gram: Gram, alpha: float, state: State) -> State:
        """The state to keep if the search ends at this one."""
        return state

    @abstractmethod
    def at(self, rows: Rows) -> Task:
        """The task of some rows; several quantiles are fitted alone, and may cross."""

    def alone(self) -> Task:
        """The task without conditions on several functions together."""
        return self.at(np.arange(len(self.weights)))

    @abstractmethod
    def losses_at(self, values: Array) -> Array:
        """The sum of the losses of all functions at each row, without weights."""

    @abstractmethod
    def typical_curvature(self) -> float:
        """The mean second derivative of the losses, at the initial intercepts."""


@dataclass(frozen=True, eq=False)
class Data:
    """The data of a machine, validated."""

    points: Points  # all points
    given: Array | None  # (n,): the weights as they were given
    rows: NDArray[np.intp]  # the rows of positive weight
    weights: Array  # the positive weights
    task: Task  # the functions to fit to these rows
    scale: float  # typical size of values of the functions

    @property
    def weighted_points(self) -> Points:
        """The rows of positive weight."""
        everything = len(self.rows) == len(self.points)
        return self.points if everything else self.points[self.rows]

    def over_all_rows(self, coef: Array) -> Array:
        """Coefficients of all rows: zero for a row of weight zero."""
        total = np.zeros((len(self.points), coef.shape[1]))
        total[self.rows] = coef
        return total


def points_alone(points: Points, weights: Array | None = None) -> RowBlock:
    """Rows without targets."""
    return RowBlock(points, np.empty((len(points), 0)), weights)


class SmoothTask(Task):
    """Functions with smooth losses, each of which is minimised alone."""

    def __init__(
        self, losses: tuple[RowLoss, ...], targets: Array, weights: Array, constants: Array
    ) -> None:
        self.n_outputs, self.constants = len(constants), constants
        self.row_losses, self.row_targets, self.weights = losses, targets, weights
        self.columns = targets
        self.parts = [(loss.n_outputs, WeightedLoss(loss, targets, weights)) for loss in losses]

    minimise = staticmethod(dense.minimise)

    def at(self, rows: Rows) -> SmoothTask:
        """The task of some rows."""
        targets, weights = self.row_targets[rows], self.weights[rows]
        return SmoothTask(self.row_losses, targets, weights, self.constants)

    def losses_at(self, values: Array) -> Array:
        """The sum of the losses of all functions at each row, without weights."""
        total, first = np.zeros(len(values)), 0
        for loss in self.row_losses:
            total += loss.value(self.row_targets, values[:, first : first + loss.n_outputs])
            first += loss.n_outputs
        return total

    def typical_curvature(self) -> float:
        """The mean second derivative of the losses, at the initial intercepts."""
        values = np.tile(self.constants, (len(self.weights), 1))
        (outputs, part), first = self.parts[0], values[:, : self.parts[0][0]]
        hessian = part.hessian(first)
        mean = np.mean([hessian.block(a, a).sum() for a in range(outputs)]) / self.weights.sum()
        return float(mean)


class KinkedTask(Task):
    """One function for each column of targets, with a piecewise linear loss for each."""

    def __init__(
        self, losses: list[PiecewiseLinear], targets: Array, weights: Array, constants: Array
    ) -> None:
        self.n_outputs, self.constants = len(constants), constants
        self.row_targets = np.empty((len(weights), 0))
        self.losses, self.columns, self.weights = losses, targets, weights
        columns = zip(losses, targets.T, strict=True)
        self.parts = [(1, _kinks(loss, column, weights)) for loss, column in columns]

    minimise = staticmethod(smoothing.minimise)

    def at(self, rows: Rows) -> KinkedTask:
        """The task of some rows, one function after the other."""
        return KinkedTask(self.losses, self.columns[rows], self.weights[rows], self.constants)

    def losses_at(self, values: Array) -> Array:
        """The sum of the losses of all functions at each row, without weights."""
        columns = zip(self.losses, self.columns.T, values.T, strict=True)
        return np.asarray(sum(loss.value(y, f) for loss, y, f in columns))

    def typical_curvature(self) -> float:
        """1 over the spread of the targets: slopes change by about 1 over that distance."""
        return 1 / spread(self.columns[:, 0], self.weights)


class Quantiles(KinkedTask):
    """One function for each quantile, in order at every training point."""

    def __init__(
        self,
        losses: list[PiecewiseLinear],
        levels: Array,
        targets: Array,
        weights: Array,
        constants: Array,
    ) -> None:
        self._levels, self._targets = levels, targets
        columns = np.repeat(targets[:, None], len(losses), axis=1)
        super().__init__(losses, columns, weights, constants)

    def states(self, gram: Gram, alpha: float, start: Start, **options: Any) -> States:
        """Yield states of each quantile alone and, if they cross, of all together."""
        state: State | None = None
        for state in super().states(gram, alpha, start, **options):
            if not state.converged:  # otherwise the order is checked first
                yield state
        assert state is not None
        yield from quantiles.minimise_in_order(
            gram, self._targets, self.weights, self._levels, alpha, state, **options
        )

    def final(self, gram: Gram, alpha: float, state: State) -> State:
        """The state if it has converged, otherwise functions in order: they may still cross."""
        if state.converged or self.n_outputs == 1:
            return state
        return quantiles.pooled(gram, state, self._levels, alpha)


def _kinks(loss: PiecewiseLinear, targets: Array, weights: Array) -> Kinks:
    """The kinks of a loss at all rows."""
    shape = np.shape(targets)
    kinks = [Kink(*(np.broadcast_to(part, shape) for part in k)) for k in loss.kinks(targets)]
    rows = np.tile(np.arange(len(targets)), len(kinks))
    return Kinks(
        rows,
        np.concatenate([kink.location for kink in kinks]).astype(np.float64),
        np.concatenate([weights * kink.low for kink in kinks]),
        np.concatenate([weights * kink.high for kink in kinks]),
        np.tile(weights, len(kinks)),
    )
