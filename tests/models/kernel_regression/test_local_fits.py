"""Local constants and lines against loops over rows, refitting, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import ValidityError
from mercer.models.kernel_regression.local_fits import Smoother
from model_samples import PLANE
from references import derivative, rbf

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, WEIGHTS, _ = PLANE
RBF = mc.RBF(length_scale=0.8)


def naive(x: Array, points: Array, y: Array, w: Array, degree: int, length_scale: Any) -> Array:
    """One prediction, by weighted least squares with lstsq."""
    v = np.array([rbf(x, p, length_scale) for p in points]) * w
    columns = [np.ones(len(points)), *((points - x).T if degree else ())]
    root = np.sqrt(v)[:, None]
    solution = np.linalg.lstsq(root * np.column_stack(columns), root * y, rcond=None)[0]
    return np.asarray(solution[0])


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_predictions_are_local_least_squares(degree: Any, weights: Array | None) -> None:
    w = np.ones(30) if weights is None else weights
    model = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X, BOTH, weights)
    expected = [naive(x, X, BOTH, w, degree, 0.8) for x in Z]
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-9)
    single = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X, Y, weights)
    np.testing.assert_allclose(single.predict(Z), model.predict(Z)[:, 0], rtol=1e-12)


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_leave_one_out_is_refitting(degree: Any, weights: Array | None) -> None:
    w = np.ones(30) if weights is None else weights
    model = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X, BOTH, weights)
    kept = np.flatnonzero(w)
    squares = []
    for place, i in enumerate(kept):
        rest = kept[kept != i]
        expected = BOTH[i] - naive(X[i], X[rest], BOTH[rest], w[rest], degree, 0.8)
        np.testing.assert_allclose(model.loo_residuals_[place], expected, rtol=1e-8, atol=1e-10)
        squares.append(w[i] * (expected**2).sum() / 2)
    # The error is there with a given bandwidth, and with one that was searched.
    assert model.loo_error_ == pytest.approx(sum(squares) / w.sum(), rel=1e-9)


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_error_of_the_search_is_that_of_refitting(degree: Any, weights: Array | None) -> None:
    w = np.ones(30) if weights is None else weights
    model = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y, weights)
    kept, scale = np.flatnonzero(w), model.kernel_.length_scale
    left_out = []
    for i in kept:
        rest = kept[kept != i]
        left_out.append(Y[i] - naive(X[i], X[rest], Y[rest, None], w[rest], degree, scale)[0])
    assert model.loo_error_ == pytest.approx(np.average(np.square(left_out), weights=w[kept]))


@pytest.mark.parametrize("degree", [0, 1])
def test_the_gradient_of_the_error_is_its_derivative(degree: int) -> None:
    kernel = mc.RBF(length_scale=[0.6, 0.9]) * mc.RationalQuadratic(alpha=2.0)
    fitted = mc.NadarayaWatson(kernel, degree=degree, bandwidth=None).fit(X, BOTH, WEIGHTS + 0.5)
    smoother = fitted._smoother

    def error(theta: Array) -> float:
        return _moved(smoother, kernel.with_theta(theta)).loo_error()

    value, gradient = smoother.loo_gradient()
    assert value == pytest.approx(smoother.loo_error(), rel=1e-12)
    for j, slope in enumerate(gradient):
        direction = np.eye(len(gradient))[j]
        expected = derivative(lambda t, e=direction: error(kernel.theta + t * e))
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-9)


def _moved(smoother: Smoother, kernel: mc.Kernel) -> Smoother:
    return Smoother(
        kernel, smoother.points, smoother.targets, smoother.weights, smoother.coordinates
    )


def test_a_line_reproduces_straight_lines() -> None:
    line = 2 * X[:, 0] - X[:, 1] + 5
    model = mc.NadarayaWatson(mc.RBF(length_scale=0.5), degree=1, bandwidth=None).fit(X, line)
    np.testing.assert_allclose(model.predict(Z), 2 * Z[:, 0] - Z[:, 1] + 5, rtol=1e-9)
    np.testing.assert_allclose(model.loo_residuals_, 0, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("degree", [0, 1])
def test_far_from_the_data_is_the_nearest_target(degree: Any, dtype: Any) -> None:
    model = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X.astype(dtype), Y)
    far = np.array([[1e6, 0.0], [0.0, -1e4], [-300.0, 0.0]], dtype=dtype)
    nearest = [int(np.argmin(((X - place) ** 2).sum(axis=1))) for place in far.astype(float)]
    np.testing.assert_allclose(model.predict(far), Y[nearest], rtol=1e-6)


def test_lines_far_from_all_data_are_constants() -> None:
    # Seen from there all points are equally near, and a line through them would go on for ever.
    model = mc.NadarayaWatson(RBF, degree=1, bandwidth=None).fit(X, Y)
    far = [[1e300, 0.0], [-1e200, 1e200]]
    assert (np.abs(model.predict(far)) <= np.abs(Y).max()).all()
    np.testing.assert_allclose(model.contributions(far).prediction, model.predict(far))


def test_strings_that_share_nothing_get_the_mean() -> None:
    words = ["abab", "baba", "cccc"]
    model = mc.NadarayaWatson(mc.Spectrum(2), bandwidth=None).fit(words, [1.0, 2.0, 6.0])
    assert model.predict(["zzzz"])[0] == pytest.approx(3.0)
    assert model.predict(["abab"])[0] == pytest.approx((5 * 1 + 4 * 2) / 9)
    assert np.isfinite(model.loo_residuals_).all()


def test_negative_kernel_values_are_refused() -> None:
    for kernel in (mc.Linear(), mc.Cosine()):
        with pytest.raises(ValidityError, match="negative values"):
            mc.NadarayaWatson(kernel, bandwidth=None).fit(X, Y)
    positive = mc.NadarayaWatson(mc.Linear(), bandwidth=None).fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValidityError, match="negative values"):
        positive.predict([[-1.0]])
