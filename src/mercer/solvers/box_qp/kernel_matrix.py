"""Symmetric kernel matrices for SMO: blocks and products, stored, cached or computed on demand."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core, memory
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.gram import Gram
from mercer.kernels.base import Kernel, pairs_of
from mercer.kernels.points import Points
from mercer.kernels.special import Precomputed
from mercer.kernels.tracing import require_symmetry
from mercer.linalg.cholesky import is_positive_definite
from mercer.parallel import cached_property, thread_count
from mercer.program import engine
from mercer.program.parts import Parts
from mercer.program.specialise import reads
from mercer.sampling import blocks, spread

Factors = NDArray[np.float64]
Positions = NDArray[np.int64]

# Number of rows up to which the matrix of a compiled kernel is stored, in float64.
_SMALL = 2048
# Number of entries per row from which reading a stored value is faster than computing it again.
_WIDE = 200
# Cost of an entry of a sparse row, relative to an entry of a dense row.
_SPARSE = 8
# Bytes of a cache line.
_LINE = 64
# Lower limit of the largest diagonal entry: products of smaller values underflow in float32.
_SMALLEST = 1e-15
# Upper limit of the largest diagonal entry: products of larger values overflow in float32.
_LARGEST = 1e15
# Largest float32 error of a curvature K_ii + K_jj - 2 K_ij, relative to the mean curvature.
_FAITHFUL = 0.01
# Smallest tolerance for which exact values are needed at few pairs.
_COARSE = 1e-4
# Number of rows of a stored matrix that are compared in float32 and float64.
_SAMPLE_STORED = 64
# Number of rows of a matrix computed on demand that are compared in float32 and float64.
_SAMPLE = 256
# Smallest bound of the rounding error of float32 values, relative to the largest value.
_LEAST_ROUNDING = 64 * float(np.finfo(np.float32).eps)
# Safety factor for the largest rounding error in the sample.
_WARY = 16.0
# Largest asymmetry |K_ij - K_ji|, relative to the largest value.
_ASYMMETRY = 1e-5
# Number of rows whose pairs are checked if a check of the whole matrix is expensive.
_WITNESSES = 128
# Largest negative eigenvalue that counts as rounding, per row and relative to the largest value.
_NEGATIVE = float(np.finfo(np.float32).eps)
# Largest share of the rows for which a matrix of these rows alone is made.
_MOST_OF = 0.75


class SymmetricMatrix(ABC):
    """A symmetric matrix that computes blocks and products."""

    size: int  # the number of rows
    largest: float  # the largest diagonal entry in absolute value; 1 if all are zero
    has_single = False  # whether float32 is faster than float64, and exact enough for first rounds
    rounding = 0.0  # the largest error of a value in a product that is not `precise`

    @abstractmethod
    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """A square matrix that contains the pairs of these rows, and the position of each row."""

    @abstractmethod
    def times(
        self, rows: Positions, factors: Factors, *, precise: bool, at: Positions | None = None
    ) -> Factors:
        """The sum of some rows, each times its factor, at some columns or all of them."""

    @abstractmethod
    def cross(self, rows: Positions, at: Positions) -> Array:
        """The values of some rows at some columns."""

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """A matrix for problems of these rows alone, and the position of each row."""
        return self, rows


def _is_faithful(exact: Array, rounded: Array) -> bool:
    """Whether curvatures K_ii + K_jj - 2 K_ij are accurate in float32.

    They are not if all values are large and nearly equal, such as inner products of data that are
    far from zero.
    """
    curvatures = []
    for values in (exact, rounded):
        wide = values.astype(np.float64)
        diagonal = wide.diagonal()
        curvatures.append(diagonal[:, None] + diagonal - 2 * wide)
    with np.errstate(invalid="ignore"):
        error = float(np.abs(curvatures[1] - curvatures[0]).max(initial=0.0))
    return error <= _FAITHFUL * float(curvatures[0].mean())


class StoredMatrix(SymmetricMatrix):
    """A symmetric matrix in memory."""

    def __init__(self, values: Array) -> None:
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        contiguous = values.strides[1] == values.itemsize
        self.values = values if contiguous else np.ascontiguousarray(values)
        self.size = len(values)
        largest = float(np.abs(values.diagonal()).max(initial=0.0))
        self.largest = largest or 1.0
        is_large = self.size > _SAMPLE_STORED  # few exchanges gain nothing from float32
        if is_large and values.dtype == np.float64 and _SMALLEST < largest < _LARGEST:
            step = -(-self.size // _SAMPLE_STORED)
            part = values[::step, ::step]
            self.has_single = _is_faithful(part, part.astype(np.float32))

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The matrix itself; the engine rounds the values that it reads."""
        return self.values, rows

    def times(
        self, rows: Positions, factors: Factors, *, precise: bool, at: Positions | None = None
    ) -> Factors:
        """The sum of some rows, each times its factor."""
        total = np.zeros(self.size)
        _core.row_sum(self.values, rows, factors, total, thread_count())
        return total if at is None else total[at]

    def cross(self, rows: Positions, at: Positions) -> Array:
        """The values of some rows at some columns."""
        return self.values[np.ix_(rows, at)]


class LazyMatrix(SymmetricMatrix):
    """The matrix of a compiled kernel, whose blocks and products are computed on demand."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self._scratch = threading.local()
        self.size = int(gram.shape[0])
        diagonal = gram.diagonal()
        _require_finite(gram.kernel, diagonal)
        largest = float(np.abs(diagonal).max())
        self.largest = largest or 1.0
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
        """Whether float32 is accurate enough, and its error relative to the largest value."""
        sample = spread(self.size, _SAMPLE)
        try:
            _ = self._rounded.everything
        except DataError:  # the data overflow in float32
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
        # Rows are aligned to vectors, but not all to cache lines: otherwise the engine would bypass
        # the caches, from which the block is read next.
        stride = -(-count * dtype.itemsize // _LINE) * _LINE + _LINE // 2
        size = count * stride + _LINE
        buffer: NDArray[np.uint8] | None = getattr(self._scratch, "buffer", None)
        if buffer is None or len(buffer) < size:
            self._scratch.buffer = buffer = None  # free it before the larger one is allocated
            memory.require_matrix((count, count), dtype.itemsize)
            # Allocate more than needed: pages that are not written to take no memory.
            buffer = self._scratch.buffer = np.empty(2 * size, np.uint8)
        start = -buffer.__array_interface__["data"][0] % _LINE
        rows = buffer[start : start + count * stride].view(dtype).reshape(count, -1)
        return rows[:, :count]

    def times(
        self, rows: Positions, factors: Factors, *, precise: bool, at: Positions | None = None
    ) -> Factors:
        """The sum of some rows, each times its factor."""
        count = self.size if at is None else len(at)
        if not len(rows) or not count:
            return np.zeros(count)
        parts = self._exact if precise else self._rounded
        return parts.product(rows, factors, at).astype(np.float64, copy=False)

    def products(self, tasks: Sequence[tuple[Positions, Factors, Positions]]) -> list[Array]:
        """The sums of some rows, each times its factor, at some columns; for each task."""
        return self._exact.products(tasks)

    def cross(self, rows: Positions, at: Positions) -> Array:
        """The values of some rows at some columns."""
        points = self._gram.pairs.cols
        return self._gram.kernel.gram(points[rows], points[at]).toarray()

    def among(self, rows: Positions) -> tuple[SymmetricMatrix, Positions]:
        """A matrix of these rows alone, if they are a small share of all rows."""
        distinct, positions = np.unique(rows, return_inverse=True)
        if len(distinct) > _MOST_OF * self.size:
            return self, rows
        gram = self._gram.kernel.gram(self._gram.pairs.cols[distinct])
        small = len(distinct) <= _SMALL
        return StoredMatrix(gram.toarray()) if small else LazyMatrix(gram), positions


class RoundedMatrix(StoredMatrix):
    """The matrix of a compiled kernel in memory, in float32; exact values are computed."""

    def __init__(self, exact: LazyMatrix, values: Array) -> None:
        super().__init__(values)
        self._exact, self.has_single = exact, True
        self.largest, self.rounding = exact.largest, exact.rounding

    def block(self, rows: Positions, *, precise: bool) -> tuple[Array, Positions]:
        """The matrix itself, or exact values of the pairs of some rows."""
        if precise:
            return self._exact.block(rows, precise=True)
        return super().block(rows, precise=False)

    def times(
        self, rows: Positions, factors: Factors, *, precise: bool, at: Positions | None = None
    ) -> Factors:
        """The sum of some rows, each times its factor."""
        if precise:
            return self._exact.times(rows, factors, precise=True, at=at)
        return super().times(rows, factors, precise=False, at=at)

    def exact_products(self, tasks: Sequence[tuple[Positions, Factors, Positions]]) -> list[Array]:
        """The sums of some rows, each times its factor, at some columns; for each task."""
        return self._exact.products(tasks)

    def cross(self, rows: Positions, at: Positions) -> Array:
        """The exact values of some rows at some columns."""
        return self._exact.cross(rows, at)


class CachedMatrix(SymmetricMatrix):
    """The matrix of a kernel that Python evaluates, with a cache of recently used rows."""

    def __init__(self, kernel: Kernel, points: Points, room: float) -> None:
        self._kernel, self._points = kernel, points
        self.size = len(points)
        self._most = max(2, int(room / (8 * len(points))))
        self._kept: OrderedDict[int, Array] = OrderedDict()  # the most recently used row is last
        self._lock = threading.Lock()  # threads that solve different problems share the cache
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
        self, rows: Positions, factors: Factors, *, precise: bool, at: Positions | None = None
    ) -> Factors:
        """The sum of some rows, each times its factor."""
        total = np.zeros(self.size)
        for part in blocks(len(rows), step=self._most):
            total += factors[part] @ self._rows(rows[part])
        return total if at is None else total[at]

    def cross(self, rows: Positions, at: Positions) -> Array:
        """The values of some rows at some columns."""
        parts = blocks(len(rows), step=self._most)
        return np.concatenate([self._rows(rows[part])[:, at] for part in parts])

    def _rows(self, rows: Positions) -> Array:
        """Some rows, at most as many as are kept."""
        wanted = rows.tolist()
        with self._lock:
            missing = [row for row in wanted if row not in self._kept]
            if missing:
                values = self._kernel(self._points[np.array(missing)], self._points)
                _require_finite(self._kernel, values)
                self._kept.update(zip(missing, values, strict=True))
            for row in wanted:
                self._kept.move_to_end(row)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return np.stack([self._kept[row] for row in wanted])


def _require_finite(kernel: Kernel, values: Array) -> None:
    """Refuse kernel values that are not finite."""
    if not _core.all_finite(values):
        raise DataError(
            f"{kernel!r}: some values of the kernel are infinite or not numbers; scale the data, "
            "or use a kernel whose values are bounded, such as mercer.RBF()."
        )


def _is_wide(kernel: Kernel, points: Points) -> bool:
    """Whether rows are so wide that reading a kernel value is faster than computing it."""
    matrices = [points.matrix(slot.view) for slot in reads(kernel.expression).slots]
    numbers = sum(m.size if isinstance(m, np.ndarray) else _SPARSE * m.nnz for m in matrices)
    return bool(numbers >= _WIDE * len(points))


def kernel_matrix(
    kernel: Kernel,
    points: Points,
    cache_bytes: float | None = None,
    *,
    reused: bool = False,
    tol: float = 0.0,
) -> SymmetricMatrix:
    """The matrix of a kernel, in the form that is fastest.

    The values of a compiled kernel are computed on demand. They are stored if the matrix is small,
    or if it fits in memory and its values are expensive (wide rows) or used for many problems.
    Large values are stored in float32 if that is enough for a tolerance of `tol` with few exact
    values. A kernel that Python evaluates is stored if it fits in memory, otherwise some rows are
    cached.
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
        if tol >= _COARSE and not (in_python or reused) and n * n * 4 <= room:
            lazy = LazyMatrix(gram)
            if lazy.has_single:
                return RoundedMatrix(lazy, gram.narrowed().toarray())
        if n * n * gram.dtype.itemsize > room:
            return CachedMatrix(kernel, points, room) if in_python else LazyMatrix(gram)
    values = engine.gram(kernel.expression, pairs_of(kernel, points))
    _require_finite(kernel, values)
    return StoredMatrix(values)


def _given_matrix(kernel: Kernel, points: Points) -> Array | None:
    """The data of a precomputed kernel, checked for symmetry and not copied; otherwise None."""
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
    """Whether the pairs of some rows prove that the matrix is not positive semi-definite."""
    values, positions = matrix.block(spread(matrix.size, _WITNESSES), precise=True)
    block = np.array(values[np.ix_(positions, positions)], dtype=np.float64)
    block /= float(np.abs(block).max()) or 1.0
    block -= block.mean(axis=0)
    block -= block.mean(axis=1, keepdims=True)
    return not is_positive_definite(block, len(block) * _NEGATIVE)
