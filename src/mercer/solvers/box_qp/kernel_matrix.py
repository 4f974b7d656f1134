"""Kernel matrices for solvers that ask for blocks and products, as the kernel serves them best."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core, memory
from mercer.exceptions import DataError
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.kernels.special import Precomputed
from mercer.kernels.tracing import require_symmetry
from mercer.linalg.cholesky import is_positive_definite
from mercer.program.parts import Parts
from mercer.program.specialise import reads
from mercer.sampling import spread
from mercer.solvers.box_qp.problem import (
    LARGEST,
    SMALLEST,
    StoredMatrix,
    SymmetricMatrix,
    is_faithful,
)

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]

# Up to so many rows the matrix is stored, in float64.
_SMALL = 2048
# From so many numbers of each row on, reading a value takes less time than computing it again. One
# of a sparse row costs as much as several, since its column has to be looked up.
_WIDE, _SPARSE = 200, 8
_LINE = 64  # bytes of a cache line
# How far float32 may be from float64: at least so much of the largest value, and so many times the
# largest error among the pairs of some rows. Errors grow with the columns of the data and with the
# degree of a polynomial.
_LEAST_ROUNDING = 64 * float(np.finfo(np.float32).eps)
_WARY, _SAMPLE = 16.0, 256
# How far a matrix that was computed in float32 may be from its transpose, relative to its largest
# value.
_ROUNDED = 1e-5
# Of so many rows the pairs are looked at, where a whole matrix would cost more than the fit.
_WITNESSES = 128
# Negative directions up to this, for each row and relative to the largest value, may be rounding.
_NEGATIVE = float(np.finfo(np.float32).eps)
# A matrix of fewer rows than this share is worth making.
_MOST_OF = 0.75


class LazyMatrix:
    """The matrix of a compiled kernel: blocks and products are computed when they are asked for."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self._scratch = threading.local()
        diagonal = gram.diagonal()
        _require_finite(gram.kernel, diagonal)
        largest = float(np.abs(diagonal).max())
        self.has_single, self.rounding = False, 0.0
        if gram.dtype == np.float64 and SMALLEST < largest < LARGEST:
            self.has_single, error = self._rounding()
            self.rounding = error * largest if self.has_single else 0.0

    @cached_property
    def _rounded(self) -> Parts:
        return Parts(self._gram.kernel.expression, self._gram.pairs, narrow=True)

    @cached_property
    def _exact(self) -> Parts:
        return Parts(self._gram.kernel.expression, self._gram.pairs)

    def _rounding(self) -> tuple[bool, float]:
        """Whether float32 serves, and how far its values may be off, relative to the largest."""
        some = spread(self.size, _SAMPLE)
        try:
            _ = self._rounded.everything
        except DataError:  # float32 has no room for the data
            return False, 0.0
        rounded = self.block(some, precise=False)[0].copy()
        exact = self.block(some, precise=True)[0]
        error = float(np.abs(rounded - exact).max())
        largest = float(np.abs(exact.diagonal()).max())
        bound = max(_LEAST_ROUNDING, _WARY * error / largest if largest else 0.0)
        return is_faithful(exact, rounded), bound

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self._gram.shape[0])

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The values of the pairs of some rows."""
        parts = self._exact if precise else self._rounded
        values = self._room(len(rows), parts.dtype)
        parts.fill(values, rows)
        return values, np.arange(len(rows))

    def _room(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Memory for a block, the same for one after another."""
        # Rows begin at vectors, but not all at cache lines: then the engine would write past the
        # caches, from which the block is read next.
        stride = -(-count * dtype.itemsize // _LINE) * _LINE + _LINE // 2
        size = count * stride + _LINE
        buffer: NDArray[np.uint8] | None = getattr(self._scratch, "buffer", None)
        if buffer is None or len(buffer) < size:
            self._scratch.buffer = buffer = None  # before the larger one is there
            memory.require_matrix((count, count), dtype.itemsize)
            # With room for larger ones: what is not written to takes no memory yet.
            buffer = self._scratch.buffer = np.empty(2 * size, np.uint8)
        start = -buffer.__array_interface__["data"][0] % _LINE
        rows = buffer[start : start + count * stride].view(dtype).reshape(count, -1)
        return rows[:, :count]

    def times(
        self,
        rows: Positions,
        factors: NDArray[np.float64],
        *,
        precise: bool,
        at: Positions | None = None,
    ) -> NDArray[np.float64]:
        """The sum of some rows, each times its factor."""
        count = self.size if at is None else len(at)
        if not len(rows) or not count:
            return np.zeros(count)
        parts = self._exact if precise else self._rounded
        return parts.product(rows, factors, at).astype(np.float64, copy=False)

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """The matrix of some rows alone, if they are not most of them."""
        distinct, positions = np.unique(rows, return_inverse=True)
        if len(distinct) > _MOST_OF * self.size:
            return self, rows
        gram = self._gram.kernel.gram(self._gram.pairs.cols[distinct])
        small = len(distinct) <= _SMALL
        return StoredMatrix(gram.toarray()) if small else LazyMatrix(gram), positions


class CachedMatrix:
    """The matrix of a kernel that Python evaluates: rows that were used lately are kept."""

    has_single = False
    rounding = 0.0

    def __init__(self, kernel: Kernel, points: Points, room: float) -> None:
        self._kernel, self._points = kernel, points
        self._most = max(2, int(room / (8 * len(points))))
        self._kept: OrderedDict[int, Array] = OrderedDict()  # the last is the one used last
        self._lock = threading.Lock()  # problems that are solved side by side share the rows

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._points)

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The values of the pairs of some rows."""
        distinct, positions = np.unique(rows, return_inverse=True)
        if len(distinct) > self._most:
            values = self._kernel(self._points[distinct])
            _require_finite(self._kernel, values)
            return values, positions
        return np.ascontiguousarray(self._rows(distinct)[:, distinct]), positions

    def times(
        self,
        rows: Positions,
        factors: NDArray[np.float64],
        *,
        precise: bool,
        at: Positions | None = None,
    ) -> NDArray[np.float64]:
        """The sum of some rows, each times its factor."""
        total = np.zeros(self.size)
        for start in range(0, len(rows), self._most):
            part = slice(start, start + self._most)
            total += factors[part] @ self._rows(rows[part])
        return total if at is None else total[at]

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """The matrix itself, whose rows serve all problems."""
        return self, rows

    def _rows(self, rows: Positions) -> Array:
        """Some rows, no more than are kept."""
        with self._lock:
            return self._stacked(rows)

    def _stacked(self, rows: Positions) -> Array:
        missing = np.array([row for row in rows.tolist() if row not in self._kept], dtype=np.intp)
        if len(missing):
            values = self._kernel(self._points[missing], self._points)
            _require_finite(self._kernel, values)
            self._kept.update(zip(missing.tolist(), values, strict=True))
        for row in rows.tolist():
            self._kept.move_to_end(row)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return np.stack([self._kept[row] for row in rows.tolist()])


def _require_finite(kernel: Kernel, values: Array) -> None:
    """Refuse values that are no numbers: nothing can be learned from them."""
    if not _core.all_finite(values):
        raise DataError(
            f"{kernel!r}: some values of the kernel are infinite or not numbers; scale the data, "
            "or use a kernel whose values are bounded, such as mercer.RBF()."
        )


def is_costly(kernel: Kernel) -> bool:
    """Whether Python has to evaluate a part of a kernel, so that values are worth keeping."""
    return bool(reads(kernel.expression).sources)


def is_wide(kernel: Kernel, points: Points) -> bool:
    """Whether the engine reads so many numbers of each row that values are worth keeping."""
    matrices = [points.matrix(slot.view) for slot in reads(kernel.expression).slots]
    numbers = sum(m.size if isinstance(m, np.ndarray) else _SPARSE * m.nnz for m in matrices)
    return bool(numbers >= _WIDE * len(points))


def kernel_matrix(
    kernel: Kernel, points: Points, cache_bytes: float | None = None, *, reused: bool = False
) -> SymmetricMatrix:
    """The matrix of a kernel, in the form that is quickest.

    The values of a compiled kernel are computed when they are used, unless there are few, or there
    is room for all and they are costly, because rows are wide, or used for many problems. Those
    that Python computes are stored, or as many rows of them as there is room for.
    """
    given = _given_matrix(kernel, points)
    if given is not None:
        some = spread(len(given), _WITNESSES)
        part = given[np.ix_(some, some)]
        require_symmetry(part, str(kernel), Precomputed._symmetrise, rounding=_ROUNDED, rows=some)
        return StoredMatrix(given)
    gram = kernel.gram(points)
    n, costly = len(points), is_costly(kernel)
    if n > _SMALL and not (costly or reused or is_wide(kernel, points)):
        return LazyMatrix(gram)
    room = memory.available() / 2 if cache_bytes is None else cache_bytes
    fits = n * n * gram.dtype.itemsize <= room
    if n > _SMALL and not costly and not fits:
        return LazyMatrix(gram)
    if costly and not fits:
        return CachedMatrix(kernel, points, room)
    values = gram.toarray()
    _require_finite(kernel, values)
    return StoredMatrix(values)


def _given_matrix(kernel: Kernel, points: Points) -> Array | None:
    """The data themselves, if they are the matrix: no copy is made."""
    if not isinstance(kernel, Precomputed) or kernel.matrix is not None:
        return None
    data = points.data if points.origin is points else None
    if not (isinstance(data, np.ndarray) and data.dtype in (np.float32, np.float64)):
        return None
    return data if data.shape[0] == data.shape[1] else None


def is_seen_invalid(matrix: SymmetricMatrix) -> bool:
    """Whether the pairs of some rows prove that the quadratic form is not convex."""
    values, positions = matrix.block(spread(matrix.size, _WITNESSES), precise=True)
    block = np.array(values[np.ix_(positions, positions)], dtype=np.float64)
    block /= float(np.abs(block).max()) or 1.0
    block -= block.mean(axis=0)
    block -= block.mean(axis=1, keepdims=True)
    return not is_positive_definite(block, len(block) * _NEGATIVE)
