"""Gradients of a kernel against closed forms and central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.kernels.base import pairs_of
from mercer.program import engine, reference
from mercer.program.gradient import input_gradient, parameter_gradient

RNG = np.random.default_rng(0)
X, Z, WEIGHTS = RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2)), RNG.normal(size=(6, 4))
EXECUTORS = pytest.mark.parametrize("contract", [reference.contract, engine.contract])


@EXECUTORS
def test_the_gradient_of_the_rbf_in_its_length_scale(contract: Any) -> None:
    kernel = mc.RBF(0.8)
    gradient = parameter_gradient(kernel.expression, pairs_of(kernel, X, Z), WEIGHTS, contract)
    terms = kernel(X, Z) * ref.matrix(ref.squared_distance, X, Z) / 0.8**3
    assert_allclose(gradient["length_scale"], (WEIGHTS * terms).sum(), rtol=1e-10)


@EXECUTORS
def test_the_gradient_in_the_rows(contract: Any) -> None:
    kernel = mc.RBF(0.8) * mc.Linear() + mc.Laplacian()
    gradient = input_gradient(kernel.expression, pairs_of(kernel, X, Z), WEIGHTS, contract)
    for i, k in np.ndindex(X.shape):
        direction = np.zeros_like(X)
        direction[i, k] = 1.0
        slope = ref.derivative(lambda t, d=direction: (WEIGHTS * kernel(X + t * d, Z)).sum())
        assert_allclose(gradient[i, k], slope, rtol=1e-7, atol=1e-9)
