"""The terms of a kernel: they sum to it, and have short distinct names."""

from __future__ import annotations

from math import prod

import numpy as np
import pandas as pd
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
    "product of sums": (1.0 + mc.RBF().on(0)) * (0.5 + 2.0 * mc.Linear().on(1)),
    "nested products": 3.0 * ((mc.RBF() + mc.Linear()).on(0) * (2.0 + mc.Matern())).on(1, 2),
}
# A product with 32 terms.
LONG = prod((1.0 + mc.RBF().on(j % 3) for j in range(5)), start=mc.Linear())


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
    assert names == ["RBF * Periodic", "Linear * Periodic", "RBF ** 2", "White"]


def test_constants_of_a_product_are_numbers_in_front() -> None:
    first, second = mc.RBF().on(0), 2.0 * mc.Linear().on(1)
    parts = dict(terms((1.0 + first) * (0.5 + second)))
    assert parts == {
        "Constant": mc.Constant(0.5),
        "Linear.on(1)": second,
        "RBF.on(0)": 0.5 * first,
        "RBF.on(0) * Linear.on(1)": first * second,
    }


def test_the_kernel_of_a_table_has_terms_of_numbers_of_categories_and_of_both() -> None:
    frame = pd.DataFrame({"size": [1.5, 2.0, 3.5], "colour": ["red", "blue", None]})
    names = [name for name, _ in terms(mc.table_kernel(frame))]
    both = "Laplacian.on('size') * Categorical.on('colour')"
    assert names == ["Constant", "Categorical.on('colour')", "Laplacian.on('size')", both]


def test_equal_names_are_numbered() -> None:
    names = [name for name, _ in terms(mc.RBF(1.0) + mc.Linear() + mc.RBF(5.0))]
    assert names == ["RBF (1)", "Linear", "RBF (2)"]


@pytest.mark.parametrize("kernel", [mc.RBF(), 2.0 * mc.RBF(), mc.RBF() * mc.Linear(), LONG])
def test_a_kernel_that_is_no_sum_is_one_term(kernel: mc.Kernel) -> None:
    ((_, part),) = terms(kernel)
    assert part == kernel
