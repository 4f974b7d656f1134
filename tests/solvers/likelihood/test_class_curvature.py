"""The Hessian of classes: large kernels against one matrix for all functions, features
against their whole matrix, and refusals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from latent_functions import K, N, kernel, labels
from mercer.exceptions import ValidityError
from mercer.solvers.likelihood import laplace
from mercer.solvers.likelihood.class_curvature import FeatureMatrix

RNG = np.random.default_rng(0)
ROWS, R, M = 40, 6, 5
F = RNG.normal(size=(ROWS, R))
NEW = RNG.normal(size=(M, R))
WEIGHTS = RNG.uniform(0.5, 2.0, size=ROWS)
TWO = (F[:, :1] + RNG.normal(size=(ROWS, 1)) > 0).astype(float)
THREE = np.eye(3)[np.digitize(F[:, 0] + RNG.normal(size=ROWS), [-0.5, 0.5])]


@pytest.mark.parametrize("amplitude", [1e6, 1e8])
def test_large_amplitudes_lose_no_digits(amplitude: float) -> None:
    """Against one matrix for all functions, W = H H': B = I + H' (I x K) H is easy to solve."""
    n, rng = 100, np.random.default_rng(0)
    points, new, theta = rng.normal(size=(n, 2)), rng.normal(size=(4, 2)), np.log([amplitude, 1.0])
    targets = np.eye(3)[np.digitize(points[:, 0], [-0.5, 0.5])]
    gram, cross = kernel(theta, points, points), kernel(theta, points, new)
    found = laplace.fit(gram, targets)
    assert found.converged
    share = softmax(found.latent, axis=1)
    np.testing.assert_allclose(found.dual, targets - share, atol=1e-8)
    H = np.zeros((n * 3, n * 3))
    for i, p in enumerate(np.sqrt(share)):
        H[i::n, i::n] = p[:, None] * (np.eye(3) - np.outer(p, p))
    B = np.eye(len(H)) + H.T @ np.kron(np.eye(3), gram) @ H
    likelihood = np.sum(targets * np.log(share)) - np.vdot(found.dual, found.latent) / 2
    expected = likelihood - np.linalg.slogdet(B)[1] / 2
    assert found.log_evidence == pytest.approx(expected, rel=1e-8)
    covariance = found.curvature.covariance(cross, np.full(4, amplitude))
    for j in range(4):
        half = np.linalg.solve(np.linalg.cholesky(B), H.T @ np.kron(np.eye(3), cross[:, [j]]))
        wanted = amplitude * np.eye(3) - half.T @ half
        np.testing.assert_allclose(covariance[j], wanted, atol=1e-8 * amplitude)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_indefinite_matrix_is_refused(n_classes: int) -> None:
    with pytest.raises(ValidityError, match="positive semi-definite"):
        laplace.fit(K - 20 * np.eye(N), labels(n_classes))


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
    wanted = whole.curvature.covariance((NEW @ F.T).T.copy(order="F"), prior)
    # What the features leave out of k(x, x) is a variance of its own.
    assert_allclose(found.curvature.covariance(NEW.T, np.full(M, 0.3)), wanted, atol=1e-5)
    found.curvature.release()
    assert_allclose(found.curvature.covariance(NEW.T, np.full(M, 0.3)), wanted, atol=1e-5)
