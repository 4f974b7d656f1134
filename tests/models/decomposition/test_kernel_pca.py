"""Kernel PCA against PCA, scikit-learn and the eigenvectors of a centred matrix."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import decomposition
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import (
    DataError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from mercer.models.decomposition import kernel_pca
from references import matrix, rbf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) * [1.0, 2.0, 0.5] + 4.0
Z = RNG.normal(size=(9, 3)) + 4.0
SOLVERS = ("dense", "truncated", "landmarks")


@parametrize_with_checks(
    [mc.KernelPCA(), mc.KernelPCA("linear", 2), mc.KernelPCA(n_components=2, solver="landmarks")]
)
@pytest.mark.filterwarnings("ignore:KernelPCA. n_components:mercer.exceptions.NumericalWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    # Some checks pass rows with fewer directions than components, as the warning says.
    check(estimator)


def naive_scores(K: np.ndarray, cross: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, and scores of rows whose kernel values are centred entry by entry."""
    n = len(K)
    centred = np.array(
        [[K[i, j] - K[i].mean() - K[:, j].mean() + K.mean() for j in range(n)] for i in range(n)]
    )
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    rows = np.array(
        [[row[j] - row.mean() - K[:, j].mean() + K.mean() for j in range(n)] for row in cross]
    )
    return values, rows @ vectors / np.sqrt(values)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scores_of_new_rows_are_centred_with_the_training_means(solver: Any) -> None:
    model = mc.KernelPCA(mc.RBF(1.5), 4, solver=solver, n_landmarks=120).fit(X)
    values, scores = naive_scores(
        matrix(rbf, X, length_scale=1.5), matrix(rbf, Z, X, length_scale=1.5), 4
    )
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-8)
    np.testing.assert_allclose(np.abs(model.transform(Z)), np.abs(scores), atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_linear_kernel_gives_principal_components(solver: Any) -> None:
    model = mc.KernelPCA(mc.Linear(), 2, solver=solver).fit(X)
    pca = decomposition.PCA(2).fit(X)
    np.testing.assert_allclose(np.abs(model.transform(Z)), np.abs(pca.transform(Z)), atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)


def test_scikit_learn_finds_the_same() -> None:
    ours = mc.KernelPCA("rbf", 3, gamma=0.2).fit(X)
    theirs = decomposition.KernelPCA(3, kernel="rbf", gamma=0.2).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_)
    np.testing.assert_allclose(np.abs(ours.transform(Z)), np.abs(theirs.transform(Z)), atol=1e-10)


def test_products_alone_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = mc.KernelPCA(mc.Matern(1.5), 3, solver="truncated").fit(X)
    monkeypatch.setattr(kernel_pca, "_STORED_ROWS", 10)
    streamed = mc.KernelPCA(mc.Matern(1.5), 3, solver="truncated").fit(X)
    np.testing.assert_allclose(streamed.transform(Z), stored.transform(Z), atol=1e-8)


def test_signs_are_fixed() -> None:
    whole = mc.KernelPCA(mc.RBF(2.0), 3).fit(X)
    turned = mc.KernelPCA(mc.RBF(2.0), 3).fit(X[::-1])
    np.testing.assert_allclose(whole.transform(Z), turned.transform(Z), atol=1e-9)
    assert (whole.dual_coef_.max(axis=0) >= -whole.dual_coef_.min(axis=0)).all()


def test_scores_are_uncorrelated_with_the_variances_that_are_stated() -> None:
    model = mc.KernelPCA(mc.Laplacian(3.0), 5).fit(X)
    covariance = np.cov(model.transform(X), rowvar=False)
    np.testing.assert_allclose(covariance, np.diag(model.explained_variance_), atol=1e-12)


def test_ratios_refer_to_the_variance_of_all_rows() -> None:
    K = matrix(rbf, X, length_scale=1.0)
    trace = np.trace(K) - K.mean() * len(K)
    for solver in SOLVERS:
        model = mc.KernelPCA(mc.RBF(1.0), 3, solver=solver, n_landmarks=60).fit(X)
        np.testing.assert_allclose(
            model.explained_variance_ratio_, model.eigenvalues_ / trace, rtol=1e-9
        )


def test_a_share_of_the_variance_chooses_the_number() -> None:
    everything = mc.KernelPCA(mc.RBF(2.0)).fit(X)
    some = mc.KernelPCA(mc.RBF(2.0), 0.9).fit(X)
    shares = np.cumsum(everything.explained_variance_ratio_)
    assert shares[some.n_components_ - 2] < 0.9 <= shares[some.n_components_ - 1]
    assert shares[-1] == pytest.approx(1.0)


def test_strings_have_components() -> None:
    words = ["acgtacgt", "acgtacga", "ttttgggg", "tttggggg"]
    scores = mc.KernelPCA(mc.Spectrum(2).normalized(), 1).fit_transform(words)
    assert (np.sign(scores[:2, 0]) != np.sign(scores[2:, 0])).all()


def test_all_scores_reproduce_the_centred_matrix() -> None:
    scores = mc.KernelPCA(mc.RBF(3.0)).fit_transform(X)
    K = matrix(rbf, X, length_scale=3.0)
    H = np.eye(len(X)) - 1 / len(X)
    np.testing.assert_allclose(scores @ scores.T, H @ K @ H, atol=1e-6)


def test_frames_and_pickles() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = mc.KernelPCA(n_components=2).set_output(transform="pandas").fit(frame)
    scores = model.transform(frame)
    assert list(scores.columns) == ["kernelpca0", "kernelpca1"]
    again = pickle.loads(pickle.dumps(model)).transform(frame)
    pd.testing.assert_frame_equal(scores, again)


@pytest.mark.parametrize("count", [0, -1, 1.5, "two", True])
def test_numbers_of_components_are_checked(count: Any) -> None:
    with pytest.raises(ParameterError, match="n_components"):
        mc.KernelPCA(n_components=count).fit(X)


def test_bad_data_are_refused() -> None:
    with pytest.raises(DataError, match="at most that many"):
        mc.KernelPCA(n_components=121).fit(X)
    with pytest.raises(DataError, match="all rows are equal"):
        mc.KernelPCA(mc.RBF(1.0)).fit(np.ones((5, 2)))
    with pytest.raises(ValidityError, match="no feature space"):
        mc.KernelPCA(mc.FunctionKernel(lambda A, B: -(A @ B.T))).fit(X)
    with pytest.warns(NumericalWarning, match="only 3 directions"):
        mc.KernelPCA(mc.Linear(), 5).fit(X)
    with pytest.raises(ParameterError, match="whole number"):
        mc.KernelPCA(n_components=0.9, solver="truncated").fit(X)
