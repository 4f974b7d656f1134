"""Arguments that support vector machines refuse, and what they advise where they fall short."""

from __future__ import annotations

import re
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

import mercer as mc
from mercer.exceptions import (
    DataError,
    NumericalWarning,
    ParameterError,
    ShortFitWarning,
)
from mercer.models.svm.solving import Options

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
X, SPECIES = load_iris(return_X_y=True)
X = X + 0.05 * RNG.normal(size=X.shape)
TWO = np.where(SPECIES == 1, "yes", "no")
NUMBERS = X[:, 0] + np.sin(3 * X[:, 1])
Z = X[::3] + 0.05 * RNG.normal(size=(50, 4))


@pytest.mark.parametrize("name", ["degree", "gamma", "coef0"])
def test_arguments_of_names_are_refused_beside_a_kernel(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"SVC: {name} = 2\.5 belongs to kernels"):
        mc.SVC(mc.RBF(), **{name: 2.5}).fit(X, TWO)
    with pytest.raises(ParameterError, match=rf"SVC: {name} = 2\.5 belongs to kernels"):
        mc.SVC(linear_kernel, **{name: 2.5}).fit(X, TWO)


def test_rows_that_are_not_in_memory_are_for_another_class() -> None:
    """Its function over landmarks is the same with the alpha that is advised."""
    solver = mc.solvers.NystromSolver(landmarks=range(20))
    over_landmarks = mc.SVC(mc.RBF(1.0), C=3.0, solver=solver, tol=1e-8)
    for rows in (da.from_array(X, chunks=50), mc.Blocks([X])):
        with pytest.raises(DataError, match=r"KernelMachineClassifier\(.*alpha=1 / \(2 \* C\)"):
            over_landmarks.fit(rows, TWO)
    machine = mc.KernelMachineClassifier(
        mc.RBF(1.0), loss="squared_hinge", alpha=1 / 6, solver=solver, tol=1e-8
    )
    np.testing.assert_allclose(
        machine.fit(da.from_array(X, chunks=50), TWO).decision_function(Z),
        over_landmarks.fit(X, TWO).decision_function(Z),
        atol=1e-6,
    )


def test_forecasts_are_of_models_that_choose_a_solver() -> None:
    with pytest.raises(TypeError, match="is a SVC, which does not choose among solvers"):
        mc.forecast(mc.SVC(), X)  # type: ignore[arg-type]


@pytest.mark.parametrize("megabytes", [1e-6, 0.1, 200.0])
def test_values_out_of_range_are_refused_whatever_is_kept(megabytes: float) -> None:
    large = mc.FunctionKernel(lambda A, B: 1e200 * rbf_kernel(A, B))
    with pytest.raises(DataError, match="infinite or not numbers"):
        mc.SVC(large * large, psd="ignore", cache_size=megabytes).fit(X, TWO)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0.0}, r"C = 0\.0 is not a number > 0"),
        ({"C": np.nan}, "C = nan is not a number > 0"),
        ({"C": "1"}, "C = '1' is not a number"),
        ({"C": np.inf, "solver": mc.solvers.NystromSolver(20)}, "C = inf allows no errors"),
        ({"C": {"yes": 1.0}}, "nothing for the class 'no'"),
        ({"C": {"yes": -1.0, "no": 1.0}}, r"C = -1\.0 for the class 'yes'"),
        ({"tol": -1.0}, r"tol = -1\.0"),
        ({"kernel": "gauss"}, "no name of a kernel"),
        ({"kernel": 3}, "is not a kernel"),
        ({"kernel": mc.RBF}, "is not a kernel"),
        ({"gamma": -1.0}, r"gamma = -1\.0 is neither"),
        ({"gamma": "much"}, "gamma = 'much' is neither"),
        ({"kernel": "poly", "coef0": np.nan}, "coef0 = nan is not a finite number"),
        ({"kernel": "poly", "degree": -1}, "degree = -1 is not a whole number >= 0"),
        ({"kernel": "poly", "degree": 1.5}, r"degree = 1\.5 is not a whole number"),
        ({"max_iter": -2}, "max_iter = -2 is neither -1"),
        ({"class_weight": [1.0, 2.0]}, 'neither "balanced" nor a dict'),
        ({"psd": "mend"}, "psd = 'mend' is unknown"),
        ({"multi_class": "all"}, "multi_class = 'all' is unknown"),
        ({"decision_function_shape": None}, "decision_function_shape = None is unknown"),
        ({"multi_class": "ovr", "decision_function_shape": "ovo"}, "one function for each class"),
        ({"class_weight": {"yes": 0.0}}, "not all finite and > 0"),
        ({"probability": "yes"}, "probability = 'yes' is neither True nor False"),
        ({"solver": mc.solvers.Cholesky()}, "is unknown here"),
        ({"solver": mc.solvers.NystromSolver(20), "probability": True}, "needs the dual problem"),
        (
            {"solver": mc.solvers.NystromSolver(20), "max_iter": 0},
            "max_iter = 0 leaves nothing learned",
        ),
        ({"verbose": "a"}, "verbose = 'a' is neither True nor False"),
        ({"random_state": "a"}, "random_state = 'a' gives no random numbers"),
        ({"kernel": "poly", "gamma": 0.0, "coef0": 1e200}, "exceeds the range of numbers"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mc.SVC(**arguments).fit(X, TWO)


@pytest.mark.parametrize("nu", [0.0, 1.5, -0.1, "half"])
@pytest.mark.parametrize("machine", [mc.NuSVC, mc.NuSVR, mc.OneClassSVM, mc.SVDD])
def test_bad_shares(machine: Any, nu: Any) -> None:
    with pytest.raises(ParameterError, match="nu = "):
        machine(nu=nu).fit(X, SPECIES)


def test_a_share_that_no_function_has() -> None:
    with pytest.raises(ParameterError, match="infeasible"):
        mc.NuSVC(nu=0.9).fit(X[:60], SPECIES[:60])


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(DataError, match="only one class"):
        mc.SVC().fit(X[:50], SPECIES[:50])


def test_several_targets_are_refused() -> None:
    with pytest.raises(DataError, match="one number"):
        mc.SVR().fit(X, np.column_stack([NUMBERS, NUMBERS]))


def test_steps_that_do_not_suffice_are_told_of() -> None:
    with pytest.warns(NumericalWarning, match="SVC stopped after 3 steps with a duality gap of"):
        model = mc.SVC(C=100.0, max_iter=3).fit(X, TWO)
    assert not model.converged_
    assert model.predict(X).shape == (150,)


# Fits that stop short -----------------------------------------------------------------------------


def test_no_steps_at_all() -> None:
    with pytest.warns(NumericalWarning, match="SVC stopped after 0 steps"):
        model = mc.SVC(max_iter=0).fit(X, TWO)
    assert not model.converged_
    assert len(model.support_) == 0
    np.testing.assert_array_equal(model.decision_function(Z), model.intercept_[0])


def test_an_infinite_cost_for_classes_that_overlap() -> None:
    both = np.vstack([X[:10], X[:10]])
    with pytest.warns(ShortFitWarning, match="infinite, and no function separates the classes; pa"):
        model = mc.SVC(C=np.inf).fit(both, np.repeat([0, 1], 10))
    assert not model.converged_
    assert np.isinf(model.dual_gap_).all()
    # Two targets at one place: no function is within 0.1 of both.
    with pytest.warns(ShortFitWarning, match="no function is within epsilon of every target; pass"):
        mc.SVR(C=np.inf).fit(both, np.repeat([0.0, 1.0], 10))


CONTRADICTIONS = np.vstack([X[:10], X[:10]]), np.repeat([0, 1], 10)


@pytest.mark.parametrize(
    ("model", "data", "advice"),
    [
        (
            mc.SVC(C=np.inf, max_iter=1),
            CONTRADICTIONS,
            "perhaps no function separates the classes; raise max_iter (1), pass a finite C",
        ),
        (mc.SVC(max_iter=1), (X, TWO), "raise max_iter (1), scale the data, lower C, or raise tol"),
        (mc.NuSVC(nu=0.3, max_iter=1), (X, TWO), "scale the data, raise nu, or raise tol."),
        (
            mc.SVC(solver=mc.solvers.NystromSolver(30, random_state=0), tol=1e-12, max_iter=1),
            (X, TWO),
            "raise max_iter (1), scale the data, lower C, or raise tol.",
        ),
    ],
    ids=["hard", "soft", "share", "landmarks"],
)
def test_advice_that_can_be_followed(model: Any, data: Any, advice: str) -> None:
    with pytest.warns(ShortFitWarning, match=re.escape(advice)) as told:
        model.fit(*data)
    assert len(told) == 1
    assert model.fit_status_ == 1


def test_no_limit_is_to_be_raised_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc.SVC, "_options", Options(1e-3, 2))
    with pytest.warns(ShortFitWarning, match="asks; scale the data, lower C, or raise tol"):
        mc.SVC().fit(X, TWO)
