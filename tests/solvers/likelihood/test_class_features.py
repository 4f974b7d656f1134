"""Laplace's method with features against that with their whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.solvers.likelihood import laplace
from mercer.solvers.likelihood.class_features import FeatureMatrix

RNG = np.random.default_rng(0)
N, R, M = 40, 6, 5
F = RNG.normal(size=(N, R))
NEW = RNG.normal(size=(M, R))
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)
TWO = (F[:, :1] + RNG.normal(size=(N, 1)) > 0).astype(float)
THREE = np.eye(3)[np.digitize(F[:, 0] + RNG.normal(size=N), [-0.5, 0.5])]


@pytest.mark.parametrize("targets", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["even", "weighted"])
def test_features_and_their_matrix_have_the_same_posterior(targets: Any, weights: Any) -> None:
    whole = laplace.fit(F @ F.T, targets, weights)
    found = laplace.fit(FeatureMatrix(F), targets, weights)
    assert found.converged
    assert found.log_evidence == pytest.approx(whole.log_evidence, abs=1e-7)
    assert_allclose(found.latent, whole.latent, atol=1e-5)
    vectors = RNG.normal(size=targets.shape)
    for name in ("product", "resolvent"):
        mine, other = (getattr(p.curvature, name)(vectors) for p in (found, whole))
        assert_allclose(mine, other, atol=1e-5)
    prior = np.sum(NEW**2, axis=1) + 0.3
    wanted = whole.covariance((NEW @ F.T).T.copy(order="F"), prior)
    # What the features leave out of k(x, x) is a variance of its own.
    assert_allclose(found.covariance(NEW.T, np.full(M, 0.3)), wanted, atol=1e-5)
    found.curvature.release()
    assert_allclose(found.covariance(NEW.T, np.full(M, 0.3)), wanted, atol=1e-5)
