"""Kernel regression against loops over rows, refitting, and its limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, ParameterError, ValidityError
from mercer.models.kernel_regression.local_fits import Smoother
from references import derivative, rbf

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=30)
BOTH = np.column_stack([Y, X[:, 0] * X[:, 1]])
Z = RNG.normal(size=(7, 2))
WEIGHTS = RNG.integers(0, 4, size=30).astype(float)
RBF = mc.RBF(length_scale=0.8)


def exceptions_of_principle(estimator: mc.NadarayaWatson) -> dict[str, str]:
    """Checks that contradict what a configuration promises."""
    if estimator.bandwidth is None:
        return {}
    reason = "a row is left out with its weight, its copies are left out one by one"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@parametrize_with_checks(
    [
        mc.NadarayaWatson(),
        mc.NadarayaWatson(degree=1),
        mc.NadarayaWatson(degree=1, bandwidth=None),
        mc.NadarayaWatson(mc.RBF(length_scale=1.0), bandwidth=None),
    ],
    expected_failed_checks=exceptions_of_principle,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# The definition ----------------------------------------------------------------------------------


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


# The bandwidth -----------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1])
def test_the_bandwidth_has_the_least_leave_one_out_error(degree: Any) -> None:
    model = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y)
    assert model.converged_
    assert model.loo_error_ == pytest.approx(np.mean(model.loo_residuals_**2))
    for scale in np.geomspace(0.02, 30, 60):
        other = mc.NadarayaWatson(mc.RBF(length_scale=scale), degree=degree, bandwidth=None)
        assert model.loo_error_ <= np.mean(other.fit(X, Y).loo_residuals_ ** 2) * (1 + 1e-6)


@pytest.mark.parametrize("degree", [0, 1])
def test_a_row_is_left_out_with_its_weight(degree: Any) -> None:
    once = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y)
    weighted = mc.NadarayaWatson(RBF, degree=degree).fit(X, Y, np.full(30, 2.0))
    assert weighted.kernel_.length_scale == pytest.approx(once.kernel_.length_scale)


def test_each_column_has_its_own_bandwidth() -> None:
    relevant = RNG.uniform(-2, 2, size=(120, 2))
    target = np.sin(3 * relevant[:, 0])
    model = mc.NadarayaWatson(mc.RBF(length_scale=[1.0, 1.0])).fit(relevant, target)
    first, second = model.kernel_.length_scale
    assert second > 10 * first
    common = mc.NadarayaWatson(mc.RBF()).fit(relevant, target)
    assert model.loo_error_ < common.loo_error_


def test_fixed_and_bounded_length_scales_are_respected() -> None:
    bounded = mc.NadarayaWatson(mc.RBF(length_scale=mc.Bounded(3.0, 2.0, 4.0))).fit(X, Y)
    assert bounded.kernel_.length_scale == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="no free parameter"):
        mc.NadarayaWatson(mc.RBF(length_scale=mc.Fixed(1.0))).fit(X, Y)


# Limits ------------------------------------------------------------------------------------------


def test_a_line_reproduces_straight_lines() -> None:
    line = 2 * X[:, 0] - X[:, 1] + 5
    model = mc.NadarayaWatson(mc.RBF(length_scale=0.5), degree=1, bandwidth=None).fit(X, line)
    np.testing.assert_allclose(model.predict(Z), 2 * Z[:, 0] - Z[:, 1] + 5, rtol=1e-9)
    np.testing.assert_allclose(model.loo_residuals_, 0, atol=1e-8)


@pytest.mark.parametrize("kernel", [mc.RBF, mc.Laplacian, mc.Matern, mc.Wendland])
def test_a_tiny_bandwidth_is_the_nearest_neighbour(kernel: Any) -> None:
    peer = KNeighborsRegressor(n_neighbors=1, p=1 if kernel is mc.Laplacian else 2)
    expected = peer.fit(X, Y).predict(Z)
    for degree in (0, 1):
        model = mc.NadarayaWatson(kernel(length_scale=1e-5), degree=degree, bandwidth=None)
        np.testing.assert_allclose(model.fit(X, Y).predict(Z), expected, rtol=1e-12)


def test_a_huge_bandwidth_is_the_mean_or_least_squares() -> None:
    wide = mc.RBF(length_scale=1e6)
    mean = mc.NadarayaWatson(wide, bandwidth=None).fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(mean.predict(Z), np.average(Y, weights=WEIGHTS), rtol=1e-9)
    plane = mc.NadarayaWatson(wide, degree=1, bandwidth=None).fit(X, Y, WEIGHTS)
    peer = LinearRegression().fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(plane.predict(Z), peer.predict(Z), rtol=1e-8)


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


@pytest.mark.parametrize("degree", [0, 1])
def test_degenerate_data(degree: Any) -> None:
    one = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit([[1.0, 2.0]], [3.0])
    np.testing.assert_allclose(one.predict(Z), 3.0)
    copies = np.repeat([[3.7, 1.1]], 5, axis=0)
    model = mc.NadarayaWatson(degree=degree).fit(copies, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(model.predict(copies[:1] + 0.01), 3.0)
    constant = np.column_stack([X[:, 0], np.full(30, 3.7)])
    flat = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(constant, Y)
    alone = mc.NadarayaWatson(RBF, degree=degree, bandwidth=None).fit(X[:, :1], Y)
    np.testing.assert_allclose(flat.predict(constant), alone.predict(X[:, :1]), rtol=1e-8)
    same = mc.NadarayaWatson(degree=degree).fit(X, np.full(30, 2.0))
    np.testing.assert_allclose(same.predict(Z), 2.0)


@pytest.mark.parametrize("degree", [0, 1])
def test_units_do_not_matter(degree: Any) -> None:
    once = mc.NadarayaWatson(degree=degree).fit(X, Y)
    other = mc.NadarayaWatson(degree=degree).fit(X * 1e5, Y * 1e-6)
    np.testing.assert_allclose(other.predict(Z * 1e5), once.predict(Z) * 1e-6, rtol=1e-5)


def test_data_frames() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = mc.NadarayaWatson(RBF.on("a"), degree=1, bandwidth=None).fit(frame, Y)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert np.isfinite(model.predict(frame)).all()


# Bad input ---------------------------------------------------------------------------------------


def test_negative_kernel_values_are_refused() -> None:
    for kernel in (mc.Linear(), mc.Cosine()):
        with pytest.raises(ValidityError, match="negative values"):
            mc.NadarayaWatson(kernel, bandwidth=None).fit(X, Y)
    positive = mc.NadarayaWatson(mc.Linear(), bandwidth=None).fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValidityError, match="negative values"):
        positive.predict([[-1.0]])


def test_bad_parameters_and_data() -> None:
    with pytest.raises(ParameterError, match="degree = 2"):
        mc.NadarayaWatson(degree=2).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="length_scale"):
        mc.NadarayaWatson(bandwidth=0.5).fit(X, Y)  # type: ignore[arg-type]
    several: Any = np.array([0.5, 1.0])
    for settings in ({"degree": several}, {"bandwidth": several}):
        with pytest.raises(ParameterError, match="array"):
            mc.NadarayaWatson(**settings).fit(X, Y)
    with pytest.raises(ParameterError, match="coordinates"):
        mc.NadarayaWatson(mc.Precomputed(), degree=1).fit(np.eye(3), [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="at least two rows"):
        mc.NadarayaWatson().fit([[1.0]], [1.0])
    with pytest.raises(DataError, match="at least one non-zero"):
        mc.NadarayaWatson().fit(X, Y, np.zeros(30))
    with pytest.raises(DataError):
        mc.NadarayaWatson(mc.Spectrum(2), degree=1, bandwidth=None).fit(["ab", "bc"], [1.0, 2.0])
    with pytest.raises(NotFittedError):
        mc.NadarayaWatson().predict(X)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Smoother.loo_gradient, [0]

    def interrupted(self: Smoother) -> Any:
        calls[0] += 1
        if calls[0] > 4:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(Smoother, "loo_gradient", interrupted)
    model = mc.NadarayaWatson(mc.RBF(length_scale=[0.5, 5.0]))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    assert math.isfinite(model.predict(Z).sum())
