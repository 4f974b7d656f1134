"""Targets in blocks: numbers, or labels of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.containers import row_number


class Targets(ABC):
    """How a model reads targets: in the survey of each block, and in later passes."""

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Self, Array]:
        """What one block tells about all targets, and its numbers, of shape (n, t)."""
        return self, self.read(y, n)

    def __add__(self, other: Self) -> Self:
        """The information of both."""
        return self

    @abstractmethod
    def read(self, y: Any, n: int) -> Array:
        """Targets as numbers, of shape (n, t)."""


@dataclass(frozen=True)
class NoTargets(Targets):
    """For estimators without targets."""

    def read(self, y: Any, n: int) -> Array:
        """An array without columns."""
        return np.empty((n, 0))


@dataclass(frozen=True)
class AsGiven(Targets):
    """Targets of any kind, left as they are, for rows that are gathered after the survey."""

    owner: str  # the estimator, for messages

    def read(self, y: Any, n: int) -> NDArray[Any]:
        """The targets."""
        return given_values(y, n, self.owner)


@dataclass(frozen=True)
class Numbers(Targets):
    """Targets of regression."""

    owner: str  # the estimator, for messages
    shape: tuple[int, ...] | None = None  # the shape of the targets of a row, after the survey

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Self, Array]:
        """The shape, and the numbers."""
        values = self._values(y, n)
        return replace(self, shape=values.shape[1:]), values.reshape(n, -1)

    def __add__(self, other: Self) -> Self:
        """Refuse targets of different shapes."""
        if self.shape != other.shape:
            raise DataError(
                f"{self.owner}: targets of one block have shape (n, *{self.shape}), those of "
                f"another (n, *{other.shape}); yield the same number of targets in all blocks."
            )
        return self

    def read(self, y: Any, n: int) -> Array:
        """Targets of shape (n, t)."""
        return self._values(y, n).reshape(n, -1)

    def _values(self, y: Any, n: int) -> Array:
        values = given_values(y, n, self.owner)
        if values.dtype.kind == "O":
            with suppress(TypeError, ValueError):
                values = values.astype(np.float64)
        if values.dtype.kind not in "fiub" or values.ndim > 2:
            unsupported = "Complex data not supported: " if values.dtype.kind == "c" else ""
            raise DataError(
                f"{self.owner}: {unsupported}y has values of type {values.dtype} in {values.ndim} "
                "dimensions; yield one number, or one row of numbers, for each row of X."
            )
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        if not np.isfinite(values).all():
            row = row_number(np.argwhere(~np.isfinite(values))[0][0])
            raise DataError(
                f"{self.owner}: Input y contains NaN or infinity (first in row {row}); drop the "
                "rows that have no target."
            )
        return values


@dataclass(frozen=True)
class OneNumber(Numbers):
    """Targets of regression, one for each row."""

    least: float = np.inf  # the smallest target of positive weight
    largest: float = -np.inf  # the largest target of positive weight

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Self, Array]:
        """The range, and the numbers."""
        targets, values = super().seen(y, n, weights)
        if values.shape[1] != 1:
            raise DataError(
                f"{self.owner}: y should be a 1d array, got {values.shape[1]} targets for each "
                "row; yield one number for each row."
            )
        counted = values if weights is None else values[weights > 0]
        least, largest = counted.min(initial=np.inf), counted.max(initial=-np.inf)
        return replace(targets, least=float(least), largest=float(largest)), values

    def __add__(self, other: Self) -> Self:
        """The range of both."""
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return replace(super().__add__(other), least=least, largest=largest)


@dataclass(frozen=True, eq=False)
class Labels(Targets):
    """Targets of classification; a block need not have all classes."""

    owner: str  # the estimator, for messages
    joint: bool  # whether three and more classes are read as codes, not as one column of signs each
    classes: NDArray[Any] | None = None  # the classes of rows of positive weight, sorted

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Self, Array]:
        """The classes; codes are known only after the survey."""
        labels = self.labels(y, n)
        counted = labels if weights is None else labels[weights > 0]
        return replace(self, classes=self._sorted(counted)), np.empty((n, 0))

    def __add__(self, other: Self) -> Self:
        """The classes of both."""
        seen = [c for c in (self.classes, other.classes) if c is not None and len(c)]
        if len({c.dtype.kind in "fiub" for c in seen}) > 1:
            raise DataError(
                f"{self.owner}: labels are numbers in some blocks and none in others; yield labels "
                "of one kind."
            )
        return replace(self, classes=self._sorted(np.concatenate(seen))) if seen else self

    def read(self, y: Any, n: int) -> Array:
        """Codes of classes, or signs; a row of weight zero may be of any class."""
        assert self.classes is not None
        labels, k = self.labels(y, n), len(self.classes)
        codes = np.minimum(np.searchsorted(self.classes, labels), k - 1)
        if k > 2 and self.joint:
            return codes[:, None].astype(np.float64)
        wanted = np.arange(k) if k > 2 else np.array([1])
        return np.where(codes[:, None] == wanted, 1.0, -1.0)

    def labels(self, y: Any, n: int) -> NDArray[Any]:
        """Labels as given, one for each row."""
        labels = given_values(y, n, self.owner)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1:
            raise DataError(
                f"{self.owner}: y has shape {labels.shape}; yield one label for each row."
            )
        if labels.dtype.kind == "f":
            broken = ~(np.isfinite(labels) & (labels == np.floor(labels)))
            if broken.any():
                first = int(np.argmax(broken))
                raise DataError(
                    f"{self.owner}: Unknown label type: y has values that are not whole numbers, "
                    f"first {labels[first]:g} in row {row_number(first)}; yield classes, drop the "
                    "rows that have none, or use a regressor."
                )
        return labels

    def _sorted(self, labels: NDArray[Any]) -> NDArray[Any]:
        try:
            return np.unique(labels)
        except TypeError as error:
            raise DataError(
                f"{self.owner}: y mixes labels that have no order ({error}); yield labels of one "
                "kind, and drop the rows that have none."
            ) from error


def given_values(y: Any, n: int, owner: str) -> NDArray[Any]:
    """Targets as an array with one entry, or one row, for each of n rows."""
    if y is None:
        raise DataError(
            f"{owner} requires y to be passed, but the target y is None: a block has no targets; "
            'yield tuples (X, y), or name the column of data frames, as in fit(blocks, "price").'
        )
    values = as_array(y)
    if values.ndim == 0 or len(values) != n:
        raise DataError(
            f"{owner}: y has shape {values.shape} where X has {n} rows; yield one target, or one "
            "row of targets, for each row of X."
        )
    return values


def as_array(values: Any) -> NDArray[Any]:
    """An array, or a column or frame of any library, as an array."""
    native = nw.from_native(values, pass_through=True, eager_only=True, allow_series=True)
    return np.asarray(native.to_numpy() if hasattr(native, "to_numpy") else values)


def checked_weights(weights: Any, n: int, owner: str) -> Array | None:
    """Weights of the rows of a block."""
    if weights is None:
        return None
    try:
        values = as_array(weights).astype(np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape != (n,) or not np.isfinite(values).all() or (values < 0).any():
        raise DataError(
            f"{owner}: sample_weight = {weights!r:.60} does not hold one finite weight >= 0 for "
            f"each of {n} rows; yield such weights, or none."
        )
    return values
