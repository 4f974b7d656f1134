"""Gaussian processes by explicit features, against dense matrices of all rows."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import DataError, MemoryForecastError, NumericalWarning
from mercer.models.gaussian_process import explicit as explicit_posterior
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from model_samples import HELD, QUADRATIC, waves

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

RNG = np.random.default_rng(1)
X, Y, BOTH, Z, W, VARIANCES = QUADRATIC
N = len(X)

WORDS = ["".join(RNG.choice(list("abc"), size=RNG.integers(2, 9))) for _ in range(N)]
NEW_WORDS = ["abca", "zzz", "abxx", "cab", "a"]  # with pairs of letters that no training word has
POLYNOMIAL = mc.Polynomial(2)
KERNELS = {
    "linear": 1.3 * mc.Linear(),
    "polynomial": 0.7 * POLYNOMIAL,
    "sum": 0.5 * mc.Linear() + 0.3 * mc.Polynomial(3),
    "product": mc.Linear() * mc.Linear().on(0) + 2.0 * mc.Constant(),
}


def naive(
    K: Array, cross: Array, fresh: Array, noise: Array, y: Array
) -> tuple[float, Array, Array]:
    """Log marginal likelihood, mean and covariance of dense matrices."""
    G = K + np.diag(noise)
    columns = y.reshape(len(y), -1)
    inverse = np.linalg.inv(G)
    constant = np.linalg.slogdet(G)[1] + len(y) * np.log(2 * np.pi)
    value = -0.5 * (np.sum(columns * (inverse @ columns)) + columns.shape[1] * constant)
    return float(value), cross @ inverse @ y, fresh - cross @ inverse @ cross.T


def assert_same_process(model: Any, exact: Any, fresh: Any = Z, rtol: float = 1e-8) -> None:
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=rtol)
    for options in ({"return_std": True}, {"return_cov": True}):
        for a, b in zip(
            model.predict(fresh, **options), exact.predict(fresh, **options), strict=True
        ):
            assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())
    loo, wanted = model.loo_predictions_, exact.loo_predictions_
    assert_allclose(loo.mean, wanted.mean, rtol=rtol, atol=rtol * np.abs(wanted.mean).max())
    assert_allclose(loo.variance, wanted.variance, rtol=rtol)
    assert model.loo_log_density_ == pytest.approx(exact.loo_log_density_, rel=rtol)
    assert_allclose(
        model.dual_coef_, exact.dual_coef_, rtol=rtol, atol=rtol * np.abs(exact.dual_coef_).max()
    )


# The kernel's own features -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("noise", [np.full(N, 0.3), VARIANCES], ids=["shared", "known"])
def test_the_posterior_is_that_of_dense_matrices(kernel: mc.Kernel, y: Array, noise: Array) -> None:
    given = noise if noise is VARIANCES else 0.3
    model = GP(kernel, noise=given, solver=S.Primal(), **HELD).fit(X, y)
    value, mean, cov = naive(kernel(X), kernel(Z, X), kernel(Z), noise, y)
    assert model.log_marginal_likelihood_ == pytest.approx(value, rel=1e-11)
    assert model.lower_bound_ == model.log_marginal_likelihood_
    assert model.upper_bound_ == pytest.approx(value, rel=1e-11)
    assert model.trace_error_ == 0
    assert_allclose(model.predict(Z), mean, rtol=1e-8)
    found = model.predict(Z, return_cov=True)[1].reshape(9, 9, -1)
    for target in range(y.ndim):
        assert_allclose(found[..., target], cov, rtol=1e-8, atol=1e-10)
    assert_array_equal(model.rows_, np.arange(N))
    assert_allclose(model.kernel_(Z, X) @ model.dual_coef_, mean, rtol=1e-7)


@pytest.mark.parametrize("kernel", [KERNELS["linear"], POLYNOMIAL], ids=["linear", "polynomial"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_learned_as_by_the_whole_matrix(kernel: Any, weights: Array | None, y: Array) -> None:
    exact = GP(kernel, solver=S.Cholesky()).fit(X, y, weights)
    model = GP(kernel, solver=S.Primal()).fit(X, y, weights)
    assert (model.solver_, model.search_solver_) == (S.Primal(), S.Primal())
    assert model.converged_
    assert_allclose(model.theta_, exact.theta_, atol=1e-6)
    assert model.n_evaluations_ <= exact.n_evaluations_ + 5
    at_its_theta = exact.log_marginal_likelihood(model.theta_)
    assert model.log_marginal_likelihood_ == pytest.approx(at_its_theta, rel=1e-10)
    assert_same_process(model, exact, rtol=1e-5)
    assert_array_equal(model.rows_, exact.rows_)


def test_many_rows_are_sketched_first_and_restarts_are_searched() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1_000, 2))
    y = (1 + rows[:, 0]) * (1 + rows[:, 1]) + 0.5 * rng.normal(size=1_000)
    exact = GP(POLYNOMIAL, n_restarts=1, random_state=0, solver=S.Cholesky()).fit(rows, y)
    model = GP(POLYNOMIAL, n_restarts=1, random_state=0, solver=S.Primal()).fit(rows, y)
    assert_allclose(model.theta_, exact.theta_, atol=1e-5)
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_likelihood_and_gradient_elsewhere(kernel: mc.Kernel, weights: Array | None) -> None:
    model = GP(kernel, noise=0.3, learn=False, solver=S.Primal()).fit(X, Y, weights)
    exact = GP(kernel, noise=0.3, learn=False, solver=S.Cholesky()).fit(X, Y, weights)
    theta = model.theta_ + np.linspace(-0.4, 0.5, len(model.theta_))
    assert model.log_marginal_likelihood(theta) == pytest.approx(
        exact.log_marginal_likelihood(theta), rel=1e-10
    )
    value, gradient = model.log_marginal_likelihood_gradient(theta)
    wanted_value, wanted = exact.log_marginal_likelihood_gradient(theta)
    assert value == pytest.approx(wanted_value, rel=1e-10)
    assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-7 * np.abs(wanted).max())


CONTAINERS: dict[str, tuple[mc.Kernel, Any, Any]] = {
    "sparse": (1.0 * mc.Linear(), sp.csr_array(X), sp.csr_array(Z)),
    "frame": (
        1.0 * mc.Linear().on("a", "b"),
        pd.DataFrame(X, columns=list("abc")),
        pd.DataFrame(Z, columns=list("abc")),
    ),
    "strings": (1.0 * mc.Spectrum(2), WORDS, NEW_WORDS),
    "normalised strings": (1.0 * mc.Spectrum(2).normalized(), WORDS, NEW_WORDS),
    "more features than rows": (1e-3 * mc.Polynomial(6), X, Z),
    "copies": (1.0 * mc.Linear(), np.repeat(X[:16], 5, axis=0), Z),
    "huge": (1e-200 * mc.Linear(), 1e100 * X, 1e100 * Z),
    "tiny": (1e200 * mc.Linear(), 1e-100 * X, 1e-100 * Z),
}


@pytest.mark.parametrize(("kernel", "rows", "fresh"), CONTAINERS.values(), ids=CONTAINERS)
def test_any_container(kernel: mc.Kernel, rows: Any, fresh: Any) -> None:
    settings = {"kernel": kernel, "noise": 0.3, "learn": False}
    model = GP(solver=S.Primal(), **settings).fit(rows, Y)
    exact = GP(solver=S.Cholesky(), **settings).fit(rows, Y)
    assert_same_process(model, exact, fresh)
    count = fresh.shape[0] if hasattr(fresh, "shape") else len(fresh)
    for one in (model, exact):
        one.update(fresh, np.linspace(0, 10, count))
    assert_same_process(model, exact, fresh)
    assert_array_equal(model.rows_, exact.rows_)


def test_single_precision_is_conditioned_in_double_precision() -> None:
    rows, fresh = X.astype(np.float32), Z.astype(np.float32)
    single = GP(POLYNOMIAL, solver=S.Primal()).fit(rows, Y)
    double = GP(POLYNOMIAL, solver=S.Primal()).fit(rows.astype(float), Y)
    assert_allclose(single.theta_, double.theta_, atol=1e-9)
    assert_allclose(single.predict(fresh, True), double.predict(fresh, True), rtol=1e-6)


def test_degenerate_rows() -> None:
    for rows, y in ((X[:1], Y[:1]), (np.zeros((20, 2)), Y[:20])):
        model = GP(mc.Linear(), 0.5, solver=S.Primal(), **HELD).fit(rows, y)
        exact = GP(mc.Linear(), 0.5, solver=S.Cholesky(), **HELD).fit(rows, y)
        fresh = np.ones((2, rows.shape[1]))
        assert_allclose(model.predict(fresh, True), exact.predict(fresh, True), atol=1e-12)
    short = ["a", "b"] * 10  # no pair of letters: no features at all
    model = GP(mc.Spectrum(2), 0.5, solver=S.Primal(), **HELD).fit(short, Y[:20])
    assert_allclose(model.predict(["ab", "a"], return_std=True), [[0.0, 0.0], [1.0, 0.0]])


def test_draws_have_mean_and_covariance_of_the_posterior() -> None:
    for kernel, rows, fresh in (
        (KERNELS["linear"], X, Z),
        (1.0 * mc.Spectrum(2), WORDS, NEW_WORDS[:3]),
    ):
        model = GP(kernel, 0.3, solver=S.Primal(), **HELD).fit(rows, BOTH / [1.0, 100.0])
        mean, cov = model.predict(fresh, return_cov=True)
        draws = model.sample_y(fresh, 20_000, random_state=0)
        assert draws.shape == (len(fresh), 2, 20_000)
        for target in range(2):
            deviation = np.sqrt(cov[..., target].diagonal())
            error = draws[:, target].mean(axis=1) - mean[:, target]
            assert_allclose(error / deviation, 0, atol=5 / np.sqrt(20_000))
            found = np.cov(draws[:, target]) / np.outer(deviation, deviation)
            wanted = cov[..., target] / np.outer(deviation, deviation)
            assert_allclose(found, wanted, atol=0.05)


def test_draws_at_many_rows_need_no_covariance_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GP(POLYNOMIAL, 0.3, solver=S.Primal(), **HELD).fit(X, Y)
    many = np.repeat(Z, 100, axis=0)
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    draws = model.sample_y(many, random_state=0)
    assert_allclose(draws[::100], model.sample_y(Z, random_state=0), rtol=1e-12)
    with pytest.raises(MemoryForecastError, match="a covariance of 900 points"):
        model.predict(many, return_cov=True)


def test_updates_are_fits_of_all_rows() -> None:
    rows, new = X[:60], X[60:]
    for noise, of_new in ((0.3, {}), (VARIANCES[:60], {"noise": VARIANCES[60:]})):
        updated = GP(POLYNOMIAL, noise, solver=S.Primal(), **HELD).fit(rows, Y[:60])
        updated.update(new, Y[60:], **of_new)
        everything = VARIANCES if np.ndim(noise) else noise
        exact = GP(POLYNOMIAL, everything, solver=S.Cholesky(), **HELD).fit(X, Y)
        assert_same_process(updated, exact)
        assert_array_equal(updated.rows_, np.arange(N))


def test_little_noise_takes_few_digits() -> None:
    rng = np.random.default_rng(4)
    rows, fresh = rng.normal(size=(8, 12)), rng.normal(size=(5, 12))  # fewer rows than features
    y, d = rng.normal(size=8), 1e-9
    model = GP(mc.Linear(), d, solver=S.Primal(), **HELD).fit(rows, y)
    shrunk = rows @ rows.T + d * np.eye(8)
    wanted = fresh @ rows.T @ np.linalg.solve(shrunk, y)
    assert_allclose(model.predict(fresh), wanted, atol=1e-11)  # squares alone leave 2e-6


def test_a_gradient_of_what_is_not_the_likelihood_is_told() -> None:
    model = GP(mc.Polynomial(3) + mc.Linear(), noise=0.1, solver=S.Primal(), **HELD).fit(X, Y)
    model.log_marginal_likelihood_gradient()
    far = model.theta_ + np.array([6.0 if "gain" in name else 0.0 for name in model.theta_names_])
    with pytest.warns(NumericalWarning, match="nats below the likelihood"):
        value, _ = model.log_marginal_likelihood_gradient(far)
    assert value == pytest.approx(model.log_marginal_likelihood(far))


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_large_columns_that_depend_on_each_other(scale: float) -> None:
    # So little noise leaves least squares; of 1e9 the factor of squares alone would fail.
    rows, fresh = scale * X, scale * Z
    settings = {"noise": 0.1, "solver": S.Primal(), **HELD}
    wanted = fresh @ np.linalg.lstsq(rows, Y, rcond=None)[0]
    spread = np.sqrt(0.1 * np.einsum("ij,ji->i", fresh, np.linalg.solve(rows.T @ rows, fresh.T)))
    with pytest.warns(NumericalWarning, match="rounding hides the smallest"):
        twice = GP(mc.Linear(), **settings).fit(np.tile(rows, 2), Y)
    once = GP(mc.Linear(), **settings).fit(rows, Y)  # says nothing: all features are as large
    for model, points in ((twice, np.tile(fresh, 2)), (once, fresh)):
        mean, std = model.predict(points, return_std=True)
        assert_allclose(mean, wanted, rtol=1e-9, atol=1e-9)
        assert_allclose(std, spread, rtol=1e-7)


def test_landmarks_that_do_not_span_are_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor:
        """Choices of which the first is too small."""

        def __init__(self) -> None:
            self.whole, self.calls = explicit_posterior.ExplicitObjective.spanned, 0

        def __call__(self, evidence: Any, kernel: mc.Kernel) -> LandmarkObjective:
            self.calls += 1
            found = self.whole(evidence, kernel)
            few = found.landmarks[: 4 if self.calls == 1 else None]
            return LandmarkObjective(found.data, few)

    # From other starts, and beside an unknown mean, the bound of four rows prefers pure noise.
    monkeypatch.setattr("mercer.models.gaussian_process.exact._CHEAP_ROWS", 0)
    poor, exact = Poor(), GP(POLYNOMIAL, mean="sample", solver=S.Cholesky()).fit(X, Y)
    spanned = lambda self, kernel: poor(self, kernel)  # noqa: E731
    monkeypatch.setattr(explicit_posterior.ExplicitObjective, "spanned", spanned)
    model = GP(POLYNOMIAL, mean="sample", solver=S.Primal()).fit(X, Y)
    assert poor.calls == 2
    assert_allclose(model.theta_, exact.theta_, atol=1e-4)
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-9)
    monkeypatch.setattr(explicit_posterior, "_ROUNDS", 0)
    poor.calls = 0
    with pytest.warns(NumericalWarning, match="nats below the likelihood.*Scale the columns"):
        GP(POLYNOMIAL, mean="sample", solver=S.Primal()).fit(X, Y)


def test_rows_that_span_are_looked_for_among_some_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = GP(POLYNOMIAL, solver=S.Cholesky()).fit(X, Y)
    monkeypatch.setattr(explicit_posterior, "_CHOICE_BYTES", 1)
    model = GP(POLYNOMIAL, solver=S.Primal()).fit(X, Y)
    assert_allclose(model.theta_, exact.theta_, atol=1e-6)


# A map that approximates the kernel ----------------------------------------------------------

RBF = 1.7 * mc.RBF(length_scale=2.0)


@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("noise", [0.3, VARIANCES], ids=["shared", "known"])
def test_the_process_of_the_maps_own_kernel(y: Array, weights: Any, noise: Any) -> None:
    model = GP(RBF, noise, solver=waves(), **HELD).fit(X, y, weights)
    map_ = model.feature_map_
    own = mc.Linear().warp(map_.transform)
    exact = GP(own, noise, solver=S.Cholesky(), **HELD).fit(X, y, weights)
    assert_same_process(model, exact)
    phi, fresh = map_.transform(X), map_.transform(Z)
    if weights is None:
        d = noise if np.ndim(noise) else np.full(N, noise)
        value, mean, cov = naive(phi @ phi.T, fresh @ phi.T, fresh @ fresh.T, d, y)
        assert model.log_marginal_likelihood_ == pytest.approx(value, rel=1e-10)
        assert_allclose(model.predict(Z), mean, rtol=1e-8)
        found = model.predict(Z, return_cov=True)[1].reshape(9, 9, -1)[..., 0]
        assert_allclose(found, cov, rtol=1e-8, atol=1e-10)
    rows = slice(None) if weights is None else weights > 0
    K, phi = RBF(X[rows]), phi[rows]
    error = np.linalg.norm(phi @ phi.T - K) / np.linalg.norm(K)
    assert model.kernel_error_ == pytest.approx(error, rel=1e-8)
    assert not hasattr(model, "lower_bound_")


def test_more_features_come_closer_to_the_exact_process() -> None:
    exact = GP(RBF, 0.3, solver=S.Cholesky(), **HELD).fit(X, Y)
    errors = []
    for size in (20, 200, 2_000):
        model = GP(RBF, 0.3, solver=waves(size), **HELD).fit(X, Y)
        pairs = zip(model.predict(Z, True), exact.predict(Z, True), strict=True)
        errors.append(max(float(np.abs(a - b).max()) for a, b in pairs))
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.2 * errors[0]  # a hundred times as many leave a tenth, about


def test_updates_and_draws_by_a_map() -> None:
    model = GP(RBF, 0.3, solver=waves(), **HELD).fit(X[:60], Y[:60]).update(X[60:], Y[60:])
    whole = GP(RBF, 0.3, solver=waves(), **HELD).fit(X, Y)
    assert_same_process(model, whole)
    mean, cov = model.predict(Z, return_cov=True)
    draws = model.sample_y(Z, 20_000, random_state=0)
    assert_allclose(draws.mean(axis=1), mean, atol=5 * np.sqrt(cov.max() / 20_000))
    assert_allclose(np.cov(draws), cov, atol=0.05 * cov.max())
    parts = model.contributions(Z)
    assert_allclose(parts.prediction, mean, rtol=1e-8)


def test_likelihood_of_a_map_elsewhere() -> None:
    model = GP(RBF, 0.3, learn=False, solver=waves()).fit(X, Y)
    assert model.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_)
    theta = model.theta_ + 0.2
    other = GP(RBF.with_theta(theta[:-1]), 0.3 * np.exp(0.2), learn=False, solver=waves())
    value = other.fit(X, Y).log_marginal_likelihood_
    assert model.log_marginal_likelihood(theta) == pytest.approx(value, rel=1e-9)
    for unseeded in (S.RandomFeatures(), S.RandomFeatures(RBFSampler(n_components=29))):
        by_chance = GP(RBF, 0.3, learn=False, solver=unseeded).fit(X, Y)
        assert by_chance.log_marginal_likelihood() == pytest.approx(
            by_chance.log_marginal_likelihood_
        )
    with pytest.raises(DataError, match="have no derivatives"):
        model.log_marginal_likelihood_gradient()


def test_a_map_of_another_library() -> None:
    gamma = 1 / (2 * 2.0**2)
    sampler = S.RandomFeatures(RBFSampler(gamma=gamma, n_components=2_000, random_state=0))
    kernel = mc.RBF(length_scale=2.0)
    model = GP(kernel, 0.3, solver=sampler, **HELD).fit(X, Y)
    exact = GP(kernel, 0.3, solver=S.Cholesky(), **HELD).fit(X, Y)
    assert_allclose(model.predict(Z), exact.predict(Z), atol=0.3)
    assert model.kernel_error_ < 0.1
    assert GP(mc.RBF(0.3), 0.3, solver=sampler, **HELD).fit(X, Y).kernel_error_ > 0.5


# Memory, pickles and scikit-learn's checks ---------------------------------------------------


def test_features_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 5_000)
    with pytest.raises(MemoryForecastError, match="with 10 features"):
        GP(POLYNOMIAL, 0.3, solver=S.Primal(), **HELD).fit(X, Y)


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [(POLYNOMIAL, S.Primal()), (RBF, waves()), (RBF, S.Falkon(20, random_state=0))],
)
def test_a_fitted_model_is_pickled(kernel: mc.Kernel, solver: Any) -> None:
    model = GP(kernel, solver=solver).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(Z, True), model.predict(Z, True))
    assert again.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_)
    assert clone(model).fit(X, Y).log_marginal_likelihood_ == model.log_marginal_likelihood_


@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
@parametrize_with_checks(
    [
        GP(mc.Linear(), solver=S.Primal()),
        # A smooth function with noise: without it, a few waves magnify the last digits of a search.
        GP(mc.RBF(mc.Fixed(10.0)), solver=waves(30)),
        # All rows: landmarks that are drawn are others where rows are repeated.
        GP(mc.RBF(mc.Fixed(10.0)), solver=S.Falkon(1_000, tol=1e-12, random_state=0)),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
