"""Kernel CCA against the eigenproblem of its definition, and CCA of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA

import mercer as mc
from mercer.exceptions import DataError, DataWarning, ParameterError
from references import matrix, rbf

RNG = np.random.default_rng(0)
HIDDEN = RNG.normal(size=80)
X = np.column_stack([HIDDEN + 0.5 * RNG.normal(size=80), RNG.normal(size=80)])
Y = np.column_stack([RNG.normal(size=80), HIDDEN**2, RNG.normal(size=80)])


def test_the_first_correlation_solves_the_penalised_problem() -> None:
    n, alpha = len(X), 0.05
    H = np.eye(n) - 1 / n
    K = H @ matrix(rbf, X, length_scale=1.0) @ H
    L = H @ matrix(rbf, Y, length_scale=2.0) @ H
    # Functions K a and L b: covariance a'KLb / n, penalised variances a'(KK + n r K)a / n.
    ridges = [alpha * np.trace(M) / (n - 1) for M in (K, L)]
    A, B = (M @ M / n + r * M for M, r in zip((K, L), ridges, strict=True))
    zero = np.zeros((n, n))
    left = np.block([[zero, K @ L / n], [L @ K / n, zero]])
    tiny = 1e-12 * np.eye(2 * n)
    top = eigh(left, np.block([[A, zero], [zero, B]]) + tiny, eigvals_only=True)[-1]
    model = mc.KernelCCA(mc.RBF(1.0), mc.RBF(2.0), 1, alpha=alpha).fit(X, Y)
    f, g = model.transform(X, Y)
    penalised = np.cov(f[:, 0], g[:, 0], bias=True)[0, 1]
    assert penalised == pytest.approx(top, rel=1e-4)


def test_linear_kernels_give_canonical_correlations() -> None:
    Y1 = np.column_stack([HIDDEN + 0.3 * RNG.normal(size=80), RNG.normal(size=80)])
    model = mc.KernelCCA(mc.Linear(), mc.Linear(), 2, alpha=1e-10).fit(X, Y1)
    f, g = CCA(2, scale=False, tol=1e-12, max_iter=10_000).fit_transform(X, Y1)
    expected = [np.corrcoef(f[:, i], g[:, i])[0, 1] for i in range(2)]
    np.testing.assert_allclose(model.correlations_, expected, atol=1e-6)


def test_cross_validation_tells_dependence_from_noise() -> None:
    dependent = mc.KernelCCA(n_components=1).fit(X, Y)
    assert dependent.cv_correlations_[0] > 0.5
    noise = mc.KernelCCA(n_components=1).fit(X, RNG.normal(size=(80, 3)))
    # The deviation of a correlation of 16 rows is 0.25, that of the mean of 5 folds about 0.11;
    # the best of 7 penalties exceeds 0.5 with a probability below 1e-4.
    assert noise.cv_correlations_[0] < 0.5


def test_vectors_are_rows_and_strings_are_taken() -> None:
    assert mc.KernelCCA(n_components=1, alpha=0.1).fit(X, HIDDEN).score(X, HIDDEN) > 0.5
    words = ["aab", "abb", "bba", "bab"] * 5
    model = mc.KernelCCA(mc.Spectrum(2), mc.Linear(), 1, alpha=0.1)
    assert model.fit(words, np.arange(20.0) % 4).correlations_[0] > 0.5


def test_bad_input() -> None:
    with pytest.raises(DataError, match="as many of both"):
        mc.KernelCCA().fit(X, Y[:-1])
    with pytest.raises(DataError, match="too few for folds"):
        mc.KernelCCA().fit(X[:5], Y[:5])
    with pytest.raises(ParameterError, match="alpha"):
        mc.KernelCCA(alpha=0.0).fit(X, Y)
    with pytest.warns(DataWarning, match="one side has only 1"):
        mc.KernelCCA(mc.Linear(), mc.Linear(), 2, alpha=0.1).fit(X, HIDDEN)
