"""Errors from a tridiagonal form, against those from eigenvectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.solvers import EigenRidge, Tridiagonal
from ridge_problems import ALPHAS, VARIANTS, problem

Array = NDArray[np.floating[Any]]


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
