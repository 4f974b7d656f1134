"""The truncated feature map of the RBF kernel, and the bound of its error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import features
from mercer.exceptions import ParameterError
from monte_carlo import points


def rbf(X: np.ndarray, Z: np.ndarray, length_scale: float | np.ndarray = 1.0) -> np.ndarray:
    return np.exp(-cdist(X / length_scale, Z / length_scale, "sqeuclidean") / 2)


@parametrize_with_checks([features.TaylorRBF(degree=2), features.TaylorRBF(3, length_scale=2.0)])
def test_scikit_learn_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize("length_scale", [0.7, 2.0, [0.5, 1.0, 4.0]])
@pytest.mark.parametrize("degree", [0, 1, 4, 9])
def test_error_bound_holds_entry_by_entry(degree: int, length_scale: float | list[float]) -> None:
    X, Z = points(30, 3), 2 * points(20, 3, 1)
    taylor = features.TaylorRBF(degree, length_scale=length_scale).fit(X)
    error = np.abs(
        taylor.transform(X) @ taylor.transform(Z).T - rbf(X, Z, np.asarray(length_scale))
    )
    bound = taylor.error_bound(X, Z)
    assert bound.shape == error.shape
    assert (error <= (1 + 1e-9) * bound + 1e-14).all()
    # Where x.z >= 0 all terms of the series have one sign, and the bound is the error.
    positive = (X / length_scale) @ (Z / np.asarray(length_scale)).T >= 0
    assert_allclose(error[positive], bound[positive], rtol=1e-9, atol=1e-14)
    assert_allclose(taylor.error_bound(X), taylor.error_bound(X, X))


def test_error_goes_to_zero_and_the_bound_is_not_idle() -> None:
    X = points(30, 2)
    errors, bounds = [], []
    for degree in (2, 6, 12, 24, 40):
        taylor = features.TaylorRBF(degree).fit(X)
        Phi = taylor.transform(X)
        errors.append(np.abs(Phi @ Phi.T - rbf(X, X)).max())
        bounds.append(taylor.error_bound(X).max())
    assert errors[-1] < 1e-14
    assert bounds[-1] < 1e-14
    assert np.all(np.diff(bounds) < 0)
    assert_allclose(errors[:3], bounds[:3], rtol=1e-6)  # the diagonal, where x.x >= 0, is worst


def test_taylor_features_are_the_stated_monomials() -> None:
    X = points(4, 2)
    taylor = features.TaylorRBF(3, length_scale=0.5).fit(X)
    names = taylor.get_feature_names_out()
    assert list(names) == features.polynomial_names(2, 3)
    column = list(names).index("x0^2*x1")
    x = X / 0.5
    expected = np.exp(-(x**2).sum(axis=1) / 2) * x[:, 0] ** 2 * x[:, 1] / math.sqrt(2)
    assert_allclose(taylor.transform(X)[:, column], expected)
    assert list(taylor.get_feature_names_out(["u", "v"]))[:3] == ["1", "u", "v"]
    same = features.TaylorRBF(np.int64(3), length_scale=[0.5, 0.5]).fit(X)  # type: ignore[arg-type]
    assert_array_equal(same.transform(X), taylor.transform(X))


@pytest.mark.parametrize("size", [1e2, 1e8, 1e100, 1e200])
def test_far_from_the_origin_features_vanish_and_the_bound_says_so(size: float) -> None:
    X = np.array([[size, size], [-size, size], [0.5, 0.5]])
    taylor = features.TaylorRBF(5).fit(X)
    Phi = taylor.transform(X)
    assert_array_equal(Phi[:2], 0)
    assert np.isfinite(Phi).all()
    bound = taylor.error_bound(X)
    error = np.abs(Phi @ Phi.T - np.eye(3))
    assert (error[:2, :2] <= bound[:2, :2] + 1e-15).all()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"degree": -1}, "degree = -1"),
        ({"degree": 1.5}, "degree = 1.5"),
        ({"length_scale": 0.0}, "length_scale = 0.0"),
        ({"length_scale": -1.0}, "length_scale = -1.0"),
        ({"length_scale": [1.0, 2.0, 3.0]}, "2 of them"),
        ({"length_scale": math.inf}, "length_scale = inf"),
    ],
)
def test_taylor_parameters_are_checked(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=f"TaylorRBF: .*{text}"):
        features.TaylorRBF(**parameters).fit(points(3, 2))  # type: ignore[arg-type]
