"""The terms of a kernel: they sum to it, and have short distinct names."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.kernels.terms import terms

X = np.random.default_rng(0).uniform(0.1, 2.0, size=(9, 3))
SUMS = {
    "plain": mc.RBF() + mc.Linear(),
    "scaled": 2.0 * (mc.RBF() + 3.0 * mc.Linear()) + 1.5,
    "columns": (mc.RBF() + mc.Linear()).on(0, 2) + mc.RBF().on(1),
    "standardised": (mc.RBF() + mc.Linear()).standardized([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]),
    "warped": (mc.RBF() + mc.Linear()).warp(np.log),
    "times a function": (mc.RBF() + mc.Linear()).scaled_by(lambda x: x[:, 0]),
    "products": (mc.RBF() + mc.Linear()) * mc.Periodic() + mc.RBF() ** 2 + 0.5 * mc.White(),
}


@pytest.mark.parametrize("kernel", SUMS.values(), ids=SUMS)
def test_the_terms_sum_to_the_kernel(kernel: mc.Kernel) -> None:
    parts = terms(kernel)
    assert len(parts) > 1
    np.testing.assert_allclose(sum(part(X) for _, part in parts), kernel(X), rtol=1e-13)
    np.testing.assert_allclose(sum(part(X, X[:4]) for _, part in parts), kernel(X, X[:4]), 1e-13)


def test_names_leave_numbers_out() -> None:
    kernel = 2.0 * mc.RBF(3.0).on("income") + mc.Linear().standardized().on("a", "b")
    assert [name for name, _ in terms(kernel)] == ["RBF.on('income')", "Linear.on('a', 'b')"]
    names = [name for name, _ in terms(SUMS["products"])]
    assert names == ["(RBF + Linear) * Periodic", "RBF ** 2", "White"]


def test_equal_names_are_numbered() -> None:
    names = [name for name, _ in terms(mc.RBF(1.0) + mc.Linear() + mc.RBF(5.0))]
    assert names == ["RBF (1)", "Linear", "RBF (2)"]


@pytest.mark.parametrize("kernel", [mc.RBF(), 2.0 * mc.RBF(), mc.RBF() * (mc.Linear() + 1.0)])
def test_a_kernel_that_is_no_sum_is_one_term(kernel: mc.Kernel) -> None:
    ((_, part),) = terms(kernel)
    assert part == kernel
