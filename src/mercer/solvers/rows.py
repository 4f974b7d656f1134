"""Rows that need not all be in memory: what a solver may ask of them.

A solver whose work is a sum over rows asks for totals, and does not see where the rows are: in
memory, in a file, in a stream of blocks or on other machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points

Array = NDArray[np.floating[Any]]


class Addable(Protocol):
    """Sums of parts, which add up to that of the whole: arrays, numbers, `Moments`."""

    def __add__(self, other: Self, /) -> Self:
        """The sum over both."""
        ...


Total = TypeVar("Total", bound=Addable)


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
    """

    points: Points
    targets: Array
    weights: Array | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def mass(self) -> Array:
        """The weights, ones if there are none."""
        return np.ones(len(self)) if self.weights is None else self.weights


class Rows(Protocol):
    """Rows of points, targets and weights, wherever they are."""

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def total(self, summand: Callable[[Part], Total]) -> Total:
        """The sum over all parts of what `summand` makes of each, always in the same order."""
        ...

    def take(self, indices: NDArray[np.intp]) -> Points:
        """The points of some rows, in the given order."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """All rows as one part.

    Attributes
    ----------
    part : Part
        The rows.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> from mercer.solvers.rows import InMemory, Part
    >>> rows = InMemory(Part(mc.Points([[1.0], [2.0]]), np.array([[3.0], [4.0]])))
    >>> rows.total(lambda part: part.targets.sum(axis=0)).tolist()
    [7.0]
    """

    part: Part

    def __len__(self) -> int:
        return len(self.part)

    def total(self, summand: Callable[[Part], Total]) -> Total:
        """What `summand` makes of the rows.

        Parameters
        ----------
        summand : callable
            From a part to something that can be added.

        Returns
        -------
        Total
            The sum.
        """
        return summand(self.part)

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
        return self.part.points[indices].detached()
