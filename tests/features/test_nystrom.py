"""Features from landmarks: exact where theory says so, on every kind of data."""

from __future__ import annotations

import pickle
import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from landmark_data import KERNEL, WORDS, X, Z
from mercer.exceptions import (
    DataError,
    MercerWarning,
    ParameterError,
    ValidityError,
)

METHODS = ["rpcholesky", "uniform", "kmeans++", "leverage"]
RNG = np.random.default_rng(1)


def exceptions_of_principle(estimator: mc.Nystrom) -> dict[str, str]:
    """Checks that contradict what a configuration promises."""
    reason = "weights change the chances of rows, and so which of them a seed draws"
    excused = {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }
    if isinstance(estimator.kernel, mc.Precomputed):
        excused["check_positive_only_tag_during_fit"] = "the matrix given is not a valid one"
    return excused


@parametrize_with_checks(
    [
        *(mc.Nystrom(n_landmarks=5, landmarks=how, random_state=0) for how in METHODS),
        mc.Nystrom(mc.Precomputed(), 4, landmarks="uniform"),
    ],
    expected_failed_checks=exceptions_of_principle,
)
@pytest.mark.filterwarnings("ignore:.*is more than the:mercer.exceptions.MercerWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Identities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, mc.Matern(), mc.Laplacian(), mc.Polynomial(2)])
def test_all_rows_as_landmarks_give_the_kernel(kernel: mc.Kernel) -> None:
    model = mc.Nystrom(kernel, 150).fit(X)
    features = model.transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), atol=1e-10 * kernel(X).max())
    assert model.trace_error_ <= 1e-12
    # One point of a pair need only be a landmark.
    np.testing.assert_allclose(model.transform(Z) @ features.T, kernel(Z, X), atol=1e-6)


@pytest.mark.parametrize("how", METHODS)
def test_features_are_the_projection_on_the_landmarks(how: str) -> None:
    model = mc.Nystrom(KERNEL, 25, landmarks=how, random_state=1).fit(X)
    at = model.landmark_indices_
    assert at is not None
    np.testing.assert_array_equal(model.landmarks_.data, X[at])
    square = KERNEL(X[at])
    expected = KERNEL(Z, X[at]) @ np.linalg.solve(square, KERNEL(X[at], X))
    np.testing.assert_allclose(model.transform(Z) @ model.transform(X).T, expected, atol=1e-9)
    np.testing.assert_allclose(model.factor_.T @ model.factor_, square, atol=1e-12)
    left = KERNEL(X) - KERNEL(X, X[at]) @ np.linalg.solve(square, KERNEL(X[at], X))
    assert model.trace_error_ == pytest.approx(left.trace() / 150, rel=1e-6)


def test_the_same_landmarks_give_the_peers_kernel() -> None:
    peer = Nystroem(kernel="rbf", gamma=1 / 8, n_components=30, random_state=0).fit(X)
    ours = mc.Nystrom(KERNEL, landmarks=peer.component_indices_).fit(X)
    F, G = ours.transform(Z), peer.transform(Z)
    np.testing.assert_allclose(F @ F.T, G @ G.T, atol=1e-9)


def test_the_trace_error_falls_with_nested_landmarks() -> None:
    order = mc.Nystrom(KERNEL, 60, random_state=0).fit(X).landmark_indices_
    assert order is not None
    errors = [mc.Nystrom(KERNEL, landmarks=order[:m]).fit(X).trace_error_ for m in range(1, 61, 5)]
    assert all(later < earlier for earlier, later in pairwise(errors))


def test_the_trace_error_of_many_rows_is_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mc.Nystrom(KERNEL, landmarks=np.arange(10)).fit(X).trace_error_
    monkeypatch.setattr("mercer.features.nystrom._SAMPLE", 100)
    found = mc.Nystrom(KERNEL, landmarks=np.arange(10), random_state=0).fit(X).trace_error_
    assert found == pytest.approx(whole, rel=0.3)
    assert found != whole


def test_weights_of_rows_weigh_the_error() -> None:
    weights = np.where(np.arange(150) < 30, 1.0, 0.0)
    model = mc.Nystrom(KERNEL, landmarks=np.arange(30)).fit(X, sample_weight=weights)
    assert model.trace_error_ < 1e-12
    chosen = mc.Nystrom(KERNEL, 10, random_state=0).fit(X, sample_weight=weights)
    assert chosen.landmark_indices_ is not None
    assert chosen.landmark_indices_.max() < 30
    scaled = mc.Nystrom(n_landmarks=10).fit(X, sample_weight=weights).kernel_
    assert scaled == mc.RBF("columns").resolve(X, weights)


# Data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", METHODS)
def test_strings(how: str) -> None:
    kernel = mc.Spectrum(2).normalized()
    model = mc.Nystrom(kernel, 15, landmarks=how, random_state=0).fit(WORDS)
    features = model.transform(WORDS)
    assert features.shape == (60, model.rank_)
    np.testing.assert_allclose(
        (features @ features.T)[model.landmark_indices_],
        kernel(WORDS)[model.landmark_indices_],
        atol=1e-10,
    )


def test_given_matrices() -> None:
    K = KERNEL(X)
    at = [4, 8, 15, 16, 23, 42]
    rows = np.arange(150)[:, None]
    whole = mc.Nystrom(mc.Precomputed(), landmarks=at).fit(K)
    numbered = mc.Nystrom(mc.Precomputed(K), landmarks=at).fit(rows)
    plain = mc.Nystrom(KERNEL, landmarks=at).fit(X)
    for model, test in ((whole, K[:9]), (numbered, rows[:9])):
        assert model.landmark_indices_.tolist() == plain.landmark_indices_.tolist()  # type: ignore[union-attr]
        np.testing.assert_allclose(model.transform(test), plain.transform(X[:9]), atol=1e-10)
    points = mc.Nystrom(mc.Precomputed(K), landmarks=rows[at]).fit(rows)
    assert points.landmark_indices_ is None
    np.testing.assert_allclose(points.transform(rows[:9]), plain.transform(X[:9]), atol=1e-10)
    new = mc.Nystrom(mc.Precomputed(), 5, random_state=0).fit(K)
    assert new.transform(KERNEL(Z, X)).shape == (40, 5)


def test_frames_and_sparse_matrices() -> None:
    kernel = mc.RBF().on("a") * mc.Spectrum(2).normalized().on("word")
    frame = pd.DataFrame({"a": X[:60, 0], "word": WORDS})
    model = mc.Nystrom(kernel, 10, random_state=0).fit(frame)
    expected = model.transform(frame)
    np.testing.assert_allclose(model.transform(pl.from_pandas(frame)), expected)
    assert model.feature_names_in_.tolist() == ["a", "word"]
    matrix = sp.csr_array(np.where(X > 0.5, X, 0))
    sparse = mc.Nystrom(KERNEL, landmarks=[1, 2, 3]).fit(matrix)
    dense = mc.Nystrom(KERNEL, landmarks=[1, 2, 3]).fit(matrix.toarray())
    np.testing.assert_allclose(
        sparse.transform(matrix), dense.transform(matrix.toarray()), atol=1e-14
    )


@pytest.mark.parametrize("how", METHODS)
def test_float32_stays_float32(how: str) -> None:
    model = mc.Nystrom(KERNEL, 20, landmarks=how, random_state=0).fit(X.astype(np.float32))
    features = model.transform(Z.astype(np.float32))
    assert (features.dtype, model.factor_.dtype) == (np.float32, np.float32)
    double = mc.Nystrom(KERNEL, landmarks=model.landmark_indices_).fit(X)
    F = double.transform(Z)
    np.testing.assert_allclose(features @ features.T, F @ F.T, atol=1e-4)


def test_given_landmarks_take_the_type_of_the_data() -> None:
    model = mc.Nystrom(KERNEL, landmarks=Z).fit(X.astype(np.float32))
    assert model.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("scale", [1e-170, 1e-155, 1e-20, 1e20, 1e150])
def test_data_of_any_scale(how: str, scale: float) -> None:
    model = mc.Nystrom(mc.Linear(), 3, landmarks=how, random_state=0).fit(scale * X)
    features = model.transform(scale * X)
    assert np.isfinite(features).all()
    if scale > 1e-150:  # the squares of smaller ones are lost to underflow
        np.testing.assert_allclose(features @ features.T, scale**2 * (X @ X.T), rtol=1e-9)


def test_duplicates_constants_and_zeros() -> None:
    repeated = np.repeat(X[:5], 4, axis=0)
    model = mc.Nystrom(KERNEL, landmarks=np.arange(20)).fit(repeated)
    assert (model.rank_, len(model.landmarks_)) == (5, 5)
    features = model.transform(repeated)
    np.testing.assert_allclose(features @ features.T, KERNEL(repeated), atol=1e-12)
    constant = mc.Nystrom(n_landmarks=3).fit(np.ones((9, 2)))
    assert (constant.rank_, constant.transform(np.ones((2, 2))).tolist()) == (1, [[1.0], [1.0]])
    zero = mc.Nystrom(mc.Linear(), 3).fit(np.zeros((9, 2)))
    assert (zero.rank_, zero.trace_error_, zero.transform(X[:2, :2]).tolist()) == (0, 0, [[0], [0]])
    single = mc.Nystrom(n_landmarks=1).fit([[3.0]])
    assert single.transform([[3.0]]).tolist() == [[1.0]]


def test_no_second_matrix_is_held_by_transform() -> None:
    model = mc.Nystrom(KERNEL, 200, landmarks="uniform", random_state=0)
    model.fit(RNG.normal(size=(400, 3)))
    data = model.kernel_.prepare(RNG.normal(size=(20_000, 3)))
    model.transform(data)
    tracemalloc.start()
    features = model.transform(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * features.nbytes


# As a transformer ---------------------------------------------------------------------------------


def test_pipelines_searches_and_names() -> None:
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    pipeline = make_pipeline(mc.Nystrom(mc.RBF(1.0), 60, random_state=0), Ridge(alpha=1e-3))
    search = GridSearchCV(pipeline, {"nystrom__kernel__length_scale": [1e-3, 2.0]}, cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"nystrom__kernel__length_scale": 2.0}
    assert search.best_score_ > 0.9
    fitted = search.best_estimator_[0]
    names = fitted.get_feature_names_out()
    assert (names[0], names[-1], len(names)) == ("nystrom0", "nystrom59", 60)
    framed = mc.Nystrom(KERNEL, 4, random_state=0).set_output(transform="pandas").fit_transform(X)
    assert framed.columns.tolist() == [f"nystrom{j}" for j in range(4)]


def test_ridge_on_features_is_ridge_on_the_kernel() -> None:
    y = np.sin(X[:, 0])
    features = mc.Nystrom(KERNEL, 150).fit(X)
    explicit = Ridge(alpha=0.1).fit(features.transform(X), y)
    exact = mc.KernelRidge(KERNEL, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(explicit.predict(features.transform(Z)), exact.predict(Z), atol=1e-6)


def test_clones_and_pickles() -> None:
    model = mc.Nystrom(mc.Spectrum(2), 6, landmarks="kmeans++", random_state=0)
    assert clone(model).get_params() == model.get_params()
    loaded = pickle.loads(pickle.dumps(model.fit(WORDS)))
    np.testing.assert_array_equal(loaded.transform(WORDS), model.transform(WORDS))
    own = mc.Nystrom(KERNEL, landmarks=Z)
    assert clone(own).landmarks is not None
    assert own.fit(X).landmark_indices_ is None


def test_a_failed_fit_leaves_the_last_one() -> None:
    model = mc.Nystrom(KERNEL, 5, random_state=0).fit(X)
    before = model.transform(Z)
    with pytest.raises(DataError):
        model.fit(np.full((3, 3), np.nan))
    np.testing.assert_array_equal(model.transform(Z), before)


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_landmarks", [0, -1, 1.5, "ten", None, True])
def test_the_number_of_landmarks(n_landmarks: Any) -> None:
    with pytest.raises(ParameterError, match=r"Nystrom: n_landmarks = .* whole number >= 1"):
        mc.Nystrom(KERNEL, n_landmarks).fit(X)


def test_more_landmarks_than_rows() -> None:
    with pytest.warns(MercerWarning, match="Nystrom: n_landmarks = 100 is more than the 40 rows"):
        model = mc.Nystrom(KERNEL).fit(Z)
    np.testing.assert_allclose(model.transform(Z) @ model.transform(Z).T, KERNEL(Z), atol=1e-10)


def test_other_bad_input() -> None:
    with pytest.raises(ParameterError, match=r"Nystrom: .*White.*noise="):
        mc.Nystrom(KERNEL + mc.White(), 5).fit(X)
    with pytest.raises(ParameterError, match="not the name of a kernel"):
        mc.Nystrom("gauss", 5).fit(X)
    with pytest.raises(ParameterError, match="Nystrom: landmarks = 'best' is unknown"):
        mc.Nystrom(KERNEL, 5, landmarks="best").fit(X)
    with pytest.raises(DataError, match="columns"):
        mc.Nystrom(KERNEL, landmarks=Z[:, :2]).fit(X)
    with pytest.raises(DataError, match="infinity"):
        mc.Nystrom(mc.Linear(), 5, landmarks="uniform").fit(1e200 * X)
    with pytest.raises(ValidityError, match="not valid"):
        mc.Nystrom(mc.Sigmoid(gain=2.0, offset=-1.0), 20, landmarks="uniform").fit(X)
    with pytest.raises(NotFittedError):
        mc.Nystrom().inverse_transform(X)
    with pytest.raises(DataError, match="features have 3 columns, but there are 5"):
        mc.Nystrom(KERNEL, 5).fit(X).inverse_transform(X)
