"""Kernel LMS against loops over single rows, its limits, and explicit features."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from lms_loop import naive
from mercer.exceptions import DataError, NumericalWarning, ParameterError, ValidityError
from model_samples import STREAM
from references import matrix, spectrum

RNG = np.random.default_rng(1)
X, Y, BOTH, Z, _, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)


def exceptions_of_principle(estimator: mc.KernelLMS) -> dict[str, str]:
    """Checks that contradict what a configuration promises."""
    if estimator.method == "batch":
        return {}
    if isinstance(estimator.kernel, mc.Precomputed):
        return {"check_positive_only_tag_during_fit": "a Gram matrix minus its mean is not one"}
    reason = "a weight is a factor of one step; a row repeated takes a second step of its own"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@parametrize_with_checks(
    [
        mc.KernelLMS(),
        mc.KernelLMS(alpha=1.0, method="batch"),
        mc.KernelLMS(budget=mc.budgets.Project(30)),
        mc.KernelLMS(feature_map=mc.Linear(), max_iter=20),
        mc.KernelLMS(mc.Precomputed()),
    ],
    expected_failed_checks=exceptions_of_principle,
)
@pytest.mark.filterwarnings("ignore:KernelLMS. after:mercer.exceptions.NumericalWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    # One check sets alpha to 0.01, at which descent is slow, as the warning says.
    check(estimator)


# Single rows -------------------------------------------------------------------------------------


def test_the_error_at_a_new_row_is_that_of_the_model_before() -> None:
    model = mc.KernelLMS(RBF, 0.4).fit(X[:30], Y[:30])
    expected = Y[30] - model.predict(X[30:31])[0]
    model.partial_fit(X[30:31], Y[30:31])
    assert model.learning_curve_[-1] == pytest.approx(expected, rel=1e-12)


def test_many_passes_approach_ridge_with_n_alpha() -> None:
    alpha = 0.01
    model = mc.KernelLMS(RBF, 0.002, alpha, max_iter=2000).fit(X, Y)
    ridge = mc.KernelRidge(RBF, alpha=N * alpha, fit_intercept=False).fit(X, Y)
    # The distance is of the order of the step size.
    np.testing.assert_allclose(model.predict(Z), ridge.predict(Z), atol=0.01)


# All rows at once --------------------------------------------------------------------------------


def test_a_batch_can_be_continued_by_rows() -> None:
    model = mc.KernelLMS(RBF, alpha=0.5, method="batch").fit(X, BOTH)
    before = model.predict(Z)
    model.set_params(method="stochastic", step_size=0.1).partial_fit(Z[:1], np.zeros((1, 2)))
    np.testing.assert_allclose(model.learning_curve_, -before[:1], rtol=1e-9)
    assert not hasattr(model, "residual_")


def test_a_small_budget_and_a_large_step_diverge_and_say_so() -> None:
    model = mc.KernelLMS(RBF, 1.9, budget=mc.budgets.Remove(1), max_iter=100)
    with pytest.raises(ParameterError, match=r"errors overflow.*step_size smaller than 1.9"):
        model.fit(np.zeros((50, 3)), np.ones(50))


@pytest.mark.parametrize("model", [mc.KernelLMS(RBF, 1.5), mc.NadarayaWatson(RBF)])
def test_targets_whose_squares_overflow_are_refused(model: Any) -> None:
    targets = np.where(np.arange(40) % 2, 1e160, -1e160)
    with pytest.raises(DataError, match=r"largest target is 1e\+160"):
        model.fit(np.linspace(0, 0.1, 40)[:, None], targets)


def test_targets_far_from_zero_are_named() -> None:
    inputs = np.linspace(0, 1, 30)[:, None]
    with pytest.warns(NumericalWarning, match=r"a mean of 1e\+06 .*subtract the mean from y"):
        mc.KernelLMS(RBF).fit(inputs, np.sin(inputs).ravel() + 1e6)
    mc.KernelLMS(RBF).fit(inputs, np.sin(inputs).ravel() + 1)


def test_a_negative_square_is_refused() -> None:
    matrix_ = mc.Precomputed(np.diag([1.0, -1.0]))
    with pytest.raises(ValidityError, match=r"k\(x, x\) = -1 at a row"):
        mc.KernelLMS(matrix_).fit([[0], [1]], [1.0, 2.0])


# Kinds of data -----------------------------------------------------------------------------------

WORDS = ["".join(RNG.choice(list("ACGT"), size=8)) for _ in range(N)]


def test_strings() -> None:
    gram = matrix(spectrum, WORDS, k=2)
    step = 1 / gram.max()
    coef, _ = naive(gram, Y, step, 0.1, np.ones(N))
    model = mc.KernelLMS(mc.Spectrum(2), step, 0.1)
    for start in range(0, N, 25):
        model.partial_fit(WORDS[start : start + 25], Y[start : start + 25])
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-10, atol=1e-13)
    assert model.points_.data == WORDS


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_frames_with_strings_and_numbers(container: Any) -> None:
    frame = container({"word": WORDS, "a": X[:, 0], "b": X[:, 1]})
    kernel = mc.Spectrum(2).normalized().on("word") * mc.RBF().on("a", "b")
    gram = kernel(frame)
    coef, _ = naive(gram, Y, 0.5, 0.0, np.ones(N))
    model = mc.KernelLMS(kernel, 0.5).partial_fit(frame[:20], Y[:20])
    model.partial_fit(frame[20:], Y[20:])
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-9, atol=1e-12)


def test_sparse_rows_and_given_matrices() -> None:
    dense = np.where(X > 0, X, 0)
    sparse = sp.csr_array(dense)
    expected = mc.KernelLMS(RBF, 0.5).fit(dense, Y)
    model = mc.KernelLMS(RBF, 0.5).partial_fit(sparse[:30], Y[:30]).partial_fit(sparse[30:], Y[30:])
    np.testing.assert_allclose(model.predict(sparse), expected.predict(dense), rtol=1e-9)
    gram, cross = RBF(dense), RBF(Z, dense)
    given = mc.KernelLMS(mc.Precomputed(), 0.5, budget=mc.budgets.Remove(10)).fit(gram, Y)
    direct = mc.KernelLMS(RBF, 0.5, budget=mc.budgets.Remove(10)).fit(dense, Y)
    np.testing.assert_allclose(given.predict(cross), direct.predict(Z), rtol=1e-9)
    assert not hasattr(given, "partial_fit")
    numbered = mc.KernelLMS(mc.Precomputed(gram), 0.5)
    numbered.partial_fit(np.arange(30)[:, None], Y[:30])
    numbered.partial_fit(np.arange(30, N)[:, None], Y[30:])
    np.testing.assert_allclose(numbered.dual_coef_, expected.dual_coef_, rtol=1e-9, atol=1e-12)


def test_single_precision() -> None:
    model = mc.KernelLMS(RBF, 0.5).fit(X.astype(np.float32), Y)
    expected = mc.KernelLMS(RBF, 0.5).fit(X, Y)
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-4)


def test_a_fitted_model_is_pickled_and_goes_on_learning() -> None:
    model = mc.KernelLMS(RBF, 0.5).fit(X[:30], Y[:30])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[30:], Y[30:])
    model.partial_fit(X[30:], Y[30:])
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"step_size": -1.0}, "step_size = -1.0"),
        ({"step_size": "fast"}, "step_size = 'fast'"),
        ({"alpha": -1.0}, "alpha = -1.0"),
        ({"alpha": np.nan}, "alpha = nan"),
        ({"tol": "no"}, "tol = 'no'"),
        ({"method": "sgd"}, "method = 'sgd'"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"max_iter": 1.5}, "max_iter = 1.5"),
        ({"budget": 10}, "budget = 10"),
        ({"step_size": np.array([0.1, 0.2])}, "step_size = array"),
        ({"method": np.array(["batch", "batch"])}, "method = array"),
        ({"random_state": "seed", "shuffle": True}, "random_state = 'seed'"),
        ({"random_state": -1}, "random_state = -1"),
        ({"budget": mc.budgets.Remove(3), "method": "batch"}, 'no meaning with method="batch"'),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mc.KernelLMS(**parameters).fit(X, Y)


@pytest.mark.parametrize("y", [1.0, np.array(1.0)])
def test_a_target_alone_is_refused(y: Any) -> None:
    for model in (mc.KernelLMS(), mc.KernelRidge(), mc.NadarayaWatson()):
        with pytest.raises(DataError, match="is a single value; pass a list"):
            model.fit(X[:1], y)


def test_later_rows_of_another_kind_are_refused_and_change_nothing() -> None:
    model = mc.KernelLMS(RBF, 0.5).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(DataError, match="2 features"):
        model.partial_fit(X[:, :2], Y)
    with pytest.raises(DataError, match="one dimension"):
        model.partial_fit(X, BOTH)
    with pytest.raises(DataError):
        model.partial_fit(X, np.full(N, np.nan))
    assert vars(model) == before
    words = mc.KernelLMS(mc.Spectrum(2), 0.01).fit(WORDS, Y)
    with pytest.raises(DataError):
        words.partial_fit([1.0, 2.0], [1.0, 2.0])
    columns = mc.KernelLMS(RBF, 0.5).fit(X, BOTH)
    with pytest.raises(DataError, match="2 columns"):
        columns.partial_fit(X, BOTH[:, :1])


@pytest.mark.parametrize("method", ["stochastic", "batch"])
def test_kernels_that_overflow_are_refused(method: Any) -> None:
    huge = np.array([[1e160], [2.0]])
    with pytest.raises(DataError, match="NaN or infinity; scale the data"):
        mc.KernelLMS(mc.Linear(), method=method).fit(huge, [1.0, 2.0])
    with pytest.raises(DataError, match="NaN or infinity; scale the data"):
        mc.KernelLMS(feature_map=mc.Linear(), method=method).fit(huge, [1.0, 2.0])


@pytest.mark.parametrize("method", ["stochastic", "batch"])
def test_one_row(method: Any) -> None:
    model = mc.KernelLMS(RBF, 1.0, method=method).fit([[1.0]], [2.0])
    assert model.predict([[1.0]])[0] == pytest.approx(2.0)


def test_an_unfitted_model() -> None:
    with pytest.raises(NotFittedError):
        mc.KernelLMS().predict(X)
    assert not hasattr(mc.KernelLMS(method="batch"), "partial_fit")
    with pytest.raises(AttributeError, match=r'no partial_fit: with method="batch".*set_params'):
        _ = mc.KernelLMS(method="batch").partial_fit
