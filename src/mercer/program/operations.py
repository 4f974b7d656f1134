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
    "expm1": Operation(np.expm1, (lambda g, a, y: g * (y + 1.0),)),
    "sinh": Operation(np.sinh, (lambda g, a, y: g * apply("cosh", a[0]),)),
    "cosh": Operation(np.cosh, (lambda g, a, y: g * apply("sinh", a[0]),)),
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
            lambda g, a, y: apply("where", a[1] < a[0], 0.0, g),
            lambda g, a, y: apply("where", a[1] < a[0], g, 0.0),
        ),
    ),
    "maximum": Operation(
        np.maximum,
        (
            lambda g, a, y: apply("where", a[0] < a[1], 0.0, g),
            lambda g, a, y: apply("where", a[0] < a[1], g, 0.0),
        ),
    ),
    "power": Operation(
        np.power,
        (
            lambda g, a, y: g * apply("where", a[0], a[1] * y * inverse(a[0]), a[1] == 1.0),
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


#: Whole exponents below this are products, which negative numbers have too.
_WHOLE = 2**31


def _power(a: Expr, p: Expr) -> Expr:
    if p.op == "const" and float(p.attr).is_integer() and abs(p.attr) < _WHOLE:
        return _integer_power(a, int(p.attr))
    if p.op == "const" and p.attr == 0.5:
        return _make("sqrt", a)
    if a.op == "const" and a.attr > 0:
        return _make("exp", p * math.log(a.attr))
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


def _hypot(a: Expr, b: Expr) -> Expr:
    """The square root of a sum of squares, which do not leave the range before it does."""
    a, b = apply("absolute", a), apply("absolute", b)
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    ratio = apply("where", large, small / large, 0.0)
    return large * apply("sqrt", 1.0 + ratio * ratio)


def _without_nan(bound: str) -> Callable[[Expr, Expr], Expr]:
    """The larger or smaller of two numbers, or the one that is not NaN."""

    def chosen(a: Expr, b: Expr) -> Expr:
        both = apply("where", b == b, apply(bound, a, b), a)
        return apply("where", a == a, both, b)

    return chosen


# Comparisons are 1 or 0. In NumPy they are booleans, whose sum is "or". Numbers have a truth value,
# and no bits to be combined.


def _is_boolean(a: Expr) -> bool:
    if a.op == "const":
        return a.attr in (0.0, 1.0)
    if a.op == "add":  # 1 - comparison
        first, second = a.args
        if first.op == "multiply" and _is(first.args[1], -1.0):
            return _is(second, 1.0) and _is_boolean(first.args[0])
    parts = {"multiply": a.args, "maximum": a.args, "minimum": a.args, "where": a.args[1:]}
    return a.op in ("less", "equal") or (a.op in parts and all(map(_is_boolean, parts[a.op])))


def _truth(a: Expr) -> Expr:
    """1 for a number that is not 0."""
    return a if _is_boolean(a) else 1.0 - _make("equal", a, constant(0.0))


def _logical(operation: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: _make(operation, _truth(a), _truth(b))


def _bitwise(operation: str) -> Callable[..., Expr]:
    """An operation of truth values; numbers with a point have no bits."""

    def of_booleans(*args: Expr) -> Expr:
        if not all(map(_is_boolean, args)):
            raise TraceError("the operators & | ^ ~ combine comparisons, and no other numbers.")
        return apply(operation, *args)

    return of_booleans


def plus(a: Expr, b: Expr) -> Expr:
    """The sum of two numbers, also of comparisons that stand for numbers."""
    return _make("add", a, b)


def _add(a: Expr, b: Expr) -> Expr:
    both = a.is_pair and b.is_pair and _is_boolean(a) and _is_boolean(b)
    return _make("maximum" if both else "add", a, b)


_DERIVED: dict[str, Callable[..., Expr]] = {
    "power": _power,
    "float_power": _power,
    "negative": lambda a: a * -1.0,
    "positive": lambda a: a,
    "true_divide": lambda a, b: _make("divide", a, b),
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1.0 / a,
    "exp2": lambda a: apply("exp", a * math.log(2.0)),
    "log2": lambda a: apply("log", a) / math.log(2.0),
    "log10": lambda a: apply("log", a) / math.log(10.0),
    "tan": lambda a: apply("sin", a) / apply("cos", a),
    "arctan": lambda a: apply("arctan2", a, constant(1.0)),
    "arccos": lambda c: apply("arctan2", apply("sqrt", (1.0 - c) * (1.0 + c)), c),
    "arcsin": lambda s: apply("arctan2", s, apply("sqrt", (1.0 - s) * (1.0 + s))),
    "hypot": _hypot,
    "fabs": lambda a: apply("absolute", a),
    "abs": lambda a: apply("absolute", a),
    "fmin": _without_nan("minimum"),
    "fmax": _without_nan("maximum"),
    "clip": lambda a, low, high: apply("minimum", apply("maximum", a, low), high),
    "greater": lambda a, b: _make("less", b, a),
    "less_equal": lambda a, b: _make("maximum", _make("less", a, b), _make("equal", a, b)),
    "greater_equal": lambda a, b: _make("maximum", _make("less", b, a), _make("equal", a, b)),
    "not_equal": lambda a, b: 1.0 - _make("equal", a, b),
    "add": _add,
    "logical_and": _logical("multiply"),
    "logical_or": _logical("maximum"),
    "logical_xor": lambda a, b: 1.0 - _make("equal", _truth(a), _truth(b)),
    "logical_not": lambda a: 1.0 - _truth(a),
    "bitwise_and": _bitwise("logical_and"),
    "bitwise_or": _bitwise("logical_or"),
    "bitwise_xor": _bitwise("logical_xor"),
    "invert": _bitwise("logical_not"),
}


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
    if b.op == "const" and a.op == "multiply" and a.args[1].op == "const":
        return _make("multiply", a.args[0], constant(a.args[1].attr * b.attr))
    if a.is_pair and b.is_pair:
        # exp(u) exp(v) = exp(u + v): one exponential for a product of RBFs, and no early underflow.
        if a.op == b.op == "exp":
            return _make("exp", _make("add", a.args[0], b.args[0]))
        return _gather_scalars(a, b)
    return None


def _gather_scalars(a: Expr, b: Expr) -> Expr | None:
    """(s a)(t b) = (a b)(s t): scalar factors move outward, where they merge."""
    one = constant(1.0)
    pairs = [c.args if c.op == "multiply" and not c.args[1].is_pair else (c, one) for c in (a, b)]
    (a, s), (b, t) = pairs
    if s is one and t is one:
        return None
    return _make("multiply", _make("multiply", a, b), _make("multiply", s, t))


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
