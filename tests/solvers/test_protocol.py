"""Solvers as values: their parameters, and kernel ridge by every one against the textbook."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import (
    MercerError,
    NoFeatureMapError,
    ParameterError,
)
from solver_data import BOTH, MATERN, TARGET, TRAIN, N, W, Z, name

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y > 0, "high", "low")


def test_parameters_of_the_solver_are_nested_and_setting_them_makes_a_new_one() -> None:
    solver = S.NystromSolver(n_landmarks=10, random_state=0)
    model = mc.KernelRidge(mc.RBF(1.0), solver=solver)
    assert model.get_params()["solver__n_landmarks"] == 10
    assert "solver__n_landmarks" not in model.get_params(deep=False)
    assert model.set_params(solver__n_landmarks=20, alpha=2.0) is model
    assert (model.solver, model.alpha) == (S.NystromSolver(n_landmarks=20, random_state=0), 2.0)
    assert solver.n_landmarks == 10
    model.set_params(solver=S.Falkon(5), solver__tol=1e-3, kernel__length_scale=3.0)
    assert (model.solver, model.kernel) == (S.Falkon(5, tol=1e-3), mc.RBF(3.0))


def test_a_bad_name_or_nothing_to_set_changes_nothing() -> None:
    model = mc.KernelRidge(alpha=1.0, solver=S.NystromSolver(10))
    with pytest.raises(ValueError, match=r"Invalid parameter 'n_landmark' for .* NystromSolver"):
        model.set_params(alpha=5.0, solver__n_landmark=3)
    with pytest.raises(ValueError, match=r"Invalid parameter 'rank' for estimator Cholesky"):
        mc.KernelRidge(solver=S.Cholesky()).set_params(solver__rank=3)
    assert (model.alpha, model.solver) == (1.0, S.NystromSolver(10))
    with pytest.raises(ParameterError, match=r"KernelRidge: solver = 'auto' has no parameters"):
        mc.KernelRidge().set_params(solver__n_landmarks=3)


def test_parameters_of_a_map_that_is_not_there() -> None:
    model = mc.KernelRidge(solver=S.RandomFeatures())
    sentence = r"RandomFeatures: map__n_components cannot be set.*pass an object first"
    with pytest.raises(ParameterError, match=sentence):
        model.set_params(solver__map__n_components=3)
    with pytest.raises(ParameterError, match=sentence):
        GridSearchCV(model, {"solver__map__n_components": [3]}).fit(X, Y)
    given = model.set_params(solver__map=mc.RandomFourier(), solver__map__n_components=3)
    assert given.solver.map.n_components == 3


def test_a_class_is_no_map() -> None:
    model = mc.KernelRidge(solver=S.RandomFeatures(mc.RandomFourier))
    assert "solver__map__n_components" not in model.get_params()
    with pytest.raises(ParameterError, match=r"map = <class .* is a class.*pass for example"):
        model.fit(X, Y)


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (S.NystromSolver(landmarks="bogus"), "landmarks = 'bogus' is unknown"),
        (S.Falkon(landmarks="bogus"), "landmarks = 'bogus' is unknown"),
        (S.NystromSolver(0), "n_landmarks = 0"),
        (S.NystromSolver(2.5), "n_landmarks = 2.5"),  # type: ignore[arg-type]
        (S.Falkon(tol=1.0), "tol = 1.0"),
        (S.ConjugateGradient(max_iter=0), "max_iter = 0"),
        (S.ConjugateGradient("best"), "preconditioner = 'best'"),
        (S.RandomFeatures(3), "map = 3"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF()),
        mc.KernelMachineRegressor(mc.RBF(), "huber"),
        mc.GaussianProcessRegressor(mc.RBF()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_wrong_parameters_are_found_by_a_forecast_too(
    model: Any, solver: Any, sentence: str
) -> None:
    kinds = {
        mc.KernelRidge: (S.NystromSolver, S.Falkon, S.ConjugateGradient, S.RandomFeatures),
        mc.KernelMachineRegressor: (
            S.NystromSolver,
            S.Falkon,
            S.ConjugateGradient,
            S.RandomFeatures,
        ),
        mc.GaussianProcessRegressor: (
            S.NystromSolver,
            S.Falkon,
            S.ConjugateGradient,
            S.RandomFeatures,
        ),
    }[type(model)]
    if not isinstance(solver, kinds):
        sentence = "solver ="
    asked = clone(model).set_params(solver=solver)
    with pytest.raises(ParameterError, match=sentence):
        mc.forecast(asked, X)
    with pytest.raises(ParameterError, match=sentence):
        asked.fit(X, Y)


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
@pytest.mark.parametrize(
    "given",
    [np.arange(5), X[:5].copy(), sp.csr_array(X[:5]), pd.DataFrame(X[:5])],
    ids=["rows", "points", "sparse", "frame"],
)
def test_a_fitted_model_keeps_its_landmarks(solver: Any, given: Any) -> None:
    given = given.copy()
    model = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=solver(landmarks=given)).fit(X, Y)
    before = model.predict(X)
    if isinstance(given, pd.DataFrame):
        given.iloc[0, 0] = 99.0
    elif sp.issparse(given):
        given.data[0] = 99.0
    else:
        given[0] = 9
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), before)
    np.testing.assert_array_equal(model.predict(X), before)


def test_parameters_of_a_map_are_nested_too() -> None:
    solver = S.RandomFeatures(mc.RandomFourier(n_components=10, random_state=0))
    model = mc.KernelRidge(mc.RBF(1.0), solver=solver)
    assert model.get_params()["solver__map__n_components"] == 10
    model.set_params(solver__map__n_components=30, solver__map__method="iid")
    assert model.solver.map.get_params()["method"] == "iid"
    assert model.fit(X, Y).feature_map_.n_components == 30
    assert solver.map.n_components == 10
    other = solver.replace(map=mc.Fastfood(n_components=8), map__random_state=1)
    assert repr(other.map) == "Fastfood(n_components=8, random_state=1)"


@pytest.mark.parametrize(
    ("model", "y", "grid"),
    [
        (mc.KernelRidge(solver=S.NystromSolver(5, random_state=0)), Y, {"n_landmarks": [2, 40]}),
        (
            mc.KernelRidge(
                solver=S.RandomFeatures(mc.RandomFourier(n_components=2, random_state=0))
            ),
            Y,
            {"map__n_components": [2, 100]},
        ),
        (
            mc.KernelLogisticRegression(alpha=0.01, solver=S.NystromSolver(5, random_state=0)),
            LABELS,
            {"n_landmarks": [1, 40]},
        ),
        (
            mc.GaussianProcessRegressor(
                mc.RBF(mc.Fixed(1.0)), noise=0.1, solver=S.NystromSolver(5, random_state=0)
            ),
            Y,
            {"n_landmarks": [2, 40]},
        ),
    ],
    ids=["ridge", "features", "machine", "process"],
)
def test_a_grid_search_over_a_parameter_of_the_solver(model: Any, y: Any, grid: Any) -> None:
    paths = {f"solver__{path}": values for path, values in grid.items()}
    search = GridSearchCV(model, paths, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] < scores[1]
    (path,) = paths
    assert search.best_params_ == {path: paths[path][1]}
    assert search.best_estimator_.get_params()[path] == paths[path][1]
    assert model.get_params()[path] != paths[path][1]


def test_in_a_pipeline() -> None:
    pipe = make_pipeline(StandardScaler(), mc.KernelRidge(solver=S.Falkon(5, random_state=0)))
    pipe.set_params(kernelridge__solver__n_landmarks=7).fit(X, Y)
    assert len(pipe[-1].points_) == 7


def test_a_clone_shares_no_state() -> None:
    drawn = np.random.RandomState(0)
    solver = S.ConjugateGradient(random_state=drawn)
    copy = clone(mc.KernelRidge(solver=solver)).solver
    assert copy.random_state is not drawn
    assert copy.random_state.randint(1000) == drawn.randint(1000)
    assert clone(solver.replace(random_state=3)) == solver.replace(random_state=3)
    assert pickle.loads(pickle.dumps(S.NystromSolver(3))) == S.NystromSolver(3)
    assert clone(S.RandomFeatures(mc.RandomFourier())).map is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (S.NystromSolver(5, X[:5]), S.NystromSolver(5, X[1:6])),
        (S.Falkon(5, np.arange(5)), S.Falkon(5, np.arange(4))),
        (S.NystromSolver(5, sp.csr_array(X[:5])), S.NystromSolver(5, sp.csr_array(X[:4]))),
        (S.NystromSolver(5, pd.DataFrame(X[:5])), S.NystromSolver(5, pd.DataFrame(2 * X[:5]))),
        (S.NystromSolver(5, ["ab", "c"]), S.NystromSolver(5, ["ab", "d"])),
        (
            S.NystromSolver(5, mc.RBF(1.0).prepare(X[:5])),
            S.NystromSolver(5, mc.RBF(1.0).prepare(X[:4])),
        ),
        (
            S.RandomFeatures(mc.RandomFourier(mc.RBF(1.0), 10)),
            S.RandomFeatures(mc.RandomFourier(mc.RBF(2.0), 10)),
        ),
        (S.RandomFeatures(StandardScaler()), S.RandomFeatures(mc.RandomFourier())),
        (S.NystromSolver(5, "uniform"), S.NystromSolver(5, X[:5])),
        (S.Cholesky(), S.Spectral()),
    ],
    ids=str,
)
def test_solvers_are_equal_if_their_parameters_are(one: Any, other: Any) -> None:
    for copy in (clone(one), pickle.loads(pickle.dumps(one)), one.replace()):
        assert copy is not one
        assert copy == one
        assert hash(copy) == hash(one)
    assert one != other
    assert len({one, clone(one), other}) == 2


def test_the_map_is_by_default_one_of_waves() -> None:
    found = mc.KernelRidge(mc.RBF(1.0), 0.1, solver=S.RandomFeatures()).fit(X, Y)
    assert isinstance(found.feature_map_, mc.RandomFourier)
    assert found.feature_map_.n_components == 1000
    assert found.kernel_error_ < 0.2
    with pytest.raises(NoFeatureMapError):
        mc.KernelRidge(mc.Polynomial(2), solver=S.RandomFeatures()).fit(X, Y)


def test_landmarks_by_position_in_both_places() -> None:
    map_ = mc.Nystrom(mc.RBF(1.0), 20, "kmeans++", 0)
    assert (map_.landmarks, map_.random_state) == ("kmeans++", 0)
    assert S.NystromSolver(20, "kmeans++", 0) == S.NystromSolver(
        20, landmarks="kmeans++", random_state=0
    )


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (mc.KernelRidge(solver=S.Falkon(77)), 8.0 * 8 * 77**2),
        (mc.KernelRidge(solver=S.NystromSolver(landmarks=X[:7])), 8.0 * 8 * 7**2),
        (mc.KernelRidge(solver=S.Cholesky()), 1.1 * 8 * 90**2),
        (mc.KernelRidge(solver=S.ConjugateGradient(rank=5)), 1.4 * (8.0 * 90 * 5 + 64 * 90 * 2)),
        (
            mc.KernelRidge(solver=S.RandomFeatures(mc.Fastfood(n_components=8))),
            24.0 * 64 + 1.7 * 5760,
        ),
        (mc.KernelMachineRegressor(solver=S.Falkon(7)), 32.0 * 7**2),
        (mc.KernelMachineRegressor(solver=S.Spectral()), 8 * 4.2 * 90**2),
        (mc.GaussianProcessRegressor(solver=S.NystromSolver(7)), 120.0 * 7**2),
        (mc.GaussianProcessRegressor(solver=S.ConjugateGradient(rank=5)), 1.4 * 8.0 * 90 * 5),
        (mc.GaussianProcessRegressor(solver=S.Cholesky()), 8 * 2.7 * 90**2),
    ],
    ids=lambda value: str(value)[:60],
)
def test_forecasts_of_a_solver_that_is_given(model: Any, size: float) -> None:
    found = mc.forecast(model, X, Y)
    assert found.chosen == model.solver
    (own,) = [cost for cost in found.costs if type(cost.solver) is type(model.solver)]
    assert (own.solver, own.obstacle) == (model.solver, "")
    assert own.size == pytest.approx(size)
    starred = [line for line in str(found).splitlines() if line.startswith("*")]
    assert starred[0].split()[1] == type(model.solver).__name__
    assert 'asked for; "auto" would take Cholesky' in starred[1]
    assert len(starred) == 2


def test_a_forecast_lists_solvers_that_can_be_taken() -> None:
    for cost in mc.forecast(mc.KernelRidge(mc.RBF(1.0), 0.1), X).costs:
        if cost.obstacle in ("", "if asked for"):
            assert mc.KernelRidge(mc.RBF(1.0), 0.1, solver=cost.solver).fit(X, Y).score(X, Y) > 0.5


Array = NDArray[np.floating[Any]]
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


@pytest.mark.parametrize("solver", COMPLETE, ids=name)
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("y", [TARGET, BOTH], ids=["one", "two"])
def test_every_solver_gives_the_exact_answer(
    solver: Any, weights: Array | None, fit_intercept: bool, y: Array
) -> None:
    rows = np.arange(N) if weights is None else np.flatnonzero(weights)
    if isinstance(solver, S.NystromSolver | S.Falkon):
        solver = type(solver)(**vars(solver) | {"n_landmarks": len(rows)})
    model = mc.KernelRidge(MATERN, 0.1, fit_intercept, solver=solver).fit(TRAIN, y, weights)
    root = np.ones(len(rows)) if weights is None else np.sqrt(weights[rows])
    # The textbook: bordered equations, weighted.
    K = MATERN(TRAIN[rows])
    system = np.zeros((len(rows) + 1,) * 2)
    system[:-1, :-1] = K + 0.1 * np.diag(root**-2.0)
    system[:-1, -1] = system[-1, :-1] = 1.0
    right = np.vstack([y.reshape(N, -1)[rows], np.zeros(y.reshape(N, -1).shape[1])])
    if fit_intercept:
        solved = np.linalg.solve(system, right)
        wanted = MATERN(Z, TRAIN[rows]) @ solved[:-1] + solved[-1]
    else:
        wanted = MATERN(Z, TRAIN[rows]) @ np.linalg.solve(system[:-1, :-1], right[:-1])
    assert_allclose(model.predict(Z), wanted.reshape(model.predict(Z).shape), rtol=1e-7, atol=1e-7)
    assert model.solver_ == solver


def test_single_precision() -> None:
    exact = mc.KernelRidge(MATERN, 0.1).fit(TRAIN, TARGET).predict(Z)
    for solver in (S.ConjugateGradient(random_state=0), S.NystromSolver(N), S.Falkon(N, tol=1e-5)):
        model = mc.KernelRidge(MATERN, 0.1, solver=solver).fit(TRAIN.astype(np.float32), TARGET)
        assert_allclose(model.predict(Z.astype(np.float32)), exact, rtol=1e-4)


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
    model = mc.KernelRidge(**{"kernel": MATERN} | parameters)
    with pytest.raises(MercerError, match=sentence):
        model.fit(TRAIN, TARGET)


def test_solvers_are_values() -> None:
    model = mc.KernelRidge(MATERN, 0.1, solver=S.NystromSolver(20, random_state=0)).fit(
        TRAIN, TARGET
    )
    assert clone(model).solver == model.solver
    assert (
        repr(model.solver_) == "NystromSolver(n_landmarks=20, landmarks='uniform', random_state=0)"
    )
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(Z), model.predict(Z))


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


NAMES = {
    "cholesky": S.Cholesky,
    "spectral": S.Spectral,
    "primal": S.Primal,
    "random_features": S.RandomFeatures,
    "conjugate_gradient": S.ConjugateGradient,
    "nystrom": S.NystromSolver,
    "falkon": S.Falkon,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_solver_with_its_defaults(name: str) -> None:
    kernel = mc.Linear() if name == "primal" else mc.RBF()
    for model in (
        mc.KernelRidge(kernel, solver=name),
        mc.KernelHuberRegressor(kernel, solver=name),
        mc.GaussianProcessRegressor(kernel, noise=0.1, learn=False, solver=name),
    ):
        assert model.fit(X, Y).solver_ == NAMES[name]()
        assert model.solver == name
        assert type(mc.forecast(model, X, Y).chosen) is NAMES[name]


@pytest.mark.filterwarnings("ignore")
def test_an_svc_takes_names_of_solvers_with_landmarks() -> None:
    ours = mc.SVC(mc.RBF(), solver="nystrom").fit(X, LABELS)
    given = mc.SVC(mc.RBF(), solver=S.NystromSolver()).fit(X, LABELS)
    assert_allclose(ours.decision_function(X), given.decision_function(X), rtol=1e-6)
    with pytest.raises(ParameterError, match='pass "auto", "nystrom", "falkon"'):
        mc.SVC(mc.RBF(), solver="cholesky").fit(X, LABELS)


def test_parameters_of_a_named_solver_need_an_object() -> None:
    with pytest.raises(ParameterError, match="'nystrom' has no parameters to set; pass solver= an"):
        mc.KernelRidge(solver="nystrom").set_params(solver__n_landmarks=5)
    with pytest.raises(ParameterError, match=r'is unknown here; .*"nystrom", "falkon"'):
        mc.KernelRidge(solver="nystroem").fit(X, Y)
