"""Random features as scikit-learn transformers: data of every kind, and what is refused."""

from __future__ import annotations

import pickle
import signal
from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NoFeatureMapError,
    ParameterError,
)
from monte_carlo import points

EXPONENTIAL = (mc.Linear() / 2).exp()
TRANSFORMERS = {
    "RandomFourier": mc.RandomFourier(mc.RBF(length_scale="scale"), 11, random_state=0),
    "iid": mc.RandomFourier(mc.Matern(), 10, method="iid", random_state=0),
    "sobol": mc.RandomFourier(mc.RationalQuadratic(), 10, method="sobol", random_state=0),
    "structured": mc.RandomFourier(mc.RBF(), 10, method="structured", random_state=0),
    "Fastfood": mc.Fastfood(mc.RBF(length_scale="median"), 11, random_state=0),
    "TensorSketch": mc.TensorSketch(mc.Polynomial(degree=2), 11, random_state=0),
    "PositiveFeatures": mc.PositiveFeatures(EXPONENTIAL, 11, random_state=0),
    "ArcCosineFeatures": mc.ArcCosineFeatures(n_components=11, random_state=0),
}
SPARSE = [name for name in TRANSFORMERS if name != "ArcCosineFeatures"]


def make(name: str) -> Any:
    return clone(TRANSFORMERS[name])


def exceptions_of_principle(estimator: Any) -> dict[str, str]:
    """Checks whose rows a kernel cannot take."""
    if estimator.get_params()["kernel"] is None and isinstance(estimator, mc.PositiveFeatures):
        return {"check_fit_idempotent": "exp(x'z) of rows near (100, 100) leaves the range"}
    return {}


@parametrize_with_checks(
    [
        mc.RandomFourier(n_components=7, random_state=0),
        mc.RandomFourier(mc.Laplacian() * mc.RBF(), 8, method="iid"),
        mc.RandomFourier(n_components=6, method="sobol"),
        mc.RandomFourier(n_components=6, method="structured"),
        mc.Fastfood(n_components=5),
        mc.TensorSketch(n_components=6),
        mc.PositiveFeatures((mc.Linear() / 1e4).exp(), n_components=6),  # rows of length 200
        mc.PositiveFeatures(),
        mc.ArcCosineFeatures(n_components=6),
    ],
    expected_failed_checks=exceptions_of_principle,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_output_has_the_type_of_the_input(name: str) -> None:
    X = points()
    wide = make(name).fit_transform(X)
    single = make(name).fit_transform(X.astype(np.float32))
    assert wide.dtype == np.float64
    assert single.dtype == np.float32
    assert wide.shape == single.shape == (30, make(name).n_components)
    assert_allclose(single, wide, atol=1e-4 * abs(wide).max())
    integers = np.arange(12).reshape(3, 4)
    assert make(name).fit(integers).transform(integers[:1]).dtype == np.float64


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_data(name: str, dtype: Any) -> None:
    X = sparse.random_array((30, 6), density=0.4, rng=np.random.default_rng(0)).astype(dtype)
    fitted = make(name).fit(X.toarray())
    assert_allclose(fitted.transform(sparse.csr_array(X)), fitted.transform(X.toarray()), atol=2e-5)
    alone = make(name).fit(sparse.csr_matrix(X)).transform(sparse.csc_array(X))
    assert alone.shape == (30, make(name).n_components)
    assert alone.dtype == dtype


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_and_names(frame: Any) -> None:
    X = points(20, 3)
    table = frame(dict(zip("abc", X.T, strict=True)))
    kernel = mc.RBF().on("a", "c") + mc.Matern().on("b")
    transformer = mc.RandomFourier(kernel, 12, random_state=0).fit(table)
    positional = mc.RBF().on(0, 2) + mc.Matern().on(1)
    same = mc.RandomFourier(positional, 12, random_state=0).fit(X)
    assert_allclose(transformer.transform(table), same.transform(X))
    names = transformer.get_feature_names_out()
    assert list(names[:2]) == ["randomfourier0", "randomfourier1"]
    assert len(names) == 12
    output = transformer.set_output(transform="pandas").transform(table)
    assert list(output.columns) == list(names)
    with pytest.raises(DataError, match=r"RandomFourier: .* not in the data frame"):
        transformer.transform(frame(dict(zip("abd", X.T, strict=True))))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_one_row_one_column_and_constants(name: str) -> None:
    for X in (np.array([[2.0]]), points(5, 1), np.full((4, 3), 3.0)):
        Phi = make(name).fit_transform(X)
        assert np.isfinite(Phi).all()
        assert Phi.shape == (len(X), make(name).n_components)
    assert_allclose(Phi, np.tile(Phi[:1], (4, 1)))


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_few_components(name: str, n_components: int) -> None:
    transformer = make(name).set_params(n_components=n_components).fit(points())
    assert transformer.transform(points()).shape == (30, n_components)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_draws_are_reproduced_and_rows_do_not_depend_on_each_other(name: str) -> None:
    X = points(3000, 4)
    with mc.threads(1):
        first = make(name).set_params(n_components=301).fit(X)
        whole = first.transform(X)
        assert_array_equal(make(name).set_params(n_components=301).fit(X).transform(X), whole)
    with mc.threads(2):  # BLAS may cut a product in other places, and round its sums otherwise
        again = make(name).set_params(n_components=301).fit(X).transform(X)
        assert_allclose(again, whole, atol=1e-13 * abs(whole).max())
    assert_allclose(first.transform(X[17:20]), whole[17:20], atol=1e-9 * abs(whole).max())
    assert_array_equal(pickle.loads(pickle.dumps(first)).transform(X[:5]), first.transform(X[:5]))
    assert_array_equal(first.transform(mc.Points(X[:5])), first.transform(X[:5]))
    other = make(name).set_params(n_components=301, random_state=1).fit_transform(X[:5])
    assert abs(other - whole[:5]).max() > 0


@pytest.mark.parametrize("name", ["RandomFourier", "structured", "Fastfood"])
def test_data_far_from_the_origin_keep_their_digits(name: str) -> None:
    """Phases of raw float32 values near 10^4 would be off by a thousandth, and more."""
    X = np.round(points() * 2**10) / 2**10
    far = (X + 2.0**13).astype(np.float32)
    transformer = make(name).set_params(n_components=400, kernel=mc.RBF())
    Phi = transformer.fit_transform(far).astype(float)
    wanted = transformer.fit_transform(X)
    assert_allclose(Phi @ Phi.T, wanted @ wanted.T, atol=1e-5)


def test_heuristics_are_resolved_by_fit_and_searches_reach_the_kernel() -> None:
    X = points(60)
    y = np.sin(2 * X[:, 0])
    transformer = mc.RandomFourier(mc.RBF(length_scale="median"), 100, random_state=0)
    assert transformer.fit(X).kernel_ == mc.RBF(length_scale="median").resolve(X)
    assert transformer.kernel == mc.RBF(length_scale="median")
    pipeline = make_pipeline(transformer, Ridge(1e-3))
    grid = {"randomfourier__kernel__length_scale": [0.01, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_["randomfourier__kernel__length_scale"] == 1.0
    assert scores[1] > scores[0] + 0.1


def test_ridge_on_features_is_close_to_kernel_ridge() -> None:
    X = points(200, 2)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    exact = mc.KernelRidge(mc.RBF(), alpha=0.1, fit_intercept=False).fit(X, y).predict(X)
    features = mc.RandomFourier(mc.RBF(), 4000, method="sobol", random_state=0).fit_transform(X)
    near = Ridge(0.1, fit_intercept=False).fit(features, y).predict(features)
    assert_allclose(near, exact, atol=0.02)


def test_warped_data_and_the_order_of_factors() -> None:
    X = np.exp(points(20, 2))
    warped = mc.RandomFourier(mc.RBF().warp(np.log), 10, random_state=0).fit_transform(X)
    plain = mc.RandomFourier(mc.RBF(), 10, random_state=0).fit_transform(np.log(X))
    assert_allclose(warped, plain)


def test_factors_on_the_same_columns_share_one_projection() -> None:
    X = points(20, 3)
    kernel = mc.RBF() * mc.Matern() * mc.RBF().on(0, 1) * mc.Laplacian().on(0, 1)
    (waves,) = mc.RandomFourier(kernel, 10, random_state=0).fit(X).maps_
    assert [p.matrix.shape for p in waves.projections] == [(3, 5), (2, 5)]
    assert waves.sources == (0, 2)
    (waves,) = mc.Fastfood(mc.RBF() ** 2, 10, random_state=0).fit(X).maps_
    assert waves.sources == (0, 1)


def interrupted(signal_number: int, frame: Any) -> None:
    raise InterruptedError


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers of signals")
@pytest.mark.parametrize("name", ["RandomFourier", "structured"])
def test_a_signal_stops_a_long_transform(name: str) -> None:
    X = points(20_000, 64)
    fitted = make(name).set_params(n_components=2000).fit(X)
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(InterruptedError):
            # Minutes, if nothing stopped it.
            deque((fitted.transform(X) for _ in range(1000)), maxlen=0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.isfinite(fitted.transform(X[:3])).all()


def test_huge_and_tiny_scales() -> None:
    X = points()
    for scale in (1e-150, 1e150):
        kernel = mc.RBF(length_scale=scale)
        Phi = mc.RandomFourier(kernel, 50, random_state=0).fit_transform(X * scale)
        wanted = mc.RandomFourier(mc.RBF(), 50, random_state=0).fit_transform(X)
        assert_allclose(Phi, wanted, atol=1e-12)
    rough = mc.RandomFourier(mc.Matern(nu=0.01), 51, random_state=0).fit_transform(X)
    assert np.isfinite(rough).all()


# --------------------------------------------------------------------------------------------------
# Refusals


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (mc.RandomFourier(mc.Laplacian(), method="structured"), "evenly over all directions"),
        (mc.Fastfood(mc.Periodic()), "evenly over all directions"),
        (mc.TensorSketch(mc.RBF()), "not a polynomial"),
        (mc.TensorSketch(mc.Linear() * mc.RBF()), "not a polynomial"),
        (mc.PositiveFeatures(mc.RBF()), "not the exponential of an inner product"),
        (mc.PositiveFeatures((mc.Linear() ** 2).exp()), "not the exponential of an inner"),
        (mc.PositiveFeatures(mc.Linear()), "not the exponential of an inner product"),
        (mc.ArcCosineFeatures(mc.RBF()), "not an arc-cosine kernel"),
        (mc.ArcCosineFeatures(mc.ArcCosine() * mc.ArcCosine()), "not an arc-cosine kernel"),
    ],
)
def test_kernels_of_another_kind(transformer: Any, message: str) -> None:
    with pytest.raises(NoFeatureMapError, match=message):
        transformer.fit(points())


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (mc.RandomFourier(n_components=0), "n_components = 0 is not a whole number >= 1"),
        (mc.RandomFourier(n_components=1.5), "n_components = 1.5 is not"),
        (
            mc.RandomFourier(method="fast"),
            "method = 'fast' is unknown; pass one of 'orthogonal', 'iid'",
        ),
        (
            mc.PositiveFeatures(method="structured"),
            "is unknown; pass one of 'orthogonal', 'iid', 'sobol'",
        ),
        (mc.RandomFourier("gauss"), "kernel = 'gauss' is not the name of a kernel"),
        (mc.RandomFourier(mc.RBF() + mc.Matern(), 1), "pass at least 2"),
        (mc.RandomFourier(mc.Cosine() + 1.0, 2), "pass at least 3"),
        (mc.RandomFourier(mc.RBF(length_scale=[1.0, 2.0])), "length_scale has 2 values"),
        (mc.PositiveFeatures((mc.Linear() + 1000.0).exp()), "constant in the exponent"),
    ],
)
def test_bad_parameters(transformer: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        transformer.fit(points())


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_bad_data(name: str) -> None:
    with pytest.raises(NotFittedError):
        make(name).transform(points())
    fitted = make(name).fit(points())
    bad = points()
    bad[3, 2] = np.nan
    with pytest.raises(DataError, match=type(fitted).__name__):
        fitted.transform(bad)
    with pytest.raises(DataError, match=type(fitted).__name__):
        fitted.transform(points(30, 5))
    before = fitted.transform(points())
    with pytest.raises(DataError):
        fitted.fit(bad)
    assert_array_equal(fitted.transform(points()), before)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_data_beyond_the_range_are_refused_and_not_turned_into_nan(name: str) -> None:
    fitted, huge = make(name).fit(points()), points() * 6e307
    with pytest.raises(DataError, match="beyond the range of float64"):
        fitted.transform(huge)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_memory_is_forecast(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryForecastError, match="pass fewer n_components"):
        make(name).set_params(n_components=10**14).fit(points())
    fitted = make(name).set_params(n_components=5000).fit(points())
    monkeypatch.setattr(memory, "available", lambda: 2**20)
    with pytest.raises(MemoryForecastError, match="features of 3000 rows needs"):
        fitted.transform(points(3000))
