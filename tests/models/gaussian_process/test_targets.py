"""Targets and their noise: scales, copies of rows, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from model_samples import ARD, HELD, SMOOTH

GP = mc.GaussianProcessRegressor

X, Y, BOTH, Z, _, _ = SMOOTH
RBF = ARD


def test_the_likelihood_of_given_targets_does_not_depend_on_normalisation() -> None:
    model = GP(RBF, noise=0.3, mean="sample").fit(X, BOTH)
    scale = BOTH.std(axis=0)
    np.testing.assert_allclose(model.y_scale_, scale)
    np.testing.assert_allclose(model.intercept_, BOTH.mean(axis=0))
    expected = 0.0
    for j in (0, 1):
        kernel = mc.Fixed(scale[j] ** 2) * model.kernel_
        one = GP(kernel, noise=model.noise_[j], **HELD).fit(X, BOTH[:, j] - BOTH[:, j].mean())
        expected += one.log_marginal_likelihood_
        mean, std = one.predict(Z, return_std=True)
        both_mean, both_std = model.predict(Z, return_std=True)
        np.testing.assert_allclose(both_mean[:, j], mean + BOTH[:, j].mean(), rtol=1e-7)
        np.testing.assert_allclose(both_std[:, j], std, rtol=1e-6)
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-9)


def test_noise_is_added_where_asked_for() -> None:
    model = GP(RBF, noise=0.4).fit(X, BOTH)
    _, std = model.predict(Z, return_std=True)
    _, noisy = model.predict(Z, return_std=True, include_noise=True)
    np.testing.assert_allclose(noisy**2, std**2 + model.noise_, rtol=1e-9)
    _, cov = model.predict(Z, return_cov=True, include_noise=True)
    assert cov.shape == (9, 9, 2)
    np.testing.assert_allclose(np.einsum("iit->it", cov), noisy**2, rtol=1e-9)


def test_weights_are_repeated_rows_in_posterior_and_likelihood() -> None:
    weights = np.random.default_rng(3).integers(0, 4, size=40).astype(float)
    rows = np.repeat(np.arange(40), weights.astype(int))
    weighted = GP(RBF, noise=0.5).fit(X, Y, weights)
    repeated = GP(RBF, noise=0.5).fit(X[rows], Y[rows])
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_)
    np.testing.assert_allclose(weighted.theta_, repeated.theta_, rtol=1e-2, atol=1e-2)
    held = {"learn": False}
    weighted = GP(RBF, noise=0.5, **held).fit(X, Y, weights)
    repeated = GP(RBF, noise=0.5, **held).fit(X[rows], Y[rows])
    for a, b in zip(
        weighted.predict(Z, return_std=True), repeated.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    assert weighted.log_marginal_likelihood_ == pytest.approx(
        repeated.log_marginal_likelihood_, rel=1e-9
    )


def test_constant_targets_leave_variances_where_they_start() -> None:
    for rows, y in (([[1.0]], [5.0]), (X, np.full(40, 5.0)), (X, np.full((40, 2), 5.0))):
        with pytest.warns(NumericalWarning, match="y is constant") as found:
            model = GP(2.0 * mc.RBF(), noise=0.3, mean="sample").fit(rows, y)
        assert len(found) == 1
        assert model.kernel_ == 2.0 * mc.RBF()
        np.testing.assert_allclose(model.y_scale_, 1.0)
        np.testing.assert_allclose(model.noise_, 0.3)
        far = np.full((1, np.shape(rows)[1]), 99.0)
        mean, std = model.predict(far, return_std=True)
        np.testing.assert_allclose(mean, 5.0)
        np.testing.assert_allclose(std, np.sqrt(2.0))
    # Nothing is learned, so nothing is lost; and a constant other than the mean says something.
    alone = GP(2.0 * mc.RBF(), noise=0.3, learn=False).fit([[1.0]], [5.0])
    assert alone.intercept_ == 5.0
    # Far away the variance is that of the function and that of the constant.
    std = alone.predict([[99.0]], return_std=True)[1]
    np.testing.assert_allclose(std**2, 2.0 + 2.3)
    assert GP(1.0 * mc.RBF(), normalize_y=False, mean="zero").fit(X, np.full(40, 5.0)).converged_


def test_a_number_that_is_held_is_not_shared_by_targets_of_different_scale() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    targets = np.column_stack([X[:, 0], 7 * X[:, 1] ** 2])
    model = mc.GaussianProcessRegressor(mc.RBF(), noise=0.2, learn=False)
    with pytest.raises(ParameterError, match="several targets"):
        model.fit(X, targets)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_targets_whose_squares_are_out_of_range_are_refused(scale: float) -> None:
    y = scale * (Y / np.abs(Y).max())
    with pytest.raises(DataError, match=r"the largest target is .*; divide y by"):
        GP(RBF).fit(X, y)
