"""Gaussian process regression by every solver, against naive formulas and the exact process."""

from __future__ import annotations

import pickle
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
from mercer.exceptions import DataError, MercerWarning, NumericalWarning
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.models.gaussian_process.targets import Noise
from mercer.solvers.forecast import GaussianProcessFit
from model_samples import ARD, CHOSEN, FEW, HELD, MANY

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, BOTH, Z, W, VARIANCES = MANY
N, M = len(X), len(CHOSEN)
ROWS, RBF = CHOSEN, ARD


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
    moved = GP(RBF, noise=0.3, solver=FEW, **(HELD | {"mean": "constant"})).fit(X, Y - Y.mean())
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
    value, gradient, moved = objective.value_and_gradients(theta)
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


# Iterations over all rows ------------------------------------------------------------------------


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
    model.fit(X, Y)
    assert not model.converged_  # without a warning: the callback knows
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


@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
@parametrize_with_checks(
    [
        GP(mc.Linear(), solver=S.NystromSolver(10, "rpcholesky", random_state=0)),
        GP(solver=S.ConjugateGradient(tol=1e-12, random_state=0)),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# An unknown constant mean ------------------------------------------------------------------------


def naive_with_constant(
    landmarks: Array, y: Array, noise: Array
) -> tuple[float, Array, Array, Array]:
    """Constant, mean, covariance and leave-one-out residuals of Q + D, by dense matrices."""
    C, K_zz, cross = RBF(X, landmarks), RBF(landmarks), RBF(Z, landmarks)
    Q, rest = C @ np.linalg.solve(K_zz, C.T), cross @ np.linalg.solve(K_zz, C.T)
    P = np.linalg.inv(Q + np.diag(noise))
    ones = P.sum(axis=1)
    constant = float(ones @ y / ones.sum())
    missed = 1 - rest @ ones
    cov = RBF(Z) - rest @ P @ rest.T + np.outer(missed, missed) / ones.sum()
    P -= np.outer(ones, ones) / ones.sum()
    return constant, constant + rest @ P @ y, cov, P @ y / P.diagonal()


@pytest.mark.parametrize("noise", [np.full(N, 0.3), VARIANCES], ids=["shared", "known"])
def test_an_unknown_mean_through_landmarks(noise: Array) -> None:
    given = noise if noise is VARIANCES else 0.3
    settings = {"noise": given, "solver": FEW, "learn": False, "normalize_y": False}
    model = GP(RBF, **settings).fit(X, Y)
    constant, mean, cov, residuals = naive_with_constant(X[ROWS], Y, noise)
    assert model.intercept_ == pytest.approx(constant)
    assert_allclose(model.predict(Z), mean, rtol=1e-8)
    assert_allclose(model.predict(Z, return_cov=True)[1], cov, rtol=1e-7, atol=1e-10)
    assert_allclose(model.predict(Z, return_std=True)[1] ** 2, cov.diagonal(), rtol=1e-7)
    assert_allclose(Y - model.loo_predictions_.mean, residuals, rtol=1e-7)
    theta = model.theta_ + 0.1
    value, gradient = model.log_marginal_likelihood_gradient(theta)
    assert value == pytest.approx(model.log_marginal_likelihood(theta))
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + sign * step) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
    exact = GP(RBF, **(settings | {"solver": S.Cholesky()})).fit(X, Y)
    assert model.lower_bound_ <= exact.log_marginal_likelihood_ <= model.upper_bound_


@pytest.mark.parametrize(
    "solver",
    [
        S.NystromSolver(N, "rpcholesky", 0),
        S.ConjugateGradient(tol=1e-10),
        S.Falkon(N, "rpcholesky", random_state=0, tol=1e-10),
    ],
    ids=["landmarks", "iterations", "falkon"],
)
def test_solvers_of_all_rows_agree_on_an_unknown_mean(solver: Any) -> None:
    settings = {"noise": 0.3, "learn": False}
    exact = GP(RBF, solver=S.Cholesky(), **settings).fit(X, BOTH[:, 0], 1 + W)
    model = GP(RBF, solver=solver, **settings).fit(X, BOTH[:, 0], 1 + W)
    assert model.intercept_ == pytest.approx(exact.intercept_, rel=1e-4)
    assert_allclose(model.predict(Z), exact.predict(Z), rtol=1e-4)


def test_an_unknown_mean_beside_few_features() -> None:
    kernel, settings = mc.Polynomial(2), {"noise": 0.3, "learn": False, "normalize_y": False}
    exact = GP(kernel, solver=S.Cholesky(), **settings).fit(X, BOTH)
    model = GP(kernel, solver=S.Primal(), **settings).fit(X, BOTH)
    assert_allclose(model.intercept_, exact.intercept_, rtol=1e-6)
    value = exact.log_marginal_likelihood_
    assert model.log_marginal_likelihood_ == pytest.approx(value, rel=1e-8)
    for name in ("return_std", "return_cov"):
        for mine, other in zip(
            model.predict(Z, **{name: True}), exact.predict(Z, **{name: True}), strict=True
        ):
            assert_allclose(mine, other, rtol=1e-6, atol=1e-9)
    assert_allclose(model.loo_predictions_.mean, exact.loo_predictions_.mean, rtol=1e-6)
    number = 20_000
    draws = model.sample_y(Z, number, random_state=0)[:, 0]
    mean, cov = (values[..., 0] for values in model.predict(Z, return_cov=True))
    # Five standard errors: a false alarm in two million for each of the nine numbers.
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(cov.diagonal() / number))
    assert_allclose(np.cov(draws), cov, atol=6 * cov.diagonal().max() / np.sqrt(number / 2))
