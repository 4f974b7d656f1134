"""Kernel values, or their squares, beyond the range of a floating type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError

S = mc.solvers
RNG = np.random.default_rng(0)
UNIT = RNG.uniform(size=(400, 2))
Y = np.sin(3 * UNIT[:, 0]) + UNIT[:, 1]
NYSTROM, FALKON = S.NystromSolver(20, random_state=0), S.Falkon(20, random_state=0)

# Kernel, factor of the data, their type, a kernel of data in [0, 1] that differs by a factor
# (without the constant term of the polynomial, which is lost beside such numbers), and that factor.
HOMOGENEOUS_2, HOMOGENEOUS_3 = mc.Polynomial(2, offset=0.0), mc.Polynomial(3, offset=0.0)
CASES: list[tuple[mc.Kernel, float, Any, mc.Kernel, float]] = [
    (HOMOGENEOUS_3, 1e4, np.float32, HOMOGENEOUS_3, 1e24),
    (HOMOGENEOUS_2, 1e5, np.float32, HOMOGENEOUS_2, 1e20),
    (1e40 * mc.RBF(0.5), 1.0, np.float32, mc.RBF(0.5), 1e40),
    (HOMOGENEOUS_2, 1e60, np.float64, HOMOGENEOUS_2, 1e240),
    (1e160 * mc.RBF(0.5), 1.0, np.float64, mc.RBF(0.5), 1e160),
]


@pytest.mark.parametrize("solver", [NYSTROM, FALKON])
@pytest.mark.parametrize(("kernel", "unit", "dtype", "plain", "factor"), CASES)
def test_squares_that_overflow(
    kernel: mc.Kernel, unit: float, dtype: Any, plain: mc.Kernel, factor: float, solver: Any
) -> None:
    # With s k for the kernel and s alpha for alpha the function is the same.
    model = mc.KernelRidge(kernel, 0.1 * factor, solver=solver)
    model.fit((unit * UNIT).astype(dtype), Y.astype(dtype))
    expected = mc.KernelRidge(plain, 0.1, solver=solver).fit(UNIT, Y)
    found = model.predict((unit * UNIT).astype(dtype))
    assert_allclose(found, expected.predict(UNIT), atol=2e-4 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize(("kernel", "unit", "dtype", "plain", "factor"), CASES)
def test_paths(kernel: mc.Kernel, unit: float, dtype: Any, plain: mc.Kernel, factor: float) -> None:
    alphas = np.array([0.1, 1.0])
    model = mc.KernelRidge(kernel, solver=NYSTROM)
    path = model.path((unit * UNIT).astype(dtype), Y.astype(dtype), factor * alphas)
    expected = mc.KernelRidge(plain, solver=NYSTROM).path(UNIT, Y, alphas)
    found = path.predict((unit * UNIT).astype(dtype))
    assert_allclose(found, expected.predict(UNIT), atol=2e-4 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("solver", [NYSTROM, FALKON])
def test_values_that_no_type_has_are_refused(solver: Any) -> None:
    model = mc.KernelRidge(mc.Polynomial(2), solver=solver)
    with pytest.raises(
        DataError, match=r"^KernelRidge: values of Polynomial\(degree=2\).*float64; divide"
    ):
        model.fit(1e100 * UNIT, Y)
    with pytest.raises(DataError, match="float64; divide"):
        model.path(1e100 * UNIT, Y, [0.1, 1.0])


@pytest.mark.parametrize("solver", [NYSTROM, FALKON])
def test_single_precision_that_is_not_an_array_is_told_what_to_do(solver: Any) -> None:
    frame = pd.DataFrame(UNIT.astype(np.float32), columns=["a", "b"])
    model = mc.KernelRidge(1e40 * mc.RBF(0.5), solver=solver)
    with pytest.raises(DataError, match=r"float32; pass X in float64, or divide"):
        model.fit(frame, Y)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_no_alpha_is_chosen_on_an_infinite_scale(criterion: Any) -> None:
    model = mc.KernelRidge(1e40 * mc.RBF(0.5), criterion, solver=NYSTROM)
    with pytest.raises(DataError, match="no alphas are on their scale"):
        model.fit(UNIT.astype(np.float32), Y)
    assert 0 < model.fit(UNIT, Y).alpha_ < 1e40
