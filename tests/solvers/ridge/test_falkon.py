"""Conjugate gradients on landmarks against the normal equations, formed in the test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import NumericalWarning, ParameterError

Array = NDArray[np.floating[Any]]

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
KERNEL = mc.Matern(1.0, nu=1.5)
ALPHAS = np.array([0.01, 0.1, 1.0, 10.0])


def expected(kernel: Any, points: Array, alpha: float) -> Array:
    """Predictions of the best function over landmarks, from a QR factor: no square of C."""
    centre = np.eye(len(X)) - 1 / len(X)
    values, vectors = np.linalg.eigh(kernel(points))
    kept = values > 1e-10 * values.max()
    features = kernel(X, points) @ vectors[:, kept] / np.sqrt(values[kept])
    stacked = np.vstack([centre @ features, np.sqrt(alpha) * np.eye(kept.sum())])
    right = np.append(Y - Y.mean(), np.zeros(kept.sum()))
    coef = np.linalg.lstsq(stacked, right, rcond=None)[0]
    return np.asarray(Y.mean() + (features - features.mean(axis=0)) @ coef)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_duplicate_landmarks_change_nothing(copies: int) -> None:
    landmarks = np.tile(X[:40], (copies, 1))
    solver = S.Falkon(landmarks=landmarks, tol=1e-9)
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y)
    assert model.converged_
    assert_allclose(model.predict(X), expected(KERNEL, X[:40], 0.1), atol=1e-6)
    assert model.dual_coef_.shape == (40 * copies,)
    assert np.count_nonzero(model.dual_coef_) == 40


# Kernel values of 1e2 in single precision, summed over rows, do not resolve an alpha of 1e-3 on
# every CPU: Falkon then warns that rounding stops it.
@pytest.mark.parametrize(
    ("dtype", "alpha"),
    [(np.float64, 1.0), (np.float64, 1e-3), (np.float32, 1.0), (np.float32, 0.1)],
)
@pytest.mark.parametrize("kernel", [mc.Linear(), mc.Polynomial(2), mc.Constant(1.0)])
def test_more_landmarks_than_dimensions(kernel: Any, alpha: float, dtype: Any) -> None:
    # A landmark matrix of rank 3, 10 and 1: a warning of a breakdown would be an error here.
    rows = X.astype(dtype)
    model = mc.KernelRidge(kernel, alpha, solver=S.Falkon(50, random_state=0)).fit(rows, Y)
    tol = 1e-5 if dtype is np.float64 else 1e-3
    exact = mc.KernelRidge(kernel, alpha, solver=S.Cholesky()).fit(X, Y).predict(X)
    assert_allclose(model.predict(rows), exact, atol=tol)
    assert np.count_nonzero(model.dual_coef_) <= 10


def test_a_kernel_that_is_zero() -> None:
    model = mc.KernelRidge(mc.Linear(), solver=S.Falkon(5, random_state=0))
    assert_allclose(model.fit(np.zeros((20, 2)), Y[:20]).predict([[1.0, 2.0]]), Y[:20].mean())


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_path_is_the_fit_at_each_alpha(fit_intercept: bool) -> None:
    solver = S.Falkon(40, random_state=0, tol=1e-9, max_iter=500)
    targets = np.column_stack([Y, X[:, 0]])
    model = mc.KernelRidge(KERNEL, fit_intercept=fit_intercept, solver=solver)
    path = model.path(X, targets, ALPHAS)
    for alpha, found in zip(ALPHAS, path.predict(X), strict=True):
        one = model.set_params(alpha=alpha).fit(X, targets)
        assert_allclose(found, one.predict(X), atol=1e-6)
    assert np.isnan(path.loo_errors).all()


def test_a_path_against_the_normal_equations() -> None:
    solver = S.Falkon(landmarks=np.vstack([X[:40], X[:10]]), tol=1e-9, max_iter=500)
    path = mc.KernelRidge(KERNEL, solver=solver).path(X, Y, ALPHAS).predict(X)
    for alpha, found in zip(ALPHAS, path, strict=True):
        assert_allclose(found, expected(KERNEL, X[:40], alpha), atol=1e-6)


def test_a_path_that_stops_short() -> None:
    model = mc.KernelRidge(KERNEL, solver=S.Falkon(40, random_state=0, max_iter=2))
    with pytest.warns(NumericalWarning, match="stopped after 2"):
        model.path(X, Y, ALPHAS)
    with pytest.raises(ParameterError, match=r"Falkon: tol = -1 is not between"):
        mc.KernelRidge(KERNEL, solver=S.Falkon(5, tol=-1)).path(X, Y, ALPHAS)


# What rounding does -------------------------------------------------------------------------------


def smooth(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    return rows, np.sin(rows).sum(axis=1) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "alpha", "off"), [(100, 1e-8, 1e-5), (1000, 1e-4, 1e-3)])
def test_all_rows_as_landmarks(n: int, alpha: float, off: float, fit_intercept: bool) -> None:
    # An RBF kernel comes near a constant, which an intercept makes all but free.
    rows, y = smooth(n, 3)
    far = np.random.default_rng(1).normal(size=(500, 3))
    settings: dict[str, Any] = {"alpha": alpha, "fit_intercept": fit_intercept}
    exact = mc.KernelRidge(mc.RBF(1.5), solver=S.Spectral(), **settings).fit(rows, y).predict(far)
    solver = S.Falkon(landmarks=np.arange(n), tol=1e-6)
    model = mc.KernelRidge(mc.RBF(1.5), solver=solver, **settings).fit(rows, y)
    assert model.converged_
    assert_allclose(model.predict(far), exact, atol=off * np.abs(exact).max())


def least_objective(
    cross: Array, root: Array, y: Array, alpha: float, fit_intercept: bool
) -> float:
    """What the best function comes to, from a QR factor of C T; T' M T = I, T the inverse root."""
    features = cross @ root
    features = features - features.mean(axis=0) * fit_intercept
    width = features.shape[1]
    stacked = np.vstack([features, np.sqrt(alpha) * np.eye(width)])
    padded = np.append(y - y.mean() * fit_intercept, np.zeros(width))
    q, r = np.linalg.qr(stacked)
    left = padded - stacked @ np.linalg.solve(r, q.T @ padded)
    return float(left @ left)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("n", "d", "scale", "m", "alpha"),
    [(2500, 10, 10**0.5, 200, 0.01), (2000, 2, 1.0, 300, 1.0), (2000, 2, 1.0, 300, 1e-3)],
)
def test_ordinary_data_take_few_iterations(
    n: int, d: int, scale: float, m: int, alpha: float, fit_intercept: bool
) -> None:
    # A warning of missing the tolerance would be an error.
    rows, y = smooth(n, d)
    solver = S.Falkon(m, random_state=0)
    kernel = mc.RBF(scale)
    model = mc.KernelRidge(kernel, alpha, fit_intercept=fit_intercept, solver=solver).fit(rows, y)
    assert model.converged_
    assert model.n_iter_ <= 30
    points, dual = rows[model.rows_], model.dual_coef_
    left = y - model.predict(rows)
    found = left @ left + alpha * dual @ kernel(points) @ dual
    carrying = points[dual != 0]
    root = np.linalg.inv(np.linalg.cholesky(kernel(carrying))).T
    best = least_objective(kernel(rows, carrying), root, y, alpha, fit_intercept)
    assert_allclose(found, best, rtol=1e-6)
    # The other landmarks are explained by these, but for far rows.
    values, vectors = np.linalg.eigh(kernel(points))
    kept = values > 1e-13 * values.max()
    root = vectors[:, kept] / np.sqrt(values[kept])
    best = least_objective(kernel(rows, points), root, y, alpha, fit_intercept)
    assert_allclose(found, best, rtol=1e-3)


@pytest.mark.parametrize("how", ["kmeans++", "rpcholesky"])
def test_landmarks_that_are_no_fair_sample(how: str) -> None:
    rows, y = smooth(3000, 3)
    solver = S.Falkon(200, landmarks=how, random_state=0)
    model = mc.KernelRidge(mc.Matern(2.0, nu=1.5), 0.01, solver=solver).fit(rows, y)
    direct = S.NystromSolver(landmarks=model.rows_)
    expected = mc.KernelRidge(mc.Matern(2.0, nu=1.5), 0.01, solver=direct).fit(rows, y)
    assert model.converged_
    assert model.n_iter_ <= 30
    assert_allclose(model.predict(rows), expected.predict(rows), atol=1e-4)


def test_weights_are_in_the_preconditioner() -> None:
    rows, y = smooth(3000, 3)
    mass = np.random.default_rng(2).exponential(size=len(y)) ** 2
    kernel, solver = mc.Matern(2.0, nu=1.5), S.Falkon(landmarks=np.arange(200))
    model = mc.KernelRidge(kernel, 0.01, solver=solver).fit(rows, y, sample_weight=mass)
    direct = S.NystromSolver(landmarks=np.arange(200))
    expected = mc.KernelRidge(kernel, 0.01, solver=direct).fit(rows, y, sample_weight=mass)
    assert model.n_iter_ <= 30
    assert_allclose(model.predict(rows), expected.predict(rows), atol=1e-4)


def test_iterations_that_rounding_ends_say_so() -> None:
    rows, y = smooth(2000, 2)
    solver = S.Falkon(30, random_state=0, tol=1e-13)
    model = mc.KernelRidge(mc.RBF(10.0), 1e-6, solver=solver)
    with pytest.warns(NumericalWarning, match="stalled after") as caught:
        model.fit(rows, y)
    assert "max_iter" not in str(caught[0].message)
    assert not model.converged_
    assert model.n_iter_ < 100


@pytest.mark.parametrize("seed", range(3))
def test_single_precision_is_never_worse_than_nothing(seed: int) -> None:
    rows, y = smooth(2000, 5, seed)
    model = mc.KernelRidge(mc.RBF(15.0), 0.1, solver=S.Falkon(200, random_state=0))
    with pytest.warns(NumericalWarning, match="stalled"):
        model.fit(rows.astype(np.float32), y)
    assert model.residual_ < 0.01
    expected = mc.KernelRidge(mc.RBF(15.0), 0.1, solver=S.NystromSolver(landmarks=model.rows_))
    close = expected.fit(rows, y).predict(rows)
    assert_allclose(model.predict(rows.astype(np.float32)), close, atol=0.05)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_of_no_weight_between_those_that_count(fit_intercept: bool) -> None:
    # An evenly spaced sample could meet those alone.
    counted = np.arange(399) % 2 == 1
    weights = counted.astype(float)
    solver = S.Falkon(landmarks=X[:40], tol=1e-9)
    model = mc.KernelRidge(KERNEL, 0.1, fit_intercept, solver=solver)
    some = mc.KernelRidge(KERNEL, 0.1, fit_intercept, solver=solver)
    model.fit(X[:399], Y[:399], weights)
    some.fit(X[:399][counted], Y[:399][counted])
    assert model.converged_
    assert_allclose(model.predict(X), some.predict(X), atol=1e-6)
    path = model.path(X[:399], Y[:399], [0.1, 1.0], weights)
    assert_allclose(path.predict(X)[0], some.predict(X), atol=1e-4)


def test_every_second_row_counts() -> None:
    weights = np.ones(399)
    weights[::2] = 0
    solver = S.Falkon(20, random_state=0, tol=1e-9)
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X[:399], Y[:399], weights)
    rows, counted = model.rows_, weights > 0
    C, M = KERNEL(X[:399][counted], X[rows]), KERNEL(X[rows])
    C, middle = C - C.mean(axis=0), Y[:399][counted].mean()
    coef = np.linalg.solve(C.T @ C + 0.1 * M, C.T @ (Y[:399][counted] - middle))
    assert counted[rows].all()
    assert_allclose(model.dual_coef_, coef, atol=1e-5 * np.abs(coef).max())


def test_one_row_counts() -> None:
    weights = np.zeros(200)
    weights[77] = 2.0
    model = mc.KernelRidge(KERNEL, solver=S.Falkon(1, random_state=0)).fit(
        X[:200], Y[:200], weights
    )
    assert_allclose(model.predict(X), Y[77])
    assert model.trace_error_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_trace_error_is_that_of_the_projection(weighted: bool) -> None:
    # All rows are in the sample: the share is that of all of them.
    weights = RNG.integers(0, 3, size=400).astype(float) if weighted else np.ones(400)
    model = mc.KernelRidge(KERNEL, solver=S.Falkon(landmarks=X[:60])).fit(X, Y, weights)
    C = KERNEL(X, X[:60])
    left = KERNEL.diag(X) - np.einsum("ij,ji->i", C, np.linalg.solve(KERNEL(X[:60]), C.T))
    assert model.trace_error_ == pytest.approx(weights @ left / weights.sum(), rel=1e-8)


def test_the_trace_error_of_many_rows_is_estimated() -> None:
    # From eight rows for each of 30 landmarks: a sample mean is beyond five of its standard
    # deviations, 0.07 here, less than once in a million seeds.
    many = np.random.default_rng(1).normal(size=(4000, 3))
    solver = S.Falkon(30, random_state=0)
    model = mc.KernelRidge(KERNEL, solver=solver).fit(many, many[:, 0])
    C, M = KERNEL(many, many[model.rows_]), KERNEL(many[model.rows_])
    left = 1 - np.einsum("ij,ji->i", C, np.linalg.solve(M, C.T))
    assert model.trace_error_ == pytest.approx(left.mean(), abs=5 * left.std() / np.sqrt(240))
