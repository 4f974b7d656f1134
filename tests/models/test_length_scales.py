"""Targets of any order of magnitude: the fit of targets of the order of one, times their scale."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import DataError
from mercer.solvers.ridge.target_units import Units

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = mc.RBF(1.5)
FOURIER = mc.RandomFourier(n_components=80, random_state=0)

# Powers of two near 1e-170, 1e200 and the ends of float64, by which nothing is rounded.
EXPONENTS = [-1000, -565, 512, 664, 1000]

SOLVERS: dict[str, tuple[mc.kernels.base.Kernel, Any]] = {
    "conjugate": (KERNEL, S.ConjugateGradient(random_state=0)),
    "nystrom": (KERNEL, S.NystromSolver(30, random_state=0)),
    "falkon": (KERNEL, S.Falkon(30, random_state=0)),
    "features": (KERNEL, S.RandomFeatures(FOURIER)),
    "primal": (mc.Polynomial(2), S.Primal()),
}


def fitted(which: str, y: Any, alpha: Any = 0.1, **settings: Any) -> mc.KernelRidge:
    kernel, solver = SOLVERS[which]
    return mc.KernelRidge(kernel, alpha, solver=solver, **settings).fit(X, y)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("which", SOLVERS)
def test_the_scale_of_the_targets_changes_nothing_else(which: str, exponent: int) -> None:
    plain, scaled = fitted(which, Y), fitted(which, np.ldexp(Y, exponent))
    # The same numbers, since both are solved in the same unit.
    assert np.array_equal(np.ldexp(scaled.dual_coef_, -exponent), plain.dual_coef_)
    assert_allclose(np.ldexp(scaled.predict(X), -exponent), plain.predict(X), rtol=1e-12)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("which", [name for name in SOLVERS if name != "falkon"])
def test_the_same_alpha_is_chosen(which: str, criterion: str) -> None:
    plain = fitted(which, Y, criterion)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = fitted(which, np.ldexp(Y, -565), criterion)
        large = fitted(which, np.ldexp(Y, 664), criterion)
    assert small.alpha_ == large.alpha_ == plain.alpha_
    assert_allclose(np.ldexp(large.predict(X), -664), plain.predict(X), rtol=1e-9)
    # Squares of such targets are beyond the range of numbers, on either side.
    assert (small.search_errors_[np.isfinite(plain.search_errors_)] == 0).all()
    assert np.isinf(large.search_errors_).all()


def test_errors_are_in_the_units_of_the_targets() -> None:
    for which in ("conjugate", "nystrom", "features", "primal"):
        plain, scaled = fitted(which, Y, "loo"), fitted(which, 1000 * Y, "loo")
        assert_allclose(scaled.search_errors_, 1e6 * plain.search_errors_, rtol=1e-6)


@pytest.mark.parametrize("which", SOLVERS)
def test_targets_of_different_scales_are_fitted_side_by_side(which: str) -> None:
    both = fitted(which, np.column_stack([Y, np.ldexp(Y, -900)])).predict(X)
    assert_allclose(np.ldexp(both[:, 1], 900), both[:, 0], rtol=1e-9)


@pytest.mark.parametrize("which", SOLVERS)
def test_paths(which: str) -> None:
    kernel, solver = SOLVERS[which]
    alphas = np.array([0.1, 1.0])
    model = mc.KernelRidge(kernel, solver=solver)
    plain = model.path(X, Y, alphas)
    scaled = model.path(X, np.ldexp(Y, 664), alphas)
    assert_allclose(np.ldexp(scaled.predict(X), -664), plain.predict(X), rtol=1e-9)
    several = model.path(X, 1000 * np.column_stack([Y, -Y]), alphas)
    assert_allclose(several.predict(X)[:, :, 0], 1000 * plain.predict(X), rtol=1e-5, atol=1e-3)
    assert_allclose(several.loo_errors, 1e6 * plain.loo_errors, rtol=1e-6)


def test_rows_in_blocks_are_scaled_where_they_are_read() -> None:
    y = np.ldexp(Y, 664)
    blocks = mc.Blocks([(X[:70], y[:70]), (X[70:], y[70:])])
    model = mc.KernelRidge(KERNEL, 0.1, solver=S.NystromSolver(30, random_state=0))
    whole = model.fit(X, y).predict(X)
    assert_allclose(model.fit(blocks).predict(X) / 2.0**664, whole / 2.0**664, rtol=1e-8)


def test_a_row_of_weight_zero_does_not_set_the_scale() -> None:
    y, weights = np.append(Y, 1e300), np.append(np.ones(150), 0.0)
    model = mc.KernelRidge(KERNEL, 0.1, solver=S.ConjugateGradient(random_state=0))
    found = model.fit(np.vstack([X, [[0.0, 0.0]]]), y, weights).predict(X)
    exact = mc.KernelRidge(KERNEL, 0.1, solver=S.Cholesky()).fit(X, Y).predict(X)
    assert_allclose(found, exact, atol=1e-5)


def test_machines_by_iterations() -> None:
    machine = mc.KernelMachineRegressor(KERNEL, "squared", solver=S.Falkon(30, random_state=0))
    plain = machine.fit(X, Y).predict(X)
    assert_allclose(np.ldexp(machine.fit(X, np.ldexp(Y, -565)).predict(X), 565), plain, rtol=1e-7)


def test_what_single_precision_cannot_hold_is_refused() -> None:
    for which in ("conjugate", "nystrom", "falkon", "features"):
        kernel, solver = SOLVERS[which]
        with pytest.raises(DataError, match="exceed the range of float32"):
            mc.KernelRidge(kernel, solver=solver, alpha=1.0).fit(X.astype(np.float32), 1e200 * Y)


def test_constant_targets_and_none() -> None:
    for which in SOLVERS:
        assert_allclose(fitted(which, np.full(150, 1e200)).predict(X) / 1e200, 1.0)
        assert_allclose(fitted(which, np.zeros(150)).predict(X), 0.0)
    assert Units.of(np.array([0.0, 1.0, 3.0])).exponents.tolist() == [0, 1, 2]
    assert Units.of(np.array([0.0, 1.0, 3.0]), shared=True).exponents.tolist() == [2, 2, 2]


@pytest.mark.parametrize("unit", [2.0**-664, 2.0**664])
def test_the_unit_of_weights_and_alpha_changes_nothing(unit: float) -> None:
    solver, weights = S.NystromSolver(landmarks=np.arange(0, 150, 5)), np.linspace(0.5, 2.0, len(X))
    plain = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y, weights)
    scaled = mc.KernelRidge(KERNEL, 0.1 * unit, solver=solver).fit(X, Y, weights * unit)
    assert_allclose(scaled.predict(X), plain.predict(X), atol=1e-8)
    # The gradient, written out: C'W (y - f) = alpha M c.
    C, M = KERNEL(X, scaled.points_.data), KERNEL(scaled.points_.data)
    right = C.T @ (weights * (Y - scaled.intercept_))
    left = right - (C.T @ (weights[:, None] * C) + 0.1 * M) @ scaled.dual_coef_
    assert np.linalg.norm(left) <= 1e-9 * np.linalg.norm(right)
    assert 0 < scaled.residual_ < 1e-9


@pytest.mark.parametrize("constant", [0.1, 3e299, 1e300])
@pytest.mark.parametrize("kernel", [mc.Linear(), mc.RBF()], ids=repr)
def test_constant_targets_leave_no_residual_but_rounding(
    constant: float, kernel: mc.Kernel
) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3))
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(50, random_state=0))
    model.fit(rows, np.full(400, constant))  # and no warning, which would be an error here
    assert_allclose(model.predict(rows), constant)
    assert model.residual_ < 1e-9
