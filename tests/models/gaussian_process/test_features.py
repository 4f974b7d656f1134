"""The bound through features: sums over blocks of rows, its gap and its rounding."""

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
from mercer.models.gaussian_process import features as gaussian_features
from mercer.models.gaussian_process import landmarks as landmark_evidence
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.sampling import blocks
from model_samples import ARD, HELD, drawn

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

RBF = ARD
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
