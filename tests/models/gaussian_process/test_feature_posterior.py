"""Posteriors through features: variances, draws, rows left out and rows added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import ParameterError
from model_samples import ARD, CHOSEN, FEW, HELD, MANY

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, BOTH, Z, _, VARIANCES = MANY
N, M = len(X), len(CHOSEN)
ROWS, RBF = CHOSEN, ARD


def test_variances_at_landmarks_are_those_of_the_inducing_values() -> None:
    model = GP(RBF, noise=0.3, solver=FEW, **HELD).fit(X, Y)
    C, K = RBF(X, X[ROWS]), RBF(X[ROWS])
    wanted = K @ np.linalg.solve(K + C.T @ C / 0.3, K)
    assert_allclose(model.predict(X[ROWS], return_cov=True)[1], wanted, rtol=1e-7, atol=1e-9)
    # Degrees of freedom: what data take away from the variances of the rows, over the noise.
    std = model.predict(X, return_std=True)[1]
    nystrom = np.einsum("ij,ji->i", C, np.linalg.solve(K, C.T))
    freedom = np.trace(np.linalg.solve(K + C.T @ C / 0.3, C.T @ C / 0.3))
    assert np.sum(std**2 - (RBF.diag(X) - nystrom)) / 0.3 == pytest.approx(freedom, rel=1e-8)


def test_variances_are_never_negative_and_noise_is_added_where_asked_for() -> None:
    rows = np.linspace(0, 1, 200)[:, None]
    model = GP(mc.RBF(3.0), noise=1e-8, solver=S.NystromSolver(60, random_state=0), **HELD)
    model.fit(rows, np.sin(rows).ravel())
    mean, std = model.predict(rows, return_std=True)
    assert (std >= 0).all()
    assert_allclose(mean, np.sin(rows).ravel(), atol=1e-4)
    assert (np.diag(model.predict(rows, return_cov=True)[1]) >= 0).all()
    model = GP(RBF, solver=FEW).fit(X, Y)
    plain, noisy = (model.predict(Z, True, include_noise=flag)[1] for flag in (False, True))
    assert_allclose(noisy**2, plain**2 + model.noise_)
    known = GP(RBF, noise=VARIANCES, solver=FEW).fit(X, Y)
    with pytest.raises(ParameterError, match="known at the training rows only"):
        known.predict(Z, return_std=True, include_noise=True)


def test_draws_have_mean_and_covariance_of_the_posterior() -> None:
    both = BOTH / BOTH.std(axis=0)  # a noise that is held needs one scale
    for solver in (FEW, S.ConjugateGradient(random_state=0)):
        model = GP(RBF, noise=0.3, solver=solver, learn=False).fit(X, both)
        draws = model.sample_y(Z, n_samples=4000, random_state=0)
        mean, cov = model.predict(Z, return_cov=True)
        assert draws.shape == (9, 2, 4000)
        for target in range(2):
            found, spread = draws[:, target], cov[..., target]
            # Each of 9 means and 45 covariances is within 5.5 standard errors: a false alarm in
            # fewer than one in 100,000 runs.
            error = np.sqrt(spread.diagonal() / 4000)
            assert (np.abs(found.mean(axis=1) - mean[:, target]) < 5.5 * error).all()
            wide = np.sqrt((np.outer(np.diag(spread), np.diag(spread)) + spread**2) / 4000)
            assert (np.abs(np.cov(found) - spread) < 5.5 * wide).all()


@pytest.mark.parametrize("noise", [0.3, VARIANCES], ids=["shared", "known"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_leave_one_out_is_refitting_without_each_row(noise: Any, y: Array) -> None:
    settings: dict[str, Any] = {"solver": S.NystromSolver(landmarks=X[ROWS]), **HELD}
    model = GP(RBF, noise=noise, **settings).fit(X, y)
    found = model.loo_predictions_
    for i in range(0, N, 7):
        others = np.delete(np.arange(N), i)
        left = GP(RBF, noise=noise if np.isscalar(noise) else noise[others], **settings)
        mean, std = left.fit(X[others], y[others]).predict(X[[i]], return_std=True)
        own = noise if np.isscalar(noise) else noise[i]
        assert_allclose(found.mean[i], mean[0], rtol=1e-7)
        assert_allclose(found.variance[i], std[0] ** 2 + own, rtol=1e-7)
    residuals = (y - found.mean) ** 2 / found.variance
    density = -0.5 * np.sum(residuals + np.log(2 * np.pi * found.variance))
    assert model.loo_log_density_ == pytest.approx(density, rel=1e-10)


@pytest.mark.parametrize("noise", [0.3, VARIANCES], ids=["shared", "known"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_an_update_is_a_fit_of_all_rows(noise: Any, y: Array) -> None:
    settings: dict[str, Any] = {"solver": S.NystromSolver(landmarks=X[ROWS]), **HELD}
    known = not np.isscalar(noise)
    whole = GP(RBF, noise=noise, **settings).fit(X, y)
    model = GP(RBF, noise=noise[:60] if known else noise, **settings).fit(X[:60], y[:60])
    _ = model.loo_log_density_
    model.update(X[60:70], y[60:70], noise[60:70] if known else None)
    model.update(X[70:], y[70:], noise[70:] if known else None)
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-10)
    assert model.upper_bound_ == pytest.approx(whole.upper_bound_, rel=1e-9)
    assert len(model.points_) == M
    for a, b in zip(
        model.predict(Z, return_std=True), whole.predict(Z, return_std=True), strict=True
    ):
        assert_allclose(a, b, rtol=1e-8)
    assert model.loo_log_density_ == pytest.approx(whole.loo_log_density_, rel=1e-9)
    for a, b in zip(
        model.log_marginal_likelihood_gradient(),
        whole.log_marginal_likelihood_gradient(),
        strict=True,
    ):
        assert_allclose(a, b, rtol=1e-7)
