"""Gradients: contractions of the derivative of a kernel with given weights.

For weights G (dense, low-rank or all ones) these are

    sum_ij G_ij dk(x_i, z_j)/dp          for every continuous parameter p, and
    sum_j  G_ij dk(x_i, z_j)/dx_i        for every row,

computed by one pass over the adjoint program, without a tensor of all derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import NotDifferentiableError
from mercer.program import reference
from mercer.program.expression import (
    DIFFERENCE,
    Diagonal,
    Expr,
    Slot,
    X,
    Z,
    cached_on_root,
    joint,
    parameter,
    substitute,
)
from mercer.program.pairs import Pairs, evaluate_scalars
from mercer.program.reverse import (
    CoordinateRequest,
    Request,
    propagated,
    reverse,
    reverse_coordinate,
)

Contract = Callable[[list[Request], Pairs, Any], list[Any]]
Gradients = dict[str, Array]


def parameter_gradient(
    roots: tuple[Expr, ...], pairs: Pairs, weights: Any, contract: Contract
) -> Gradients:
    """Contract the derivative in every continuous parameter; returns an array for each path."""
    gradients: Gradients = {}
    scalars, leaves, requests = _parameter_plan(roots)
    _refuse_sparse_columns(requests, pairs)
    results = contract(requests, pairs, weights) if requests else []
    _add_scalars(gradients, dict(zip(scalars, results, strict=False)), pairs)
    diagonals: dict[Expr, Array] = {}
    for leaf, request, result in zip(
        leaves, requests[len(scalars) :], results[len(scalars) :], strict=True
    ):
        if leaf.op in ("row", "column"):
            diagonals[leaf] = result
        else:
            _add_leaf(gradients, leaf, request, result, pairs)
    for bodies, own, seeds in _gathered(diagonals, pairs):
        more = parameter_gradient(bodies, own, seeds, reference.contract)
        for path, value in more.items():
            gradients[path] = np.array(gradients.get(path, 0.0) + value)
    return gradients


@cached_on_root
def _parameter_plan(roots: tuple[Expr, ...]) -> tuple[list[Expr], list[Expr], list[Request]]:
    """The scalars and the leaves that depend on parameters, and a request for each of them."""
    adjoint = reverse(*roots)
    requests = [Request("sum", tile) for tile in adjoint.scalars.values()]
    leaves = []
    for leaf, tile in adjoint.leaves.items():
        more = _parameter_requests(leaf, tile)
        leaves += [leaf] * len(more)
        requests += more
    return list(adjoint.scalars), leaves, requests


def _gathered(
    diagonals: dict[Expr, Array], pairs: Pairs
) -> Iterator[tuple[tuple[Expr, ...], Pairs, Any]]:
    """The diagonals of each side, to be differentiated together: nested ones have much in common.

    Yields their expressions, the pairs of each point with itself, and the adjoints.
    """
    for side, points in (("row", pairs.rows), ("column", pairs.cols)):
        adjoints = {leaf.attr.body: a for leaf, a in diagonals.items() if leaf.op == side}
        if adjoints:
            seeds: Any = list(adjoints.values())
            own = Pairs(points, points, pairs.values, same=True, aligned=True)
            yield tuple(adjoints), own, seeds if len(seeds) > 1 else seeds[0]


def input_gradient(root: Expr, pairs: Pairs, weights: Any, contract: Contract) -> Array:
    """Contract the derivative in the rows; returns an array shaped like the rows' data."""
    total = _input_gradient((root,), pairs, weights, contract)
    return np.broadcast_to(np.asarray(total), np.shape(pairs.rows.data)).copy()


def _input_gradient(roots: tuple[Expr, ...], pairs: Pairs, weights: Any, contract: Contract) -> Any:
    leaves = [
        (leaf, request)
        for leaf, tile in reverse(*roots).leaves.items()
        for request in _input_requests(leaf, tile)
    ]
    requests = [request for _, request in leaves]
    _refuse_sparse_columns(requests, pairs)
    results = contract(requests, pairs, weights) if requests else []
    total: Any = 0.0
    diagonals: dict[Expr, Array] = {}
    for (leaf, request), result in zip(leaves, results, strict=True):
        if leaf.op == "row":
            diagonals[leaf] = result
        else:
            slot = leaf.attr.slot if leaf.op == "coordinate" else leaf.attr
            part = result[0] if isinstance(request, CoordinateRequest) else result
            total = total + _to_data(slot, part, pairs)
    # A diagonal depends on the point through both arguments of its pair (x_i, x_i).
    for bodies, own, seeds in _gathered(diagonals, pairs):
        for both in (bodies, _exchanged(joint(bodies)).args):
            total = total + _input_gradient(both, own, seeds, reference.contract)
    return total


def _refuse_sparse_columns(requests: list[Request], pairs: Pairs) -> None:
    """Refuse sparse data of many columns, because a derivative per column is dense."""
    for request in requests:
        if request.kind != "sum" and request.slot is not None and pairs.is_sparse(request.slot):
            raise NotDifferentiableError(
                "the gradient in the inputs, or in one length-scale for each column, needs dense "
                "columns, got a sparse matrix; call X.toarray() first, or use one length_scale."
            )


def _parameter_requests(leaf: Expr, tile: Expr) -> list[Request]:
    if leaf.op == "coordinate":
        adjoint = reverse_coordinate(leaf.attr.body)
        if leaf.attr.slot.scale is None and not adjoint.scalars and not adjoint.weights:
            return []
        return [CoordinateRequest("coordinate_adjoint", tile, leaf.attr.slot, leaf.attr, adjoint)]
    if leaf.op in ("dot", "sparse_dot", "squared_distance"):
        return _scale_requests(leaf, tile)
    if leaf.op in ("row", "column") and isinstance(leaf.attr, Diagonal):
        return [Request("row_sums" if leaf.op == "row" else "column_sums", tile)]
    if leaf.op == "external" and leaf.attr.learns:
        raise NotDifferentiableError(
            f"{leaf.attr}: its parameters have no gradient, because its method could not be traced "
            "(or is not a traced kernel at all); hold them with Fixed(...), or choose them by a "
            "search."
        )
    return []


def _scale_requests(leaf: Expr, tile: Expr) -> list[Request]:
    """Both primitives are quadratic in the scale: a shared one needs only their sum."""
    scale = leaf.attr.scale
    if scale is None:
        return []
    if not scale.per_column:
        return [Request("sum", 2.0 * tile * leaf, leaf.attr)]
    if leaf.op == "squared_distance":
        return [Request("distance_scales", tile, leaf.attr)]
    return [Request("dot_inputs", tile, leaf.attr)]


def _add_leaf(
    gradients: Gradients, leaf: Expr, request: Request, result: Any, pairs: Pairs
) -> None:
    if isinstance(request, CoordinateRequest):
        _, columns, scalars = result
        if request.adjoint.weights:
            _add_scalars(gradients, dict(zip(request.adjoint.weights, columns, strict=True)), pairs)
        elif request.coordinate.slot.scale is not None:
            _add_scale(gradients, request.coordinate.slot, columns, pairs)
        _add_scalars(gradients, dict(zip(request.adjoint.scalars, scalars, strict=True)), pairs)
    elif request.kind == "dot_inputs":
        x, _ = reference.sides(leaf.attr, pairs)
        _add_scale(gradients, leaf.attr, 2.0 * np.einsum("ki,ik->k", x, result), pairs)
    else:
        _add_scale(gradients, leaf.attr, result, pairs)


def _add_scale(gradients: Gradients, slot: Slot, log_scale_adjoint: Any, pairs: Pairs) -> None:
    """From s dL/ds of each column to the parameter behind it: s = factor * value ** power."""
    scale = slot.scale
    assert scale is not None
    value = np.asarray(pairs.values[scale.path], dtype=float)
    part = np.asarray(log_scale_adjoint, dtype=float) * scale.power
    target = gradients.setdefault(scale.path, np.zeros(value.shape))
    row = ... if scale.row is None else scale.row
    if value[row].ndim == 0:
        part = part.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        target[row] += np.where(value[row] == 0, 0.0, part / value[row])


def _add_scalars(gradients: Gradients, sums: dict[Expr, float], pairs: Pairs) -> None:
    for (path, index), number in scalar_gradient(sums, pairs.values).items():
        shape = np.shape(pairs.values[path])
        gradients.setdefault(path, np.zeros(shape))[index] += number


def scalar_gradient(
    adjoints: Mapping[Expr, float], values: Mapping[str, Any]
) -> dict[tuple[Any, ...], float]:
    """Push the adjoints of scalar expressions down to the parameters they are made of.

    Returns the derivative for each parameter entry ``(path, index)``.
    """
    slopes = _slopes(tuple(adjoints))
    given = {**values, _ADJOINTS: list(adjoints.values())}
    return dict(zip(slopes, evaluate_scalars(tuple(slopes.values()), given), strict=True))


#: The path of the adjoints of scalars, as if they were a parameter.
_ADJOINTS = "(adjoints)"


@cached_on_root
def _slopes(roots: tuple[Expr, ...]) -> dict[tuple[Any, ...], Expr]:
    """The derivative in each parameter entry ``(path, index)``, given the adjoints of scalars."""
    seeds = {root: parameter(_ADJOINTS, i) for i, root in enumerate(roots)}
    adjoints = propagated(seeds, over_pairs=False)
    return {node.attr: adjoint for node, adjoint in adjoints.items() if node.op == "param"}


def _input_requests(leaf: Expr, tile: Expr) -> list[Request]:
    if leaf.op == "dot":
        return [Request("dot_inputs", tile, leaf.attr)]
    if leaf.op == "squared_distance":
        return [Request("distance_inputs", tile, leaf.attr)]
    if leaf.op == "coordinate":
        adjoint = reverse_coordinate(leaf.attr.body)
        return [
            CoordinateRequest("coordinate_adjoint", tile, leaf.attr.slot, leaf.attr, adjoint, True)
        ]
    if leaf.op == "row" and isinstance(leaf.attr, Diagonal):
        return [Request("row_sums", tile)]
    if leaf.op in ("row", "external", "sparse_dot"):
        raise NotDifferentiableError(
            "the gradient in the inputs needs traced kernels on dense numeric columns; this kernel "
            "holds a Python function, a structured kernel or sparse data."
        )
    return []


def _exchanged(root: Expr) -> Expr:
    """The expression with the roles of the two sides exchanged."""
    sides = {X: Z, Z: X, DIFFERENCE: DIFFERENCE * -1.0}

    def exchange(node: Expr) -> Expr | None:
        if node.op == "coordinate":
            body = substitute(node.attr.body, sides.get)
            return Expr("coordinate", (), replace(node.attr, body=body))
        if node.op in ("row", "column"):
            return Expr("column" if node.op == "row" else "row", (), node.attr)
        return None

    return substitute(root, exchange)


def _to_data(slot: Slot, part: Array, pairs: Pairs) -> Array:
    """From a gradient in the scaled columns of a slot to one in the columns of the data."""
    scale = pairs.scale(slot, part.shape[1])
    return np.asarray(pairs.rows.pull_back(slot.view, part if scale is None else part * scale))
