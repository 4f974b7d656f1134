"""Time series as the engine reads them, and the base of their kernels.

A series is a list of times with one or more channels. Series may have different lengths. They come
as an array of shape (n, time), of shape (n, time, channels) or (n, channels, time), as a list of
arrays, or as a column of arrays in a data frame. NaN at the end of a series is padding.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.containers import is_missing, row_number
from mercer.kernels.parameters import Choice, Integer
from mercer.kernels.structured import EncodedKernel, Ragged
from mercer.parallel import thread_count

#: Which axis of a series of two dimensions is which.
LAYOUTS = ("auto", "time,channels", "channels,time")
#: Number of series from which rules of thumb are computed.
_SAMPLE = 64


class Series(Ragged):
    """Series one after another, as values of shape (times, channels)."""

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self.values.shape[1])

    def spread(self, weight: Array | None) -> Series:
        """A sample of the series, drawn by weight, for rules of thumb."""
        share = None if weight is None else weight / weight.sum()
        available = len(self) if share is None else np.count_nonzero(share)
        size = min(_SAMPLE, int(available))
        rows = np.random.default_rng(0).choice(len(self), size, replace=False, p=share)
        return self.take(np.sort(rows))

    def packed(self) -> Series:
        """These series alone, one after another."""
        return Series.joined([self[i] for i in range(len(self))], width=self.channels)

    def __add__(self, other: Series) -> Series:
        """A sample of both samples."""
        parts = [part[i] for part in (self, other) for i in range(len(part))]
        return Series.joined(parts, width=self.channels).spread(None)

    def with_item(self, name: str, value: Array) -> Self:
        """These series with one more number for each of them."""
        items = {**self.items, name: value}
        return type(self)(self.values, self.starts, self.ends, items, self.shared)


class Layout(Choice):
    """The axes of series of two dimensions."""

    def __init__(self) -> None:
        super().__init__("auto", LAYOUTS)


class Window(Integer):
    """A number of times, or None."""

    def validate(self, owner: str, given: object) -> Any:
        return None if given is None else super().validate(owner, given)


class SeriesKernel(EncodedKernel):
    """Base of kernels of time series: they write ``pairs`` of encoded series.

    A kernel declares its ``layout`` last, so that its own parameters come first by position. Rules
    of thumb are computed from a sample of the training series, by ``_from_data``.
    """

    layout: Layout

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "string": False}

    def encode(self, objects: list[Any]) -> Series:
        """Return the series one after another, and what the kernel computes of each alone."""
        series = read_series(objects, self.layout, type(self).__name__)
        return series if self.unresolved() else self._prepared(series)

    def _prepared(self, series: Series) -> Series:
        """The series as `pairs` takes them."""
        return series


def values_of_pairs(
    kernel: SeriesKernel, A: Series, B: Series | None, kind: str, **options: Any
) -> Array:
    """The engine's values of all pairs, or without B of each series with itself."""
    if B is not None:
        require_same_channels(kernel, A, B)
    other = (None, None, None) if B is None or A is B else (B.values, B.starts, B.ends)
    settings: dict[str, Any] = {"sigma": 1.0, "band": -1, "level": 0}
    settings |= {"diagonal": B is None, "threads": thread_count(), **options}
    return _core.series(kind, A.values, A.starts, A.ends, *other, **settings)


def require_same_channels(kernel: SeriesKernel, A: Series, B: Series) -> None:
    """Refuse series of different numbers of channels."""
    if A.channels != B.channels:
        raise DataError(
            f"{type(kernel).__name__}: series of {A.channels} channels cannot be compared with "
            f"series of {B.channels}; pass series with the same channels."
        )


def read_series(objects: list[Any], layout: str, owner: str) -> Series:
    """The series of a list of arrays, one each."""
    arrays = [_array_of(item, i, owner) for i, item in enumerate(objects)]
    if any(array.ndim == 2 for array in arrays) and _time_axis(arrays, layout, owner) == 1:
        arrays = [array.T if array.ndim == 2 else array for array in arrays]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise DataError(
            f"{owner}: the series have from {min(widths)} to {max(widths)} channels; pass series "
            f"with the same channels, and name the axes by layout={LAYOUTS[1]!r} or "
            f"{LAYOUTS[2]!r}."
        )
    trimmed = [_without_padding(array, i, owner) for i, array in enumerate(arrays)]
    return Series.joined(trimmed, width=widths.pop())


def _array_of(item: Any, row: int, owner: str) -> Array:
    """One series as an array of floats, of one or two dimensions."""
    if not hasattr(item, "__len__") and is_missing(item):
        raise DataError(
            f"{owner}: row {row_number(row)} is missing; drop it, or pass a series of real numbers."
        )
    try:
        array = np.atleast_1d(np.asarray(item))
        if array.dtype.kind not in "fiubO":
            raise ValueError
        array = array.astype(float, copy=False)
    except (TypeError, ValueError):
        raise DataTypeError(
            f"{owner}: row {row_number(row)} is of type {type(item).__name__}, and not a series "
            "of real numbers; pass arrays of shape (time,) or (time, channels)."
        ) from None
    if array.ndim > 2:
        raise DataError(
            f"{owner}: row {row_number(row)} has shape {array.shape}; pass series of shape "
            "(time,), (time, channels) or (channels, time)."
        )
    return array


def _time_axis(arrays: list[Array], layout: str, owner: str) -> int:
    """Which axis of a series of two dimensions is the time, if the layout or shapes tell."""
    if layout != "auto":
        return LAYOUTS.index(layout) - 1
    shapes = np.array([array.shape for array in arrays if array.ndim == 2])
    varies = (shapes != shapes[0]).any(axis=0)
    single = (shapes == 1).all(axis=0)
    # The lengths of series differ, and their numbers of channels do not; one channel is common.
    if varies[0] != varies[1]:
        return int(varies[1])
    if single[0] != single[1]:
        return int(single[0])
    raise DataError(
        f"{owner}: series of shape {tuple(shapes[0].tolist())} do not tell which axis is the time; "
        f"pass layout={LAYOUTS[1]!r} or layout={LAYOUTS[2]!r} to the kernel."
    )


def _without_padding(array: Array, row: int, owner: str) -> Array:
    """A series without the times at its end at which all channels are NaN."""
    missing = np.isnan(array)
    if missing.any():
        present = np.flatnonzero(~missing.all(axis=1))
        array = array[: present[-1] + 1 if len(present) else 0]
    if array.size == 0:
        raise DataError(
            f"{owner}: row {row_number(row)} is a series without values; drop it, or pass at least "
            "one time and one channel."
        )
    if not np.isfinite(array).all():
        time = int(np.argwhere(~np.isfinite(array).all(axis=1))[0, 0])
        raise DataError(
            f"{owner}: row {row_number(row)} holds NaN or infinity at time {time}; NaN may only "
            "pad the end of all channels, so interpolate or drop such times."
        )
    return array
