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
    """Some rows, in memory.

    Attributes
    ----------
    points : Points
        The points, validated.
    targets : ndarray of shape (n, t)
        Their targets, in the type to compute in.
    weights : ndarray of shape (n,) or None
        Non-negative weights; None if all are 1.
    start : int
        The number of the first row.
    """

    points: Points
    targets: Array
    weights: Array | None = None
    start: int = 0

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
    """What every model needs to know of its rows.

    Attributes
    ----------
    rows : int
        Rows of positive weight.
    weight : float
        The sum of the weights.
    targets : ndarray of shape (t,)
        The weighted sums of the targets.
    largest : ndarray of shape (t,)
        The largest absolute values of the targets of rows of positive weight.
    weighted : bool
        Whether there are weights at all.
    lightest, heaviest : float
        The least and the largest weight of a row.
    faintest : float
        The least positive one.
    """

    rows: int
    weight: float
    targets: Array
    largest: Array
    weighted: bool
    lightest: float
    heaviest: float
    faintest: float

    @property
    def even(self) -> bool:
        """Whether all rows count alike."""
        return self.lightest == self.heaviest

    @classmethod
    def of(cls, targets: Array, weights: Array | None) -> Totals:
        """The totals of some rows.

        Parameters
        ----------
        targets : ndarray of shape (n, t)
            Their targets.
        weights : ndarray of shape (n,) or None
            Their weights.

        Returns
        -------
        Totals
            Those of parts add up.
        """
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
        """The totals of the same rows with weights in a unit.

        Parameters
        ----------
        unit : float
            Positive.

        Returns
        -------
        Totals
            Where there are no weights, the same.
        """
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
    """Several sums of one pass over the rows.

    Attributes
    ----------
    terms : tuple
        The sums.
    """

    terms: tuple[Any, ...]

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
        """The sum over all parts of what a summand makes of each, always in the same order.

        Parameters
        ----------
        summand : callable
            From a part to something that can be added; where rows are on other machines it is sent
            there.

        Returns
        -------
        Total
            The sum.
        """

    @abstractmethod
    def pick(self, indices: NDArray[np.intp]) -> Part:
        """Some rows.

        Parameters
        ----------
        indices : ndarray of int
            Row numbers.

        Returns
        -------
        Part
            In the given order, with rows of their own.
        """

    @abstractmethod
    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with the length-scales that the data suggest.

        Parameters
        ----------
        kernel : Kernel
            The kernel.

        Returns
        -------
        Kernel
            The same if nothing was unresolved.
        """

    def made_of(self, indices: NDArray[np.intp], function: Callable[[Part], Made]) -> Made:
        """What a function makes of some rows, there where they are brought together.

        Parameters
        ----------
        indices : ndarray of int
            Row numbers.
        function : callable
            From a part, in the given order, to anything; where rows are on other machines it is
            sent to one of them, and what it returns comes back.

        Returns
        -------
        object
            What the function returns.
        """
        return function(self.pick(indices))

    def held_in(self, budget: int, beside: int) -> int:
        """How many rows may be brought together in some bytes: all, where all are in memory.

        Parameters
        ----------
        budget : int
            The bytes.
        beside : int
            Bytes for each row beside the row itself.

        Returns
        -------
        int
            The number of rows.
        """
        return len(self)

    def take(self, indices: NDArray[np.intp]) -> Points:
        """The points of some rows.

        Parameters
        ----------
        indices : ndarray of int
            Row numbers.

        Returns
        -------
        Points
            In the given order, with rows of their own.
        """
        return self.pick(indices).points


@dataclass(frozen=True, eq=False)
class InMemory(Rows):
    """All rows as one part.

    Attributes
    ----------
    part : Part
        The rows.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> from mercer.rows.rows import InMemory, Part
    >>> rows = InMemory(Part(mc.Points([[1.0], [2.0]]), np.array([[3.0], [4.0]])))
    >>> rows.total(lambda part: part.targets.sum(axis=0)).tolist()
    [7.0]
    """

    part: Part

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
