"""Weights and the intercept in a Gram matrix, against matrices of reflections written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.linalg.centring import lifted, reflected, reflector_of, weigh

RNG = np.random.default_rng(0)
N = 7
ROOT = RNG.normal(size=(N, N))
K = ROOT @ ROOT.T
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_reflection_takes_the_weights_to_the_first_axis(order: Any) -> None:
    gram = np.array(K, order=order)
    root = weigh(gram, WEIGHTS)
    assert_allclose(gram, np.diag(root) @ K @ np.diag(root))
    v = reflector_of(root)
    reflection = np.eye(N) - 2 * np.outer(v, v)
    assert_allclose((reflection @ root)[1:], 0, atol=1e-14)
    expected = (reflection @ gram @ reflection)[1:, 1:]
    found = reflected(gram, v)
    assert_allclose(np.tril(found), np.tril(expected), atol=1e-12)
    columns = RNG.normal(size=(N - 1, 3))
    assert_allclose(lifted(columns, v), reflection[:, 1:] @ columns, atol=1e-14)
    assert_allclose(root @ lifted(columns, v), 0, atol=1e-13)


def test_no_weights_are_ones() -> None:
    gram = K.copy()
    assert_allclose(weigh(gram, None), np.ones(N))
    assert_allclose(gram, K)
