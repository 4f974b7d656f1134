"""Kernels by scikit-learn's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import svm
from sklearn.metrics.pairwise import (
    linear_kernel,
)

import mercer as mc
from irises import NAMES, TOL, TWO, X, Z
from mercer.exceptions import (
    ParameterError,
)


@pytest.mark.filterwarnings("ignore:.*may have several solutions")
def test_an_indefinite_name_is_taken_as_scikit_learn_takes_it() -> None:
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = mc.SVC(kernel="sigmoid", gamma=0.3, tol=TOL).fit(scaled, TWO)
    theirs = svm.SVC(kernel="sigmoid", gamma=0.3, tol=TOL).fit(scaled, TWO)
    np.testing.assert_array_equal(ours.predict(scaled), theirs.predict(scaled))


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": "rbf", "gamma": 0.0},
        {"kernel": "sigmoid", "gamma": 0.0},
        {"kernel": "poly", "gamma": 0.0, "coef0": 1.0},
        {"kernel": "poly", "degree": 0},
        {"kernel": "poly", "degree": 2, "coef0": -0.5, "gamma": 0.1},
        {"kernel": "sigmoid", "coef0": -0.5, "gamma": 0.1},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*may have several solutions")
def test_all_numbers_that_scikit_learn_takes(arguments: dict[str, Any]) -> None:
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    for labels in (TWO, NAMES):
        ours = mc.SVC(tol=1e-6, **arguments).fit(scaled, labels)
        theirs = svm.SVC(tol=1e-6, **arguments).fit(scaled, labels)
        assert (ours.predict(scaled) == theirs.predict(scaled)).mean() >= 0.99


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"degree": 0}, 1.0),
        ({"degree": 0, "coef0": -1.0}, 1.0),
        ({"gamma": 0.0, "coef0": 2.0}, 8.0),
        ({"gamma": 0.0}, 0.0),
        ({"gamma": 0.0, "coef0": -2.0, "degree": 2}, 4.0),
    ],
    ids=str,
)
def test_polynomials_that_are_constants(arguments: dict[str, Any], value: float) -> None:
    """With sum y_i a_i = 0 a constant kernel adds nothing: all a of the smaller class are C."""
    model = mc.SVC("poly", C=0.5, **arguments).fit(X, TWO)
    np.testing.assert_array_equal(model.kernel_(Z[:3]), value)
    assert model.objective_ == pytest.approx(-2 * 0.5 * (TWO == "yes").sum())
    assert 0 <= model.dual_gap_ < 1e-9
    assert set(model.predict(Z)) == {"no"}


@pytest.mark.parametrize("name", ["degree", "gamma", "coef0"])
def test_arguments_of_names_are_refused_beside_a_kernel(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"SVC: {name} = 2\.5 belongs to kernels"):
        mc.SVC(mc.RBF(), **{name: 2.5}).fit(X, TWO)
    with pytest.raises(ParameterError, match=rf"SVC: {name} = 2\.5 belongs to kernels"):
        mc.SVC(linear_kernel, **{name: 2.5}).fit(X, TWO)
