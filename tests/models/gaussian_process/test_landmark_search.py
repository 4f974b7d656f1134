"""How many landmarks a search takes, and what it does where they are too few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import MercerError, NumericalWarning, ParameterError
from mercer.models.gaussian_process import landmark_search
from mercer.solvers.forecast import GaussianProcessFit
from model_samples import MANY, drawn

GP, S = mc.GaussianProcessRegressor, mc.solvers


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


# Rounding -----------------------------------------------------------------------------------------


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
    with pytest.raises(ParameterError, match="'leverage', 'thin', 'learn', row numbers"):
        GP(solver=S.NystromSolver(3, "nearest")).fit(np.arange(9.0)[:, None], np.arange(9.0))
    ridge = mc.KernelRidge(solver=S.NystromSolver(3, "nearest"))  # which moves no landmarks
    with pytest.raises(ParameterError, match="'leverage', 'thin', row numbers"):
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


# Landmarks that change in a search ----------------------------------------------------------------


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
        (mc.RBF().on("a"), pd.DataFrame({"a": MANY.X[:24, 0], "b": ["x"] * 24})),
        (mc.Linear(), sp.csr_array(MANY.X[:24])),
    ],
    ids=["strings", "frame", "sparse"],
)
def test_positions_of_what_is_not_all_numbers_cannot_be_learned(
    kernel: mc.Kernel, rows: Any
) -> None:
    with pytest.raises(MercerError, match=r'landmarks="rpcholesky"'):
        GP(1.0 * kernel, solver=S.NystromSolver(4, "learn", random_state=0)).fit(rows, MANY.Y[:24])


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
