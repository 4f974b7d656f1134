"""Diagnostics of ridge on features: those of the features' own kernel, by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_approximation import Nystroem

import mercer as mc
from mercer.exceptions import DataError, DataWarning, MemoryForecastError, ParameterError

S = mc.solvers
RNG = np.random.default_rng(3)
N, ALPHA = 60, 0.3
X = RNG.normal(size=(N, 3))
Y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 0.1 * RNG.normal(size=(N, 2)) + 5
W = RNG.uniform(0.2, 3.0, size=N)
W[[4, 17]] = 0.0
ALPHAS = [0.01, ALPHA, 20.0]

MAPS = {
    "few waves": (mc.RBF(1.5), mc.RandomFourier(n_components=25, random_state=0)),
    "more waves than rows": (mc.RBF(1.5), mc.RandomFourier(n_components=90, random_state=0)),
    "sketch": (mc.Polynomial(3), mc.TensorSketch(n_components=40, random_state=0)),
    "of another library": (mc.RBF(1.5), Nystroem(n_components=20, random_state=0)),
}


def model(name: str = "few waves", alpha: Any = ALPHA, **settings: Any) -> mc.KernelRidge:
    kernel, map_ = MAPS[name]
    return mc.KernelRidge(kernel, alpha, solver=S.RandomFeatures(map_), **settings)


def fitted_values(
    phi: np.ndarray, y: np.ndarray, w: np.ndarray, alpha: float, at: np.ndarray, intercept: bool
) -> np.ndarray:
    """Ridge regression on features by its definition: a linear system with a border of ones."""
    design = np.column_stack([phi, np.ones(len(phi))]) if intercept else phi
    penalty = alpha * np.eye(design.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    coef = np.linalg.solve(design.T @ (w[:, None] * design) + penalty, design.T @ (w[:, None] * y))
    return np.column_stack([at, np.ones(len(at))]) @ coef if intercept else at @ coef


def left_out(phi: np.ndarray, w: np.ndarray, alpha: float, intercept: bool) -> np.ndarray:
    """Residuals of fits without each of the rows."""
    rows = np.arange(N)
    found = [
        Y[i] - fitted_values(phi[rows != i], Y[rows != i], w[rows != i], alpha, phi[[i]], intercept)
        for i in rows
    ]
    return np.concatenate(found)


def hat(phi: np.ndarray, w: np.ndarray, alpha: float, intercept: bool) -> np.ndarray:
    """The matrix from targets to fitted values, a column for each unit vector."""
    return fitted_values(phi, np.eye(N), w, alpha, phi, intercept)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weights"])
@pytest.mark.parametrize("intercept", [True, False])
def test_diagnostics_are_those_of_the_features(name: str, weights: Any, intercept: bool) -> None:
    found = model(name, fit_intercept=intercept).fit(X, Y, weights)
    phi, w = found.feature_map_.transform(X), np.ones(N) if weights is None else W
    assert_allclose(found.loo_residuals_, left_out(phi, w, ALPHA, intercept), atol=1e-8)
    assert found.effective_dof_ == pytest.approx(np.trace(hat(phi, w, ALPHA, intercept)), rel=1e-9)
    # With an intercept the matrix of pairs is centred, weights and all; its spectrum is shrunk.
    root = np.sqrt(w[w > 0])
    unit = root / np.linalg.norm(root) * intercept
    pairs = root[:, None] * (phi @ phi.T)[np.ix_(w > 0, w > 0)] * root
    side = np.eye(len(root)) - np.outer(unit, unit)
    values = np.linalg.eigvalsh(side @ pairs @ side)[::-1][: len(root) - intercept]
    assert_allclose(found.shrinkage_, np.maximum(values, 0) / (values + ALPHA), atol=1e-10)


@pytest.mark.parametrize("name", ["few waves", "more waves than rows"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weights"])
def test_paths_are_those_of_the_features(name: str, weights: Any) -> None:
    found = model(name).fit(X, Y, weights)
    phi, w = found.feature_map_.transform(X), np.ones(N) if weights is None else W
    count = np.count_nonzero(w)
    shares = 1 / np.average((Y - np.average(Y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    shares /= shares.sum()
    loo, gcv, dof = [], [], []
    for alpha in ALPHAS:
        smooth = hat(phi, w, alpha, True)
        dof.append(np.trace(smooth))
        loo.append(np.average(left_out(phi, w, alpha, True) ** 2 @ shares, weights=w))
        plain = (Y - smooth @ Y) / (1 - dof[-1] / count)
        gcv.append(np.average(plain**2 @ shares, weights=w))
    assert_allclose(found.loo_path(ALPHAS), loo, rtol=1e-8)
    assert_allclose(found.gcv_path(ALPHAS), gcv, rtol=1e-8)
    assert_allclose(found.dof_path(ALPHAS), dof, rtol=1e-9)
    path = model(name).path(X, Y, ALPHAS, weights)
    assert_allclose(path.loo_errors, loo, rtol=1e-8)
    assert_allclose(path.effective_dof, dof, rtol=1e-9)


def test_single_precision() -> None:
    found, wide = model().fit(X.astype(np.float32), Y), model().fit(X, Y)
    assert_allclose(found.loo_residuals_, wide.loo_residuals_, atol=1e-4)
    assert found.effective_dof_ == pytest.approx(wide.effective_dof_, rel=1e-4)


@pytest.mark.parametrize("name", MAPS)
def test_contributions_add_up_to_predictions(name: str) -> None:
    found = model(name).fit(X, Y)
    phi = found.feature_map_.transform(X)
    for target in range(2):
        terms = found.contributions(X[:7], top=N, output=target)
        assert_allclose(terms.prediction, found.predict(X[:7])[:, target], atol=1e-8)
        for row in range(7):
            products = phi[terms.indices[row]] @ phi[row]
            assert_allclose(terms.kernel_values[row], products, atol=1e-10)
            assert_allclose(
                terms.values[row], found.dual_coef_[terms.indices[row], target] * products,
                atol=1e-8,
            )  # fmt: skip


def test_rows_in_blocks() -> None:
    blocks = mc.Blocks([(X[:40], Y[:40]), (X[40:], Y[40:])])
    found, whole = model().fit(blocks), model().fit(X, Y)
    assert_allclose(found.predict(X), whole.predict(X), atol=1e-8)
    assert found.effective_dof_ == pytest.approx(whole.effective_dof_, rel=1e-9)
    refusal = r"kept 1 of the 60 rows and no targets, .* needs all of them; pass arrays to fit"
    for name in ("loo_residuals_", "shrinkage_"):
        with pytest.raises(DataError, match=refusal):
            getattr(found, name)
    for name in ("loo_path", "gcv_path", "dof_path"):
        with pytest.raises(DataError, match=refusal):
            getattr(found, name)(ALPHAS)


@pytest.mark.parametrize("name", ["few waves", "sketch"])
@pytest.mark.parametrize("targets", [Y, Y[:, 0]], ids=["two", "one"])
def test_coefficients_are_those_of_the_map(name: str, targets: np.ndarray) -> None:
    found = model(name).fit(X, targets)
    primal = found.primal_coef()
    phi = found.feature_map_.transform(X)
    assert_allclose(phi @ primal.values + primal.intercept, found.predict(X), atol=1e-9)
    assert_array_equal(primal.names, found.feature_map_.get_feature_names_out())


def test_a_kernels_own_features_tell_the_same_as_its_matrix() -> None:
    kernel = mc.Polynomial(2, offset=0.5)
    fits = [
        mc.KernelRidge(kernel, 0.1, solver=solver).fit(X, Y, W)
        for solver in (S.Primal(), S.Cholesky())
    ]
    for name in ("loo_residuals_", "shrinkage_", "effective_dof_"):
        assert_allclose(*(getattr(fit, name) for fit in fits), atol=1e-9)
    for name in ("loo_path", "gcv_path", "dof_path"):
        assert_allclose(*(getattr(fit, name)(ALPHAS) for fit in fits), rtol=1e-8)


def test_no_matrix_of_pairs_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    many = RNG.normal(size=(2000, 3))
    fits = [
        mc.KernelRidge(mc.RBF(1.5), solver=solver).fit(many, many[:, 0])
        for solver in (S.RandomFeatures(MAPS["few waves"][1]), S.Cholesky())
    ]
    monkeypatch.setattr("mercer.memory.available", lambda: 2**23)  # a quarter of the matrix
    assert 1 < fits[0].effective_dof_ < 26
    assert len(fits[0].loo_residuals_) == 2000
    assert fits[0].shrinkage_.sum() == pytest.approx(fits[0].effective_dof_ - 1)
    with pytest.raises(MemoryForecastError):
        _ = fits[1].loo_residuals_


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_rows(n: int) -> None:
    found = model().fit(X[:n], Y[:n, 0])
    assert found.effective_dof_ >= 1
    assert len(found.shrinkage_) == n - 1
    assert found.contributions(X[:1]).prediction == pytest.approx(found.predict(X[:1]))


def refitted_interval(
    found: mc.KernelRidge, x: np.ndarray, y: np.ndarray, w: Any, groups: Any, at: np.ndarray
) -> np.ndarray:
    """The jackknife+ by its definition: a fit without each row, or without its group."""
    rows = np.arange(len(x))
    low, high = [], []
    for i in rows:
        if w is not None and w[i] == 0:
            continue
        kept = rows != i if groups is None else groups != groups[i]
        part = None if w is None else w[kept]
        model = mc.KernelRidge(found.kernel_, found.alpha_, found.fit_intercept)
        model.fit(x[kept], y[kept], part)
        error = np.abs(y[i] - model.predict(x[[i]])[0])
        low.append(model.predict(at) - error)
        high.append(model.predict(at) + error)
    n = len(low)
    k = int(np.ceil(0.8 * (n + 1) - 1e-9))
    return np.stack([np.sort(low, axis=0)[n - k], np.sort(high, axis=0)[k - 1]], axis=1)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weights"])
@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_are_those_of_refits_without_each_row(
    intercept: bool, weights: Any, grouped: bool
) -> None:
    x = X.copy()
    x[30:35] = x[5]  # copies of a row
    groups = np.arange(N) // 4 if grouped else None
    at = RNG.normal(size=(5, 3))
    for y in (Y, Y[:, 0]):
        found = mc.KernelRidge(mc.RBF(1.5), ALPHA, intercept).fit(x, y, weights, groups=groups)
        ends = found.predict_interval(at, 0.8)
        assert ends.shape == ((5, 2, 2) if y.ndim == 2 else (5, 2))
        assert_allclose(ends, refitted_interval(found, x, y, weights, groups, at), atol=1e-8)


def test_intervals_of_many_rows_by_iterations_are_plain_quantiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mercer.models.ridge.diagnostics._FEW_ROWS", 10)
    at, y = X[:4] + 0.1, Y[:, 0]
    found = mc.KernelRidge(mc.RBF(1.5), ALPHA, solver=S.ConjugateGradient(tol=1e-10)).fit(X, y)
    error = np.sort(np.abs(found.loo_residuals_))[int(np.ceil(0.9 * (N + 1))) - 1]
    expected = np.stack([found.predict(at) - error, found.predict(at) + error], axis=1)
    assert_allclose(found.predict_interval(at), expected, atol=1e-6)
    waves = model().fit(X, y).predict_interval(at)
    assert np.all(waves[:, 1] > waves[:, 0])


def test_an_interpolant_has_intervals_too() -> None:
    found = mc.KernelRidge(mc.RBF(0.3), 0.0).fit(X, Y[:, 0])
    at = X[:3] + 0.2
    few = [
        mc.KernelRidge(mc.RBF(0.3), 0.0).fit(np.delete(X, i, 0), np.delete(Y[:, 0], i))
        for i in range(N)
    ]
    low = [m.predict(at) - abs(Y[i, 0] - m.predict(X[[i]])[0]) for i, m in enumerate(few)]
    assert_allclose(found.predict_interval(at, 0.8)[:, 0], np.sort(low, axis=0)[N - 49], atol=1e-6)


def test_held_out_rows_calibrate_any_solver() -> None:
    X_fit, y_fit, X_held, y_held = X[:40], Y[:40], X[40:], Y[40:]
    found = mc.KernelRidge(mc.RBF(1.5), ALPHA, solver=S.NystromSolver(n_landmarks=10))
    found.fit(X_fit, y_fit)
    with pytest.raises(DataError, match=r"has not kept all 40 rows.*pass calibration=\(X, y\)"):
        found.predict_interval(X)
    error = np.sort(np.abs(y_held - found.predict(X_held)), axis=0)[16]  # ceil(0.8 * 21) = 17th
    ends = found.predict_interval(X, 0.8, calibration=(X_held, y_held))
    assert_allclose(ends[:, 0], found.predict(X) - error)
    assert_allclose(ends[:, 1], found.predict(X) + error)
    with pytest.raises(DataError, match="calibration has 1 target"):
        found.predict_interval(X, calibration=(X_held, y_held[:, 0]))
    with pytest.raises(ParameterError, match="is not a pair; pass"):
        found.predict_interval(X, calibration=X_held)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_have_infinite_intervals(n: int) -> None:
    found = mc.KernelRidge(mc.RBF(1.5), ALPHA).fit(X[:n], Y[:n, 0])
    with pytest.warns(DataWarning, match="needs errors of at least 9 rows"):
        ends = found.predict_interval(X[:3])
    assert_array_equal(ends, [[-np.inf, np.inf]] * 3)
