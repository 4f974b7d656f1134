"""Kernel ridge from a Gram matrix: both solvers against each other and the normal equations."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, ValidityError
from mercer.solvers import EigenRidge, RidgeProblem, Solution, Tridiagonal
from ridge_problems import ALPHAS, VARIANTS, gaussian, naive, problem, refitted_residuals

Array = NDArray[np.floating[Any]]


@VARIANTS
def test_both_solvers_solve_the_bordered_system(weighted: bool, fit_intercept: bool) -> None:
    K, y, w = problem(30, weighted)
    options = {"weights": w, "fit_intercept": fit_intercept}
    spectrum = EigenRidge.decompose(K.copy(), **options)
    for alpha in ALPHAS:
        a, b = naive(K, y, alpha, w, fit_intercept)
        for found in (
            RidgeProblem(K.copy(), y, **options).solve(alpha),
            spectrum.solve(y, alpha),
        ):
            np.testing.assert_allclose(found.dual, a, rtol=1e-8, atol=1e-8 * np.abs(a).max())
            np.testing.assert_allclose(found.intercept, b, rtol=1e-10, atol=1e-10)
            assert found.jitter == 0


@VARIANTS
def test_leave_one_out_is_leaving_one_out(weighted: bool, fit_intercept: bool) -> None:
    K, y, w = problem(25, weighted)
    options = {"weights": w, "fit_intercept": fit_intercept}
    spectrum = EigenRidge.decompose(K.copy(), **options)
    for alpha, residuals in zip(ALPHAS, spectrum.loo_residuals(y, ALPHAS), strict=True):
        expected = refitted_residuals(K, y, alpha, w, fit_intercept)
        np.testing.assert_allclose(residuals, expected, rtol=1e-8, atol=1e-9)
        found = RidgeProblem(K.copy(), y, **options).leave_one_out(alpha)
        np.testing.assert_allclose(found.residuals, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_errors_do_not_jump_where_the_method_changes(criterion: str) -> None:
    small, large = np.array([0.0, 1e-17, 1e-2]), np.array([1e-2])
    for n in (250, 25):  # a tridiagonal form at large alphas, and eigenvectors
        K, y, w = problem(n, True)
        together = RidgeProblem(K.copy(), y, w).errors(small, criterion)
        alone = RidgeProblem(K.copy(), y, w).errors(large, criterion)
        np.testing.assert_allclose(together[2], alone[0], rtol=1e-9)
    np.testing.assert_allclose(together[0], together[1], rtol=1e-4)
    single = RidgeProblem(np.ones((1, 1)), np.ones((1, 1))).errors(large, criterion)
    assert single == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_is_kept(dtype: type) -> None:
    K, y, w = problem(20, True)
    w = w.astype(dtype)
    found = RidgeProblem(K.astype(dtype), y, weights=w).solve(0.5)
    spectrum = EigenRidge.decompose(K.astype(dtype), weights=w)
    other = spectrum.solve(y, 0.5)
    assert found.dual.dtype == other.dual.dtype == found.intercept.dtype == dtype
    assert spectrum.loo_errors(y, ALPHAS).dtype == dtype
    np.testing.assert_allclose(found.dual, other.dual, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_factor_takes_the_place_of_the_matrix(order: Any) -> None:
    n = 500
    K = np.asarray(gaussian(n), order=order)
    y = np.ones((n, 1))
    tracemalloc.start()
    try:
        RidgeProblem(K, y, weights=np.full(n, 2.0)).solve(1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.2 * K.nbytes


@pytest.mark.parametrize("order", ["C", "F"])
def test_both_orders_and_strides_give_the_same(order: Any) -> None:
    K, y, w = problem(30, True)
    expected = RidgeProblem(K.copy(), y, weights=w).solve(0.1)
    values = EigenRidge.decompose(K.copy(), weights=w)
    same = RidgeProblem(np.array(K, order=order), y, weights=w).solve(0.1)
    np.testing.assert_allclose(same.dual, expected.dual, rtol=1e-10)
    strided = np.zeros((60, 60), order=order)[::2, ::2]
    strided[...] = K
    np.testing.assert_allclose(
        RidgeProblem(strided, y, weights=w).solve(0.1).dual, same.dual, rtol=1e-10
    )
    again = EigenRidge.decompose(np.array(K, order=order), weights=w)
    np.testing.assert_allclose(again.eigenvalues, values.eigenvalues, atol=1e-12)


def singular_causes() -> list[Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    doubled = np.vstack([x, x])
    squares = ((doubled[:, None] - doubled[None]) ** 2).sum(axis=-1)
    return [
        pytest.param(np.exp(-squares / 0.02), "rows are duplicated: 40 pairs", id="duplicates"),
        pytest.param(gaussian(200, 50.0), "the length-scale is too long", id="length-scale"),
        pytest.param(x @ x.T, "fewer numerical dimensions than", id="rank"),
    ]


@pytest.mark.parametrize(("K", "cause"), singular_causes())
def test_jitter_is_added_once_recorded_and_explained(K: Array, cause: str) -> None:
    y = np.arange(float(len(K)))[:, None]
    # A hair below zero, as rounding may leave it: jitter is needed whatever the LAPACK.
    lowered = K - 1e-9 * np.eye(len(K))
    with pytest.warns(NumericalWarning, match=cause) as caught:
        found = RidgeProblem(lowered, y).solve(1e-13)
    assert len(caught) == 1
    assert 1e-10 < found.jitter / np.mean(np.diag(K)) < 1e-7
    assert np.isfinite(found.dual).all()


def test_float32_skips_jitter_that_changes_no_digit() -> None:
    K = gaussian(60, 100.0).astype(np.float32) - np.float32(1e-6) * np.eye(60, dtype=np.float32)
    with pytest.warns(NumericalWarning):
        found = RidgeProblem(K, np.ones((60, 1), np.float32)).solve(1e-12)
    assert found.jitter >= np.finfo(np.float32).eps


def test_an_indefinite_matrix_is_refused_by_both() -> None:
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValidityError, match=r"indefinite.*psd="):
        RidgeProblem(K.copy(), np.ones((2, 1))).solve(1e-6)
    with pytest.raises(ValidityError, match=r"smallest eigenvalue is -1.*psd="):
        EigenRidge.decompose(K.copy(), fit_intercept=False)
    with pytest.raises(ValidityError, match=r"eigenvalue below -alpha = -0\.5.*psd="):
        Tridiagonal(K.copy(), fit_intercept=False).loo_errors(np.ones((2, 1)), np.array([0.5]))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_weight_zero_is_removal(fit_intercept: bool, alpha: float) -> None:
    K, y, w = problem(20, True)
    w[[0, 7, 8]] = 0
    kept = w > 0
    part = RidgeProblem(K[np.ix_(kept, kept)], y[kept], w[kept], fit_intercept)
    small = part.leave_one_out(alpha)

    def whole() -> RidgeProblem:
        return RidgeProblem(K.copy(), y, w, fit_intercept)

    def solution(of: RidgeProblem) -> Solution:
        return of.solve(alpha) if alpha else of.expand(of.spectrum().solve(of.targets, alpha))

    found = solution(whole())
    expected = solution(RidgeProblem(K[np.ix_(kept, kept)], y[kept], w[kept], fit_intercept))
    np.testing.assert_allclose(found.dual[kept], expected.dual, rtol=1e-9)
    assert np.all(found.dual[~kept] == 0)
    left_out = whole().leave_one_out(alpha)
    np.testing.assert_allclose(left_out.residuals[kept], small.residuals, rtol=1e-6)
    plain = y - K @ found.dual - found.intercept
    np.testing.assert_allclose(left_out.residuals[~kept], plain[~kept], rtol=1e-6)
    assert left_out.effective_dof == pytest.approx(small.effective_dof)
    assert whole().n_rows == 17
    np.testing.assert_allclose(whole().eigenvalues(), whole().spectrum().eigenvalues, atol=1e-12)


def test_one_row_is_its_own_mean() -> None:
    found = RidgeProblem(np.ones((1, 1)), np.array([[3.0]])).solve(1.0)
    assert (found.dual[0, 0], found.intercept[0]) == (0.0, 3.0)
    spectrum = EigenRidge.decompose(np.ones((1, 1)))
    assert spectrum.solve(np.array([[3.0]]), 0.0).intercept[0] == 3.0
    assert spectrum.effective_dof(np.array([1.0]))[0] == 1.0
    assert np.isnan(spectrum.loo_residuals(np.array([[3.0]]), np.array([1.0]))).all()


@VARIANTS
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_target_maps_are_those_of_unit_targets(
    weighted: bool, fit_intercept: bool, alpha: float
) -> None:
    n = 12
    K, y, weights = problem(n, weighted)
    if weights is not None:
        weights[[2, 7]] = 0.0
    maps = RidgeProblem(K.copy(), y, weights, fit_intercept).target_maps(alpha)
    kept = np.arange(n) if weights is None else np.flatnonzero(weights)
    part = None if weights is None else weights[kept]
    inside = np.ix_(kept, kept)
    dual, intercept = naive(K[inside], np.eye(len(kept)), alpha, part, fit_intercept)
    np.testing.assert_allclose(maps.dual[inside], dual, atol=1e-7)
    np.testing.assert_allclose(maps.intercept[kept], intercept, atol=1e-7)
    assert np.count_nonzero(maps.dual) == len(kept) ** 2
