"""Gaussian process regression by every solver, against naive formulas and the exact process."""

from __future__ import annotations

import pickle
import tracemalloc
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    MercerError,
    MercerWarning,
    NumericalWarning,
    ParameterError,
)
from mercer.models.gaussian_process import features as gaussian_features
from mercer.models.gaussian_process import landmark_search, plan
from mercer.models.gaussian_process import landmarks as landmark_evidence
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.models.gaussian_process.targets import Noise
from mercer.sampling import blocks
from mercer.solvers.forecast import GaussianProcessFit

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

RNG = np.random.default_rng(0)
N, M = 80, 12
X = RNG.normal(size=(N, 3))
Y = 3 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N) + 7
BOTH = np.column_stack([Y, 100 * X[:, 1] + 10 * RNG.normal(size=N)])
Z = RNG.normal(size=(9, 3))
VARIANCES = RNG.uniform(0.1, 0.5, size=N)
W = RNG.integers(0, 4, size=N).astype(float)
ROWS = np.flatnonzero(W)[:M]
RBF = 1.7 * mc.RBF(length_scale=[1.0, 2.0, 3.0])
HELD: dict[str, Any] = {"learn": False, "normalize_y": False}
FEW = S.NystromSolver(M, ROWS)


def all_rows(n: int = N) -> Any:
    return S.NystromSolver(n, "rpcholesky", random_state=0)


# Oracles -----------------------------------------------------------------------------------------


def naive(
    kernel: mc.Kernel, rows: Any, y: Array, landmarks: Any, noise: Array, fresh: Any
) -> tuple[float, float, Array, Array]:
    """The two bounds, mean and covariance, by dense matrices of all rows."""
    C, K_zz, diagonal = kernel(rows, landmarks), kernel(landmarks), kernel.diag(rows)
    inverse = np.linalg.pinv(K_zz, rcond=1e-11, hermitian=True)
    Q = C @ inverse @ C.T
    covariance, left_out = Q + np.diag(noise), (diagonal - Q.diagonal()) / noise
    n, logdet = len(noise), np.linalg.slogdet(covariance)[1]
    wider = Q + (1 + left_out.sum()) * np.diag(noise)
    lower = upper = 0.0
    for column in y.reshape(n, -1).T:
        constant = -0.5 * logdet - 0.5 * n * np.log(2 * np.pi)
        lower += constant - 0.5 * column @ np.linalg.solve(covariance, column)
        lower -= 0.5 * left_out.sum()
        upper += constant - 0.5 * column @ np.linalg.solve(wider, column)
    inner = np.linalg.pinv(K_zz + C.T @ (C / noise[:, None]), rcond=1e-12, hermitian=True)
    cross = kernel(fresh, landmarks)
    mean = cross @ inner @ C.T @ (y / (noise if y.ndim == 1 else noise[:, None]))
    cov = kernel(fresh) - cross @ (inverse - inner) @ cross.T
    return lower, upper, mean, cov


def exact_likelihood(kernel: mc.Kernel, rows: Array, y: Array, noise: Array) -> float:
    covariance = kernel(rows) + np.diag(noise)
    constant = np.linalg.slogdet(covariance)[1] + len(rows) * np.log(2 * np.pi)
    columns = y.reshape(len(rows), -1)
    fit = np.sum(columns * np.linalg.solve(covariance, columns))
    return float(-0.5 * (fit + columns.shape[1] * constant))


@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("noise", [np.full(N, 0.3), VARIANCES], ids=["shared", "known"])
@pytest.mark.parametrize(
    "kernel", [RBF, 0.7 * mc.Matern(nu=1.5) + mc.Linear(), 2.0 * mc.RBF().normalized()]
)
def test_bound_and_posterior_are_those_of_dense_matrices(
    y: Array, noise: Array, kernel: mc.Kernel
) -> None:
    given = noise if noise is VARIANCES else 0.3
    model = GP(kernel, noise=given, solver=FEW, **HELD).fit(X, y)
    lower, upper, mean, cov = naive(kernel, X, y, X[ROWS], noise, Z)
    assert model.lower_bound_ == pytest.approx(lower, rel=1e-9)
    assert model.log_marginal_likelihood_ == model.lower_bound_
    assert model.upper_bound_ == pytest.approx(upper, rel=1e-9)
    assert lower <= exact_likelihood(kernel, X, y, noise) <= upper
    assert_allclose(model.predict(Z), mean, rtol=1e-8)
    found = model.predict(Z, return_cov=True)[1].reshape(9, 9, -1)
    std = model.predict(Z, return_std=True)[1].reshape(9, -1)
    for target in range(y.ndim):
        assert_allclose(found[..., target], cov, rtol=1e-7, atol=1e-10)
        assert_allclose(std[:, target] ** 2, cov.diagonal(), rtol=1e-7)
    C = kernel(X, X[ROWS])
    Q_diag = np.einsum("ij,ji->i", C, np.linalg.solve(kernel(X[ROWS]), C.T))
    share = np.sum((kernel.diag(X) - Q_diag) / noise) / np.sum(kernel.diag(X) / noise)
    assert model.trace_error_ == pytest.approx(share, rel=1e-8)
    assert_allclose(model.rows_, ROWS)


def test_the_bound_is_the_definition_in_extended_precision() -> None:
    rows, chosen, d = X[:15], [0, 3, 4, 9, 11], 0.2
    with mpmath.workdps(50):

        def kernel(a: Array, b: Array) -> Any:
            def value(x: Array, z: Array) -> Any:
                terms = (
                    ((mpmath.mpf(p) - q) / s) ** 2 for p, q, s in zip(x, z, (1, 2, 3), strict=True)
                )
                return mpmath.mpf("1.7") * mpmath.exp(-sum(terms) / 2)

            return mpmath.matrix([[value(x, z) for z in b] for x in a])

        C, inverse = kernel(rows, rows[chosen]), kernel(rows[chosen], rows[chosen]) ** -1
        Q, y = C * inverse * C.T, mpmath.matrix([mpmath.mpf(v) for v in Y[:15]])
        G = Q + mpmath.mpf("0.2") * mpmath.eye(15)
        left_out = sum(mpmath.mpf("1.7") - Q[i, i] for i in range(15)) / mpmath.mpf("0.2")
        value = -((y.T * G**-1 * y)[0] + mpmath.log(mpmath.det(G)) + left_out) / 2
        value -= 15 * mpmath.log(2 * mpmath.pi) / 2
    model = GP(RBF, noise=d, solver=S.NystromSolver(landmarks=np.array(chosen)), **HELD)
    assert model.fit(rows, Y[:15]).lower_bound_ == pytest.approx(float(value), rel=1e-11)


def test_weights_are_repeated_rows() -> None:
    settings = {"noise": 0.3, "learn": False, "solver": S.NystromSolver(landmarks=X[ROWS])}
    weighted = GP(RBF, **settings).fit(X, Y, W)
    repeated = GP(RBF, **settings).fit(
        np.repeat(X, W.astype(int), axis=0), np.repeat(Y, W.astype(int))
    )
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    assert_allclose(weighted.predict(Z), repeated.predict(Z), rtol=1e-8)
    theta = weighted.theta_ + 0.1
    for a, b in zip(
        weighted.log_marginal_likelihood_gradient(theta),
        repeated.log_marginal_likelihood_gradient(theta),
        strict=True,
    ):
        assert_allclose(a, b, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("as_mask", [False, True], ids=["numbers", "mask"])
def test_numbers_of_landmarks_count_rows_of_weight_zero(as_mask: bool, dtype: Any) -> None:
    rows = X.astype(dtype)
    chosen = np.unique([2, 5, 9, *np.flatnonzero(W == 0)[:2]])
    assert W[:9].min() == 0  # rows that are left out come before and among the landmarks
    how = np.isin(np.arange(N), chosen) if as_mask else chosen
    model = GP(RBF, noise=0.3, solver=S.NystromSolver(landmarks=how), **HELD).fit(rows, Y, W)
    copies = np.repeat(np.arange(N), W.astype(int))
    exact = rows.astype(np.float64)
    noise = np.full(len(copies), 0.3)
    lower, _, mean, cov = naive(RBF, exact[copies], Y[copies], exact[chosen], noise, Z)
    assert_allclose(model.points_.data, exact[chosen])
    assert_array_equal(model.rows_, chosen)
    assert model.lower_bound_ == pytest.approx(lower, rel=1e-9)
    assert_allclose(model.predict(Z), mean, rtol=1e-8)
    assert_allclose(model.predict(Z, return_cov=True)[1], cov, rtol=1e-7, atol=1e-10)
    learned = GP(RBF, noise=0.3, solver=S.NystromSolver(landmarks=how)).fit(rows, Y, W)
    assert_array_equal(learned.rows_, chosen)


def test_units_of_the_targets_do_not_matter() -> None:
    plain = GP(RBF, noise=mc.Fixed(0.3), solver=FEW, normalize_y=False, learn=False).fit(X, Y)
    scaling = float(np.std(Y))
    normal = GP(
        (1.7 / scaling**2) * mc.RBF(length_scale=[1.0, 2.0, 3.0]), 0.3, solver=FEW, learn=False
    ).fit(X, Y)
    moved = GP(RBF, noise=0.3, solver=FEW, **HELD).fit(X, Y - Y.mean())
    assert normal.lower_bound_ == pytest.approx(moved.lower_bound_, rel=1e-10)
    assert_allclose(normal.predict(Z), moved.predict(Z) + Y.mean(), rtol=1e-9)
    assert_allclose(
        normal.predict(Z, return_std=True)[1], plain.predict(Z, return_std=True)[1], rtol=1e-9
    )


# Gradients ---------------------------------------------------------------------------------------

KERNELS = {
    "ard": RBF,
    "sum": 0.7 * mc.Matern(nu=1.5) + 0.2 * mc.Linear(),
    "product": mc.RationalQuadratic() * mc.Polynomial(2),
    "normalised": 2.0 * (1.0 * mc.Matern([1.0, 1.0, 2.0], nu=2.5)).normalized(),
    "periodic": 1.0 * mc.Periodic(period=3.0),
}
NOISES = {
    "shared": Noise(0.1, learned=True),
    "known": Noise(1.0, learned=False, factors=VARIANCES),
    "weighted": Noise(0.2, learned=True, weights=VARIANCES + 0.5),
}


def objective_of(kernel: mc.Kernel, noise: Noise, landmarks: Array) -> LandmarkObjective:
    data = ExactObjective(kernel, kernel.prepare(X), BOTH / 50, noise)
    return LandmarkObjective(data, kernel.prepare(landmarks))


@pytest.mark.parametrize(
    ("kernel", "noise"),
    [*((name, "shared") for name in KERNELS), ("ard", "known"), ("ard", "weighted")],
)
def test_gradients_are_finite_differences(kernel: str, noise: str) -> None:
    rng = np.random.default_rng(7)
    places = rng.normal(size=(M, 3))
    objective = objective_of(KERNELS[kernel], NOISES[noise], places)
    theta, h = objective.data.theta, 1e-5
    value, gradient, moved = objective.with_position_gradient(theta)
    assert value == pytest.approx(objective.value(theta), rel=1e-12)
    steps = h * np.eye(len(theta))
    differences = [
        (objective.value(theta + s) - objective.value(theta - s)) / (2 * h) for s in steps
    ]
    assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
    for place in ((0, 0), (5, 2), (11, 1)):
        step = np.zeros_like(places)
        step[place] = h
        above, below = (
            objective_of(KERNELS[kernel], NOISES[noise], places + s).value(theta)
            for s in (step, -step)
        )
        assert moved[place] == pytest.approx(
            (above - below) / (2 * h), rel=1e-6, abs=1e-6 * np.abs(moved).max()
        )


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


# The exact answer as the limit -------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("noise", [0.3, VARIANCES], ids=["shared", "known"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "solver",
    [all_rows(), S.ConjugateGradient(tol=1e-12, random_state=0)],
    ids=["NystromSolver", "CG"],
)
def test_all_rows_as_landmarks_are_exact(
    y: Array, noise: Any, weights: Array | None, solver: Any
) -> None:
    if isinstance(solver, S.NystromSolver) and weights is not None:
        solver = all_rows(int(np.count_nonzero(weights)))
    exact = GP(RBF, noise=noise, **HELD).fit(X, y, weights)
    model = GP(RBF, noise=noise, solver=solver, **HELD).fit(X, y, weights)
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-9)
    assert model.lower_bound_ <= exact.log_marginal_likelihood_ + 1e-9
    assert model.upper_bound_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-6)
    assert model.trace_error_ < 1e-10
    for options in ({"return_std": True}, {"return_cov": True}):
        for a, b in zip(model.predict(Z, **options), exact.predict(Z, **options), strict=True):
            assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    if isinstance(solver, S.NystromSolver):
        loo, wanted = model.loo_predictions_, exact.loo_predictions_
        order = np.arange(len(exact.rows_))  # rows of weight zero are in neither
        assert_allclose(loo.mean[order], wanted.mean, rtol=1e-7)
        assert_allclose(loo.variance[order], wanted.variance, rtol=1e-7)
        assert model.loo_log_density_ == pytest.approx(exact.loo_log_density_, rel=1e-8)


@pytest.mark.parametrize("solver", [all_rows(), S.ConjugateGradient(tol=1e-12)], ids=type)
def test_learning_with_all_rows_as_landmarks_is_exact(solver: Any) -> None:
    kernel, rows = 1.7 * mc.RBF([1.0, 2.0]), X[:, :2]  # both columns matter
    exact, model = GP(kernel).fit(rows, Y), GP(kernel, solver=solver).fit(rows, Y)
    assert model.converged_
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=1e-5)
    assert_allclose(model.theta_, exact.theta_, atol=2e-2)
    assert_allclose(model.predict(Z[:, :2]), exact.predict(Z[:, :2]), rtol=1e-3)


def test_more_landmarks_are_better() -> None:
    rng = np.random.default_rng(7)
    exact = GP(RBF, noise=0.3, **HELD).fit(X, Y)
    order, gaps, errors = rng.permutation(N), [], []
    for m in (5, 10, 20, 40, 80):
        model = GP(RBF, noise=0.3, solver=S.NystromSolver(landmarks=order[:m]), **HELD).fit(X, Y)
        assert model.lower_bound_ <= exact.log_marginal_likelihood_ + 1e-9 <= model.upper_bound_ + 1
        gaps.append(exact.log_marginal_likelihood_ - model.lower_bound_)
        errors.append(np.abs(model.predict(Z) - exact.predict(Z)).max())
    assert gaps == sorted(gaps, reverse=True)
    assert errors[-1] < 1e-7 < errors[0]


# Variances ---------------------------------------------------------------------------------------


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


# Other rows --------------------------------------------------------------------------------------


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


def test_iterations_over_all_rows_say_what_they_cannot_do() -> None:
    model = GP(RBF, solver=S.ConjugateGradient(random_state=0)).fit(X, Y)
    before = model.predict(Z)
    with pytest.raises(DataError, match=r"update .* solver=mercer.solvers.NystromSolver"):
        model.update(Z, np.zeros(9))
    with pytest.raises(DataError, match="leaving rows out"):
        _ = model.loo_predictions_
    with pytest.raises(DataError, match="leaving rows out"):
        _ = model.loo_log_density_
    assert_allclose(model.predict(Z), before)
    assert len(model.points_) == N
    assert model.residual_ < 1e-6
    assert model.residual_history_[0] == 1


def test_iterations_that_stop_short_warn_and_keep_what_they_have() -> None:
    solver = S.ConjugateGradient(preconditioner=None, tol=1e-12, max_iter=2)
    with pytest.warns(NumericalWarning, match="stopped after 2 with a relative residual") as said:
        model = GP(RBF, solver=solver).fit(X, Y)
    assert len(said) == 1
    assert "raise max_iter, noise or the rank" in str(said[0].message)
    assert model.converged_ is False
    assert len(model.residual_history_) == 3
    assert model.predict(Z).shape == (9,)
    with pytest.warns(NumericalWarning, match="stopped after 2 with a relative residual"):
        assert GP(RBF, noise=0.3, solver=solver, learn=False).fit(X, Y).converged_ is False


# Landmarks ---------------------------------------------------------------------------------------


def test_landmarks_are_chosen_again_when_the_kernel_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(200, 3))
    y = np.sin(3 * rows[:, 0]) + 0.1 * rng.normal(
        size=200
    )  # of one column; landmarks are chosen for three at first
    start = 1.0 * mc.RBF(length_scale=[1.0, 1.0, 1.0])
    solver = S.NystromSolver(15, "rpcholesky", random_state=0)
    again = GP(start, solver=solver).fit(rows, y)
    monkeypatch.setattr(landmark_search, "_ROUNDS", 0)
    once = GP(start, solver=solver).fit(rows, y)
    assert again.lower_bound_ > once.lower_bound_ + 1
    assert set(again.rows_) != set(once.rows_)
    assert_allclose(again.points_.data, rows[again.rows_])


def test_landmarks_that_are_learned() -> None:
    rng = np.random.default_rng(7)
    rows = rng.uniform(-3, 3, size=(150, 2)) * [1.0, 1000.0] + [0.0, 5000.0]
    y = np.sin(2 * rows[:, 0]) + 0.1 * rng.normal(size=150)
    kernel = 1.0 * mc.RBF(length_scale=[1.0, 1000.0])
    chosen = GP(kernel, solver=S.NystromSolver(6, "rpcholesky", random_state=0)).fit(rows, y)
    learned = GP(kernel, solver=S.NystromSolver(6, "learn", random_state=0)).fit(rows, y)
    exact = GP(kernel).fit(rows, y)
    assert learned.converged_
    assert chosen.lower_bound_ + 1 < learned.lower_bound_ < exact.log_marginal_likelihood_
    assert learned.rows_ is None
    places = learned.points_.data
    assert (places >= rows.min(axis=0)).all()
    assert (places <= rows.max(axis=0)).all()
    assert learned.theta_.shape == (4,)
    assert learned.contributions(rows[:1]).values.shape[0] == 1
    _, gradient = learned.log_marginal_likelihood_gradient()
    assert learned.gradient_norm_ >= np.abs(gradient).max() - 1e-6
    held = GP(kernel, 0.1, solver=S.NystromSolver(8, "learn", random_state=0), learn=False).fit(
        rows, y
    )
    assert len(held.rows_) == 8


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (mc.Spectrum(2).normalized(), ["abab", "abc", "ccab", "bbbb", "cabc", "aabb"] * 4),
        (mc.RBF().on("a"), pd.DataFrame({"a": X[:24, 0], "b": ["x"] * 24})),
        (mc.Linear(), sp.csr_array(X[:24])),
    ],
    ids=["strings", "frame", "sparse"],
)
def test_positions_of_what_is_not_all_numbers_cannot_be_learned(
    kernel: mc.Kernel, rows: Any
) -> None:
    with pytest.raises(MercerError, match=r'landmarks="rpcholesky"'):
        GP(1.0 * kernel, solver=S.NystromSolver(4, "learn", random_state=0)).fit(rows, Y[:24])


@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_any_kernel_and_any_container() -> None:
    words = ["abab", "abc", "ccab", "bbbb", "cabc", "aabb", "baba", "cc", "acac"] * 3
    frame = pd.DataFrame(X[:27], columns=list("abc"))
    K = RBF(X[:27])
    for kernel, rows in (
        (1.0 * mc.Spectrum(2).normalized(), words),
        (1.0 * mc.RBF().on("a", "b"), frame),
        (1.0 * mc.Linear(), sp.csr_array(X[:27])),
        (1.0 * mc.Precomputed(K), np.arange(27)[:, None]),
    ):
        landmarks = S.NystromSolver(landmarks=np.arange(9))
        model = GP(kernel, noise=mc.Fixed(0.5), solver=landmarks).fit(rows, Y[:27])
        assert model.converged_
        fixed = GP(model.kernel_, 0.5, solver=landmarks, **HELD).fit(rows, Y[:27])
        fresh, noise = rows[:4], np.full(27, 0.5)
        lower, _, mean, cov = naive(model.kernel_, rows, Y[:27], rows[:9], noise, fresh)
        assert fixed.lower_bound_ == pytest.approx(lower, rel=1e-8)
        assert_allclose(fixed.predict(fresh), mean, rtol=1e-6)
        assert_allclose(fixed.predict(fresh, return_cov=True)[1], cov, atol=1e-6)


def test_single_precision_is_learned_from_in_double_precision() -> None:
    single = GP(RBF, solver=S.NystromSolver(20, "rpcholesky", random_state=0))
    double = clone(single).fit(X.astype(np.float32).astype(float), Y)
    single.fit(X.astype(np.float32), Y)
    assert_allclose(single.theta_, double.theta_, atol=1e-3)
    assert_allclose(single.predict(Z), double.predict(Z), rtol=1e-3)
    single.update(Z.astype(np.float32), np.zeros(9))
    double.update(Z, np.zeros(9))
    assert_allclose(single.predict(Z), double.predict(Z), rtol=1e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_copies_constants_and_extremes() -> None:
    rows = np.repeat(X[:10], 5, axis=0)
    model = GP(RBF, solver=S.NystromSolver(50, random_state=0)).fit(rows, Y[:50])
    assert np.isfinite(model.predict(Z, return_std=True)).all()
    few = S.NystromSolver(5, "rpcholesky", random_state=0)
    assert_allclose(GP(solver=few).fit(X, np.full(N, 3.0)).predict(Z), 3.0)
    assert np.isfinite(GP(solver=few).fit(np.ones((N, 2)), Y).predict(np.ones((2, 2)))).all()
    assert_allclose(GP(solver=S.NystromSolver(1)).fit([[1.0]], [2.0]).predict([[1.0]]), 2.0)
    for scale in (1e-150, 1e150):
        model = GP(1.0 * mc.RBF("scale"), solver=few).fit(X * scale, Y)
        assert np.isfinite(model.predict(Z * scale, return_std=True)).all()


def test_more_landmarks_than_rows_warn_once() -> None:
    with pytest.warns(MercerWarning, match="n_landmarks = 500 is more than the 80 rows") as said:
        model = GP(RBF, solver=S.NystromSolver(500, "rpcholesky")).fit(X, Y)
    assert len(said) == 1
    assert len(model.points_) == N


# Auto --------------------------------------------------------------------------------------------


def test_auto_learns_on_the_bound_and_conditions_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 50)
    monkeypatch.setattr(GaussianProcessFit, "search_landmarks", 40)
    model = GP(RBF).fit(X, Y)
    assert repr(model.solver_) == "Cholesky()"
    assert model.search_solver_ == S.NystromSolver(40, "rpcholesky", 0)
    assert model.lower_bound_ < model.log_marginal_likelihood_ < model.upper_bound_
    again = GP(model.kernel_, noise=model.noise_, learn=False).fit(X, Y)
    assert_allclose(model.predict(Z), again.predict(Z), rtol=1e-9)
    assert model.log_marginal_likelihood_ == pytest.approx(again.log_marginal_likelihood_)
    assert_allclose(model.rows_, np.arange(N))
    best = GP(RBF, solver=S.Cholesky()).fit(X, Y)
    assert best.log_marginal_likelihood_ - model.log_marginal_likelihood_ < 1
    held = GP(RBF, noise=0.3, learn=False).fit(X, Y)
    assert (held.solver_, held.search_solver_) == (S.Cholesky(), S.Cholesky())
    assert model.update(Z, np.zeros(9)).predict(Z).shape == (9,)


def test_auto_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("exact_rows", 30), ("dense_rows", 50), ("search_landmarks", 20)):
        monkeypatch.setattr(GaussianProcessFit, name, value)
    monkeypatch.setattr(GaussianProcessFit, "search_rows", 60)
    iterated = GP(RBF).fit(X, Y)
    assert iterated.solver_ == S.ConjugateGradient(max_iter=200, random_state=0)
    again = GP(iterated.kernel_, noise=iterated.noise_, learn=False, solver=S.Cholesky()).fit(X, Y)
    assert_allclose(iterated.predict(Z), again.predict(Z), rtol=1e-4)
    monkeypatch.setattr(GaussianProcessFit, "product_rows", 50)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 30)
    landmarks = GP(RBF).fit(X, Y)
    assert landmarks.solver_ == S.NystromSolver(30, "rpcholesky", 0)
    assert len(landmarks.points_) == 30
    assert landmarks.lower_bound_ == landmarks.log_marginal_likelihood_
    monkeypatch.setattr(plan, "_CHOICE_BYTES", 0)
    assert GP(RBF, random_state=3).fit(X, Y).solver_ == S.NystromSolver(30, "uniform", 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": RBF + 0.1 * mc.White()},
        {"criterion": "loo"},
        {"noise": mc.Fixed(0.0)},
        {"kernel": mc.FunctionKernel(lambda a, b: a @ b.T), "noise": 1.0, "learn": False},
    ],
    ids=["white", "loo", "noiseless", "unknown"],
)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
def test_auto_takes_the_matrix_where_landmarks_cannot_serve(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 10)
    monkeypatch.setattr(GaussianProcessFit, "dense_rows", 20)
    model = GP(**{"kernel": RBF, **settings}).fit(X[:40], Y[:40])
    assert (model.solver_, model.search_solver_) == (S.Cholesky(), S.Cholesky())


def test_what_does_not_fit_goes_to_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mc.forecast(GP(RBF), X).chosen == S.Cholesky()
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    monkeypatch.setattr(GaussianProcessFit, "search_landmarks", 10)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 10)
    found = mc.forecast(GP(RBF), X)
    assert found.chosen == S.NystromSolver(10)
    assert "does not fit in memory" in str(found)
    assert GP(RBF).fit(X, Y).solver_ == S.NystromSolver(10, "rpcholesky", 0)
    with pytest.raises(MemoryForecastError, match="GaussianProcessRegressor on 80 rows"):
        GP(RBF, solver=S.Cholesky()).fit(X, Y)
    with pytest.raises(MemoryForecastError, match="with 80 landmarks"):
        GP(RBF, solver=S.NystromSolver(80)).fit(X, Y)


def test_forecasts_follow_the_rule() -> None:
    def chosen(n: int, **settings: Any) -> Any:
        return mc.forecast(GP(**settings), np.zeros((n, 2), dtype=np.float32))

    assert isinstance(chosen(4_000).chosen, S.Cholesky)
    assert "on the bound" in chosen(5_000).reason
    assert isinstance(chosen(20_000).chosen, S.ConjugateGradient)
    assert isinstance(chosen(120_000).chosen, S.NystromSolver)
    assert "White" in str(chosen(3_000, kernel=mc.RBF() + mc.White()))
    with pytest.raises(TypeError, match="or a GaussianProcessRegressor"):
        mc.forecast(mc.KernelPerceptron(), X)  # type: ignore[arg-type]


# Steps, and what is refused ----------------------------------------------------------------------


def test_an_interrupt_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = LandmarkObjective.value_and_gradient, 0

    def interrupted(self: Any, theta: Array) -> Any:
        nonlocal calls
        calls += 1
        if calls > 8:
            raise KeyboardInterrupt
        return whole(self, theta)

    monkeypatch.setattr(LandmarkObjective, "value_and_gradient", interrupted)
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 50)
    model = GP(RBF)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    assert model.n_evaluations_ == 8
    assert model.solver_ == model.search_solver_ == S.NystromSolver(N, "rpcholesky", 0)
    start = GP(RBF, noise=0.1 * Y.var(), learn=False).fit(X, Y)
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_
    assert model.predict(Z, return_std=True)[1].shape == (9,)


@pytest.mark.parametrize("how", ["rpcholesky", "learn"])
def test_callbacks_see_every_iteration_and_can_stop(how: str) -> None:
    seen: list[float] = []

    class Watch:
        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> bool:
            if context.task_name == "iteration":
                seen.append(fitted_estimator.lower_bound_)
                assert fitted_estimator.predict(Z).shape == (9,)
            return len(seen) >= limit

    limit = 3
    model = GP(RBF, solver=S.NystromSolver(10, how, random_state=0)).set_callbacks(Watch())
    with pytest.warns(NumericalWarning, match="stopped after 2 iterations"):
        model.fit(X, Y)
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert model.lower_bound_ == pytest.approx(seen[-1])
    limit = 10**6
    seen.clear()
    model.fit(X, Y)
    assert len(seen) > 3
    assert model.lower_bound_ == pytest.approx(max(seen))


def test_a_fitted_model_is_pickled() -> None:
    for solver in (FEW, S.ConjugateGradient(random_state=0)):
        model = GP(RBF, solver=solver).fit(X, Y)
        again = pickle.loads(pickle.dumps(model))
        assert_allclose(again.predict(Z, True), model.predict(Z, True))
        assert again.log_marginal_likelihood() == pytest.approx(model.lower_bound_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "nystrom"}, "solver = 'nystrom' is unknown here"),
        ({"solver": mc.RBF()}, 'is unknown here; pass "auto"'),
        ({"solver": S.NystromSolver}, "is unknown here"),
        ({"solver": None}, "solver = None is unknown"),
        ({"solver": FEW, "criterion": "loo"}, "the criterion needs the whole matrix"),
        ({"solver": FEW, "noise": mc.Fixed(0.0)}, "there is no noise"),
        ({"solver": FEW, "noise": np.append(VARIANCES[1:], 0.0)}, "there is no noise"),
        ({"solver": FEW, "kernel": RBF + mc.White()}, "contains White"),
        ({"solver": S.ConjugateGradient(), "kernel": RBF + mc.White()}, "contains White"),
        ({"solver": FEW, "kernel": mc.Sigmoid()}, "the kernel is not valid"),
        ({"solver": S.NystromSolver(0)}, "n_landmarks = 0"),
        ({"solver": S.NystromSolver(5, "best")}, "landmarks = 'best' is unknown"),
    ],
)
def test_parameters_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        GP(**{"kernel": RBF, **settings}).fit(X, Y)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
@parametrize_with_checks(
    [
        GP(mc.Linear(), solver=S.NystromSolver(10, "rpcholesky", random_state=0)),
        GP(solver=S.ConjugateGradient(tol=1e-12, random_state=0)),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("searched", [300, 250], ids=["all rows", "some rows"])
def test_a_bound_far_below_the_likelihood_is_told(
    searched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory does not let the search learn from the whole matrix instead."""
    monkeypatch.setattr(GaussianProcessFit, "search_rows", searched)
    monkeypatch.setattr(GaussianProcessFit, "learning_matrices", 1e9)
    monkeypatch.setattr(GaussianProcessFit, "most_search_landmarks", 20)
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 100)
    monkeypatch.setattr(GaussianProcessFit, "search_landmarks", 20)
    rng = np.random.default_rng(7)
    rows = rng.uniform(-3, 3, size=(300, 1))
    rough = np.sin(15 * rows[:, 0]) + 0.1 * rng.normal(size=300)
    with pytest.warns(NumericalWarning, match="nats below the likelihood.*Cholesky"):
        model = GP(1.0 * mc.RBF(length_scale=0.1)).fit(rows, rough)
    assert model.log_marginal_likelihood_ - model.lower_bound_ > 3
    smooth = GP(1.0 * mc.RBF()).fit(rows, np.sin(rows[:, 0]) + 0.1 * rng.normal(size=300))
    assert smooth.log_marginal_likelihood_ - smooth.lower_bound_ < 0.1
    for fitted in (model, smooth):
        assert fitted.lower_bound_ < fitted.log_marginal_likelihood_ < fitted.upper_bound_
    smooth.update(rows[:2] + 0.01, np.zeros(2))
    assert not hasattr(smooth, "lower_bound_")
