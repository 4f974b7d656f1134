"""Scores of models as sums over blocks: the share of variance that is explained, and accuracy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.containers import len_of
from mercer.streams.blocks import Block
from mercer.streams.schema import in_order
from mercer.streams.survey import located
from mercer.streams.targets import Labels, Numbers, checked_weights

Array = NDArray[np.floating[Any]]
Exponents = NDArray[np.signedinteger[Any]]

# The exponent that zeros have: no number has a smaller one.
_LEAST = -1074


@dataclass(frozen=True, eq=False)
class Determination:
    """The coefficient of determination, 1 - sum w (y - f)^2 / sum w (y - mean)^2, of some rows.

    What is squared is divided by a power of two first: targets of the order of 1e-200 or 1e200 are
    scored as those of the order of 1 are.
    """

    owner: str  # the model
    rows: int  # the number of rows
    weight: float  # the sum of their weights
    # (t,): exponents of the powers of two by which targets and residuals are divided
    unit: Exponents
    # (t,): exponents of the powers of two by which targets and residuals are divided
    error_unit: Exponents
    mean: Array  # (t,): the weighted means of the targets, in their units
    spread: Array  # (t,): weighted sums of squares of targets about their means, and of residuals
    error: Array  # (t,): weighted sums of squares of targets about their means, and of residuals

    @classmethod
    def of(cls, owner: str, y: Array, predicted: Array, weights: Array | None) -> Determination:
        """That of some rows; targets and predictions are of shape (n, t)."""
        if y.shape != predicted.shape:
            raise DataError(
                f"{owner}: y has {y.shape[1]} targets for each row, and predictions have "
                f"{predicted.shape[1]}; pass as many targets as fit was given."
            )
        y, predicted = y.astype(np.float64), predicted.astype(np.float64)
        mass = np.ones(len(y)) if weights is None else weights
        weight = float(mass.sum())
        unit = _unit(y)
        # Predictions of what is next to nothing, or far from it, are measured by themselves.
        error_unit = np.maximum(unit, _unit(predicted))
        targets = np.ldexp(y, -unit)
        mean = mass @ targets / weight if weight > 0 else np.zeros(y.shape[1])
        residuals = np.ldexp(y, -error_unit) - np.ldexp(predicted, -error_unit)
        spread, error = mass @ (targets - mean) ** 2, mass @ residuals**2
        return cls(owner, len(y), weight, unit, error_unit, mean, spread, error)

    def __add__(self, other: Self) -> Determination:
        """That of both."""
        unit = np.maximum(self.unit, other.unit)
        error_unit = np.maximum(self.error_unit, other.error_unit)
        one, two = self._in(unit, error_unit), other._in(unit, error_unit)
        weight = one.weight + two.weight
        share = two.weight / weight if weight > 0 else 0.0
        apart = two.mean - one.mean
        return replace(
            one,
            rows=one.rows + two.rows,
            weight=weight,
            mean=one.mean + share * apart,
            spread=one.spread + two.spread + one.weight * share * apart**2,
            error=one.error + two.error,
        )

    @property
    def value(self) -> float:
        """The mean over targets; a constant target is explained if it is met, and else not."""
        if self.rows < 2:
            warn(
                f"{self.owner}: one row has no variance to explain, so that the score is not "
                "defined; pass two or more.",
                NumericalWarning,
            )
            return float("nan")
        constant = self.spread == 0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            left = np.ldexp(self.error / self.spread, 2 * (self.error_unit - self.unit))
        return float(np.where(constant, np.where(self.error == 0, 1.0, 0.0), 1 - left).mean())

    def _in(self, unit: Exponents, error_unit: Exponents) -> Determination:
        """The same in larger units."""
        more, more_error = self.unit - unit, self.error_unit - error_unit
        return replace(
            self,
            unit=unit,
            error_unit=error_unit,
            mean=np.ldexp(self.mean, more),
            spread=np.ldexp(self.spread, 2 * more),
            error=np.ldexp(self.error, 2 * more_error),
        )


def _unit(values: Array) -> Exponents:
    """The exponents of the powers of two next above the largest of each column."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    return np.where(largest > 0, np.frexp(largest)[1], _LEAST)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of labels that are met, by weight."""

    met: float  # weights of the rows that are met, and of all
    weight: float  # weights of the rows that are met, and of all

    def __add__(self, other: Self) -> Accuracy:
        """That of both."""
        return Accuracy(self.met + other.met, self.weight + other.weight)

    @property
    def value(self) -> float:
        """The share; not a number if nothing has weight."""
        return self.met / self.weight if self.weight > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class DeterminationOf:
    """Makes a `Determination` of a block."""

    model: Any  # A fitted regressor

    def __call__(self, block: Block) -> Determination | None:
        """That of the rows of a block; None if it has none."""
        n, owner = len_of(block.data), type(self.model).__name__
        if not n:
            return None
        with located(owner, block):
            y = Numbers(owner).read(block.targets, n)
            weights = checked_weights(block.weights, n, owner)
            predicted = np.asarray(_predicted(self.model, block)).reshape(n, -1)
        return Determination.of(owner, y, predicted, weights)


@dataclass(frozen=True, eq=False)
class AccuracyOf:
    """Makes an `Accuracy` of a block."""

    model: Any  # A fitted classifier

    def __call__(self, block: Block) -> Accuracy | None:
        """That of the rows of a block; None if it has none."""
        n, owner = len_of(block.data), type(self.model).__name__
        if not n:
            return None
        with located(owner, block):
            labels = Labels(owner, joint=True).labels(block.targets, n)
            weights = checked_weights(block.weights, n, owner)
            met = np.asarray(_predicted(self.model, block) == labels, dtype=np.float64)
        mass = np.ones(n) if weights is None else weights
        return Accuracy(float(mass @ met), float(mass.sum()))


def _predicted(model: Any, block: Block) -> Any:
    """What a model makes of a block, whose named columns may come in any order."""
    return model.predict(in_order(block.data, model._names_seen))
