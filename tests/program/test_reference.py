"""The NumPy executor against formulas."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.kernels.base import pairs_of
from mercer.program import reference
from mercer.program.reverse import Request

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))


def test_values_are_those_of_the_loops() -> None:
    for kernel, loop in ((mc.RBF(), ref.rbf), (mc.Anova(2), ref.anova), (mc.Matern(), ref.matern)):
        pairs = pairs_of(kernel, X, Z)
        assert_allclose(reference.evaluate(kernel.expression, pairs), ref.matrix(loop, X, Z))
        diagonal = reference.diagonal(kernel.expression, pairs_of(kernel, X).diagonal())
        assert_allclose(diagonal, [loop(x, x) for x in X])


def test_contractions_are_sums() -> None:
    kernel, weights = mc.Linear(), RNG.normal(size=(6, 4))
    expression = kernel.expression
    requests = [Request(kind, expression) for kind in ("sum", "row_sums", "column_sums")]
    requests.append(Request("dot_inputs", expression, expression.attr))
    total, rows, columns, inputs = reference.contract(requests, pairs_of(kernel, X, Z), weights)
    K = X @ Z.T
    assert_allclose(total, K.sum())
    assert_allclose(rows, K.sum(axis=1))
    assert_allclose(columns, K.sum(axis=0))
    assert_allclose(inputs, K @ Z)


def test_elementary_symmetric_polynomials() -> None:
    values = [2.0, 3.0, 5.0]
    assert_allclose(np.poly(-np.array(values)), reference.elementary(values, 3))
