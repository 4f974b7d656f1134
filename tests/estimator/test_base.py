"""What all estimators with a kernel share."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import kernel_ridge
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.gaussian_process import kernels as gp_kernels
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils import get_tags

import mercer as mc
from mercer.exceptions import DataError, DataWarning, ParameterError, VersionWarning
from mercer.program import engine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


def test_kernel_parameters_are_nested_and_setting_them_makes_a_new_kernel() -> None:
    kernel = mc.RBF(length_scale=1.0)
    model = mc.KernelRidge(kernel)
    assert model.get_params()["kernel__length_scale"] == 1.0
    assert "kernel__length_scale" not in model.get_params(deep=False)
    assert model.set_params(kernel__length_scale=3.0, alpha=2.0) is model
    assert (model.kernel, model.alpha) == (mc.RBF(length_scale=3.0), 2.0)
    assert kernel.length_scale == 1.0
    model.set_params(kernel=mc.RBF(length_scale=5.0), kernel__length_scale=7.0)
    assert model.kernel == mc.RBF(length_scale=7.0)


def test_the_default_kernel_has_parameters_too() -> None:
    model = mc.KernelRidge()
    assert model.get_params()["kernel__length_scale"] == "columns"
    assert clone(model).kernel is None
    assert model.set_params(kernel__length_scale=2.0).kernel == mc.RBF(length_scale=2.0)


def test_a_bad_value_changes_nothing() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=1.0), alpha=1.0)
    with pytest.raises(ParameterError):
        model.set_params(alpha=5.0, kernel__length_scale=-1.0)
    with pytest.raises(ValueError, match="no_such"):
        model.set_params(alpha=5.0, kernel__no_such=1.0)
    assert (model.kernel, model.alpha) == (mc.RBF(length_scale=1.0), 1.0)


def test_a_grid_search_over_a_kernel_parameter_scores_candidates_differently() -> None:
    search = GridSearchCV(mc.KernelRidge(), {"kernel__length_scale": [0.01, 1.0, 100.0]}, cv=3)
    search.fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores.round(6))) == 3
    assert search.best_params_ == {"kernel__length_scale": 1.0}
    assert search.best_estimator_.kernel_ == mc.RBF(length_scale=1.0)


def test_tags_are_the_kernels() -> None:
    assert not get_tags(mc.KernelRidge()).input_tags.pairwise
    assert get_tags(mc.KernelRidge(mc.Precomputed())).input_tags.pairwise
    assert get_tags(mc.KernelRidge()).target_tags.multi_output


def test_what_is_not_a_kernel_is_refused_with_the_remedy() -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: kernel = \[1\].*mercer\.RBF\(\)"):
        mc.KernelRidge([1]).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"RBF is a class of kernels .*; write RBF\(\)"):
        mc.KernelRidge(mc.RBF).fit(X, Y)
    with pytest.raises(ParameterError, match=r"write KernelRidge\(alpha=1\.0\)"):
        mc.KernelRidge(1.0).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"'rbf' is a name, .* degree, gamma, coef0"):
        mc.KernelRidge("rbf").set_params(kernel__length_scale=1.0)


REGRESSORS = [
    mc.KernelRidge,
    mc.KernelMachineRegressor,
    mc.KernelHuberRegressor,
    mc.KernelQuantileRegressor,
    mc.GaussianProcessRegressor,
    mc.NadarayaWatson,
    mc.KernelLMS,
    mc.SVR,
    mc.NuSVR,
]
CLASSIFIERS = [
    mc.KernelMachineClassifier,
    mc.KernelLogisticRegression,
    mc.GaussianProcessClassifier,
    mc.KernelPerceptron,
    mc.SVC,
    mc.NuSVC,
]
TRANSFORMERS = [mc.Nystrom, mc.RandomFourier, mc.Fastfood]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [*REGRESSORS, *CLASSIFIERS, *TRANSFORMERS])
def test_every_estimator_takes_kernels_by_name(family: Any) -> None:
    targets = Y > 0 if family in CLASSIFIERS else Y
    held = {"learn": False} if hasattr(family(), "learn") else {}
    held |= {"noise": 0.1} if family is mc.GaussianProcessRegressor else {}
    held |= {"bandwidth": None} if family is mc.NadarayaWatson else {}
    named = family(kernel="rbf", gamma=0.3, **held)
    assert named.fit(X, targets).kernel_ == mc.RBF.from_gamma(0.3)
    assert "kernel__length_scale" not in named.get_params()
    assert clone(named).get_params()["gamma"] == 0.3
    by_rule = family(kernel="rbf", **held).fit(X, targets).kernel_
    np.testing.assert_allclose(by_rule(X), rbf_kernel(X, gamma=1 / (2 * X.var())), rtol=1e-10)
    by_width = family(kernel="rbf", gamma="auto", **held).fit(X, targets).kernel_
    np.testing.assert_allclose(by_width(X), rbf_kernel(X), rtol=1e-10)
    with pytest.raises(ParameterError, match=r"gamma = 0.3 belongs .* has parameters of its own"):
        family(mc.RBF(), gamma=0.3, **held).fit(X, targets)
    with pytest.raises(ParameterError, match=r'gamma = 0.3 belongs .* pass kernel="rbf" too'):
        family(None, gamma=0.3, **held).fit(X, targets)


def test_a_named_kernel_gives_the_ridge_regression_of_scikit_learn() -> None:
    theirs = kernel_ridge.KernelRidge(kernel="poly", degree=2, gamma=0.4, coef0=1.0).fit(X, Y)
    ours = mc.KernelRidge(kernel="poly", degree=2, gamma=0.4, coef0=1.0, fit_intercept=False).fit(
        X, Y
    )
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


def test_a_grid_search_over_gamma() -> None:
    search = GridSearchCV(mc.KernelRidge(kernel="rbf"), {"gamma": [1e-4, 0.5, 1e4]}, cv=3)
    assert search.fit(X, Y).best_params_ == {"gamma": 0.5}


def test_weights_count_copies_in_the_gamma_of_a_model() -> None:
    weights = np.arange(len(X)) % 3
    weighted = mc.KernelRidge(kernel="rbf").fit(X, Y, sample_weight=weights)
    copied = mc.KernelRidge(kernel="rbf").fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    assert weighted.kernel_.length_scale == pytest.approx(copied.kernel_.length_scale, rel=1e-12)


def test_rows_in_blocks_take_the_rule_of_a_name() -> None:
    def blocks() -> Any:
        return ((X[i : i + 20], Y[i : i + 20]) for i in range(0, 60, 20))

    model = mc.KernelRidge(kernel="poly", degree=2, coef0=1.0, solver="primal")
    kernel = model.fit(mc.Blocks(blocks)).kernel_
    assert kernel.gain == pytest.approx(1 / (2 * X.var()), rel=1e-10)
    with pytest.raises(ParameterError, match='gamma = "auto" needs the number of columns'):
        mc.KernelRidge(kernel="rbf", gamma="auto").fit(mc.Blocks(blocks))


def test_scikit_learns_kernel_has_the_parameters_of_the_kernel_here() -> None:
    model = mc.GaussianProcessRegressor(2.0 * gp_kernels.RBF() + gp_kernels.WhiteKernel())
    names = [name for name in clone(model).get_params() if name.startswith("kernel__")]
    assert names == ["kernel__rbf__scale", "kernel__rbf__length_scale", "kernel__white__scale"]
    model.set_params(kernel__rbf__length_scale=3.0)
    assert model.kernel.get_params()["rbf__length_scale"] == mc.Bounded(3.0, 1e-5, 1e5)


def test_errors_of_python_name_no_base_class() -> None:
    with pytest.raises(TypeError, match=r"^predict\(\) got an unexpected keyword"):
        mc.KernelRidge().fit(X, Y).predict(X, return_std=True)  # type: ignore[call-arg]


def test_a_failed_fit_leaves_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=1.0)).fit(X, Y)
    _ = model.loo_residuals_
    before = dict(vars(model))
    with pytest.raises(DataError):
        model.fit(np.ones((4, 5)), [1.0, 2.0, np.nan, 3.0])
    assert vars(model) == before

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "gram", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.ones((4, 5)), [1.0, 2.0, 2.0, 3.0])
    assert vars(model) == before
    assert model.predict(X).shape == (60,)
    fresh = mc.KernelRidge()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Y)
    assert not [name for name in vars(fresh) if name.endswith("_")]


def test_a_second_fit_forgets_what_the_first_computed() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=1.0), alpha=0.0).fit(X, Y)
    first = (model.loo_residuals_, model.shrinkage_, model.effective_dof_)
    model.set_params(alpha=1.0).fit(X[:40], Y[:40])
    assert model.loo_residuals_.shape == (40,)
    assert model.shrinkage_.shape == (39,)
    assert model.effective_dof_ != first[2]
    assert not hasattr(model, "rank_")


def test_a_display_computes_nothing() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=1.0)).fit(X, Y)
    html = model._repr_html_()
    assert "dual_coef_" in html
    assert "loo_residuals_" not in html
    assert not {"loo_residuals_", "shrinkage_", "effective_dof_"} & set(vars(model))


def test_a_model_of_another_version_warns_when_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = mc.KernelRidge(mc.RBF()).fit(X, Y)
    file = pickle.dumps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = pickle.loads(file)
    assert vars(loaded).keys() == vars(model).keys()
    written = mc.__version__
    monkeypatch.setattr(mc, "__version__", "99.0")
    with pytest.warns(VersionWarning, match=f"by mercer {written}, and this is mercer 99.0"):
        loaded = pickle.loads(file)
    assert issubclass(VersionWarning, InconsistentVersionWarning)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_fitted_model_is_pickled_and_does_not_see_later_changes_of_its_data() -> None:
    data = X.copy()
    model = mc.KernelRidge(mc.RBF(length_scale=1.0)).fit(data, Y)
    expected = model.predict(X)
    data[:] = 0
    np.testing.assert_array_equal(model.predict(X), expected)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), expected)
    np.testing.assert_allclose(again.loo_residuals_, model.loo_residuals_, rtol=1e-10)


WIDE = X * [1.0, 1e4]
FRAME = pd.DataFrame(WIDE, columns=["narrow", "wide"])
CLASSES = np.where(Y > 0, "a", "b")
WARNED = {
    "ridge": lambda: mc.KernelRidge(mc.RBF("scale")).fit(FRAME, Y),
    "a number": lambda: mc.KernelRidge(mc.Linear() + 2.0 * mc.Matern(3.0)).fit(FRAME, Y),
    "huber": lambda: mc.KernelHuberRegressor(mc.Laplacian("median")).fit(FRAME, Y),
    "logistic": lambda: mc.KernelLogisticRegression(mc.RBF("scale")).fit(FRAME, CLASSES),
    "svc": lambda: mc.SVC().fit(FRAME, CLASSES),
    "one class": lambda: mc.OneClassSVM().fit(FRAME),
    "process": lambda: mc.GaussianProcessRegressor(mc.RBF(), learn=False, noise=1.0).fit(FRAME, Y),
    "classes": lambda: mc.GaussianProcessClassifier(mc.RBF(), learn=False).fit(FRAME, CLASSES),
    "lms": lambda: mc.KernelLMS(mc.RBF("scale")).fit(FRAME, Y),
    "perceptron": lambda: mc.KernelPerceptron(mc.RBF("scale"), averaged=True).fit(FRAME, CLASSES),
    "smoother": lambda: mc.NadarayaWatson(mc.RBF("scale"), bandwidth=None).fit(FRAME, Y),
    "landmarks": lambda: mc.Nystrom(mc.RBF("scale"), 5).fit(FRAME),
    "waves": lambda: mc.RandomFourier(mc.RBF("scale"), 10).fit(FRAME),
    "blocks": lambda: mc.KernelRidge(
        mc.RBF("scale"), solver=mc.solvers.NystromSolver(5, random_state=0)
    ).fit(mc.Blocks(lambda: iter([(FRAME[:30], Y[:30]), (FRAME[30:], Y[30:])]))),
}


@pytest.mark.parametrize("name", WARNED)
def test_one_length_scale_for_unequal_columns_warns_once_and_names_them(name: str) -> None:
    with pytest.warns(DataWarning, match=r"'wide' spreads \d+ times as wide as 'narrow'") as all_:
        WARNED[name]()
    assert len(all_) == 1
    assert '("columns")' in str(all_[0].message)


def test_equal_columns_and_those_with_a_length_scale_each_do_not_warn() -> None:
    kernels = (mc.RBF("columns"), mc.RBF([1.0, 1e4]), mc.RBF("scale").on("wide"), mc.Linear())
    for kernel in (None, *kernels, mc.RBF("scale").standardized()):
        mc.KernelRidge(kernel).fit(FRAME, Y)
    mc.KernelRidge(mc.RBF("scale")).fit(X * [1.0, 25.0], Y)
    mc.RBF()(FRAME)


def test_the_default_kernel_does_not_depend_on_the_units_of_columns() -> None:
    plain = mc.KernelRidge(alpha=0.1).fit(X, Y).predict(X)
    np.testing.assert_allclose(mc.KernelRidge(alpha=0.1).fit(WIDE, Y).predict(WIDE), plain)


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF()),
        mc.GaussianProcessRegressor(mc.RBF(), noise=0.1, learn=False),
        mc.GaussianProcessClassifier(mc.RBF(), learn=False),
        mc.KernelMachineRegressor(mc.RBF()),
        mc.SVC(mc.RBF()),
        mc.KernelPerceptron(mc.RBF()),
        mc.NadarayaWatson(mc.RBF()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weights_of_more_than_twelve_decades_are_refused_by_every_fit(model: Any) -> None:
    rows, labels = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    weights = np.array([1e-13, 1.0, 1.0, 1.0, 0.0, 1.0])
    owner = type(model).__name__
    with pytest.raises(DataError, match=rf"{owner}: .* from 1e-13 to 1, a ratio above 1e\+12; set"):
        model.fit(rows, labels, sample_weight=weights)
    weights[0] = 1e-12
    model.fit(rows, labels, sample_weight=weights)


def test_weights_of_a_score_may_have_any_range() -> None:
    rows, targets = np.arange(4.0)[:, None], np.array([0.0, 1.0, 0.0, 2.0])
    model = mc.KernelRidge(mc.RBF()).fit(rows, targets)
    uneven = model.score(rows, targets, sample_weight=[1e-20, 1.0, 1.0, 1.0])
    assert uneven == pytest.approx(model.score(rows[1:], targets[1:]), rel=1e-12)


def test_weights_in_blocks_of_more_than_twelve_decades_are_refused() -> None:
    rows = np.arange(4.0)[:, None]
    blocks = [(rows, np.ones(4), np.array([1e-13, 1.0, 1.0, 1.0]))]
    model = mc.KernelRidge(mc.RBF(), solver=mc.solvers.NystromSolver(2))
    with pytest.raises(DataError, match=r"KernelRidge: .* a ratio above 1e\+12; set weights"):
        model.fit(mc.Blocks(lambda: iter(blocks)))


@pytest.mark.parametrize("make", [np.asarray, pd.Series, pd.DatetimeIndex])
def test_times_are_no_targets(make: Any) -> None:
    times = make(np.array(["2020-01-01", "2020-01-02"], dtype="M8[s]"))
    with pytest.raises(DataError, match="y holds times, and targets are numbers; pass"):
        mc.KernelRidge().fit([[0.0], [1.0]], times)


ROWS = np.random.default_rng(0).normal(size=(120, 3))


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF(1e-4)),
        mc.SVR(mc.RBF(1e-4)),
        mc.KernelHuberRegressor(mc.Matern(1e-4) * mc.RBF("median")),
        mc.GaussianProcessRegressor(mc.RBF(1e-4), learn=False, noise=0.1),
        mc.KernelLMS(mc.RBF(1e-4)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_matrix_that_is_nearly_diagonal_warns_once(model: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(ROWS, ROWS[:, 0])
    (warning,) = (w for w in caught if "nearly 0" in str(w.message))
    assert warning.category is DataWarning
    assert "raise the length-scales" in str(warning.message)


def test_matrices_that_are_not_nearly_diagonal_or_are_meant_do_not_warn() -> None:
    line = np.linspace(0, 1, 5000)[:, None]  # neighbours are alike, though few rows are
    landmarks = mc.solvers.NystromSolver(20, random_state=0)
    twice = np.repeat(1e6 * np.arange(60.0)[:, None], 2, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        mc.KernelRidge(mc.RBF(1e-3), solver=landmarks).fit(line, line.ravel())
        mc.KernelRidge(mc.RBF(1.0)).fit(twice, twice.ravel())
        mc.KernelRidge(mc.Precomputed()).fit(np.eye(120), ROWS[:, 0])
        mc.KernelRidge(mc.White()).fit(ROWS, ROWS[:, 0])
        mc.KernelRidge(mc.RBF(1.0) + 1e6 * mc.White()).fit(ROWS, ROWS[:, 0])
        mc.GaussianProcessRegressor(mc.RBF(1e-4)).fit(ROWS, ROWS[:, 0])
        mc.KernelRidge(mc.RBF(1e-4), "loo", length_scales=[1.0, 2.0]).fit(ROWS, ROWS[:, 0])
    levels = np.random.default_rng(0).integers(0, 5, size=(200, 44)).astype(str)
    with pytest.warns(DataWarning, match="lower the weights of categories"):
        mc.KernelRidge(mc.Categorical(1.0)).fit(levels, np.arange(200.0))
