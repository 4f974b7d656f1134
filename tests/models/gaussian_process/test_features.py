"""The bound through features, and posteriors: variances, draws, rows left out and rows added."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.models.gaussian_process import features as gaussian_features
from mercer.models.gaussian_process import landmarks as landmark_evidence
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.sampling import blocks
from model_samples import ARD, CHOSEN, FEW, HELD, MANY, drawn

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, BOTH, Z, _, VARIANCES = MANY
N, M = len(X), len(CHOSEN)
ROWS, RBF = CHOSEN, ARD
POLYNOMIAL = mc.Polynomial(2)


def test_blocks_of_rows_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    n = 700
    rows = rng.normal(size=(n, 3))
    y = np.sin(rows).sum(axis=1)
    model = GP(RBF, noise=0.1, solver=S.NystromSolver(20, random_state=0), **HELD)
    whole = clone(model).fit(rows, y)
    wanted = whole.log_marginal_likelihood_gradient()
    monkeypatch.setattr(gaussian_features, "blocks", partial(blocks, n_bytes=1))
    monkeypatch.setattr(landmark_evidence, "_KEPT_BYTES", 0)
    parts = clone(model).fit(rows, y)
    found = parts.log_marginal_likelihood_gradient()
    assert found[0] == pytest.approx(wanted[0], rel=1e-11)
    assert_allclose(found[1], wanted[1], rtol=1e-8)
    many = rng.normal(size=(600, 3))
    for a, b in zip(
        parts.predict(many, return_std=True), whole.predict(many, return_std=True), strict=True
    ):
        assert_allclose(a, b, rtol=1e-8)


def test_memory_does_not_grow_with_rows_times_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    monkeypatch.setattr(gaussian_features, "blocks", partial(blocks, n_bytes=2**18))
    monkeypatch.setattr(landmark_evidence, "_KEPT_BYTES", 0)
    n, m = 20_000, 60
    rows = rng.normal(size=(n, 2))
    model = GP(
        RBF.replace(length_scale=1.0), 0.1, solver=S.NystromSolver(m, random_state=0), **HELD
    )
    tracemalloc.start()
    model.fit(rows, rows[:, 0])
    model.log_marginal_likelihood_gradient()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * m * 8 / 2


def test_blocks_of_rows_do_not_matter_to_explicit_features(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(700, 3))
    model = GP(POLYNOMIAL, 0.3, solver=S.Primal(), **HELD)
    whole = clone(model).fit(rows, rows[:, 0])
    monkeypatch.setattr(gaussian_features, "blocks", partial(blocks, n_bytes=1))
    parts = clone(model).fit(rows, rows[:, 0])
    assert parts.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-12)
    many = rng.normal(size=(600, 3))
    assert_allclose(parts.predict(many, True), whole.predict(many, True), rtol=1e-10)


def evidence_of(X: Array, y: Array, kernel: mc.Kernel, noise: float) -> ExactObjective:
    evidence, _, _ = GP(kernel, noise=noise, normalize_y=False)._prepare(X, y, None)
    return evidence


@pytest.mark.parametrize("m", [20, 26, 32])
def test_how_far_a_bound_is_below_the_likelihood(m: int) -> None:
    X, y = drawn(0.3, n=600)
    data = evidence_of(X, y, 1.0 * mc.RBF(length_scale=0.3), 0.01)
    chosen = S.NystromSolver(m, "rpcholesky", 0)
    seen = LandmarkObjective.selected(data, chosen, "test")
    value, gap = seen.value_and_gap(data.theta)
    K = np.exp(-0.5 * ((X - X.T) / 0.3) ** 2) + 0.01 * np.eye(600)
    exact = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 600 * np.log(2 * np.pi))
    assert 0.25 * gap < exact - value < gap


@pytest.mark.parametrize("noise", [1e-4, 1e-8])
def test_the_rounding_of_the_bound(noise: float) -> None:
    X, y = drawn(0.5, noise, n=600)
    data = evidence_of(X, y, 1.0 * mc.RBF(length_scale=0.5), noise)
    seen = LandmarkObjective.selected(data, S.NystromSolver(60, "rpcholesky", 0), "test")
    value, slope = seen.value_and_gradient(data.theta)
    steps = 1e-10 * np.arange(1, 9)
    along = np.array([1.0, 0.0, 0.0])
    moved = np.array([seen.value(data.theta + step * along) for step in steps])
    noise_of_value = np.abs(moved - value - steps * slope[0]).max()
    rounding = seen.rounding_at(data.theta)
    assert rounding / 10 < noise_of_value < 30 * rounding  # the search leaves it a factor of 30


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
