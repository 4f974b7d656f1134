"""Both solvers against each other, against refitting, and against the normal equations."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, ValidityError
from mercer.linalg import cholesky
from mercer.solvers import EigenRidge, RidgeProblem, Solution, Tridiagonal
from mercer.solvers.ridge import spectrum as spectral

Array = NDArray[np.floating[Any]]

ALPHAS = np.array([1e-3, 0.1, 1.0, 30.0])
VARIANTS = pytest.mark.parametrize(
    ("weighted", "fit_intercept"), [(False, False), (False, True), (True, False), (True, True)]
)


def gaussian(n: int, length_scale: float = 1.0, seed: int = 0) -> Array:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-squares / (2 * length_scale**2))


def problem(n: int, weighted: bool, seed: int = 0) -> tuple[Array, Array, Array | None]:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3.0, n) if weighted else None
    return gaussian(n, seed=seed), 100 + rng.normal(size=(n, 2)), weights


def naive(
    K: Array, y: Array, alpha: float, weights: Array | None, fit_intercept: bool
) -> tuple[Array, Array]:
    """Solve (K + alpha W^-1) a + b 1 = y with 1'a = 0 as one bordered system."""
    n = len(K)
    inverse = np.eye(n) if weights is None else np.diag(1 / weights)
    if not fit_intercept:
        return np.linalg.solve(K + alpha * inverse, y), np.zeros(y.shape[1])
    one = np.ones((n, 1))
    bordered = np.block([[K + alpha * inverse, one], [one.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return solved[:n], solved[n]


def refitted_residuals(
    K: Array, y: Array, alpha: float, weights: Array | None, fit_intercept: bool
) -> Array:
    """Leave-one-out residuals by leaving one out."""
    found = np.empty_like(y)
    for i in range(len(K)):
        kept = np.arange(len(K)) != i
        part = None if weights is None else weights[kept]
        a, b = naive(K[np.ix_(kept, kept)], y[kept], alpha, part, fit_intercept)
        found[i] = y[i] - K[i, kept] @ a - b
    return found


def hat_matrix(K: Array, alpha: float, weights: Array | None, fit_intercept: bool) -> Array:
    """What maps targets to fitted values, column by column."""
    a, b = naive(K, np.eye(len(K)), alpha, weights, fit_intercept)
    return K @ a + b


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


@VARIANTS
def test_errors_and_degrees_of_freedom_from_their_definitions(
    weighted: bool, fit_intercept: bool
) -> None:
    K, y, w = problem(20, weighted)
    options = {"weights": w, "fit_intercept": fit_intercept}
    spectrum = EigenRidge.decompose(K.copy(), **options)
    dof = spectrum.effective_dof(ALPHAS)
    loo, gcv = spectrum.loo_errors(y, ALPHAS), spectrum.gcv_errors(y, ALPHAS)
    values = spectral.eigenvalues(K.copy(), **options)
    np.testing.assert_allclose(values, spectrum.eigenvalues, atol=1e-12)
    for i, alpha in enumerate(ALPHAS):
        hat = hat_matrix(K, alpha, w, fit_intercept)
        assert dof[i] == pytest.approx(np.trace(hat), rel=1e-9)
        shrunk = spectral.shrinkage(values, alpha)
        assert fit_intercept + shrunk.sum() == pytest.approx(dof[i], rel=1e-9)
        found = RidgeProblem(K.copy(), y, **options).leave_one_out(alpha)
        assert found.effective_dof == pytest.approx(dof[i], rel=1e-9)
        left_out = refitted_residuals(K, y, alpha, w, fit_intercept)
        np.testing.assert_allclose(loo[i], np.average(left_out**2, axis=0, weights=w), rtol=1e-8)
        plain = (y - hat @ y) / (1 - np.trace(hat) / len(K))
        np.testing.assert_allclose(gcv[i], np.average(plain**2, axis=0, weights=w), rtol=1e-7)


@VARIANTS
@pytest.mark.parametrize("n", [3, 4, 30])
def test_the_tridiagonal_form_has_the_errors_of_the_spectrum(
    weighted: bool, fit_intercept: bool, n: int
) -> None:
    K, y, w = problem(n, weighted)
    options = {"weights": w, "fit_intercept": fit_intercept}
    spectrum = EigenRidge.decompose(K.copy(), **options)
    form = Tridiagonal(K.copy(), **options)
    np.testing.assert_allclose(
        form.loo_errors(y, ALPHAS), spectrum.loo_errors(y, ALPHAS), rtol=1e-9
    )
    np.testing.assert_allclose(
        form.gcv_errors(y, ALPHAS), spectrum.gcv_errors(y, ALPHAS), rtol=1e-9
    )


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_errors_do_not_jump_where_the_method_changes(criterion: str) -> None:
    K, y, w = problem(25, True)
    small, large = np.array([0.0, 1e-17, 1e-2]), np.array([1e-2])
    together = RidgeProblem(K.copy(), y, w).errors(small, criterion)
    alone = RidgeProblem(K.copy(), y, w).errors(large, criterion)
    np.testing.assert_allclose(together[2], alone[0], rtol=1e-9)
    np.testing.assert_allclose(together[0], together[1], rtol=1e-4)
    single = RidgeProblem(np.ones((1, 1)), np.ones((1, 1))).errors(large, criterion)
    assert single == np.inf


def test_the_formula_of_the_literature_for_an_intercept() -> None:
    n, alpha = 15, 0.3
    K, y, _ = problem(n, False)
    H = np.eye(n) - 1 / n
    G = np.linalg.inv(H @ K @ H + alpha * np.eye(n))
    a = G @ H @ y
    expected = a / (np.diag(G) - 1 / (n * alpha))[:, None]
    found = EigenRidge.decompose(K.copy()).loo_residuals(y, np.array([alpha]))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@VARIANTS
def test_interpolation_is_the_limit_of_small_alpha(weighted: bool, fit_intercept: bool) -> None:
    K, y, w = problem(12, weighted)
    spectrum = EigenRidge.decompose(K.copy(), weights=w, fit_intercept=fit_intercept)
    found = spectrum.solve(y, 0.0)
    np.testing.assert_allclose(K @ found.dual + found.intercept, y, rtol=1e-7)
    assert spectrum.rank == 12 - fit_intercept
    expected = refitted_residuals(K, y, 0.0, w, fit_intercept)
    np.testing.assert_allclose(spectrum.loo_residuals(y, np.array([0.0]))[0], expected, rtol=1e-4)
    gcv = spectrum.gcv_errors(y, np.array([0.0, 1e-10]))
    np.testing.assert_allclose(gcv[0], gcv[1], rtol=1e-3)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_alpha_zero_without_full_rank_is_weighted_least_squares(
    weighted: bool, fit_intercept: bool
) -> None:
    rng = np.random.default_rng(1)
    n = 14
    # The last column is seen by the last row alone, which is therefore interpolated exactly.
    x = np.column_stack([rng.normal(size=(n, 2)), np.eye(n)[:, -1]])
    y = rng.normal(size=(n, 1)) + 5
    w = rng.uniform(0.5, 2.0, n) if weighted else None
    root = np.ones(n) if w is None else np.sqrt(w)
    spectrum = EigenRidge.decompose(x @ x.T, weights=w, fit_intercept=fit_intercept)
    assert spectrum.rank == 3
    design = np.column_stack([x, np.ones(n)]) if fit_intercept else x

    def fitted(rows: NDArray[np.intp]) -> Array:
        solved = np.linalg.lstsq(root[rows, None] * design[rows], root[rows, None] * y[rows])[0]
        return design @ solved

    found = spectrum.solve(y, 0.0)
    values = x @ (x.T @ found.dual) + found.intercept
    np.testing.assert_allclose(values, fitted(np.arange(n)), atol=1e-9)
    left_out = [
        y[i] - fitted(np.flatnonzero(np.arange(n) != i))[i]
        for i in range(n - (1 if fit_intercept else 0))
    ]
    residuals = spectrum.loo_residuals(y, np.array([0.0]))[0]
    np.testing.assert_allclose(residuals[: len(left_out)], left_out, atol=1e-8)
    gcv = spectrum.gcv_errors(y, np.array([0.0, 1e-9]))
    np.testing.assert_allclose(gcv[0], gcv[1], rtol=1e-5)


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


def test_eigenvectors_are_orthonormal_and_orthogonal_to_the_intercept() -> None:
    K, _, w = problem(30, True)
    spectrum = EigenRidge.decompose(K, weights=w)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(29), atol=1e-13)
    np.testing.assert_allclose(spectrum.root @ spectrum.vectors, 0, atol=1e-13)
    assert np.all(np.diff(spectrum.eigenvalues) <= 0)


# The jitter ladder -------------------------------------------------------------------------------


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


@pytest.mark.parametrize("n", [3, 700])
def test_the_check_leaves_the_matrix_as_it_was(n: int) -> None:
    K = gaussian(n)
    for matrix, expected in ((K, True), (K - 0.5 * np.eye(n), False)):
        before = matrix.copy()
        assert cholesky.is_positive_definite(matrix, 1e-9) is expected
        np.testing.assert_array_equal(matrix, before)
    skewed = K + np.triu(K, 1)
    before = skewed.copy()
    assert not cholesky.is_positive_definite(skewed, 1e-9)
    np.testing.assert_array_equal(skewed, before)


# Rows of weight zero -----------------------------------------------------------------------------


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
