"""Rows as machines learn from them, and as scikit-learn's attributes show them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn import get_config

from mercer.exceptions import DataWarning, warn
from mercer.kernels.containers import as_table
from mercer.kernels.points import Points
from mercer.models.svm.functions import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Training:
    """The rows that a machine learns from."""

    points: Points  # all rows, in an order that suits the machine
    numbers: Rows  # the rows of X that they are
    rows: Rows  # those points that have a positive weight
    weights: Array  # their weights
    shape: tuple[int, ...]  # the shape of X, rows without weight included
    # their classes, as numbers; empty for machines without classes
    codes: Rows = field(default_factory=lambda: np.empty(0, np.intp))

    @classmethod
    def of(cls, points: Points, weights: Array) -> Training:
        """All rows in their order, of which some may have no weight."""
        rows = np.flatnonzero(weights > 0)
        return cls(points, np.arange(len(points)), rows, weights[rows], points.shape)

    def part(self, positions: Rows) -> Training:
        """Some of the rows that count, of the same points."""
        return replace(
            self,
            rows=self.rows[positions],
            weights=self.weights[positions],
            codes=self.codes[positions],
        )

    def codes_of(self, points: Rows) -> Rows:
        """The classes of some of the points, all of which count."""
        found = np.full(len(self.points), -1)
        found[self.rows] = self.codes
        return found[points]


def in_double_precision(X: Any) -> Any:
    """Rows in float64: the gap is computed in it, and float32 is used where it serves."""
    X = as_table(X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        single = [name for name, dtype in frame.schema.items() if dtype == nw.Float32]
        return frame.with_columns(nw.col(*single).cast(nw.Float64)).to_native() if single else X
    single_array = getattr(X, "dtype", None) == np.float32 and getattr(X, "ndim", 0) == 2
    return X.astype(np.float64) if single_array else X


def without_negative(owner: str, sample_weight: ArrayLike | None) -> ArrayLike | None:
    """Weights of 0 in place of negative ones, as LIBSVM has it: these rows are left out."""
    try:
        weights = np.asarray(sample_weight)
        # Columns of data frames with missing values are arrays of objects.
        weights = weights.astype(np.float64) if weights.dtype.kind == "O" else weights
    except (TypeError, ValueError):  # of which the check of weights tells
        return sample_weight
    known = weights.ndim == 1 and weights.dtype.kind in "if"
    if not known or not (negative := weights < 0).any():
        return sample_weight
    warn(
        f"{owner}: {negative.sum()} rows have a negative weight and are left out, as if it were 0.",
        DataWarning,
    )
    return np.where(negative, 0, weights)


def sparse_rows(values: Any) -> Any:
    """Sparse by rows: a matrix of scipy or an array, whichever scikit-learn is set to return."""
    kind = csr_array if get_config()["sparse_interface"] == "sparray" else csr_matrix
    return kind(values)


def as_attribute(rows: Any) -> Any:
    """Rows as scikit-learn stores them, where it takes such rows."""
    if issparse(rows):
        return sparse_rows(rows.astype(np.float64))
    numeric = isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "biuf"
    return rows.astype(np.float64, copy=False) if numeric else rows
