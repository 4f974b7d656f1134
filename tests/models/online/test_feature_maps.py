"""Explicit features against the kernel that they define."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from model_samples import STREAM

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, WEIGHTS, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)


def squares(data: Array) -> Array:
    return np.column_stack([np.ones(len(data)), data, data**2])


SAMPLER = RBFSampler(n_components=40, random_state=0)
FITTED = clone(SAMPLER).fit(X)
FEATURE_MAPS: list[tuple[Any, mc.Kernel]] = [
    (squares, mc.Linear().warp(squares)),
    (mc.Polynomial(degree=2), mc.Polynomial(degree=2)),
    (SAMPLER, mc.Linear().warp(FITTED.transform)),
    (FrozenEstimator(FITTED), mc.Linear().warp(FITTED.transform)),
]


@pytest.mark.parametrize(("feature_map", "kernel"), FEATURE_MAPS)
@pytest.mark.parametrize("method", ["stochastic", "batch"])
@pytest.mark.parametrize("y", [Y, BOTH])
def test_features_and_kernel_agree(feature_map: Any, kernel: Any, method: Any, y: Array) -> None:
    settings: Any = {"alpha": 0.2, "method": method, "max_iter": 3, "tol": 0, "batch_size": 16}
    primal = mc.KernelLMS(feature_map=feature_map, **settings).fit(X, y, WEIGHTS)
    dual = mc.KernelLMS(kernel, **settings).fit(X, y, WEIGHTS)
    assert primal.step_size_ == pytest.approx(dual.step_size_, rel=1e-9)
    np.testing.assert_allclose(primal.predict(Z), dual.predict(Z), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(primal.learning_curve_, dual.learning_curve_, rtol=1e-8, atol=1e-12)
    assert not hasattr(primal, "points_")
    assert primal.coef_.shape[1:] == y.shape[1:]
    if method == "stochastic":
        primal.partial_fit(Z, y[:9])
        dual.partial_fit(Z, y[:9])
        np.testing.assert_allclose(primal.predict(X), dual.predict(X), rtol=1e-8, atol=1e-12)


def test_a_transformer_is_cloned_and_fitted() -> None:
    model = mc.KernelLMS(feature_map=StandardScaler(), step_size=0.01)
    copy = clone(model)
    model.fit(3 * X + 5, Y)
    np.testing.assert_allclose(copy.fit(3 * X + 5, Y).predict(Z), model.predict(Z))
    assert not hasattr(model.feature_map, "mean_")
    np.testing.assert_allclose(model.feature_map_.mean_, (3 * X + 5).mean(axis=0))
    scaled = (3 * X + 5 - (3 * X + 5).mean(axis=0)) / (3 * X).std(axis=0)
    by_hand = mc.KernelLMS(mc.Linear(), step_size=0.01).fit(scaled, Y)
    expected = by_hand.predict((Z - (3 * X + 5).mean(axis=0)) / (3 * X).std(axis=0))
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-9)
    # Later rows do not refit it, rows of weight zero are not shown to it.
    model.partial_fit(Z, np.zeros(9))
    np.testing.assert_allclose(model.feature_map_.mean_, (3 * X + 5).mean(axis=0))
    kept = np.arange(N) % 3 > 0
    weighted = mc.KernelLMS(feature_map=StandardScaler()).fit(X, Y, kept.astype(float))
    np.testing.assert_allclose(weighted.feature_map_.mean_, X[kept].mean(axis=0))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(Z), model.predict(Z))


def test_parameters_of_a_transformer_are_searched() -> None:
    search = GridSearchCV(
        mc.KernelLMS(feature_map=RBFSampler(random_state=0)),
        {"feature_map__n_components": [2, 60]},
        cv=3,
    )
    search.fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    assert len(search.best_estimator_.coef_) == search.best_params_["feature_map__n_components"]


def test_features_keep_no_points_to_explain_by() -> None:
    model = mc.KernelLMS(feature_map=squares).fit(X, Y)
    with pytest.raises(ParameterError, match=r"none is kept with feature_map; read coef_"):
        model.contributions(Z)


def test_what_a_transformer_refuses_is_a_data_error() -> None:
    with pytest.raises(DataError, match=r"(?s)KernelLMS: .*StandardScaler"):
        mc.KernelLMS(feature_map=StandardScaler()).fit(np.full((5, 2), np.nan) * 1j, Y[:5])
    with pytest.raises(ParameterError, match="is not a map"):
        mc.KernelLMS(feature_map=StandardScaler).fit(X, Y)


def test_sparse_features() -> None:
    dense = np.where(X > 0, X, 0)
    for method in ("stochastic", "batch"):
        settings: Any = {"feature_map": mc.Linear(), "method": method, "tol": 0, "max_iter": 2}
        expected = mc.KernelLMS(**settings).fit(dense, Y).predict(dense)
        found = mc.KernelLMS(**settings).fit(sp.csr_array(dense), Y).predict(sp.csr_array(dense))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_bad_feature_maps() -> None:
    with pytest.raises(ParameterError, match="both given"):
        mc.KernelLMS(RBF, feature_map=squares).fit(X, Y)
    with pytest.raises(ParameterError, match="is not a map"):
        mc.KernelLMS(feature_map=3).fit(X, Y)
    with pytest.raises(ParameterError, match="depend on the data at hand"):
        mc.KernelLMS(feature_map=mc.Spectrum(2)).fit(["ab", "bc"], [1.0, 2.0])
    with pytest.raises(ParameterError, match="no meaning with feature_map"):
        mc.KernelLMS(feature_map=squares, budget=mc.budgets.Remove(3)).fit(X, Y)
    with pytest.raises(mc.exceptions.NoFeatureMapError):
        mc.KernelLMS(feature_map=RBF).fit(X, Y)
    model = mc.KernelLMS(feature_map=lambda data: np.ones((len(data), len(data)))).fit(X, Y)
    with pytest.raises(DataError, match="returned 9 columns, but 60 before"):
        model.predict(Z)
    model.set_params(feature_map=None)
    with pytest.raises(ParameterError, match="was changed"):
        model.partial_fit(X, Y)
