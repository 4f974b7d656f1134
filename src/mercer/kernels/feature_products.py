"""Products with a Gram matrix by way of explicit features: Phi (Psi' V) in place of K V."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, MemoryForecastError, NoFeatureMapError
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.points import Points
from mercer.kernels.views import Features
from mercer.maps.forecast import at_most
from mercer.program.pairs import Pairs
from mercer.sampling import blocks

#: Pairs below which the engine is as fast.
FEW_PAIRS = 2**18
#: Time of a feature of a row, relative to that of a pair.
_FEATURE_COST = 4
#: Rows from which the number of features is found.
_SAMPLE = 32
#: Numbers of the blocks of features that are in memory at one time.
_BLOCK = 2**21


class FeatureProducts:
    """Products with the Gram matrix of a kernel that has few features.

    The features of both sides have the same columns, `width` of them, or entries of a sparse row.
    """

    def __init__(self, kernel: Kernel, rows: Points, cols: Points, width: float) -> None:
        self._kernel, self._rows, self._cols = kernel, rows, cols
        self._width = width

    @classmethod
    def of(cls, kernel: Kernel, pairs: Pairs) -> FeatureProducts | None:
        """The products through features, if they are cheaper than those of all pairs."""
        n, m = pairs.shape
        if not kernel._reader.may_have_features:
            return None
        most = n * m / (_FEATURE_COST * (n + m))
        try:
            rows, cols = _matched(kernel, pairs)
            some = rows[np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.intp)].detached()
            with at_most(most):
                values = kernel._features(Scope(), some).values
        except (DataError, MemoryForecastError, NoFeatureMapError):
            return None
        width = values.nnz / len(some) if sp.issparse(values) else values.shape[1]
        return cls(kernel, rows, cols, width) if width <= most else None

    def product(self, V: Array) -> Array:
        """K @ V, shape (n, r), in float64."""
        V = np.asarray(V, dtype=np.float64)
        inner: Any = 0.0
        for block, features in self._features(self._cols):
            inner = inner + features.T @ V[block]
        out = np.empty((len(self._rows), V.shape[1]))
        for block, features in self._features(self._rows):
            out[block] = features @ inner
        return out

    def transposed(self) -> FeatureProducts:
        """The products of the transposed matrix."""
        return FeatureProducts(self._kernel, self._cols, self._rows, self._width)

    def _features(self, points: Points) -> Iterator[tuple[slice, Any]]:
        step = max(1, int(_BLOCK / max(self._width, 1.0)))
        for block in blocks(len(points), step=step):
            part = points if len(points) <= step else points[block]
            with at_most(np.inf):
                yield block, self._kernel._features(Scope(), part).values


def _matched(kernel: Kernel, pairs: Pairs) -> tuple[Points, Points]:
    """Both sides, as parts of one collection if the columns of features depend on the data."""
    rows, cols = pairs.rows, pairs.cols
    if rows.origin is cols.origin:
        return rows, cols
    views = [view for _, view in kernel._reader.leaves if isinstance(view.reader, Features)]
    if all(cols.columns(view).keys is None for view in views):
        return rows, cols
    both = Points.concatenate([rows, cols])
    return both[: len(rows)], both[len(rows) :]
