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


def reverse(*roots: Expr) -> Adjoint:
    """Return the adjoints of the scalars and leaves of expressions over pairs.

    The adjoint of one root is `SEED`; those of several roots are seeds with the numbers 0, 1, ...
    """
    seeds = [SEED] if len(roots) == 1 else [Expr("seed", (), i) for i in range(len(roots))]
    adjoints = propagated(dict(zip(roots, seeds, strict=True)), over_pairs=True)
    return Adjoint(
        {node: adjoint for node, adjoint in adjoints.items() if not node.is_pair},
        {node: adjoint for node, adjoint in adjoints.items() if node.is_pair and not node.args},
    )


def propagated(adjoints: dict[Expr, Expr], over_pairs: bool) -> dict[Expr, Expr]:
    """The adjoints of expressions, and those of all that they are made of.

    Only expressions over pairs are taken apart, or only scalars.
    """
    for node in reversed(walk(tuple(adjoints))):
        if node not in adjoints or node.is_pair != over_pairs:
            continue
        for position, argument in enumerate(node.args):
            part = differentiate(node, position, adjoints[node]) if argument.op != "const" else None
            if part is not None:
                adjoints[argument] = adjoints[argument] + part if argument in adjoints else part
    return adjoints


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
