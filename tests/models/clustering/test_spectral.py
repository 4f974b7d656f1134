"""Spectral clustering against the dense eigenproblem and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import cluster
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.models.clustering import spectral
from references import matrix, rbf

MOONS, MOON = make_moons(240, noise=0.05, random_state=0)


@parametrize_with_checks([mc.SpectralClustering(n_clusters=2, random_state=0)])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_places_are_eigenvectors_of_the_normalised_matrix() -> None:
    model = mc.SpectralClustering(mc.RBF(0.3), 3, random_state=0).fit(MOONS)
    K = matrix(rbf, MOONS, length_scale=0.3)
    degrees = K.sum(axis=1)
    values, vectors = np.linalg.eigh(K / np.sqrt(np.outer(degrees, degrees)))
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:3])
    expected = vectors[:, ::-1][:, :3] / np.sqrt(degrees)[:, None]
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(expected), atol=1e-9)


def test_products_alone_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = mc.SpectralClustering(mc.RBF(0.1), 2, random_state=0).fit(MOONS)
    monkeypatch.setattr(spectral, "_STORED_ROWS", 10)
    streamed = mc.SpectralClustering(mc.RBF(0.1), 2, random_state=0).fit(MOONS)
    np.testing.assert_allclose(streamed.eigenvalues_, stored.eigenvalues_)
    assert adjusted_rand_score(streamed.labels_, stored.labels_) == 1.0


@pytest.mark.parametrize(
    ("X", "count", "gamma"),
    [
        (MOONS, 2, 20.0),
        (make_circles(240, factor=0.5, noise=0.05, random_state=0)[0], 2, 20.0),
        (make_blobs(240, centers=3, random_state=8)[0], 3, 1.0),
    ],
    ids=["moons", "rings", "blobs"],
)
@pytest.mark.filterwarnings("ignore:Graph is not fully connected:UserWarning")
def test_scikit_learn_finds_the_same_clusters(X: np.ndarray, count: int, gamma: float) -> None:
    theirs = cluster.SpectralClustering(
        count, affinity="nearest_neighbors", n_neighbors=10, random_state=0
    ).fit_predict(X)
    ours = mc.SpectralClustering(mc.RBF(), count, n_neighbors=10, random_state=0).fit_predict(X)
    assert adjusted_rand_score(ours, theirs) > 0.98
    theirs = cluster.SpectralClustering(count, gamma=gamma, random_state=0).fit_predict(X)
    ours = mc.SpectralClustering("rbf", count, gamma=gamma, random_state=0).fit_predict(X)
    assert adjusted_rand_score(ours, theirs) > 0.95


@pytest.mark.parametrize("n_neighbors", [None, 10])
def test_new_rows_join_the_clusters_of_their_neighbours(n_neighbors: int | None) -> None:
    model = mc.SpectralClustering(mc.RBF(0.1), 2, n_neighbors=n_neighbors, random_state=0)
    labels = model.fit_predict(MOONS)
    if n_neighbors is None:  # the equation of places holds exactly at training rows
        assert (model.predict(MOONS) == labels).all()
    new, moon = make_moons(100, noise=0.05, random_state=1)
    assert adjusted_rand_score(moon, model.predict(new)) > 0.95


def test_bad_input() -> None:
    with pytest.raises(DataError, match="negative values"):
        mc.SpectralClustering(mc.Linear(), 2).fit(MOONS)
    with pytest.raises(DataError, match="at most as many"):
        mc.SpectralClustering(n_clusters=4).fit(MOONS[:3])
    K = np.pad(np.eye(3) + 0.1, (0, 1))
    with pytest.raises(DataError, match="row 3 has no link"):
        mc.SpectralClustering("precomputed", 2).fit(K)
    with pytest.raises(ParameterError, match="n_neighbors"):
        mc.SpectralClustering(n_clusters=2, n_neighbors=1).fit(MOONS)
