"""Kernel ridge by eigenvectors, against refitting and the definitions of its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from mercer.solvers import EigenRidge, RidgeProblem
from mercer.solvers.ridge import spectrum as spectral
from ridge_problems import ALPHAS, VARIANTS, naive, problem, refitted_residuals

Array = NDArray[np.floating[Any]]


def hat_matrix(K: Array, alpha: float, weights: Array | None, fit_intercept: bool) -> Array:
    """What maps targets to fitted values, column by column."""
    a, b = naive(K, np.eye(len(K)), alpha, weights, fit_intercept)
    return K @ a + b


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


def test_eigenvectors_are_orthonormal_and_orthogonal_to_the_intercept() -> None:
    K, _, w = problem(30, True)
    spectrum = EigenRidge.decompose(K, weights=w)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(29), atol=1e-13)
    np.testing.assert_allclose(spectrum.root @ spectrum.vectors, 0, atol=1e-13)
    assert np.all(np.diff(spectrum.eigenvalues) <= 0)


S = mc.solvers


def test_an_indefinite_matrix_is_refused_still() -> None:
    gram = np.full((5, 5), 100.0) + np.diag([1.0, 1.0, 1.0, 1.0, -1.0])
    with pytest.raises(mc.exceptions.ValidityError, match="smallest eigenvalue"):
        S.EigenRidge.decompose(gram)
