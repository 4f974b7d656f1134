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
    gradient = parameter_gradient((kernel.expression,), pairs_of(kernel, X, Z), WEIGHTS, contract)
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


@pytest.mark.parametrize("gradient", ["gradient", "input_gradient"])
def test_the_work_for_nested_cosines_grows_linearly(
    gradient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []
    walk = reference.walk

    def counted(roots: Any) -> Any:
        nodes = walk(roots)
        walked.append(len(nodes))
        return nodes

    monkeypatch.setattr(reference, "walk", counted)
    work = []
    for depth in (5, 10, 15):
        kernel: Any = mc.RBF(0.8)
        for _ in range(depth):
            kernel = (kernel + 1.0).normalized()
        walked.clear()
        getattr(kernel.gram(X), gradient)()
        work.append(sum(walked))
    assert work[2] - work[1] <= 1.1 * (work[1] - work[0])


def test_the_gradient_of_nested_cosines() -> None:
    def nested(length: float) -> Any:
        kernel: Any = mc.RBF(length) * mc.Linear() + mc.Polynomial(2)
        for _ in range(4):
            kernel = (kernel + 1.0).normalized()
        return kernel

    gram = nested(0.8).gram(X, Z)
    slope = ref.derivative(lambda t: (WEIGHTS * nested(0.8 + t)(X, Z)).sum())
    path = next(p for p in nested(0.8)._tree.values if p.endswith("length_scale"))
    found = gram.gradient(WEIGHTS)[nested(0.8).theta_names.index(path)] / 0.8
    assert_allclose(found, slope, rtol=1e-7)
    assert_allclose(gram.input_gradient(WEIGHTS)[2, 1], ref.derivative(_moved(nested(0.8))))


def _moved(kernel: Any) -> Any:
    direction = np.zeros_like(X)
    direction[2, 1] = 1.0
    return lambda t: (WEIGHTS * kernel(X + t * direction, Z)).sum()
