"""Adjoints of expressions against derivatives in closed form."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from mercer.program.expression import DIFFERENCE, SEED, X, Z, parameter
from mercer.program.gradient import scalar_gradient
from mercer.program.pairs import evaluate_scalars
from mercer.program.reverse import reverse, reverse_coordinate


def test_adjoints_of_a_product() -> None:
    p = parameter("p")
    adjoint = reverse(X * Z * p)
    assert adjoint.leaves == {X: SEED * p * Z, Z: SEED * p * X}
    assert adjoint.scalars == {p: SEED * (X * Z)}


def test_scalars_are_not_taken_apart() -> None:
    p, q = parameter("p"), parameter("q")
    assert reverse(p * q).scalars == {p * q: SEED}
    assert list(reverse(X * (p * q)).scalars) == [p * q]


def test_a_coordinate_function_of_the_difference() -> None:
    """(x - z)^2 has the derivative 2 (x - z) in x, and 2 (x - z)^2 in the logarithm of a scale."""
    adjoint = reverse_coordinate(DIFFERENCE * DIFFERENCE)
    assert adjoint.inputs is SEED * DIFFERENCE + SEED * DIFFERENCE
    assert adjoint.columns is adjoint.inputs * DIFFERENCE
    assert adjoint.scalars == {}


def test_gradients_of_scalars_in_closed_form() -> None:
    p, first = parameter("p"), parameter("w", 1)
    root, values = np.exp(p * first) + p**3, {"p": 0.7, "w": np.array([5.0, 0.3])}
    assert_allclose(evaluate_scalars((root, p), values), [np.exp(0.21) + 0.7**3, 0.7])
    gradient = scalar_gradient({root: 2.0}, values)
    assert_allclose(gradient[p.attr], 2 * (0.3 * np.exp(0.21) + 3 * 0.7**2))
    assert_allclose(gradient[first.attr], 2 * 0.7 * np.exp(0.21))
