"""The engine executor: lowers expressions, packs the data and calls the native code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mercer import _core, memory
from mercer.exceptions import DataError
from mercer.parallel import thread_count
from mercer.program.expression import (
    DIFFERENCE,
    IDENTITY,
    SEED,
    Coordinate,
    Diagonal,
    Expr,
    Slot,
    cached_on_root,
    constant,
    substitute,
    walk,
)
from mercer.program.lower import Lowered, lower
from mercer.program.operations import apply
from mercer.program.pairs import Array, Pairs
from mercer.program.requests import CoordinateRequest, Request

#: Rows and columns of the blocks in which leaves that Python evaluates are brought into memory.
BLOCK = 1024

_SINGLE: np.dtype[Any] = np.dtype(np.float32)
_DOUBLE: np.dtype[Any] = np.dtype(np.float64)

_CACHE_LINE = 64
_LARGE = 2**24

#: The leaf of a dense matrix of weights, and the slot of the two factors of a low-rank one.
WEIGHTS = "weights"
FACTORS = Slot("factors")


def gram(root: Expr, pairs: Pairs) -> Array:
    """The matrix of all pairs."""
    given = floating_type(root, pairs)
    root, dtype = _specialise(root, pairs)
    lowered = lower((root,))
    shape = pairs.shape
    memory.require_matrix(shape, dtype.itemsize)
    out = _empty(shape, dtype)
    if not lowered.blocks:
        _fill(out, lowered, pairs, dtype, symmetric=pairs.rows is pairs.cols)
        return out.astype(given, copy=False)
    symmetric = pairs.rows is pairs.cols
    for rows, cols, part in _parts(lowered, pairs):
        if symmetric and cols.start < rows.start:
            out[rows, cols] = out[cols, rows].T
        else:
            _fill(out[rows, cols], lowered, part, dtype, symmetric=False)
    return out.astype(given, copy=False)


def _fill(
    out: Array, lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], *, symmetric: bool
) -> None:
    scalars, rows, cols, blocks = _bind(lowered, pairs, dtype)
    result = lowered.results[0]
    _core.gram(lowered.program, result, scalars, rows, cols, blocks, out, symmetric, thread_count())


def _empty(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """An array to be filled; a large one starts at a cache line, for stores past the cache."""
    size = shape[0] * shape[1] * dtype.itemsize
    if size < _LARGE:
        return np.empty(shape, dtype)
    buffer = np.empty(size + _CACHE_LINE, np.uint8)
    start = -buffer.__array_interface__["data"][0] % _CACHE_LINE
    return buffer[start : start + size].view(dtype).reshape(shape)


def product(root: Expr, pairs: Pairs, vectors: Array) -> Array:
    """K @ V without K: shape (n, r)."""
    given = floating_type(root, pairs)
    root, dtype = _specialise(root, pairs)
    lowered = lower((root,))
    vectors = np.ascontiguousarray(vectors, dtype)
    if not lowered.blocks:
        out = _multiply(_core.product, lowered, pairs, dtype, vectors)
        return out.astype(given, copy=False)
    out = np.zeros((pairs.shape[0], vectors.shape[1]))
    for rows, cols, part in _parts(lowered, pairs):
        out[rows] += _multiply(_core.product, lowered, part, dtype, vectors[cols])
    return out.astype(given, copy=False)


def normal_product(root: Expr, pairs: Pairs, vectors: Array) -> Array:
    """K.T @ (K @ V) with one evaluation of each pair: shape (m, r)."""
    given = floating_type(root, pairs)
    root, dtype = _specialise(root, pairs)
    lowered = lower((root,))
    vectors = np.ascontiguousarray(vectors, dtype)
    if not lowered.blocks:
        return _multiply(_core.normal_product, lowered, pairs, dtype, vectors).astype(
            given, copy=False
        )
    out = np.zeros((pairs.shape[1], vectors.shape[1]))
    for rows in _ranges(pairs.shape[0]):
        part = pairs.block(rows, slice(0, pairs.shape[1]))
        out += _multiply(_core.normal_product, lowered, part, dtype, vectors)
    return out.astype(given, copy=False)


def total(root: Expr, pairs: Pairs, weights: Any = None) -> float:
    """The sum of all entries, each times its weight, in float64."""
    (result,) = contract([Request("sum", root * SEED)], pairs, weights, _DOUBLE)
    return float(result)


def contract(
    requests: list[Request], pairs: Pairs, weights: Any, dtype: np.dtype[Any] | None = None
) -> list[Any]:
    """Sum adjoint expressions over the pairs; weights are a matrix, (U, V) or None (ones)."""
    seed = _seed(weights)
    everything = [_specialise(_seeded(r.expression, seed), pairs) for r in requests]
    lowered = lower(
        tuple(e for e, _ in everything), tuple(_companion(r) for r in requests if r.slot)
    )
    dtype = dtype or np.result_type(_SINGLE, *(d for _, d in everything))
    outputs = [_output(r, reg, lowered) for r, reg in zip(requests, lowered.results, strict=True)]
    total: list[Any] = []
    for rows, cols, part in _parts(lowered, pairs):
        arguments = _bind(lowered, part, dtype, _cut(weights, rows, cols))
        results = _core.contract(lowered.program, *arguments, outputs, thread_count())
        total = _accumulate(total, results, requests, rows, cols, pairs.shape)
    return total


# Specialisation to the data
# -----------------------------------------------------------------------------


def _specialise(root: Expr, pairs: Pairs) -> tuple[Expr, np.dtype[Any]]:
    """Choose the floating type, and rewrite leaves into the primitives that serve best."""
    sparse = frozenset(
        s for s in slots_of(root) if type(pairs.cols.matrix(s.view)) is not np.ndarray
    )
    dtype = floating_type(root, pairs)
    if any(Expr("squared_distance", (), slot) in nodes_of(root) for slot in sparse):
        # Norms and products of uncentred rows cancel: float32 would leave no digits.
        dtype = _DOUBLE
    return _fold_scales(_sparsify(_wind(root), sparse)), dtype


def floating_type(root: Expr, pairs: Pairs) -> np.dtype[Any]:
    """Return float32 where all the data are, float64 everywhere else."""
    sources, slots = sources_of(root), slots_of(root)
    single = bool(slots or sources) and all(s.is_single(pairs) for s in sources)
    for slot in slots:
        single = single and pairs.cols.matrix(slot.view).dtype == _SINGLE
        if pairs.rows is not pairs.cols:
            single = single and pairs.rows.matrix(slot.view).dtype == _SINGLE
    return _SINGLE if single else _DOUBLE


@cached_on_root
def slots_of(root: Expr) -> tuple[Slot, ...]:
    """The slots that an expression reads, without those of low-rank weights."""
    found: dict[Slot, None] = {}
    for node in walk((root,)):
        if isinstance(node.attr, Slot) and node.attr is not FACTORS:
            found[node.attr] = None
        elif isinstance(node.attr, Coordinate):
            found[node.attr.slot] = None
    return tuple(found)


@cached_on_root
def nodes_of(root: Expr) -> frozenset[Expr]:
    """All nodes of an expression."""
    return frozenset(walk((root,)))


@cached_on_root
def sources_of(root: Expr) -> tuple[Any, ...]:
    """The leaves that Python evaluates, without dense weights."""
    return tuple(n.attr for n in walk((root,)) if n.op == "external" and n.attr != WEIGHTS)


@cached_on_root
def _wind(root: Expr) -> Expr:
    """sum_k sin^2(s (x_k - z_k)) is a squared distance on circles: no sine for every pair."""

    def rewrite(node: Expr) -> Expr | None:
        if node.op != "coordinate" or node.attr.degree != 1:
            return None
        angle = _squared_sine(node.attr.body)
        slot: Slot = node.attr.slot
        if angle is None or slot.scale is not None:
            return None
        return Expr("squared_distance", (), Slot(slot.view, angle=angle))

    return substitute(root, rewrite)


def _squared_sine(body: Expr) -> Expr | None:
    """Return s when a coordinate function is sin^2(s (x - z))."""
    if body.op != "multiply" or body.args[0] is not body.args[1] or body.args[0].op != "sin":
        return None
    (argument,) = body.args[0].args
    if argument is DIFFERENCE:
        return constant(1.0)
    if argument.op == "multiply" and argument.args[0] is DIFFERENCE:
        return None if argument.args[1].is_pair else argument.args[1]
    return None


@cached_on_root
def _fold_scales(root: Expr) -> Expr:
    """Rewrite exp(-c d) as 2^-(d'), where the scale of the data holds the constant c log2(e).

    Other readers of a distance whose scale has changed see the new one times a constant.
    """
    nodes = walk((root,))
    readers = Counter(argument for node in nodes for argument in node.args)
    replaced: dict[Expr, Expr] = {}
    for node in nodes:
        terms = _distances(node.args[0]) if node.op == "exp" else None
        if terms is None or any(readers[_leaf_of(distance)] > 1 for distance, _ in terms):
            continue
        factors = [c * math.log2(math.e) for _, c in terms]
        stretched = [_stretched(d, f) for (d, _), f in zip(terms, factors, strict=True)]
        replaced[node] = Expr("decay", (sum(stretched[1:], start=stretched[0]),))
        for (distance, _), new, factor in zip(terms, stretched, factors, strict=True):
            replaced[distance] = new * (1 / factor)
    return substitute(root, replaced.get)


def _distances(exponent: Expr) -> list[tuple[Expr, float]] | None:
    """Return [(distance, c), ...] if an exponent is -c1 d1 - c2 d2 ... for positive constants."""
    if exponent.op == "add":
        parts = [_distances(argument) for argument in exponent.args]
        return None if None in parts else [term for part in parts for term in part or ()]
    distance, factor = _constant_factor(exponent)
    return [(distance, -factor)] if factor < 0 and _scale_power(distance) else None


def _constant_factor(node: Expr) -> tuple[Expr, float]:
    if node.op == "multiply" and node.args[1].op == "const":
        return node.args[0], node.args[1].attr
    return node, 1.0


def _leaf_of(distance: Expr) -> Expr:
    return _constant_factor(distance.args[0])[0] if distance.op == "sqrt" else distance


def _scale_power(distance: Expr) -> int:
    """The power of the scale in a distance: 2 if squared, 1 if not; 0 for what is no distance."""
    if distance.op == "sqrt":
        return 1 if _scale_power(_leaf_of(distance)) == 2 else 0
    if distance.op == "squared_distance" and distance.attr.scale is not None:
        return 2
    if distance.op == "coordinate" and distance.attr.body is abs(DIFFERENCE):
        return 1 if distance.attr.slot.scale is not None and distance.attr.degree == 1 else 0
    return 0


def _stretched(distance: Expr, factor: float) -> Expr:
    """The distance times a positive constant, by way of the scale of the data."""
    if distance.op == "sqrt":
        square, constant_ = _constant_factor(distance.args[0])
        return apply("sqrt", _stretched(square, constant_ * factor * factor))
    leaf = distance.attr
    slot: Slot = leaf if distance.op == "squared_distance" else leaf.slot
    assert slot.scale is not None
    stretch = factor ** (1 / _scale_power(distance))
    slot = replace(slot, scale=replace(slot.scale, factor=slot.scale.factor * stretch))
    return Expr(distance.op, (), slot if isinstance(leaf, Slot) else replace(leaf, slot=slot))


@cached_on_root
def _sparsify(root: Expr, sparse: frozenset[Slot]) -> Expr:
    """Rewrite |x - z|^2 = |x|^2 + |z|^2 - 2 x.z for sparse rows, clipped, and 0 for one row."""

    def rewrite(node: Expr) -> Expr | None:
        if not isinstance(node.attr, Slot) or node.attr not in sparse:
            return None
        dot = Expr("sparse_dot", (), node.attr)
        if node.op != "squared_distance":
            return dot
        norm = Diagonal(dot)
        squared = Expr("row", (), norm) + Expr("column", (), norm) - 2.0 * dot
        return apply("maximum", squared, 0.0) * (1.0 - IDENTITY)

    return substitute(root, rewrite)


def _seed(weights: Any) -> Expr:
    if weights is None:
        return constant(1.0)
    return Expr("dot", (), FACTORS) if isinstance(weights, tuple) else Expr("external", (), WEIGHTS)


def _seeded(expression: Expr, seed: Expr) -> Expr:
    return substitute(expression, lambda node: seed if node is SEED else None)


# Binding
# ------------------------------------------------------------------------------------------------


def _bind(
    lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], weights: Any = None
) -> tuple[Array, Any, Any, list[Array]]:
    """Return scalars, the two sides and the blocks, in the order the engine takes them."""
    scalars = pairs.values.scalars(lowered.scalars)
    slots = [_panels(slot, pairs, dtype, weights) for slot in lowered.slots]
    cols = _side(pairs.cols, [b for _, b in slots], lowered, pairs, dtype)
    # Low-rank weights have different factors on the two sides even of one collection.
    if pairs.rows is pairs.cols and FACTORS not in lowered.tables.slots:
        rows = cols
    else:
        rows = _side(pairs.rows, [a for a, _ in slots], lowered, pairs, dtype)
    blocks = [
        np.ascontiguousarray(weights if b == WEIGHTS else b.block(pairs), dtype)
        for b in lowered.blocks
    ]
    return scalars, rows, cols, blocks


def _side(
    points: Any, slots: list[Any], lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any]
) -> Any:
    vectors = [np.ascontiguousarray(pairs.vector(v, points), dtype) for v in lowered.vectors]
    return _core.Side(
        len(points), slots, vectors, points.ids if pairs.same and lowered.compares_rows else None
    )


def _panels(slot: Slot, pairs: Pairs, dtype: np.dtype[Any], weights: Any) -> tuple[Any, Any]:
    """Both sides of a slot as the engine stores them, from the points' cache where they are."""
    if slot is FACTORS:
        u, v = (np.ascontiguousarray(w, dtype) for w in weights)
        return _core.pack(u, None, None), _core.pack(v, None, None)
    a, b = pairs.matrices(slot.view)
    centre, scale = pairs.centre(slot), pairs.scale(slot, b.shape[1])
    if slot.angle is not None:
        b = pairs.wound(slot, b)
        a = b if pairs.rows is pairs.cols else pairs.wound(slot, a)
        return tuple(_pack(m, None, None, dtype) for m in (a, b))
    if pairs.rows is pairs.cols:
        both = _packed(pairs.cols, slot, b, centre, scale, dtype)
        return both, both
    return (
        _pack(a, centre, scale, dtype),
        _packed(pairs.cols, slot, b, centre, scale, dtype),
    )


def _packed(
    points: Any, slot: Slot, matrix: Any, centre: Any, scale: Any, dtype: np.dtype[Any]
) -> Any:
    """Pack the columns' side once: models predict against the same points again and again."""
    key = (None if scale is None else scale.tobytes(), dtype)
    found = points.packs.get(slot)
    if found is None or found[0] != key:
        found = points.packs[slot] = (key, _pack(matrix, centre, scale, dtype))
    return found[1]


def _pack(matrix: Any, centre: Any, scale: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(matrix, np.ndarray):
        panels = _core.pack(_as_type(matrix, dtype), centre, scale)
        if not _core.all_finite(panels.reshape(-1)):
            raise DataError(
                f"the data divided by their length-scale exceed the range of {dtype}; use a larger "
                "length_scale, rescale the data, or pass float64."
            )
        return panels
    values = matrix.data if scale is None else matrix.data * scale[matrix.indices]
    indptr, indices = (np.ascontiguousarray(i, np.int64) for i in (matrix.indptr, matrix.indices))
    return indptr, indices, np.ascontiguousarray(values, dtype), matrix.shape[1]


def _as_type(matrix: Array, dtype: np.dtype[Any]) -> Array:
    return matrix if matrix.dtype == dtype else matrix.astype(dtype)


def _multiply(
    function: Any, lowered: Lowered, pairs: Pairs, dtype: np.dtype[Any], vectors: Array
) -> Array:
    arguments = _bind(lowered, pairs, dtype)
    result: Array = function(
        lowered.program, lowered.results[0], *arguments, vectors, thread_count()
    )
    return result


# Blocks
# -------------------------------------------------------------------------------------------------


def _parts(lowered: Lowered, pairs: Pairs) -> Iterator[tuple[slice, slice, Pairs]]:
    """All pairs at once, or in blocks when Python has to evaluate a leaf."""
    n, m = pairs.shape
    if all(b == WEIGHTS for b in lowered.blocks):
        yield slice(0, n), slice(0, m), pairs
        return
    for rows in _ranges(n):
        for cols in _ranges(m):
            yield rows, cols, pairs.block(rows, cols)


def _ranges(n: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


def _cut(weights: Any, rows: slice, cols: slice) -> Any:
    if isinstance(weights, tuple):
        return weights[0][rows], weights[1][cols]
    return None if weights is None else weights[rows, cols]


# Contractions
# -------------------------------------------------------------------------------------------


def _companion(request: Request) -> tuple[Slot, tuple[Expr, ...]]:
    """The slot and the sub-program that a request needs beside its expression."""
    assert request.slot is not None
    if not isinstance(request, CoordinateRequest):
        return request.slot, ()
    adjoint = request.adjoint
    inputs = (adjoint.inputs,) if request.wants_inputs else ()
    return request.slot, (
        request.coordinate.body,
        adjoint.scales,
        *adjoint.scalars.values(),
        *inputs,
    )


def _output(request: Request, register: int, lowered: Lowered) -> tuple[Any, ...]:
    if request.kind in ("sum", "row_sums", "column_sums"):
        return request.kind, register
    assert request.slot is not None
    slot = lowered.tables.slots[request.slot]
    if not isinstance(request, CoordinateRequest):
        return request.kind, register, slot
    subprogram = lowered.tables.bodies[_companion(request)[1]]
    value, scales, *rest = lowered.tables.results[subprogram]
    inputs = rest.pop() if request.wants_inputs else -1
    degree = request.coordinate.degree
    return request.kind, register, slot, subprogram, degree, value, inputs, scales, rest


_ROWWISE = frozenset({"row_sums", "dot_inputs", "distance_inputs"})


def _accumulate(
    total: list[Any],
    results: list[Any],
    requests: list[Request],
    rows: slice,
    cols: slice,
    shape: tuple[int, int],
) -> list[Any]:
    """Add the results of one block to those of the whole."""
    if not total:
        if (rows.stop - rows.start, cols.stop - cols.start) == shape:
            return list(results)
        total = [
            _zeros(request, result, shape)
            for request, result in zip(requests, results, strict=True)
        ]
    for i, (request, result) in enumerate(zip(requests, results, strict=True)):
        if request.kind in _ROWWISE:
            total[i][rows] += result
        elif request.kind == "column_sums":
            total[i][cols] += result
        elif isinstance(request, CoordinateRequest):
            inputs, scales, scalars = result
            if inputs is not None:
                total[i][0][rows] += inputs
            total[i] = (total[i][0], total[i][1] + scales, total[i][2] + scalars)
        else:
            total[i] = total[i] + result
    return total


def _zeros(request: Request, result: Any, shape: tuple[int, int]) -> Any:
    if request.kind in _ROWWISE:
        return np.zeros((shape[0], *result.shape[1:]))
    if request.kind == "column_sums":
        return np.zeros(shape[1])
    if isinstance(request, CoordinateRequest):
        inputs = None if result[0] is None else np.zeros((shape[0], result[0].shape[1]))
        return inputs, 0.0, 0.0
    return 0.0
