"""The Hessian of classes: large kernels against one matrix for all functions, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from latent_functions import K, N, kernel, labels
from mercer.exceptions import ValidityError
from mercer.solvers.likelihood import laplace


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
    covariance = found.covariance(cross, np.full(4, amplitude))
    for j in range(4):
        half = np.linalg.solve(np.linalg.cholesky(B), H.T @ np.kron(np.eye(3), cross[:, [j]]))
        wanted = amplitude * np.eye(3) - half.T @ half
        np.testing.assert_allclose(covariance[j], wanted, atol=1e-8 * amplitude)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_indefinite_matrix_is_refused(n_classes: int) -> None:
    with pytest.raises(ValidityError, match="positive semi-definite"):
        laplace.fit(K - 20 * np.eye(N), labels(n_classes))
