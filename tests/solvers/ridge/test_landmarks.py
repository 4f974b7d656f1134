"""What rounding may do to ridge regression on landmarks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

import mercer as mc
from mercer.exceptions import DataError, MercerWarning, NumericalWarning

Array = NDArray[np.floating[Any]]

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=500)
FAR = RNG.normal(size=(300, 3))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("alpha", "off"), [(1e-2, 1e-7), (1e-4, 1e-5), (1e-6, 1e-3)])
def test_all_rows_as_landmarks(alpha: float, off: float, fit_intercept: bool) -> None:
    # What is left out is 7e-15 of the diagonal; times n / alpha that is 1e-10, 1e-8 and 1e-6 of
    # the values at the rows, and more at points that no row is near.
    settings: dict[str, Any] = {"alpha": alpha, "fit_intercept": fit_intercept}
    exact = mc.KernelRidge(mc.RBF(1.5), solver=S.Spectral(), **settings).fit(X, Y)
    model = mc.KernelRidge(mc.RBF(1.5), solver=S.NystromSolver(500), **settings).fit(X, Y)
    assert_allclose(model.predict(FAR), exact.predict(FAR), atol=off)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-13 / alpha * 500)


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "rpcholesky", "leverage"])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_equal_weights_draw_as_none(how: str, weight: float) -> None:
    if how == "leverage" and weight != 1:
        pytest.skip("a weight is a number of repetitions: leverage is not that of weights of one")
    rows = [
        mc.KernelRidge(mc.RBF(1.5), solver=S.NystromSolver(20, how, random_state=0))
        .fit(X, Y, sample_weight=mass)
        .rows_
        for mass in (None, np.full(len(X), weight))
    ]
    assert_array_equal(*rows)


def test_a_kernel_that_is_zero(capfd: pytest.CaptureFixture[str]) -> None:
    model = mc.KernelRidge(mc.Linear(), solver=S.NystromSolver(5, random_state=0))
    model.fit(np.zeros((20, 2)), np.arange(20.0))
    assert_allclose(model.predict([[1.0, 2.0]]), 9.5)
    assert model.effective_dof_ == 1
    assert capfd.readouterr() == ("", "")  # LAPACK would print


@pytest.mark.parametrize("solver", [S.NystromSolver(20), S.Falkon(20)], ids=["nystrom", "falkon"])
def test_kernel_values_beyond_the_range_are_refused(solver: Any) -> None:
    model = mc.KernelRidge(mc.Polynomial(2), solver=solver)
    with pytest.raises(DataError, match=r"^KernelRidge: .* beyond the range of their type; divide"):
        model.fit(1e100 * X, Y)


def test_more_landmarks_than_rows_are_not_called_exact() -> None:
    with pytest.warns(MercerWarning, match="leaves out nothing but rounding"):
        mc.KernelRidge(mc.RBF(1.5), solver=S.NystromSolver(501)).fit(X, Y)


def few_digits() -> tuple[Any, Any, mc.Kernel]:
    """Rows of which 90 landmarks explain one another up to rounding, and the others not."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 2))
    return rows, np.sin(rows[:, 0]) + 0.1 * rng.normal(size=300), mc.RBF(1.22)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [S.NystromSolver, S.Falkon])
@pytest.mark.filterwarnings("ignore:KernelRidge. the iterations stalled")
def test_landmarks_that_are_left_out_are_in_the_trace_error(kind: Any, dtype: Any) -> None:
    rows, y, kernel = few_digits()
    solver = kind(landmarks=np.arange(90))
    model = mc.KernelRidge(kernel, 1.0, solver=solver).fit(rows.astype(dtype), y.astype(dtype))
    kept = np.flatnonzero(model.dual_coef_)
    assert len(kept) < 90
    # What is left of the rows by the landmarks that are kept, from an orthogonal basis of them.
    values, vectors = np.linalg.eigh(kernel(rows[kept]))
    features = kernel(rows, rows[kept]) @ vectors / np.sqrt(values)
    left = 1 - np.square(features).sum() / 300
    assert model.trace_error_ == pytest.approx(left, rel=0.02)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [S.NystromSolver, S.Falkon])
@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
@pytest.mark.filterwarnings("ignore:KernelRidge. the iterations stalled")
def test_the_trace_error_bounds_what_landmarks_change(kind: Any, dtype: Any, alpha: float) -> None:
    # Fitted values differ from those of the whole kernel by alpha (K + alpha)^-1 (K - Q) times
    # what they leave of y over alpha, and the norm of K - Q is at most its trace.
    rows, y, kernel = few_digits()
    solver = kind(landmarks=np.arange(90))
    model = mc.KernelRidge(kernel, alpha, solver=solver).fit(rows.astype(dtype), y.astype(dtype))
    centre = np.eye(300) - 1 / 300
    K = centre @ kernel(rows) @ centre
    exact = y.mean() + K @ np.linalg.solve(K + alpha * np.eye(300), y - y.mean())
    found = model.predict(rows.astype(dtype))
    bound = 300 * model.trace_error_ / alpha * np.linalg.norm(y - found)
    assert np.linalg.norm(found - exact) <= bound


@pytest.mark.parametrize("kind", [S.NystromSolver, S.Falkon])
@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.filterwarnings("ignore:KernelRidge. the iterations stalled")
def test_single_precision_is_fewer_landmarks_not_more_error(kind: Any, alpha: float) -> None:
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(1500, 3)), rng.normal(size=(1000, 3))
    y = np.sin(rows[:, 0]) + 0.1 * rng.normal(size=1500)
    errors, left, used = [], [], []
    for dtype in (np.float64, np.float32):
        model = mc.KernelRidge(mc.RBF("scale"), alpha, solver=kind(200, random_state=0))
        model.fit(rows.astype(dtype), y.astype(dtype))
        wrong = model.predict(new.astype(dtype)) - np.sin(new[:, 0])
        errors.append(float(np.sqrt(np.mean(wrong**2))))
        left.append(model.trace_error_)
        used.append(np.count_nonzero(model.dual_coef_))
    assert used[1] < used[0] == 200
    assert left[1] > left[0]
    assert errors[1] < 1.1 * errors[0]


# Columns far from zero: an intercept makes their offset immaterial, and rounding does not -------

DRAW = np.random.default_rng(0)
FINE = np.round(DRAW.normal(size=(300, 3)) * 2**20) / 2**20  # multiples of which sums are exact
SINES = np.sin(FINE).sum(axis=1)
UNEQUAL = DRAW.uniform(0.5, 2.0, size=300)
ALPHA = 0.1
LINEAR = Ridge(ALPHA).fit(FINE, SINES).predict(FINE)


def linear(solver: Any, alpha: Any = ALPHA) -> mc.KernelRidge:
    return mc.KernelRidge(mc.Linear(), alpha, solver=solver)


def in_blocks(rows: Array) -> mc.Blocks:
    return mc.Blocks([(rows[at : at + 77], SINES[at : at + 77]) for at in range(0, 300, 77)])


@pytest.mark.parametrize("offset", [0.0, 1e5, 2.0**27])
def test_features(offset: float) -> None:
    rows, precision = FINE + offset, 1e-15 * max(10.0, offset)
    assert_allclose(linear(S.Primal()).fit(rows, SINES).predict(rows), LINEAR, atol=precision)
    assert_allclose(linear(S.Primal()).fit(in_blocks(rows)).predict(rows), LINEAR, atol=precision)
    wanted = Ridge(ALPHA).fit(FINE, SINES, UNEQUAL).predict(FINE)
    for solver in (S.Primal(), S.RandomFeatures(FunctionTransformer())):
        found = linear(solver).fit(rows, SINES, UNEQUAL)
        assert_allclose(found.predict(rows), wanted, atol=precision)
    path = linear(S.Primal()).path(rows, SINES, [ALPHA, 1e3])
    assert_allclose(path.predict(rows)[0], LINEAR, atol=precision)


def test_features_of_a_map_on_blocks() -> None:
    rows = FINE + 1e6
    solver = S.RandomFeatures(mc.TensorSketch(n_components=16, random_state=0))
    found = linear(solver).fit(in_blocks(rows))
    phi = found.feature_map_.transform(rows)
    about = phi - phi.mean(axis=0)
    design = np.vstack([about, np.sqrt(ALPHA) * np.eye(phi.shape[1])])
    targets = np.concatenate([SINES - SINES.mean(), np.zeros(phi.shape[1])])
    wanted = about @ np.linalg.lstsq(design, targets, rcond=None)[0] + SINES.mean()
    assert_allclose(found.predict(rows), wanted, atol=1e-8)


def test_leaving_rows_out() -> None:
    alphas = np.array([1e-3, 1.0, 30.0])
    design = np.column_stack([FINE, np.ones(300)])
    penalty = np.diag([1.0, 1.0, 1.0, 0.0])
    wanted = []
    for alpha in alphas:
        hat = design @ np.linalg.solve(design.T @ design + alpha * penalty, design.T)
        wanted.append(np.mean(((SINES - hat @ SINES) / (1 - hat.diagonal())) ** 2))
    found = mc.KernelRidge(mc.Linear(), "loo", alphas=alphas, solver=S.Primal()).fit(
        FINE + 2.0**27, SINES
    )
    assert_allclose(found.search_errors_[0], wanted, rtol=1e-6)
    assert_allclose(np.mean(found.loo_residuals_**2), min(wanted), rtol=1e-6)


def test_landmarks() -> None:
    solver = S.NystromSolver(20, random_state=0)
    for offset, error in ((0.0, 1e-12), (1e5, 1e-5), (1e6, 1e-3)):
        found = linear(solver).fit(FINE + offset, SINES)
        assert_allclose(found.predict(FINE + offset), LINEAR, atol=error)
        assert_allclose(
            linear(solver).fit(in_blocks(FINE + offset)).predict(FINE + offset), LINEAR, atol=error
        )


@pytest.mark.parametrize("alpha", [ALPHA, "gcv"])
def test_landmarks_that_rounding_hides_are_told(alpha: Any) -> None:
    sentence = r"KernelRidge: rounding of kernel values hides .*%.*subtract from each column"
    with pytest.warns(NumericalWarning, match=sentence):
        found = linear(S.NystromSolver(20, random_state=0), alpha).fit(FINE + 1e8, SINES)
    assert np.count_nonzero(found.dual_coef_) < 3
    assert found.score(FINE + 1e8, SINES) >= 0  # few directions, but no noise
    with pytest.warns(NumericalWarning, match=sentence):
        linear(S.NystromSolver(20, random_state=0)).path(FINE + 1e8, SINES, [ALPHA, 1.0])


@pytest.mark.parametrize("solver", [S.Cholesky(), S.Spectral()], ids=["Cholesky", "Spectral"])
@pytest.mark.parametrize("weights", [None, UNEQUAL], ids=["plain", "weighted"])
def test_predictions_that_rounding_reaches_are_told(solver: Any, weights: Array | None) -> None:
    sentence = (
        r"KernelRidge: kernel values of up to 3e\+12 .* 0\.0\d of the spread.*subtract.*Primal"
    )
    with pytest.warns(NumericalWarning, match=sentence):
        linear(solver).fit(FINE + 1e6, SINES, weights)
    # Neither the unit of the targets nor their mean is an error of predictions.
    with pytest.warns(NumericalWarning, match=sentence):
        linear(solver).fit(FINE + 1e6, 1e6 * (SINES + 1e3), weights)
    with warnings.catch_warnings(action="error"):
        linear(solver).fit(FINE + 1e4, SINES, weights)


@pytest.mark.parametrize("solver", [S.NystromSolver(5, random_state=0), S.Primal()])
def test_rows_that_are_all_alike_are_no_reason_to_warn(solver: Any) -> None:
    with warnings.catch_warnings(action="error"):
        found = linear(solver).fit(np.full((30, 2), 1e6), SINES[:30])
    assert_allclose(found.predict(np.full((1, 2), 1e6)), SINES[:30].mean(), rtol=1e-6)
