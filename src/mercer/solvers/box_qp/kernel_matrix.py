"""Kernel matrices that give blocks and products, in the form that is fastest for the kernel."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer import _core, memory
from mercer.exceptions import DataError
from mercer.gram import Gram
from mercer.kernels.base import Kernel, pairs_of
from mercer.kernels.points import Points
from mercer.kernels.special import Precomputed
from mercer.kernels.tracing import require_symmetry
from mercer.linalg.cholesky import is_positive_definite
from mercer.parallel import thread_count
from mercer.program import engine
from mercer.program.parts import Parts
from mercer.program.specialise import reads
from mercer.sampling import spread

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]

# Number of rows up to which the matrix of a compiled kernel is stored, in float64.
_SMALL = 2048
# Numbers per row from which on reading a stored value is faster than computing it again.
_WIDE = 200
# Cost of a number of a sparse row, whose column has to be looked up, in dense numbers.
_SPARSE = 8
# Bytes of a cache line.
_LINE = 64
# Range of the largest diagonal entry for which products of values fit float32.
_SMALLEST, _LARGEST = 1e-15, 1e15
# Error of a curvature K_ii + K_jj - 2 K_ij that float32 may have, relative to their mean.
_FAITHFUL = 0.01
# Number of rows that are compared in float32 and float64: of a stored matrix.
_SAMPLE_STORED = 64
# Number of rows that are compared in float32 and float64: of a matrix that is computed when used.
_SAMPLE = 256
# Least bound of the rounding error of float32 values, relative to the largest value.
_LEAST_ROUNDING = 64 * float(np.finfo(np.float32).eps)
# Factor of safety for the largest rounding error in the sample, as errors grow with the number of
# columns and with the degree of a polynomial.
_WARY = 16.0
# How far a matrix may be from its transpose, relative to its largest value.
_ASYMMETRY = 1e-5
# Number of rows whose pairs are checked, where checking the whole matrix would be expensive.
_WITNESSES = 128
# Negative eigenvalues that may be rounding, per row and relative to the largest value.
_NEGATIVE = float(np.finfo(np.float32).eps)
# Share of the rows below which a matrix of these rows alone is worth making.
_MOST_OF = 0.75


class SymmetricMatrix(Protocol):
    """A symmetric matrix that gives blocks and products."""

    size: int  # the number of rows
    largest: float  # the largest diagonal entry in absolute value; 1 if all are zero
    has_single: bool  # whether float32 is faster than float64, and exact enough to begin with
    rounding: float  # the largest error of a value in a product that is not `precise`

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """A square matrix that holds the pairs of these rows, and where each row is in it."""

    def times(
        self,
        rows: Positions,
        factors: NDArray[np.float64],
        *,
        precise: bool,
        at: Positions | None = None,
    ) -> NDArray[np.float64]:
        """The sum of some rows, each times its factor, at some columns or all of them."""

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """A matrix for problems of these rows alone, and where each row is in it."""


def _is_faithful(exact: Array, rounded: Array) -> bool:
    """Whether rounded values serve for exchanges, whose curvatures are K_ii + K_jj - 2 K_ij.

    They do not where all values are nearly equal and large, as inner products of data far from
    zero are.
    """
    curvatures = []
    for values in (exact, rounded):
        wide = values.astype(np.float64)
        diagonal = wide.diagonal()
        curvatures.append(diagonal[:, None] + diagonal - 2 * wide)
    with np.errstate(invalid="ignore"):
        error = float(np.abs(curvatures[1] - curvatures[0]).max(initial=0.0))
    return error <= _FAITHFUL * float(curvatures[0].mean())


class StoredMatrix:
    """A symmetric matrix in memory."""

    rounding = 0.0  # products use the values as they are

    def __init__(self, values: Array) -> None:
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        contiguous = values.strides[1] == values.itemsize
        self.values = values if contiguous else np.ascontiguousarray(values)
        self.size = len(values)
        largest = float(np.abs(values.diagonal()).max(initial=0.0))
        self.largest = largest or 1.0
        self.has_single = False
        if values.dtype == np.float64 and _SMALLEST < largest < _LARGEST:
            step = -(-self.size // _SAMPLE_STORED)
            part = values[::step, ::step]
            self.has_single = _is_faithful(part, part.astype(np.float32))

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The matrix itself: the engine rounds what it reads."""
        return self.values, rows

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
        _core.row_sum(self.values, rows, factors, total, thread_count())
        return total if at is None else total[at]

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """The matrix itself."""
        return self, rows


class LazyMatrix:
    """The matrix of a compiled kernel: blocks and products are computed when they are asked for."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self._scratch = threading.local()
        self.size = int(gram.shape[0])
        diagonal = gram.diagonal()
        _require_finite(gram.kernel, diagonal)
        largest = float(np.abs(diagonal).max())
        self.largest = largest or 1.0
        self.has_single, self.rounding = False, 0.0
        if gram.dtype == np.float64 and _SMALLEST < largest < _LARGEST:
            self.has_single, error = self._rounding()
            self.rounding = error * largest if self.has_single else 0.0

    @cached_property
    def _rounded(self) -> Parts:
        return Parts(self._gram.kernel.expression, self._gram.pairs, narrow=True)

    @cached_property
    def _exact(self) -> Parts:
        return Parts(self._gram.kernel.expression, self._gram.pairs)

    def _rounding(self) -> tuple[bool, float]:
        """Whether float32 serves, and its largest error, relative to the largest value."""
        sample = spread(self.size, _SAMPLE)
        try:
            _ = self._rounded.everything
        except DataError:  # float32 has no room for the data
            return False, 0.0
        rounded = self.block(sample, precise=False)[0].copy()
        exact = self.block(sample, precise=True)[0]
        error = float(np.abs(rounded - exact).max())
        largest = float(np.abs(exact.diagonal()).max())
        bound = max(_LEAST_ROUNDING, _WARY * error / largest if largest else 0.0)
        return _is_faithful(exact, rounded), bound

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The values of the pairs of some rows."""
        parts = self._exact if precise else self._rounded
        values = self._room(len(rows), parts.dtype)
        parts.fill(values, rows)
        return values, np.arange(len(rows))

    def _room(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Memory for a block, which is reused for the next one."""
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
        self.size = len(points)
        self._most = max(2, int(room / (8 * len(points))))
        self._kept: OrderedDict[int, Array] = OrderedDict()  # the last is the one used last
        self._lock = threading.Lock()  # problems that are solved side by side share the rows
        values, at = self.block(spread(self.size, _SAMPLE_STORED), precise=True)
        self.largest = float(np.abs(values[at, at]).max()) or 1.0

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
        """Some rows, at most as many as are kept."""
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
    """Refuse kernel values that are not finite: nothing can be learned from them."""
    if not _core.all_finite(values):
        raise DataError(
            f"{kernel!r}: some values of the kernel are infinite or not numbers; scale the data, "
            "or use a kernel whose values are bounded, such as mercer.RBF()."
        )


def _is_wide(kernel: Kernel, points: Points) -> bool:
    """Whether rows have so many columns that reading values is faster than computing them."""
    matrices = [points.matrix(slot.view) for slot in reads(kernel.expression).slots]
    numbers = sum(m.size if isinstance(m, np.ndarray) else _SPARSE * m.nnz for m in matrices)
    return bool(numbers >= _WIDE * len(points))


def kernel_matrix(
    kernel: Kernel, points: Points, cache_bytes: float | None = None, *, reused: bool = False
) -> SymmetricMatrix:
    """The matrix of a kernel, in the form that is fastest.

    The values of a compiled kernel are computed when they are used, unless there are few, or there
    is room for all and they are expensive, because rows are wide, or used for many problems. Those
    that Python computes are stored, or as many rows of them as there is room for.
    """
    given = _given_matrix(kernel, points)
    if given is not None:
        return StoredMatrix(given)
    n, in_python = len(points), bool(reads(kernel.expression).sources)
    if in_python or n > _SMALL:
        gram = kernel.gram(points)
        if not (in_python or reused or _is_wide(kernel, points)):
            return LazyMatrix(gram)
        room = memory.available() / 2 if cache_bytes is None else cache_bytes
        if n * n * gram.dtype.itemsize > room:
            return CachedMatrix(kernel, points, room) if in_python else LazyMatrix(gram)
    values = engine.gram(kernel.expression, pairs_of(kernel, points))
    _require_finite(kernel, values)
    return StoredMatrix(values)


def _given_matrix(kernel: Kernel, points: Points) -> Array | None:
    """The data themselves, checked for symmetry, if they are the matrix: no copy is made."""
    if not isinstance(kernel, Precomputed) or kernel.matrix is not None:
        return None
    data = points.data if points.origin is points else None
    if not (isinstance(data, np.ndarray) and data.dtype in (np.float32, np.float64)):
        return None
    if data.shape[0] != data.shape[1]:
        return None
    sample = spread(len(data), _WITNESSES)
    part = data[np.ix_(sample, sample)]
    require_symmetry(part, str(kernel), Precomputed._symmetrise, rounding=_ASYMMETRY, rows=sample)
    return data


def is_seen_invalid(matrix: SymmetricMatrix) -> bool:
    """Whether the pairs of some rows prove that the quadratic form is not convex."""
    values, positions = matrix.block(spread(matrix.size, _WITNESSES), precise=True)
    block = np.array(values[np.ix_(positions, positions)], dtype=np.float64)
    block /= float(np.abs(block).max()) or 1.0
    block -= block.mean(axis=0)
    block -= block.mean(axis=1, keepdims=True)
    return not is_positive_definite(block, len(block) * _NEGATIVE)
