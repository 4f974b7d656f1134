"""What rounding may do to ridge regression on landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError, MercerWarning

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
