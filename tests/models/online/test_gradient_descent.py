"""Gradient descent on all rows at once: its steps, its limit and its step size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc
from mercer.exceptions import NumericalWarning, ParameterError, ValidityError
from model_samples import STREAM
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, WEIGHTS, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)
K = matrix(rbf, X, length_scale=1.5)
RNG = np.random.default_rng(1)


def test_batch_steps_are_those_of_the_formula() -> None:
    model = mc.KernelLMS(RBF, 0.05, 0.2, method="batch", max_iter=7, tol=0).fit(X, Y, WEIGHTS)
    coef, curve = np.zeros(N), []
    for _ in range(7):
        errors = Y - K @ coef
        curve.append(np.sqrt(np.average(errors**2, weights=WEIGHTS)))
        coef = coef + 0.05 * (WEIGHTS * errors - 0.2 * coef)
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-11)
    np.testing.assert_allclose(model.learning_curve_, curve, rtol=1e-11)
    assert (model.n_iter_, model.converged_) == (7, True)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_limit_of_a_batch_is_ridge(weights: Array | None) -> None:
    model = mc.KernelLMS(RBF, alpha=0.5, method="batch", tol=1e-12, max_iter=20_000)
    model.fit(X, BOTH, weights)
    ridge = mc.KernelRidge(RBF, alpha=0.5, fit_intercept=False).fit(X, BOTH, weights)
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, rtol=1e-6, atol=1e-9)
    assert model.converged_
    assert model.residual_ <= 1e-12
    assert model.n_iter_ < 20_000


def test_without_alpha_the_limit_is_the_interpolant_of_least_norm() -> None:
    # A linear kernel on fewer rows than columns: many functions interpolate.
    # With tol=0 all steps are taken: the gradient itself is known to its rounding alone, about the
    # root of that of d'Kd, which a tolerance of 1e-13 would meet by chance.
    wide, y = RNG.normal(size=(4, 9)), np.array([1.0, -1.0, 2.0, 0.5])
    model = mc.KernelLMS(mc.Linear(), method="batch", tol=0, max_iter=1000).fit(wide, y)
    expected = np.linalg.pinv(wide) @ y
    np.testing.assert_allclose(wide.T @ model.dual_coef_, expected, rtol=1e-9)
    # More rows than columns: least squares, though the coefficients themselves have no limit.
    tall = mc.KernelLMS(mc.Linear(), method="batch", tol=0, max_iter=1000).fit(X, Y)
    least = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(tall.predict(Z), Z @ least, rtol=1e-9)


def test_a_step_up_to_the_limit_converges_and_beyond_is_refused() -> None:
    limit = 2 / (np.linalg.eigvalsh(K)[-1] + 0.5)
    settings: Any = {"alpha": 0.5, "method": "batch", "max_iter": 5000}
    assert mc.KernelLMS(RBF, 0.99 * limit, **settings).fit(X, Y).converged_
    message = rf"not below {limit:.6g}, .*largest eigenvalue of K = .* plus alpha = 0.5"
    with pytest.raises(ParameterError, match=message):
        mc.KernelLMS(RBF, 1.01 * limit, **settings).fit(X, Y)


def test_a_large_problem_has_the_same_limit() -> None:
    many = RNG.normal(size=(300, 3))
    largest = np.linalg.eigvalsh(rbf_kernel(many, gamma=1 / (2 * 1.5**2)))[-1]
    y = many[:, 0]
    with pytest.raises(ParameterError, match="largest eigenvalue"):
        mc.KernelLMS(RBF, 2.001 / largest, method="batch").fit(many, y)
    mc.KernelLMS(RBF, 1.999 / largest, method="batch", max_iter=3, tol=0).fit(many, y)


def test_stopping_short_is_said() -> None:
    with pytest.warns(NumericalWarning, match="after 5 steps"):
        model = mc.KernelLMS(RBF, method="batch", max_iter=5).fit(X, Y)
    assert not model.converged_
    assert model.residual_ > 1e-4


def test_negative_eigenvalues_are_found() -> None:
    indefinite = mc.Precomputed(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValidityError, match=r"KernelLMS: gradient.*negative eigenvalues"):
        mc.KernelLMS(indefinite, method="batch", max_iter=1000).fit([[0], [1]], [1.0, -1.0])
