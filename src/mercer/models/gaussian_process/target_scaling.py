"""Targets of regression, standardised, and the way back to the units of y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError

Array = NDArray[np.floating[Any]]

# Absolute values of targets whose squares keep all digits in float64.
_RANGE = (1e-100, 1e100)
# Standard deviation of a constant target, in units of its mean: rounding.
_CONSTANT = 1e-14


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and scale of each target, for standardised targets (y - mean) / scale."""

    mean: Array  # (n_targets,)
    scale: Array  # (n_targets,): standard deviations; 1 for a constant target
    single: bool  # whether y is a vector, so that single columns are returned as vectors

    @classmethod
    def of(cls, y: Array, weights: Array | None, normalize: bool) -> Scaling:
        """Mean and standard deviation of each target, or 0 and 1."""
        single, targets = y.ndim == 1, y.reshape(len(y), -1)
        if not normalize:
            return cls(np.zeros(targets.shape[1]), np.ones(targets.shape[1]), single)
        mean = np.average(targets, axis=0, weights=weights)
        scale = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weights))
        constant = scale <= _CONSTANT * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, scale), single)

    @property
    def squares(self) -> Array:
        """The variance of each target."""
        squares: Array = self.scale**2
        return squares

    def standardised(self, y: Array) -> Array:
        """Targets as columns of mean zero and scale one."""
        standard: Array = (y.reshape(len(y), -1) - self.mean) / self.scale
        return standard

    def in_units_of_y(self, standard: Array) -> Array:
        """Values of standardised targets, one column for each, in the units and shape of y."""
        return self.shaped(standard * self.scale + self.mean)

    def spread(self, values: Array, power: int) -> Array:
        """Standard deviations (power 1) or variances (2) of standardised targets, in units of y."""
        scaled: Array = values[..., None] * self.scale**power
        return scaled[..., 0] if self.single else scaled

    def shaped(self, columns: Array) -> Array:
        """Values with one column for each target, in the shape of y."""
        return columns[:, 0] if self.single else columns

    def number(self, values: Array) -> Any:
        """One value for each target: a number if y is a vector."""
        return float(values[0]) if self.single else values

    def log_volume(self, rows: float) -> float:
        """The logarithm of the unit of volume of this many rows of y."""
        return rows * float(np.log(self.scale).sum())


def require_range(owner: object, y: Array) -> None:
    """Refuse targets whose squares are beyond the range of float64."""
    largest = np.atleast_1d(np.abs(y).max(axis=0))
    outside = largest[(largest > 0) & ~((largest > _RANGE[0]) & (largest < _RANGE[1]))]
    if len(outside):
        raise DataError(
            f"{type(owner).__name__}: y is of the order of {outside[0]:.0e}, and variances are in "
            f"units of y squared, beyond the range of float64; divide y by {outside[0]:.0e}."
        )
