"""The table of operations: NumPy's meaning in both executors, and derivatives that are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer import _core
from mercer.program.expression import Expr, parameter
from mercer.program.gradient import scalar_gradient
from mercer.program.lower import lower
from mercer.program.operations import _DERIVED, TABLE, apply
from mercer.program.pairs import evaluate_scalars

RNG = np.random.default_rng(12)
ROWS, COLS = RNG.uniform(0.1, 0.9, (9, 1)), RNG.uniform(0.1, 0.9, (6, 1))

UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "negative": np.negative,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "fmin": lambda s: np.fmin(s, 0.3),
    "tanh": np.tanh,
    "arccos": np.arccos,
    "arcsin": np.arcsin,
    "arctan": np.arctan,
    "abs": lambda s: np.abs(s - 0.3),
    "sign": lambda s: np.sign(s - 0.3) * s,
    "cube": lambda s: s**3,
    "inverse square": lambda s: s**-2,
    "root": lambda s: s**0.5,
    "fraction": lambda s: s**1.7,
    "base": lambda s: 2.0**s,
    "self": lambda s: s**s,
    "minimum": lambda s: np.minimum(s, 0.2),
    "maximum": lambda s: np.maximum(0.2, s),
    "clip": lambda s: np.clip(s, 0.1, 0.3),
    "where": lambda s: np.where(s > 0.2, s * s, 1 - s),
    "where both": lambda s: np.where((s > 0.1) & (s <= 0.3), s, 0.5),
    "where either": lambda s: np.where((s < 0.1) | (s >= 0.3), s, 0.5 * s),
    "where not": lambda s: np.where(~(s < 0.2), s, 2 * s),
    "equal": lambda s: s * (s == s),
    "hypot": lambda s: np.hypot(s, 2.0),
    "arctan2": lambda s: np.arctan2(s, 0.7),
    "quotient": lambda s: (1 + s) / (2 - s),
    "difference": lambda s: 3 - s - 1,
    "constant": lambda s: 0 * s + 2.0,
    "positive": lambda s: +s,
    "horner": lambda s: ((s * 2 + 1) * s - 3) * s,
}


def kernel_of(function: Callable[[Any], Any]) -> mc.Kernel:
    class Traced(mc.DotProduct):
        def profile(self, s: Any) -> Any:
            return function(s)

    return Traced()


@pytest.mark.parametrize("name", UNARY)
def test_traced_functions_mean_what_numpy_means(name: str) -> None:
    function = UNARY[name]
    s = ROWS @ COLS.T
    kernel = kernel_of(function)
    assert_allclose(kernel(ROWS, COLS), function(s) * np.ones_like(s), rtol=1e-13, atol=1e-14)
    single = kernel(ROWS.astype(np.float32), COLS.astype(np.float32))
    assert_allclose(single, function(s) * np.ones_like(s), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_derivatives_of_traced_functions(name: str) -> None:
    kernel = kernel_of(UNARY[name])
    slope = ref.derivative(lambda t: kernel(ROWS + t, COLS), step=1e-5)
    found = kernel.gram(ROWS, COLS).input_gradient()[:, 0]
    assert_allclose(found, slope.sum(axis=1), rtol=1e-6, atol=1e-8)


SCALARS = [name for name in UNARY if "where" not in name and name not in ("equal",)]


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_are_evaluated_and_differentiated(name: str) -> None:
    function = UNARY[name]
    expression = apply("add", function(parameter("p")), 0.0)
    value = 0.42
    assert_allclose(evaluate_scalars((expression,), {"p": value})[0], function(value), rtol=1e-13)
    slope = ref.derivative(lambda t: function(value + t), step=1e-4)
    found = scalar_gradient({expression: 1.0}, {"p": value}).get(("p", ()), 0.0)
    assert_allclose(found, slope, rtol=1e-7, atol=1e-9)


def test_binary_operations_inside_a_coordinate_function() -> None:
    class Mixed(mc.Coordinate):
        alpha = mc.Positive(0.7)

        def coordinate(self, x: Any, z: Any) -> Any:
            both = np.minimum(x, z) + np.maximum(x, z) * np.hypot(x, z)
            return np.exp(-np.abs(x - z) * self.alpha) * both + (x * z) ** self.alpha

    rows, cols = RNG.uniform(0.1, 1, (7, 3)), RNG.uniform(0.1, 1, (5, 3))
    x, z = rows[:, None], cols[None]
    both = np.minimum(x, z) + np.maximum(x, z) * np.hypot(x, z)
    wanted = (np.exp(-np.abs(x - z) * 0.7) * both + (x * z) ** 0.7).sum(axis=2)
    assert_allclose(Mixed()(rows, cols), wanted, rtol=1e-13)
    mc.testing.check_kernel(Mixed(), rows)


def test_every_derivative_is_declared() -> None:
    for name, operation in TABLE.items():
        arguments = {"where": 3}.get(name, len(operation.vjp))
        assert len(operation.vjp) == arguments


# A wide range of inputs: signs, zeros, tiny and huge numbers, infinities.
NUMBERS = [0.0, 1e-300, 1e-10, 1e-6, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 7.5, 30.0, 355.0, 710.2, 1e6]
NUMBERS = np.array([-np.inf, *(-x for x in reversed(NUMBERS)), *NUMBERS, np.inf])
FEW = np.array([-np.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf])

#: Every function that tracing supports, as users write it.
ONE_ARGUMENT: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name)
    for name in [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "square",
        "reciprocal",
        "negative",
        "positive",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "absolute",
        "fabs",
        "sign",
        "logical_not",
    ]
} | {
    "whole power": lambda s: s**3,
    "even power": lambda s: s**2.0,
    "negative power": lambda s: s**-3,
    "root": lambda s: s**0.5,
    "power": lambda s: s**1.7,
    "base": lambda s: 2.0**s,
    "clip": lambda s: np.clip(s, -0.5, 2.0),
    "where number": lambda s: np.where(s, 2.0, 3.0),
    "not": lambda s: np.where(~(s > 1), 1.0, 2.0),
    "truth of not": lambda s: np.where(np.logical_not(s), 1.0, s),
}
TWO_ARGUMENTS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(np, name)
    for name in [
        "add",
        "subtract",
        "multiply",
        "divide",
        "true_divide",
        "power",
        "float_power",
        "arctan2",
        "hypot",
        "minimum",
        "maximum",
        "fmin",
        "fmax",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
    ]
} | {
    "and": lambda x, z: (x > 0) & (z > 0),
    "or": lambda x, z: (x > 0) | (z > 0),
    "xor": lambda x, z: (x > 0) ^ (z > 0),
    "sum of comparisons": lambda x, z: (x > 0) + (z > 0),
    "product of comparisons": lambda x, z: (x > 0) * (z > 0),
    "sum of absolute values": lambda x, z: np.abs(x) ** np.abs(z),
    "bound of a logarithm": lambda x, z: np.fmin(np.log(x), z),
}


@dataclass(frozen=True)
class Leaf:
    """A leaf whose values are given."""

    name: str


def by_engine(expression: Any, x: Any, z: Any, dtype: Any) -> Any:
    """An expression of two leaves at given numbers, as the engine computes it."""
    blocks = [np.asarray(v, dtype).reshape(-1, 1) for v in (x, z)]
    n = len(blocks[0])
    lowered = lower((expression,))
    known = {Leaf("x"): blocks[0], Leaf("z"): blocks[1]}
    side = _core.Side(n, [], [], None)
    one = _core.Side(1, [], [], None)
    given = [np.ascontiguousarray(known[b]) for b in lowered.blocks]
    out = np.empty((n, 1), dtype)
    scalars = np.array(evaluate_scalars(lowered.scalars, {}), dtype=float)
    _core.gram(lowered.program, lowered.results[0], scalars, side, one, given, out, False, 1)
    return out[:, 0]


def compare(function: Callable[..., Any], *arguments: Any) -> None:
    leaves = [Expr("external", (), Leaf(name)) for name in "xz"[: len(arguments)]]
    traced = apply("multiply", function(*leaves), 1.0)
    given = (*arguments, np.zeros_like(arguments[0]))[:2]
    for dtype, rtol, atol in ((np.float64, 4e-13, 1e-290), (np.float32, 4e-5, 1e-36)):
        numbers = [np.asarray(a, dtype) for a in arguments]
        with np.errstate(all="ignore"):
            wanted = np.asarray(function(*(n.astype(float) for n in numbers)), dtype=float)
        found = by_engine(traced, *given, dtype).astype(float)
        limit = np.finfo(dtype).max / 4
        sensible = np.isfinite(wanted) & (np.abs(wanted) < limit)
        assert_allclose(found[sensible], wanted[sensible], rtol=rtol, atol=atol)
        finite = np.isfinite(numbers).all(axis=0) & ~np.isinf(wanted)
        assert np.array_equal(np.isnan(found[finite]), np.isnan(wanted[finite]))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_functions_of_one_number_mean_what_numpy_means(name: str) -> None:
    compare(ONE_ARGUMENT[name], NUMBERS)


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_functions_of_two_numbers_mean_what_numpy_means(name: str) -> None:
    x, z = np.meshgrid(FEW, FEW)
    compare(TWO_ARGUMENTS[name], x.ravel(), z.ravel())


def test_every_supported_function_is_compared_with_numpy() -> None:
    supported = {name for name in (*TABLE, *_DERIVED) if hasattr(np, name)}
    compared = {*ONE_ARGUMENT, *TWO_ARGUMENTS}
    others = {"where", "abs", "bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
    assert supported - compared - others == set()


def test_whole_powers_of_negative_numbers_have_a_sign() -> None:
    class Power(mc.DotProduct):
        p = mc.Positive(2.0)

        def profile(self, s: Any) -> Any:
            return s**self.p

    rows = np.array([[-2.0], [-0.5], [0.0], [1.5]])
    s = rows @ rows.T
    for p in (2.0, 3.0, 1.0):
        assert_allclose(Power(p=p)(rows), s**p)
    assert np.array_equal(np.isnan(Power(p=1.5)(rows)), s < 0)
    kernel = Power(p=mc.Fixed(1.0))
    assert_allclose(kernel.gram(rows).input_gradient()[:, 0], np.full(4, rows.sum()))


def test_comparisons_are_numbers_in_a_sum_of_kernels() -> None:
    class Near(mc.Stationary):
        def profile(self, r2: Any) -> Any:
            return r2 < 1.0

    assert_allclose((Near() + Near())([[0.0], [5.0]]), 2.0 * np.eye(2))
