"""Rows that need not all be in memory: what a solver may ask of them.

A solver whose work is a sum over rows asks for totals, and does not see where the rows are: in
memory, in a file, in a stream of blocks or on other machines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points

Array = NDArray[np.floating[Any]]


class Addable(Protocol):
    """Sums of parts, which add up to that of the whole: arrays, numbers, `Moments`."""

    def __add__(self, other: Self, /) -> Self:
        """The sum over both."""
        ...


Total = TypeVar("Total", bound=Addable)
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows, in memory."""

    points: Points  # the points, validated
    targets: Array  # (n, t): their targets, in the type to compute in
    weights: Array | None = None  # (n,): non-negative weights; None if all are 1
    start: int = 0  # the number of the first row

    def __len__(self) -> int:
        return len(self.points)

    @property
    def mass(self) -> Array:
        """The weights, ones if there are none."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def pick(self, indices: NDArray[np.intp]) -> Part:
        """Some of these rows, by number among them, with rows of their own."""
        weights = None if self.weights is None else self.weights[indices]
        return Part(self.points[indices].detached(), self.targets[indices], weights)


@dataclass(frozen=True, eq=False)
class Totals:
    """What every model needs to know of its rows."""

    rows: int  # rows of positive weight
    weight: float  # the sum of the weights
    targets: Array  # (t,): the weighted sums of the targets
    largest: Array  # (t,): the largest absolute values of the targets of rows of positive weight
    weighted: bool  # whether there are weights at all
    lightest: float  # the least and the largest weight of a row
    heaviest: float  # the least and the largest weight of a row
    faintest: float  # the least positive one

    @property
    def even(self) -> bool:
        """Whether all rows count alike."""
        return self.lightest == self.heaviest

    @classmethod
    def of(cls, targets: Array, weights: Array | None) -> Totals:
        """The totals of some rows."""
        n = len(targets)
        mass = np.ones(n) if weights is None else weights
        rows = n if weights is None else int(np.count_nonzero(weights))
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what is too large for a number is found later
            sums = mass @ targets.astype(np.float64, copy=False)
            weight = float(mass.sum())
        counted, positive = (targets, mass) if rows == n else (targets[mass > 0], mass[mass > 0])
        largest = np.abs(counted).max(axis=0, initial=0.0).astype(np.float64)
        ends = float(mass.min(initial=np.inf)), float(mass.max(initial=-np.inf))
        faintest = float(positive.min(initial=np.inf))
        return cls(rows, weight, sums, largest, weights is not None, *ends, faintest)

    def divided_by(self, unit: float) -> Totals:
        """The totals of the same rows with weights in a unit."""
        if not self.weighted:
            return self
        return replace(
            self,
            weight=self.weight / unit,
            targets=self.targets / unit,
            lightest=self.lightest / unit,
            heaviest=self.heaviest / unit,
            faintest=self.faintest / unit,
        )

    def __add__(self, other: Self) -> Totals:
        """The totals of both."""
        with np.errstate(over="ignore", invalid="ignore"):
            targets = self.targets + other.targets
        return Totals(
            self.rows + other.rows,
            self.weight + other.weight,
            targets,
            np.maximum(self.largest, other.largest),
            self.weighted,
            min(self.lightest, other.lightest),
            max(self.heaviest, other.heaviest),
            min(self.faintest, other.faintest),
        )


@dataclass(frozen=True, eq=False)
class Sums:
    """Several sums of one pass over the rows."""

    terms: tuple[Any, ...]  # the sums

    def __add__(self, other: Self) -> Sums:
        """The sums over both."""
        return Sums(tuple(a + b for a, b in zip(self.terms, other.terms, strict=True)))


class Rows(ABC):
    """Rows of points, targets and weights, wherever they are."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def totals(self) -> Totals:
        """Sums of weights and targets."""

    @property
    @abstractmethod
    def head(self) -> Points:
        """The first row."""

    @abstractmethod
    def total(self, summand: Callable[[Part], Total]) -> Total:
        """The sum over all parts of what a summand makes of each, always in the same order."""

    @abstractmethod
    def pick(self, indices: NDArray[np.intp]) -> Part:
        """Some rows."""

    @abstractmethod
    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with the length-scales that the data suggest."""

    def made_of(self, indices: NDArray[np.intp], function: Callable[[Part], Made]) -> Made:
        """What a function makes of some rows, there where they are brought together."""
        return function(self.pick(indices))

    def held_in(self, budget: int, beside: int) -> int:
        """How many rows may be brought together in some bytes: all, where all are in memory."""
        return len(self)

    def take(self, indices: NDArray[np.intp]) -> Points:
        """The points of some rows."""
        return self.pick(indices).points


@dataclass(frozen=True, eq=False)
class InMemory(Rows):
    """All rows as one part."""

    part: Part  # the rows

    def __len__(self) -> int:
        return len(self.part)

    @cached_property
    def totals(self) -> Totals:
        """Sums of weights and targets."""
        return Totals.of(self.part.targets, self.part.weights)

    @property
    def head(self) -> Points:
        """The first row."""
        return self.part.points[:1]

    def total(self, summand: Callable[[Part], Total]) -> Total:
        """What a summand makes of the rows."""
        return summand(self.part)

    def pick(self, indices: NDArray[np.intp]) -> Part:
        """Some rows."""
        return self.part.pick(indices)

    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with the length-scales that the data suggest."""
        return kernel.resolve(self.part.points, self.part.weights)
