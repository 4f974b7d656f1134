"""Targets and weights of other units: the same fit, times their scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = mc.RBF(1.5)
FOURIER = mc.RandomFourier(n_components=80, random_state=0)

SOLVERS: dict[str, tuple[mc.kernels.base.Kernel, Any]] = {
    "conjugate": (KERNEL, S.ConjugateGradient(random_state=0)),
    "nystrom": (KERNEL, S.NystromSolver(30, random_state=0)),
    "falkon": (KERNEL, S.Falkon(30, random_state=0)),
    "features": (KERNEL, S.RandomFeatures(FOURIER)),
    "primal": (mc.Polynomial(2), S.Primal()),
}


def fitted(which: str, y: Any, alpha: Any = 0.1) -> mc.KernelRidge:
    kernel, solver = SOLVERS[which]
    return mc.KernelRidge(kernel, alpha, solver=solver).fit(X, y)


@pytest.mark.parametrize("scale", [1e-9, 1e12])
@pytest.mark.parametrize("which", SOLVERS)
def test_the_scale_of_the_targets_changes_nothing_else(which: str, scale: float) -> None:
    plain, scaled = fitted(which, Y), fitted(which, scale * Y)
    assert_allclose(scaled.predict(X) / scale, plain.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("which", [name for name in SOLVERS if name != "falkon"])
def test_the_same_alpha_is_chosen(which: str, criterion: str) -> None:
    plain, scaled = fitted(which, Y, criterion), fitted(which, 1000 * Y, criterion)
    assert scaled.alpha_ == plain.alpha_
    assert_allclose(scaled.search_errors_, 1e6 * plain.search_errors_, rtol=1e-6)


@pytest.mark.parametrize("which", SOLVERS)
def test_paths(which: str) -> None:
    kernel, solver = SOLVERS[which]
    alphas = np.array([0.1, 1.0])
    model = mc.KernelRidge(kernel, solver=solver)
    plain = model.path(X, Y, alphas)
    several = model.path(X, 1000 * np.column_stack([Y, -Y]), alphas)
    assert_allclose(several.predict(X)[:, :, 0], 1000 * plain.predict(X), rtol=1e-5, atol=1e-3)
    assert_allclose(several.loo_errors, 1e6 * plain.loo_errors, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
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


@pytest.mark.parametrize("constant", [0.1, 3e9])
@pytest.mark.parametrize("kernel", [mc.Linear(), mc.RBF()], ids=repr)
def test_constant_targets_leave_no_residual_but_rounding(
    constant: float, kernel: mc.Kernel
) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3))
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(50, random_state=0))
    model.fit(rows, np.full(400, constant))  # and no warning, which would be an error here
    assert_allclose(model.predict(rows), constant)
    assert model.residual_ < 1e-9
