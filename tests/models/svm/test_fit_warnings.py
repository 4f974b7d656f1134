"""Warnings of machines that are less exact than asked, and what they advise."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import mercer as mc
from irises import TWO, X, Z
from mercer.exceptions import (
    NumericalWarning,
    ShortFitWarning,
)
from mercer.models.svm.duals import Options

RNG = np.random.default_rng(0)


CLOUD = RNG.normal(size=(200, 3))
CLOUD_SIDES = (CLOUD[:, 0] + 0.3 * RNG.normal(size=200) > 0).astype(int)


def test_steps_that_do_not_suffice_are_told_of() -> None:
    with pytest.warns(NumericalWarning, match="SVC stopped after 3 steps with a duality gap of"):
        model = mc.SVC(C=100.0, max_iter=3).fit(X, TWO)
    assert not model.converged_
    assert model.predict(X).shape == (150,)


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


MACHINES = [mc.SVC, mc.NuSVC, mc.SVR, mc.NuSVR, mc.OneClassSVM, mc.SVDD]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(6))
def test_a_certified_gap_or_a_warning(machine: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 150)), int(rng.integers(1, 6))
    data = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    labels = rng.permutation(np.arange(n) % 2)
    y = labels if machine in (mc.SVC, mc.NuSVC) else labels + rng.normal(size=n)
    weights = rng.uniform(0.5, 3.0, size=n) if seed % 2 else None
    chosen: dict[str, Any] = {"C": 10.0 ** rng.integers(-3, 9), "nu": rng.uniform(0.01, 0.5)}
    chosen = {name: chosen[name] for name in chosen if hasattr(machine(), name)}
    kernel = str(rng.choice(["rbf", "linear"]))
    model = machine(kernel, max_iter=300_000, **chosen)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(data, y, weights)
    gap, objective = np.ravel(model.dual_gap_)[0], np.ravel(model.objective_)[0]
    assert np.isfinite(gap)
    certified = model.converged_ and gap <= abs(objective)
    assert certified != any(issubclass(w.category, ConvergenceWarning) for w in told)
    if certified and machine is not mc.NuSVC:  # whose unit is the margin that it finds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(tol=1e-7, max_iter=-1).fit(data, y, weights)
        better = np.ravel(model.objective_)[0]
        assert objective - better <= gap + 1e-9 * abs(objective)


@pytest.mark.parametrize("offset", [1e8])
def test_rounding_of_kernel_values_is_told(offset: float) -> None:
    rng = np.random.default_rng(11)
    data = rng.normal(size=(300, 3))
    targets = data[:, 1] + 0.1 * rng.normal(size=300)
    near = mc.SVR("linear").fit(data, targets)
    far = mc.SVR("linear")
    with pytest.warns(ConvergenceWarning, match=r"rounding of kernel values.*StandardScaler"):
        far.fit(data + offset, targets)
    assert not far.converged_
    # With an intercept the minimum is that of the data where they are.
    assert far.dual_gap_ >= far.objective_ - near.objective_
    with pytest.warns(ConvergenceWarning, match="rounding of kernel values"):
        separated = mc.SVC("linear").fit(data + offset, targets > 0)
    assert (separated.dual_gap_ > 0).all()


@pytest.mark.parametrize("machine", [mc.OneClassSVM, mc.SVDD])
def test_no_remedy_against_rounding_is_an_argument_that_is_not_there(machine: Any) -> None:
    with pytest.warns(ConvergenceWarning, match=r"rounding.*StandardScaler does, or raise tol\."):
        machine("linear", nu=0.3, tol=1e-9).fit(X + 1e8)


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_have_no_margin(seed: int) -> None:
    """Labels by chance in the plane: parts of a half of each class meet, and f is zero."""
    rng = np.random.default_rng(seed)
    data, labels = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    model = mc.NuSVC("linear", nu=0.5)
    with pytest.warns(ConvergenceWarning, match=r"nu = 0\.5 is infeasible: the classes overlap"):
        model.fit(data, labels)
    assert not model.converged_
    # The nearest points of the two reduced hulls are one.
    b = np.zeros(len(data))
    b[model.support_] = model.dual_coef_[0]
    above = np.where(labels == 1, b, 0.0)
    assert above.sum() == pytest.approx(0.25 * len(data))
    assert b.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(b).max() <= 1.0
    assert np.linalg.norm(data.T @ b) < 1e-5 * np.abs(b).sum()
    assert model.objective_[0] == pytest.approx(0.0, abs=1e-6)
    assert 0 <= model.dual_gap_[0] < 1e-3
    assert np.abs(model.decision_function(data)).max() < 1e-4


NO_MARGIN = {
    "a row far away": (np.vstack([CLOUD[:-1], np.full((1, 3), 1e8)]), CLOUD_SIDES),
    "contradictions": (np.repeat(CLOUD[:20], 2, axis=0), np.tile([0, 1], 20)),
    "all equal": (np.ones((30, 3)), np.arange(30) % 2),
}


@pytest.mark.parametrize("case", sorted(NO_MARGIN))
def test_margins_that_rounding_leaves_nothing_of(case: str) -> None:
    data, labels = NO_MARGIN[case]
    with pytest.warns(ConvergenceWarning, match="is infeasible: the classes overlap"):
        model = mc.NuSVC(nu=0.3).fit(data, labels)
    assert not model.converged_
    assert np.abs(model.dual_coef_).max() <= 1.0
    assert np.isfinite(model.dual_gap_).all()


def test_a_margin_that_an_indefinite_matrix_hides_is_told_as_such() -> None:
    rng = np.random.default_rng(0)
    data = 2 * rng.normal(size=(120, 4))
    y = (data[:, 0] + data[:, 1] ** 2 > 1).astype(int)
    with pytest.warns(ConvergenceWarning, match="is not positive semi-definite.*psd="):
        model = mc.NuSVC(kernel="sigmoid", nu=0.3).fit(data, y)
    # The squared length of the function, by definition, is negative.
    gram = np.tanh(data @ data.T / (4 * data.var()))[np.ix_(model.support_, model.support_)]
    dual = model.dual_coef_[0]
    assert dual @ gram @ dual < 0
    assert np.isnan(model.dual_gap_).all()


def test_a_share_without_a_margin_ends_early() -> None:
    """Blobs that overlap: the reduced hulls of the classes meet in the plane."""
    data, labels = make_blobs(200, centers=3, cluster_std=6, random_state=0)
    with pytest.warns(ShortFitWarning, match=r"nu = 0\.3 is infeasible.*Raise nu"):
        model = mc.NuSVC("linear", nu=0.3).fit(data, labels)
    assert (model.n_iter_ < 500_000).all()
    assert not model.converged_


@pytest.mark.parametrize("nu", [0.3, 0.6])
def test_a_small_margin_is_found_within_few_exchanges(nu: float) -> None:
    """An RBF separates all rows, with a margin of a millionth: a share of nu is beyond it."""
    data, labels = make_blobs(200, centers=3, cluster_std=6, random_state=0)
    model = mc.NuSVC(nu=nu, probability=True, random_state=0).fit(data, labels)
    assert (model.n_iter_ < 500_000).all()
    assert model.converged_
    model = mc.NuSVC(nu=nu).fit(data[labels < 2], labels[labels < 2])
    margins = np.where(model.classes_[1] == labels[labels < 2], 1, -1)
    margins = margins * model.decision_function(data[labels < 2])
    assert (margins < 1 - 1e-3).mean() <= nu <= (margins <= 1 + 1e-3).mean()


def hinge_objectives(model: Any, data: Any, sides: Any, C: float) -> tuple[float, float]:
    """The primal and the dual objective of a machine, by NumPy."""
    b = np.zeros(len(data))
    b[model.support_] = model.dual_coef_[0]
    squared = b @ model.kernel_(data) @ b
    losses = np.maximum(0, 1 - sides * model.decision_function(data))
    return squared / 2 + C * losses.sum(), np.abs(b).sum() - squared / 2


@pytest.mark.parametrize("C", [1.0, 100.0, 1e5])
@pytest.mark.parametrize("gamma", [0.1, 5.0])
def test_the_gap_is_what_the_function_loses(C: float, gamma: float) -> None:
    sides = np.where(CLOUD_SIDES == 1, 1.0, -1.0)
    model = mc.SVC(C=C, gamma=gamma)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(CLOUD, CLOUD_SIDES)
    primal, dual = hinge_objectives(model, CLOUD, sides, C)
    assert model.dual_gap_[0] == pytest.approx(primal - dual, rel=1e-6, abs=1e-9 * primal)
    assert model.objective_[0] == pytest.approx(-dual, rel=1e-9)
    exact = mc.SVC(C=C, gamma=gamma, tol=1e-8).fit(CLOUD, CLOUD_SIDES)
    best = hinge_objectives(exact, CLOUD, sides, C)[1]
    assert primal - best <= model.dual_gap_[0] * (1 + 1e-6) + 1e-9 * primal
    assert bool(told) == (model.dual_gap_[0] > abs(model.objective_[0]))


@pytest.mark.parametrize(("scale", "C"), [(1.0, 1e5), (1.0, 1e7), (1e4, 100.0)])
def test_a_linear_kernel_with_large_costs_is_exact(scale: float, C: float) -> None:
    """Against the hinge machine, whose method is another one."""
    rng = np.random.default_rng(3)
    data = rng.normal(size=(200, 5))
    labels = (data[:, 0] + rng.normal(size=200) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounding, for the largest
        model = mc.SVC("linear", C=C).fit(scale * data, labels)
        peer = mc.KernelMachineClassifier(mc.Linear(), loss="hinge", alpha=1 / (C * scale**2))
        peer.fit(data, labels)
    assert (model.n_iter_ < 200_000).all()
    expected = peer.decision_function(data)
    np.testing.assert_allclose(model.decision_function(scale * data), expected, atol=2e-3)


def test_a_problem_with_several_solutions_is_told() -> None:
    data, labels = load_iris(return_X_y=True)
    data = StandardScaler().fit_transform(data)
    for model in (mc.SVC("sigmoid", C=10.0), mc.SVR("sigmoid", C=10.0)):
        with pytest.warns(NumericalWarning, match="may have several solutions.*Repair the matrix"):
            model.fit(data, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mc.SVC("sigmoid", C=10.0, psd="clip").fit(data, labels)
