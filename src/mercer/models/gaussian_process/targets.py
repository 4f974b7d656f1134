"""Targets of regression: their scale, and their noise, which is learned, held or known by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import LOG_2PI, Array
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.parameters import Bounded, Fixed

# Standard deviation of a constant target, in units of its mean: rounding.
_CONSTANT = 1e-14
# Variance of noise at which the search starts, in units of the variance of the targets.
_START = 0.1


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and scale of each target, for standardised targets (y - mean) / scale."""

    mean: Array  # (n_targets,)
    scale: Array  # (n_targets,): standard deviations; 1 for a constant target
    single: bool  # whether y is a vector, so that single columns are returned as vectors

    @classmethod
    def of(cls, y: Array, weights: Array | None, normalize: bool, centre: bool) -> Scaling:
        """Mean and standard deviation of each target; 0 if not `centre`, 1 if not `normalize`."""
        single, targets = y.ndim == 1, y.reshape(len(y), -1)
        mean = np.average(targets, axis=0, weights=weights)
        scale = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weights))
        constant = scale <= _CONSTANT * np.abs(mean)
        return cls(
            mean if centre else np.zeros_like(mean),
            np.where(constant | (not normalize), 1.0, scale),
            single,
        )

    @property
    def squares(self) -> Array:
        """The variance of each target."""
        return np.asarray(self.scale**2)

    def standardised(self, y: Array) -> Array:
        """Targets as columns of mean zero and scale one."""
        return np.asarray((y.reshape(len(y), -1) - self.mean) / self.scale)

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


@dataclass(frozen=True, eq=False)
class Noise:
    """Independent noise: variance s^2 times a known factor for each row."""

    variance: float  # s^2, or where its search starts
    learned: bool  # whether s^2 is a hyper-parameter
    factors: Array | None = None  # (n,): known variances, relative to s^2; None for ones
    weights: Array | None = None  # (n,): how often each row counts; None for once
    bounds: tuple[float, float] = (0.0, np.inf)  # the user's own bounds of s^2

    @classmethod
    def read(cls, owner: object, given: Any, n: int, squares: Array) -> Noise:
        """Read the parameter `noise`: "learn", a number, `Fixed`, `Bounded` or an array."""
        if isinstance(given, str):
            if given != "learn":
                raise _unknown(owner, given)
            return cls(_START, learned=True)
        values, unit = _variances(owner, given), float(np.mean(squares))
        if values.ndim:
            if len(values) != n:
                raise DataError(
                    f"{type(owner).__name__}: noise holds {len(values)} variances but there are "
                    f"{n} rows; pass one number, or one for each row."
                )
            noise = cls(1.0, learned=False, factors=values / unit)
        else:
            variance = float(values) / unit
            learned = not isinstance(given, Fixed) and variance > 0
            low, high = (given.low, given.high) if isinstance(given, Bounded) else (0.0, np.inf)
            noise = cls(variance, learned, bounds=(float(low) / unit, float(high) / unit))
        noise._check_units(owner, given, squares)
        return noise

    def _check_units(self, owner: object, given: Any, squares: Array) -> None:
        """Refuse to hold a variance in units of y squared for targets of different scales."""
        held = not (self.learned and getattr(owner, "learn", True))
        held = held or self.bounds != (0.0, np.inf)
        if held and not self.is_none and np.ptp(squares) > 1e-12 * squares.max():
            raise ParameterError(
                f"{type(owner).__name__}: noise = {_shown(given)} is held in units of y squared, "
                "but there are several targets, each with a scale of its own; standardise them and "
                'pass normalize_y=False, or let noise="learn".'
            )

    def of_new_rows(self, owner: object, given: Any, n: int, squares: Array) -> Array | None:
        """The known variances of new rows, relative to s^2; None if variances are not known."""
        known = self.factors is not None
        if known != (given is not None):
            need = "needs noise= with their variances" if known else "takes no noise="
            raise ParameterError(
                f"{type(owner).__name__}.update {need}: the noise of the fitted rows is "
                f"{'known row by row' if known else 'one number'}, so that of new rows must be too."
            )
        if given is None:
            return None
        values = _variances(owner, given)
        return Noise.read(owner, values if values.ndim else np.full(n, values), n, squares).factors

    def at_rows(self, rows: Any) -> Noise:
        """The noise of some rows."""
        factors = None if self.factors is None else self.factors[rows]
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, factors=factors, weights=weights)

    def followed_by(self, factors: Array | None, number: int) -> Noise:
        """The noise with further rows, which have these known variances."""
        weights = _joined(self.weights, np.ones(number))
        return replace(self, factors=_joined(self.factors, factors), weights=weights)

    @property
    def is_none(self) -> bool:
        """Whether some row has no noise at all."""
        return not self.learned and (
            self.variance == 0 or (self.factors is not None and not self.factors.all())
        )

    def require_some(self, owner: object) -> None:
        """Refuse weights of rows that have no noise."""
        if self.is_none:
            raise ParameterError(
                f"{type(owner).__name__}: sample_weight has no meaning without noise, because a "
                "row repeated says nothing new; pass a positive noise, or no weights."
            )

    def of_predictions(self, owner: object) -> float:
        """The variance of the noise of a new row."""
        if self.factors is not None:
            raise ParameterError(
                f"{type(owner).__name__}: include_noise=True, but the noise is known at the "
                "training rows only; add the variances of the new rows yourself."
            )
        return self.variance

    def n_rows(self, number: int) -> float:
        """The number of rows, every copy counted."""
        return number if self.weights is None else float(self.weights.sum())

    def diagonal(self) -> float | Array:
        """The variance of the mean of the copies of each row."""
        base = self.variance if self.factors is None else self.variance * self.factors
        return base if self.weights is None else base / self.weights

    def copies(self) -> tuple[float, float]:
        """The log density of a row's copies given their mean, and its derivative in log s^2.

        Copies are equal, so that the density of w of them under noise s^2 is that of one under
        noise s^2 / w, times (2 pi s^2)^(-(w - 1) / 2) w^(-1/2).
        """
        if self.weights is None:
            return 0.0, 0.0
        further = self.weights - 1
        variance = self.diagonal() * self.weights
        each = further * (LOG_2PI + np.log(variance)) + np.log(self.weights)
        return -0.5 * float(each.sum()), -0.5 * float(further.sum())


def _joined(values: Array | None, further: Array | None) -> Array | None:
    return None if values is None or further is None else np.append(values, further)


def _variances(owner: object, given: Any) -> Array:
    plain = given.value if isinstance(given, Fixed | Bounded) else given
    try:
        values = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise _unknown(owner, given) from None
    if values.ndim > 1:
        raise ParameterError(
            f"{type(owner).__name__}: noise has shape {values.shape}, but one variance belongs to "
            "each row, for all of its targets; pass an array of one dimension, of shape (n,)."
        )
    if isinstance(plain, bool | np.bool_) or not values.size:
        raise _unknown(owner, given)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise (
            _unknown(owner, values[row], f"noise[{row}]") if values.ndim else _unknown(owner, given)
        )
    return values


def _unknown(owner: object, given: Any, name: str = "noise") -> ParameterError:
    return ParameterError(
        f'{type(owner).__name__}: {name} = {_shown(given)} is not a variance; pass "learn", a '
        "finite number >= 0 (where the search starts), Fixed(number), or an array with one "
        "variance for each row."
    )


def _shown(given: Any) -> str:
    """A parameter for a message: an array by its length."""
    try:
        number = 0 if isinstance(given, str) else len(given)
    except TypeError:
        number = 0
    if number > 1:
        return f"{type(given).__name__} of length {number}"
    return str(given) if isinstance(given, np.generic) else f"{given!r:.80}"
