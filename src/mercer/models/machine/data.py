"""A loss with its data, as the solvers take them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.losses import Kink, Loss, Multinomial, PiecewiseLinear
from mercer.rows.rows import RowBlock
from mercer.solvers.kinks import quantiles, smoothing
from mercer.solvers.kinks.smoothing import Terms
from mercer.solvers.newton import dense
from mercer.solvers.newton.curvature import Curvature, Diagonal, Softmax
from mercer.solvers.newton.dense import State
from mercer.solvers.newton.row_losses import JointLoss, RowLoss, SingleLoss

Array = NDArray[np.floating[Any]]
Start = tuple[Array, Array]
# An array; for smooth losses also a matrix that is multiplied with alone, `newton_steps.Scalable`.
Gram = Any


@dataclass(frozen=True)
class Options:
    """What a solver is told beside the problem."""

    fit_intercept: bool
    tol: float
    max_iter: int


class Task(ABC):
    """Functions to fit to given targets, with a common Gram matrix."""

    n_outputs: int  # how many functions
    constants: Array  # (n_outputs,): constants to begin with

    # the same row by row, for solvers that sum over rows; empty if the loss is not smooth
    row_losses: tuple[RowLoss, ...] = ()
    row_targets: Array  # (n, t): their targets

    @abstractmethod
    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of a solver on the way to the minimum."""

    def kept(self, gram: Gram, alpha: float, state: State) -> State:
        """What to keep of a state if the search ends there."""
        return state


@dataclass(frozen=True, eq=False)
class Data:
    """The data of a machine, validated."""

    points: Points  # all points
    given: Array | None  # (n,): the weights as they were given
    rows: NDArray[np.intp]  # the rows of positive weight
    weights: Array  # their weights, in the unit
    task: Task  # what is to be fitted to them
    # what weights, and with them alpha, are in: only their ratio matters to the solution
    unit: float
    scale: float  # what values of the function are large or small beside

    @property
    def counted(self) -> Points:
        """The rows of positive weight."""
        everything = len(self.rows) == len(self.points)
        return self.points if everything else self.points[self.rows]


def points_alone(points: Points, weights: Array | None = None) -> RowBlock:
    """Rows of which nobody asks for targets."""
    return RowBlock(points, np.empty((len(points), 0)), weights)


class Joint(Task):
    """Classes, one function for each, fitted together by the multinomial likelihood."""

    def __init__(self, codes: NDArray[np.intp], weights: Array, n_classes: int) -> None:
        self.n_outputs, self.constants = n_classes, np.zeros(n_classes)
        self._loss = _Likelihood(codes, weights)
        self.row_losses = (JointLoss(n_classes),)
        self.row_targets = codes[:, None].astype(np.float64)

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of Newton's method."""
        return dense.minimise(gram, self._loss, alpha, start, **vars(options))


class Separate(Task):
    """One function for each column of targets, each with its loss."""

    def __init__(self, loss: Loss, targets: Array, weights: Array, constants: Array) -> None:
        self.n_outputs, self.constants = len(constants), constants
        self._problems = [_bound(loss, column, weights) for column in targets.T]
        if loss.smooth:
            self.row_losses = tuple(SingleLoss(loss, j) for j in range(self.n_outputs))
            self.row_targets = targets

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield the states of all functions after every step of one of them."""
        scaled, intercept = start[0].copy(), start[1].copy()
        parts: list[State | None] = [None] * self.n_outputs
        for output, problem in enumerate(self._problems):
            begin = (scaled[:, [output]], intercept[[output]])
            for state in _solve(gram, problem, alpha, begin, options):
                parts[output] = state
                scaled[:, output], intercept[output] = state.scaled[:, 0], state.intercept[0]
                yield _merged(scaled, intercept, parts)


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
        self._problems = [_terms(loss, targets, weights) for loss in losses]

    def states(self, gram: Gram, alpha: float, start: Start, options: Options) -> Iterator[State]:
        """Yield states of each quantile alone, and if these cross, of all together."""
        state: State | None = None
        for state in super().states(gram, alpha, start, options):
            yield state
        assert state is not None
        yield from quantiles.minimise_in_order(
            gram, self._targets, self._weights, self._levels, alpha, state, **vars(options)
        )

    def kept(self, gram: Gram, alpha: float, state: State) -> State:
        """A solution as it is, else functions in order: an interrupt may find them crossing."""
        if state.converged or self.n_outputs == 1:
            return state
        return quantiles.pooled(gram, state, self._levels, alpha)


class _SingleValues:
    """A smooth loss of one function, bound to targets and weights."""

    def __init__(self, loss: Loss, targets: Array, weights: Array) -> None:
        self.loss, self.targets, self.weights = loss, targets, weights

    def value(self, values: Array) -> float:
        return float(self.weights @ self.loss.value(self.targets, values[:, 0]))

    def derivative(self, values: Array) -> Array:
        return (self.weights * self.loss.derivative(self.targets, values[:, 0]))[:, None]

    def curvature(self, values: Array) -> Curvature:
        curvature = self.weights * self.loss.curvature(self.targets, values[:, 0])
        # Where a loss is linear everywhere, any curvature gives a direction of descent.
        return Diagonal(curvature if curvature.any() else self.weights)


class _Likelihood:
    """The multinomial likelihood, bound to codes and weights."""

    def __init__(self, codes: NDArray[np.intp], weights: Array) -> None:
        self.loss, self.codes, self.weights = Multinomial(), codes, weights

    def value(self, values: Array) -> float:
        return float(self.weights @ self.loss.value(self.codes, values))

    def derivative(self, values: Array) -> Array:
        return self.weights[:, None] * self.loss.derivative(self.codes, values)

    def curvature(self, values: Array) -> Curvature:
        return Softmax(self.weights, self.loss.probability(values))


def _bound(loss: Loss, targets: Array, weights: Array) -> _SingleValues | Terms:
    if isinstance(loss, PiecewiseLinear):
        return _terms(loss, targets, weights)
    return _SingleValues(loss, targets, weights)


def _terms(loss: PiecewiseLinear, targets: Array, weights: Array) -> Terms:
    """The kinks of a loss of one function as terms."""
    shape = np.shape(targets)
    kinks = [Kink(*(np.broadcast_to(part, shape) for part in k)) for k in loss.kinks(targets)]
    rows = np.tile(np.arange(len(targets)), len(kinks))
    return Terms(
        rows,
        np.concatenate([kink.location for kink in kinks]).astype(np.float64),
        np.concatenate([weights * kink.low for kink in kinks]),
        np.concatenate([weights * kink.high for kink in kinks]),
        np.tile(weights, len(kinks)),
    )


def _solve(
    gram: Gram, problem: Any, alpha: float, start: Start, options: Options
) -> Iterator[State]:
    minimise = smoothing.minimise if isinstance(problem, Terms) else dense.minimise
    return minimise(gram, problem, alpha, start, **vars(options))


def _merged(scaled: Array, intercept: Array, parts: list[State | None]) -> State:
    """The state of all functions: losses and errors add up, and all have to converge."""
    errors = [np.inf if part is None else part.error for part in parts]
    loss = sum(np.inf if part is None else part.loss for part in parts)
    converged = all(part is not None and part.converged for part in parts)
    known = [part for part in parts if part is not None]
    return State(
        scaled.copy(),
        intercept.copy(),
        loss,
        float(sum(errors)),
        converged,
        max(part.residual for part in known) if len(known) == len(parts) else np.inf,
        sum(part.bound for part in known) if len(known) == len(parts) else np.inf,
        next((part.doubt for part in known if part.doubt and not part.converged), ""),
    )
