"""Kernel ridge by every solver, against the dense one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MercerError,
    MercerWarning,
    NumericalWarning,
    ParameterError,
)
from mercer.solvers import forecast

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 160
X = RNG.normal(size=(N, 3))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=N) + 20
BOTH = np.column_stack([Y, 100 * X[:, 1]])
W = RNG.uniform(0.1, 3.0, size=N)
W[:7] = 0
Z = RNG.normal(size=(11, 3))
KERNEL = mc.Matern(1.5)
S = mc.solvers

#: Solvers that are exact when their budget is not short.
COMPLETE = [
    S.Cholesky(),
    S.Spectral(),
    S.ConjugateGradient(tol=1e-12, random_state=0),
    S.ConjugateGradient(preconditioner="pivoted", rank=20, tol=1e-12),
    S.ConjugateGradient(preconditioner=None, tol=1e-12),
    S.NystromSolver(n_landmarks=N, random_state=0),
    S.Falkon(n_landmarks=N, tol=1e-12, random_state=0),
]


def name(solver: Any) -> str:
    return type(solver).__name__


@pytest.mark.parametrize("solver", COMPLETE, ids=name)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one", "two"])
def test_every_solver_gives_the_exact_answer(
    solver: Any, weights: Array | None, fit_intercept: bool, y: Array
) -> None:
    rows = np.arange(N) if weights is None else np.flatnonzero(weights)
    if isinstance(solver, S.NystromSolver | S.Falkon):
        solver = type(solver)(**vars(solver) | {"n_landmarks": len(rows)})
    model = mc.KernelRidge(KERNEL, 0.1, fit_intercept, solver=solver).fit(X, y, weights)
    root = np.ones(len(rows)) if weights is None else np.sqrt(weights[rows])
    # The textbook: bordered equations, weighted.
    K = KERNEL(X[rows])
    system = np.zeros((len(rows) + 1,) * 2)
    system[:-1, :-1] = K + 0.1 * np.diag(root**-2.0)
    system[:-1, -1] = system[-1, :-1] = 1.0
    right = np.vstack([y.reshape(N, -1)[rows], np.zeros(y.reshape(N, -1).shape[1])])
    if fit_intercept:
        solved = np.linalg.solve(system, right)
        wanted = KERNEL(Z, X[rows]) @ solved[:-1] + solved[-1]
    else:
        wanted = KERNEL(Z, X[rows]) @ np.linalg.solve(system[:-1, :-1], right[:-1])
    assert_allclose(model.predict(Z), wanted.reshape(model.predict(Z).shape), rtol=1e-7, atol=1e-7)
    assert model.solver_ == solver


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (mc.Linear(), X),
        (2.0 * mc.Polynomial(2) + mc.Linear(), X),
        (mc.Spectrum(2), ["abab", "abc", "ccab", "bbbb", "cabc", "aabb"] * 3),
        (mc.Linear().on("a"), pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})),
    ],
    ids=["linear", "polynomial", "strings", "column"],
)
def test_features_give_the_same_as_the_dual(kernel: mc.Kernel, rows: Any) -> None:
    y = Y[: len(rows)]
    primal = mc.KernelRidge(kernel, 0.5, solver=S.Primal()).fit(rows, y)
    dual = mc.KernelRidge(kernel, 0.5, solver=S.Cholesky()).fit(rows, y)
    fresh = rows[::-1][:5]
    assert_allclose(primal.predict(fresh), dual.predict(fresh), rtol=1e-10)
    assert_allclose(primal.dual_coef_, dual.dual_coef_, rtol=1e-8, atol=1e-10)
    assert_allclose(primal.intercept_, dual.intercept_, rtol=1e-10)
    assert primal.effective_dof_ == pytest.approx(dual.effective_dof_)


@pytest.mark.parametrize("alpha", [0.3, "gcv"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_random_features(alpha: Any, weights: Array | None, fit_intercept: bool) -> None:
    fourier = mc.RandomFourier(KERNEL, n_components=40, random_state=0)
    model = mc.KernelRidge(KERNEL, alpha, fit_intercept, solver=S.RandomFeatures(fourier))
    model.fit(X, BOTH, weights)
    w = np.ones(N) if weights is None else weights
    phi = model.feature_map_.transform(X)
    design = np.column_stack([phi, np.ones(N)]) if fit_intercept else phi
    penalty = model.alpha_ * np.eye(design.shape[1])
    if fit_intercept:
        penalty[-1, -1] = 0
    squares = design.T @ (w[:, None] * design) + penalty
    wanted = np.linalg.solve(squares, design.T @ (w[:, None] * BOTH))
    fresh = model.feature_map_.transform(Z)
    fresh = np.column_stack([fresh, np.ones(len(Z))]) if fit_intercept else fresh
    assert_allclose(model.predict(Z), fresh @ wanted, rtol=1e-7)
    if alpha == "gcv":
        return
    # The representer theorem: the same function over the rows.
    over_rows = model.feature_map_.transform(Z) @ phi.T @ model.dual_coef_ + model.intercept_
    assert_allclose(over_rows, model.predict(Z), rtol=1e-6)


def test_strings_that_were_not_seen() -> None:
    rows = ["abab", "abc", "ccab", "bbbb", "cabc"]
    models = [
        mc.KernelRidge(mc.Spectrum(2), 0.5, solver=solver).fit(rows, Y[:5])
        for solver in (S.Primal(), S.Cholesky())
    ]
    first, second = (model.predict(["xyz", "abxy"]) for model in models)
    assert_allclose(first, second, rtol=1e-10)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("weights", [None, W[7:]], ids=["plain", "weighted"])
def test_landmarks_choose_alpha_as_the_dense_solver_does(
    criterion: Any, weights: Array | None
) -> None:
    alphas = np.geomspace(1e-3, 10, 7)
    rows, y = X[7:], Y[7:]
    dense = mc.KernelRidge(KERNEL, criterion, alphas=alphas).fit(rows, y, weights)
    solver = S.NystromSolver(n_landmarks=len(rows))
    found = mc.KernelRidge(KERNEL, criterion, alphas=alphas, solver=solver).fit(rows, y, weights)
    assert_allclose(found.search_errors_, dense.search_errors_, rtol=1e-6)
    assert found.alpha_ == dense.alpha_


def test_length_scales_are_compared_on_landmarks() -> None:
    lengths = [0.1, 1.5, 30.0]
    parameters: dict[str, Any] = {"alpha": 0.1, "length_scales": lengths}
    dense = mc.KernelRidge(mc.RBF(), **parameters).fit(X, Y)
    few = mc.KernelRidge(mc.RBF(), **parameters, solver=S.NystromSolver(N)).fit(X, Y)
    assert few.kernel_ == dense.kernel_
    assert_allclose(few.search_errors_, dense.search_errors_, rtol=1e-5)


@pytest.mark.parametrize("kind", [S.NystromSolver, S.Falkon])
def test_more_landmarks_are_better(kind: Any) -> None:
    exact = mc.KernelRidge(KERNEL, 0.1).fit(X, Y).predict(Z)
    errors, left = [], []
    for m in (10, 40, N):
        model = mc.KernelRidge(KERNEL, 0.1, solver=kind(n_landmarks=m, random_state=1)).fit(X, Y)
        errors.append(float(np.abs(model.predict(Z) - exact).max()))
        left.append(getattr(model, "trace_error_", 0.0))
        assert len(model.points_) == m
    assert errors[0] > errors[1] > errors[2]
    assert left == sorted(left, reverse=True)


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "rpcholesky", "leverage", [3, 5, 8], X[:9]])
def test_landmarks_of_all_kinds(how: Any) -> None:
    solver = S.NystromSolver(n_landmarks=9, landmarks=how, random_state=0)
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X, Y)
    assert model.score(X, Y) > 0
    assert 0 < model.trace_error_ < 1


def test_single_precision() -> None:
    exact = mc.KernelRidge(KERNEL, 0.1).fit(X, Y).predict(Z)
    for solver in (S.ConjugateGradient(random_state=0), S.NystromSolver(N), S.Falkon(N, tol=1e-5)):
        model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(X.astype(np.float32), Y)
        assert_allclose(model.predict(Z.astype(np.float32)), exact, rtol=1e-4)


def test_duplicate_rows_and_landmarks() -> None:
    twice = np.vstack([X, X])
    solver = S.NystromSolver(n_landmarks=2 * N)
    model = mc.KernelRidge(KERNEL, 0.1, solver=solver).fit(twice, np.append(Y, Y))
    exact = mc.KernelRidge(KERNEL, 0.05).fit(X, Y)
    assert_allclose(model.predict(Z), exact.predict(Z), rtol=1e-6)


# What users are told -----------------------------------------------------------------------------


def test_iterations_that_stop_short_are_kept_and_said() -> None:
    # Of so many rows some landmarks' worth is the sample of the preconditioner, and not all.
    few = S.Falkon(N // 12, random_state=0, max_iter=2)
    for solver in (S.ConjugateGradient(None, max_iter=2), few):
        model = mc.KernelRidge(KERNEL, 1e-3, solver=solver)
        with pytest.warns(NumericalWarning, match="stopped after 2 with a relative residual of"):
            model.fit(X, Y)
        assert not model.converged_
        assert (model.n_iter_, len(model.residual_history_)) == (2, 3)
        assert model.residual_ > 1e-6
        assert model.predict(Z).shape == (11,)


def test_an_interrupt_keeps_the_last_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop:
        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> bool:
            if context.task_name == "iteration":
                raise KeyboardInterrupt
            return False

    model = mc.KernelRidge(KERNEL, 1e-3, solver=S.ConjugateGradient(None))
    model.set_callbacks(Stop())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not model.converged_
    assert model.n_iter_ == 1
    assert model.predict(Z).shape == (11,)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"solver": "magic"}, "solver = 'magic' is unknown"),
        ({"solver": S.NystromSolver}, "is unknown"),
        ({"solver": S.ConjugateGradient("lucky")}, "preconditioner = 'lucky' is unknown"),
        ({"solver": S.ConjugateGradient(), "alpha": 0.0}, "alpha = 0 has no solution"),
        ({"solver": S.Falkon(5), "alpha": "loo"}, "cannot compare candidates by 'loo'"),
        ({"solver": S.Falkon(9), "alpha": "gcv"}, "cannot compare candidates by 'gcv'"),
        ({"solver": S.NystromSolver(0)}, "n_landmarks"),
        ({"solver": S.NystromSolver(9, landmarks="best")}, "best"),
        ({"solver": S.RandomFeatures(3)}, "map = 3 is not a transformer"),
        ({"solver": S.Primal()}, "has no finite feature map"),
        ({"solver": S.NystromSolver(9), "kernel": mc.RBF() + mc.White()}, "noise="),
        ({"solver": S.NystromSolver(9), "kernel": mc.Sigmoid()}, "needs a valid kernel"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], sentence: str) -> None:
    model = mc.KernelRidge(**{"kernel": KERNEL} | parameters)
    with pytest.raises(MercerError, match=sentence):
        model.fit(X, Y)


def test_no_penalty_in_feature_space() -> None:
    with pytest.raises(ParameterError, match="alpha = 0 determines no coefficients"):
        mc.KernelRidge(mc.Linear(), 0.0, solver=S.Primal()).fit(X, Y)


def test_diagnostics_that_need_all_rows() -> None:
    model = mc.KernelRidge(KERNEL, 0.1, solver=S.NystromSolver(20)).fit(X, Y)
    with pytest.raises(DataError, match=r"kept 20 of the 160 rows.*Cholesky"):
        _ = model.loo_residuals_
    assert 0 < model.effective_dof_ < 20


def test_more_landmarks_than_rows() -> None:
    with pytest.warns(MercerWarning, match="160"):
        model = mc.KernelRidge(KERNEL, 0.1, solver=S.NystromSolver(10_000)).fit(X, Y)
    assert len(model.points_) == N


def test_solvers_are_values() -> None:
    model = mc.KernelRidge(KERNEL, 0.1, solver=S.NystromSolver(20, random_state=0)).fit(X, Y)
    assert clone(model).solver == model.solver
    assert (
        repr(model.solver_) == "NystromSolver(n_landmarks=20, landmarks='uniform', random_state=0)"
    )
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(Z), model.predict(Z))


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_conjugate_gradients_choose_as_the_dense_solver_does(
    criterion: Any, weights: Array | None
) -> None:
    settings = {"alphas": [1e-3, 0.1, 10.0], "length_scales": [0.5, 1.5, 8.0]}
    solver = S.ConjugateGradient(tol=1e-10, random_state=0)
    dense = mc.KernelRidge(KERNEL, criterion, **settings).fit(X, Y, weights)
    found = mc.KernelRidge(KERNEL, criterion, solver=solver, **settings).fit(X, Y, weights)
    assert (found.alpha_, found.kernel_) == (dense.alpha_, dense.kernel_)
    assert_allclose(found.predict(Z), dense.predict(Z), rtol=1e-6)
    if weights is None:
        assert_allclose(found.search_errors_, dense.search_errors_, rtol=1e-6)


def test_a_sample_of_rows_chooses_for_all() -> None:
    solver = S.ConjugateGradient(tol=1e-10, search_rows=60)  # a new sample with every fit
    given = {"alphas": [1e-9, 0.1, 1e4], "length_scales": [1.5, 1.5]}
    model = mc.KernelRidge(KERNEL, "loo", solver=solver, **given).fit(X, BOTH)
    assert_allclose(*model.search_errors_)  # all candidates see the same sample
    assert np.isinf(model.search_errors_[:, 0]).all()  # too small for iterations
    assert model.alpha_ == 0.1
    assert_allclose(model.predict(Z), mc.KernelRidge(KERNEL, 0.1).fit(X, BOTH).predict(Z))
    tiny = mc.KernelRidge(KERNEL, "loo", alphas=[1e-6], solver=solver).fit(X, Y)
    assert tiny.alpha_ == 1e-6
    with pytest.raises(DataError, match="no candidate has a finite loo error"):
        mc.KernelRidge(KERNEL, "loo", solver=solver).fit(X[:1], Y[:1])


def test_single_precision_takes_no_more_iterations() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1500, 6))
    targets = np.sin(rows).sum(axis=1)
    solver = S.ConjugateGradient(tol=1e-4, random_state=0)
    counts = [
        mc.KernelRidge(mc.Matern(4.0), 1e-3, solver=solver)
        .fit(rows.astype(dtype), targets.astype(dtype))
        .n_iter_
        for dtype in (np.float64, np.float32)
    ]
    assert counts[1] <= counts[0] + 2


# The choice ---------------------------------------------------------------------------------------


def test_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(model: mc.KernelRidge) -> str:
        return name(mc.forecast(model, X).chosen)

    assert chosen(mc.KernelRidge(KERNEL)) == "Cholesky"
    assert chosen(mc.KernelRidge(mc.Linear())) == "Primal"
    assert chosen(mc.KernelRidge(mc.Polynomial(9))) == "Cholesky"  # more features than rows
    assert chosen(mc.KernelRidge(mc.Linear(), 0.0)) == "Cholesky"
    assert chosen(mc.KernelRidge(KERNEL)) == "Cholesky"
    monkeypatch.setattr(forecast.RidgeFit, "dense_rows", 100)
    assert chosen(mc.KernelRidge(KERNEL)) == "ConjugateGradient"
    assert chosen(mc.KernelRidge(KERNEL, "loo")) == "ConjugateGradient"
    assert chosen(mc.KernelRidge(mc.Sigmoid())) == "Cholesky"  # can be mended only as a whole
    monkeypatch.setattr(forecast.RidgeFit, "product_rows", 100)
    assert chosen(mc.KernelRidge(KERNEL)) == "NystromSolver"
    assert chosen(mc.KernelRidge(KERNEL, "loo")) == "NystromSolver"


def test_auto_is_what_fit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 20_000)
    model = mc.KernelRidge(KERNEL, 0.1)
    table = mc.forecast(model, X)
    assert "does not fit in memory" in str(table)
    assert model.fit(X, Y).solver_ == table.chosen == S.ConjugateGradient()


def _unknown(A: Array, B: Array) -> Array:
    return np.asarray(np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2)))


@pytest.mark.parametrize("fits", [True, False], ids=["fits", "too large"])
@pytest.mark.parametrize(
    "kernel",
    [KERNEL, KERNEL + 0.1 * mc.White(), mc.Sigmoid(), mc.FunctionKernel(_unknown)],
    ids=["valid", "white", "invalid", "unknown"],
)
@pytest.mark.parametrize("many", ["dense", "iterated", "landmarks"])
def test_fit_takes_what_is_starred_and_refuses_what_is_not(
    kernel: mc.Kernel, many: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    borders = ("dense_rows", "product_rows")[: ["dense", "iterated", "landmarks"].index(many)]
    for border in borders:
        monkeypatch.setattr(forecast.RidgeFit, border, 100)
    monkeypatch.setattr(forecast, "landmark_count", lambda n: 20)
    monkeypatch.setattr(memory, "available", lambda: 10**9 if fits else 8 * len(X) ** 2)
    monkeypatch.setattr(S.ConjugateGradient, "rank_for", lambda solver, n: 20)
    model = mc.KernelRidge(kernel, 0.1, psd="clip")
    table = mc.forecast(model, X)
    stars = [line.split()[1] for line in str(table).splitlines() if line.startswith("*")]
    if not table.is_possible:
        assert not stars
        assert "a kernel whose is_psd is True" in table.reason
        with pytest.raises(MercerError):
            model.fit(X, Y)
        return
    assert stars[0] == name(table.chosen) == name(model.fit(X, Y).solver_)
    for cost in table.costs:  # what is refused has a hard obstacle, and nothing else has
        asked = mc.KernelRidge(kernel, 0.1, psd="clip", solver=cost.solver)
        if mc.forecast(asked, X).is_possible:
            asked.fit(X, Y)
        else:
            with pytest.raises(MercerError):
                asked.fit(X, Y)


def test_auto_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(n: int) -> Any:
        return np.zeros((n, 2), dtype=np.float32)

    monkeypatch.setattr(memory, "available", lambda: 2**40)
    few, many = rows(20_000), rows(120_000)
    gp = mc.GaussianProcessRegressor
    noisy = mc.RBF() + mc.White()
    assert "is not valid" in mc.forecast(mc.KernelRidge(mc.Sigmoid()), few).reason
    unknown = mc.FunctionKernel(_unknown)
    assert "not known to be valid" in mc.forecast(mc.KernelRidge(unknown), few).reason
    assert "contains White" in mc.forecast(gp(noisy), few).reason
    assert "is not valid" in mc.forecast(gp(mc.Sigmoid(), 1.0, learn=False), few).reason
    assert "10000 rows are no more than 15000" in (
        mc.forecast(gp(mc.RBF(), 1.0, learn=False), rows(10_000)).reason
    )
    found = mc.forecast(mc.KernelRidge(noisy), many)
    assert found.chosen == S.ConjugateGradient()
    assert "contains White" in found.reason
    assert "Falkon" in str(found)
    assert str(found).count("the kernel contains White") == 3  # NystromSolver, Falkon and why


@pytest.mark.parametrize(
    "solver",
    [S.ConjugateGradient(random_state=0), S.NystromSolver(20, random_state=0), S.Falkon(20)],
    ids=name,
)
def test_a_given_matrix_may_be_asked_to_be_taken_as_valid(solver: Any) -> None:
    table = mc.forecast(mc.KernelRidge(mc.Precomputed()), KERNEL(X))
    (cost,) = [cost for cost in table.costs if name(cost.solver) == name(solver)]
    assert cost.obstacle == "if asked for: the kernel is not known to be valid"
    model = mc.KernelRidge(mc.Precomputed(), 0.1, solver=solver)
    asked = mc.forecast(model, KERNEL(X))
    assert asked.is_possible
    assert asked.chosen == solver
    assert model.fit(KERNEL(X), Y).solver_ == solver


def _expected(estimator: Any) -> dict[str, str]:
    if not isinstance(estimator.solver, S.NystromSolver):
        return {}
    checks = ("dense", "sparse")
    reason = "a row repeated has other chances to be a landmark than a row of weight two"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in checks}


@parametrize_with_checks(
    [
        mc.KernelRidge(solver=S.ConjugateGradient(random_state=0)),
        mc.KernelRidge(mc.Linear(), solver=S.NystromSolver(n_landmarks=10, random_state=0)),
        mc.KernelRidge(mc.Linear(), solver=S.Primal()),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("alpha", [1e-2, 1e-4, 1e-6])
def test_close_landmarks_keep_their_digits(alpha: float) -> None:
    # Squares of kernel values would drown alpha here: the least objective is found all the same.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(X).sum(axis=1)
    kernel, Z = mc.RBF(1.5), X[:150]
    C, M = kernel(X, Z), kernel(Z)
    values, vectors = np.linalg.eigh(M)
    kept = values > 1e-13 * values[-1]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    design = np.vstack([C @ whitening, np.sqrt(alpha) * np.eye(kept.sum())])
    wanted = np.linalg.lstsq(design, np.concatenate([y, np.zeros(kept.sum())]), rcond=None)[0]

    def objective(f: Array, square: float) -> float:
        return float(np.sum((y - f) ** 2) + alpha * square)

    least = objective(C @ whitening @ wanted, float(wanted @ wanted))
    solver = mc.solvers.NystromSolver(landmarks=Z)
    model = mc.KernelRidge(kernel, alpha, fit_intercept=False, solver=solver).fit(X, y)
    c = model.dual_coef_
    assert objective(model.predict(X), float(c @ M @ c)) <= least * (1 + 1e-3) + 1e-9
    path = mc.KernelRidge(kernel, fit_intercept=False, solver=solver).path(X, y, [alpha])
    assert_allclose(path.predict(X)[0], model.predict(X), atol=1e-6)


@pytest.mark.parametrize("length_scale", [1.5, 20.0])
def test_all_rows_as_landmarks_have_the_degrees_of_freedom_of_the_whole(
    length_scale: float,
) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.sin(X).sum(axis=1)
    kernel = mc.RBF(length_scale)
    exact = mc.KernelRidge(kernel, 1e-3, solver=mc.solvers.Cholesky()).fit(X, y)
    solver = mc.solvers.NystromSolver(landmarks=np.arange(200))
    model = mc.KernelRidge(kernel, 1e-3, solver=solver).fit(X, y)
    assert model.effective_dof_ == pytest.approx(exact.effective_dof_, rel=1e-6)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    ("solver", "match"),
    [
        (mc.solvers.ConjugateGradient(tol=-1), "tol = -1"),
        (mc.solvers.ConjugateGradient(tol=1.0), r"tol = 1.0 .* not between 0 and 1"),
        (mc.solvers.Falkon(10, tol=1.0), r"tol = 1.0 .* not between 0 and 1"),
        (mc.solvers.Falkon(10, tol=7), r"tol = 7 .* not between 0 and 1"),
        (mc.solvers.ConjugateGradient(max_iter=0), "max_iter = 0"),
        (mc.solvers.ConjugateGradient(rank=0), "rank = 0"),
        (mc.solvers.ConjugateGradient(search_rows=0), "search_rows = 0"),
        (mc.solvers.Falkon(10, tol="a"), "tol = 'a'"),
        (mc.solvers.Falkon(10, max_iter=1.5), "max_iter = 1.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_limits_of_iterations_are_checked(solver: Any, match: str) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ParameterError, match=match):
        mc.KernelRidge(mc.RBF(), 0.1, solver=solver).fit(X, X[:, 0])


@pytest.mark.parametrize("alpha", [1e-1, 1e-3, "gcv", "loo"])
def test_close_landmarks_in_single_precision(alpha: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.sin(X).sum(axis=1)
    solver = mc.solvers.NystromSolver(landmarks=np.arange(200))
    single = mc.KernelRidge(mc.RBF(1.2), alpha, solver=solver).fit(
        X.astype(np.float32), y.astype(np.float32)
    )
    double = mc.KernelRidge(mc.RBF(1.2), alpha, solver=solver).fit(X, y)
    errors = [
        float(np.sqrt(np.mean((model.predict(X.astype(dtype)) - y) ** 2)))
        for model, dtype in ((single, np.float32), (double, np.float64))
    ]
    assert errors[0] < 2 * errors[1] + 1e-3


@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("length_scale", [1.1, 1.5652, 2.2])
def test_single_precision_predicts_as_double_does(alpha: float, length_scale: float) -> None:
    rng = np.random.default_rng(0)
    rows, fresh = rng.normal(size=(3000, 5)), rng.normal(size=(1000, 5))
    y, truth = np.sin(rows).sum(axis=1) + 0.1 * rng.normal(size=3000), np.sin(fresh).sum(axis=1)
    errors = []
    for dtype in (np.float32, np.float64):
        solver = S.NystromSolver(landmarks=np.arange(300))
        model = mc.KernelRidge(mc.RBF(length_scale), alpha, solver=solver)
        model.fit(rows.astype(dtype), y.astype(dtype))
        errors.append(float(np.sqrt(np.mean((model.predict(fresh.astype(dtype)) - truth) ** 2))))
    assert errors[0] < 1.01 * errors[1]


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon], ids=lambda s: s.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_nearly_dependent_landmarks_give_least_squares_in_their_span(
    solver: Any, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    rows, fresh = rng.normal(size=(1500, 3)), rng.normal(size=(50, 3))
    y = np.sin(rows).sum(axis=1) + 3
    weights = rng.uniform(0.5, 2.0, size=len(rows)) if weighted else np.ones(len(rows))
    kernel, alpha, landmarks = mc.RBF(1.5), 1.0, np.arange(0, 1500, 10)
    model = mc.KernelRidge(kernel, alpha, solver=solver(landmarks=landmarks))
    found = model.fit(rows, y, weights if weighted else None).predict(fresh)
    # The oracle: coordinates from eigenvectors, and a QR factor of all rows, never their squares.
    values, vectors = np.linalg.eigh(kernel(rows[landmarks]))
    assert values[0] < 1e-9 * values[-1]
    kept = values > 1e-13
    turn = vectors[:, kept] / np.sqrt(values[kept])
    root = np.sqrt(weights)[:, None]
    phi = np.hstack([kernel(rows, rows[landmarks]) @ turn, np.ones((1500, 1))])
    prior = np.sqrt(alpha) * np.eye(phi.shape[1])[:-1]
    stacked = np.vstack([root * phi, prior])
    right = np.append(root[:, 0] * y, np.zeros(len(prior)))
    best = np.linalg.lstsq(stacked, right, rcond=None)[0]
    wanted = kernel(fresh, rows[landmarks]) @ turn @ best[:-1] + best[-1]
    tol = 1e-8 if solver is S.NystromSolver else 1e-6
    assert np.abs(found - wanted).max() <= tol * np.abs(wanted).max()


@pytest.mark.parametrize("start", [0.0, 1.0, 1e-200])
def test_auto_takes_no_features_without_alpha(start: float) -> None:
    # Coefficients of rows do not follow from those of features there, wherever the first row lies.
    data, y = start + np.arange(6.0)[:, None], np.arange(6.0)
    model = mc.KernelRidge(mc.Linear(), alpha=0.0).fit(data, y)
    np.testing.assert_allclose(model.predict(data), y, atol=1e-9)
    path = mc.KernelRidge(mc.Linear()).path(data, y, alphas=[0.0, 1.0])
    np.testing.assert_allclose(path.predict(data)[0], y, atol=1e-9)
