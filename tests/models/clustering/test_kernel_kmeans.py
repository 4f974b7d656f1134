"""Kernel k-means against k-means, and against a loop that stores the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, DataWarning, ParameterError, ShortFitWarning
from references import matrix, rbf

RNG = np.random.default_rng(0)
BLOBS, KINDS = make_blobs(150, centers=4, cluster_std=0.7, random_state=3)
RINGS, RING = make_circles(200, factor=0.3, noise=0.05, random_state=0)


@parametrize_with_checks(
    [
        mc.KernelKMeans(n_clusters=2, n_init=2, random_state=0),
        mc.KernelKMeans(n_clusters=2, solver="landmarks", n_init=2, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a row repeated has other random seeds"
        for kind in ("dense", "sparse")
    },
)
@pytest.mark.filterwarnings("ignore:KernelKMeans. the rows have:mercer.exceptions.DataWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    # Some checks pass equal rows, as the warning says.
    check(estimator)


def inertia(K: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The sum of squared distances to weighted means, from the whole matrix."""
    total = 0.0
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        a = weights[rows] / weights[rows].sum()
        own = K[rows, rows] - 2 * K[np.ix_(rows, rows)] @ a + a @ K[np.ix_(rows, rows)] @ a
        total += weights[rows] @ own
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_a_local_minimum_of_the_inertia(weighted: bool) -> None:
    weights = RNG.uniform(0.2, 3.0, 150) if weighted else np.ones(150)
    model = mc.KernelKMeans(mc.RBF(1.5), 4, random_state=0)
    model.fit(BLOBS, sample_weight=weights if weighted else None)
    K = matrix(rbf, BLOBS, length_scale=1.5)
    assert model.inertia_ == pytest.approx(inertia(K, model.labels_, weights), rel=1e-9)
    distances = np.empty((150, 4))
    for c in range(4):
        a = np.where(model.labels_ == c, weights, 0) / weights[model.labels_ == c].sum()
        distances[:, c] = K.diagonal() - 2 * K @ a + a @ K @ a
    assert (distances.argmin(axis=1) == model.labels_).all()
    np.testing.assert_allclose(model.transform(BLOBS), np.sqrt(distances), atol=1e-7)
    assert (model.predict(BLOBS) == model.labels_).all()
    assert model.converged_


def test_the_linear_kernel_gives_k_means() -> None:
    model = mc.KernelKMeans(mc.Linear(), 4, random_state=0).fit(BLOBS)
    means = KMeans(4, n_init=10, random_state=0).fit(BLOBS)
    assert adjusted_rand_score(model.labels_, means.labels_) == 1.0
    assert model.inertia_ == pytest.approx(means.inertia_)


@pytest.mark.parametrize("solver", ["exact", "landmarks"])
def test_rings_are_separated_where_k_means_cannot(solver: Any) -> None:
    model = mc.KernelKMeans(mc.RBF(0.3), 2, solver=solver, n_landmarks=100, random_state=0)
    assert adjusted_rand_score(RING, model.fit(RINGS).labels_) > 0.95
    assert adjusted_rand_score(RING, KMeans(2, n_init=10, random_state=0).fit_predict(RINGS)) < 0.1


def test_weights_are_repetitions() -> None:
    counts = RNG.integers(1, 4, 150)
    weighted = mc.KernelKMeans(mc.RBF(1.5), 4, random_state=0).fit(BLOBS, sample_weight=counts)
    repeated = mc.KernelKMeans(mc.RBF(1.5), 4, random_state=0).fit(np.repeat(BLOBS, counts, axis=0))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-6)


def test_landmarks_at_all_rows_are_exact() -> None:
    exact = mc.KernelKMeans(mc.RBF(1.5), 4, solver="exact", random_state=0).fit(BLOBS)
    spanned = mc.KernelKMeans(mc.RBF(1.5), 4, solver="landmarks", random_state=0).fit(BLOBS)
    assert adjusted_rand_score(exact.labels_, spanned.labels_) == 1.0
    assert spanned.inertia_ == pytest.approx(exact.inertia_, rel=1e-6)


def test_strings_are_clustered() -> None:
    words = ["acgt" * 3, "acga" * 3, "ttgg" * 3, "ttga" * 3]
    labels = mc.KernelKMeans(mc.Spectrum(3).normalized(), 2, random_state=0).fit_predict(words)
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_edges() -> None:
    with pytest.raises(DataError, match="at most as many clusters"):
        mc.KernelKMeans(n_clusters=5).fit(BLOBS[:4])
    with pytest.raises(ParameterError, match="n_clusters"):
        mc.KernelKMeans(n_clusters=0).fit(BLOBS)
    with pytest.warns(DataWarning, match="1 different points"):
        model = mc.KernelKMeans(mc.RBF(1.0), 2).fit(np.ones((6, 2)))
    assert model.inertia_ == 0
    with pytest.warns(ShortFitWarning, match="max_iter"):
        mc.KernelKMeans(mc.RBF(0.5), 8, max_iter=1, n_init=1, random_state=0).fit(BLOBS)
    one = mc.KernelKMeans(mc.RBF(1.0), 1).fit(BLOBS)
    assert (one.labels_ == 0).all()
    each = mc.KernelKMeans(mc.RBF(1.0), 10, random_state=0).fit(BLOBS[:10])
    assert len(set(each.labels_)) == 10
