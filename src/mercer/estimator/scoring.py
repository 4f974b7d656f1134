"""Scores of models as sums over blocks: the coefficient of determination, and accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.containers import len_of
from mercer.streams.blocks import Block
from mercer.streams.schema import in_order
from mercer.streams.survey import located
from mercer.streams.targets import Labels, Numbers, checked_weights


def require_same_targets(owner: str, y: Array, predicted: Array) -> None:
    """Refuse targets that have another number of columns than the predictions."""
    if y.shape != predicted.shape:
        raise DataError(
            f"{owner}: y has {y.shape[1]} targets for each row, and predictions have "
            f"{predicted.shape[1]}; pass as many targets as fit was given."
        )


@dataclass(frozen=True, eq=False)
class Determination:
    """The sums in 1 - sum w (y - f)^2 / sum w (y - mean)^2, merged over blocks as Welford does."""

    owner: str  # the model, for messages
    rows: int
    weight: float  # the sum of the weights
    mean: Array  # (t,): the weighted mean of each target
    variation: Array  # (t,): the weighted sum of squared deviations from the mean
    error: Array  # (t,): the weighted sum of squared residuals

    def __add__(self, other: Self) -> Determination:
        """The sums over the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        shift = other.mean - self.mean
        return Determination(
            self.owner,
            self.rows + other.rows,
            weight,
            self.mean + share * shift,
            self.variation + other.variation + self.weight * share * shift**2,
            self.error + other.error,
        )

    @property
    def value(self) -> float:
        """The mean over targets; a constant target scores 1 if it is predicted exactly, else 0."""
        if self.rows < 2:
            warn(
                f"{self.owner}: one row has no variance to explain, so that the score is not "
                "defined; pass two or more.",
                NumericalWarning,
            )
            return float("nan")
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = 1 - self.error / self.variation
        constant = np.where(self.error == 0, 1.0, 0.0)
        return float(np.where(self.variation == 0, constant, scores).mean())


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The weight of the rows whose label is predicted, and the weight of all rows."""

    correct: float
    weight: float

    def __add__(self, other: Self) -> Accuracy:
        """The sums over the rows of both."""
        return Accuracy(self.correct + other.correct, self.weight + other.weight)

    @property
    def value(self) -> float:
        """The share of correct labels; NaN if no row has a positive weight."""
        return self.correct / self.weight if self.weight > 0 else float("nan")


def determination(model: Any, block: Block) -> Determination | None:
    """The sums of a fitted regressor over the rows of a block; None if it has none."""
    n, owner = len_of(block.data), type(model).__name__
    if not n:
        return None
    with located(owner, block):
        y = Numbers(owner).read(block.targets, n).astype(np.float64)
        weights = _weights_of(block, n, owner)
        predicted = np.asarray(_predicted(model, block), dtype=np.float64).reshape(n, -1)
    require_same_targets(owner, y, predicted)
    weight = float(weights.sum())
    mean = weights @ y / weight if weight > 0 else np.zeros(y.shape[1])
    variation, error = weights @ (y - mean) ** 2, weights @ (y - predicted) ** 2
    return Determination(owner, n, weight, mean, variation, error)


def accuracy(model: Any, block: Block) -> Accuracy | None:
    """The sums of a fitted classifier over the rows of a block; None if it has none."""
    n, owner = len_of(block.data), type(model).__name__
    if not n:
        return None
    with located(owner, block):
        labels = Labels(owner, joint=True).labels(block.targets, n)
        weights = _weights_of(block, n, owner)
        correct = np.asarray(_predicted(model, block) == labels, dtype=np.float64)
    return Accuracy(float(weights @ correct), float(weights.sum()))


def _weights_of(block: Block, n: int, owner: str) -> Array:
    """The weights of the rows of a block, 1 by default."""
    weights = checked_weights(block.weights, n, owner)
    return np.ones(n) if weights is None else weights


def _predicted(model: Any, block: Block) -> Any:
    """The predictions for a block, whose named columns may come in any order."""
    return model.predict(in_order(block.data, model._names_seen))
