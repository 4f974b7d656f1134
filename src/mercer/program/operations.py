"""The one table of operations: value, derivative and algebraic simplification, side by side.

Tracing, the adjoint, the NumPy reference and the lowering to engine instructions all read this
table. A derivative is written as an expression: ``vjp[i](g, args, out)`` is the adjoint of argument
``i`` given the adjoint ``g`` of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.program.expression import DIFFERENCE, Expr, TraceError, X, Z, as_expression, constant

Vjp = Callable[[Expr, tuple[Expr, ...], Expr], Expr]


@dataclass(frozen=True)
class Operation:
    """An element-wise operation: its NumPy meaning and the adjoints of its arguments."""

    value: Callable[..., Any]
    vjp: tuple[Vjp | None, ...]


def _inverse(a: Any) -> Any:
    """1/a, and 0 where a is 0: the slope of a square root at 0 is taken as 0."""
    a = np.asarray(a)
    return np.where(a == 0, 0.0, 1.0 / np.where(a == 0, 1.0, a))


def _sqrt(a: Any) -> Any:
    """The square root; finite for infinite a, so that its product with a zero is 0."""
    return np.sqrt(np.minimum(a, np.finfo(float).max / 4))


TABLE: dict[str, Operation] = {
    "add": Operation(np.add, (lambda g, a, y: g, lambda g, a, y: g)),
    "subtract": Operation(np.subtract, (lambda g, a, y: g, lambda g, a, y: -g)),
    "multiply": Operation(np.multiply, (lambda g, a, y: g * a[1], lambda g, a, y: g * a[0])),
    "divide": Operation(np.divide, (lambda g, a, y: g / a[1], lambda g, a, y: -g * y / a[1])),
    "exp": Operation(np.exp, (lambda g, a, y: g * y,)),
    "log": Operation(np.log, (lambda g, a, y: g / a[0],)),
    "log1p": Operation(np.log1p, (lambda g, a, y: g / (1.0 + a[0]),)),
    "sqrt": Operation(_sqrt, (lambda g, a, y: 0.5 * g * inverse(y),)),
    "inverse": Operation(_inverse, (lambda g, a, y: -g * y * y,)),
    "sin": Operation(np.sin, (lambda g, a, y: g * apply("cos", a[0]),)),
    "cos": Operation(np.cos, (lambda g, a, y: -g * apply("sin", a[0]),)),
    "tanh": Operation(np.tanh, (lambda g, a, y: g * (1.0 - y * y),)),
    "arctan2": Operation(
        np.arctan2,
        (
            lambda g, a, y: g * a[1] * inverse(a[0] * a[0] + a[1] * a[1]),
            lambda g, a, y: -g * a[0] * inverse(a[0] * a[0] + a[1] * a[1]),
        ),
    ),
    "absolute": Operation(np.absolute, (lambda g, a, y: g * apply("sign", a[0]),)),
    "sign": Operation(np.sign, (None,)),
    "minimum": Operation(
        np.minimum,
        (
            lambda g, a, y: apply("where", apply("less", a[1], a[0]), 0.0, g),
            lambda g, a, y: apply("where", apply("less", a[1], a[0]), g, 0.0),
        ),
    ),
    "maximum": Operation(
        np.maximum,
        (
            lambda g, a, y: apply("where", apply("less", a[0], a[1]), 0.0, g),
            lambda g, a, y: apply("where", apply("less", a[0], a[1]), g, 0.0),
        ),
    ),
    # a ** p for a >= 0 and p free of the pair.
    "power": Operation(
        np.power,
        (
            lambda g, a, y: g * a[1] * y * inverse(a[0]),
            lambda g, a, y: g * apply("where", a[0], y * apply("log", a[0]), 0.0),
        ),
    ),
    "less": Operation(lambda a, b: np.less(a, b) * 1.0, (None, None)),
    "equal": Operation(lambda a, b: np.equal(a, b) * 1.0, (None, None)),
    "where": Operation(
        lambda c, a, b: np.where(np.asarray(c) != 0, a, b),
        (
            None,
            lambda g, a, y: apply("where", a[0], g, 0.0),
            lambda g, a, y: apply("where", a[0], 0.0, g),
        ),
    ),
}


def differentiate(node: Expr, position: int, adjoint: Expr) -> Expr | None:
    """Return the adjoint of one argument of a node, or None where the derivative is zero."""
    if node.op == "lookup":
        return adjoint * Expr("lookup_slope", node.args, node.attr)
    if node.op == "lookup_slope":
        raise TraceError("the slope of an interpolated profile has no derivative of its own.")
    vjp = TABLE[node.op].vjp[position]
    return None if vjp is None else vjp(adjoint, node.args, node)


def inverse(a: Expr) -> Expr:
    """1/a with 0 at 0."""
    return _make("inverse", as_expression(a))


def lookup(table: Any, argument: Any) -> Any:
    """Evaluate an interpolated function, of numbers or of a traced argument."""
    if isinstance(argument, Expr):
        return Expr("lookup", (argument,), table)
    return table(argument)


def rebuild(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """Apply the operation of a node to other arguments, with simplification."""
    if node.attr is not None:
        return Expr(node.op, args, node.attr)
    return _make(node.op, *args)


def apply(name: str, *inputs: Any) -> Expr:
    """Apply a NumPy function, by name, to expressions and numbers."""
    args = tuple(as_expression(a) for a in inputs)
    if name in _DERIVED:
        return _DERIVED[name](*args)
    if name in TABLE:
        return _make(name, *args)
    raise TraceError(f"np.{name} has no traced form.")


# Functions expressed through the table
# ------------------------------------------------------------------


#: Whole exponents below this are products, which negative numbers have too.
_WHOLE = 2**31


def _power(a: Expr, p: Expr) -> Expr:
    if p.op == "const" and float(p.attr).is_integer() and abs(p.attr) < _WHOLE:
        return _integer_power(a, int(p.attr))
    if p.op == "const" and p.attr == 0.5:
        return _make("sqrt", a)
    if p.is_pair:
        return _make("exp", p * _make("log", a))
    return _make("power", a, p)


def _integer_power(a: Expr, n: int) -> Expr:
    if n < 0:
        return 1.0 / _integer_power(a, -n)
    result, square = constant(1.0), a
    while n:
        if n & 1:
            result = result * square
        n >>= 1
        if n:
            square = square * square
    return result


def _arccos(c: Expr) -> Expr:
    return apply("arctan2", apply("sqrt", (1.0 - c) * (1.0 + c)), c)


_DERIVED: dict[str, Callable[..., Expr]] = {
    "power": _power,
    "float_power": _power,
    "negative": lambda a: a * -1.0,
    "positive": lambda a: a,
    "true_divide": lambda a, b: _make("divide", a, b),
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1.0 / a,
    "exp2": lambda a: apply("exp", a * math.log(2.0)),
    "expm1": lambda a: apply("exp", a) - 1.0,
    "log2": lambda a: apply("log", a) / math.log(2.0),
    "log10": lambda a: apply("log", a) / math.log(10.0),
    "tan": lambda a: apply("sin", a) / apply("cos", a),
    "sinh": lambda a: 0.5 * (apply("exp", a) - apply("exp", -a)),
    "cosh": lambda a: 0.5 * (apply("exp", a) + apply("exp", -a)),
    "arctan": lambda a: apply("arctan2", a, constant(1.0)),
    "arccos": _arccos,
    "arcsin": lambda s: apply("arctan2", s, apply("sqrt", (1.0 - s) * (1.0 + s))),
    "hypot": lambda a, b: apply("sqrt", a * a + b * b),
    "fabs": lambda a: apply("absolute", a),
    "abs": lambda a: apply("absolute", a),
    "fmin": lambda a, b: apply("minimum", a, b),
    "fmax": lambda a, b: apply("maximum", a, b),
    "clip": lambda a, low, high: apply("minimum", apply("maximum", a, low), high),
    "greater": lambda a, b: _make("less", b, a),
    "less_equal": lambda a, b: 1.0 - _make("less", b, a),
    "greater_equal": lambda a, b: 1.0 - _make("less", a, b),
    "not_equal": lambda a, b: 1.0 - _make("equal", a, b),
    "logical_and": lambda a, b: a * b,
    "bitwise_and": lambda a, b: a * b,
    "logical_or": lambda a, b: apply("maximum", a, b),
    "bitwise_or": lambda a, b: apply("maximum", a, b),
    "logical_not": lambda a: 1.0 - a,
    "invert": lambda a: 1.0 - a,
}


# Simplification
# -----------------------------------------------------------------------------------------


def _is(node: Expr, value: float) -> bool:
    return node.op == "const" and node.attr == value


def _make(name: str, *args: Expr) -> Expr:
    """Build a node; fold constants and common identities."""
    if all(a.op == "const" for a in args):
        with np.errstate(all="ignore"):
            return constant(float(TABLE[name].value(*(a.attr for a in args))))
    simplify = _SIMPLIFY.get(name)
    simplified = simplify(*args) if simplify else None
    return Expr(name, args) if simplified is None else simplified


def _simplify_add(a: Expr, b: Expr) -> Expr | None:
    if _is(a, 0.0):
        return b
    if _is(b, 0.0):
        return a
    if b.is_pair and not a.is_pair:
        return _make("add", b, a)
    if not b.is_pair and a.op == "add" and a.is_pair and not a.args[1].is_pair:
        return _make("add", a.args[0], _make("add", a.args[1], b))
    return None


def _simplify_subtract(a: Expr, b: Expr) -> Expr | None:
    if a is X and b is Z:
        return DIFFERENCE
    if a is Z and b is X:
        return DIFFERENCE * -1.0
    if _is(b, 0.0):
        return a
    if a is b:
        return constant(0.0)
    if not b.is_pair:
        return a + b * -1.0
    if not a.is_pair:
        return b * -1.0 + a
    return None


def _simplify_multiply(a: Expr, b: Expr) -> Expr | None:
    if (b.is_pair and not a.is_pair) or (a.op == "const" and not b.is_pair and b.op != "const"):
        return _make("multiply", b, a)
    if _is(b, 1.0):
        return a
    if _is(b, 0.0):
        return constant(0.0)
    if not b.is_pair and a.op == "multiply" and a.is_pair and not a.args[1].is_pair:
        return _make("multiply", a.args[0], _make("multiply", a.args[1], b))
    if not b.is_pair and a.op == "multiply" and _is_constant_pair(a.args[1], b):
        return _make("multiply", a.args[0], constant(a.args[1].attr * b.attr))
    if a.is_pair and b.is_pair:
        gathered = _gather_scalars(a, b)
        return _join_exponentials(a, b) if gathered is None else gathered
    return None


def _join_exponentials(a: Expr, b: Expr) -> Expr | None:
    """exp(u) exp(v) = exp(u + v): one exponential for a product of RBFs, and no early underflow."""
    if a.op == "exp" and b.op == "exp":
        return _make("exp", _make("add", a.args[0], b.args[0]))
    return None


def _is_constant_pair(a: Expr, b: Expr) -> bool:
    return a.op == "const" and b.op == "const"


def _gather_scalars(a: Expr, b: Expr) -> Expr | None:
    """(s a)(t b) = (a b)(s t): scalar factors move outward, where they merge."""
    (a, s), (b, t) = _split_scalar(a), _split_scalar(b)
    if s is None and t is None:
        return None
    scalar = t if s is None else s if t is None else _make("multiply", s, t)
    assert scalar is not None
    return _make("multiply", _make("multiply", a, b), scalar)


def _split_scalar(a: Expr) -> tuple[Expr, Expr | None]:
    if a.op == "multiply" and not a.args[1].is_pair:
        return a.args[0], a.args[1]
    return a, None


def _simplify_divide(a: Expr, b: Expr) -> Expr | None:
    if _is(b, 1.0):
        return a
    if _is(a, 0.0):
        return constant(0.0)
    if a.is_pair and not b.is_pair:
        return a * _make("divide", constant(1.0), b)
    return None


def _simplify_where(c: Expr, a: Expr, b: Expr) -> Expr | None:
    if a is b:
        return a
    if c.op == "const":
        return a if c.attr else b
    return None


_SIMPLIFY: dict[str, Callable[..., Expr | None]] = {
    "add": _simplify_add,
    "subtract": _simplify_subtract,
    "multiply": _simplify_multiply,
    "divide": _simplify_divide,
    "where": _simplify_where,
}
