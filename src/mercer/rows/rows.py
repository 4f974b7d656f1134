"""Rows that need not all be in memory.

A solver that needs only sums over rows does not depend on where the rows are: in memory, in a file,
in a stream of blocks or on other machines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.parallel import cached_property


class Addable(Protocol):
    """Sums over blocks that can be added: arrays, numbers, `Moments`."""

    def __add__(self, other: Self, /) -> Self:
        """The sum over both."""
        ...


Total = TypeVar("Total", bound=Addable)
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows, in memory."""

    points: Points  # validated
    targets: Array  # (n, t): in the floating type of the computation
    weights: Array | None = None  # (n,): non-negative weights; None if all are 1
    start: int = 0  # the number of the first row

    def __len__(self) -> int:
        return len(self.points)

    @property
    def mass(self) -> Array:
        """The weights, or ones."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def rows_at(self, indices: NDArray[np.intp]) -> RowBlock:
        """A copy of some of these rows, by their numbers within the block."""
        weights = None if self.weights is None else self.weights[indices]
        return RowBlock(self.points[indices].detached(), self.targets[indices], weights)


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Sums and extremes of weights and targets."""

    rows: int  # rows of positive weight
    weight: float  # the sum of the weights
    targets: Array  # (t,): the weighted sums of the targets
    largest: Array  # (t,): the largest absolute values of the targets of rows of positive weight
    weighted: bool  # whether there are weights
    min_weight: float
    max_weight: float
    min_positive_weight: float

    @property
    def equal_weights(self) -> bool:
        """Whether all rows have the same weight."""
        return self.min_weight == self.max_weight

    @classmethod
    def of(cls, targets: Array, weights: Array | None) -> RowStatistics:
        """The statistics of some rows."""
        n = len(targets)
        mass = np.ones(n) if weights is None else weights
        rows = n if weights is None else int(np.count_nonzero(weights))
        with np.errstate(over="ignore", invalid="ignore"):  # refused later if not finite
            sums = mass @ targets.astype(np.float64, copy=False)
            weight = float(mass.sum())
        counted, positive = (targets, mass) if rows == n else (targets[mass > 0], mass[mass > 0])
        largest = np.abs(counted).max(axis=0, initial=0.0).astype(np.float64)
        ends = float(mass.min(initial=np.inf)), float(mass.max(initial=-np.inf))
        min_positive_weight = float(positive.min(initial=np.inf))
        return cls(rows, weight, sums, largest, weights is not None, *ends, min_positive_weight)

    def __add__(self, other: Self) -> RowStatistics:
        """The statistics of the rows of both."""
        with np.errstate(over="ignore", invalid="ignore"):
            targets = self.targets + other.targets
        return RowStatistics(
            self.rows + other.rows,
            self.weight + other.weight,
            targets,
            np.maximum(self.largest, other.largest),
            self.weighted,
            min(self.min_weight, other.min_weight),
            max(self.max_weight, other.max_weight),
            min(self.min_positive_weight, other.min_positive_weight),
        )


@dataclass(frozen=True, eq=False)
class Sums:
    """Several sums of one pass over the rows."""

    terms: tuple[Any, ...]  # the sums

    def __add__(self, other: Self) -> Sums:
        """The sums over both."""
        return Sums(tuple(a + b for a, b in zip(self.terms, other.terms, strict=True)))


def as_float64(kernel: Kernel, points: Points) -> Points:
    """Points with float64 coordinates; a precomputed kernel matrix and other data are unchanged."""
    data = points.data
    single = isinstance(data, np.ndarray) and data.dtype == np.float32
    if not single or kernel.input_tags()["pairwise"]:
        return points
    return kernel.prepare(data.astype(np.float64))


class RowSource(ABC):
    """Rows of points, targets and weights, in memory or elsewhere."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def statistics(self) -> RowStatistics:
        """Sums of weights and targets."""

    @property
    @abstractmethod
    def first_row(self) -> Points:
        """The first row."""

    @property
    def any_points(self) -> Points:
        """Some rows, from which the types of the data are read."""
        return self.first_row

    @abstractmethod
    def map_sum(self, summand: Callable[[RowBlock], Total]) -> Total:
        """Sum a function of each block of rows, in the order of the blocks."""

    @abstractmethod
    def rows_at(self, indices: NDArray[np.intp]) -> RowBlock:
        """Some rows."""

    @abstractmethod
    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with length-scales computed from the data."""

    def apply_to(self, indices: NDArray[np.intp], function: Callable[[RowBlock], Made]) -> Made:
        """Apply a function to some rows, in the process where they are brought together."""
        return function(self.rows_at(indices))

    def rows_within(self, budget: int, beside: int) -> int:
        """Number of rows that fit in some bytes, with `beside` more per row; all if in memory."""
        return len(self)

    def points_at(self, indices: NDArray[np.intp]) -> Points:
        """The points of some rows."""
        return self.rows_at(indices).points


@dataclass(frozen=True, eq=False)
class InMemory(RowSource):
    """All rows as one block."""

    part: RowBlock  # the rows

    def __len__(self) -> int:
        return len(self.part)

    @cached_property
    def statistics(self) -> RowStatistics:
        """Sums of weights and targets."""
        return RowStatistics.of(self.part.targets, self.part.weights)

    @cached_property
    def first_row(self) -> Points:
        """The first row."""
        return self.part.points[:1]

    @property
    def any_points(self) -> Points:
        """All rows: a subset would be made first."""
        return self.part.points

    def map_sum(self, summand: Callable[[RowBlock], Total]) -> Total:
        """The function of all rows."""
        return summand(self.part)

    def rows_at(self, indices: NDArray[np.intp]) -> RowBlock:
        """Some rows."""
        return self.part.rows_at(indices)

    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with length-scales computed from the data."""
        return kernel.resolve(self.part.points, self.part.weights)
