"""A loss with its data, as the solvers take them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.losses import Kink, Loss, Multinomial, PiecewiseLinear
from mercer.rows.rows import RowBlock
from mercer.solvers.kinks import quantiles, smoothing
from mercer.solvers.kinks.smoothing import Kinks
from mercer.solvers.newton import dense
from mercer.solvers.newton.curvature import DiagonalHessian, Hessian, SoftmaxHessian
from mercer.solvers.newton.method import Start, State, solve_in_turn
from mercer.solvers.newton.row_losses import JointLoss, RowLoss, SingleLoss

Array = NDArray[np.floating[Any]]
# An array; for smooth losses also a matrix that is known by its products, `dense.Scalable`.
Gram = Any


@dataclass(frozen=True)
class Options:
    """The options of a solver."""

    fit_intercept: bool
    tol: float
    max_iter: int


class Task(ABC):
    """Functions to fit to given targets, with a common Gram matrix."""

    n_outputs: int  # the number of functions
    constants: Array  # (n_outputs,): initial intercepts

    # the losses row by row, for solvers that sum over rows; empty if the loss is not smooth
    row_losses: tuple[RowLoss, ...] = ()
    row_targets: Array  # (n, t): their targets

    @abstractmethod
    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of a solver on the way to the minimum."""

    def final(self, gram: Gram, alpha: float, state: State) -> State:
        """The state to keep if the search ends at this one."""
        return state


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


def points_alone(points: Points, weights: Array | None = None) -> RowBlock:
    """Rows without targets."""
    return RowBlock(points, np.empty((len(points), 0)), weights)


class Joint(Task):
    """Classes, one function for each, fitted together by the multinomial log-loss."""

    def __init__(self, codes: NDArray[np.intp], weights: Array, n_classes: int) -> None:
        self.n_outputs, self.constants = n_classes, np.zeros(n_classes)
        self._loss = _MultinomialLoss(codes, weights)
        self.row_losses = (JointLoss(n_classes),)
        self.row_targets = codes[:, None].astype(np.float64)

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of Newton's method."""
        return dense.minimise(gram, self._loss, alpha, start, **vars(options))


class Separate(Task):
    """One function for each column of targets, each with its loss."""

    _problems: list[_SingleLoss] | list[Kinks]

    def __init__(self, loss: Loss, targets: Array, weights: Array, constants: Array) -> None:
        self.n_outputs, self.constants = len(constants), constants
        if isinstance(loss, PiecewiseLinear):
            self._problems = [_kinks(loss, column, weights) for column in targets.T]
        else:
            self._problems = [_SingleLoss(loss, column, weights) for column in targets.T]
        if loss.smooth:
            self.row_losses = tuple(SingleLoss(loss, j) for j in range(self.n_outputs))
            self.row_targets = targets

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of all functions after every step of one of them."""
        solvers = []
        for problem in self._problems:
            minimise: Callable[..., Iterator[State]] = dense.minimise
            if isinstance(problem, Kinks):
                minimise = smoothing.minimise
            solvers.append((1, partial(minimise, gram, problem, alpha, **vars(options))))
        return solve_in_turn(solvers, start)


class Quantiles(Separate):
    """One function for each quantile, in order at every training point."""

    def __init__(
        self,
        losses: list[PiecewiseLinear],
        levels: Array,
        targets: Array,
        weights: Array,
        constants: Array,
    ) -> None:
        self.n_outputs, self.constants, self._levels = len(losses), constants, levels
        self._targets, self._weights = targets, weights
        self._problems = [_kinks(loss, targets, weights) for loss in losses]

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield states of each quantile alone and, if they cross, of all together."""
        state: State | None = None
        for state in super().states(gram, alpha, start, options):
            if not state.converged:  # otherwise the order is checked first
                yield state
        assert state is not None
        yield from quantiles.minimise_in_order(
            gram, self._targets, self._weights, self._levels, alpha, state, **vars(options)
        )

    def final(self, gram: Gram, alpha: float, state: State) -> State:
        """The state if it has converged, otherwise functions in order: they may still cross."""
        if state.converged or self.n_outputs == 1:
            return state
        return quantiles.pooled(gram, state, self._levels, alpha)


class _SingleLoss:
    """A smooth loss of one function, with targets and weights."""

    def __init__(self, loss: Loss, targets: Array, weights: Array) -> None:
        self.loss, self.targets, self.weights = loss, targets, weights

    def value(self, values: Array) -> float:
        return float(self.weights @ self.loss.value(self.targets, values[:, 0]))

    def derivative(self, values: Array) -> Array:
        return (self.weights * self.loss.derivative(self.targets, values[:, 0]))[:, None]

    def hessian(self, values: Array) -> Hessian:
        curvature = self.weights * self.loss.curvature(self.targets, values[:, 0])
        # Where a loss is linear everywhere, any curvature gives a direction of descent.
        return DiagonalHessian(curvature if curvature.any() else self.weights)


class _MultinomialLoss:
    """The multinomial log-loss, with codes of classes and weights."""

    def __init__(self, codes: NDArray[np.intp], weights: Array) -> None:
        self.loss, self.codes, self.weights = Multinomial(), codes, weights

    def value(self, values: Array) -> float:
        return float(self.weights @ self.loss.value(self.codes, values))

    def derivative(self, values: Array) -> Array:
        return self.weights[:, None] * self.loss.derivative(self.codes, values)

    def hessian(self, values: Array) -> Hessian:
        return SoftmaxHessian(self.weights, self.loss.probability(values))


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
