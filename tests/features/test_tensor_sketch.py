"""Tensor sketches are unbiased, of the stated variance."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from monte_carlo import assert_mean, assert_variance, estimates, points


@pytest.mark.parametrize(("degree", "n_components"), [(1, 15), (2, 1), (2, 16), (3, 15)])
def test_tensor_sketch_is_unbiased_with_the_stated_variance(degree: int, n_components: int) -> None:
    offset, gain = 0.5, 0.7
    kernel = mc.Polynomial(degree=degree, offset=offset, gain=gain)
    X = points(4, 3, seed=6)
    values = estimates(
        lambda seed: mc.TensorSketch(kernel, n_components, random_state=seed), X, 500
    )
    assert_mean(values, kernel(X)[0, 1:])
    full = np.column_stack([np.sqrt(gain) * X, np.full(4, np.sqrt(offset))])
    x, Z = full[0], full[1:]
    a, q = (Z @ x) ** 2, (Z**2) @ (x**2)
    b, c = (x @ x) * (Z * Z).sum(axis=1) - q, a - q
    first = (a + b) ** degree + (a + c) ** degree - 2 * a**degree
    second = (a + b + c) ** degree - (a + b) ** degree - (a + c) ** degree + a**degree
    # Modulo 1 every sum of places is 0 twice over, as modulo any odd number it is not.
    even = 2 if n_components % 2 == 0 else 1
    expected = first / n_components + even * second / n_components**2
    assert_variance(values, expected)


def test_tensor_sketch_of_compositions() -> None:
    kernel = 2.0 * mc.Polynomial(degree=2).on(0, 1) * mc.Linear().on(2) + mc.Linear() + 1.5
    X = points(4, 3, seed=7)
    values = estimates(lambda seed: mc.TensorSketch(kernel, 40, random_state=seed), X, 200)
    assert_mean(values, kernel(X)[0, 1:])


def test_the_error_of_a_tensor_sketch_falls_with_its_width() -> None:
    X, kernel = points(20, 5), mc.Polynomial(degree=2)
    errors = []
    for n_components in (64, 1024):
        maps = [
            mc.TensorSketch(kernel, n_components, random_state=s).fit_transform(X)
            for s in range(20)
        ]
        errors.append(np.sqrt(np.mean([(Phi @ Phi.T - kernel(X)) ** 2 for Phi in maps])))
    assert 4 / 1.5 < errors[0] / errors[1] < 4 * 1.5
