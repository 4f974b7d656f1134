"""Scores of models as sums over blocks: the share of variance that is explained, and accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, warn
from mercer.kernels.containers import len_of
from mercer.streams.blocks import Block
from mercer.streams.labels import Labels, Numbers, checked_weights
from mercer.streams.survey import located

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Determination:
    """The coefficient of determination, 1 - sum w (y - f)^2 / sum w (y - mean)^2, of some rows.

    Attributes
    ----------
    owner : str
        The model.
    rows : int
        The number of rows.
    weight : float
        The sum of their weights.
    mean : ndarray of shape (t,)
        The weighted means of the targets.
    spread, error : ndarray of shape (t,)
        Weighted sums of squares of targets about their means, and of residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams.scoring import Determination
    >>> y = np.array([[1.0], [2.0], [4.0]])
    >>> parts = [Determination.of("model", part, part + 0.5, None) for part in (y[:2], y[2:])]
    >>> round((parts[0] + parts[1]).value, 3)
    0.839
    """

    owner: str
    rows: int
    weight: float
    mean: Array
    spread: Array
    error: Array

    @classmethod
    def of(cls, owner: str, y: Array, predicted: Array, weights: Array | None) -> Determination:
        """That of some rows; targets and predictions are of shape (n, t)."""
        mass = np.ones(len(y)) if weights is None else weights
        weight = float(mass.sum())
        y = y.astype(np.float64, copy=False)
        mean = mass @ y / weight if weight > 0 else np.zeros(y.shape[1])
        error = mass @ (y - predicted) ** 2
        return cls(owner, len(y), weight, mean, mass @ (y - mean) ** 2, error)

    def __add__(self, other: Self) -> Determination:
        """That of both."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        apart = other.mean - self.mean
        return Determination(
            self.owner,
            self.rows + other.rows,
            weight,
            self.mean + share * apart,
            self.spread + other.spread + self.weight * share * apart**2,
            self.error + other.error,
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
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = 1 - self.error / self.spread
        return float(np.where(constant, np.where(self.error == 0, 1.0, 0.0), explained).mean())


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of labels that are met, by weight.

    Attributes
    ----------
    met, weight : float
        Weights of the rows that are met, and of all.

    Examples
    --------
    >>> from mercer.streams.scoring import Accuracy
    >>> (Accuracy(1.0, 2.0) + Accuracy(2.0, 2.0)).value
    0.75
    """

    met: float
    weight: float

    def __add__(self, other: Self) -> Accuracy:
        """That of both."""
        return Accuracy(self.met + other.met, self.weight + other.weight)

    @property
    def value(self) -> float:
        """The share; not a number if nothing has weight."""
        return self.met / self.weight if self.weight > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class DeterminationOf:
    """Makes a `Determination` of a block.

    Attributes
    ----------
    model : object
        A fitted regressor.
    """

    model: Any

    def __call__(self, block: Block) -> Determination | None:
        """That of the rows of a block; None if it has none."""
        n, owner = len_of(block.data), type(self.model).__name__
        if not n:
            return None
        with located(owner, block):
            y = Numbers(owner).read(block.targets, n)
            weights = checked_weights(block.weights, n, owner)
            predicted = np.asarray(self.model.predict(block.data)).reshape(n, -1)
        return Determination.of(owner, y, predicted, weights)


@dataclass(frozen=True, eq=False)
class AccuracyOf:
    """Makes an `Accuracy` of a block.

    Attributes
    ----------
    model : object
        A fitted classifier.
    """

    model: Any

    def __call__(self, block: Block) -> Accuracy | None:
        """That of the rows of a block; None if it has none."""
        n, owner = len_of(block.data), type(self.model).__name__
        if not n:
            return None
        with located(owner, block):
            labels = Labels(owner, joint=True).labels(block.targets, n)
            weights = checked_weights(block.weights, n, owner)
            met = np.asarray(self.model.predict(block.data) == labels, dtype=np.float64)
        mass = np.ones(n) if weights is None else weights
        return Accuracy(float(mass @ met), float(mass.sum()))
