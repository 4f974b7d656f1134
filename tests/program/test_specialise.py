"""Expressions rewritten for the engine against the ones that were written, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.kernels.base import pairs_of
from mercer.program import engine, reference
from mercer.program.expression import walk
from mercer.program.specialise import floating_type, specialise

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))


@pytest.mark.parametrize(
    ("kernel", "container", "primitive"),
    [
        (mc.RBF(0.7), np.asarray, "decay"),
        (mc.Laplacian(0.7), np.asarray, "decay"),
        (mc.Matern(0.7, nu=0.5), np.asarray, "decay"),
        (mc.Periodic(1.3, 0.7), np.asarray, "squared_distance"),
        (mc.RBF(0.7), sp.csr_array, "sparse_dot"),
        (mc.Polynomial(2), sp.csr_array, "sparse_dot"),
    ],
)
def test_the_engine_runs_another_primitive_with_the_same_value(
    kernel: mc.Kernel, container: Any, primitive: str
) -> None:
    pairs = pairs_of(kernel, container(X), container(Z))
    root = specialise(kernel.expression, pairs).root
    assert primitive in {node.op for node in walk((root,))}
    assert primitive not in {node.op for node in walk((kernel.expression,))}
    wanted = reference.evaluate(kernel.expression, pairs_of(kernel, X, Z))
    assert_allclose(engine.gram(kernel.expression, pairs), wanted, rtol=1e-10)


def test_floating_types() -> None:
    single = X.astype(np.float32)
    expression = mc.RBF().expression
    for rows, cols, wanted in ((single, single, "f4"), (single, Z, "f8"), (X, Z, "f8")):
        assert floating_type(expression, pairs_of(mc.RBF(), rows, cols)) == np.dtype(wanted)
    sparse = pairs_of(mc.RBF(), sp.csr_array(single))
    chosen = specialise(expression, sparse)
    assert (chosen.computed, chosen.given) == (np.float64, np.float32)
    assert specialise(expression, pairs_of(mc.RBF(), X), narrow=True).given == np.float32
