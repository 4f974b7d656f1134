"""Pairs of points, as the executors see them.

`Pairs` joins two collections of points and the values of the parameters, and answers the questions
that leaves of an expression ask: the columns of a slot, the numbers of a vector leaf, whether two
rows are the same row.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.exceptions import ParameterError
from mercer.program.expression import Diagonal, Expr, PointFunction, Scale, Slot
from mercer.program.reverse import evaluate_scalars

Array = np.ndarray[Any, Any]


class Values(dict[str, Any]):
    """The values of a kernel's parameters by path, and what has been computed from them alone."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._scalars: dict[Any, Array] = {}
        self._scales: dict[tuple[Scale, int], Array] = {}

    def scalars(self, expressions: tuple[Expr, ...]) -> Array:
        """The values of scalar expressions."""
        found = self._scalars.get(expressions)
        if found is None:
            found = self._scalars[expressions] = np.array(
                evaluate_scalars(expressions, self), dtype=float
            )
        return found

    def scale(self, scale: Scale, width: int) -> Array:
        """The factors of the columns of a slot."""
        found = self._scales.get((scale, width))
        if found is None:
            found = self._scales[scale, width] = scale_values(scale, self, width)
        return found


class Source(Protocol):
    """A collection of points that can be seen through views and subset by rows."""

    ids: Array

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Source: ...

    def matrix(self, view: Hashable) -> Any:
        """The numeric columns of a view: an array or a CSR array."""

    def matrix_like(self, view: Hashable, reference: Any) -> Any:
        """The same, with columns matched to those of another collection."""

    def centre(self, view: Hashable) -> Array:
        """A middle value of each column of a view."""

    def data_of(self, view: Hashable) -> Any:
        """What a Python function that asked for this view is given."""


@dataclass(slots=True, eq=False)
class Pairs:
    """All pairs (row, column) of two collections, or with ``aligned`` the pairs (i, i).

    ``same`` says that both are rows of one collection, so that identity of rows has a meaning.
    """

    rows: Any
    cols: Any
    values: Values
    same: bool = False
    aligned: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.rows), len(self.cols)

    def diagonal_of_rows(self) -> Pairs:
        """The pairs of each row with itself."""
        return Pairs(self.rows, self.rows, self.values, same=True, aligned=True)

    def diagonal_of_columns(self) -> Pairs:
        """The pairs of each column's point with itself."""
        return Pairs(self.cols, self.cols, self.values, same=True, aligned=True)

    def diagonal(self) -> Pairs:
        """The pairs (i, i) of the i-th row with the i-th column."""
        if self.rows is self.cols and self.same:
            return self.diagonal_of_rows()
        first = slice(0, min(self.shape))
        rows, cols = self.rows[first], self.cols[first]
        return Pairs(rows, cols, self.values, self.same, aligned=True)

    def transposed(self) -> Pairs:
        """The same pairs with the two sides exchanged."""
        return Pairs(self.cols, self.rows, self.values, self.same, self.aligned)

    def block(self, rows: Any, cols: Any) -> Pairs:
        """The pairs of some rows with some columns."""
        if isinstance(rows, slice) and rows == slice(None):
            return Pairs(self.rows, self.cols[cols], self.values, self.same)
        return Pairs(self.rows[rows], self.cols[cols], self.values, self.same)

    def matrices(self, view: Hashable) -> tuple[Any, Any]:
        """The columns of a view on both sides, matched to each other."""
        if self.rows is self.cols:
            both = self.cols.matrix(view)
            return both, both
        return self.rows.matrix_like(view, self.cols), self.cols.matrix(view)

    def centre(self, slot: Slot) -> Array | None:
        """What is subtracted from both sides: distances do not change, cancellation goes away."""
        points = self.rows if self.within else self.cols
        return points.centre(slot.view) if slot.centred else None

    @property
    def within(self) -> bool:
        """Whether the columns are some of the rows: solvers take one such block after another."""
        return self.cols is not self.rows and self.cols.origin is self.rows

    def scale(self, slot: Slot, width: int) -> Array | None:
        """The factor of each column of a slot."""
        return None if slot.scale is None else self.values.scale(slot.scale, width)

    def on_circle(self, slot: Slot, matrix: Array) -> Array:
        """The columns of a periodic slot as points of the circle."""
        assert slot.on_circle is not None
        (frequency,) = self.values.scalars((slot.on_circle,))
        angles = 2.0 * frequency * (matrix - self.cols.centre(slot.view))
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / 2.0

    def is_sparse(self, slot: Slot) -> bool:
        """Whether the columns of a slot are stored as a sparse matrix."""
        return not isinstance(self.cols.matrix(slot.view), np.ndarray)

    def vector(self, source: Any, points: Any) -> Array:
        """The numbers of a vector leaf at the given points."""
        if isinstance(source, Diagonal):
            from mercer.program.reference import evaluate

            pairs = Pairs(points, points, self.values, same=True, aligned=True)
            return np.broadcast_to(evaluate(source.body, pairs), (len(points),))
        assert isinstance(source, PointFunction)
        values: Array = points.function_values(source.view, source.function)
        return values


def scale_values(scale: Scale, values: Values, width: int) -> Array:
    """Evaluate ``factor * value ** power`` for every column."""
    value = np.asarray(values[scale.path], dtype=float)
    if scale.row is not None:
        value = value[scale.row]
    if value.ndim and value.shape[0] != width:
        raise ParameterError(
            f"{scale.path} has {value.shape[0]} values but the kernel sees {width} columns; "
            f"pass one number, or one for each of the {width} columns."
        )
    with np.errstate(over="ignore"):  # data that leave the range with it are refused when packed
        return np.asarray(np.broadcast_to(scale.factor * value**scale.power, (width,)))
