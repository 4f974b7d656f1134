"""Targets in blocks: numbers, or labels of classes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.containers import row_number

Array = NDArray[np.floating[Any]]


class Targets(Protocol):
    """How a model reads targets: as they come first, and once all of them have been seen."""

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Self, Array]:
        """What the targets of one block say of all, and their numbers, of shape (n, t)."""
        ...

    def __add__(self, other: Self) -> Self:
        """What both say."""
        ...

    def read(self, y: Any, n: int) -> Array:
        """Targets as numbers, of shape (n, t)."""
        ...


@dataclass(frozen=True)
class NoTargets:
    """For estimators that take none.

    Examples
    --------
    >>> from mercer.streams.labels import NoTargets
    >>> NoTargets().read(None, 3).shape
    (3, 0)
    """

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[NoTargets, Array]:
        """Nothing."""
        return self, self.read(y, n)

    def __add__(self, other: Self) -> NoTargets:
        """Nothing."""
        return self

    def read(self, y: Any, n: int) -> Array:
        """No columns."""
        return np.empty((n, 0))


@dataclass(frozen=True)
class Numbers:
    """Targets of regression.

    Attributes
    ----------
    owner : str
        The estimator.
    shape : tuple of int, optional
        The shape of the targets of a row, once it has been seen.

    Examples
    --------
    >>> from mercer.streams.labels import Numbers
    >>> Numbers("KernelRidge").read([1, 2], 2).tolist()
    [[1.0], [2.0]]
    """

    owner: str
    shape: tuple[int, ...] | None = None

    def seen(self, y: Any, n: int, weights: Array | None) -> tuple[Numbers, Array]:
        """The shape, and the numbers."""
        values = self._values(y, n)
        return replace(self, shape=values.shape[1:]), values.reshape(n, -1)

    def __add__(self, other: Self) -> Numbers:
        """Refuse targets of different shapes."""
        if self.shape != other.shape:
            raise DataError(
                f"{self.owner}: targets of one block have shape (n, *{self.shape}), those of "
                f"another (n, *{other.shape}); yield the same number of targets in all blocks."
            )
        return self

    def read(self, y: Any, n: int) -> Array:
        """Numbers, one row for each."""
        return self._values(y, n).reshape(n, -1)

    def _values(self, y: Any, n: int) -> Array:
        values = given_values(y, n, self.owner)
        if values.dtype.kind == "O":
            with suppress(TypeError, ValueError):
                values = values.astype(np.float64)
        if values.dtype.kind not in "fiub" or values.ndim > 2:
            raise DataError(
                f"{self.owner}: y has values of type {values.dtype} in {values.ndim} dimensions; "
                "yield one number, or one row of numbers, for each row of X."
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


def given_values(y: Any, n: int, owner: str) -> NDArray[Any]:
    """Targets as an array with one entry, or one row, for each of n rows.

    Parameters
    ----------
    y : array-like, series or data frame
        The targets.
    n : int
        The number of rows of X.
    owner : str
        The estimator.

    Returns
    -------
    ndarray
        Of any type.
    """
    if y is None:
        raise DataError(
            f"{owner} requires y to be passed, but the target y is None: a block has no targets; "
            'yield tuples (X, y), or name the column of data frames, as in fit(blocks, "price").'
        )
    native = nw.from_native(y, pass_through=True, eager_only=True, allow_series=True)
    values = native.to_numpy() if hasattr(native, "to_numpy") else np.asarray(y)
    if values.ndim == 0 or len(values) != n:
        raise DataError(
            f"{owner}: y has shape {values.shape} where X has {n} rows; yield one target, or one "
            "row of targets, for each row of X."
        )
    return values


def checked_weights(weights: Any, n: int, owner: str) -> Array | None:
    """Weights of the rows of a block.

    Parameters
    ----------
    weights : array-like or None
        The weights.
    n : int
        The number of rows.
    owner : str
        The estimator.

    Returns
    -------
    ndarray of shape (n,) or None
        In float64.
    """
    if weights is None:
        return None
    native = nw.from_native(weights, pass_through=True, eager_only=True, allow_series=True)
    try:
        found = np.asarray(
            native.to_numpy() if hasattr(native, "to_numpy") else weights, dtype=np.float64
        )
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.shape != (n,) or not np.isfinite(found).all() or (found < 0).any():
        raise DataError(
            f"{owner}: sample_weight = {weights!r:.60} does not hold one finite weight >= 0 for "
            f"each of {n} rows; yield such weights, or none."
        )
    return found
