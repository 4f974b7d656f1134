"""Reverse-mode differentiation, done once on the expression instead of for every pair.

The adjoint of an expression consists of expressions over pairs, so that the engine runs it like any
other program and only has to sum the results.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercer.program.expression import (
    DIFFERENCE,
    SEED,
    Coordinate,
    Expr,
    Slot,
    X,
    Z,
    cached_on_root,
    constant,
    walk,
)
from mercer.program.operations import differentiate


@dataclass(frozen=True)
class Adjoint:
    """Adjoints of an expression, given that of its value (`SEED`)."""

    # for each scalar that pairs use, the pair expression whose sum over all pairs is its adjoint
    scalars: dict[Expr, Expr]
    # for each leaf (primitive, coordinate function, row or column vector, ...), its adjoint
    leaves: dict[Expr, Expr]


def reverse(root: Expr) -> Adjoint:
    """Return the adjoints of the scalars and leaves of an expression over pairs."""
    if not root.is_pair:
        return Adjoint({root: SEED}, {})
    adjoints: dict[Expr, Expr] = {root: SEED}
    scalars: dict[Expr, Expr] = {}
    leaves: dict[Expr, Expr] = {}
    for node in reversed([n for n in walk((root,)) if n.is_pair]):
        adjoint = adjoints.get(node)
        if adjoint is None:
            continue
        if not node.args:
            leaves[node] = adjoint
            continue
        for position, argument in enumerate(node.args):
            if argument.op == "const":
                continue
            part = differentiate(node, position, adjoint)
            if part is None:
                continue
            target = adjoints if argument.is_pair else scalars
            target[argument] = target[argument] + part if argument in target else part
    return Adjoint(scalars, leaves)


@dataclass(frozen=True, eq=False)
class CoordinateAdjoint:
    """The adjoint of one column of a coordinate function.

    ``inputs`` is the adjoint of x, ``columns`` that of the column's weight or, without weights, of
    the logarithm of its scale, ``scalars`` the scalars used inside; `SEED` stands for the adjoint
    of the column's value.
    """

    inputs: Expr
    columns: Expr
    scalars: dict[Expr, Expr]
    weights: tuple[Expr, ...]  # one scalar for each column, if there are weights


@cached_on_root
def reverse_coordinate(body: Expr) -> CoordinateAdjoint:
    """Differentiate a coordinate function in its two arguments and its parameters."""
    adjoint = reverse(body)
    zero = constant(0.0)
    x, z, difference = (adjoint.leaves.get(leaf, zero) for leaf in (X, Z, DIFFERENCE))
    columns, weights = x * X + z * Z + difference * DIFFERENCE, ()
    for leaf, tile in adjoint.leaves.items():
        if leaf.op == "weight":
            columns, weights = tile, leaf.attr
    return CoordinateAdjoint(x + difference, columns, adjoint.scalars, weights)


@dataclass(frozen=True)
class Request:
    """One contraction: a pair expression R and how it is summed.

    ====================  =======================================================
    ``sum``               sum_ij R_ij
    ``row_sums``          sum_j R_ij
    ``column_sums``       sum_i R_ij
    ``dot_inputs``        sum_j R_ij z_j, for a slot
    ``distance_inputs``   sum_j R_ij 2 (x_i - z_j), for a slot
    ``distance_scales``   sum_ij R_ij 2 (x_ik - z_jk)^2, for a slot
    ====================  =======================================================
    """

    kind: str
    expression: Expr
    slot: Slot | None = None


@dataclass(frozen=True)
class CoordinateRequest(Request):
    """The adjoint of a coordinate function: inputs (n, d), columns (d,) and scalars (p,).

    ``wants_inputs`` spares the work for a gradient in the parameters alone.
    """

    coordinate: Coordinate = None  # type: ignore[assignment]
    adjoint: CoordinateAdjoint = None  # type: ignore[assignment]
    wants_inputs: bool = False
