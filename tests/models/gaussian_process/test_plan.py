"""How a process is fitted: what "auto" takes, what a forecast says, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_approximation import RBFSampler

import mercer as mc
from mercer import memory
from mercer.exceptions import MemoryForecastError, ParameterError
from mercer.models.gaussian_process import plan
from mercer.solvers.forecast import GaussianProcessFit
from model_samples import ARD, FEW, MANY, waves

GP = mc.GaussianProcessRegressor
S = mc.solvers

X, Y, _, Z, _, VARIANCES = MANY
N = len(X)
RBF = ARD
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
    monkeypatch.setattr(memory, "available", lambda: 100_000)
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
        ({"solver": "nystrom"}, "solver = 'nystrom' is unknown here"),
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
