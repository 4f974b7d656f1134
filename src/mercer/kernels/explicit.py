"""Explicit features of compositions, from those of their parts, with the names of the columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from mercer.kernels.views import Columns
from mercer.maps import composition
from mercer.program.pairs import Array


def side_by_side(parts: Sequence[Columns], levels: Sequence[str] = ()) -> Columns:
    """Features of a sum: those of the parts in turn, named after their levels where there are."""
    prefixes = [f"{level}: " for level in levels] or [""] * len(parts)

    def names() -> Sequence[str]:
        return composition.concatenate_names(
            *(
                [prefix + name for name in part.feature_names]
                for prefix, part in zip(prefixes, parts, strict=True)
            )
        )

    return Columns(composition.concatenate(*(part.values for part in parts)), names=names)


def products(parts: Sequence[Columns]) -> Columns:
    """Features of a product: every feature of one part times every one of the others."""

    def names() -> Sequence[str]:
        return composition.tensor_product_names(*(part.feature_names for part in parts))

    return Columns(composition.tensor_product(*(part.values for part in parts)), names=names)


def times(columns: Columns, factor: float | Array) -> Columns:
    """Features times a number, or one number for each row."""
    if isinstance(columns.values, np.ndarray):
        return Columns(columns.values * factor, names=columns.names)
    return Columns(sp.csr_array(columns.values * factor), names=columns.names)


def lengths(columns: Columns) -> Array:
    """The Euclidean length of each row, as a column."""
    values = columns.values
    squares = values**2 if isinstance(values, np.ndarray) else values.power(2)
    sums = np.asarray(squares.sum(axis=1), dtype=float)
    return np.asarray(np.sqrt(sums)).reshape(-1, 1)
