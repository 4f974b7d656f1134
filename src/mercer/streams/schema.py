"""The columns and types that all blocks of a stream have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.streams.blocks import as_frame


def filled(example: Any, row: Points | None) -> Any:
    """An example row with the values of a known row, if both have the same columns."""
    known = None if row is None else row.data
    if isinstance(example, np.ndarray):
        if isinstance(known, np.ndarray) and known.shape == example.shape:
            return known.astype(example.dtype)
        return example
    frame = nw.from_native(known, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame) or set(frame.columns) != set(example.columns):
        return example
    values = example.copy()
    for name in example.select_dtypes("number"):
        values[name] = frame.get_column(name).to_list()
    return values.astype(example.dtypes)


def in_order(data: Any, names: Sequence[str] | None) -> Any:
    """The rows of a block, with named columns in the order of `fit`."""
    frame = None if names is None or isinstance(data, np.ndarray | list) else as_frame(data)
    if frame is None or names is None or set(frame.columns) != set(names):
        return data
    return frame.select(*names).to_native()


@dataclass(frozen=True)
class Schema:
    """The kind of container, the columns and their types, of some blocks."""

    owner: str  # the estimator, for messages
    start: int  # the number of the first row
    kind: str  # the container, for messages
    width: int | None  # the number of columns; None for containers without columns
    types: tuple[Any, ...] = ()  # the type of an array, or (name, type) of each column of a frame

    @classmethod
    def of(cls, data: Any, owner: str, start: int) -> Schema:
        """The schema of one block, as returned by `ingest`."""
        if isinstance(data, nw.DataFrame):
            types = tuple(data.schema.items())
            kind = f"data frames of {data.implementation.value}"
            return cls(owner, start, kind, len(types), types)
        if sp.issparse(data):
            return cls(owner, start, "sparse matrices", data.shape[1], (data.dtype,))
        if isinstance(data, np.ndarray):
            width = data.shape[1] if data.ndim > 1 else None
            return cls(owner, start, "arrays", width, (data.dtype,))
        return cls(owner, start, "lists", None)

    def __add__(self, other: Self) -> Schema:
        """The common schema of both; refuse blocks that differ in more than types of numbers."""
        if self.kind != other.kind:
            raise self._refusal(other, f"{self.kind}", f"{other.kind}", "the same container")
        if self.width != other.width:
            raise self._refusal(
                other, f"{self.width} columns", f"{other.width} columns", "the same columns"
            )
        types = self._common_types(other)
        return Schema(self.owner, self.start, self.kind, self.width, types)

    def conform(self, data: Any) -> Any:
        """A block converted to the column order and the types of this schema."""
        if isinstance(data, nw.DataFrame):
            names = [name for name, _ in self.types]
            data = data if data.columns == names else data.select(*names)
            casts = [nw.col(n).cast(t) for n, t in self.types if data.schema[n] != t]
            return data.with_columns(*casts) if casts else data
        if self.types and data.dtype != self.types[0]:
            return data.astype(self.types[0])
        return data

    def _common_types(self, other: Schema) -> tuple[Any, ...]:
        if self.types == other.types or not self.types:
            return self.types
        if not self.kind.startswith("data frames"):
            own, its = self.types[0], other.types[0]
            alike = own.kind == its.kind or (own.kind in "fiub" and its.kind in "fiub")
            if not alike:
                raise self._refusal(other, f"values of type {own}", f"of type {its}", "one type")
            return (np.result_type(own, its),)
        theirs = dict(other.types)
        missing = [name for name, _ in self.types if name not in theirs]
        if missing:
            raise self._refusal(
                other, f"a column {missing[0]!r}", "none of that name", "the same columns"
            )
        return tuple((name, self._common(other, name, t, theirs[name])) for name, t in self.types)

    def _common(self, other: Schema, name: str, own: Any, its: Any) -> Any:
        if own == its:
            return own
        if all(t.is_numeric() or t == nw.Boolean for t in (own, its)):
            return nw.Float64()
        raise self._refusal(
            other, f"{own} in column {name!r}", f"{its} in that column", "one type in each column"
        )

    def _refusal(self, other: Schema, own: str, its: str, rule: str) -> DataError:
        return DataError(
            f"{self.owner}: the block that begins with row {self.start} has {own}, the one that "
            f"begins with row {other.start} has {its}; yield blocks with {rule}."
        )
