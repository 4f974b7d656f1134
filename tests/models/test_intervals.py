"""Ranks and ends of intervals from errors, and their coverage over repeated draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import mercer as mc
from mercer.exceptions import DataWarning, ParameterError
from mercer.models.intervals import checked_coverage, jackknife_plus, margin, rank


@pytest.mark.parametrize(
    ("n", "coverage", "expected"), [(9, 0.9, 9), (10, 0.9, 10), (99, 0.95, 95), (19, 0.8, 16)]
)
def test_the_rank_is_exact_for_finite_samples(n: int, coverage: float, expected: int) -> None:
    assert rank("Owner", n, coverage) == expected


def test_too_few_rows_have_infinite_ends_and_a_warning() -> None:
    with pytest.warns(DataWarning, match="needs errors of at least 9 rows, and there are 8"):
        assert margin("Owner", np.ones((8, 2)), 0.9).tolist() == [np.inf, np.inf]
    with pytest.warns(DataWarning, match="the ends are infinite"):
        low, high = jackknife_plus("Owner", np.zeros((3, 2)), np.ones(2), 0.9)
    assert np.all(low == -np.inf)
    assert np.all(high == np.inf)


def test_the_ends_of_the_jackknife_are_order_statistics() -> None:
    rng = np.random.default_rng(0)
    predictions, residuals = rng.normal(size=(4, 19)), rng.normal(size=19)
    low, high = jackknife_plus("Owner", predictions, residuals, 0.8)
    for i, row in enumerate(predictions):
        assert low[i] == sorted(row - abs(residuals))[3]  # floor(0.2 * 20) = 4th smallest
        assert high[i] == sorted(row + abs(residuals))[15]  # ceil(0.8 * 20) = 16th smallest


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.5, "0.9", None, True, float("nan")])
def test_a_coverage_is_a_probability(coverage: object) -> None:
    with pytest.raises(ParameterError, match=r"Owner: coverage = .* pass for example 0.9"):
        checked_coverage("Owner", coverage)


def coverage_of(kind: str, draws: int) -> int:
    """How many of the draws have an interval that holds a new target."""
    inside = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, size=(41, 1))
        y = np.sin(2 * X).ravel() + 0.3 * rng.standard_t(3, size=41)
        model = mc.KernelRidge(mc.RBF(0.7), alpha=0.3)
        if kind == "jackknife+":
            low, high = model.fit(X[:40], y[:40]).predict_interval(X[40:], 0.8)[0]
        else:
            calibration = (X[20:40], y[20:40])
            model.fit(X[:20], y[:20])
            low, high = model.predict_interval(X[40:], 0.8, calibration=calibration)[0]
        inside += low <= y[40] <= high
    return inside


@pytest.mark.parametrize("kind", ["jackknife+", "calibration"])
def test_intervals_cover_as_often_as_they_say(kind: str) -> None:
    # Coverage of 0.8 at least (and 17/21 at most for calibration): a false alarm of 1e-6 each.
    draws = 400
    inside = coverage_of(kind, draws)
    assert inside >= binom.ppf(1e-6, draws, 0.8)
    assert inside <= binom.ppf(1 - 1e-6, draws, 0.86)


@pytest.mark.filterwarnings("ignore:KernelRidge. n_landmarks:mercer.exceptions.MercerWarning")
@pytest.mark.parametrize("solver", ["nystrom", "falkon", "conjugate_gradient"])
def test_all_rows_as_landmarks_give_the_intervals_of_the_exact_fit(solver: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=80)
    new = np.linspace(-2, 2, 9)[:, None]
    exact = mc.KernelRidge(mc.RBF(1.0), 0.1).fit(X, y).predict_interval(new)
    others = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=solver).fit(X, y).predict_interval(new)
    np.testing.assert_allclose(others, exact, atol=1e-4)
