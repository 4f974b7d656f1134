"""Candidates of a search over length-scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    cross_val_predict,
    cross_validate,
)

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from mercer.rows.left_out import folds_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40) + 7
Z = RNG.normal(size=(9, 3))


@pytest.mark.filterwarnings("ignore:.*has the least")
def test_length_scales_are_searched_together_with_alpha() -> None:
    scales, alphas = [0.2, 1.5, 20.0], [1e-3, 1e-1, 10.0]
    model = mc.KernelRidge(mc.RBF(), alpha="loo", alphas=alphas, length_scales=scales).fit(X, Y)
    expected = np.array(
        [
            mc.KernelRidge(mc.RBF(length_scale=s), alpha="loo", alphas=alphas)
            .fit(X, Y)
            .search_errors_[0]
            for s in scales
        ]
    )
    np.testing.assert_allclose(model.search_errors_, expected, rtol=1e-9)
    row, column = np.unravel_index(np.argmin(expected), expected.shape)
    assert model.kernel_ == mc.RBF(length_scale=scales[row]) == model.search_kernels_[row]
    assert model.alpha_ == alphas[column]
    direct = mc.KernelRidge(model.kernel_, alpha=model.alpha_).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), direct.predict(Z), rtol=1e-8)
    np.testing.assert_allclose(model.loo_residuals_, direct.loo_residuals_, rtol=1e-6, atol=1e-9)


def test_a_fixed_alpha_with_length_scales_uses_leave_one_out() -> None:
    model = mc.KernelRidge(alpha=0.1, length_scales=[0.1, 2.0]).fit(X, Y)
    assert (model.alpha_, model.search_errors_.shape) == (0.1, (2, 1))
    assert model.kernel_ == mc.RBF(length_scale=2.0)


@pytest.mark.filterwarnings("ignore:.*has the least")
def test_which_length_scales_a_grid_reaches() -> None:
    kernel = mc.RBF(length_scale=mc.Fixed(3.0)) + mc.Laplacian(length_scale=1.0)
    model = mc.KernelRidge(kernel, length_scales=[0.5, 2.0]).fit(X, Y)
    assert {k.get_params()["laplacian__length_scale"] for k in model.search_kernels_} == {0.5, 2.0}
    assert {k.get_params()["rbf__length_scale"] for k in model.search_kernels_} == {mc.Fixed(3.0)}
    grid = {"rbf__length_scale": [1.0, 2.0], "laplacian__length_scale": [1.0, 2.0, "median"]}
    free = mc.RBF() + mc.Laplacian()
    both = mc.KernelRidge(free, length_scales=grid).fit(X, Y)
    assert len(both.search_kernels_) == 6
    assert len(set(both.search_kernels_)) == 6


@pytest.mark.filterwarnings("ignore:.*that was compared, has the least")
def test_automatic_length_scales_are_multiples_within_bounds() -> None:
    kernel = (
        mc.RBF(length_scale=mc.Bounded(1.0, 0.5, 2.0))
        + mc.Laplacian(length_scale=mc.Fixed(3.0))
        + mc.Matern(length_scale=[1.0] * X.shape[1])
    )
    model = mc.KernelRidge(kernel, 0.1, length_scales="auto").fit(X, Y)
    factors = 2.0 ** np.linspace(-3, 2, 11)
    found = [k.get_params() for k in model.search_kernels_]
    assert [p["rbf__length_scale"].value for p in found] == list(np.clip(factors, 0.5, 2.0))
    assert {p["laplacian__length_scale"] for p in found} == {mc.Fixed(3.0)}
    for params, factor in zip(found, factors, strict=True):
        np.testing.assert_allclose(params["matern__length_scale"], factor)
    resolved = mc.KernelRidge(alpha=0.1).fit(X, Y).kernel_.length_scale
    chosen = mc.KernelRidge(alpha=0.1, length_scales="auto").fit(X, Y)
    lengths = [k.length_scale for k in chosen.search_kernels_]
    np.testing.assert_allclose(lengths, np.outer(factors, resolved))


WORDS = ["abab", "baba", "bbbb", "aab", "ba", "bab", "aaaa", "abba", "baab", "bb"] * 4


@pytest.mark.filterwarnings("ignore:.*has the least")
@pytest.mark.parametrize("model", [mc.KernelRidge, mc.KernelHuberRegressor])
@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (mc.Linear(), X),
        (mc.RBF(mc.Fixed(2.0)) * mc.Polynomial(2), X),
        (mc.Precomputed(), mc.RBF(2.0)(X)),
        (mc.Spectrum(2), WORDS),
        ("linear", X),
    ],
    ids=["Linear", "Fixed", "Precomputed", "strings", "name"],
)
def test_auto_leaves_a_kernel_without_length_scales_as_it_is(
    model: Any, kernel: Any, rows: Any
) -> None:
    settings = {"alpha": "loo", "alphas": [0.1, 1.0]}
    searched = model(kernel, length_scales="auto", **settings).fit(rows, Y)
    alone = model(kernel, **settings).fit(rows, Y)
    assert searched.search_kernels_ == (searched.kernel_,) == (alone.kernel_,)
    assert_allclose(searched.search_errors_, alone.search_errors_)
    with pytest.raises(ParameterError, match="has no length_scale that is not Fixed; leave"):
        model(kernel, length_scales=[1.0], **settings).fit(rows, Y)


@pytest.mark.parametrize("length_scales", [[], {}, "median", {"length_scale": []}])
def test_empty_grids_of_length_scales(length_scales: Any) -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: length_scales = .*no values"):
        mc.KernelRidge(length_scales=length_scales).fit(X, Y)


# What is left out ---------------------------------------------------------------------------------

S = mc.solvers
NOISY = np.sin(2 * X[:, 0]) + 0.5 * RNG.normal(size=40)
COPIES = RNG.integers(0, 40, size=90)  # a bootstrap sample
GROUPS = RNG.integers(0, 7, size=40)
SOLVERS = {
    "Cholesky": (mc.RBF(1.0), S.Cholesky()),
    "Spectral": (mc.RBF(1.0), S.Spectral()),
    "ConjugateGradient": (mc.RBF(1.0), S.ConjugateGradient(random_state=0)),
    "NystromSolver": (mc.RBF(1.0), S.NystromSolver(landmarks=X[:15])),
    "Primal": (mc.Polynomial(2), S.Primal()),
    "RandomFeatures": (
        mc.RBF(1.0),
        S.RandomFeatures(mc.RandomFourier(n_components=30, random_state=0)),
    ),
}


def ridge(name: str, alpha: Any = "loo", **settings: Any) -> mc.KernelRidge:
    kernel, solver = SOLVERS[name]
    return mc.KernelRidge(kernel, alpha, solver=solver, **settings)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("alpha", ["loo", "gcv"])
def test_repeated_rows_choose_what_weights_choose(name: str, alpha: str) -> None:
    rows, counts = np.unique(COPIES, return_counts=True)
    repeated = ridge(name, alpha).fit(X[COPIES], NOISY[COPIES])
    weighted = ridge(name, alpha).fit(X[rows], NOISY[rows], sample_weight=counts.astype(float))
    assert_allclose(repeated.alphas_, weighted.alphas_)
    assert_allclose(repeated.search_errors_, weighted.search_errors_, rtol=1e-6)
    assert repeated.alpha_ == pytest.approx(weighted.alpha_)
    assert repeated.alpha_ > repeated.alphas_[2]
    assert_allclose(repeated.predict(Z), weighted.predict(Z), rtol=1e-4, atol=1e-4)
    if hasattr(repeated, "dual_coef_") and name != "NystromSolver":
        assert repeated.dual_coef_.shape == (90,)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_rows_measured_again_choose_what_their_means_choose(criterion: str) -> None:
    again = np.tile(X, (3, 1))
    targets = np.concatenate([NOISY + 0.3 * RNG.normal(size=40) for _ in range(3)])
    means = targets.reshape(3, 40).mean(axis=0)
    model = mc.KernelRidge(mc.RBF(1.0), criterion).fit(again, targets)
    merged = mc.KernelRidge(mc.RBF(1.0), criterion).fit(X, means, sample_weight=np.full(40, 3.0))
    scatter = np.mean((targets - np.tile(means, 3)) ** 2)
    assert_allclose(model.search_errors_, merged.search_errors_ + scatter)
    assert model.alpha_ == merged.alpha_


def test_length_scales_and_paths_leave_copies_out_too() -> None:
    twice, targets = np.tile(X, (2, 1)), np.tile(NOISY, 2)
    grid = {"length_scales": [0.3, 1.0, 3.0], "alphas": [0.01, 0.1, 1.0]}
    repeated = mc.KernelRidge(mc.RBF(), "loo", **grid).fit(twice, targets)
    once = mc.KernelRidge(mc.RBF(), "loo", **grid).fit(X, NOISY, sample_weight=np.full(40, 2.0))
    assert_allclose(repeated.search_errors_, once.search_errors_)
    assert repeated.kernel_ == once.kernel_
    for name in ("Cholesky", "NystromSolver", "Primal"):
        path = ridge(name).path(twice, targets, [0.1, 1.0])
        weighted = ridge(name).path(X, NOISY, [0.1, 1.0], sample_weight=np.full(40, 2.0))
        for what in ("loo_errors", "gcv_errors", "effective_dof"):
            assert_allclose(getattr(path, what), getattr(weighted, what), rtol=1e-6)
        assert_allclose(path.predict(Z), weighted.predict(Z), rtol=1e-6)
    assert ridge("Cholesky").path(twice, targets, [0.1]).dual_coef.shape == (1, 80)


def test_bootstrap_samples_do_not_interpolate() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 6, size=(200, 1))
    truth = np.sin(inputs).ravel()
    targets = truth + 0.5 * rng.normal(size=200)
    rows = rng.integers(0, 200, size=200)
    for criterion in ("loo", "gcv"):
        model = mc.KernelRidge(alpha=criterion).fit(inputs[rows], targets[rows])
        assert model.score(inputs, truth) > 0.9


def refits(name: str, alpha: float, weights: Any, **settings: Any) -> np.ndarray:
    """Residuals of fits without each group, by scikit-learn's splits."""
    residuals = np.empty(40)
    for rest, group in LeaveOneGroupOut().split(X, groups=GROUPS):
        mass = None if weights is None else weights[rest]
        model = ridge(name, alpha, **settings).fit(X[rest], NOISY[rest], sample_weight=mass)
        residuals[group] = NOISY[group] - model.predict(X[group])
    return residuals


WEIGHTS = np.where(np.arange(40) % 9 == 0, 0.0, RNG.uniform(0.5, 2.0, size=40))


@pytest.mark.filterwarnings("ignore:.*has the least")
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_groups_are_left_out_as_a_whole(name: str, weights: Any, fit_intercept: bool) -> None:
    alphas = [0.03, 0.3, 3.0]
    settings = {"fit_intercept": fit_intercept}
    # Length-scales of a search, and features, are those of all rows: here they are numbers.
    model = ridge(name, alphas=alphas, **settings).fit(X, NOISY, weights, groups=GROUPS)
    expected = []
    for alpha in alphas:
        squares = refits(name, alpha, weights, **settings) ** 2
        expected.append(np.average(squares, weights=weights))
    tolerance = 1e-4 if name == "ConjugateGradient" else 1e-7
    assert_allclose(model.search_errors_[0], expected, rtol=tolerance)
    assert model.alpha_ == alphas[int(np.argmin(expected))]
    if name != "NystromSolver":  # which keeps landmarks alone
        residuals = refits(name, model.alpha_, weights, **settings)
        assert_allclose(model.loo_residuals_, residuals, rtol=tolerance, atol=tolerance)
        assert_allclose(model.loo_path(alphas), expected, rtol=tolerance)
    if name != "ConjugateGradient":
        path = ridge(name, **settings).path(X, NOISY, alphas, weights, groups=GROUPS)
        assert_allclose(path.loo_errors, expected, rtol=tolerance)


def test_groups_of_more_rows_than_features() -> None:
    pair = np.arange(40) % 2
    model = mc.KernelRidge(mc.Linear(), "loo", solver=S.Primal()).fit(X, NOISY, groups=pair)
    predicted = cross_val_predict(
        mc.KernelRidge(mc.Linear(), model.alpha_), X, NOISY, groups=pair, cv=LeaveOneGroupOut()
    )
    assert_allclose(model.loo_residuals_, NOISY - predicted, rtol=1e-7, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*has the least")
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])
def test_folds_are_those_of_a_grid_search(name: str, grouped: bool) -> None:
    groups = np.arange(40) // 2 if grouped else None
    folds = folds_of(40, groups)
    assert np.bincount(folds).tolist() == [8] * 5
    grid = {"alpha": [0.03, 0.3, 3.0]}
    model = ridge(name, "cv", alphas=grid["alpha"]).fit(X, NOISY, groups=groups)
    error = "neg_mean_squared_error"
    search = GridSearchCV(ridge(name), grid, cv=PredefinedSplit(folds), scoring=error)
    search.fit(X, NOISY)
    tolerance = 1e-4 if name == "ConjugateGradient" else 1e-7
    assert_allclose(model.search_errors_[0], -search.cv_results_["mean_test_score"], rtol=tolerance)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_allclose(model.predict(Z), search.predict(Z), rtol=tolerance)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
def test_folds_are_those_of_machines(weights: Any) -> None:
    rows = np.append(np.arange(35), np.arange(5))  # five copies
    settings = {"alpha": "cv", "alphas": [0.03, 0.3, 3.0], "length_scales": [0.5, 1.0]}
    model = mc.KernelRidge(mc.RBF(), **settings).fit(X[rows], NOISY, weights)
    machine = mc.KernelMachineRegressor(mc.RBF(), **settings).fit(X[rows], NOISY, weights)
    assert_allclose(model.search_errors_, 2 * machine.search_errors_, rtol=1e-6)
    assert (model.kernel_, model.alpha_) == (machine.kernel_, machine.alpha_)


def test_folds_need_rows_in_memory() -> None:
    model = ridge("NystromSolver", "cv")
    with pytest.raises(DataError, match=r'alpha = "cv" leaves out folds.*pass alpha="loo"'):
        model.fit(mc.Blocks([(X, NOISY)]))


def test_copies_in_other_groups_stay() -> None:
    twice, groups = np.tile(X, (2, 1)), np.repeat([0, 1], 40)
    model = mc.KernelRidge(mc.RBF(1.0), 0.1).fit(twice, np.tile(NOISY, 2), groups=groups)
    once = mc.KernelRidge(mc.RBF(1.0), 0.1).fit(X, NOISY)
    assert_allclose(model.loo_residuals_, np.tile(NOISY - once.predict(X), 2), atol=1e-10)


def test_groups_that_cannot_be_left_out() -> None:
    with pytest.raises(ParameterError, match=r'alpha = "gcv".*pass alpha="loo"'):
        mc.KernelRidge(alpha="gcv").fit(X, NOISY, groups=GROUPS)
    with pytest.raises(DataError, match=r"groups has shape \(39,\)"):
        mc.KernelRidge(alpha="loo").fit(X, NOISY, groups=GROUPS[:39])
    with pytest.raises(DataError, match="groups need rows in memory; pass arrays"):
        mc.KernelRidge(solver=S.NystromSolver(10)).fit(mc.Blocks([(X, NOISY)]), groups=GROUPS)
    alone = np.where(WEIGHTS > 0, 0, 1)
    with pytest.raises(DataError, match="no candidate has a finite loo error"):
        mc.KernelRidge(alpha="loo").fit(X, NOISY, WEIGHTS, groups=alone)


def test_groups_are_routed_by_scikit_learn() -> None:
    with config_context(enable_metadata_routing=True):
        model = mc.KernelRidge(mc.RBF(1.0), "loo").set_fit_request(groups=True)
        routed = cross_validate(
            model, X, NOISY, params={"groups": GROUPS}, cv=GroupKFold(3), return_estimator=True
        )
        for fitted, (rest, _) in zip(
            routed["estimator"], GroupKFold(3).split(X, groups=GROUPS), strict=True
        ):
            direct = clone(model).fit(X[rest], NOISY[rest], groups=GROUPS[rest])
            assert fitted.alpha_ == direct.alpha_


@pytest.mark.parametrize("name", ["Cholesky", "NystromSolver", "Primal"])
@pytest.mark.parametrize("criterion", ["loo", "gcv"])
def test_the_unit_of_one_target_changes_no_choice(name: str, criterion: str) -> None:
    targets = np.column_stack([NOISY, X[:, 1] ** 2])
    first = ridge(name, criterion).fit(X, targets)
    scaled = ridge(name, criterion).fit(X, targets * [1e-3, 1.0])
    assert scaled.alpha_ == first.alpha_
    single = [ridge(name, criterion).fit(X, column).search_errors_ for column in targets.T]
    inverse = 1 / targets.var(axis=0)
    expected = np.tensordot(inverse / inverse.sum(), single, 1)
    assert_allclose(first.search_errors_, expected, rtol=1e-6)
    constant = ridge(name, criterion).fit(X, np.column_stack([NOISY, np.full(40, 0.1)]))
    assert constant.alpha_ == ridge(name, criterion).fit(X, NOISY).alpha_


# Ends of grids ------------------------------------------------------------------------------------


def test_near_copies_are_named() -> None:
    moved = np.vstack([X, X + 1e-6])
    with pytest.warns(NumericalWarning, match=r"near copies of rows \(100% of them\).*groups="):
        mc.KernelRidge(mc.RBF(1.0), "loo").fit(moved, np.tile(NOISY, 2))
    model = mc.KernelRidge(mc.RBF(1.0), "loo")
    model.fit(moved, np.tile(NOISY, 2), groups=np.tile(np.arange(40), 2))
    once = mc.KernelRidge(mc.RBF(1.0), "loo").fit(X, NOISY, sample_weight=np.full(40, 2.0))
    assert model.search_errors_.min() == pytest.approx(once.search_errors_.min(), rel=0.1)


def test_ends_of_given_grids() -> None:
    for alphas, which in (
        ([5.0, 10.0, 50.0, 90.0], "least"),
        ([1e-6, 1e-5, 1e-4, 1e-3], "largest"),
    ):
        with pytest.warns(NumericalWarning, match=rf"the {which} compared.*pass alphas that reach"):
            mc.KernelRidge(mc.RBF(1.0), "loo", alphas=alphas).fit(X, NOISY)
    for scales, which in (
        ([0.1, 0.12, 0.15, 0.2], "longest"),
        ([4.0, 8.0, 12.0, 16.0], "shortest"),
    ):
        with pytest.warns(NumericalWarning, match=f"length_scale = .*the {which} that"):
            mc.KernelRidge(mc.RBF(), "loo", length_scales=scales).fit(X, np.sin(2 * X[:, 0]))


def test_ends_that_mean_something_are_silent() -> None:
    pure = np.random.default_rng(6).normal(size=40)
    model = mc.KernelRidge(mc.RBF(1.0), "loo").fit(X, pure)
    assert model.alpha_ == model.alphas_[-1]
    line = np.linspace(0, 6, 40)[:, None]
    exact = mc.KernelRidge(mc.RBF(1.0), "loo").fit(line, np.sin(line).ravel())
    assert exact.alpha_ == exact.alphas_[0]


def test_conjugate_gradients_compare_no_small_alphas() -> None:
    line = np.linspace(0, 6, 60)[:, None]
    poor = S.ConjugateGradient(rank=2, random_state=0)  # which explains little of the kernel
    model = mc.KernelRidge(mc.RBF(1.0), "loo", solver=poor)
    with pytest.warns(NumericalWarning, match=r"the smallest that iterations.*Nystrom") as told:
        model.fit(line, np.sin(line).ravel())
    assert len(told) == 1
