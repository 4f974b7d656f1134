"""Kernels by scikit-learn's names, and functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import svm
from sklearn.metrics.pairwise import linear_kernel, pairwise_kernels

import mercer as mc
from irises import NAMES, TOL, TWO, X, Z
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.names import NAMES as KERNELS
from mercer.kernels.names import kernel_of, outline


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


POSITIVE = np.abs(X) + 0.1
#: What scikit-learn's function takes: only the default of "chi2" differs from 1 / n_features.
TAKES = {
    "rbf": ("gamma",),
    "linear": (),
    "poly": ("gamma", "degree", "coef0"),
    "polynomial": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
    "laplacian": ("gamma",),
    "cosine": (),
    "chi2": ("gamma",),
}


@pytest.mark.parametrize("name", TAKES)
def test_a_name_has_the_values_of_scikit_learns_function(name: str) -> None:
    arguments = {"gamma": 0.05, "degree": 2, "coef0": 0.5}
    kernel = kernel_of("SVC", name, POSITIVE, **arguments)
    theirs = {argument: arguments[argument] for argument in TAKES[name]}
    expected = pairwise_kernels(POSITIVE, metric=name, **theirs)
    np.testing.assert_allclose(kernel(POSITIVE), expected, rtol=1e-10)
    assert outline(name).input_tags() == kernel.input_tags()  # type: ignore[attr-defined]


def test_names_without_a_counterpart_or_with_another_meaning_in_scikit_learn() -> None:
    assert kernel_of("SVC", "matern", gamma=0.5) == mc.Matern()
    assert kernel_of("SVC", "chi2") == mc.Chi2()
    distance = pairwise_kernels(POSITIVE, metric="additive_chi2")
    sizes = POSITIVE.sum(axis=1)
    expected = (sizes[:, None] + sizes + distance) / 2  # 2 x z / (x + z), by its identity
    np.testing.assert_allclose(kernel_of("SVC", "additive_chi2")(POSITIVE), expected, rtol=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_the_rule_scale_waits_for_the_data(name: str) -> None:
    kernel = kernel_of("SVC", name)
    if name in ("poly", "sigmoid"):
        assert kernel.unresolved() == ["gain"]
        gain = kernel.resolve(X).gain  # type: ignore[attr-defined]
        assert gain == pytest.approx(1 / (X.shape[1] * X.var()), rel=1e-12)
        assert kernel.resolve(np.ones((3, 2))).gain == 1.0  # type: ignore[attr-defined]
    with_rule = ("poly", "polynomial", "sigmoid", "rbf", "laplacian", "matern")
    assert bool(kernel.unresolved()) == (name in with_rule)


def test_a_gain_out_of_range_is_refused() -> None:
    with pytest.raises(DataError, match='gain = "scale" leaves the range'):
        mc.Polynomial(gain="scale").resolve([[0.0], [1e200]])


def test_what_is_no_kernel_and_no_name() -> None:
    for wrong in (3, [1], int, "gauss"):
        with pytest.raises(ParameterError, match=r"Model: .*mercer\.RBF\(\)"):
            kernel_of("Model", wrong)
    assert outline(3) == 3
    assert outline("gauss") == "gauss"
    with pytest.raises(ParameterError, match='gamma = "auto" needs the number of columns'):
        kernel_of("Model", "rbf", gamma="auto")
    assert kernel_of("Model", "rbf", [[1.0, 2.0]], gamma="auto") == mc.RBF()
