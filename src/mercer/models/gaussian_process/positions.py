"""Rows of numbers that may move: as an array for a search, and in the user's container again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Positions:
    """Where rows are, and how to make points of other places."""

    kernel: Kernel  # the kernel that points are prepared for
    places: Array  # (n, d): the rows
    frame: nw.DataFrame[Any] | None  # the container that they come from, if it has named columns

    @classmethod
    def of(cls, kernel: Kernel, points: Points, owner: str) -> Positions:
        """Read rows, of which all columns have to be numbers."""
        rows = points.data
        if kernel.input_tags()["pairwise"]:
            raise cls._refusal(owner, "a kernel matrix")
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "fiu":
            return cls(kernel, rows.astype(np.float64), None)
        frame = nw.from_native(rows, pass_through=True, eager_only=True)
        if isinstance(frame, nw.DataFrame):
            others = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
            if not others:
                return cls(kernel, frame.to_numpy().astype(np.float64), frame)
            found = f"the column {others[0]!r} of {frame.schema[others[0]]}"
        else:
            found = type(rows).__name__
        raise cls._refusal(owner, found)

    @staticmethod
    def _refusal(owner: str, found: str) -> ParameterError:
        return ParameterError(
            f'{owner}: landmarks = "learn" moves landmarks along a gradient, for which all columns '
            f'of X have to be numbers, got {found}; pass landmarks="rpcholesky", which chooses '
            "among the rows."
        )

    def at(self, places: Array) -> Points:
        """Points at other places."""
        numbers = np.ascontiguousarray(places, dtype=np.float64)
        if self.frame is None:
            return self.kernel.prepare(numbers)
        columns = dict(zip(self.frame.columns, numbers.T, strict=True))
        moved = nw.from_dict(columns, backend=self.frame.implementation)
        return self.kernel.prepare(moved.to_native())
