"""How many landmarks a search takes, and what it does where they are too few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataTypeError, ParameterError
from mercer.models.gaussian_process import plan as plan
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.solvers.forecast import GaussianProcessFit

GP, S = mc.GaussianProcessRegressor, mc.solvers
Array = NDArray[np.float64]
N = 1_100


def drawn(length_scale: float, noise: float = 0.01, n: int = N) -> tuple[Array, Array]:
    """A function drawn from its process, on a line, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    K = np.exp(-0.5 * ((X - X.T) / length_scale) ** 2) + 1e-9 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.normal(size=n) + np.sqrt(noise) * rng.normal(size=n)
    return X, y


@pytest.fixture
def scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of "auto" with a tenth of its numbers."""
    for name, value in (
        ("exact_rows", 400),
        ("search_landmarks", 32),
        ("most_search_landmarks", 64),
    ):
        monkeypatch.setattr(GaussianProcessFit, name, value)


def model(**settings: Any) -> Any:
    return GP(1.0 * mc.RBF(length_scale="scale"), **settings)


# How many landmarks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length_scale", "search"),
    [
        (0.02, S.Cholesky()),
        (0.15, S.NystromSolver(64, "rpcholesky", 0)),
        (1.5, S.NystromSolver(32, "rpcholesky", 0)),
    ],
    ids=["fast", "middling", "slow"],
)
@pytest.mark.usefixtures("scaled_down")
def test_auto_learns_what_the_whole_matrix_says(length_scale: float, search: Any) -> None:
    X, y = drawn(length_scale)
    found, best = model().fit(X, y), model(solver=S.Cholesky()).fit(X, y)
    assert (found.solver_, found.search_solver_) == (S.Cholesky(), search)
    assert best.log_marginal_likelihood_ - found.log_marginal_likelihood_ < 0.5
    assert found.converged_
    assert hasattr(found, "lower_bound_") == isinstance(search, S.NystromSolver)
    assert found.n_evaluations_ < 40


@pytest.mark.usefixtures("scaled_down")
def test_a_mean_by_iterations_has_hyper_parameters_of_some_rows_by_their_matrix() -> None:
    X, y = drawn(0.02)
    found = model(solver=S.ConjugateGradient(tol=1e-8)).fit(X, y)
    best = model(solver=S.Cholesky()).fit(X, y)
    assert found.search_solver_ == S.Cholesky()
    at = best.log_marginal_likelihood(found.theta_)
    # Of 400 of 1,100 rows and three parameters: half a chi-squared of three degrees of freedom
    # times 1,100 / 400 - 1, which is above 19 with a probability of 1e-4.
    assert best.log_marginal_likelihood_ - at < 19


@pytest.mark.usefixtures("scaled_down")
def test_landmarks_that_are_asked_for_stay_as_many() -> None:
    X, y = drawn(0.02)
    found = model(solver=S.NystromSolver(32, "rpcholesky", 0)).fit(X, y)
    assert found.search_solver_ == found.solver_ == S.NystromSolver(32, "rpcholesky", 0)
    assert len(found.points_) == 32


@pytest.mark.usefixtures("scaled_down")
def test_restarts_and_callbacks_reach_the_whole_matrix() -> None:
    X, y = drawn(0.02)
    plain, again = model().fit(X, y), model(n_restarts=2, random_state=0).fit(X, y)
    assert again.n_evaluations_ > plain.n_evaluations_
    assert again.log_marginal_likelihood_ > plain.log_marginal_likelihood_ - 0.5


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


# Rounding -----------------------------------------------------------------------------------------


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


def test_a_function_without_noise_is_learned_in_few_evaluations() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, size=(1_000, 2))
    y = np.sin(X).sum(axis=1) + X[:, 0] * X[:, 1]
    found = model(solver=S.NystromSolver(60, "rpcholesky", 0)).fit(X, y)
    assert found.converged_
    assert found.n_evaluations_ < 120
    assert np.abs(found.predict(X) - y).max() < 0.02


# Landmarks of data frames -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "kernel"),
    [(pd, 1.0 * mc.RBF()), (pl, 1.0 * mc.RBF().on("a", "b"))],
    ids=["pandas", "polars, columns by name"],
)
def test_landmarks_of_numeric_columns_are_learned(library: Any, kernel: mc.Kernel) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    solver = S.NystromSolver(6, "learn", 0)
    table, array = GP(kernel, solver=solver), GP(1.0 * mc.RBF(), solver=solver)
    table.fit(frame, y)
    array.fit(X, y)
    assert_allclose(table.predict(frame), array.predict(X), rtol=1e-10, atol=1e-12)
    assert isinstance(table.points_.data, library.DataFrame)


def test_other_columns_do_not_move() -> None:
    frame = pd.DataFrame({"a": np.arange(9.0), "b": list("abcabcabc")})
    found = GP(1.0 * mc.RBF().on("a"), solver=S.NystromSolver(3, "learn"))
    with pytest.raises(ParameterError, match=r"to be numbers, got the column 'b' .*rpcholesky"):
        found.fit(frame, np.arange(9.0))


def test_an_unknown_choice_of_landmarks_lists_learn() -> None:
    with pytest.raises(ParameterError, match="'leverage', 'learn', row numbers"):
        GP(solver=S.NystromSolver(3, "nearest")).fit(np.arange(9.0)[:, None], np.arange(9.0))
    ridge = mc.KernelRidge(solver=S.NystromSolver(3, "nearest"))  # which moves no landmarks
    with pytest.raises(ParameterError, match="'leverage', row numbers"):
        ridge.fit(np.arange(9.0)[:, None], np.arange(9.0))


# Which rows landmarks are -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fitted",
    [
        GP(1.0 * mc.RBF(), solver=S.NystromSolver(7, "rpcholesky", 0)),
        mc.KernelRidge(mc.RBF(), solver=S.NystromSolver(7, "rpcholesky", 0)),
        mc.KernelRidge(mc.RBF(), solver=S.Falkon(7, random_state=0)),
    ],
    ids=["process", "ridge", "falkon"],
)
def test_contributions_name_the_rows_of_landmarks(fitted: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    weights = np.where(np.arange(60) % 3, 1.0, 0.0)  # rows that are left out are counted too
    fitted.fit(X, X[:, 0] + 0.1 * rng.normal(size=60), sample_weight=weights)
    found = fitted.contributions(X[:4], top=3)
    for row in range(4):
        assert_allclose(found.points(row), X[found.rows[row]])
    assert_allclose(fitted.points_.data, X[fitted.rows_])


def test_landmarks_that_are_no_rows_have_numbers_of_their_own() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    for landmarks in ("learn", X[:5] + 0.5):
        found = GP(1.0 * mc.RBF(), solver=S.NystromSolver(5, landmarks)).fit(X, y)
        assert found.rows_ is None
        carried = found.contributions(X[:4], top=3)
        assert (carried.rows == carried.indices).all()


# Rows in blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GP, mc.GaussianProcessClassifier])
def test_blocks_are_refused_with_a_remedy(kind: Any) -> None:
    X = np.arange(12.0)[:, None]
    parts = [(X[:6], X[:6, 0] > 3), (X[6:], X[6:, 0] > 9)]
    for blocks in (mc.Blocks(parts), iter(parts)):
        with pytest.raises(DataTypeError, match=r"in blocks, but .*pass some of them as arrays"):
            kind().fit(blocks, None)


def test_the_remedy_for_blocks_has_the_same_mean() -> None:
    X, y = drawn(0.5, n=200)
    gp = model(normalize_y=True).fit(X, y)
    alpha = gp.noise_ / gp.y_scale_**2
    ridge = mc.KernelRidge(gp.kernel_, alpha=alpha, fit_intercept=False).fit(X, y - gp.intercept_)
    assert_allclose(ridge.predict(X) + gp.intercept_, gp.predict(X), atol=1e-7)
