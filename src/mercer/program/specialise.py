"""Rewriting an expression into the primitives that are fastest for the data.

The rewritten expression has the same value. It is made once per expression and kind of data: sparse
rows use only inner products, zeros and ones are packed into bits, periodic distances become
distances on circles, and constant factors of distances move into the scale of the data, out of
every pair.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mercer.program.bits import in_bits
from mercer.program.expression import (
    DIFFERENCE,
    IDENTITY,
    Coordinate,
    Diagonal,
    Expr,
    Slot,
    cached_on_root,
    constant,
    substitute,
    walk,
)
from mercer.program.operations import apply
from mercer.program.pairs import DOUBLE, FACTORS, SINGLE, WEIGHTS, Pairs


class Reads(NamedTuple):
    """The data that an expression reads, without weights."""

    slots: tuple[Slot, ...]
    sources: tuple[Any, ...]
    distances: frozenset[Slot]
    products: frozenset[Slot]
    cancels: bool


class Specialised(NamedTuple):
    """An expression for the data at hand, the type to compute in, and that of the result."""

    root: Expr
    computed: np.dtype[Any]
    given: np.dtype[Any]


@cached_on_root
def reads(root: Expr) -> Reads:
    """Find the slots, the leaves that Python evaluates, and the slots of each primitive."""
    slots: dict[Slot, None] = {}
    sources, cancels = [], False
    primitives: dict[str, list[Slot]] = {"squared_distance": [], "dot": []}
    for node in walk((root,)):
        if node.op == "external" and node.attr != WEIGHTS:
            sources.append(node.attr)
        elif node.op == "exp" and node.args[0].op == "subtract":
            # The exponent of a cosine: a large number from which its diagonal is taken.
            below = walk(node.args[0].args[1:])
            cancels = cancels or any(isinstance(leaf.attr, Diagonal) for leaf in below)
        elif isinstance(node.attr, Coordinate):
            slots[node.attr.slot] = None
        elif isinstance(node.attr, Slot) and node.attr is not FACTORS:
            slots[node.attr] = None
            primitives.setdefault(node.op, []).append(node.attr)
    distances, products = (frozenset(primitives[op]) for op in ("squared_distance", "dot"))
    return Reads(tuple(slots), tuple(sources), distances, products, cancels)


def floating_type(root: Expr, pairs: Pairs) -> np.dtype[Any]:
    """Return float32 where all the data are, float64 everywhere else."""
    return specialise(root, pairs).given


def specialise(root: Expr, pairs: Pairs, *, narrow: bool = False) -> Specialised:
    """Choose the floating types, and rewrite leaves into the fastest primitives.

    The result is in float32 with ``narrow``, or if all the data are in float32.
    """
    slots, sources, distances, products, cancels = reads(root)
    single = bool(slots or sources)
    for source in sources:
        single = single and source.is_single(pairs)
    sparse = []
    for slot in slots:
        matrix = pairs.cols.matrix(slot.view)
        single = single and matrix.dtype == SINGLE
        if pairs.rows is not pairs.cols:
            single = single and pairs.rows.matrix(slot.view).dtype == SINGLE
        if type(matrix) is not np.ndarray:
            sparse.append(slot)
    result = SINGLE if single or narrow else DOUBLE
    # Norms and products of uncentred rows cancel, which would leave no digits in float32.
    computed = DOUBLE if not distances.isdisjoint(sparse) else result
    if computed == SINGLE and (cancels or any(map(pairs.is_spread, slots))):
        computed = DOUBLE
    root = _rewritten(root, frozenset(sparse))
    return Specialised(in_bits(root, products, pairs) if products else root, computed, result)


@cached_on_root
def _rewritten(root: Expr, sparse: frozenset[Slot]) -> Expr:
    return _fold_scales(_sparsify(_on_circles(root), sparse))


def _on_circles(root: Expr) -> Expr:
    """sum_k sin^2(s (x_k - z_k)) is a squared distance on circles: no sine for every pair."""

    def rewrite(node: Expr) -> Expr | None:
        if node.op != "coordinate" or node.attr.degree != 1:
            return None
        body, weights = node.attr.body, ()
        if body.op == "multiply" and body.args[0].op == "weight":
            weights, body = body.args[0].attr, body.args[1]
        frequency = _squared_sine(body)
        slot: Slot = node.attr.slot
        if frequency is None or slot.scale is not None:
            return None
        return Expr("squared_distance", (), Slot(slot.view, on_circle=frequency, weights=weights))

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


def _sparsify(root: Expr, sparse: frozenset[Slot]) -> Expr:
    """Rewrite |x - z|^2 = |x|^2 + |z|^2 - 2 x.z for sparse rows, clipped, and 0 for one row."""

    def rewrite(node: Expr) -> Expr | None:
        if not isinstance(node.attr, Slot) or node.attr not in sparse:
            return None
        # Sparse rows stay where they are, and so must dense ones on the other side of the pairs.
        dot = Expr("sparse_dot", (), replace(node.attr, centred=False))
        if node.op != "squared_distance":
            return dot
        norm = Diagonal(dot)
        squared = Expr("row", (), norm) + Expr("column", (), norm) - 2.0 * dot
        return apply("maximum", squared, 0.0) * (1.0 - IDENTITY)

    return substitute(root, rewrite)
