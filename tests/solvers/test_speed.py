"""Speeds are positive, and follow the work that is measured."""

from __future__ import annotations

import numpy as np

import mercer as mc
from mercer.kernels.base import validated
from mercer.solvers.speed import operations_per_second, seconds_per_pair


def test_a_matrix_product_is_timed_once() -> None:
    assert operations_per_second() > 1e7
    assert operations_per_second() == operations_per_second()


def test_kernel_values_of_any_data_are_timed() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    calls = []

    def slow(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        calls.append((len(A), len(B)))
        return A @ B.T

    given = mc.Precomputed()
    for kernel, data in (
        (mc.RBF(1.0), X),
        (mc.Spectrum(2), ["abc", "abd", "bcd"]),
        (given, mc.RBF()(X)),
        (mc.FunctionKernel(slow), X),
    ):
        points = validated(kernel, data)
        assert 0 < seconds_per_pair(kernel.resolve(points), points) < 1
    assert sum(a * b for a, b in calls) < 10 * 300**2
