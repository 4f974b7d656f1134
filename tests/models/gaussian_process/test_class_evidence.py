"""The approximate likelihood of labels: its gradient, and the bounds of its amplitude."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from model_samples import LABELLED

Array = NDArray[np.floating[Any]]
GPC = mc.GaussianProcessClassifier

X, TWO, THREE, _, WEIGHTS = LABELLED


@pytest.mark.parametrize("y", [TWO, THREE])
def test_the_gradient_is_that_of_finite_differences(y: Array) -> None:
    kernel = 2.0 * mc.RBF(length_scale=[0.7, 1.5]) + 0.5 * mc.Linear()
    model = GPC(kernel, learn=False).fit(X, y, WEIGHTS)
    _, gradient = model.log_marginal_likelihood_gradient()
    step = 1e-4 * np.eye(len(gradient))
    for slope, h in zip(gradient, step, strict=True):
        ends = [model.log_marginal_likelihood(model.theta_ + s * h) for s in (-2, -1, 1, 2)]
        expected = np.array([1, -8, 8, -1]) @ ends / (12 * 1e-4)
        assert slope == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("start", [1e-2, 1.0, 1e4, 1e7, 1e12])
@pytest.mark.parametrize("edges", [[0.0], [-0.5, 0.5]], ids=["two", "three"])
def test_a_search_ends_well_from_any_amplitude(start: float, edges: list[float]) -> None:
    labels = np.digitize(X[:, 0], edges)
    model = GPC(start * mc.RBF()).fit(X, labels)
    assert model.converged_
    assert model.score(X, labels) > 0.95
    assert np.exp(model.theta_[0]) <= 1e5 * (1 + 1e-9)
    peer = GPC(1.0 * mc.RBF()).fit(X, labels)
    assert model.log_marginal_likelihood_ == pytest.approx(peer.log_marginal_likelihood_, abs=0.01)
