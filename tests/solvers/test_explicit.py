"""Ridge on explicit features: where they are taken, their digits, and the searches on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import (
    DataError,
    ParameterError,
)
from mercer.rows.rows import RowBlock
from solver_data import BOTH, MATERN, TARGET, TRAIN, N, W, Z

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
PART = RowBlock(mc.Points(X), Y[:, None])


@pytest.mark.parametrize("alpha", [0.1, "loo"])
@pytest.mark.parametrize("y", [Y, np.column_stack([Y, -Y])], ids=["one", "two"])
def test_single_precision_in_single_precision_out(alpha: Any, y: Any) -> None:
    single = X.astype(np.float32)
    for kernel, solver in (
        (mc.RBF(1.0), S.RandomFeatures(mc.RandomFourier(n_components=100, random_state=0))),
        (mc.Polynomial(2), S.Primal()),
        (mc.RBF(1.0), S.NystromSolver(30, random_state=0)),
    ):
        ridge = mc.KernelRidge(kernel, alpha, alphas=[0.1, 1.0], solver=solver)
        found = ridge.fit(single, y).predict(single)
        assert found.dtype == np.float32
        assert_allclose(found, ridge.fit(X, y).predict(X), atol=2e-3)
        assert ridge.path(single, y, [0.1, 1.0]).predict(single).dtype == np.float32


@pytest.mark.parametrize("kernel", [mc.Linear(), mc.Polynomial(2)], ids=["linear", "polynomial"])
def test_features_are_taken_where_they_are_cheaper(kernel: Any) -> None:
    auto = mc.KernelRidge(kernel, 0.1).fit(X, Y)
    exact = mc.KernelRidge(kernel, 0.1, solver=S.Cholesky()).fit(X, Y)
    assert isinstance(auto.solver_, S.Primal)
    assert_allclose(auto.predict(X), exact.predict(X), rtol=1e-10)
    assert_allclose(auto.dual_coef_, exact.dual_coef_, atol=1e-9)
    assert_allclose(auto.loo_residuals_, exact.loo_residuals_, atol=1e-9)
    assert auto.effective_dof_ == pytest.approx(exact.effective_dof_)


def test_rows_carry_the_function_of_features_at_every_alpha() -> None:
    targets = np.column_stack([Y, Y**2])
    weights = X[:, 0] ** 2
    about = X - np.average(X, axis=0, weights=weights)
    path = mc.KernelRidge(mc.Linear(), solver=S.Primal()).path(X, targets, [0.1, 3.0], weights)
    middle = np.average(targets, axis=0, weights=weights)
    for dual, alpha in zip(path.dual_coef, path.alphas, strict=True):
        square = about.T @ (weights[:, None] * about) + alpha * np.eye(2)
        wanted = np.linalg.solve(square, about.T @ (weights[:, None] * (targets - middle)))
        assert_allclose(X.T @ dual, wanted, rtol=1e-9)
        assert_allclose(dual.sum(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-8, 1e-12])
def test_features_are_taken_however_small_alpha_is(alpha: float) -> None:
    rows = RNG.normal(size=(800, 5))
    y = rows @ np.arange(5.0) + RNG.normal(size=800)
    design = np.column_stack([rows, np.ones(800)])
    wanted = np.linalg.lstsq(design, y, rcond=None)[0]
    found = mc.KernelRidge(mc.Linear(), alpha).fit(rows, y)
    assert isinstance(found.solver_, S.Primal)
    assert_allclose(found.predict(rows), design @ wanted, atol=1e-9)
    assert_allclose(found.primal_coef().values, wanted[:-1], atol=1e-9)
    assert_allclose(found.intercept_, wanted[-1], atol=1e-9)


def hat_matrix(phi: Any, alpha: float) -> Any:
    """What turns targets into fitted values, from an orthonormal basis: nothing is squared."""
    about = phi - phi.mean(axis=0)
    basis = np.linalg.qr(np.vstack([about, np.sqrt(alpha) * np.eye(phi.shape[1])]))[0][: len(phi)]
    return basis @ basis.T + 1 / len(phi)


def test_features_keep_digits_that_kernel_values_lose() -> None:
    rng = np.random.default_rng(0)
    year, t = rng.integers(1990, 2021, 500).astype(float), rng.normal(size=500)
    rows = np.column_stack([year, t])
    y = 0.1 * (year - 2005) + 0.02 * (year - 2005) ** 2 + t + 0.1 * rng.normal(size=500)
    phi = np.column_stack([year**2, t**2, np.sqrt(2) * np.column_stack([year * t, year, t])])
    found = mc.KernelRidge(mc.Polynomial(2), 0.01).fit(rows, y)
    assert isinstance(found.solver_, S.Primal)
    # Sums of squares are rounded by 1e-2 of alpha, each of 500^2 kernel values by a third of it.
    assert_allclose(found.predict(rows), hat_matrix(phi, 0.01) @ y, atol=1e-3)


def left_out(kernel: Any, alpha: float, criterion: str) -> float:
    """The leave-one-out or GCV error of a kernel with features."""
    hat = hat_matrix(kernel.feature_map(X), alpha)
    free = 1 - (hat.diagonal() if criterion == "loo" else np.trace(hat) / len(X))
    return float(np.mean(((Y - hat @ Y) / free) ** 2))


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("scales", [None, {"degree": [1, 2, 3]}], ids=["one", "degrees"])
def test_searches_take_features_too(criterion: Any, scales: Any) -> None:
    found = mc.KernelRidge(mc.Polynomial(2), criterion, length_scales=scales).fit(X, Y)
    assert isinstance(found.solver_, S.Primal)
    assert isinstance(mc.forecast(found, np.zeros((200_000, 2))).chosen, S.Primal)
    wanted = [
        [left_out(kernel, alpha, criterion) for alpha in found.alphas_]
        for kernel in found.search_kernels_
    ]
    assert_allclose(found.search_errors_, wanted, rtol=1e-9)


def test_every_candidate_of_a_search_has_to_have_few_features() -> None:
    rows = RNG.normal(size=(200, 10))
    degrees = {"degree": [2, 5]}  # 66 features, and 3,003
    found = mc.KernelRidge(mc.Polynomial(2), 0.1, length_scales=degrees).fit(rows, Y)
    assert isinstance(found.solver_, S.Cholesky)


@pytest.mark.parametrize(
    "solver",
    [S.NystromSolver(20, random_state=0), S.ConjugateGradient(random_state=0), S.Cholesky()],
    ids=["NystromSolver", "ConjugateGradient", "Cholesky"],
)
@pytest.mark.filterwarnings("ignore:.*compared, has the least")
def test_a_search_has_one_grid_of_alphas(solver: Any) -> None:
    scales = {"scale": [0.01, 1.0, 100.0]}
    found = mc.KernelRidge(2.0 * mc.RBF(1.0), "loo", length_scales=scales, solver=solver).fit(X, Y)
    row, column = np.unravel_index(np.argmin(found.search_errors_), found.search_errors_.shape)
    assert (found.search_kernels_[row], found.alphas_[column]) == (found.kernel_, found.alpha_)
    for kernel, errors in zip(found.search_kernels_, found.search_errors_, strict=True):
        # Each row of the table is that of the kernel alone, at the alphas that are stored.
        alone = mc.KernelRidge(kernel, "loo", alphas=found.alphas_, solver=solver).fit(X, Y)
        assert_allclose(alone.search_errors_[0], errors, rtol=1e-9)


def sketched(alpha: Any) -> mc.KernelRidge:
    sketch = mc.TensorSketch(n_components=30, random_state=0)
    return mc.KernelRidge(mc.Polynomial(3), alpha, solver=S.RandomFeatures(sketch))


@pytest.mark.parametrize("weights", [None, np.ones(200)], ids=["plain", "weights"])
def test_large_features(weights: Any) -> None:
    scale = 1e3
    large = scale * RNG.random((200, 3))
    alpha = float(scale) ** 6
    found = sketched(alpha).fit(large, Y, weights)
    phi = found.feature_map_.transform(large) / scale**3  # and alpha is 1
    centred = np.vstack([phi - phi.mean(axis=0), np.eye(30)])
    right = np.concatenate([Y - Y.mean(), np.zeros(30)])
    coef = np.linalg.lstsq(centred, right, rcond=None)[0]
    assert_allclose(found.predict(large), (phi - phi.mean(axis=0)) @ coef + Y.mean(), atol=1e-8)
    assert np.isfinite(found.kernel_error_)


def test_features_beyond_double_precision_are_refused() -> None:
    large = 1e60 * RNG.random((200, 3))
    messages = {
        1.0: r"KernelRidge: features .* are beyond the range of their type; divide X",
        "loo": r"KernelRidge: values k\(x, x\) of .* exceed the range of float64, .*; divide X",
    }
    for weights in (None, np.ones(200)):
        for alpha, message in messages.items():
            with pytest.raises(DataError, match=message):
                sketched(alpha).fit(large, Y, weights)
        with pytest.raises(DataError, match=messages[1.0]):
            sketched(1.0).path(large, Y, [0.1, 1.0], weights)


Array = NDArray[np.floating[Any]]


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (mc.Linear(), TRAIN),
        (2.0 * mc.Polynomial(2) + mc.Linear(), TRAIN),
        (mc.Spectrum(2), ["abab", "abc", "ccab", "bbbb", "cabc", "aabb"] * 3),
        (mc.Linear().on("a"), pd.DataFrame({"a": TRAIN[:, 0], "b": TRAIN[:, 1]})),
    ],
    ids=["linear", "polynomial", "strings", "column"],
)
def test_features_give_the_same_as_the_dual(kernel: mc.Kernel, rows: Any) -> None:
    y = TARGET[: len(rows)]
    primal = mc.KernelRidge(kernel, 0.5, solver=S.Primal()).fit(rows, y)
    dual = mc.KernelRidge(kernel, 0.5, solver=S.Cholesky()).fit(rows, y)
    fresh = rows[::-1][:5]
    assert_allclose(primal.predict(fresh), dual.predict(fresh), rtol=1e-10)
    assert_allclose(primal.dual_coef_, dual.dual_coef_, rtol=1e-8, atol=1e-10)
    assert_allclose(primal.intercept_, dual.intercept_, rtol=1e-10)
    assert primal.effective_dof_ == pytest.approx(dual.effective_dof_)


@pytest.mark.parametrize("alpha", [0.3, "gcv"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_random_features(alpha: Any, weights: Array | None, fit_intercept: bool) -> None:
    fourier = mc.RandomFourier(MATERN, n_components=40, random_state=0)
    model = mc.KernelRidge(MATERN, alpha, fit_intercept, solver=S.RandomFeatures(fourier))
    model.fit(TRAIN, BOTH, weights)
    w = np.ones(N) if weights is None else weights
    phi = model.feature_map_.transform(TRAIN)
    design = np.column_stack([phi, np.ones(N)]) if fit_intercept else phi
    penalty = model.alpha_ * np.eye(design.shape[1])
    if fit_intercept:
        penalty[-1, -1] = 0
    squares = design.T @ (w[:, None] * design) + penalty
    wanted = np.linalg.solve(squares, design.T @ (w[:, None] * BOTH))
    fresh = model.feature_map_.transform(Z)
    fresh = np.column_stack([fresh, np.ones(len(Z))]) if fit_intercept else fresh
    assert_allclose(model.predict(Z), fresh @ wanted, rtol=1e-7)
    if alpha == "gcv":
        return
    # The representer theorem: the same function over the rows.
    over_rows = model.feature_map_.transform(Z) @ phi.T @ model.dual_coef_ + model.intercept_
    assert_allclose(over_rows, model.predict(Z), rtol=1e-6)


def test_strings_that_were_not_seen() -> None:
    rows = ["abab", "abc", "ccab", "bbbb", "cabc"]
    models = [
        mc.KernelRidge(mc.Spectrum(2), 0.5, solver=solver).fit(rows, TARGET[:5])
        for solver in (S.Primal(), S.Cholesky())
    ]
    first, second = (model.predict(["xyz", "abxy"]) for model in models)
    assert_allclose(first, second, rtol=1e-10)


def test_no_penalty_in_feature_space() -> None:
    with pytest.raises(ParameterError, match="alpha = 0 determines no coefficients"):
        mc.KernelRidge(mc.Linear(), 0.0, solver=S.Primal()).fit(TRAIN, TARGET)
