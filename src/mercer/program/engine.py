"""The engine executor: lowers expressions, packs the data and calls the native code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer import _core, memory
from mercer.arrays import AnyArray as Array
from mercer.linalg.symmetric import LowerTriangle
from mercer.parallel import thread_count
from mercer.program.expression import SEED, Expr, Slot, cached_on_root, constant, joint, substitute
from mercer.program.lower import Lowered, lower
from mercer.program.pairs import (
    DOUBLE,
    FACTORS,
    WEIGHTS,
    Pairs,
    bind,
    reach_limit,
    right_hand_sides,
)
from mercer.program.reverse import CoordinateRequest, Request
from mercer.program.slabs import MANY_COLUMNS, Slabs, in_slabs
from mercer.program.specialise import reads, specialise
from mercer.sampling import blocks

#: Pairs, and numbers compared for all of them, up to which `Direct` is used. Beyond, threads,
#: forecasts of memory and interrupts begin to matter.
DIRECT_LIMIT = 2**15
DIRECT_WORK = 2**21
#: Rows and columns of the blocks in which leaves that Python evaluates are brought into memory.
BLOCK = 1024
#: Bytes of a cache line.
_CACHE_LINE = 64
#: Bytes from which a matrix starts at a cache line, and memory for it is forecast.
_LARGE = 2**24
#: Columns of data from which a small symmetric matrix is stored to be multiplied.
_WIDE = 512


class Direct:
    """Programs of a kernel for small plain arrays, straight from the data.

    Optimisers and loops call kernels on a few points, thousands of times. Where all that a kernel
    reads are the columns of a plain array of floats, one call of the engine checks, centres, scales
    and packs them, with the results of the ordinary way.
    """

    __slots__ = ("_programs",)

    def __init__(self) -> None:
        # A program for each number and type of columns; None where it needs more than columns.
        self._programs: dict[tuple[int, str], Any] = {}

    def gram(self, X: Any, Z: Any) -> Array | None:
        """The matrix of all pairs; None where the ordinary way has to be taken."""
        if type(X) is not np.ndarray or X.ndim != 2:
            return None
        columns = X.shape[1], X.dtype.char
        program = self._programs.get(columns)
        if program is None or not X.dtype.isnative:
            return None
        n = m = len(X)
        if Z is not None:
            if type(Z) is not np.ndarray or Z.ndim != 2 or Z.dtype != X.dtype:
                return None
            m = len(Z)
            if Z.shape[1] != columns[0]:
                return None
        if not _is_small(n, m, columns[0]):
            return None
        out = np.empty((n, m), X.dtype)
        return out if program.gram(X, Z, out) else None

    def bind(self, root: Expr, pairs: Pairs) -> None:
        """Keep the program for arrays of as many columns as these."""
        data = pairs.cols.data
        if type(data) is not np.ndarray or data.ndim != 2 or not data.dtype.isnative:
            return
        columns = data.shape[1], data.dtype.char
        small = _is_small(*pairs.shape, columns[0])
        if small and columns[1] in "df" and columns not in self._programs:
            self._programs[columns] = _direct_program(root, pairs, data)


def _is_small(n: int, m: int, columns: int) -> bool:
    return 0 < n * m <= DIRECT_LIMIT and n * m * columns <= DIRECT_WORK


def _direct_program(root: Expr, pairs: Pairs, data: Array) -> Any | None:
    special = specialise(root, pairs)
    lowered = lower((special.root,))
    needs_more = lowered.vectors or lowered.blocks or lowered.compares_rows
    if needs_more or not lowered.slots:
        return None
    slots = []
    for slot in lowered.slots:
        if slot.on_circle is not None or pairs.cols.matrix(slot.view) is not data:
            return None
        scale = pairs.scale(slot, data.shape[1])
        slots.append((slot.centred, [] if scale is None else scale.tolist(), reach_limit(slot)))
    scalars = pairs.values.scalars(lowered.scalars)
    return _core.Direct(lowered.program, lowered.results[0], scalars.tolist(), slots)


def gram(root: Expr, pairs: Pairs, *, narrow: bool = False) -> Array:
    """The matrix of all pairs; in float32 if it is asked for."""
    root, dtype, given = specialise(root, pairs, narrow=narrow)
    lowered = lower((root,))
    if _width(lowered, pairs) >= MANY_COLUMNS:
        lowered = lower((in_slabs(root, pairs, dtype),))
    shape = pairs.shape
    if shape[0] * shape[1] * dtype.itemsize < _LARGE:
        out = np.empty(shape, dtype)
    else:
        memory.require_matrix(shape, dtype.itemsize)
        out = _at_cache_line(shape, dtype)
    symmetric = pairs.rows is pairs.cols
    if not lowered.blocks or all(isinstance(block, Slabs) for block in lowered.blocks):
        _fill(out, lowered, pairs, dtype, symmetric=symmetric)
        return out.astype(given, copy=False)
    for rows, cols, part in _parts(lowered, pairs):
        if symmetric and cols.start < rows.start:
            out[rows, cols] = out[cols, rows].T
        else:
            _fill(out[rows, cols], lowered, part, dtype, symmetric=False)
    return out.astype(given, copy=False)


def _fill(
    out: Array, lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], *, symmetric: bool
) -> None:
    scalars, rows, cols, blocks = bind(lowered, pairs, dtype)
    result = lowered.results[0]
    _core.gram(lowered.program, result, scalars, rows, cols, blocks, out, symmetric, thread_count())


def _at_cache_line(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """An array to be filled that starts at a cache line, for stores past the cache."""
    size = shape[0] * shape[1] * dtype.itemsize
    buffer = np.empty(size + _CACHE_LINE, np.uint8)
    start = -buffer.__array_interface__["data"][0] % _CACHE_LINE
    return buffer[start : start + size].view(dtype).reshape(shape)


def product(root: Expr, pairs: Pairs, vectors: Array, *, narrow: bool = False) -> Array:
    """K @ V without K: shape (n, r); in float32 if it is asked for."""
    special, dtype, given = specialise(root, pairs, narrow=narrow)
    lowered = lower((special,))
    vectors = right_hand_sides(vectors, dtype)
    if _is_cheaper_stored(lowered, pairs, vectors.shape[1]):
        # Not a product of BLAS, whose sums depend on the number of threads.
        stored = gram(root, pairs, narrow=narrow)
        out: Array = np.einsum("ij,jk->ik", stored, vectors, dtype=DOUBLE)
        return out.astype(given, copy=False)
    out = np.zeros((pairs.shape[0], vectors.shape[1]))
    for rows, cols, part in _parts(lowered, pairs):
        out[rows] += _multiply(_core.product, lowered, part, dtype, vectors[cols])
    return out.astype(given, copy=False)


def _is_cheaper_stored(lowered: Lowered, pairs: Pairs, right_sides: int) -> bool:
    """Whether half of a small symmetric matrix costs less than all pairs without storing them.

    It has to have many columns of data, compared with which the product of numbers is nothing.
    """
    if pairs.rows is not pairs.cols or lowered.blocks or pairs.shape[0] ** 2 * 8 > _LARGE:
        return False
    return _width(lowered, pairs) >= max(_WIDE, 64 * right_sides)


def _width(lowered: Lowered, pairs: Pairs) -> int:
    """The largest number of columns that a leaf reads."""
    width = 0
    for slot in lowered.slots:
        matrix = pairs.cols.matrix(slot.view)
        width = max(width, matrix.shape[1]) if type(matrix) is np.ndarray else width
    return width


def normal_product(root: Expr, pairs: Pairs, vectors: Array, *, narrow: bool = False) -> Array:
    """K.T @ (K @ V) with one evaluation of each pair: shape (m, r); in float32 if asked for."""
    root, dtype, given = specialise(root, pairs, narrow=narrow)
    lowered = lower((root,))
    vectors = right_hand_sides(vectors, dtype)
    n, m = pairs.shape
    rows = blocks(n, step=BLOCK)
    parts = (pairs.block(r, slice(0, m)) for r in rows) if lowered.blocks else [pairs]
    out = np.zeros((m, vectors.shape[1]))
    for part in parts:
        out += _multiply(_core.normal_product, lowered, part, dtype, vectors)
    return out.astype(given, copy=False)


def total(root: Expr, pairs: Pairs, weights: Any = None) -> float:
    """The sum of all entries, each times its weight, in float64."""
    (result,) = contract([Request("sum", root * SEED)], pairs, weights, DOUBLE)
    return float(result)


def contract(
    requests: list[Request], pairs: Pairs, weights: Any, dtype: np.dtype[Any] | None = None
) -> list[Any]:
    """Sum adjoint expressions over the pairs.

    Weights are a matrix, the lower triangle of a symmetric one, factors (U, V), or None (ones).
    """
    root = joint(tuple([request.expression for request in requests]))
    folded = pairs.rows is pairs.cols and _are_totals(root, tuple(requests))
    triangle = isinstance(weights, LowerTriangle)
    seed, weights = _folded_seed(weights) if folded else _seed(weights)
    special = specialise(_seeded(root, seed), pairs)
    dtype = dtype or special.computed
    lowered, outputs = _contraction(special.root, tuple(requests))
    options = outputs, folded, triangle, thread_count()
    if lowered.blocks in ((), (WEIGHTS,)):
        return list(
            _core.contract(lowered.program, *bind(lowered, pairs, dtype, weights), *options)
        )
    total: list[Any] = []
    for rows, cols, part in _parts(lowered, pairs):
        arguments = bind(lowered, part, dtype, _cut(weights, rows, cols))
        results = _core.contract(lowered.program, *arguments, *options)
        places = zip(requests, results, strict=True)
        whole = [_in_place(r, result, rows, cols, pairs.shape) for r, result in places]
        total = [_added(*both) for both in zip(total, whole, strict=True)] if total else whole
    return total


@cached_on_root
def _are_totals(root: Expr, requests: tuple[Request, ...]) -> bool:
    """Whether all requests are totals: half of the pairs of a symmetric matrix will do.

    The derivative of a symmetric K in any parameter is symmetric, so that
    sum_ij G_ij dK_ij = sum_{i<j} (G + G')_ij dK_ij + sum_i G_ii dK_ii.
    """
    totals = ("sum", "distance_scales")
    for request in requests:
        total = request.kind in totals
        if isinstance(request, CoordinateRequest):
            total = not request.wants_inputs
        if not total:
            return False
    return not reads(root).sources


_MATRIX = Expr("external", (), WEIGHTS)
_TWICE_THE_MATRIX = 2.0 * _MATRIX
_PRODUCT = Expr("dot", (), FACTORS)


def _seed(weights: Any) -> tuple[Expr, Any]:
    """The weights G as an expression, and the arrays that it reads."""
    if weights is None:
        return constant(1.0), None
    if isinstance(weights, tuple):
        return _PRODUCT, weights
    return _MATRIX, weights.full() if isinstance(weights, LowerTriangle) else weights


def _folded_seed(weights: Any) -> tuple[Expr, Any]:
    """The weights G + G' as an expression, and the arrays that it reads."""
    if weights is None:
        return constant(2.0), None
    if isinstance(weights, LowerTriangle):
        return _TWICE_THE_MATRIX, weights.matrix
    if not isinstance(weights, tuple):
        return _MATRIX, weights  # the engine adds its mirror image
    u, v = weights
    if u is v:
        return _PRODUCT, (2.0 * u, u)
    return _PRODUCT, (np.hstack([u, v]), np.hstack([v, u]))


@cached_on_root
def _seeded(expression: Expr, seed: Expr) -> Expr:
    """The expression with the weights in the place of the seed."""
    return substitute(expression, lambda node: seed if node is SEED else None)


def _multiply(
    function: Any, lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], vectors: Array
) -> Array:
    program, result = lowered.program, lowered.results[0]
    arguments = bind(lowered, pairs, dtype)
    return np.asarray(function(program, result, *arguments, vectors, thread_count()))


def _parts(lowered: Lowered, pairs: Pairs) -> Iterator[tuple[slice, slice, Pairs]]:
    """All pairs at once, or in blocks when Python has to evaluate a leaf."""
    n, m = pairs.shape
    if all(b == WEIGHTS for b in lowered.blocks):
        yield slice(0, n), slice(0, m), pairs
        return
    for rows in blocks(n, step=BLOCK):
        for cols in blocks(m, step=BLOCK):
            yield rows, cols, pairs.block(rows, cols)


def _cut(weights: Any, rows: slice, cols: slice) -> Any:
    if isinstance(weights, tuple):
        return weights[0][rows], weights[1][cols]
    return None if weights is None else weights[rows, cols]


@cached_on_root
def _contraction(
    root: Expr, requests: tuple[Request, ...]
) -> tuple[Lowered, list[tuple[Any, ...]]]:
    """The program of all requests, and what the engine is to sum for each."""
    lowered = lower(root.args, tuple(_companion(r) for r in requests if r.slot))
    registers = zip(requests, lowered.results, strict=True)
    return lowered, [_output(request, register, lowered) for request, register in registers]


def _companion(request: Request) -> tuple[Slot, tuple[Expr, ...]]:
    """The slot and the sub-program that a request needs beside its expression."""
    assert request.slot is not None
    if not isinstance(request, CoordinateRequest):
        return request.slot, ()
    adjoint, body = request.adjoint, request.coordinate.body
    inputs = (adjoint.inputs,) if request.wants_inputs else ()
    return request.slot, (body, adjoint.columns, *adjoint.scalars.values(), *inputs)


def _output(request: Request, register: int, lowered: Lowered) -> tuple[Any, ...]:
    if request.kind in ("sum", "row_sums", "column_sums"):
        return request.kind, register
    assert request.slot is not None
    slot = lowered.tables.slots[request.slot]
    if not isinstance(request, CoordinateRequest):
        return request.kind, register, slot
    subprogram = lowered.tables.bodies[_companion(request)[1]]
    value, columns, *rest = lowered.tables.results[subprogram]
    inputs = rest.pop() if request.wants_inputs else -1
    degree = request.coordinate.degree
    return request.kind, register, slot, subprogram, degree, value, inputs, columns, rest


_ROWWISE = frozenset({"row_sums", "dot_inputs", "distance_inputs"})


def _in_place(
    request: Request, result: Any, rows: slice, cols: slice, shape: tuple[int, int]
) -> Any:
    """The result of one block, with zeros for all other rows or columns."""
    if isinstance(request, CoordinateRequest):
        inputs, columns, scalars = result
        return inputs if inputs is None else _padded(inputs, rows, shape[0]), columns, scalars
    if request.kind in _ROWWISE:
        return _padded(result, rows, shape[0])
    return _padded(result, cols, shape[1]) if request.kind == "column_sums" else result


def _padded(part: Array, place: slice, n: int) -> Array:
    whole = np.zeros((n, *part.shape[1:]))
    whole[place] = part
    return whole


def _added(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(_added(*both) for both in zip(first, second, strict=True))
    return None if first is None else first + second
