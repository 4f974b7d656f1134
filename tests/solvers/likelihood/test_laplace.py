"""Laplace's approximation against explicit matrices, finite differences and repeated rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from latent_functions import THETA, WEIGHTS, K, N, X, Z, kernel, labels
from mercer.solvers.likelihood import laplace

Array = NDArray[np.float64]

CASES = pytest.mark.parametrize("n_classes", [2, 3, 4])
WEIGHTED = pytest.mark.parametrize("weights", [None, WEIGHTS])


@dataclass
class Naive:
    """What the definitions say, with matrices of all functions at all points."""

    latent: Array
    log_evidence: float
    K: Array
    W: Array

    @classmethod
    def of(cls, gram: Array, targets: Array, weights: Array | None) -> Naive:
        n, columns = targets.shape
        w = np.ones(n) if weights is None else weights
        big = np.kron(np.eye(columns), gram)
        y, f = targets.T.ravel(), np.zeros(n * columns)
        for _ in range(60):
            mean, W = cls.likelihood(f.reshape(columns, n), w)
            slope = np.tile(w, columns) * (y - mean)
            # (K^-1 + W) f = W f + slope, times K, a third of the way so that it cannot overshoot.
            target = np.linalg.solve(np.eye(len(f)) + big @ W, big @ (W @ f + slope))
            f = f + (target - f) * (1 / 3 if _ < 20 else 1)
        mean, W = cls.likelihood(f.reshape(columns, n), w)
        latent = f.reshape(columns, n).T
        fits = (
            np.log(np.where(targets == 1, expit(latent), expit(-latent)))[:, 0]
            if columns == 1
            else np.log((softmax(latent, axis=1) * targets).sum(axis=1))
        )
        dual = np.tile(w, columns) * (y - mean)
        determinant = np.linalg.slogdet(np.eye(len(f)) + big @ W)[1]
        return cls(latent, float(w @ fits - dual @ f / 2 - determinant / 2), big, W)

    @staticmethod
    def likelihood(f: Array, w: Array) -> tuple[Array, Array]:
        """Means and the curvature, from the definition of the softmax (or of the logit)."""
        columns, n = f.shape
        mean = expit(f) if columns == 1 else softmax(f, axis=0)
        W = np.zeros((columns * n, columns * n))
        for i in range(n):
            p = mean[:, i]
            block = p[:, None] * (1 - p) if columns == 1 else np.diag(p) - np.outer(p, p)
            W[i::n, i::n] = w[i] * block
        return mean.ravel(), W

    def covariance(self, cross: Array, prior: float) -> Array:
        """The posterior covariance of the functions at one new point."""
        columns = self.latent.shape[1]
        k = np.kron(np.eye(columns), cross[:, None])
        shrunk = np.linalg.solve(np.eye(len(self.K)) + self.W @ self.K, self.W)
        return np.asarray(prior * np.eye(columns) - k.T @ shrunk @ k)


@CASES
@WEIGHTED
def test_mode_evidence_and_covariance_are_those_of_explicit_matrices(
    n_classes: int, weights: Array | None
) -> None:
    targets = labels(n_classes)
    expected = Naive.of(K, targets, weights)
    found = laplace.fit(K, targets, weights)
    assert found.converged
    np.testing.assert_allclose(found.latent, expected.latent, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(K @ found.dual, found.latent, rtol=1e-10, atol=1e-10)
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-9)
    cross = kernel(THETA, X, Z)
    covariance = found.curvature.covariance(cross, np.full(4, 3.0))
    for j in range(4):
        wanted = expected.covariance(cross[:, j], 3.0)
        np.testing.assert_allclose(covariance[j], wanted, rtol=1e-8, atol=1e-9)


@CASES
@WEIGHTED
def test_the_sensitivity_gives_the_derivatives_of_the_evidence(
    n_classes: int, weights: Array | None
) -> None:
    targets = labels(n_classes)
    G = laplace.fit(K, targets, weights).sensitivity(K)
    np.testing.assert_array_equal(G, np.triu(G))
    step = 1e-4
    for j in range(2):
        h = step * np.eye(2)[j]
        grams = [kernel(THETA + k * h, X, X) for k in (-2, -1, 1, 2)]
        values = [laplace.fit(gram, targets, weights).log_evidence for gram in grams]
        stencil = np.array([1, -8, 8, -1]) / (12 * step)
        change = np.tensordot(stencil, grams, axes=1)
        assert np.sum(G * change) == pytest.approx(stencil @ values, rel=1e-6, abs=1e-7)


@CASES
def test_a_weight_is_a_number_of_copies(n_classes: int) -> None:
    targets = labels(n_classes)
    rows = np.repeat(np.arange(N), WEIGHTS.astype(int))
    weighted = laplace.fit(K, targets, WEIGHTS)
    repeated = laplace.fit(K[np.ix_(rows, rows)], targets[rows])
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence, rel=1e-9)
    np.testing.assert_allclose(weighted.latent[rows], repeated.latent, rtol=1e-7, atol=1e-8)
    cross = kernel(THETA, X, Z)
    np.testing.assert_allclose(
        weighted.curvature.covariance(cross, np.full(4, 3.0)),
        repeated.curvature.covariance(cross[rows], np.full(4, 3.0)),
        rtol=1e-7,
        atol=1e-8,
    )


@CASES
@pytest.mark.parametrize("amplitude", [1e-10, 1e-2, 1e2, 1e4])
def test_the_mode_is_found_from_anywhere_at_any_amplitude(n_classes: int, amplitude: float) -> None:
    targets, gram = labels(n_classes), amplitude * K
    cold = laplace.fit(gram, targets)
    assert cold.converged
    starts = (cold.latent, np.full(targets.shape, 50.0), laplace.fit(K, targets).latent)
    for start in starts:
        warm = laplace.fit(gram, targets, start=start)
        assert warm.converged
        assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-8)
    assert laplace.fit(gram, targets, start=cold.latent).n_iter <= 3


@CASES
def test_identical_points_and_labels_that_contradict_each_other(n_classes: int) -> None:
    targets = labels(n_classes)
    found = laplace.fit(np.ones((N, N)), targets)
    assert found.converged
    # One value of each function for all points, so the shares of the classes, nearly.
    np.testing.assert_allclose(np.ptp(found.latent, axis=0), 0, atol=1e-10)
    assert np.isfinite(found.sensitivity(np.ones((N, N)))).all()


def test_one_step_is_not_enough_and_said_so() -> None:
    found = laplace.fit(1e4 * K, labels(2), max_iter=1)
    assert not found.converged
    assert found.n_iter == 1
