"""From expressions to instructions over tile registers.

Scalars are folded into the instructions that take one (``exp(s a)``, ``s a + t``, ``a + s b``),
registers are reused as soon as their last reader has run, and well-known coordinate sums are handed
to the engine's dedicated primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer import _core
from mercer.program.expression import (
    DIFFERENCE,
    Coordinate,
    Expr,
    Slot,
    cached_on_root,
    constant,
)

#: Names of instructions that differ from those of their operations.
_NAMES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "absolute": "abs",
    "minimum": "min",
    "maximum": "max",
}
_ONE, _ZERO = constant(1.0), constant(0.0)


@dataclass(frozen=True)
class Step:
    """An instruction before registers are assigned: operands are expressions."""

    name: str
    operands: tuple[Expr, ...] = ()
    scalars: tuple[Expr, ...] = ()
    indices: tuple[int, ...] = ()


@dataclass
class Tables:
    """What instructions refer to by number, in the order of first use."""

    slots: dict[Slot, int] = field(default_factory=dict)
    vectors: dict[Any, int] = field(default_factory=dict)
    blocks: dict[Any, int] = field(default_factory=dict)
    lookups: dict[Any, int] = field(default_factory=dict)
    bodies: dict[tuple[Expr, ...], int] = field(default_factory=dict)
    subprograms: list[tuple[np.ndarray[Any, Any], int, int]] = field(default_factory=list)
    results: list[list[int]] = field(default_factory=list)
    scalars: list[Expr] = field(default_factory=list)
    places: dict[tuple[Expr, ...], int] = field(default_factory=dict)

    def index(self, kind: str, key: Any) -> int:
        """The number of a key, given on first use."""
        table: dict[Any, int] = getattr(self, kind)
        return table.setdefault(key, len(table))

    def scalar(self, *expressions: Expr) -> int:
        """The number of a scalar, or of the first of several that follow each other."""
        if expressions not in self.places:
            self.places[expressions] = len(self.scalars)
            self.scalars += expressions
        return self.places[expressions]

    def subprogram(self, outputs: tuple[Expr, ...]) -> int:
        """Lower a coordinate function once; return its number."""
        if outputs not in self.bodies:
            code, registers, results = _assemble(outputs, self)
            self.bodies[outputs] = len(self.subprograms)
            self.subprograms.append((code, registers, results[0]))
            self.results.append(results)
        return self.bodies[outputs]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A tile program and the keys of the data and scalars that it refers to by number."""

    program: Any
    results: tuple[int, ...]
    slots: tuple[Slot, ...]
    vectors: tuple[Any, ...]
    blocks: tuple[Any, ...]
    scalars: tuple[Expr, ...]
    tables: Tables
    compares_rows: bool


@cached_on_root
def lower(
    outputs: tuple[Expr, ...], requests: tuple[tuple[Slot, tuple[Expr, ...]], ...] = ()
) -> Lowered:
    """Compile pair expressions, and the sub-programs that adjoints of coordinates need.

    ``requests`` lists (slot, expressions of a coordinate function) to be compiled alongside.
    """
    tables = Tables()
    for slot, bodies in requests:
        tables.index("slots", slot)
        if bodies:
            tables.subprogram(bodies)
    code, registers, results = _assemble(outputs, tables)
    lookups = [np.ascontiguousarray(table.data) for table in tables.lookups]
    program = _core.Program(code, registers, tables.subprograms, lookups)
    return Lowered(
        program,
        tuple(results),
        tuple(tables.slots),
        tuple(tables.vectors),
        tuple(tables.blocks),
        tuple(tables.scalars),
        tables,
        compares_rows=bool(np.any(code[:, 0] == _core.OPCODES["identity"])),
    )


def _assemble(
    outputs: tuple[Expr, ...], tables: Tables
) -> tuple[np.ndarray[Any, Any], int, list[int]]:
    """Select instructions, order them, and assign registers by last use."""
    outputs = tuple(o if o.is_pair else Expr("fill", (o,)) for o in outputs)
    steps = _schedule(outputs, tables)
    last_use = {operand: t for t, (_, s) in enumerate(steps) for operand in s.operands}
    last_use.update(dict.fromkeys(outputs, len(steps)))
    free: list[int] = []
    place: dict[Expr, int] = {}
    count = 0
    code = np.zeros((len(steps), 7), dtype=np.int32)
    for t, (node, step) in enumerate(steps):
        sources = [place[o] for o in step.operands]
        free.extend({place[o] for o in step.operands if last_use[o] == t})
        if not free:
            free.append(count)
            count += 1
        place[node] = free.pop()
        together = [step.scalars] if step.name == "weight" else [(s,) for s in step.scalars]
        scalars = [tables.scalar(*group) for group in together]
        abc = [*sources, *step.indices, 0, 0, 0][:3]
        code[t] = [_core.OPCODES[step.name], place[node], *abc, *[*scalars, 0, 0][:2]]
    return code, max(count, 1), [place[o] for o in outputs]


def _schedule(outputs: tuple[Expr, ...], tables: Tables) -> list[tuple[Expr, Step]]:
    """Depth first, operands before readers: short lifetimes, few registers."""
    steps: list[tuple[Expr, Step]] = []
    chosen: dict[Expr, Step] = {}
    done: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(o, False) for o in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done.add(node)
            steps.append((node, chosen[node]))
        else:
            chosen[node] = step = _select(node, tables)
            stack.append((node, True))
            stack.extend((o, False) for o in reversed(step.operands) if o not in done)
    return steps


def _select(node: Expr, tables: Tables) -> Step:
    """Choose the instruction for one node, folding the scalars next to it."""
    select = _SELECT.get(node.op)
    if select is not None:
        return select(node, tables)
    return Step(_NAMES.get(node.op, node.op), tuple(_pair(a) for a in node.args))


def _pair(a: Expr) -> Expr:
    return a if a.is_pair else Expr("fill", (a,))


def _scaled(a: Expr) -> tuple[Expr, Expr] | None:
    """Return (b, s) when a is the pair expression b times the scalar s."""
    if a.op == "multiply" and a.is_pair and not a.args[1].is_pair:
        return a.args[0], a.args[1]
    return None


def _select_add(node: Expr, tables: Tables) -> Step:
    a, b = node.args
    if not b.is_pair:
        base, factor = _scaled(a) or (a, _ONE)
        return Step("affine", (base,), (factor, b))
    for kept, moved in ((a, b), (b, a)):
        base, factor = _scaled(moved) or (moved, _ONE)
        if base.op == "multiply" and base.args[1].is_pair:
            return Step("fma", (kept, *base.args), (factor,))
        if base is not moved:
            return Step("axpy", (kept, base), (factor,))
    return Step("add", (a, b))


def _select_subtract(node: Expr, tables: Tables) -> Step:
    a, b = node.args
    if scaled := _scaled(b):
        return Step("axpy", (a, scaled[0]), (scaled[1] * -1.0,))
    return Step("sub", (a, b))


def _select_multiply(node: Expr, tables: Tables) -> Step:
    a, b = node.args
    return Step("mul", (a, b)) if b.is_pair else Step("affine", (a,), (b, _ZERO))


def _select_divide(node: Expr, tables: Tables) -> Step:
    a, b = node.args
    return Step("div", (a, b)) if a.is_pair else Step("reciprocal", (b,), (a,))


def _select_exp(node: Expr, tables: Tables) -> Step:
    (argument,) = node.args
    base, factor = _scaled(argument) or _common_factor(argument) or (argument, _ONE)
    return Step("exp", (base,), (factor,))


def _common_factor(a: Expr) -> tuple[Expr, Expr] | None:
    """Return (u + (t/s) v, s) when a is s u + t v with a constant s: one pass less."""
    if a.op != "add":
        return None
    parts = [_scaled(argument) for argument in a.args]
    for first, second in (parts, parts[::-1]):
        if first and second and first[1].op == "const" and first[1].attr != 0:
            return first[0] + second[0] * (second[1] / first[1]), first[1]
    return None


def _select_inverse(node: Expr, tables: Tables) -> Step:
    (a,) = node.args
    return Step("where", (a, Expr("divide", (_ONE, a)), a))


def _select_bound(node: Expr, tables: Tables) -> Step:
    """A bound that is a scalar needs no register of its own."""
    a, b = node.args
    if a.is_pair and b.is_pair:
        return Step(_NAMES[node.op], (a, b))
    name = "at_most" if node.op == "minimum" else "at_least"
    return Step(name, (a,), (b,)) if a.is_pair else Step(name, (b,), (a,))


def _select_power(node: Expr, tables: Tables) -> Step:
    base, exponent = node.args
    if exponent.is_pair:
        return Step("pow", (_pair(base), exponent))
    return Step("power", (_pair(base),), (exponent,))


def _select_coordinate(node: Expr, tables: Tables) -> Step:
    leaf: Coordinate = node.attr
    slot = tables.index("slots", leaf.slot)
    if leaf.degree == 1 and leaf.body is DIFFERENCE * DIFFERENCE:
        return Step("squared_distance", indices=(slot,))
    if leaf.degree == 1 and leaf.body is abs(DIFFERENCE):
        return Step("manhattan", indices=(slot,))
    return Step("coordinate", indices=(slot, tables.subprogram((leaf.body,)), leaf.degree))


def _select_lookup(node: Expr, tables: Tables) -> Step:
    (a,) = node.args
    # The table's number follows the one operand.
    return Step(node.op, (a,), indices=(tables.index("lookups", node.attr),))


def _indexed(name: str, kind: str) -> Callable[[Expr, Tables], Step]:
    return lambda node, tables: Step(name, indices=(tables.index(kind, node.attr),))


_SELECT: dict[str, Callable[[Expr, Tables], Step]] = {
    "add": _select_add,
    "subtract": _select_subtract,
    "multiply": _select_multiply,
    "divide": _select_divide,
    "exp": _select_exp,
    "inverse": _select_inverse,
    "power": _select_power,
    "minimum": _select_bound,
    "maximum": _select_bound,
    "coordinate": _select_coordinate,
    "lookup": _select_lookup,
    "lookup_slope": _select_lookup,
    "weight": lambda node, tables: Step("weight", scalars=node.attr),
    "fill": lambda node, tables: Step("fill", scalars=(node.args[0],)),
    "dot": _indexed("dot", "slots"),
    "sparse_dot": _indexed("sparse_dot", "slots"),
    "bit_dot": _indexed("bit_dot", "slots"),
    "squared_distance": _indexed("squared_distance", "slots"),
    "row": _indexed("row", "vectors"),
    "column": _indexed("column", "vectors"),
    "external": _indexed("block", "blocks"),
}
