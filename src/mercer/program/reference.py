"""The NumPy executor: the readable meaning of an expression.

It shares no code with the engine, evaluates whole blocks, and serves three purposes: the oracle
that the engine is tested against, the diagonal (pairs of each point with itself), and a place to
read what an instruction means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.program.expression import Coordinate, Expr, Slot, walk
from mercer.program.operations import TABLE
from mercer.program.pairs import Pairs, evaluate_scalars
from mercer.program.reverse import CoordinateRequest, Request
from mercer.program.specialise import floating_type


def evaluate(root: Expr, pairs: Pairs, seed: Any = None) -> Array:
    """Evaluate an expression at all pairs: shape (n, m), or (n,) for aligned pairs."""
    return evaluate_all((root,), pairs, seed)[0]


def evaluate_all(roots: tuple[Expr, ...], pairs: Pairs, seed: Any = None) -> list[Array]:
    """Evaluate several expressions, sharing what they have in common."""
    shape = (pairs.shape[0],) if pairs.aligned else pairs.shape
    known: dict[Expr, Any] = {}
    nodes = walk(roots)
    with np.errstate(all="ignore"):
        for side, points in (("row", pairs.rows), ("column", pairs.cols)):
            leaves = [node for node in nodes if node.op == side]
            vectors = pairs.vectors([leaf.attr for leaf in leaves], points) if leaves else []
            known.update(zip(leaves, (_spread(v, side, pairs) for v in vectors), strict=True))
        for node in nodes:
            if node not in known:
                known[node] = _value(node, known, pairs, seed)
    return [np.broadcast_to(known[root], shape) for root in roots]


def diagonal(root: Expr, pairs: Pairs) -> Array:
    """Evaluate an expression at aligned pairs, in the floating type of its matrix."""
    return np.array(evaluate(root, pairs), dtype=floating_type(root, pairs))


def contract(requests: list[Request], pairs: Pairs, seed: Any) -> list[Any]:
    """Sum adjoint expressions over the pairs, as each request asks."""
    tiles = evaluate_all(tuple(r.expression for r in requests), pairs, seed)
    return [_REDUCE[r.kind](r, tile, pairs) for r, tile in zip(requests, tiles, strict=True)]


def _value(node: Expr, known: dict[Expr, Any], pairs: Pairs, seed: Any) -> Any:
    if node.op in ("const", "param"):
        return evaluate_scalars((node,), pairs.values)[0]
    if node.op in ("lookup", "lookup_slope"):
        table = node.attr if node.op == "lookup" else node.attr.slope
        return table(known[node.args[0]])
    if node.args:
        return TABLE[node.op].value(*(known[a] for a in node.args))
    if node.op == "seed":
        return seed if node.attr is None else seed[node.attr]
    return _LEAVES[node.op](node, pairs)


def sides(slot: Slot, pairs: Pairs) -> tuple[Array, Array]:
    """Both sides of a slot, centred and scaled, as (columns, points)."""
    a, b = (_dense(m) for m in pairs.matrices(slot.view))
    centre, scale = pairs.centre(slot), pairs.scale(slot, b.shape[1])
    if centre is not None:
        a, b = a - centre, b - centre
    if scale is not None:
        a, b = a * scale, b * scale
    return a.T, b.T


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), dtype=float)


def _columns(slot: Slot, pairs: Pairs) -> list[tuple[Array, Array]]:
    """For every column, the values of both sides in a shape that broadcasts to the pairs."""
    x, z = sides(slot, pairs)
    if pairs.aligned:
        return list(zip(x, z, strict=True))
    return [(a[:, None], b[None, :]) for a, b in zip(x, z, strict=True)]


def _dot(node: Expr, pairs: Pairs) -> Any:
    if pairs.aligned and pairs.is_sparse(node.attr):
        a, b = pairs.matrices(node.attr.view)
        return _sparse_products(a.astype(float), b.astype(float), node.attr, pairs)
    x, z = sides(node.attr, pairs)
    return np.einsum("ki,ki->i", x, z) if pairs.aligned else x.T @ z


def _sparse_products(a: Any, b: Any, slot: Slot, pairs: Pairs) -> Array:
    """Inner products of aligned sparse rows, which stay sparse."""
    scale = pairs.scale(slot, b.shape[1])
    weights = np.ones(b.shape[1]) if scale is None else scale * scale
    return np.asarray(a.multiply(b).tocsr() @ weights)


def _bit_dot(node: Expr, pairs: Pairs) -> Any:
    a, b = pairs.matrices(node.attr.view)
    common = a & b if pairs.aligned else a[:, None] & b
    return np.bitwise_count(common).sum(axis=-1, dtype=float)


def _squared_distance(node: Expr, pairs: Pairs) -> Any:
    if pairs.aligned and pairs.rows is pairs.cols:
        return 0.0
    if pairs.aligned and pairs.is_sparse(node.attr):
        a, b = pairs.matrices(node.attr.view)
        difference = a.astype(float) - b.astype(float)
        return _sparse_products(difference, difference, node.attr, pairs)
    return sum(((a - b) ** 2 for a, b in _columns(node.attr, pairs)), start=np.zeros(()))


def _coordinate(node: Expr, pairs: Pairs) -> Any:
    leaf: Coordinate = node.attr
    return elementary(_column_values(leaf, pairs), leaf.degree)[-1]


def _column_values(leaf: Coordinate, pairs: Pairs) -> list[Any]:
    columns = enumerate(_columns(leaf.slot, pairs))
    return [_body(leaf.body, k, a, b, pairs) for k, (a, b) in columns]


def _body(body: Expr, column: int, x: Array, z: Array, pairs: Pairs, seed: Any = None) -> Any:
    known: dict[Expr, Any] = {}
    for node in walk((body,)):
        if node.op in ("x", "z", "difference"):
            known[node] = {"x": x, "z": z, "difference": x - z}[node.op]
        elif node.op == "weight":
            known[node] = pairs.values.scalars(node.attr)[column]
        else:
            known[node] = _value(node, known, pairs, seed)
    return known[body]


def elementary(values: list[Any], degree: int) -> list[Any]:
    """Elementary symmetric polynomials of degrees 0..degree; for degree 0 the product of all."""
    if degree == 0:
        product: Any = 1.0
        for value in values:
            product = product * value
        return [product]
    states: list[Any] = [1.0] + [0.0] * degree
    for value in values:
        for m in range(degree, 0, -1):
            states[m] = states[m] + value * states[m - 1]
    return states


def _spread(vector: Array, side: str, pairs: Pairs) -> Array:
    """A number for each row or column in a shape that broadcasts to the pairs."""
    if pairs.aligned:
        return vector
    return vector[:, None] if side == "row" else vector[None, :]


def _identity(node: Expr, pairs: Pairs) -> Any:
    if not pairs.same:
        return 0.0
    if pairs.aligned:
        return (pairs.rows.ids == pairs.cols.ids) * 1.0
    return (pairs.rows.ids[:, None] == pairs.cols.ids[None, :]) * 1.0


def _external(node: Expr, pairs: Pairs) -> Array:
    return np.asarray(node.attr.diagonal(pairs) if pairs.aligned else node.attr.block(pairs))


_LEAVES: dict[str, Any] = {
    "dot": _dot,
    "sparse_dot": _dot,
    "bit_dot": _bit_dot,
    "squared_distance": _squared_distance,
    "coordinate": _coordinate,
    "identity": _identity,
    "external": _external,
}


def _dot_inputs(request: Request, tile: Array, pairs: Pairs) -> Array:
    assert request.slot is not None
    _, z = sides(request.slot, pairs)
    return tile[:, None] * z.T if pairs.aligned else tile @ z.T


def _distance_inputs(request: Request, tile: Array, pairs: Pairs) -> Array:
    assert request.slot is not None
    parts = [2.0 * tile * (a - b) for a, b in _columns(request.slot, pairs)]
    return _stack([p if pairs.aligned else p.sum(axis=1) for p in parts], pairs)


def _distance_scales(request: Request, tile: Array, pairs: Pairs) -> Array:
    assert request.slot is not None
    return np.array([(2.0 * tile * (a - b) ** 2).sum() for a, b in _columns(request.slot, pairs)])


def _coordinate_adjoint(request: Request, tile: Array, pairs: Pairs) -> tuple[Array, Array, Array]:
    assert isinstance(request, CoordinateRequest)
    leaf, adjoint = request.coordinate, request.adjoint
    values = _column_values(leaf, pairs)
    inputs, columns, scalars = [], [], np.zeros(len(adjoint.scalars))
    for k, (a, b) in enumerate(_columns(leaf.slot, pairs)):
        others = values[:k] + values[k + 1 :]
        seed = tile * elementary(others, max(leaf.degree - 1, 0))[-1] if leaf.degree != 1 else tile
        part = np.broadcast_to(_body(adjoint.inputs, k, a, b, pairs, seed), tile.shape)
        inputs.append(part if pairs.aligned else part.sum(axis=1))
        part = np.broadcast_to(_body(adjoint.columns, k, a, b, pairs, seed), tile.shape)
        columns.append(part.sum())
        for p, body in enumerate(adjoint.scalars.values()):
            scalars[p] += np.broadcast_to(_body(body, k, a, b, pairs, seed), tile.shape).sum()
    return _stack(inputs, pairs), np.array(columns), scalars


def _stack(columns: list[Array], pairs: Pairs) -> Array:
    return np.stack(columns, axis=1) if columns else np.zeros((pairs.shape[0], 0))


_REDUCE: dict[str, Any] = {
    "sum": lambda request, tile, pairs: float(tile.sum()),
    "row_sums": lambda request, tile, pairs: tile if pairs.aligned else tile.sum(axis=1),
    "column_sums": lambda request, tile, pairs: tile if pairs.aligned else tile.sum(axis=0),
    "dot_inputs": _dot_inputs,
    "distance_inputs": _distance_inputs,
    "distance_scales": _distance_scales,
    "coordinate_adjoint": _coordinate_adjoint,
}
