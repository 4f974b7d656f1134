"""The table of operations: NumPy's meaning in both executors, and derivatives that are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.program.expression import parameter
from mercer.program.gradient import scalar_gradient
from mercer.program.operations import TABLE, apply
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
