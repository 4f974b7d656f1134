"""Reverse-mode differentiation, done once on the expression instead of for every pair.

The adjoint of an expression is again made of expressions over pairs, so that the engine runs it
like any other program: what it has to know is only how to sum the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.program.expression import DIFFERENCE, SEED, Expr, X, Z, constant, walk
from mercer.program.operations import TABLE, differentiate


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


@dataclass(frozen=True)
class CoordinateAdjoint:
    """What the adjoint of one column of a coordinate function feeds.

    ``inputs`` is the adjoint of x, ``scales`` that of the logarithm of the column's scale,
    ``scalars`` the scalars used inside; `SEED` stands for the adjoint of the column's value.
    """

    inputs: Expr
    scales: Expr
    scalars: dict[Expr, Expr]


def reverse_coordinate(body: Expr) -> CoordinateAdjoint:
    """Differentiate a coordinate function in its two arguments and its parameters."""
    adjoint = reverse(body)
    zero = constant(0.0)
    x, z, difference = (adjoint.leaves.get(leaf, zero) for leaf in (X, Z, DIFFERENCE))
    return CoordinateAdjoint(
        inputs=x + difference,
        scales=x * X + z * Z + difference * DIFFERENCE,
        scalars=adjoint.scalars,
    )


def evaluate_scalars(roots: tuple[Expr, ...], values: Mapping[str, Any]) -> list[float]:
    """Evaluate scalar expressions at given parameter values."""
    known: dict[Expr, float] = {}
    for node in walk(roots):
        if node.op == "const":
            known[node] = node.attr
        elif node.op == "param":
            path, index = node.attr
            value = values[path]
            known[node] = float(np.asarray(value)[index] if index else value)
        else:
            with np.errstate(all="ignore"):
                known[node] = float(TABLE[node.op].value(*(known[a] for a in node.args)))
    return [known[root] for root in roots]


def scalar_gradient(
    adjoints: Mapping[Expr, float], values: Mapping[str, Any]
) -> dict[tuple[Any, ...], float]:
    """Push the adjoints of scalar expressions down to the parameters they are made of.

    Returns the derivative for each parameter entry ``(path, index)``.
    """
    bars: dict[Expr, Expr] = {node: constant(value) for node, value in adjoints.items()}
    found: dict[Expr, Expr] = {}
    for node in reversed(walk(tuple(adjoints))):
        bar = bars.get(node)
        if bar is None or node.op == "const":
            continue
        if node.op == "param":
            found[node] = bar
            continue
        for position, argument in enumerate(node.args):
            part = differentiate(node, position, bar)
            if part is not None:
                bars[argument] = bars[argument] + part if argument in bars else part
    numbers = evaluate_scalars(tuple(found.values()), values)
    return {node.attr: number for node, number in zip(found, numbers, strict=True)}
