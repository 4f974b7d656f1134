"""Conjugate gradients and Falkon: iterations that go on, searches, and preconditioners."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone

import mercer as mc
from mercer.estimator.iterative import IterativeEstimator
from mercer.exceptions import (
    DataError,
    NumericalWarning,
    ParameterError,
)
from solver_data import BOTH, MATERN, TARGET, TRAIN, N, W, Z

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2] ** 2])
WEIGHTS = RNG.uniform(0.5, 2.0, size=300)
KERNEL = mc.RBF(1.0)


def model(max_iter: int, *, warm_start: bool = True, **settings: Any) -> mc.KernelRidge:
    settings = {"preconditioner": "rpcholesky", "rank": 20, "tol": 1e-10} | settings
    solver = S.ConjugateGradient(max_iter=max_iter, **settings)
    return mc.KernelRidge(KERNEL, 1e-2, solver=solver, warm_start=warm_start)


def fitted_short(estimator: mc.KernelRidge, y: Any = Y) -> mc.KernelRidge:
    with pytest.warns(NumericalWarning, match="stopped after"):
        return estimator.fit(X, y, WEIGHTS)


@pytest.mark.parametrize("preconditioner", ["rpcholesky", "pivoted", "nystrom", None])
def test_to_continue_is_not_to_have_stopped(preconditioner: Any) -> None:
    # Without a random state: the preconditioner is kept by its seed.
    stopped = fitted_short(model(7, preconditioner=preconditioner))
    assert (stopped.n_iter_, stopped.converged_) == (7, False)
    state = stopped._state
    fitted_short(stopped)
    assert stopped.n_iter_ == 14
    stopped.set_params(solver__max_iter=1000).fit(X, Y, WEIGHTS)
    whole = model(1000, preconditioner=preconditioner)
    whole._state = type(state)(state.settings, state.seed)  # the same preconditioner, from zero
    whole.fit(X, Y, WEIGHTS)
    assert stopped.converged_
    assert stopped.n_iter_ == whole.n_iter_
    assert_array_equal(stopped.dual_coef_, whole.dual_coef_)
    assert_array_equal(stopped.residual_history_, whole.residual_history_)


def test_a_cold_start_forgets() -> None:
    cold = fitted_short(model(5, warm_start=False, random_state=0))
    assert cold._state is None
    fitted_short(cold)
    assert cold.n_iter_ == 5


def test_other_data_begin_at_the_last_solution() -> None:
    stopped = model(1000).fit(X, Y, WEIGHTS)
    iterations = stopped.n_iter_
    near = Y + 1e-6 * RNG.normal(size=Y.shape)
    stopped.fit(X, near, WEIGHTS)
    assert 0 < stopped.n_iter_ < iterations
    exact = mc.KernelRidge(KERNEL, 1e-2, solver=S.Cholesky()).fit(X, near, WEIGHTS)
    assert_allclose(stopped.predict(X), exact.predict(X), atol=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_quite_other_data_are_fitted_as_well(scale: float) -> None:
    stopped = model(1000).fit(X, Y, WEIGHTS)
    stopped.fit(X[:200], scale * Y[:200, :1])
    exact = mc.KernelRidge(KERNEL, 1e-2, solver=S.Cholesky()).fit(X[:200], scale * Y[:200, :1])
    assert_allclose(stopped.predict(X) / scale, exact.predict(X) / scale, atol=1e-6)
    stopped.fit(X[::-1], -3 * scale * Y)
    exact.fit(X[::-1], -3 * scale * Y)
    assert_allclose(stopped.predict(X) / scale, exact.predict(X) / scale, atol=1e-6)


def test_another_preconditioner_or_solver_begins_anew() -> None:
    stopped = fitted_short(model(7))
    stopped.set_params(solver__rank=30, solver__max_iter=1000).fit(X, Y, WEIGHTS)
    assert stopped.converged_
    nystrom = stopped.set_params(solver=S.NystromSolver(20, random_state=0)).fit(X, Y)
    assert nystrom._state is None
    assert stopped.set_params(solver=S.Cholesky()).fit(X, Y)._state is None


def test_an_interrupted_fit_is_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model(1000, random_state=0).fit(X, Y)
    plain = IterativeEstimator._iterations
    reports = []

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def context() -> Any:
            with plain(self, *args, **kwargs) as report:

                def stop_at_nine(fitted: Any) -> bool:
                    reports.append(report(fitted))
                    if len(reports) == 9:
                        raise KeyboardInterrupt
                    return reports[-1]

                yield stop_at_nine

        return context()

    stopped = model(1000, random_state=0)
    monkeypatch.setattr(IterativeEstimator, "_iterations", counted)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, Y)
    assert (stopped.n_iter_, stopped.converged_) == (9, False)
    stopped = pickle.loads(pickle.dumps(stopped))
    stopped.fit(X, Y)
    assert stopped.n_iter_ == whole.n_iter_
    assert_array_equal(stopped.dual_coef_, whole.dual_coef_)


def test_a_clone_begins_anew() -> None:
    stopped = fitted_short(model(5))
    assert not hasattr(clone(stopped), "_state")
    with pytest.raises(ParameterError, match="warm_start = 1 is neither True nor False"):
        mc.KernelRidge(warm_start=1).fit(X, Y)  # type: ignore[arg-type]


@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_constant_targets_after_others(constant: float) -> None:
    again = model(1000).fit(X, Y[:, 0])
    again.fit(X, np.full(len(X), constant))
    np.testing.assert_allclose(again.predict(X), constant, atol=1e-12)
    both = model(1000).fit(X, Y)
    both.fit(X, np.column_stack([Y[:, 0], np.full(len(X), constant)]))
    np.testing.assert_allclose(both.predict(X)[:, 1], constant, atol=1e-12)
    fresh = model(1000).fit(X, Y[:, 0])
    np.testing.assert_allclose(both.predict(X)[:, 0], fresh.predict(X), atol=1e-5)


def test_falkon_after_another_solver() -> None:
    stopped = fitted_short(model(7))
    stopped.set_params(solver=S.Falkon(50, random_state=0)).fit(X, Y)
    cold = mc.KernelRidge(KERNEL, 1e-2, solver=S.Falkon(50, random_state=0)).fit(X, Y)
    assert_array_equal(stopped.dual_coef_, cold.dual_coef_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("preconditioner", ["rpcholesky", "pivoted", "nystrom"])
def test_preconditioners_change_iterations_alone(preconditioner: str, dtype: Any) -> None:
    X = RNG.normal(size=(400, 2)).astype(dtype)
    y = np.sin(X).sum(axis=1)
    weights = RNG.uniform(0.5, 2.0, size=400)
    alpha, tolerance = (1e-3, 1e-6) if dtype == np.float64 else (0.1, 1e-3)
    solvers = [
        mc.solvers.ConjugateGradient(how, rank=60, tol=1e-9, random_state=0)
        for how in (preconditioner, None)
    ]
    fast, slow = (
        mc.KernelRidge(mc.RBF(1.0), alpha, solver=solver).fit(X, y, weights) for solver in solvers
    )
    exact = mc.KernelRidge(mc.RBF(1.0), alpha).fit(X, y, weights)
    assert_allclose(fast.predict(X), exact.predict(X), atol=tolerance)
    assert fast.converged_
    assert fast.n_iter_ < slow.n_iter_ / 2
    assert fast.preconditioner_error_ < 1e-3


def test_an_unknown_preconditioner_is_refused() -> None:
    solver = mc.solvers.ConjugateGradient("jacobi")
    with pytest.raises(ParameterError, match="'nystrom', None"):
        mc.KernelRidge(solver=solver).fit([[0.0], [1.0]], [0.0, 1.0])


Array = NDArray[np.floating[Any]]


def test_iterations_that_stop_short_are_kept_and_said() -> None:
    # Of so many rows some landmarks' worth is the sample of the preconditioner, and not all.
    few = S.Falkon(N // 12, random_state=0, max_iter=2)
    for solver in (S.ConjugateGradient(None, max_iter=2), few):
        model = mc.KernelRidge(MATERN, 1e-3, solver=solver)
        with pytest.warns(NumericalWarning, match="stopped after 2 with a relative residual of"):
            model.fit(TRAIN, TARGET)
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

    model = mc.KernelRidge(MATERN, 1e-3, solver=S.ConjugateGradient(None))
    model.set_callbacks(Stop())
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN, TARGET)
    assert not model.converged_
    assert model.n_iter_ == 1
    assert model.predict(Z).shape == (11,)


@pytest.mark.filterwarnings("ignore:.*the least compared")
@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_conjugate_gradients_choose_as_the_dense_solver_does(
    criterion: Any, weights: Array | None
) -> None:
    settings = {"alphas": [1e-3, 0.1, 10.0], "length_scales": [0.5, 1.5, 8.0]}
    solver = S.ConjugateGradient(tol=1e-10, random_state=0)
    dense = mc.KernelRidge(MATERN, criterion, **settings).fit(TRAIN, TARGET, weights)
    found = mc.KernelRidge(MATERN, criterion, solver=solver, **settings).fit(TRAIN, TARGET, weights)
    assert (found.alpha_, found.kernel_) == (dense.alpha_, dense.kernel_)
    assert_allclose(found.predict(Z), dense.predict(Z), rtol=1e-6)
    if weights is None:
        assert_allclose(found.search_errors_, dense.search_errors_, rtol=1e-6)


def test_a_sample_of_rows_chooses_for_all() -> None:
    solver = S.ConjugateGradient(tol=1e-10, search_rows=60, random_state=0)
    given = {"alphas": [1e-9, 0.1, 1e4], "length_scales": [1.5, 1.5]}
    with pytest.warns(NumericalWarning, match="1e-09 would be better"):
        model = mc.KernelRidge(MATERN, "loo", solver=solver, **given).fit(TRAIN, BOTH)
    assert_allclose(*model.search_errors_)  # all candidates see the same sample
    assert np.isinf(model.search_errors_[:, 0]).all()  # too small for iterations
    assert model.alpha_ == 0.1
    assert_allclose(model.predict(Z), mc.KernelRidge(MATERN, 0.1).fit(TRAIN, BOTH).predict(Z))
    tiny = mc.KernelRidge(MATERN, "loo", alphas=[1e-6], solver=solver).fit(TRAIN, TARGET)
    assert tiny.alpha_ == 1e-6
    with pytest.raises(DataError, match="no candidate has a finite loo error"):
        mc.KernelRidge(MATERN, "loo", solver=solver).fit(TRAIN[:1], TARGET[:1])


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


MANY = RNG.normal(size=(900, 3))
MANY_Y = np.column_stack([np.sin(4 * MANY[:, 0]), MANY[:, 1] * MANY[:, 2]])
MASS = RNG.uniform(0.5, 2.0, size=900)
NARROW = mc.RBF(0.5)


def over_landmarks(max_iter: int, **settings: Any) -> mc.KernelRidge:
    settings = {"n_landmarks": 60, "tol": 1e-8, "max_iter": max_iter} | settings
    return mc.KernelRidge(NARROW, 1e-4, solver=S.Falkon(**settings), warm_start=True)


def cut_short(estimator: mc.KernelRidge) -> mc.KernelRidge:
    with pytest.warns(NumericalWarning, match="stopped after"):
        return estimator.fit(MANY, MANY_Y, MASS)


@pytest.mark.parametrize("random_state", [None, 0, np.random.RandomState(0)])
def test_landmarks_are_kept_and_iterations_go_on(random_state: Any) -> None:
    stopped = cut_short(over_landmarks(2, random_state=random_state))
    rows, first = stopped.rows_, stopped.residual_
    cut_short(stopped)
    assert stopped.n_iter_ == 4
    if random_state is not None:  # how much four iterations gain depends on the landmarks
        assert stopped.residual_ < first / 2
    assert_array_equal(stopped.rows_, rows)
    stopped = pickle.loads(pickle.dumps(stopped))
    stopped.set_params(solver__max_iter=1000).fit(MANY, MANY_Y, MASS)
    assert stopped.converged_
    assert_array_equal(stopped.rows_, rows)
    # The minimum, from weighted normal equations that are written out.
    C, M = NARROW(MANY, MANY[rows]), NARROW(MANY[rows])
    means, middle = MASS @ C / MASS.sum(), MASS @ MANY_Y / MASS.sum()
    root = np.sqrt(MASS)[:, None]
    A = root * (C - means)
    coef = np.linalg.solve(A.T @ A + 1e-4 * M, A.T @ (root * (MANY_Y - middle)))
    assert_allclose(stopped.predict(MANY), middle + (C - means) @ coef, atol=1e-5)


def test_it_takes_as_many_iterations_in_two_fits() -> None:
    whole = over_landmarks(1000, random_state=0).fit(MANY, MANY_Y, MASS)
    stopped = cut_short(over_landmarks(4, random_state=0))
    stopped.set_params(solver__max_iter=1000).fit(MANY, MANY_Y, MASS)
    assert abs(stopped.n_iter_ - whole.n_iter_) <= 1  # residuals are kept apart for each fit
    assert_allclose(stopped.predict(X), whole.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"solver__n_landmarks": 50},
        {"alpha": 1e-2},
        {"kernel": mc.RBF(0.8)},
        {"solver__random_state": 1},
    ],
)
def test_other_landmarks_alphas_and_kernels_begin_anew(change: dict[str, Any]) -> None:
    stopped = cut_short(over_landmarks(2, random_state=0))
    stopped.set_params(solver__max_iter=1000, **change).fit(MANY, MANY_Y, MASS)
    anew = clone(stopped).set_params(warm_start=False).fit(MANY, MANY_Y, MASS)
    assert_array_equal(stopped.rows_, anew.rows_)
    assert_allclose(stopped.predict(X), anew.predict(X), atol=1e-5)


def test_other_data_are_fitted_by_falkon_as_well() -> None:
    stopped = cut_short(over_landmarks(2, random_state=0))
    stopped.set_params(solver__max_iter=1000)
    for rows, y in ((MANY[:600], MANY_Y[:600, 0]), (MANY[::-1], 1e20 * MANY_Y)):
        stopped.fit(rows, y)
        anew = clone(stopped).fit(rows, y)
        size = np.abs(y).max()
        assert_allclose(stopped.predict(X) / size, anew.predict(X) / size, atol=1e-5)


def test_small_alphas_are_compared_where_the_preconditioner_explains_the_kernel() -> None:
    """Without noise a small alpha is best, and a smooth kernel lets iterations reach it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.sin(X).sum(axis=1)
    solver = S.ConjugateGradient(random_state=0, rank=200)
    model = mc.KernelRidge(mc.RBF(1.0), "loo", solver=solver).fit(X, y)
    assert model.alpha_ < 1e-6


def test_an_alpha_that_iterations_limit_is_reported() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.sin(X).sum(axis=1)
    solver = S.ConjugateGradient(random_state=0, rank=2)
    with pytest.warns(
        NumericalWarning, match=r"smallest that iterations.*would be better.*NystromSolver"
    ):
        model = mc.KernelRidge(mc.RBF(0.3), "loo", solver=solver).fit(X, y)
    assert 1e-4 <= model.alpha_ < 1e-3
