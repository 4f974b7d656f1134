"""How a process is fitted: what "auto" takes, what a forecast says, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler

import mercer as mc
from mercer import memory
from mercer.exceptions import DataError, MemoryForecastError, NumericalWarning, ParameterError
from mercer.models.gaussian_process import plan
from mercer.models.gaussian_process.landmarks import LandmarkObjective
from mercer.solvers.forecast import GaussianProcessFit
from model_samples import ARD, FEW, HELD, MANY, QUADRATIC, waves

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, _, Z, _, VARIANCES = MANY
N = len(X)
RBF = ARD
ROWS, TARGETS, BOTH, FRESH, WEIGHTS, _ = QUADRATIC
SMOOTH = 1.7 * mc.RBF(length_scale=2.0)
POLYNOMIAL = mc.Polynomial(2)


def test_auto_learns_on_the_bound_and_conditions_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 50)
    monkeypatch.setattr(GaussianProcessFit, "search_landmarks", 40)
    model = GP(RBF).fit(X, Y)
    assert repr(model.solver_) == "Cholesky()"
    assert model.search_solver_ == S.NystromSolver(40, "rpcholesky", 0)
    assert model.lower_bound_ < model.log_marginal_likelihood_ < model.upper_bound_
    again = GP(model.kernel_, noise=model.noise_, learn=False).fit(X, Y)
    assert_allclose(model.predict(Z), again.predict(Z), rtol=1e-9)
    assert model.log_marginal_likelihood_ == pytest.approx(again.log_marginal_likelihood_)
    assert_allclose(model.rows_, np.arange(N))
    best = GP(RBF, solver=S.Cholesky()).fit(X, Y)
    assert best.log_marginal_likelihood_ - model.log_marginal_likelihood_ < 1
    held = GP(RBF, noise=0.3, learn=False).fit(X, Y)
    assert (held.solver_, held.search_solver_) == (S.Cholesky(), S.Cholesky())
    assert model.update(Z, np.zeros(9)).predict(Z).shape == (9,)


def test_auto_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("exact_rows", 30), ("dense_rows", 50), ("search_landmarks", 20)):
        monkeypatch.setattr(GaussianProcessFit, name, value)
    monkeypatch.setattr(GaussianProcessFit, "search_rows", 60)
    iterated = GP(RBF).fit(X, Y)
    assert iterated.solver_ == S.ConjugateGradient(max_iter=200, random_state=0)
    again = GP(iterated.kernel_, noise=iterated.noise_, learn=False, solver=S.Cholesky()).fit(X, Y)
    assert_allclose(iterated.predict(Z), again.predict(Z), rtol=1e-4)
    monkeypatch.setattr(GaussianProcessFit, "product_rows", 50)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 30)
    landmarks = GP(RBF).fit(X, Y)
    assert landmarks.solver_ == S.NystromSolver(30, "rpcholesky", 0)
    assert len(landmarks.points_) == 30
    assert landmarks.lower_bound_ == landmarks.log_marginal_likelihood_
    monkeypatch.setattr(plan, "_CHOICE_BYTES", 0)
    assert GP(RBF, random_state=3).fit(X, Y).solver_ == S.NystromSolver(30, "uniform", 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": RBF + 0.1 * mc.White()},
        {"criterion": "loo"},
        {"noise": mc.Fixed(0.0)},
        {"kernel": mc.FunctionKernel(lambda a, b: a @ b.T), "noise": 1.0, "learn": False},
    ],
    ids=["white", "loo", "noiseless", "unknown"],
)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.MercerWarning")
def test_auto_takes_the_matrix_where_landmarks_cannot_serve(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianProcessFit, "exact_rows", 10)
    monkeypatch.setattr(GaussianProcessFit, "dense_rows", 20)
    model = GP(**{"kernel": RBF, **settings}).fit(X[:40], Y[:40])
    assert (model.solver_, model.search_solver_) == (S.Cholesky(), S.Cholesky())


def test_what_does_not_fit_goes_to_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mc.forecast(GP(RBF), X).chosen == S.Cholesky()
    monkeypatch.setattr(memory, "available", lambda: 60_000)
    monkeypatch.setattr(GaussianProcessFit, "search_landmarks", 10)
    monkeypatch.setattr("mercer.solvers.forecast.landmark_count", lambda n: 10)
    found = mc.forecast(GP(RBF), X)
    assert found.chosen == S.NystromSolver(10)
    assert "does not fit in memory" in str(found)
    assert GP(RBF).fit(X, Y).solver_ == S.NystromSolver(10, "rpcholesky", 0)
    with pytest.raises(MemoryForecastError, match="GaussianProcessRegressor on 80 rows"):
        GP(RBF, solver=S.Cholesky()).fit(X, Y)
    with pytest.raises(MemoryForecastError, match="with 80 landmarks"):
        GP(RBF, solver=S.NystromSolver(80)).fit(X, Y)


def test_forecasts_follow_the_rule() -> None:
    def chosen(n: int, **settings: Any) -> Any:
        return mc.forecast(GP(**settings), np.zeros((n, 2), dtype=np.float32))

    assert isinstance(chosen(4_000).chosen, S.Cholesky)
    assert "on the bound" in chosen(5_000).reason
    assert isinstance(chosen(20_000).chosen, S.ConjugateGradient)
    assert isinstance(chosen(120_000).chosen, S.NystromSolver)
    assert "White" in str(chosen(3_000, kernel=mc.RBF() + mc.White()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "nystroem"}, "solver = 'nystroem' is unknown here"),
        ({"solver": mc.RBF()}, 'is unknown here; pass "auto"'),
        ({"solver": S.NystromSolver}, "is unknown here"),
        ({"solver": None}, "solver = None is unknown"),
        ({"solver": FEW, "criterion": "loo"}, "the criterion needs the whole matrix"),
        ({"solver": FEW, "noise": mc.Fixed(0.0)}, "there is no noise"),
        ({"solver": FEW, "noise": np.append(VARIANCES[1:], 0.0)}, "there is no noise"),
        ({"solver": FEW, "kernel": RBF + mc.White()}, "contains White"),
        ({"solver": S.ConjugateGradient(), "kernel": RBF + mc.White()}, "contains White"),
        ({"solver": FEW, "kernel": mc.Sigmoid()}, "the kernel is not valid"),
        ({"solver": S.NystromSolver(0)}, "n_landmarks = 0"),
        ({"solver": S.NystromSolver(5, "best")}, "landmarks = 'best' is unknown"),
    ],
)
def test_parameters_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        GP(**{"kernel": RBF, **settings}).fit(X, Y)


def test_auto_takes_features_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(n: int, kernel: mc.Kernel, **settings: Any) -> Any:
        return mc.forecast(GP(kernel, **settings), np.zeros((n, 3), dtype=np.float32)).chosen

    assert chosen(40, POLYNOMIAL) == S.Primal()  # ten features
    assert chosen(39, POLYNOMIAL) == S.Cholesky()
    assert chosen(39, POLYNOMIAL, noise=1.0, learn=False) == S.Primal()
    assert chosen(17, POLYNOMIAL, noise=1.0, learn=False) == S.Cholesky()
    assert chosen(200_000, POLYNOMIAL) == S.Primal()
    assert chosen(1_000, POLYNOMIAL, criterion="loo") == S.Cholesky()
    assert chosen(1_000, POLYNOMIAL, noise=mc.Fixed(0.0)) == S.Cholesky()
    assert chosen(1_000, POLYNOMIAL + mc.White()) == S.Cholesky()
    with monkeypatch.context() as patch:
        patch.setattr(memory, "available", lambda: 7_000)
        found = mc.forecast(GP(POLYNOMIAL), X[:20])
        assert "does not fit in memory" in found.costs[0].line
    monkeypatch.setattr(GaussianProcessFit, "most_search_landmarks", 0)
    assert isinstance(chosen(200_000, POLYNOMIAL), S.NystromSolver)
    model = GP(POLYNOMIAL).fit(X, Y)
    assert model.solver_ == S.Cholesky()


def test_a_forecast_lists_every_solver() -> None:
    found = mc.forecast(GP(RBF), X)
    names = [type(cost.solver).__name__ for cost in found.costs]
    assert names == [
        "Primal",
        "Cholesky",
        "ConjugateGradient",
        "NystromSolver",
        "Spectral",
        "Falkon",
        "RandomFeatures",
    ]
    assert "no finite features" in str(found)
    assert str(found).count("if asked for") == 3
    assert all(cost.operations is not None for cost in found.costs[1:])
    assert "no random frequencies" in str(mc.forecast(GP(POLYNOMIAL), X))
    for solver in (S.Primal(), S.Spectral(), S.Falkon(30), waves(), S.RandomFeatures(RBFSampler())):
        asked = mc.forecast(GP(POLYNOMIAL, solver=solver), X)
        assert asked.chosen == solver
        assert asked.reason.startswith('asked for; "auto" would take Primal')


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": RBF, "solver": S.Primal()}, "the kernel has no finite features"),
        ({"solver": S.Primal(), "noise": mc.Fixed(0.0)}, "there is no noise"),
        ({"solver": S.Primal(), "criterion": "loo"}, "the criterion needs the whole matrix"),
        ({"solver": S.Primal(), "kernel": POLYNOMIAL + mc.White()}, "contains White"),
        ({"kernel": RBF, "solver": waves(), "noise": mc.Fixed(0.0)}, "there is no noise"),
        ({"kernel": RBF, "solver": waves(), "criterion": "loo"}, "the criterion needs"),
        ({"kernel": RBF + mc.White(), "solver": waves()}, "contains White"),
        ({"kernel": RBF, "solver": S.RandomFeatures(3)}, "map = 3 is not a transformer"),
        ({"kernel": RBF, "solver": S.Falkon(10), "criterion": "loo"}, "the criterion needs"),
        ({"kernel": RBF, "solver": S.Falkon(10, "learn")}, "landmarks = 'learn' is unknown"),
        ({"kernel": mc.Sigmoid(), "solver": S.Falkon(10)}, "the kernel is not valid"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        GP(**{"kernel": POLYNOMIAL, **settings}).fit(X, Y)


def test_auto_is_fitted_by_features() -> None:
    model = GP(POLYNOMIAL).fit(ROWS, TARGETS)
    assert (model.solver_, model.search_solver_) == (S.Primal(), S.Primal())
    exact = GP(POLYNOMIAL, solver=S.Cholesky()).fit(ROWS, TARGETS)
    assert_allclose(model.predict(FRESH, True), exact.predict(FRESH, True), rtol=1e-6)


def test_the_map_gets_the_learned_kernel() -> None:
    model = GP(SMOOTH, solver=waves()).fit(ROWS, TARGETS)
    assert isinstance(model.search_solver_, S.NystromSolver)
    assert model.feature_map_.kernel_ == model.kernel_ != SMOOTH
    held = GP(model.kernel_, model.noise_, solver=waves(), learn=False).fit(ROWS, TARGETS)
    assert_allclose(held.predict(FRESH, True), model.predict(FRESH, True), rtol=1e-9)
    own = GP(SMOOTH, solver=waves(kernel=SMOOTH)).fit(
        ROWS, TARGETS
    )  # the map has the kernel of the model
    assert_allclose(own.predict(FRESH), model.predict(FRESH))
    with pytest.raises(ParameterError, match="the map of RandomFeatures has kernel"):
        GP(SMOOTH, solver=waves(kernel=mc.RBF(3.0))).fit(ROWS, TARGETS)


def test_a_kernel_without_random_frequencies_is_refused_before_the_search() -> None:
    with pytest.raises(mc.exceptions.NoFeatureMapError):
        GP(POLYNOMIAL, solver=waves()).fit(ROWS, TARGETS)


@pytest.mark.parametrize(("kernel", "solver"), [(POLYNOMIAL, S.Primal()), (SMOOTH, waves())])
def test_an_interrupt_keeps_the_best_so_far(
    kernel: mc.Kernel, solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = LandmarkObjective.value_and_gradient, 0

    def interrupted(self: Any, theta: Array) -> Any:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise KeyboardInterrupt
        return whole(self, theta)

    start = GP(kernel, noise=0.1 * TARGETS.var(), learn=False, solver=S.Cholesky()).fit(
        ROWS, TARGETS
    )
    monkeypatch.setattr(LandmarkObjective, "value_and_gradient", interrupted)
    model = GP(kernel, solver=solver)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS, TARGETS)
    assert model.converged_ is False
    assert model.n_evaluations_ == 5
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_
    assert model.predict(FRESH, return_std=True)[1].shape == (9,)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [TARGETS, BOTH], ids=["one", "two"])
def test_falkons_mean_is_the_best_over_its_landmarks(weights: Any, y: Array) -> None:
    rows = np.unique([2, 5, 9, 40, 71, *np.flatnonzero(WEIGHTS == 0)[:2]])
    solver = S.Falkon(landmarks=rows, tol=1e-12)
    model = GP(SMOOTH, 0.3, solver=solver, **HELD).fit(ROWS, y, weights)
    w = np.ones(len(ROWS)) if weights is None else weights
    C, M = SMOOTH(ROWS, ROWS[rows]), SMOOTH(ROWS[rows])
    dual = np.linalg.solve(C.T @ (C * w[:, None]) + 0.3 * M, C.T @ (y.T * w).T)
    assert_allclose(model.predict(FRESH), SMOOTH(FRESH, ROWS[rows]) @ dual, rtol=1e-6)
    assert_array_equal(model.rows_, rows)
    assert model.converged_
    assert model.residual_ < 1e-10
    share = 1 - np.sum(w * np.einsum("ij,ji->i", C, np.linalg.solve(M, C.T))) / (1.7 * w.sum())
    assert model.trace_error_ == pytest.approx(share, rel=0.1)  # of its landmarks, from some rows
    by_landmarks = GP(SMOOTH, 0.3, solver=S.ConjugateGradient(random_state=0), **HELD)
    std = by_landmarks.fit(ROWS, y, weights).predict(FRESH, return_std=True)[1]
    assert_allclose(model.predict(FRESH, return_std=True)[1], std, rtol=1e-6)


def test_falkon_learns_and_tells_of_itself() -> None:
    model = GP(SMOOTH, solver=S.Falkon(40, "rpcholesky", random_state=0, tol=1e-8)).fit(
        ROWS, TARGETS
    )
    assert isinstance(model.search_solver_, S.NystromSolver)
    assert len(model.points_) == len(model.rows_) == 40
    assert_allclose(model.points_.data, ROWS[model.rows_])
    again = GP(model.kernel_, model.noise_, solver=S.Cholesky(), learn=False).fit(ROWS, TARGETS)
    assert_allclose(model.predict(FRESH), again.predict(FRESH), atol=0.1)
    for action in (lambda: model.update(FRESH, np.zeros(9)), lambda: model.loo_predictions_):
        with pytest.raises(DataError, match="found by iterations"):
            action()
    rows = np.random.default_rng(1).normal(size=(600, 3))
    few = S.Falkon(20, max_iter=1, tol=1e-12, random_state=0)
    with pytest.warns(NumericalWarning, match="residual"):
        assert not GP(SMOOTH, 0.3, solver=few, **HELD).fit(rows, rows[:, 0]).converged_
