"""Kernel LMS against loops over single rows, its limits, and explicit features."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError, ValidityError
from mercer.models.online.expansion import KernelExpansion
from references import matrix, rbf, spectrum

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)
BOTH = np.column_stack([Y, X[:, 2] ** 2])
Z = RNG.normal(size=(9, 3))
WEIGHTS = RNG.uniform(0.2, 1.5, size=N)
RBF = mc.RBF(length_scale=1.5)
K = matrix(rbf, X, length_scale=1.5)


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


def naive(
    gram: Array, y: Array, step: float, alpha: float, weights: Array, passes: int = 1
) -> tuple[Array, Array]:
    """Coefficients and errors of a loop over single rows."""
    coef, errors = np.zeros(y.shape), []
    for _ in range(passes):
        for i in range(len(y)):
            error = y[i] - sum(gram[i, j] * coef[j] for j in range(len(y)))
            coef *= 1 - step * alpha
            coef[i] += step * weights[i] * error
            errors.append(error)
    return coef, np.array(errors)


# Single rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("batch_size", [1, 7, 256])
@pytest.mark.parametrize("y", [Y, BOTH])
@pytest.mark.parametrize("passes", [1, 3])
def test_mini_batches_are_the_loop(alpha: float, batch_size: int, y: Array, passes: int) -> None:
    model = mc.KernelLMS(RBF, 0.7, alpha, batch_size=batch_size, max_iter=passes).fit(X, y, WEIGHTS)
    coef, errors = naive(K, y, 0.7, alpha, WEIGHTS, passes)
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(model.learning_curve_, errors, rtol=1e-10, atol=1e-13)
    cross = matrix(rbf, Z, X, length_scale=1.5)
    np.testing.assert_allclose(model.predict(Z), cross @ coef, rtol=1e-9, atol=1e-12)
    assert (model.n_iter_, model.converged_, model.intercept_) == (passes, True, 0.0)


def test_partial_fits_are_one_fit() -> None:
    whole = mc.KernelLMS(RBF, 0.7, 0.1).fit(X, BOTH)
    parts = mc.KernelLMS(RBF, 0.7, 0.1)
    for rows in (slice(0, 1), slice(1, 20), slice(20, N)):
        parts.partial_fit(X[rows], BOTH[rows])
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, rtol=1e-11)
    np.testing.assert_allclose(parts.learning_curve_, whole.learning_curve_, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(parts.points_.data, X)


def test_rows_of_weight_zero_are_left_out() -> None:
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    model = mc.KernelLMS(RBF, 0.5, 0.1).fit(X, Y, weights)
    rest = mc.KernelLMS(RBF, 0.5, 0.1).fit(X[weights > 0], Y[weights > 0])
    np.testing.assert_allclose(model.dual_coef_, rest.dual_coef_, rtol=1e-12)


def test_shuffling_is_a_matter_of_the_random_state() -> None:
    first = mc.KernelLMS(RBF, shuffle=True, random_state=0).fit(X, Y)
    again = mc.KernelLMS(RBF, shuffle=True, random_state=0).fit(X, Y)
    other = mc.KernelLMS(RBF, shuffle=True, random_state=1).fit(X, Y)
    np.testing.assert_array_equal(first.dual_coef_, again.dual_coef_)
    assert not np.array_equal(first.points_.data, other.points_.data)
    order = np.random.RandomState(0).permutation(N)
    np.testing.assert_array_equal(first.points_.data, X[order])


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


def test_batch_steps_are_those_of_the_formula() -> None:
    model = mc.KernelLMS(RBF, 0.05, 0.2, method="batch", max_iter=7, tol=0).fit(X, Y, WEIGHTS)
    coef, curve = np.zeros(N), []
    for _ in range(7):
        errors = Y - K @ coef
        curve.append(np.sqrt(np.average(errors**2, weights=WEIGHTS)))
        coef = coef + 0.05 * (WEIGHTS * errors - 0.2 * coef)
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-11)
    np.testing.assert_allclose(model.learning_curve_, curve, rtol=1e-11)
    assert (model.n_iter_, model.converged_) == (7, True)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_limit_of_a_batch_is_ridge(weights: Array | None) -> None:
    model = mc.KernelLMS(RBF, alpha=0.5, method="batch", tol=1e-12, max_iter=20_000)
    model.fit(X, BOTH, weights)
    ridge = mc.KernelRidge(RBF, alpha=0.5, fit_intercept=False).fit(X, BOTH, weights)
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, rtol=1e-6, atol=1e-9)
    assert model.converged_
    assert model.residual_ <= 1e-12
    assert model.n_iter_ < 20_000


def test_without_alpha_the_limit_is_the_interpolant_of_least_norm() -> None:
    # A linear kernel on fewer rows than columns: many functions interpolate.
    # With tol=0 all steps are taken: the gradient itself is known to its rounding alone, about the
    # root of that of d'Kd, which a tolerance of 1e-13 would meet by chance.
    wide, y = RNG.normal(size=(4, 9)), np.array([1.0, -1.0, 2.0, 0.5])
    model = mc.KernelLMS(mc.Linear(), method="batch", tol=0, max_iter=1000).fit(wide, y)
    expected = np.linalg.pinv(wide) @ y
    np.testing.assert_allclose(wide.T @ model.dual_coef_, expected, rtol=1e-9)
    # More rows than columns: least squares, though the coefficients themselves have no limit.
    tall = mc.KernelLMS(mc.Linear(), method="batch", tol=0, max_iter=1000).fit(X, Y)
    least = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(tall.predict(Z), Z @ least, rtol=1e-9)


def test_a_step_up_to_the_limit_converges_and_beyond_is_refused() -> None:
    limit = 2 / (np.linalg.eigvalsh(K)[-1] + 0.5)
    settings: Any = {"alpha": 0.5, "method": "batch", "max_iter": 5000}
    assert mc.KernelLMS(RBF, 0.99 * limit, **settings).fit(X, Y).converged_
    message = rf"not below {limit:.6g}, .*largest eigenvalue of K = .* plus alpha = 0.5"
    with pytest.raises(ParameterError, match=message):
        mc.KernelLMS(RBF, 1.01 * limit, **settings).fit(X, Y)


def test_a_large_problem_has_the_same_limit() -> None:
    many = RNG.normal(size=(300, 3))
    largest = np.linalg.eigvalsh(rbf_kernel(many, gamma=1 / (2 * 1.5**2)))[-1]
    y = many[:, 0]
    with pytest.raises(ParameterError, match="largest eigenvalue"):
        mc.KernelLMS(RBF, 2.001 / largest, method="batch").fit(many, y)
    mc.KernelLMS(RBF, 1.999 / largest, method="batch", max_iter=3, tol=0).fit(many, y)


def test_stopping_short_is_said() -> None:
    with pytest.warns(NumericalWarning, match="after 5 steps"):
        model = mc.KernelLMS(RBF, method="batch", max_iter=5).fit(X, Y)
    assert not model.converged_
    assert model.residual_ > 1e-4


def test_a_batch_can_be_continued_by_rows() -> None:
    model = mc.KernelLMS(RBF, alpha=0.5, method="batch").fit(X, BOTH)
    before = model.predict(Z)
    model.set_params(method="stochastic", step_size=0.1).partial_fit(Z[:1], np.zeros((1, 2)))
    np.testing.assert_allclose(model.learning_curve_, -before[:1], rtol=1e-9)
    assert not hasattr(model, "residual_")


def test_negative_eigenvalues_are_found() -> None:
    indefinite = mc.Precomputed(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValidityError, match=r"KernelLMS: gradient.*negative eigenvalues"):
        mc.KernelLMS(indefinite, method="batch", max_iter=1000).fit([[0], [1]], [1.0, -1.0])


def test_a_small_budget_and_a_large_step_diverge_and_say_so() -> None:
    model = mc.KernelLMS(RBF, 1.9, budget=mc.budgets.Remove(1), max_iter=100)
    with pytest.raises(ParameterError, match=r"errors overflow.*step_size smaller than 1.9"):
        model.fit(np.zeros((50, 3)), np.ones(50))


def test_a_negative_square_is_refused() -> None:
    matrix_ = mc.Precomputed(np.diag([1.0, -1.0]))
    with pytest.raises(ValidityError, match=r"k\(x, x\) = -1 at a row"):
        mc.KernelLMS(matrix_).fit([[0], [1]], [1.0, 2.0])


# Explicit features -------------------------------------------------------------------------------


def squares(data: Array) -> Array:
    return np.column_stack([np.ones(len(data)), data, data**2])


FEATURE_MAPS: list[tuple[Any, mc.Kernel]] = [
    (squares, mc.Linear().warp(squares)),
    (mc.Polynomial(degree=2), mc.Polynomial(degree=2)),
]
SAMPLER = RBFSampler(n_components=40, random_state=0)
FITTED = clone(SAMPLER).fit(X)
FEATURE_MAPS.append((SAMPLER, mc.Linear().warp(FITTED.transform)))
FEATURE_MAPS.append((FrozenEstimator(FITTED), mc.Linear().warp(FITTED.transform)))


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


def test_noise_on_the_identity_of_rows_acts_as_in_the_gram_matrix() -> None:
    kernel = RBF + mc.White()
    coef, _ = naive(K + np.eye(N), Y, 0.5, 0.0, np.ones(N), passes=2)
    for kept in (True, False):
        model = mc.KernelLMS(kernel, 0.5, max_iter=2, batch_size=16)
        if not kept:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(KernelExpansion, "keeping_matrix", lambda self: self)
                model.fit(X, Y)
        else:
            model.fit(X, Y)
        np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-10, atol=1e-13)


def test_single_precision() -> None:
    model = mc.KernelLMS(RBF, 0.5).fit(X.astype(np.float32), Y)
    expected = mc.KernelLMS(RBF, 0.5).fit(X, Y)
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-4)


def test_a_fitted_model_is_pickled_and_goes_on_learning() -> None:
    model = mc.KernelLMS(RBF, 0.5).fit(X[:30], Y[:30])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[30:], Y[30:])
    model.partial_fit(X[30:], Y[30:])
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


# Step sizes --------------------------------------------------------------------------------------


def test_the_step_of_single_rows_is_checked_too() -> None:
    mc.KernelLMS(RBF, 1.99).fit(X, Y)
    with pytest.raises(ParameterError, match=r"step_size = 2 .*not below 2, .*k\(x, x\) = 1\)"):
        mc.KernelLMS(RBF, 2.0).fit(X, Y)
    with pytest.raises(ParameterError, match=r"largest k\(x, x\) times weight = 4"):
        mc.KernelLMS(RBF, 0.6).fit(X, Y, np.full(N, 4.0))
    with pytest.raises(ParameterError, match="forget everything"):
        mc.KernelLMS(RBF, 0.5, 2.0).fit(X, Y)
    # What the check prevents: one row, met again and again, drives the errors to infinity.
    gram = np.ones((40, 40))
    _, errors = naive(gram, np.ones(40), 2.1, 0.0, np.ones(40))
    assert abs(errors[-1]) > 10 * abs(errors[0])


def test_auto_follows_larger_rows() -> None:
    model = mc.KernelLMS(mc.Linear()).partial_fit([[1.0], [2.0]], [1.0, 2.0])
    assert model.step_size_ == pytest.approx(0.5 / 4)
    model.partial_fit([[10.0]], [10.0])
    assert model.step_size_ == pytest.approx(0.5 / 100)
    model.partial_fit([[1.0]], [1.0])
    assert model.step_size_ == pytest.approx(0.5 / 100)
    zero = mc.KernelLMS(mc.Linear()).fit([[0.0]], [1.0])
    assert (zero.step_size_, zero.predict([[5.0]])[0]) == (1.0, 0.0)


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


@pytest.mark.parametrize("y", [1.0, np.array(1.0), "one"])
def test_a_target_alone_is_refused(y: Any) -> None:
    for model in (mc.KernelLMS(), mc.KernelRidge(), mc.NadarayaWatson()):
        with pytest.raises(DataError, match="is a single value; pass a list"):
            model.fit(X[:1], y)


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_later_rows_in_another_container_are_refused_by_name() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(DataError, match=r"KernelLMS\.partial_fit: rows cannot be joined"):
        mc.KernelLMS().fit(X, Y).partial_fit(frame, Y)


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


# Interrupts and callbacks ------------------------------------------------------------------------


def interrupt_after(calls: int, function: Callable[..., Any]) -> Callable[..., Any]:
    count = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    return interrupted


def test_an_interrupted_fit_keeps_the_rows_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelLMS(RBF, 0.5, batch_size=10)
    monkeypatch.setattr(mc.KernelLMS, "_advance", interrupt_after(3, mc.KernelLMS._advance))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    monkeypatch.undo()
    expected = mc.KernelLMS(RBF, 0.5).fit(X[:30], Y[:30])
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-11)
    assert model.partial_fit(X[30:], Y[30:]).learning_curve_.shape == (N,)


def test_an_interrupted_partial_fit_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelLMS(RBF, 0.5, batch_size=10).fit(X[:10], Y[:10])
    before = dict(vars(model))
    monkeypatch.setattr(mc.KernelLMS, "_advance", interrupt_after(2, mc.KernelLMS._advance))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, Y)
    assert vars(model) == before
