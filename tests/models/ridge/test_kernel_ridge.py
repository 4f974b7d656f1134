"""Kernel ridge against refitting, scikit-learn's estimators, and its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)
from model_samples import PATH, WAVE

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40) + 7
Z = RNG.normal(size=(9, 3))
WEIGHTS = RNG.integers(0, 4, size=40).astype(float)
RBF = mc.RBF(length_scale=1.5)
CHOLESKY = mc.solvers.Cholesky()


@parametrize_with_checks(
    [
        mc.KernelRidge(),
        mc.KernelRidge(alpha="loo"),
        mc.KernelRidge(mc.Linear(), alpha=0.1),
        # The checks pass matrices with negative eigenvalues, which would be refused.
        mc.KernelRidge(mc.Precomputed(), psd="clip"),
    ]
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Peers and limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, -2 * Y + X[:, 1]])])
def test_a_linear_kernel_is_ridge(
    fit_intercept: bool, weights: Array | None, targets: Array
) -> None:
    model = mc.KernelRidge(mc.Linear(), alpha=0.7, fit_intercept=fit_intercept)
    peer = Ridge(alpha=0.7, fit_intercept=fit_intercept)
    model.fit(X, targets, weights)
    peer.fit(X, targets, weights)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-9)
    assert model.predict(Z).shape == (9, *targets.shape[1:])
    primal = model.primal_coef()
    np.testing.assert_allclose(primal.values.T, peer.coef_, rtol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5])
def test_without_intercept_it_is_scikit_learns_kernel_ridge(weights: Array | None) -> None:
    gamma = 1 / (2 * 1.5**2)
    peer = SklearnKernelRidge(alpha=0.3, kernel="rbf", gamma=gamma).fit(X, Y, weights)
    model = mc.KernelRidge(RBF, alpha=0.3, fit_intercept=False).fit(X, Y, weights)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-9)
    np.testing.assert_allclose(model.dual_coef_, peer.dual_coef_, rtol=1e-7, atol=1e-9)
    assert model.intercept_ == 0.0


def test_small_alpha_interpolates_and_large_alpha_predicts_the_weighted_mean() -> None:
    weights = WEIGHTS + 1
    tiny = mc.KernelRidge(RBF, alpha=1e-10).fit(X, Y, weights)
    np.testing.assert_allclose(tiny.predict(X), Y, atol=1e-6)
    huge = mc.KernelRidge(RBF, alpha=1e12).fit(X, Y, weights)
    np.testing.assert_allclose(huge.predict(Z), np.average(Y, weights=weights), rtol=1e-9)


def test_alpha_zero_is_the_interpolant_of_least_norm() -> None:
    model = mc.KernelRidge(RBF, alpha=0, fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, rtol=1e-6)
    assert (model.rank_, model.jitter_, model.alpha_) == (40, 0.0, 0.0)
    least = mc.KernelRidge(mc.Linear(), alpha=0).fit(X[:3], Y[:3])
    np.testing.assert_allclose(least.predict(X[:3]), Y[:3], rtol=1e-9)
    centred = X[:3] - X[:3].mean(axis=0)
    expected = np.linalg.pinv(centred) @ (Y[:3] - Y[:3].mean())
    np.testing.assert_allclose(least.primal_coef().values, expected, rtol=1e-8)
    assert least.rank_ == 2


def test_alpha_zero_with_more_rows_than_features_is_least_squares() -> None:
    model = mc.KernelRidge(mc.Linear(), alpha=0).fit(X, Y)
    peer = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=1e-9)
    assert model.rank_ == 3
    assert model.effective_dof_ == pytest.approx(4)
    assert not hasattr(mc.KernelRidge(mc.Linear(), alpha=1.0).fit(X, Y), "rank_")


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_integer_weights_are_repeated_rows_and_zero_removes(
    alpha: float, fit_intercept: bool
) -> None:
    rows = np.repeat(np.arange(40), WEIGHTS.astype(int))
    model = mc.KernelRidge(RBF, alpha=alpha, fit_intercept=fit_intercept)
    weighted = model.fit(X, Y, WEIGHTS).predict(Z)
    assert np.all(model.dual_coef_[WEIGHTS == 0] == 0)
    repeated = model.fit(X[rows], Y[rows]).predict(Z)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


def test_length_scale_heuristics_see_the_weights() -> None:
    rows = np.repeat(np.arange(40), WEIGHTS.astype(int))
    weighted = mc.KernelRidge().fit(X, Y, WEIGHTS)
    repeated = mc.KernelRidge().fit(X[rows], Y[rows])
    assert weighted.kernel_.length_scale == pytest.approx(repeated.kernel_.length_scale)
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), rtol=1e-8)
    assert mc.KernelRidge().fit(X, Y).kernel_.length_scale == pytest.approx(
        np.sqrt(3 / 2) * X.std(axis=0)
    )


# Diagnostics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.2, "loo"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_residuals_are_those_of_refitting(
    alpha: Any, weights: Array | None, fit_intercept: bool
) -> None:
    n = 20
    x, y = X[:n], Y[:n]
    w = None if weights is None else weights[:n]
    model = mc.KernelRidge(RBF, alpha=alpha, fit_intercept=fit_intercept).fit(x, y, w)
    refit = mc.KernelRidge(RBF, alpha=model.alpha_, fit_intercept=fit_intercept)
    for i in range(n):
        kept = np.arange(n) != i
        refit.fit(x[kept], y[kept], None if w is None else w[kept])
        expected = y[i] - refit.predict(x[[i]])[0]
        assert model.loo_residuals_[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_spectral_view_agrees_with_itself_and_with_the_fitted_values() -> None:
    targets = np.column_stack([Y, X[:, 1]])
    model = mc.KernelRidge(RBF, alpha=0.4).fit(X, targets)
    assert model.loo_residuals_.shape == (40, 2)
    assert np.all(np.diff(model.shrinkage_) <= 0)
    assert model.effective_dof_ == pytest.approx(1 + model.shrinkage_.sum())
    np.testing.assert_allclose(
        model.dof_path([0.4, 1e-300, 1e300]), [model.effective_dof_, 40, 1], rtol=1e-8
    )
    unit = mc.KernelRidge(RBF, alpha=0.4).fit(X, np.eye(40))
    hat = unit.predict(X)
    assert np.trace(hat) == pytest.approx(model.effective_dof_)
    shares = 1 / targets.var(axis=0)
    shares /= shares.sum()
    loo = np.mean(model.loo_residuals_**2, axis=0) @ shares
    np.testing.assert_allclose(model.loo_path([0.4]), loo, rtol=1e-9)
    squares = ((targets - hat @ targets) / (1 - np.trace(hat) / 40)) ** 2
    gcv = np.mean(squares, axis=0) @ shares
    np.testing.assert_allclose(model.gcv_path([0.4]), gcv, rtol=1e-8)


def test_diagnostics_do_not_depend_on_how_the_model_was_found() -> None:
    chosen = mc.KernelRidge(RBF, alpha="loo", alphas=[0.3]).fit(X, Y, WEIGHTS)
    given = mc.KernelRidge(RBF, alpha=0.3).fit(X, Y, WEIGHTS)
    for name in ("dual_coef_", "intercept_", "loo_residuals_", "shrinkage_", "effective_dof_"):
        np.testing.assert_allclose(
            getattr(chosen, name), getattr(given, name), rtol=1e-7, atol=1e-9, err_msg=name
        )


def test_diagnostics_of_an_unfitted_model() -> None:
    model = mc.KernelRidge()
    for name in ("loo_residuals_", "shrinkage_", "effective_dof_"):
        assert not hasattr(model, name)
    for method in (model.dof_path, model.loo_path, model.gcv_path):
        with pytest.raises(NotFittedError):
            method([1.0])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.primal_coef()


# Choosing alpha and the length-scale -------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_the_chosen_alpha_has_the_least_error(criterion: str) -> None:
    alphas = np.geomspace(1e-4, 1e2, 7)
    targets = np.column_stack([Y, X[:, 1] ** 2])
    model = mc.KernelRidge(RBF, alpha=criterion, alphas=alphas).fit(X, targets, WEIGHTS)
    path = getattr(model, f"{criterion}_path")(alphas)
    np.testing.assert_allclose(model.search_errors_, path[None], rtol=1e-10)
    assert model.alpha_ == alphas[np.argmin(path)]
    np.testing.assert_array_equal(model.alphas_, alphas)
    assert isinstance(model.alpha_, float)


def test_the_default_grid_scales_with_the_kernel() -> None:
    once = mc.KernelRidge(RBF, alpha="loo").fit(X, Y)
    scaled = mc.KernelRidge(mc.Fixed(100.0) * RBF, alpha="loo").fit(X, Y)
    np.testing.assert_allclose(scaled.alphas_, 100 * once.alphas_)
    np.testing.assert_allclose(once.alphas_[[0, -1]], [1e-8, 40.0])
    np.testing.assert_allclose(scaled.predict(Z), once.predict(Z), rtol=1e-6)
    single = mc.KernelRidge(RBF, alpha="loo").fit(X.astype(np.float32), Y)
    assert single.alphas_[0] == pytest.approx(40 * np.finfo(np.float32).eps)


def test_the_path_is_one_fit_for_each_alpha() -> None:
    alphas = [0.0, 0.1, 3.0]
    for targets in (Y, np.column_stack([Y, X[:, 1]])):
        model = mc.KernelRidge(RBF)
        path = model.path(X, targets, alphas, WEIGHTS)
        assert not hasattr(model, "dual_coef_")
        assert path.predict(Z).shape == (3, 9, *targets.shape[1:])
        for i, alpha in enumerate(alphas):
            single = mc.KernelRidge(RBF, alpha=alpha).fit(X, targets, WEIGHTS)
            np.testing.assert_allclose(path.predict(Z)[i], single.predict(Z), rtol=1e-6)
            np.testing.assert_allclose(path.intercept[i], single.intercept_, rtol=1e-6)
            assert path.dual_coef[i].shape == single.dual_coef_.shape
            assert path.effective_dof[i] == pytest.approx(single.effective_dof_)
            assert path.loo_errors[i] == pytest.approx(single.loo_path([alpha])[0])
            assert path.gcv_errors[i] == pytest.approx(single.gcv_path([alpha])[0])


# Kinds of data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_data_frames(container: Any) -> None:
    columns = ["a", "b", "c"]
    frame = container({name: X[:, j] for j, name in enumerate(columns)})
    model = mc.KernelRidge(RBF).fit(frame, Y)
    assert list(model.feature_names_in_) == columns
    np.testing.assert_allclose(model.predict(frame), mc.KernelRidge(RBF).fit(X, Y).predict(X))


def test_sparse_rows() -> None:
    sparse = sp.csr_array(np.where(X > 0, X, 0))
    for kernel in (RBF, mc.Linear()):
        model = mc.KernelRidge(kernel).fit(sparse, Y)
        dense = mc.KernelRidge(kernel).fit(sparse.toarray(), Y)
        np.testing.assert_allclose(model.predict(sparse), dense.predict(sparse.toarray()))


WORDS = ["".join(RNG.choice(list("ACGT"), size=size)) for size in RNG.integers(4, 12, size=40)]


def test_strings() -> None:
    kernel = mc.Spectrum(2).normalized()
    model = mc.KernelRidge(kernel, alpha="loo").fit(WORDS, Y)
    matrix = mc.KernelRidge(mc.Precomputed(), alpha="loo").fit(kernel(WORDS), Y)
    unseen = ["ACGT", "NNNN", WORDS[3]]
    np.testing.assert_allclose(
        model.predict(unseen), matrix.predict(kernel(unseen, WORDS)), rtol=1e-6
    )
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_a_composition_on_columns_of_a_frame_is_fitted_and_searched(container: Any) -> None:
    frame = container({"word": WORDS, "ph": X[:, 0], "unused": X[:, 1], "heat": X[:, 2]})
    kernel = mc.Spectrum(2).normalized().on("word") * mc.RBF(length_scale=2.0).on("ph", "heat")
    product = mc.Spectrum(2).normalized()(WORDS) * mc.RBF(length_scale=2.0)(X[:, [0, 2]])
    model = mc.KernelRidge(kernel).fit(frame, Y)
    expected = mc.KernelRidge(mc.Precomputed()).fit(product, Y).predict(product)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-8)
    grid = {"kernel__rbf__length_scale": [0.01, 2.0]}
    search = GridSearchCV(mc.KernelRidge(kernel, alpha=0.1), grid, cv=3).fit(frame, Y)
    low, high = search.cv_results_["mean_test_score"]
    assert low != high


def test_precomputed_matrices_are_not_written_to() -> None:
    K, cross = rbf_kernel(X, gamma=0.2), rbf_kernel(Z, X, gamma=0.2)
    for alpha in (0.5, 0.0, "loo"):
        before = K.copy()
        model = mc.KernelRidge(mc.Precomputed(), alpha=alpha).fit(K, Y, WEIGHTS)
        np.testing.assert_array_equal(K, before)
        same = mc.KernelRidge(mc.RBF.from_gamma(0.2), alpha=alpha).fit(X, Y, WEIGHTS)
        np.testing.assert_allclose(model.predict(cross), same.predict(Z), rtol=1e-6)
        np.testing.assert_allclose(model.loo_residuals_, same.loo_residuals_, rtol=1e-4, atol=1e-6)


def test_a_precomputed_float32_matrix_is_judged_by_its_own_precision() -> None:
    K = (X @ X.T).astype(np.float32)  # of rank 3, so negative in float64 by rounding
    model = mc.KernelRidge(mc.Precomputed()).fit(K, Y)
    expected = mc.KernelRidge(mc.Linear()).fit(X, Y).predict(Z)
    np.testing.assert_allclose(model.predict((Z @ X.T).astype(np.float32)), expected, rtol=1e-4)
    with pytest.raises(ValidityError):
        mc.KernelRidge(mc.Precomputed()).fit(K.astype(np.float64), Y)


def test_float32_stays_float32() -> None:
    model = mc.KernelRidge(RBF).fit(X.astype(np.float32), Y.astype(np.float32))
    assert model.dual_coef_.dtype == model.predict(Z.astype(np.float32)).dtype == np.float32
    double = mc.KernelRidge(RBF).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z.astype(np.float32)), double.predict(Z), rtol=1e-4)


def test_one_row_and_constant_columns() -> None:
    assert mc.KernelRidge().fit([[1.0]], [3.0]).predict([[9.0]]) == pytest.approx(3.0)
    assert mc.KernelRidge(alpha=0).fit([[1.0]], [3.0]).predict([[9.0]]) == pytest.approx(3.0)
    constant = mc.KernelRidge().fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_allclose(constant.predict([[1.0, 1.0]]), 2.0)


def test_duplicate_rows_are_fitted_and_explained() -> None:
    doubled, targets = np.vstack([X, X]), np.concatenate([Y, Y])
    kernel = mc.Linear()
    with pytest.warns(NumericalWarning, match="jitter_"):
        model = mc.KernelRidge(kernel, alpha=1e-25, solver=CHOLESKY).fit(doubled, targets)
    assert model.jitter_ > 0
    assert np.isfinite(model.predict(Z)).all()


# Indefinite similarities -------------------------------------------------------------------------


def indefinite(seed: int = 0) -> Array:
    """A symmetric matrix with eigenvalues of both signs, none below -0.9."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(40, 40)))
    return (Q * np.linspace(-0.9, 5, 40)) @ Q.T


@pytest.mark.parametrize("alpha", [1.0, 0.0, "loo"])
def test_an_indefinite_matrix_is_refused_even_where_alpha_would_hide_it(alpha: Any) -> None:
    with pytest.raises(ValidityError, match=r"KernelRidge: .*Precomputed.*psd=\"clip\""):
        mc.KernelRidge(mc.Precomputed(), alpha=alpha).fit(indefinite(), Y)


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
@pytest.mark.parametrize("alpha", [0.5, "loo"])
def test_repair_treats_test_rows_alike(method: str, alpha: Any) -> None:
    K = indefinite()
    K = (K + K.T) / 2
    rows = RNG.normal(size=(6, 40))
    repair = mc.validity.repair(K, method)
    model = mc.KernelRidge(mc.Precomputed(), alpha=alpha, psd=method).fit(K, Y)
    valid = mc.KernelRidge(mc.Precomputed(), alpha=alpha).fit(repair.matrix, Y)
    expected = valid.predict(repair.transform(rows))
    np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-7)
    np.testing.assert_allclose(model.loo_residuals_, valid.loo_residuals_, rtol=1e-6, atol=1e-8)


def test_an_indefinite_kernel_says_so() -> None:
    kernel = mc.Sigmoid()
    with pytest.raises(ValidityError, match="Sigmoid"):
        mc.KernelRidge(kernel).fit(3 * X, Y)
    assert np.isfinite(mc.KernelRidge(kernel, psd="clip").fit(3 * X, Y).predict(Z)).all()


def test_a_matrix_that_is_not_symmetric_is_refused() -> None:
    K = rbf_kernel(X)
    K[0, 1] += 0.5
    with pytest.raises((ValidityError, DataError), match=r"[Ss]ymmetric"):
        mc.KernelRidge(mc.Precomputed()).fit(K, Y)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "aic", None, True, [1.0]])
def test_bad_alpha(alpha: Any) -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: alpha = .*pass"):
        mc.KernelRidge(alpha=alpha).fit(X, Y)


@pytest.mark.parametrize("alphas", [[], [-1.0], [np.nan], "x", [[1.0]], [1.0, np.inf]])
def test_bad_grids_of_alpha(alphas: Any) -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: alphas = .*pass"):
        mc.KernelRidge(alpha="loo", alphas=alphas).fit(X, Y)
    with pytest.raises(ParameterError, match="alphas"):
        mc.KernelRidge().path(X, Y, alphas)


def test_impossible_grids_of_length_scales() -> None:
    with pytest.raises(ParameterError, match="has no length_scale"):
        mc.KernelRidge(mc.Linear(), length_scales=[1.0]).fit(X, Y)
    with pytest.raises(ParameterError):
        mc.KernelRidge(length_scales=[1.0, -1.0]).fit(X, Y)
    with pytest.raises(ParameterError):
        mc.KernelRidge(length_scales={"periodic__length_scale": [1.0]}).fit(X, Y)


def test_bad_psd() -> None:
    with pytest.raises(ParameterError, match=r"psd = 'fix'.*'clip'"):
        mc.KernelRidge(psd="fix").fit(X, Y)


def test_bad_targets_and_weights() -> None:
    with pytest.raises(DataError, match=r"y has shape \(39,\) but X has 40 rows"):
        mc.KernelRidge().fit(X, Y[:-1])
    with pytest.raises(DataError, match="NaN"):
        mc.KernelRidge().fit(X, np.where(Y > 7, np.nan, Y))
    with pytest.raises(DataError, match="target y is None"):
        mc.KernelRidge().fit(X, None)
    with pytest.raises(DataError, match=r"[Nn]egative"):
        mc.KernelRidge().fit(X, Y, np.linspace(-1, 1, 40))
    with pytest.raises(DataError, match="zero"):
        mc.KernelRidge().fit(X, Y, np.zeros(40))
    with pytest.raises(DataError, match="sample_weight"):
        mc.KernelRidge().fit(X, Y, np.ones(39))


def test_bad_data() -> None:
    model = mc.KernelRidge().fit(X, Y)
    with pytest.raises(DataError, match="NaN"):
        mc.KernelRidge().fit(np.where(X > 0, np.nan, X), Y)
    with pytest.raises(DataError, match="2 features, but KernelRidge is expecting 3"):
        model.predict(Z[:, :2])
    with pytest.raises(DataError, match="Reshape"):
        model.predict(Z[0])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(DataError, match="feature names"):
        mc.KernelRidge().fit(frame, Y).predict(frame.rename(columns={"c": "d"}))


def test_a_matrix_that_overflows_is_refused() -> None:
    model = mc.KernelRidge(mc.Linear(), solver=CHOLESKY)
    with pytest.raises(DataError, match="gives infinity"):
        model.fit(np.full((3, 1), 1e200), [1.0, 2.0, 3.0])


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 20_000)
    model = mc.KernelRidge(RBF, solver=mc.solvers.Cholesky())
    sentence = r"KernelRidge on 40 rows needs 63\.7 KiB.*19\.5 KiB.*float32"
    with pytest.raises(MemoryForecastError, match=sentence):
        mc.KernelRidge(RBF, alpha="loo", solver=mc.solvers.Cholesky()).fit(X, Y)
    assert model.fit(X, Y).predict(Z).shape == (9,)
    with pytest.raises(MemoryForecastError, match=r"19\.5 KiB"):
        _ = model.shrinkage_


# Paths --------------------------------------------------------------------------------------------

MATERN = mc.Matern(1.5)
ALPHAS = np.array([3.0, 1e-2, 0.3, 100.0])
SOME = np.arange(20, 50)
MAP = mc.RandomFourier(mc.RBF(1.5), n_components=60, random_state=0)


def class_name(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize(
    "solver",
    [
        mc.solvers.NystromSolver(landmarks=np.arange(len(PATH.X))),
        mc.solvers.ConjugateGradient(tol=1e-11),
    ],
    ids=class_name,
)
@pytest.mark.parametrize("weights", [None, PATH.W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("y", [PATH.Y, PATH.BOTH], ids=["one", "two"])
def test_complete_solvers_give_the_exact_path(
    y: Array, fit_intercept: bool, weights: Array | None, solver: Any
) -> None:
    exact = mc.KernelRidge(MATERN, fit_intercept=fit_intercept).path(PATH.X, y, ALPHAS, weights)
    model = mc.KernelRidge(MATERN, fit_intercept=fit_intercept, solver=solver)
    path = model.path(PATH.X, y, ALPHAS, weights)
    assert path.solver is not None
    np.testing.assert_allclose(path.predict(PATH.Z), exact.predict(PATH.Z), rtol=1e-6, atol=1e-6)
    assert path.dual_coef.shape == exact.dual_coef.shape
    assert path.intercept.shape == exact.intercept.shape
    if isinstance(solver, mc.solvers.NystromSolver):
        np.testing.assert_allclose(path.effective_dof, exact.effective_dof, rtol=1e-6)
        np.testing.assert_allclose(path.gcv_errors, exact.gcv_errors, rtol=1e-5)
        np.testing.assert_allclose(path.loo_errors, exact.loo_errors, rtol=1e-5)
    else:
        assert np.isnan(path.loo_errors).all()


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [
        (MATERN, mc.solvers.NystromSolver(landmarks=SOME)),
        (mc.Polynomial(2), mc.solvers.Primal()),
        (mc.RBF(1.5), mc.solvers.RandomFeatures(MAP)),
        (MATERN, mc.solvers.ConjugateGradient(tol=1e-11)),
        (MATERN, mc.solvers.ConjugateGradient("nystrom", tol=1e-11, random_state=0)),
    ],
    ids=class_name,
)
@pytest.mark.parametrize("weights", [None, PATH.W], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [PATH.Y, PATH.BOTH], ids=["one", "two"])
def test_every_point_of_a_path_is_a_fit(kernel: Any, solver: Any, weights: Any, y: Array) -> None:
    model = mc.KernelRidge(kernel, solver=solver)
    path = model.path(PATH.X, y, ALPHAS, weights)
    assert not hasattr(model, "dual_coef_")
    for alpha, found in zip(ALPHAS, path.predict(PATH.Z), strict=True):
        single = mc.KernelRidge(kernel, alpha, solver=solver).fit(PATH.X, y, weights)
        np.testing.assert_allclose(found, single.predict(PATH.Z), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "solver",
    [mc.solvers.NystromSolver(landmarks=SOME), mc.solvers.RandomFeatures(MAP)],
    ids=class_name,
)
@pytest.mark.filterwarnings("ignore:.*compared, has the least")
def test_errors_on_a_path_are_those_of_a_search(solver: Any) -> None:
    path = mc.KernelRidge(mc.RBF(1.5), solver=solver).path(PATH.X, PATH.Y, ALPHAS)
    for criterion, errors in (("loo", path.loo_errors), ("gcv", path.gcv_errors)):
        model = mc.KernelRidge(mc.RBF(1.5), criterion, alphas=ALPHAS, solver=solver).fit(
            PATH.X, PATH.Y
        )
        np.testing.assert_allclose(errors, model.search_errors_[0], rtol=1e-9)


def test_auto_takes_what_a_search_would(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(mc.KernelRidge(MATERN).path(PATH.X, PATH.Y, [1.0]).solver) == "Spectral()"
    monkeypatch.setattr("mercer.solvers.forecast.RidgeFit.dense_rows", 10)
    monkeypatch.setattr("mercer.solvers.forecast.RidgeFit.product_rows", 20)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 30)
    path = mc.KernelRidge(MATERN).path(PATH.X, PATH.Y, ALPHAS)
    assert isinstance(path.solver, mc.solvers.NystromSolver)
    assert path.dual_coef.shape == (4, 30)


def test_paths_in_single_precision() -> None:
    solver = mc.solvers.NystromSolver(landmarks=SOME)
    double = mc.KernelRidge(MATERN, solver=solver).path(PATH.X, PATH.Y, ALPHAS)
    single = mc.KernelRidge(MATERN, solver=solver).path(
        PATH.X.astype(np.float32), PATH.Y.astype(np.float32), ALPHAS
    )
    np.testing.assert_allclose(single.predict(PATH.Z), double.predict(PATH.Z), rtol=1e-4)


def test_what_a_path_cannot_do() -> None:
    for solver in (mc.solvers.ConjugateGradient(), mc.solvers.Primal()):
        with pytest.raises(ParameterError, match="alpha = 0"):
            mc.KernelRidge(mc.Linear(), solver=solver).path(PATH.X, PATH.Y, [0.0, 1.0])
    short = mc.solvers.ConjugateGradient(None, max_iter=2)
    with pytest.warns(NumericalWarning, match="stopped after 2"):
        mc.KernelRidge(MATERN, solver=short).path(PATH.X, PATH.Y, [1e-3])


# Targets of any ordinary scale --------------------------------------------------------------------

SOLVERS: dict[str, tuple[mc.Kernel, Any]] = {
    "conjugate": (mc.RBF(1.5), mc.solvers.ConjugateGradient(random_state=0)),
    "nystrom": (mc.RBF(1.5), mc.solvers.NystromSolver(30, random_state=0)),
    "features": (
        mc.RBF(1.5),
        mc.solvers.RandomFeatures(mc.RandomFourier(n_components=80, random_state=0)),
    ),
    "primal": (mc.Polynomial(2), mc.solvers.Primal()),
}


@pytest.mark.parametrize("which", SOLVERS)
def test_errors_are_in_the_units_of_the_targets(which: str) -> None:
    kernel, solver = SOLVERS[which]
    model = mc.KernelRidge(kernel, "loo", solver=solver)
    plain = model.fit(X, Y)
    errors, alpha = plain.search_errors_, plain.alpha_
    scaled = model.fit(X, 1000 * Y)
    np.testing.assert_allclose(scaled.search_errors_, 1e6 * errors, rtol=1e-6)
    assert scaled.alpha_ == alpha


@pytest.mark.parametrize("which", SOLVERS)
def test_paths_of_several_targets(which: str) -> None:
    kernel, solver = SOLVERS[which]
    model, alphas = mc.KernelRidge(kernel, solver=solver), np.array([0.1, 1.0])
    plain = model.path(X, Y, alphas)
    several = model.path(X, 1000 * np.column_stack([Y, -Y]), alphas)
    wanted = 1000 * plain.predict(X)
    np.testing.assert_allclose(several.predict(X)[:, :, 0], wanted, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(several.loo_errors, 1e6 * plain.loo_errors, rtol=1e-6)


@pytest.mark.parametrize("which", SOLVERS)
def test_constant_targets(which: str) -> None:
    kernel, solver = SOLVERS[which]
    model = mc.KernelRidge(kernel, 0.1, solver=solver)
    np.testing.assert_allclose(model.fit(X, np.zeros(len(X))).predict(X), 0.0)
    np.testing.assert_allclose(model.fit(X, np.full(len(X), 1e5)).predict(X), 1e5)


EVERY_SOLVER = {**SOLVERS, "falkon": (mc.RBF(1.5), mc.solvers.Falkon(30, random_state=0))}


def fitted(which: str, y: Any, alpha: Any = 0.1) -> mc.KernelRidge:
    kernel, solver = EVERY_SOLVER[which]
    return mc.KernelRidge(kernel, alpha, solver=solver).fit(WAVE.X, y)


@pytest.mark.parametrize("scale", [1e-9, 1e12])
@pytest.mark.parametrize("which", EVERY_SOLVER)
def test_the_scale_of_the_targets_changes_nothing_else(which: str, scale: float) -> None:
    plain, scaled = fitted(which, WAVE.Y), fitted(which, scale * WAVE.Y)
    np.testing.assert_allclose(
        scaled.predict(WAVE.X) / scale, plain.predict(WAVE.X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("which", [name for name in EVERY_SOLVER if name != "falkon"])
@pytest.mark.filterwarnings("ignore:.*compared, has the least")
def test_the_same_alpha_is_chosen(which: str, criterion: str) -> None:
    plain, scaled = fitted(which, WAVE.Y, criterion), fitted(which, 1000 * WAVE.Y, criterion)
    assert scaled.alpha_ == plain.alpha_
    np.testing.assert_allclose(scaled.search_errors_, 1e6 * plain.search_errors_, rtol=1e-6)


@pytest.mark.parametrize("which", EVERY_SOLVER)
def test_the_scale_of_the_targets_changes_no_path(which: str) -> None:
    kernel, solver = EVERY_SOLVER[which]
    alphas = np.array([0.1, 1.0])
    model = mc.KernelRidge(kernel, solver=solver)
    plain = model.path(WAVE.X, WAVE.Y, alphas)
    several = model.path(WAVE.X, 1000 * np.column_stack([WAVE.Y, -WAVE.Y]), alphas)
    np.testing.assert_allclose(
        several.predict(WAVE.X)[:, :, 0], 1000 * plain.predict(WAVE.X), rtol=1e-5, atol=1e-3
    )
    np.testing.assert_allclose(several.loo_errors, 1e6 * plain.loo_errors, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_weights_and_alpha_changes_nothing(unit: float) -> None:
    solver, weights = (
        mc.solvers.NystromSolver(landmarks=np.arange(0, 150, 5)),
        np.linspace(0.5, 2.0, len(WAVE.X)),
    )
    plain = mc.KernelRidge(mc.RBF(1.5), 0.1, solver=solver).fit(WAVE.X, WAVE.Y, weights)
    scaled = mc.KernelRidge(mc.RBF(1.5), 0.1 * unit, solver=solver).fit(
        WAVE.X, WAVE.Y, weights * unit
    )
    np.testing.assert_allclose(scaled.predict(WAVE.X), plain.predict(WAVE.X), atol=1e-8)
    # The gradient, written out: C'W (y - f) = alpha M c.
    C, M = mc.RBF(1.5)(WAVE.X, scaled.points_.data), mc.RBF(1.5)(scaled.points_.data)
    right = C.T @ (weights * (WAVE.Y - scaled.intercept_))
    left = right - (C.T @ (weights[:, None] * C) + 0.1 * M) @ scaled.dual_coef_
    assert np.linalg.norm(left) <= 1e-9 * np.linalg.norm(right)
    assert 0 < scaled.residual_ < 1e-9


@pytest.mark.parametrize("constant", [0.1, 3e9])
@pytest.mark.parametrize("kernel", [mc.Linear(), mc.RBF()], ids=repr)
def test_constant_targets_leave_no_residual_but_rounding(
    constant: float, kernel: mc.Kernel
) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3))
    model = mc.KernelRidge(kernel, solver=mc.solvers.NystromSolver(50, random_state=0))
    model.fit(rows, np.full(400, constant))  # and no warning, which would be an error here
    np.testing.assert_allclose(model.predict(rows), constant)
    assert model.residual_ < 1e-9


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_targets_beyond_the_arithmetic_are_refused(scale: float) -> None:
    with pytest.raises(DataError, match=r"the largest target is .*; divide y by a constant"):
        mc.KernelRidge(mc.RBF()).fit(X, scale * Y)
    blocks = mc.Blocks([(X, scale * Y)])
    with pytest.raises(DataError, match="the largest target"):
        mc.KernelRidge(mc.RBF(), solver=mc.solvers.NystromSolver(9)).fit(blocks)


def test_coefficients_beyond_single_precision_are_refused() -> None:
    model = mc.KernelRidge(mc.RBF(1.5), 1.0, solver=mc.solvers.NystromSolver(9))
    with pytest.raises(DataError, match="the range of"):
        model.fit(X.astype(np.float32), 1e60 * Y)


def test_the_gradient_of_the_ridge_objective() -> None:
    """J(a) = |y - K a|^2 / 2 + lambda a'Ka / 2 has the gradient -K (y - K a) + lambda K a."""
    rng = np.random.default_rng(10)
    K = mc.RBF()(rng.normal(size=(25, 2)))
    y, a, penalty = rng.normal(size=25), rng.normal(size=25), 0.3

    def objective(v: np.ndarray) -> float:
        residual = y - K @ v
        return float(residual @ residual + penalty * v @ K @ v) / 2

    step = 1e-5
    slopes = [(objective(a + step * e) - objective(a - step * e)) / (2 * step) for e in np.eye(25)]
    assert_allclose(slopes, -K @ (y - K @ a) + penalty * K @ a, rtol=1e-6, atol=1e-7)
