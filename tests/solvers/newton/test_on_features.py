"""Machines on explicit features against the whole matrix, peers, and conditions for a minimum."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NoFeatureMapError,
    NumericalWarning,
    ParameterError,
)
from mercer.solvers import kernel_features
from mercer.solvers.newton import on_features
from mercer.solvers.newton.directions import InexactNewton

Array = NDArray[np.floating[Any]]
S = mc.solvers

RNG = np.random.default_rng(0)
N = 160
X = RNG.normal(size=(N, 3))
F = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
Y = F + 0.3 * RNG.standard_t(2, size=N) + 3
COUNTS = RNG.poisson(np.exp(F / 2)).astype(float)
BINARY = np.where(F + 0.5 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(F + 0.5 * RNG.normal(size=N), [-0.7, 0.7])
W = RNG.uniform(0.2, 3.0, size=N)
W[[0, 7, 50, N - 1]] = 0
Z = RNG.normal(size=(17, 3))
RBF = mc.RBF(length_scale=1.5)
WORDS = ["".join(RNG.choice(list("abc"), size=12)) for _ in range(N)]
OTHERS = ["".join(RNG.choice(list("abcd"), size=9)) for _ in range(17)]

KERNELS = [
    (mc.Linear(), X, Z),
    (mc.Polynomial(2), X, Z),
    (mc.Polynomial(2).on([0, 1]) + 2.0 * mc.Linear(), X, Z),
    (mc.Spectrum(2), WORDS, OTHERS),
    (mc.Spectrum(4), WORDS, OTHERS),
]
REGRESSION = [("squared", Y), ("huber", Y), ("poisson", COUNTS), ("gamma", COUNTS + 0.5)]
CLASSES = [
    ("logistic", BINARY),
    ("squared_hinge", BINARY),
    ("exponential", BINARY),
    ("logistic", THREE),
    ("squared_hinge", THREE),
]


def name(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return None if isinstance(value, np.ndarray | list) else type(value).__name__


def values(model: Any, points: Any) -> Array:
    return np.asarray(model._function_values(points))


def close(found: Array, wanted: Array, tol: float = 1e-10) -> None:
    assert_allclose(found, wanted, rtol=tol, atol=tol * np.abs(wanted).max())


def same_functions(found: Any, exact: Any, points: Any, tol: float = 1e-10) -> None:
    assert found.converged_
    assert exact.converged_
    close(values(found, points), values(exact, points), tol)
    close(found.dual_coef_, exact.dual_coef_, tol)
    close(np.asarray(found.intercept_), np.asarray(exact.intercept_), tol)


def fourier(n_components: int = 60, **settings: Any) -> S.RandomFeatures:
    return S.RandomFeatures(mc.RandomFourier(None, n_components, random_state=0, **settings))


def machine(loss: Any, y: Any) -> Any:
    classes = np.asarray(y).dtype.kind in "Ui"
    return (mc.KernelMachineClassifier if classes else mc.KernelMachineRegressor)(loss=loss)


# The kernel's own features ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit_intercept", "weights"), [(True, W), (False, None)], ids=["weighted", "plain"]
)
@pytest.mark.parametrize(("loss", "y"), [*REGRESSION, *CLASSES], ids=name)
@pytest.mark.parametrize(("kernel", "rows", "points"), KERNELS, ids=name)
def test_features_give_what_the_whole_matrix_gives(
    kernel: Any, rows: Any, points: Any, loss: str, y: Any, fit_intercept: bool, weights: Any
) -> None:
    """The function, the coefficients of rows and the constants; words may have new letters."""
    settings = {"kernel": kernel, "alpha": 0.3, "fit_intercept": fit_intercept, "tol": 1e-13}
    model = machine(loss, y).set_params(**settings)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(rows, y, weights)
    found = clone(model).set_params(solver=S.Primal()).fit(rows, y, weights)
    same_functions(found, exact, points)
    assert len(found.points_) == N
    assert found.residual_ < 1e-10
    assert not hasattr(found, "trace_error_")
    if weights is not None:
        assert_array_equal(found.dual_coef_[W == 0], 0)


class LogCosh(mc.losses.RegressionLoss):
    """A loss of a user's own, without a second derivative."""

    def value(self, y: Any, f: Any) -> Array:
        return np.asarray(np.logaddexp(f - y, y - f) - np.log(2))

    def derivative(self, y: Any, f: Any) -> Array:
        return np.asarray(np.tanh(f - y))


def test_a_loss_of_ones_own() -> None:
    model = mc.KernelMachineRegressor(mc.Polynomial(2), LogCosh(), 0.3, tol=1e-12)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, Y, W)
    same_functions(model.set_params(solver=S.Primal()).fit(X, Y, W), exact, Z, 1e-8)


@pytest.mark.parametrize("alpha", [1e-6, 1e3])
@pytest.mark.parametrize(("loss", "y"), CLASSES, ids=name)
def test_small_and_large_alphas(loss: Any, y: Any, alpha: float) -> None:
    model = mc.KernelMachineClassifier(mc.Polynomial(2), loss, alpha, tol=1e-11)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, y)
    found = model.set_params(solver=S.Primal()).fit(X, y)
    assert found.converged_
    close(values(found, Z), values(exact, Z), 1e-6)


@pytest.mark.parametrize("penalty", [mc.penalties.Norm(), mc.penalties.Power(exponent=3.0)])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_any_penalty_of_the_norm(penalty: Any, y: Any) -> None:
    model = mc.KernelLogisticRegression(mc.Polynomial(2), 0.5, penalty=penalty, tol=1e-10)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, y)
    found = model.set_params(solver=S.Primal()).fit(X, y)
    assert found.alpha_ == pytest.approx(exact.alpha_, rel=1e-6)
    close(values(found, Z), values(exact, Z), 1e-6)


def test_a_penalty_may_leave_constants_alone() -> None:
    model = mc.KernelMachineRegressor(mc.Linear(), "huber", 1e4, penalty=mc.penalties.Norm())
    found = clone(model).set_params(solver=S.Primal()).fit(X + 5, Y)
    exact = model.set_params(solver=S.Cholesky()).fit(X + 5, Y)
    assert np.isinf(found.alpha_)
    assert_array_equal(found.dual_coef_, 0)
    assert found.intercept_ == pytest.approx(exact.intercept_, rel=1e-7)
    assert found.predict(Z) == pytest.approx(exact.intercept_, rel=1e-7)


# Peers and definitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_a_linear_kernel_is_logistic_regression(y: Any, weights: Any) -> None:
    peer = LogisticRegression(C=1 / 0.2, solver="newton-cholesky", tol=1e-12).fit(X, y, weights)
    model = mc.KernelLogisticRegression(mc.Linear(), 0.2, solver=S.Primal()).fit(X, y, weights)
    assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), rtol=1e-7)
    found = model.primal_coef()
    wanted = peer.coef_.T
    assert_allclose(found.values, wanted if wanted.shape[1] > 1 else wanted[:, 0], atol=1e-7)
    close(np.asarray(found.intercept), np.squeeze(peer.intercept_), 1e-6)
    assert len(found.names) == 3


def test_a_linear_kernel_is_poisson_regression() -> None:
    peer = PoissonRegressor(alpha=0.3 / N, tol=1e-12, solver="newton-cholesky").fit(X, COUNTS)
    model = mc.KernelMachineRegressor(mc.Linear(), "poisson", 0.3, solver=S.Primal()).fit(X, COUNTS)
    assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-7)


@pytest.mark.parametrize("weights", [np.ones(N), W], ids=["plain", "weighted"])
def test_conditions_for_a_minimum(weights: Array) -> None:
    """Of the multinomial likelihood in features of another library."""
    scale = np.array([1, *[np.sqrt(2)] * 3, 1, *[np.sqrt(2)] * 2, 1, np.sqrt(2), 1])
    phi = scale * PolynomialFeatures(2).fit_transform(X)  # (1 + x'z)^2
    assert_allclose(phi @ phi.T, (1 + X @ X.T) ** 2, atol=1e-12)
    model = mc.KernelLogisticRegression(mc.Polynomial(2), 0.4, tol=1e-12, solver=S.Primal())
    model.fit(X, THREE, weights)
    slopes = weights[:, None] * (softmax(model.decision_function(X), axis=1) - np.eye(3)[THREE])
    assert_allclose(slopes.sum(axis=0), 0, atol=1e-9)
    assert_allclose(model.dual_coef_, -slopes / 0.4, atol=1e-9)
    f = phi @ (phi.T @ model.dual_coef_) + model.intercept_
    close(f, model.decision_function(X), 1e-9)


def test_what_is_reported() -> None:
    """The gap is that of the best function with the same constant, at most; here at one step."""
    alpha, sign = 0.4, np.where(BINARY == "yes", 1, -1)
    model = mc.KernelLogisticRegression(mc.Linear(), alpha, False, solver=S.Primal(), max_iter=1)
    with pytest.warns(NumericalWarning, match="stopped after 1 steps"):
        short = clone(model).fit(X, BINARY)
    best = model.set_params(max_iter=100).fit(X, BINARY)

    def objective(fitted: Any) -> float:
        v = fitted.primal_coef().values
        return float(np.logaddexp(0, -sign * (X @ v)).sum() + alpha / 2 * v @ v)

    assert 0 < objective(short) - objective(best) <= short.dual_gap_
    assert short.residual_ > 1e-8 >= best.residual_
    assert not short.converged_
    v = short.primal_coef().values
    gradient = X.T @ (-sign / (1 + np.exp(sign * (X @ v)))) + alpha * v
    assert short.gradient_norm_ == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


def test_weights_are_rows_repeated_and_zero_is_a_row_removed() -> None:
    weights = RNG.integers(0, 3, size=N)
    model = mc.KernelLogisticRegression(mc.Polynomial(2), 0.3, solver=S.Primal(), tol=1e-12)
    found = clone(model).fit(X, THREE, weights)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(THREE, weights))
    close(values(found, Z), values(repeated, Z))
    assert_array_equal(found.dual_coef_[weights == 0], 0)
    huge = clone(model).set_params(alpha=0.3e40).fit(X, THREE, weights * 1e40)
    close(values(huge, Z), values(found, Z))
    assert huge.dual_gap_ < 1e-10 * 1e40


# Features of a map --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit_intercept", "weights"), [(True, W), (False, None)], ids=["weighted", "plain"]
)
@pytest.mark.parametrize(("loss", "y"), [*REGRESSION, *CLASSES], ids=name)
def test_features_of_a_map_have_a_kernel(
    loss: str, y: Any, fit_intercept: bool, weights: Any
) -> None:
    settings = {"kernel": RBF, "alpha": 0.3, "fit_intercept": fit_intercept, "tol": 1e-12}
    model = machine(loss, y).set_params(**settings)
    found = clone(model).set_params(solver=fourier()).fit(X, y, weights)
    kernel = mc.Linear().warp(found.feature_map_.transform)
    exact = clone(model).set_params(kernel=kernel, solver=S.Cholesky()).fit(X, y, weights)
    same_functions(found, exact, Z, 1e-8)
    some = X if weights is None else X[W > 0]
    phi = found.feature_map_.transform(some)
    wanted = np.linalg.norm(phi @ phi.T - RBF(some)) / np.linalg.norm(RBF(some))
    assert found.kernel_error_ == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize(("loss", "y"), [("logistic", THREE), ("huber", Y)], ids=name)
def test_more_features_come_nearer_to_the_exact_answer(loss: str, y: Any) -> None:
    """Means over ten seeds; errors of independent draws fall like one over the root of m."""
    model = machine(loss, y).set_params(kernel=RBF, alpha=0.5)
    exact = values(clone(model).fit(X, y), Z)

    def distance(m: int) -> float:
        maps = [mc.RandomFourier(None, m, method="iid", random_state=s) for s in range(10)]
        fits = [clone(model).set_params(solver=S.RandomFeatures(map_)).fit(X, y) for map_ in maps]
        return float(np.mean([np.abs(values(fit, Z) - exact).mean() for fit in fits]))

    few, more, many = distance(25), distance(200), distance(1600)
    assert 1.5 < few / more < 6
    assert 1.5 < more / many < 6


def test_a_map_that_is_left_out() -> None:
    model = mc.KernelLogisticRegression(RBF, solver=S.RandomFeatures()).fit(X, BINARY)
    assert model.feature_map_.n_components == 1000
    assert model.feature_map_.kernel_ == RBF
    assert model.kernel_error_ < 0.1


def test_maps_are_set_by_name_and_searched() -> None:
    model = mc.KernelLogisticRegression(RBF, solver=fourier(20))
    model.set_params(solver__map__n_components=40).fit(X, BINARY)
    assert len(model.primal_coef()) == model.feature_map_.n_components == 40
    search = GridSearchCV(model, {"solver__map__n_components": [2, 80]}, cv=3).fit(X, BINARY)
    assert search.best_params_ == {"solver__map__n_components": 80}


# Ways to the same result --------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "rows", "points"), KERNELS, ids=name)
def test_features_may_be_made_again_in_every_pass(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, rows: Any, points: Any
) -> None:
    """In blocks of 256 rows; sparse ones are held in any case."""
    many, labels = [*rows, *rows], np.tile(THREE, 2)
    many = many if isinstance(rows, list) else np.array(many)
    model = mc.KernelLogisticRegression(kernel, 0.1, solver=S.Primal(), tol=1e-12)
    held = clone(model).fit(many, labels)
    monkeypatch.setattr("mercer.solvers.newton.spans._BLOCK_BYTES", 1)
    monkeypatch.setattr(kernel_features, "_IN_MEMORY", 0)
    same_functions(clone(model).fit(many, labels), held, points)


@pytest.mark.parametrize("tied", [4000, 5], ids=["tied", "loose"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize(("kernel", "rows", "points"), KERNELS, ids=name)
def test_many_unknowns_are_found_by_iterations(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, rows: Any, points: Any, weights: Any, tied: int
) -> None:
    """Also with a preconditioner that takes each class alone; no constant is common to all."""
    model = mc.KernelLogisticRegression(kernel, 0.1, solver=S.Primal(), tol=1e-12)
    exact = clone(model).fit(rows, THREE, weights)
    monkeypatch.setattr(on_features, "UNKNOWNS", 5)
    monkeypatch.setattr("mercer.solvers.newton.directions._COUPLED", tied)
    by_iterations, steps = InexactNewton.__call__, []

    def counted(*arguments: Any) -> Any:
        steps.append(arguments)
        return by_iterations(*arguments)

    monkeypatch.setattr(InexactNewton, "__call__", counted)
    found = clone(model).fit(rows, THREE, weights)
    assert steps
    same_functions(found, exact, points, 1e-9)


def test_samples_of_rows_lead_to_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelLogisticRegression(mc.Polynomial(2), 1e-4, solver=S.Primal(), tol=1e-11)
    plain = clone(model).fit(X, BINARY, W)
    monkeypatch.setattr("mercer.solvers.newton.span._FEWEST", 10)
    monkeypatch.setattr("mercer.solvers.newton.span._ROWS_PER_COORDINATE", 0)
    sampled = clone(model).fit(X, BINARY, W)
    assert sampled.n_iter_ != plain.n_iter_
    close(values(sampled, Z), values(plain, Z), 1e-8)


def test_features_far_from_zero_keep_their_digits() -> None:
    """An intercept takes the mean out: a shift of X changes a constant."""
    model = mc.KernelLogisticRegression(mc.Linear(), 0.1, solver=S.Primal())
    near, far = clone(model).fit(X, THREE), clone(model).fit(X + 1e6, THREE)
    assert far.converged_
    assert_allclose(far.primal_coef().values, near.primal_coef().values, atol=1e-8)
    assert_allclose(far.predict_proba(Z + 1e6), near.predict_proba(Z), atol=1e-8)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_the_data(scale: float) -> None:
    settings: dict[str, Any] = {"solver": S.Primal(), "tol": 1e-11}
    plain = mc.KernelHuberRegressor(mc.Linear(), alpha=0.1, **settings).fit(X, Y)
    other = mc.KernelHuberRegressor(mc.Linear(), alpha=0.1 * scale**2, **settings).fit(scale * X, Y)
    assert other.converged_
    close(other.predict(scale * Z), plain.predict(Z), 1e-8)


# Rows in blocks -----------------------------------------------------------------------------------


def blocks(y: Any, weights: Any = None, rows: Any = X) -> Iterator[Any]:
    """Blocks of a row, of few, of many and of none, once."""
    for first, last in pairwise([0, 1, 20, 90, 90, N]):
        part = slice(first, last)
        block = (rows[part], y[part])
        yield block if weights is None else (*block, weights[part])


ON_BLOCKS = [
    (mc.Linear(), S.Primal()),
    (mc.Polynomial(2), S.Primal()),
    (RBF, fourier(30)),
    (mc.RBF("scale"), fourier(30)),
]


@pytest.mark.parametrize(
    ("loss", "y", "weights"),
    [("logistic", BINARY, W), ("logistic", THREE, None), ("poisson", COUNTS, W)],
    ids=name,
)
@pytest.mark.parametrize(("kernel", "solver"), ON_BLOCKS, ids=name)
def test_blocks_and_dask_give_what_arrays_give(
    kernel: Any, solver: Any, loss: str, y: Any, weights: Any
) -> None:
    model = machine(loss, y).set_params(kernel=kernel, alpha=0.3, tol=1e-12, solver=solver)
    wanted = clone(model).fit(X, y, weights)
    streamed = clone(model).fit(blocks(y, weights))
    chunks = [da.from_array(part, chunks=50) for part in (X, y)]
    lazy = clone(model).fit(*chunks, None if weights is None else da.from_array(weights, chunks=70))
    for found in (streamed, lazy):
        assert found.solver_ == solver
        close(values(found, Z), values(wanted, Z), 1e-8)
        assert found.primal_coef().values.shape == wanted.primal_coef().values.shape
        assert not hasattr(found, "dual_coef_")  # rows that come in blocks are not kept
        again = pickle.loads(pickle.dumps(found))
        assert_array_equal(values(again, Z), values(found, Z))
    predicted = lazy.predict(chunks[0])
    assert isinstance(predicted, da.Array)
    if np.asarray(y).dtype.kind != "f":
        assert_array_equal(predicted.compute(), lazy.predict(X))
    else:
        assert_allclose(predicted.compute(), lazy.predict(X), rtol=1e-12)


def test_blocks_of_frames_and_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = mc.Polynomial(2).on("a", "c")
    model = mc.KernelLogisticRegression(kernel, 0.3, tol=1e-12)
    wanted = clone(model).set_params(solver=S.Cholesky()).fit(frame, BINARY)
    found = clone(model).fit(blocks(BINARY, rows=frame))
    assert repr(found.solver_) == "Primal()"
    close(values(found, frame), values(wanted, frame), 1e-8)
    words = mc.KernelLogisticRegression(mc.Spectrum(2), solver=S.Primal())
    with pytest.raises(DataError, match=r"depends on the rows.*NystromSolver"):
        words.fit(blocks(BINARY, rows=WORDS))
    foreign = S.RandomFeatures(RBFSampler(n_components=20))
    with pytest.raises(ParameterError, match="cannot be fitted to rows that come in blocks"):
        mc.KernelLogisticRegression(RBF, solver=foreign).fit(blocks(BINARY))


# Kinds of data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "solver"), [(mc.Polynomial(2), S.Primal()), (RBF, fourier())], ids=name
)
def test_single_precision(kernel: Any, solver: Any) -> None:
    model = mc.KernelLogisticRegression(kernel, 0.1, solver=solver)
    double, single = clone(model).fit(X, THREE), clone(model).fit(X.astype(np.float32), THREE)
    assert single.converged_
    found = single.predict_proba(Z.astype(np.float32))
    assert_allclose(found, double.predict_proba(Z), atol=1e-4)
    assert single.decision_function(Z.astype(np.float32)).dtype == np.float32


def test_sparse_rows_and_frames() -> None:
    model = mc.KernelLogisticRegression(mc.Linear(), 0.1, solver=S.Primal(), tol=1e-12)
    dense = clone(model).fit(X, THREE, W)
    sparse = clone(model).fit(sp.csr_array(X), THREE, W)
    close(values(sparse, sp.csr_array(Z)), values(dense, Z))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = clone(model).set_params(kernel=mc.Linear().on("a", "b", "c")).fit(frame, THREE, W)
    close(values(by_name, frame), values(dense, X))


def test_strings_of_many_features() -> None:
    """More features than rows, nearly all of them zero."""
    model = mc.KernelLogisticRegression(mc.Spectrum(5), 0.1, solver=S.Primal(), tol=1e-12)
    found = clone(model).fit(WORDS, BINARY, W)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(WORDS, BINARY, W)
    assert len(found.primal_coef()) > N
    same_functions(found, exact, OTHERS)
    assert found.primal_coef()["abcab"] == pytest.approx(exact.primal_coef()["abcab"], abs=1e-9)


@pytest.mark.parametrize(
    ("kernel", "solver"), [(mc.Polynomial(2), S.Primal()), (RBF, fourier())], ids=name
)
def test_pickles_clones_and_explains(kernel: Any, solver: Any) -> None:
    model = mc.KernelLogisticRegression(kernel, solver=solver, tol=1e-12).fit(X, THREE)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
    assert clone(model).solver == solver
    explained = model.contributions(Z, top=3, output=1)
    close(explained.prediction, model.decision_function(Z)[:, 1], 1e-8)
    phi = model._function.features
    products = phi(mc.Points(Z)) @ phi(mc.Points(X)).T
    assert_allclose(
        explained.kernel_values, np.take_along_axis(products, explained.indices, axis=1), atol=1e-9
    )


def test_coefficients_of_features_from_the_whole_matrix() -> None:
    settings: dict[str, Any] = {"tol": 1e-12, "alpha": 0.2}
    by_rows, by_features = (
        mc.KernelLogisticRegression(mc.Polynomial(2), solver=solver, **settings).fit(X, THREE)
        for solver in (S.Cholesky(), S.Primal())
    )
    found, wanted = by_features.primal_coef(), by_rows.primal_coef()
    assert found.names == wanted.names
    close(found.values, wanted.values, 1e-9)
    by_features.set_params(solver=S.Cholesky()).fit(X, THREE)  # nothing is left of the features
    assert_array_equal(values(by_features, Z), values(by_rows, Z))


@pytest.mark.parametrize(
    ("kernel", "solver"), [(mc.Linear(), S.Primal()), (RBF, fourier())], ids=name
)
def test_degenerate_data(kernel: Any, solver: Any) -> None:
    one = mc.KernelHuberRegressor(kernel, solver=solver).fit(X[:1], [3.0])
    assert one.predict(Z) == pytest.approx(3.0)
    flat = mc.KernelHuberRegressor(kernel, solver=solver).fit(X, np.full(N, 3.0))
    assert flat.predict(Z) == pytest.approx(3.0)
    copies = mc.KernelLogisticRegression(kernel, solver=solver).fit(np.ones((10, 3)), [0, 1] * 5)
    assert copies.converged_
    assert_allclose(copies.predict_proba(np.ones((1, 3))), 0.5)
    zeros = mc.KernelMachineRegressor(kernel, "poisson", solver=solver)
    zeros.fit(np.zeros((N, 3)), COUNTS)
    assert_allclose(zeros.predict(np.zeros((1, 3))), COUNTS.mean())


def test_words_too_short_for_a_feature() -> None:
    model = mc.KernelLogisticRegression(mc.Spectrum(3), solver=S.Primal())
    model.fit(["a", "b", "ab", "a"], [0, 1, 1, 1])
    assert_allclose(model.predict_proba(["abc"]), [[0.25, 0.75]], rtol=1e-6)


def test_far_targets_bend_nowhere_at_first() -> None:
    """All residuals are beyond delta: the loss is linear at every row."""
    model = mc.KernelHuberRegressor(mc.Polynomial(2), alpha=0.1, fit_intercept=False)
    exact = clone(model).set_params(solver=S.Cholesky()).fit(X, Y + 100)
    found = model.set_params(solver=S.Primal()).fit(X, Y + 100)
    assert_allclose(found.predict(Z), exact.predict(Z), rtol=1e-6)


def test_where_terms_of_rows_would_cancel() -> None:
    """A scale at which the whole matrix finds no function."""
    model = mc.KernelHuberRegressor(mc.Linear(), alpha=1e-6, solver=S.Primal()).fit(1e8 * X, Y)
    assert model.converged_
    plain = mc.KernelHuberRegressor(mc.Linear(), alpha=1e-12, solver=S.Primal()).fit(X, Y)
    assert_allclose(model.predict(1e8 * Z), plain.predict(Z), rtol=1e-6)


# The choice ---------------------------------------------------------------------------------------


def test_auto_takes_features_that_are_few() -> None:
    for kernel, taken in (
        (mc.Linear(), "Primal()"),
        (mc.Polynomial(2), "Primal()"),
        (mc.Polynomial(9), "Cholesky()"),
        (RBF, "Cholesky()"),
        (mc.Linear() + mc.White(), "Cholesky()"),
    ):
        model = mc.KernelLogisticRegression(kernel).fit(X, BINARY)
        assert repr(model.solver_) == taken
        assert repr(mc.forecast(mc.KernelLogisticRegression(kernel), X, BINARY).chosen) == taken
    kinks = mc.KernelMachineClassifier(mc.Linear(), "hinge")
    assert repr(kinks.fit(X, BINARY).solver_) == "Primal()"
    words = mc.KernelLogisticRegression(mc.Spectrum(2)).fit(WORDS, BINARY)
    assert repr(words.solver_) == "Primal()"


def test_forecasts_weigh_features() -> None:
    many = RNG.normal(size=(10_001, 2))
    found = mc.forecast(mc.KernelLogisticRegression(mc.Linear()), many)
    assert [type(cost.solver).__name__ for cost in found.costs] == [
        "Primal",
        "Cholesky",
        "ConjugateGradient",
        "NystromSolver",
        "Falkon",
        "RandomFeatures",
    ]
    assert "* the kernel has few features" in str(found)
    assert found.costs[5].obstacle == "no random frequencies"
    other = mc.forecast(mc.KernelLogisticRegression(RBF), many)
    assert other.costs[0].obstacle == "no finite features"
    assert [cost.obstacle for cost in other.costs[4:]] == 2 * ["if asked for"]
    assert repr(other.chosen).startswith("ConjugateGradient")
    asked = mc.forecast(mc.KernelLogisticRegression(RBF, solver=fourier(77)), many)
    assert asked.chosen == fourier(77)
    assert asked.is_possible
    iterated = mc.KernelMachineClassifier(RBF, "hinge", solver=S.ConjugateGradient())
    kinks = mc.forecast(iterated, many)
    assert not kinks.is_possible
    assert "the loss has kinks" in str(kinks)
    words = mc.forecast(mc.KernelLogisticRegression(mc.Spectrum(9), solver=S.Primal()), WORDS)
    assert words.is_possible
    assert "asked for" in words.reason
    chunks = da.from_array(many, chunks=1000)
    assert repr(mc.forecast(mc.KernelLogisticRegression(mc.Linear()), chunks).chosen) == "Primal()"


def test_memory_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    model = mc.KernelLogisticRegression(mc.Spectrum(4), solver=S.Primal())
    with pytest.raises(MemoryForecastError, match=r"KernelLogisticRegression with 81 features"):
        model.fit(WORDS, BINARY)
    assert not mc.forecast(model, WORDS, BINARY).is_possible
    small = mc.KernelLogisticRegression(mc.Linear(), solver=S.Primal()).fit(X, BINARY)
    assert small.converged_


@pytest.mark.parametrize("loss", ["absolute", "pinball", "epsilon_insensitive"])
def test_losses_with_kinks_on_features(loss: str) -> None:
    settings: Any = {"loss": loss, "alpha": 0.2}
    exact = mc.KernelMachineRegressor(mc.Polynomial(2), solver=S.Cholesky(), **settings)
    model = mc.KernelMachineRegressor(mc.Polynomial(2), solver=S.Primal(), **settings)
    exact.fit(X, Y)
    assert model.fit(X, Y).converged_
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)
    assert_allclose(model.dual_coef_, exact.dual_coef_, atol=1e-5)
    assert len(model.primal_coef()) == len(exact.primal_coef())
    mapped = fourier()
    model = mc.KernelMachineRegressor(RBF, solver=mapped, **settings).fit(X, Y)
    own = mc.KernelMachineRegressor(mc.Linear(), solver=S.Cholesky(), **settings)
    features = model.feature_map_.transform(X)
    assert_allclose(model.predict(X), own.fit(features, Y).predict(features), atol=1e-6)


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [S.Primal(), fourier()], ids=name)
def test_what_features_cannot_do(solver: Any) -> None:
    with pytest.raises(ParameterError, match="valid kernel"):
        mc.KernelHuberRegressor(mc.Sigmoid(), solver=solver).fit(X, Y)
    with pytest.raises(NoFeatureMapError, match="White"):
        mc.KernelHuberRegressor(mc.White() + RBF, solver=solver).fit(X, Y)


def test_kernels_without_features() -> None:
    with pytest.raises(NoFeatureMapError, match=r"RBF has no finite feature map; use"):
        mc.KernelHuberRegressor(RBF, solver=S.Primal()).fit(X, Y)
    with pytest.raises(NoFeatureMapError, match=r"Linear\(\) has no spectral measure"):
        mc.KernelHuberRegressor(mc.Linear(), solver=fourier()).fit(X, Y)
    with pytest.raises(ParameterError, match=r"RandomFeatures: map = 3 is not a transformer"):
        mc.KernelHuberRegressor(RBF, solver=S.RandomFeatures(3)).fit(X, Y)
    with pytest.raises(ParameterError, match="it is a class, and not an object of it"):
        mc.KernelHuberRegressor(RBF, solver=S.Primal).fit(X, Y)


def test_features_beyond_the_arithmetic() -> None:
    model = mc.KernelHuberRegressor(mc.Polynomial(9), solver=S.Primal())
    with pytest.raises(DataError, match=r"NaN or infinity: the largest k\(x, x\), inf"):
        model.fit(1e40 * X, Y)
    with pytest.raises(DataError, match="beyond the range of their type"):
        model.set_params(kernel=mc.Linear()).fit(blocks(Y, rows=1e200 * X))
    with pytest.raises(DataError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), Y)


@parametrize_with_checks(
    [
        mc.KernelLogisticRegression(mc.Linear(), solver=S.Primal()),
        mc.KernelHuberRegressor(mc.Polynomial(2), solver=S.Primal()),
        mc.KernelLogisticRegression(mc.RBF(1.0), solver=fourier(30)),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
