"""The exact process: likelihood, posterior and updates, against textbook and brute force."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import NumericalWarning
from mercer.models.gaussian_process import exact as likelihood
from mercer.models.gaussian_process.exact import ExactObjective, NoiseObjective
from mercer.models.gaussian_process.targets import Noise
from model_samples import ARD, HELD, QUADRATIC, SMOOTH

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

RNG = np.random.default_rng(1)
X, Y, BOTH, Z, _, VARIANCES = SMOOTH
RBF = ARD


def exact_posterior(noise: Array) -> tuple[Array, Array, float]:
    """Mean, covariance and log marginal likelihood by the textbook, with 50 digits."""
    with mpmath.workdps(50):

        def kernel(a: Array, b: Array) -> Any:
            lengths = [mpmath.mpf(1), mpmath.mpf(2), mpmath.mpf(3)]

            def value(x: Array, z: Array) -> Any:
                r2 = sum(
                    ((mpmath.mpf(p) - q) / s) ** 2 for p, q, s in zip(x, z, lengths, strict=True)
                )
                return mpmath.mpf("1.7") * mpmath.exp(-r2 / 2)

            return mpmath.matrix([[value(x, z) for z in b] for x in a])

        rows = slice(0, 15)
        G = kernel(X[rows], X[rows]) + mpmath.diag([mpmath.mpf(v) for v in noise[rows]])
        inverse = G**-1
        y = mpmath.matrix([mpmath.mpf(v) for v in Y[rows]])
        cross = kernel(Z, X[rows])
        mean = cross * inverse * y
        cov = kernel(Z, Z) - cross * inverse * cross.T
        value = (
            -(y.T * inverse * y)[0] / 2
            - mpmath.log(mpmath.det(G)) / 2
            - 15 * mpmath.log(2 * mpmath.pi) / 2
        )
        return (
            np.array(mean.tolist(), dtype=float).ravel(),
            np.array(cov.tolist(), dtype=float),
            float(value),
        )


@pytest.mark.parametrize("noise", [np.full(40, 0.2), VARIANCES, np.full(40, 1e-8)])
def test_the_posterior_is_the_textbooks_in_extended_precision(noise: Array) -> None:
    mean, cov, value = exact_posterior(noise)
    model = GP(RBF, noise=noise[:15], **HELD).fit(X[:15], Y[:15])
    found, found_cov = model.predict(Z, return_cov=True)
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found_cov, cov, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.predict(Z, return_std=True)[1] ** 2, np.diag(cov), atol=1e-8)
    assert model.log_marginal_likelihood_ == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "noise", "weights", "targets"),
    [
        (RBF, 0.3, None, Y),
        (RBF, 0.3, None, BOTH / [1, 30]),
        (1.3 * mc.Matern(0.8) + mc.Linear() * 0.2, 0.2, None, Y),
        (RBF, mc.Fixed(0.3), None, Y),
        (RBF, VARIANCES, None, Y),
        (RBF, 0.3, RNG.uniform(0.5, 3, size=40), Y),
    ],
)
@pytest.mark.parametrize("criterion", ["marginal_likelihood", "loo"])
def test_gradients_are_finite_differences(
    kernel: mc.Kernel, noise: Any, weights: Any, targets: Array, criterion: str
) -> None:
    model = GP(kernel, noise=noise, **HELD).fit(X, targets, weights)
    function = partial(model._objective.value_and_gradient, criterion=criterion)
    theta = model.theta_ + 0.1
    _, gradient = function(theta)
    numerical = approx_fprime(theta, lambda t: function(t)[0], 1e-6)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-4, atol=1e-3)


def test_variances_are_never_negative_and_computed_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = GP(1e3 * mc.RBF(5.0), noise=1e-9, **HELD).fit(X, Y)
    _, std = model.predict(X, return_std=True)
    assert np.all(std >= 0)
    _, cov = model.predict(X, return_cov=True)
    assert np.all(np.diag(cov) >= 0)
    monkeypatch.setattr("mercer.models.gaussian_process.exact._BLOCK", 40 * 7)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], std, atol=1e-6)


@pytest.mark.parametrize(("targets", "noise"), [(Y, 0.3), (BOTH, 0.3), (Y, VARIANCES)])
def test_leave_one_out_is_refitting_without_each_row(targets: Array, noise: Any) -> None:
    model = GP(RBF, noise=noise, **HELD).fit(X, targets)
    density = 0.0
    for i in range(len(X)):
        rows = np.arange(len(X)) != i
        own = noise if np.ndim(noise) == 0 else noise[i]
        rest = noise if np.ndim(noise) == 0 else noise[rows]
        without = GP(RBF, noise=rest, **HELD).fit(X[rows], targets[rows])
        mean, std = without.predict(X[i : i + 1], return_std=True)
        variance = std**2 + own
        np.testing.assert_allclose(model.loo_predictions_.mean[i], mean[0], rtol=1e-8)
        np.testing.assert_allclose(model.loo_predictions_.variance[i], variance[0], rtol=1e-8)
        density -= 0.5 * np.sum(np.log(2 * np.pi * variance) + (targets[i] - mean) ** 2 / variance)
    assert model.loo_log_density_ == pytest.approx(density, rel=1e-9)


@pytest.mark.parametrize(
    ("noise", "targets"), [(0.3, Y), (0.3, BOTH), (VARIANCES, Y), (mc.Fixed(0.2), Y)]
)
def test_an_update_is_a_fit_of_all_rows(noise: Any, targets: Array) -> None:
    known = isinstance(noise, np.ndarray)
    parts = [slice(0, 25), slice(25, 26), slice(26, 40)]
    model = GP(RBF, noise=noise[parts[0]] if known else noise, **HELD).fit(X[:25], targets[:25])
    _ = model.loo_predictions_
    for rows in parts[1:]:
        model.update(X[rows], targets[rows], noise[rows] if known else None)
    whole = GP(RBF, noise=noise, **HELD).fit(X, targets)
    np.testing.assert_allclose(model.dual_coef_, whole.dual_coef_, rtol=1e-8, atol=1e-10)
    assert model.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_)
    for a, b in zip(
        model.predict(Z, return_cov=True), whole.predict(Z, return_cov=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.loo_predictions_.mean, whole.loo_predictions_.mean, rtol=1e-8)
    value, gradient = model.log_marginal_likelihood_gradient()
    expected_value, expected_gradient = whole.log_marginal_likelihood_gradient()
    assert value == pytest.approx(expected_value)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "new", [X[:3], X[:3] + 1e-9, np.vstack([Z, Z])], ids=["old", "almost", "twice"]
)
@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.filterwarnings("ignore:.*numerically singular:mercer.exceptions.NumericalWarning")
def test_an_update_that_needs_jitter_is_a_fit_of_all_rows(new: Array, singular: bool) -> None:
    old = np.vstack([X, X[:2]]) if singular else X
    y, further = np.sin(old @ [1.0, 2, 3]), np.sin(new @ [1.0, 2, 3])
    # The mean diagonal, of which jitter is a fraction, changes with the rows.
    kernel = RBF + 0.3 * mc.Linear()
    model = GP(kernel, noise=0, **HELD).fit(old, y).update(new, further)
    whole = GP(kernel, noise=0, **HELD).fit(np.vstack([old, new]), np.append(y, further))
    assert model.jitter_ == whole.jitter_ > 0
    assert model.log_marginal_likelihood_ == pytest.approx(
        whole.log_marginal_likelihood_, rel=1e-12
    )
    for a, b in zip(
        model.predict(Z, return_std=True), whole.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_singular_matrix_gets_jitter_and_one_warning() -> None:
    doubled = np.vstack([X, X])
    with pytest.warns(NumericalWarning, match="rows are duplicated.*raise noise") as found:
        model = GP(RBF, noise=0, **HELD).fit(doubled, np.append(Y, Y))
    assert len(found) == 1
    assert model.jitter_ > 0
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-3)


@pytest.mark.parametrize("criterion", ["marginal_likelihood", "loo"])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_sketched_first(
    criterion: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    many = rng.normal(size=(240, 2))
    y = np.sin(2 * many[:, 0]) * np.cos(many[:, 1]) + 0.2 * rng.normal(size=240)
    weights = rng.integers(1, 4, size=240) if weighted else None
    model = GP(1.0 * mc.RBF([1.0, 1.0]), mc.Fixed(0.04), criterion=criterion)
    plain = clone(model).fit(many, y, weights)
    monkeypatch.setattr(likelihood, "_PILOT_FROM", 200)
    sketched = clone(model).fit(many, y, weights)
    assert sketched.converged_
    assert sketched.log_marginal_likelihood_ == pytest.approx(
        plain.log_marginal_likelihood_, abs=1e-4
    )
    np.testing.assert_allclose(sketched.theta_, plain.theta_, atol=2e-2)


# One eigendecomposition for every noise -----------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"criterion": "loo"}, {"noise": mc.Fixed(0.0)}])
@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_the_spectrum_is_exact(settings: dict[str, Any]) -> None:
    model = GP(
        1.7 * mc.RBF(length_scale=2.0) + 0.1 * mc.White(), solver=S.Spectral(), **settings
    ).fit(QUADRATIC.X, QUADRATIC.Y)
    exact = GP(
        1.7 * mc.RBF(length_scale=2.0) + 0.1 * mc.White(), solver=S.Cholesky(), **settings
    ).fit(QUADRATIC.X, QUADRATIC.Y)
    assert (model.solver_, model.search_solver_) == (S.Spectral(), S.Spectral())
    assert_allclose(model.theta_, exact.theta_)
    assert_allclose(model.predict(QUADRATIC.Z, True), exact.predict(QUADRATIC.Z, True))


@pytest.mark.parametrize(
    "weights", [None, QUADRATIC.W, QUADRATIC.W + 0.5], ids=["plain", "counts", "weighted"]
)
@pytest.mark.parametrize("y", [QUADRATIC.Y, QUADRATIC.BOTH], ids=["one", "two"])
def test_one_decomposition_serves_every_noise(
    weights: Array | None, y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = mc.RBF(mc.Fixed(1.5))
    exact = GP(kernel, solver=S.Cholesky()).fit(QUADRATIC.X, y, weights)

    def refused(*_: Any) -> Any:
        raise AssertionError("the matrix was factorised for a step")

    monkeypatch.setattr(ExactObjective, "value_and_gradient", refused)
    model = GP(kernel, solver=S.Spectral()).fit(QUADRATIC.X, y, weights)
    assert_allclose(model.theta_, exact.theta_, atol=1e-6)
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_)
    assert_allclose(model.predict(QUADRATIC.Z, True), exact.predict(QUADRATIC.Z, True), rtol=1e-5)
    assert model.gradient_norm_ < 1e-4
    monkeypatch.undo()
    noise = Noise(0.4, learned=True, weights=None if weights is None else QUADRATIC.W + 0.5)
    data = ExactObjective(
        kernel, kernel.prepare(QUADRATIC.X), y.reshape(len(QUADRATIC.X), -1) / 50, noise
    )
    for at in (-3.0, 0.5):
        theta = np.array([at])
        found = NoiseObjective.of(data).value_and_gradient(theta)
        wanted = data.value_and_gradient(theta)
        assert found[0] == pytest.approx(wanted[0], rel=1e-12)
        assert_allclose(found[1], wanted[1], rtol=1e-9)


# An unknown constant mean ------------------------------------------------------------------------


def kriging(
    kernel: mc.Kernel, rows: Array, y: Array, noise: Array, fresh: Array
) -> tuple[float, Array, Array]:
    """Constant, mean and covariance by generalised least squares, with dense matrices."""
    G, cross = kernel(rows) + np.diag(noise), kernel(fresh, rows)
    ones = np.linalg.solve(G, np.ones(len(rows)))
    constant = float(ones @ y / ones.sum())
    missed = 1 - cross @ ones
    cov = kernel(fresh) - cross @ np.linalg.solve(G, cross.T)
    cov += np.outer(missed, missed) / ones.sum()
    return constant, constant + cross @ np.linalg.solve(G, y - constant), cov


@pytest.mark.parametrize("noise", [np.full(len(X), 0.3), VARIANCES], ids=["shared", "known"])
@pytest.mark.parametrize("solver", [mc.solvers.Cholesky(), mc.solvers.Spectral()], ids=repr)
def test_an_unknown_mean_is_estimated_by_generalised_least_squares(
    noise: Array, solver: Any
) -> None:
    given = 0.3 if noise[0] == noise[-1] else noise
    settings = {"noise": given, "learn": False, "normalize_y": False, "solver": solver}
    model = GP(ARD, **settings).fit(X, Y)
    constant, mean, cov = kriging(ARD, X, Y, noise, Z)
    assert model.intercept_ == pytest.approx(constant)
    np.testing.assert_allclose(model.predict(Z), mean, rtol=1e-9)
    np.testing.assert_allclose(model.predict(Z, return_cov=True)[1], cov, atol=1e-9)
    np.testing.assert_allclose(model.predict(Z, return_std=True)[1] ** 2, cov.diagonal(), rtol=1e-8)
    left_out = model.loo_predictions_
    for i in range(0, len(X), 7):
        rest = np.arange(len(X)) != i
        _, alone, spread = kriging(ARD, X[rest], Y[rest], noise[rest], X[[i]])
        assert left_out.mean[i] == pytest.approx(alone[0])
        assert left_out.variance[i] == pytest.approx(spread[0, 0] + noise[i])
    theta = model.theta_ + 0.1
    value, gradient = model.log_marginal_likelihood_gradient(theta)
    assert value == pytest.approx(model.log_marginal_likelihood(theta))
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + sign * step) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_rows_that_come_later_move_an_unknown_mean() -> None:
    settings = {"noise": 0.3, "learn": False, "normalize_y": False}
    model = GP(ARD, **settings).fit(X[:25], Y[:25]).update(X[25:], Y[25:])
    whole = GP(ARD, **settings).fit(X, Y)
    assert model.intercept_ == pytest.approx(whole.intercept_)
    assert model.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_)
    for mine, other in zip(
        model.predict(Z, return_std=True), whole.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-8)


def test_units_and_origin_of_the_targets_do_not_matter() -> None:
    scale = float(np.std(Y))
    plain = GP(ARD, noise=0.3, learn=False, normalize_y=False).fit(X, Y)
    same = GP((1 / scale**2) * ARD, noise=0.3, learn=False).fit(X, Y)
    moved = GP(ARD, noise=0.3, learn=False, normalize_y=False).fit(X, Y + 1e4)
    for other, shift in ((same, 0.0), (moved, 1e4)):
        np.testing.assert_allclose(other.predict(Z) - shift, plain.predict(Z), rtol=1e-8)
        assert other.log_marginal_likelihood_ == pytest.approx(plain.log_marginal_likelihood_)
    zero = GP(ARD, noise=0.3, **HELD).fit(X, Y - Y.mean())
    sample = GP(ARD, noise=0.3, learn=False, normalize_y=False, mean="sample").fit(X, Y)
    assert (zero.intercept_, sample.intercept_) == (0.0, pytest.approx(Y.mean()))
    np.testing.assert_allclose(sample.predict(Z), zero.predict(Z) + Y.mean(), rtol=1e-9)


def test_functions_drawn_with_an_unknown_mean_have_its_posterior() -> None:
    settings = {"noise": 0.3, "learn": False, "normalize_y": False}
    model = GP(ARD, **settings).fit(X, BOTH)
    far = np.vstack([Z[:3], 100 + Z[:2]])
    number = 20_000
    draws = model.sample_y(far, number, random_state=0)
    mean, cov = model.predict(far, return_cov=True)
    for target in range(2):
        found, wanted = draws[:, target], cov[..., target]
        # Five standard errors: a false alarm in two million for each of the thirty numbers.
        error = np.sqrt(wanted.diagonal() / number)
        assert np.all(np.abs(found.mean(axis=1) - mean[:, target]) < 5 * error)
        spread = np.sqrt(wanted**2 + np.outer(wanted.diagonal(), wanted.diagonal()))
        assert np.all(np.abs(np.cov(found) - wanted) < 5 * spread / np.sqrt(number))


def test_weights_are_copies_also_of_an_unknown_mean() -> None:
    copies = np.arange(len(X)) % 3
    settings = {"noise": 0.3, "learn": False}
    weighted = GP(ARD, **settings).fit(X, Y, copies)
    repeated = GP(ARD, **settings).fit(np.repeat(X, copies, axis=0), np.repeat(Y, copies))
    assert weighted.intercept_ == pytest.approx(repeated.intercept_)
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_)
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), rtol=1e-8)


def test_learning_only_the_noise_by_eigenvalues_with_an_unknown_mean() -> None:
    held = mc.RBF(mc.Fixed(1.0))
    by_spectrum, by_factor = (
        GP(held, solver=solver).fit(X, BOTH, np.arange(len(X)) % 3 + 0.5)
        for solver in (mc.solvers.Spectral(), mc.solvers.Cholesky())
    )
    np.testing.assert_allclose(by_spectrum.noise_, by_factor.noise_, rtol=1e-4)
    value = by_factor.log_marginal_likelihood_
    assert by_spectrum.log_marginal_likelihood_ == pytest.approx(value, abs=1e-6)


def test_a_variance_is_never_zero() -> None:
    # A straight line without noise leaves no variance between the rows, but rounding.
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(70, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # bounds
        model = GP(1.0 * mc.RBF(1.0)).fit(rows, rows @ [1.0, 2.0])
    fresh = rng.uniform(size=(200, 2))
    _, std = model.predict(fresh, return_std=True)
    assert np.all(std > 0)
    covariance = model.predict(fresh, return_cov=True)[1]
    assert np.all(covariance.diagonal() > 0)
