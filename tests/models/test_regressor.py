"""Predictions of regressors: their precision, their shape, and their score."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_regressor
from sklearn.metrics import r2_score

import mercer as mc
from mercer.exceptions import DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 3 + 0.3 * RNG.normal(size=30)
KERNEL = mc.RBF(length_scale=1.5)

#: Variances are differences of nearly equal numbers, and means go with them; the gap of a support
#: vector machine is that of its rows in float64, as are scikit-learn's.
IN_DOUBLE = (mc.GaussianProcessRegressor, mc.SVR, mc.NuSVR)


def regressors() -> list[Any]:
    """Every public regressor, and those whose settings change how predictions are computed."""
    public = (getattr(mc, name) for name in mc.__all__)
    classes = (c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator))
    return [
        *(model for model in (c(KERNEL) for c in classes) if is_regressor(model)),
        mc.KernelLMS(feature_map=mc.Polynomial(2)),
        mc.KernelLMS(KERNEL, alpha=1.0, method="batch"),
        mc.KernelLMS(KERNEL, budget=mc.budgets.Project(5)),
        mc.NadarayaWatson(KERNEL, degree=1),
    ]


@pytest.mark.parametrize("model", regressors(), ids=str)
@pytest.mark.parametrize("of_targets", [np.float32, np.float64])
def test_predictions_have_the_precision_of_the_data(model: Any, of_targets: Any) -> None:
    y = Y.astype(of_targets)
    double = model.fit(X, y).predict(X)
    assert double.dtype == np.float64
    assert model.fit(X.astype(int), y).predict(X.astype(int)).dtype == np.float64
    single = model.fit(X.astype(np.float32), y).predict(X.astype(np.float32))
    assert single.dtype == (np.float64 if isinstance(model, IN_DOUBLE) else np.float32)
    np.testing.assert_allclose(single, double, rtol=2e-3, atol=2e-3)


def test_the_score_is_the_mean_coefficient_of_determination() -> None:
    targets, weights = np.column_stack([Y, X[:, 1]]), RNG.uniform(0.5, 2.0, size=30)
    for model in (mc.KernelRidge(KERNEL), mc.NadarayaWatson(KERNEL)):
        expected = r2_score(targets, model.fit(X, targets).predict(X), sample_weight=weights)
        assert model.score(X, targets, weights) == pytest.approx(expected)
        with pytest.raises(DataError, match="a score needs true targets"):
            model.score(X)


def test_predictions_have_the_shape_of_the_targets() -> None:
    for model in (mc.KernelRidge(KERNEL), mc.NadarayaWatson(KERNEL), mc.KernelLMS(KERNEL)):
        assert model.fit(X, Y).predict(X[:4]).shape == (4,)
        assert model.fit(X, Y[:, None]).predict(X[:4]).shape == (4, 1)
