"""One parameter of a tree of objects: its path, its value, its part of theta."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mercer.exceptions import ParameterError
from mercer.kernels.parameters import Continuous, Declaration
from mercer.kernels.values import Array, Bounded, Mask, plain

if TYPE_CHECKING:
    from mercer.kernels.tree import Parameterised

__all__ = ["ParameterEntry"]

# How far, relative to 1 + |bound|, theta may leave its bounds by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ParameterEntry:
    """One parameter of a tree: where it is, what may be stored there, and what is."""

    path: str  # the path from the root, levels joined by two underscores
    declaration: Declaration
    stored: Any  # the stored value, with its `Fixed` or `Bounded`
    owner: Parameterised  # the node of the tree that declares the parameter

    @property
    def value(self) -> Any:
        """The plain value, without `Fixed` or `Bounded`."""
        return plain(self.stored)

    @property
    def is_unresolved(self) -> bool:
        """Whether the value is a heuristic that waits for data."""
        return self.declaration.is_unresolved(self.stored)

    @cached_property
    def free(self) -> Mask:
        """Which entries are learned: a boolean array in the shape of the value."""
        return self.declaration.free(self.stored)

    @property
    def theta(self) -> Array:
        """The free entries under the unconstrained transform, in row-major order."""
        assert isinstance(self.declaration, Continuous)
        value = np.asarray(self.value, dtype=np.float64)
        return self.declaration.to_theta(value[self.free])

    @property
    def bounds(self) -> Array:
        """The bounds of the free entries under the transform, one row (low, high) for each."""
        assert isinstance(self.declaration, Continuous)
        if not isinstance(self.stored, Bounded):
            return np.tile([-np.inf, np.inf], (int(np.count_nonzero(self.free)), 1))
        ends = (
            np.broadcast_to(end, self.free.shape) for end in (self.stored.low, self.stored.high)
        )
        with np.errstate(divide="ignore"):
            return np.column_stack([self.declaration.to_theta(end[self.free]) for end in ends])

    @property
    def names(self) -> list[str]:
        """The path of each free entry: ``path`` for a number, ``path[i]`` in an array."""
        if self.free.ndim == 0:
            return [self.path] if self.free else []
        indices = np.argwhere(self.free).tolist()
        return [f"{self.path}[{', '.join(map(str, index))}]" for index in indices]

    def at_theta(self, theta: Array) -> Any:
        """Return the plain value with its free entries at ``theta``."""
        assert isinstance(self.declaration, Continuous)
        theta = self._within_bounds(theta)
        value = np.array(self.value, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            moved = self.declaration.from_theta(theta)
        if isinstance(self.stored, Bounded):
            ends = (self.stored.low, self.stored.high)
            low, high = (np.broadcast_to(end, self.free.shape)[self.free] for end in ends)
            moved = np.clip(moved, low, high)
        # exp(log(x)) need not be x: what does not move keeps its value to the last bit.
        value[self.free] = np.where(theta == self.theta, value[self.free], moved)
        if not np.array_equal(self.declaration.free(value), self.free):
            raise ParameterError(
                f"{type(self.owner).__name__}: theta = {theta.tolist()} takes {self.path} out of "
                "the range of float64; pass theta closer to 0."
            )
        return value

    def _within_bounds(self, theta: Array) -> Array:
        if not isinstance(self.stored, Bounded):
            return theta
        low, high = self.bounds.T
        slack_low, slack_high = (
            _ROUNDING * (1 + np.abs(np.where(np.isfinite(end), end, 0))) for end in (low, high)
        )
        if np.any((theta < low - slack_low) | (theta > high + slack_high)):
            raise ParameterError(
                f"{type(self.owner).__name__}: theta = {theta.tolist()} takes {self.path} out of "
                f"its bounds {self.stored}; keep theta within theta_bounds."
            )
        return np.clip(theta, low, high)

    def chained(self, gradients: Mapping[str, npt.ArrayLike]) -> Array:
        """Return the gradient in theta, picked from gradients in the values by path."""
        assert isinstance(self.declaration, Continuous)
        owner = type(self.owner).__name__
        if self.path not in gradients:
            raise ParameterError(
                f"{owner}: the gradient in {self.path} is missing and the parameter is free; pass "
                "it, or hold the parameter with Fixed."
            )
        gradient = np.asarray(gradients[self.path], dtype=np.float64)
        if gradient.shape != self.free.shape:
            raise ParameterError(
                f"{owner}: the gradient in {self.path} has shape {gradient.shape} and the value "
                f"has shape {self.free.shape}; pass one number for each entry."
            )
        chained: Array = (gradient * self.declaration.slope(self.value))[self.free]
        return chained
