"""Gaussian-process classification: peers, calibration, weights, the search, and bad input."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process import kernels
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    DataTypeError,
    MemoryForecastError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from mercer.models.gaussian_process import classifier
from mercer.models.gaussian_process.class_evidence import LaplaceObjective
from mercer.solvers.likelihood import laplace
from model_samples import LABELLED

Array = NDArray[np.floating[Any]]
GPC = mc.GaussianProcessClassifier

RNG = np.random.default_rng(1)
X, TWO, THREE, Z, WEIGHTS = LABELLED

KERNEL = 3.0 * mc.RBF(length_scale=0.8)
BOTH = pytest.mark.parametrize("y", [TWO, THREE])


def exceptions_of_principle(estimator: mc.GaussianProcessClassifier) -> dict[str, str]:
    """Checks that contradict what a configuration promises."""
    if estimator.learn:
        return {}
    return {
        "check_non_transformer_estimators_n_iter": "nothing is learned, so in no iterations",
        "check_class_weight_classifiers": "rows beyond the length-scale have equal probabilities",
    }


# The labels of some checks are random, for which a length-scale may well end at its bound.
@pytest.mark.filterwarnings("ignore:.*ended at a bound:mercer.exceptions.NumericalWarning")
@parametrize_with_checks(
    [GPC(), GPC(2.0 * mc.RBF(), learn=False)], expected_failed_checks=exceptions_of_principle
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Peers -------------------------------------------------------------------------------------------


def test_two_classes_against_scikit_learn() -> None:
    kernel = kernels.ConstantKernel(3.0) * kernels.RBF(0.8)
    peer = Peer(kernel, optimizer=None).fit(X, TWO)
    model = GPC(KERNEL, learn=False).fit(X, TWO)
    theta = np.log([2.0, 1.1])
    for at in (model.theta_, theta):
        value, gradient = model.log_marginal_likelihood_gradient(at)
        expected, slope = peer.log_marginal_likelihood(at, eval_gradient=True)
        assert value == pytest.approx(expected, rel=1e-9)
        assert model.log_marginal_likelihood(at) == pytest.approx(expected, rel=1e-9)
        # The peer stops Newton's method where the likelihood changes by less than 1e-10.
        np.testing.assert_allclose(gradient, slope, rtol=1e-4)
    assert model.log_marginal_likelihood_ == pytest.approx(peer.log_marginal_likelihood_value_)
    mean, variance = model.latent_mean_and_variance(Z)
    peer_mean, peer_variance = peer.latent_mean_and_variance(Z)
    np.testing.assert_allclose(mean, peer_mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, peer_variance, rtol=1e-5)
    # Five error functions approximate the integral there.
    np.testing.assert_allclose(model.predict_proba(Z), peer.predict_proba(Z), atol=2e-3)
    np.testing.assert_array_equal(model.predict(Z), peer.predict(Z))


def test_what_is_learned_is_as_likely_as_what_scikit_learn_learns() -> None:
    peer = Peer(kernels.ConstantKernel(1.0) * kernels.RBF(1.0)).fit(X, TWO)
    model = GPC(1.0 * mc.RBF()).fit(X, TWO)
    assert model.converged_
    assert model.log_marginal_likelihood_ >= peer.log_marginal_likelihood_value_ - 1e-6
    assert model.gradient_norm_ < 1e-3
    assert model.theta_names_ == ("scale", "length_scale")


def test_probabilities_of_two_classes_are_integrals_over_the_latent_function() -> None:
    model = GPC(KERNEL, learn=False).fit(X, TWO)
    mean, variance = model.latent_mean_and_variance(Z)
    nodes = np.linspace(-9, 9, 20001)
    density = np.exp(-(nodes**2) / 2)
    values = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    expected = values @ density / density.sum()
    np.testing.assert_allclose(model.predict_proba(Z)[:, 1], expected, rtol=1e-9)


def test_three_classes_are_treated_alike() -> None:
    model = GPC(KERNEL, learn=False).fit(X, THREE)
    order = np.array([2, 0, 1])
    renamed = np.array(["a", "b", "c"])[order][np.searchsorted(model.classes_, THREE)]
    other = GPC(KERNEL, learn=False).fit(X, renamed)
    assert other.log_marginal_likelihood_ == pytest.approx(model.log_marginal_likelihood_)
    found = other.predict_proba(Z)[:, order]
    np.testing.assert_allclose(found, model.predict_proba(Z), atol=1e-5)


@BOTH
def test_the_latent_functions_are_sums_over_training_points(y: Array) -> None:
    model = GPC(KERNEL, learn=False).fit(X, y)
    mean, _ = model.latent_mean_and_variance(Z)
    np.testing.assert_allclose(mean, KERNEL(Z, X) @ model.dual_coef_, rtol=1e-10, atol=1e-12)
    # The coefficients are the slopes of the log-likelihood: labels minus probabilities.
    own, _ = model.latent_mean_and_variance(X)
    if own.ndim == 1:
        expected = (y == model.classes_[1]) - expit(own)
    else:
        shares = np.exp(own) / np.exp(own).sum(axis=1, keepdims=True)
        expected = (y[:, None] == model.classes_) - shares
    np.testing.assert_allclose(model.dual_coef_, expected, atol=1e-7)


# Probabilities -----------------------------------------------------------------------------------


@BOTH
def test_probabilities_sum_to_one_and_agree_with_the_prediction(y: Array) -> None:
    model = GPC(KERNEL, learn=False).fit(X, y)
    points = RNG.normal(size=(500, 2)) * 2
    shares = model.predict_proba(points)
    assert shares.shape == (500, len(model.classes_))
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(points))
    np.testing.assert_array_equal(shares, model.predict_proba(points))
    far = model.predict_proba([[1e3, 1e3]])
    np.testing.assert_allclose(far, 1 / len(model.classes_), atol=1e-3)


def test_a_point_on_the_boundary_gets_the_first_label_both_ways() -> None:
    model = GPC(KERNEL, learn=False).fit([[-1.0], [1.0]], ["a", "b"])
    assert model.predict([[1e9]]) == ["a"]
    np.testing.assert_array_equal(model.predict_proba([[1e9]]), [[0.5, 0.5]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_calibrated_if_the_kernel_is_true(n_classes: int) -> None:
    """Draw functions and labels from the model, and compare probabilities with frequencies.

    Each draw has one test point, so that they are independent. A chi-squared test over five bins
    of the probability of the first class; its false-alarm rate is 1 in 1000 if probabilities are
    exact (Laplace's approximation adds a little).
    """
    rng = np.random.default_rng(1)
    kernel = 2.0 * mc.RBF(length_scale=0.5)
    model = GPC(kernel, learn=False)
    n_functions = 1 if n_classes == 2 else n_classes
    given, hit = [], []
    while len(given) < 200:
        points = rng.uniform(-1, 1, size=(31, 1))
        root = np.linalg.cholesky(kernel(points) + 1e-9 * np.eye(31))
        f = root @ rng.normal(size=(31, n_functions))
        f = np.column_stack([f, np.zeros(31)]) if n_classes == 2 else f
        labels = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
        if len(np.unique(labels[1:])) < n_classes:
            continue
        given.append(model.fit(points[1:], labels[1:]).predict_proba(points[:1])[0, 0])
        hit.append(labels[0] == 0)
    share, found = np.array(given), np.array(hit)
    bins = np.digitize(share, np.quantile(share, [0.2, 0.4, 0.6, 0.8]))
    statistic = sum(
        np.sum(found[bins == b] - share[bins == b]) ** 2
        / np.sum(share[bins == b] * (1 - share[bins == b]))
        for b in range(5)
    )
    assert statistic < chi2(5).ppf(0.999)


def test_iris_in_three_classes() -> None:
    data, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    model = GPC().fit(data[::2], names[::2])
    assert model.dual_coef_.shape == (75, 3)
    assert model.score(data[1::2], names[1::2]) > 0.93
    # Every training row's coefficients sum to zero: the softmax has no common level.
    np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-8)


# Weights -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("learn", [False, True])
def test_whole_weights_are_repeated_rows_and_zero_removes(y: Array, learn: bool) -> None:
    rows = np.repeat(np.arange(60), WEIGHTS.astype(int))
    weighted = GPC(KERNEL, learn=learn).fit(X, y, WEIGHTS)
    repeated = GPC(KERNEL, learn=learn).fit(X[rows], y[rows])
    assert len(weighted.points_) == np.count_nonzero(WEIGHTS)
    tolerance = 1e-4 if learn else 1e-7
    np.testing.assert_allclose(weighted.theta_, repeated.theta_, atol=tolerance)
    np.testing.assert_allclose(weighted.predict_proba(Z), repeated.predict_proba(Z), atol=tolerance)
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_)


def test_a_class_without_weight_is_none() -> None:
    model = GPC(KERNEL, learn=False).fit(X, THREE, (THREE != "low").astype(float))
    assert model.classes_.tolist() == ["high", "middle"]
    with pytest.raises(DataError, match="only one class, 'yes'"):
        GPC().fit(X, TWO, (TWO == "yes").astype(float))


# The search --------------------------------------------------------------------------------------


@BOTH
def test_learning_raises_the_likelihood_and_respects_what_is_fixed(y: Array) -> None:
    kernel = mc.Bounded(1.0, 0.5, 2.0) * mc.RBF(length_scale=mc.Fixed(0.8))
    start = GPC(kernel, learn=False).fit(X, y)
    model = GPC(kernel).fit(X, y)
    assert (start.n_iter_, start.n_evaluations_, start.converged_) == (0, 0, True)
    assert model.log_marginal_likelihood_ >= start.log_marginal_likelihood_
    assert model.kernel_.get_params()["length_scale"] == mc.Fixed(0.8)
    assert 0.5 <= np.exp(model.theta_[0]) <= 2.0
    assert model.kernel == kernel


def test_restarts_are_reproducible_and_never_worse() -> None:
    plain = GPC(1.0 * mc.RBF()).fit(X, TWO)
    models = [GPC(1.0 * mc.RBF(), n_restarts=2, random_state=3).fit(X, TWO) for _ in range(2)]
    np.testing.assert_array_equal(models[0].theta_, models[1].theta_)
    assert models[0].log_marginal_likelihood_ >= plain.log_marginal_likelihood_ - 1e-9
    assert models[0].n_iter_ > plain.n_iter_


def test_a_kernel_without_free_parameters_is_used_as_it_is() -> None:
    kernel = mc.RBF(length_scale=mc.Fixed(0.8))
    model = GPC(kernel).fit(X, TWO)
    assert model.kernel_ == kernel
    assert (model.n_iter_, model.converged_, model.theta_.shape) == (0, True, (0,))
    value, gradient = model.log_marginal_likelihood_gradient()
    assert value == pytest.approx(model.log_marginal_likelihood_)
    assert gradient.shape == (0,)


def test_a_search_that_stops_short_says_so() -> None:
    with pytest.warns(NumericalWarning, match=r"GaussianProcessClassifier: .*raise max_iter"):
        model = GPC(1.0 * mc.RBF(), max_iter=1).fit(X, TWO)
    assert not model.converged_
    assert model.n_iter_ == 5  # from five starts


@BOTH
def test_a_mode_that_is_not_reached_is_said_so(y: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "fit", partial(laplace.fit, max_iter=2))
    with pytest.warns(NumericalWarning, match="after 2 steps without reaching the mode"):
        model = GPC(1e3 * mc.RBF(), learn=False).fit(X, y)
    assert not model.converged_
    monkeypatch.undo()
    with pytest.raises(ValidityError, match=r"GaussianProcessClassifier: .*lower the kernel"):
        GPC(1e20 * mc.RBF(), learn=False).fit(np.tile(X, (3, 1)), np.tile(y, 3))


@pytest.mark.parametrize("amplitude", [1.0, 1e3, 1e6, 1e7, 1e9])
def test_wrong_labels_at_large_amplitudes_are_said_so(amplitude: float) -> None:
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = GPC(amplitude * mc.RBF(), learn=False).fit(X, labels)
    assert model.converged_ == (not found)
    right = np.mean(model.predict(X) == labels)
    if model.converged_:
        assert right > 0.85
    else:
        assert amplitude > 1e3
        assert "Laplace's approximation fails" in str(found[0].message)
        assert len(found) == 1


@BOTH
def test_logarithms_of_probabilities(y: Array) -> None:
    model = GPC(KERNEL, learn=False).fit(X, y)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(Z)), model.predict_proba(Z))
    steep = GPC(1e4 * mc.RBF(3.0), learn=False).fit([[-1.0], [1.0]] * 40, [0, 1] * 40)
    assert (steep.predict_log_proba([[-1.0], [1.0]]) < 0).all()


def test_callbacks_see_every_iteration_and_can_stop() -> None:
    seen: list[float] = []

    class Watch:
        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> bool:
            if context.task_name == "iteration":
                assert fitted_estimator.predict_proba(Z).shape == (9, 2)
                seen.append(fitted_estimator.log_marginal_likelihood_)
            return len(seen) >= 3

    model = GPC(1.0 * mc.RBF())
    model.set_callbacks(Watch())
    model.fit(X, TWO)
    assert not model.converged_  # without a warning: the callback knows
    assert len(seen) == 3  # the start and two iterations
    assert seen == sorted(seen)
    assert model.log_marginal_likelihood_ == pytest.approx(seen[-1])


@BOTH
def test_an_interrupted_search_keeps_the_best_so_far(
    y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = LaplaceObjective.value_and_gradient
    calls = 0

    def interrupted(self: LaplaceObjective, theta: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return plain(self, theta)

    monkeypatch.setattr(LaplaceObjective, "value_and_gradient", interrupted)
    model = GPC(1.0 * mc.RBF())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.converged_ is False
    assert model.n_iter_ >= 1
    start = GPC(1.0 * mc.RBF(), learn=False).fit(X, y)
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_
    np.testing.assert_allclose(model.predict_proba(Z).sum(axis=1), 1)


@BOTH
def test_an_interrupt_after_the_search_keeps_what_it_found(
    y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Conditioning on all data, and asking whether the approximation is good, take their time.
    whole = GPC(1.0 * mc.RBF()).fit(X, y)

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    model = GPC(1.0 * mc.RBF())
    monkeypatch.setattr(GPC, "_approximation_warning", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.converged_ is False
    np.testing.assert_allclose(model.predict_proba(Z), whole.predict_proba(Z))


def test_a_grid_search_over_a_kernel_parameter() -> None:
    grid = {"kernel__length_scale": [0.05, 0.8, 50.0]}
    search = GridSearchCV(GPC(KERNEL, learn=False), grid, cv=3, scoring="neg_log_loss")
    search.fit(X, TWO)
    assert len(set(search.cv_results_["mean_test_score"].round(6))) == 3
    assert search.best_params_ == {"kernel__length_scale": 0.8}


# Data of many kinds ------------------------------------------------------------------------------


def test_data_frames_strings_and_labels_of_other_types() -> None:
    kernel = 3.0 * mc.RBF(length_scale=0.8).on("a", "b")
    expected = GPC(KERNEL, learn=False).fit(X, TWO).predict_proba(Z)
    for frame in (pd.DataFrame, pl.DataFrame):
        old, new = (frame({"a": data[:, 0], "b": data[:, 1]}) for data in (X, Z))
        model = GPC(kernel, learn=False).fit(old, TWO)
        np.testing.assert_allclose(model.predict_proba(new), expected, rtol=1e-9)
    assert GPC(KERNEL, learn=False).fit(X, TWO == "yes").classes_.tolist() == [False, True]
    words = ["aaab", "abab", "bbba", "bbbb", "aaaa", "bbab"]
    model = GPC(1.0 * mc.Spectrum(2).normalized(), learn=False).fit(words, list("xxyyxy"))
    assert model.predict(["aaaab", "bbbbb"]).tolist() == ["x", "y"]


def test_a_given_matrix() -> None:
    plain = GPC(KERNEL, learn=False).fit(X, TWO)
    model = GPC(mc.Precomputed()).fit(KERNEL(X), TWO, None)
    assert model.log_marginal_likelihood_ == pytest.approx(plain.log_marginal_likelihood_)
    np.testing.assert_array_equal(model.predict(KERNEL(Z, X)), plain.predict(Z))
    with pytest.raises(DataError, match=r"k\(x, x\).*Precomputed\(K\)"):
        model.predict_proba(KERNEL(Z, X))
    everything = KERNEL(np.vstack([X, Z]))
    numbers = np.arange(69)[:, None]
    model = GPC(mc.Precomputed(everything)).fit(numbers[:60], TWO)
    np.testing.assert_allclose(model.predict_proba(numbers[60:]), plain.predict_proba(Z))


def test_noise_on_the_latent_function_enters_the_variance_of_new_points() -> None:
    model = GPC(KERNEL + 2.0 * mc.White(), learn=False).fit(X, TWO)
    _, variance = model.latent_mean_and_variance([[1e6, 1e6]])
    np.testing.assert_allclose(variance, 5.0)


def test_float32_and_float64_agree() -> None:
    single = GPC(KERNEL, learn=False).fit(X.astype(np.float32), THREE)
    double = GPC(KERNEL, learn=False).fit(X, THREE)
    found = single.predict_proba(Z.astype(np.float32))
    np.testing.assert_allclose(found, double.predict_proba(Z), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_the_unit_of_the_data_does_not_matter(scale: float) -> None:
    expected = GPC().fit(X, TWO).predict_proba(Z)
    np.testing.assert_allclose(
        GPC().fit(scale * X, TWO).predict_proba(scale * Z), expected, atol=1e-4
    )


def test_tiny_and_degenerate_data() -> None:
    two = GPC(KERNEL, learn=False).fit([[0.0], [1.0]], [5, 7])
    assert two.predict([[-1.0], [2.0]]).tolist() == [5, 7]
    same = GPC().fit(np.zeros((4, 2)), [0, 1, 1, 1])
    np.testing.assert_array_equal(same.predict([[0.0, 0.0]]), [1])
    doubled = GPC(KERNEL, learn=False).fit(np.vstack([X, X]), np.concatenate([TWO, TWO]))
    weighted = GPC(KERNEL, learn=False).fit(X, TWO, np.full(60, 2.0))
    np.testing.assert_allclose(doubled.predict_proba(Z), weighted.predict_proba(Z), rtol=1e-7)


@BOTH
def test_a_fitted_model_is_pickled(y: Array) -> None:
    model = GPC(KERNEL, learn=False).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
    assert again.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_)


# Bad input ---------------------------------------------------------------------------------------


def test_labels_that_are_refused() -> None:
    with pytest.raises(DataError, match=r"only one class, 'a', .* at least two classes"):
        GPC().fit(X, np.full(60, "a"))
    with pytest.raises(DataError, match=r"Unknown label type: continuous"):
        GPC().fit(X, X[:, 0])
    with pytest.raises(DataError, match="NaN"):
        GPC().fit(X, np.where(X[:, 0] > 0, np.nan, 1.0))
    with pytest.raises(DataError, match=r"y has 59 labels but X has 60 rows; pass one"):
        GPC().fit(X, TWO[:-1])
    with pytest.raises(DataTypeError, match=r"Classifier: y mixes labels .* labels of one kind"):
        GPC().fit(X[:4], np.array(["a", 1, "a", 1], dtype=object))
    with pytest.raises(DataError, match="target y is None"):
        GPC().fit(X, None)
    with pytest.raises(DataError, match="shape"):
        GPC().fit(X, np.column_stack([TWO, TWO]))
    with pytest.raises(DataError, match=r"[Nn]egative"):
        GPC().fit(X, TWO, np.linspace(-1, 1, 60))


def test_data_that_are_refused() -> None:
    model = GPC(KERNEL, learn=False).fit(X, TWO)
    with pytest.raises(DataError, match="NaN"):
        GPC().fit(np.where(X > 0, np.nan, X), TWO)
    with pytest.raises(DataError, match="1 features, but GaussianProcessClassifier is expecting 2"):
        model.predict(Z[:, :1])
    with pytest.raises(NotFittedError):
        GPC().predict_proba(X)
    with pytest.raises(DataError, match="gives infinity"):
        GPC(mc.Linear()).fit(np.array([[1e200], [-1e200]]), [0, 1])
    with pytest.raises(DataError, match="GaussianProcessClassifier: sample_weight is as large as"):
        GPC().fit(X, TWO, np.full(60, 1e300))
    for theta in ([0.0], [np.nan, 0.0], "ab"):
        with pytest.raises(ParameterError, match="is not a vector of 2 finite numbers"):
            GPC(KERNEL, learn=False).fit(X, TWO).log_marginal_likelihood(theta)
    with pytest.raises(ValidityError, match=r"Precomputed\(\) is not valid"):
        GPC(mc.Precomputed()).fit(np.array([[1.0, 2.0], [2.0, 1.0]]), [0, 1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_restarts": -1}, r"n_restarts = -1 is not a whole number >= 0"),
        ({"n_restarts": 1.5}, "n_restarts = 1.5"),
        ({"max_iter": 0}, r"max_iter = 0 is not a whole number >= 1"),
        ({"max_iter": True}, "max_iter = True"),
        ({"kernel": "gauss"}, "kernel = 'gauss' is not the name of a kernel"),
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        GPC(**parameters).fit(X, TWO)


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 200_000)
    GPC(KERNEL, learn=False).fit(X, TWO)
    with pytest.raises(MemoryForecastError, match="60 rows and 3 classes"):
        GPC(KERNEL, learn=False).fit(X, THREE)


# Many rows ---------------------------------------------------------------------------------------


@BOTH
def test_landmarks_that_are_all_rows_have_the_exact_posterior(
    y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = 2.0 * mc.Laplacian(1.0)
    exact = GPC(kernel, learn=False).fit(X, y, 1 + WEIGHTS)
    monkeypatch.setattr(classifier, "_EXACT_ROWS", 30)
    monkeypatch.setattr(classifier, "_SEARCH_ROWS", 30)
    monkeypatch.setattr(classifier, "_LANDMARKS", len(X))
    model = GPC(kernel, learn=False).fit(X, y, 1 + WEIGHTS)
    assert model.trace_error_ < 1e-9
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_)
    assert model.log_marginal_likelihood() == pytest.approx(exact.log_marginal_likelihood_)
    for mine, other in zip(
        model.latent_mean_and_variance(Z), exact.latent_mean_and_variance(Z), strict=True
    ):
        np.testing.assert_allclose(mine, other, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(Z), exact.predict_proba(Z), atol=1e-5)
    with pytest.raises(DataError, match="not computed through landmarks; ask for"):
        model.log_marginal_likelihood_gradient()


@BOTH
def test_many_rows_are_seen_through_few(y: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    whole = laplace.fit

    def counted(gram: Any, *args: Any, **settings: Any) -> Any:
        sizes.append(len(gram) if isinstance(gram, np.ndarray) else -gram.features.shape[1])
        return whole(gram, *args, **settings)

    exact = GPC(1.0 * mc.RBF(1.0)).fit(X, y)
    monkeypatch.setattr(laplace, "fit", counted)
    monkeypatch.setattr(classifier, "_EXACT_ROWS", 50)
    monkeypatch.setattr(classifier, "_SEARCH_ROWS", 40)
    monkeypatch.setattr(classifier, "_LANDMARKS", 20)
    model = GPC(1.0 * mc.RBF(1.0)).fit(X, y)
    assert max(sizes) <= 40  # rows of a search
    assert min(sizes) >= -20  # landmarks of the posterior
    assert len(model.points_) == len(model.rows_) <= 20
    np.testing.assert_array_equal(model.points_.data, X[model.rows_])
    assert 0 <= model.trace_error_ < 0.2
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.85
    np.testing.assert_array_equal(model.classes_, exact.classes_)


def test_a_search_on_some_rows_sees_every_class() -> None:
    labels = np.eye(3)[[0] * 90 + [1] * 9 + [2]]
    kernel = mc.RBF(1.0)
    objective = LaplaceObjective(kernel, kernel.prepare(np.arange(100.0)[:, None]), labels, None)
    few = objective.sample(20)
    np.testing.assert_array_equal(few.targets.sum(axis=0), [17, 2, 1])
    assert objective.sample(100) is objective


def test_few_points_do_not_end_at_the_trivial_maximum() -> None:
    # The points of an example of scikit-learn, where 8 log(1/2) = -5.545 is a maximum too.
    points = np.array(
        [[-4.61611719, -6.00099547], [4.10469096, 5.32782448], [0.00000000, -0.50000000],
         [-6.17289014, -4.6984743], [1.3109306, -6.93271427], [-5.03823144, 3.10584743],
         [-2.87600388, 6.74310541], [5.21301203, 4.26386883]]
    )  # fmt: skip
    inside = 5.0 - points[:, 1] - 0.5 * points[:, 0] ** 2 > 0
    model = GPC(0.1 * (mc.Linear() + 0.01) ** 2).fit(points, inside)
    peer_kernel = kernels.ConstantKernel(0.1, (1e-5, np.inf)) * kernels.DotProduct(0.1) ** 2
    peer = Peer(peer_kernel).fit(points, inside).log_marginal_likelihood_value_
    assert peer > 8 * np.log(0.5) + 0.2
    assert model.log_marginal_likelihood_ > peer - 1e-3


@BOTH
def test_a_class_weight_of_two_is_every_row_of_the_class_repeated(y: Array) -> None:
    first = np.unique(y)[0]
    rows = np.r_[np.arange(len(y)), np.flatnonzero(y == first)]
    weighted = GPC(KERNEL, learn=False, class_weight={first: 2.0}).fit(X, y)
    repeated = GPC(KERNEL, learn=False).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(Z), repeated.predict_proba(Z), atol=1e-6)
    assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_)
    assert weighted.class_weight_[0] == 2.0
