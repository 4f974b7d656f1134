"""Support vector machines where numbers, data or patience end."""

from __future__ import annotations

import pickle
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer import _core
from mercer.exceptions import DataError
from mercer.models.svm import solving
from mercer.solvers.box_qp import smo
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(1)
X, Y = make_moons(160, noise=0.25, random_state=0)
Z = RNG.uniform(-2, 2, size=(40, 2))
RBF = mc.RBF(length_scale=0.5)
K = matrix(rbf, X, length_scale=0.5)


HARD = {
    "duplicates": (np.repeat(X[:10], 8, axis=0), np.tile(Y[:10], 8)),
    "contradictions": (np.repeat(X[:20], 2, axis=0), np.tile([0, 1], 20)),
    "one row of each class": (X[:2], np.array([0, 1])),
    "all equal": (np.ones((30, 3)), np.arange(30) % 2),
    "one column": (X[:, :1], Y),
    "huge": (1e150 * X, Y),
    "tiny": (1e-150 * X, Y),
}


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("case", sorted(HARD))
@pytest.mark.parametrize("machine", [mc.SVC, mc.SVR])
@pytest.mark.filterwarnings("ignore:SV. stopped:mercer.exceptions.NumericalWarning")
@pytest.mark.filterwarnings(
    "ignore:SVR. every row is within tol:mercer.exceptions.NumericalWarning"
)
def test_hard_cases_end_with_a_gap(case: str, C: float, machine: Any) -> None:
    data, y = HARD[case]
    model = machine(C=C, max_iter=200_000).fit(data, y)
    assert np.isfinite(model.dual_gap_).all()
    assert np.isfinite(model.predict(data)).all()
    weights = np.ones(len(y))
    weights[5:] = 0 if len(y) > 12 and len(set(y[:5])) == 2 else 1
    assert np.isfinite(machine(C=C, max_iter=200_000).fit(data, y, weights).intercept_).all()


@pytest.mark.parametrize("seed", range(60))
def test_the_intercept_is_the_middle_where_all_rows_are_at_bounds(seed: int) -> None:
    # Costs of two classes with the same sum, so small that every row has the largest coefficient.
    rng = np.random.default_rng(100 + seed)
    sizes = rng.integers(3, 40, size=2)
    y = np.repeat([0, 1], sizes)
    data = rng.normal(size=(len(y), 2)) + 4.0 * y[:, None] - 2.0
    C = 10.0 ** rng.uniform(-4, -3)
    model = mc.SVC(RBF, C=C, class_weight="balanced").fit(data, y)
    signs, costs = 2.0 * y - 1.0, C * len(y) / (2.0 * sizes[y])
    np.testing.assert_allclose(np.ravel(model.dual_coef_), signs * costs, rtol=1e-12)
    # Every row of the first class asks for at most, every one of the second for at least so much.
    least = signs - matrix(rbf, data, length_scale=0.5) @ (signs * costs)
    middle = (least[y == 0].max() + least[y == 1].min()) / 2
    np.testing.assert_allclose(model.intercept_, middle, rtol=0, atol=1e-10)
    assert 0 <= model.dual_gap_ < 1e-12


@pytest.mark.parametrize("weight", [1e6, 1e14, 1e18, 1e100])
def test_one_weight_far_above_the_others(weight: float) -> None:
    signs, weights = np.where(Y == 1, 1.0, -1.0), np.r_[weight, np.ones(len(X) - 1)]
    model = mc.SVC(RBF, C=0.5, tol=1e-6).fit(X, Y, weights)
    a = np.zeros(len(X))
    a[model.support_] = model.dual_coef_[0]
    slopes = signs * (signs - K @ a - model.intercept_[0])  # what a rise of |a_i| gains
    assert slopes[np.abs(a) == 0].max() <= 2e-6
    assert slopes[np.abs(a) == 0.5 * weights].min() >= -2e-6
    between = (np.abs(a) > 0) & (np.abs(a) < 0.5 * weights)
    assert np.abs(slopes[between]).max() <= 2e-6
    assert model.objective_[0] == pytest.approx(a @ K @ a / 2 - np.abs(a).sum(), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e7, 1e10])
@pytest.mark.parametrize("C", [1.0, 1e8])
def test_planes_of_any_scale(scale: float, C: float) -> None:
    data = scale * np.random.default_rng(0).normal(size=(200, 3))
    labels = data @ np.ones(3) > 0
    model = mc.SVC(kernel="linear", C=C).fit(data, labels)
    if scale**2 * C > 1e3:  # there the margin is hard
        assert model.score(data, labels) == 1.0
    signs = np.where(labels, 1.0, -1.0)
    b = np.zeros(len(data))
    b[model.support_] = model.dual_coef_[0]
    ascents = signs - data @ (data.T @ b)
    rising, falling = np.where(signs > 0, b < C, b < 0), np.where(signs > 0, b > 0, b > -C)
    if model.converged_:
        assert ascents[rising].max() - ascents[falling].min() <= 1.01e-3


def test_costs_beyond_all_bounds_change_nothing() -> None:
    targets = np.sin(X[:, 0])  # which some function meets, so that no coefficient is at a bound
    found = []
    for C in (1e8, 1e12, 1e20, 1e100):
        # Rows that are off by tol cost more than the function, and a gap says so.
        with pytest.warns(ConvergenceWarning, match="more than the objective itself"):
            found.append(mc.SVR(RBF, C=C).fit(X, targets).predict(Z))
    np.testing.assert_allclose(found[1:], np.tile(found[0], (3, 1)), atol=0.01)


MACHINES = [mc.SVC, mc.NuSVC, mc.SVR, mc.NuSVR, mc.OneClassSVM, mc.SVDD]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(12))
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


def test_the_gap_of_float32_rows_is_that_of_float64() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2300, 5)).astype(np.float32)
    labels = data[:, 0] * data[:, 1] + 0.3 * rng.normal(size=2300) > 0
    model = mc.SVC(gamma=0.2, C=100.0).fit(data, labels)
    framed = mc.SVC(gamma=0.2, C=100.0).fit(pd.DataFrame(data), labels)
    np.testing.assert_array_equal(framed.objective_, model.objective_)
    wide = data.astype(np.float64)
    part, a = wide[model.support_], model.dual_coef_[0]
    squares = (part**2).sum(axis=1)
    gram = np.exp(-0.2 * (squares[:, None] + squares - 2 * part @ part.T))
    assert model.objective_[0] == pytest.approx(a @ gram @ a / 2 - np.abs(a).sum(), rel=1e-9)
    exact = mc.SVC(gamma=0.2, C=100.0, tol=1e-6).fit(wide, labels)
    assert model.objective_[0] - exact.objective_[0] <= model.dual_gap_[0]


def test_no_gap_is_claimed_without_a_valid_kernel() -> None:
    assert np.isnan(mc.SVC(kernel="sigmoid", gamma=3.0, coef0=0.5).fit(X, Y).dual_gap_).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    broken = X.copy()
    broken[3, 1] = bad
    for machine in (mc.SVC, mc.SVR, mc.OneClassSVM):
        with pytest.raises(DataError):
            machine().fit(broken, Y)


def test_an_interrupt_keeps_what_was_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = smo._core.smo

    def interrupted(*arguments: Any, **options: Any) -> Any:
        exchange(*arguments[:-1], 7)
        raise KeyboardInterrupt

    whole = mc.SVC(RBF, C=10.0).fit(X, Y)
    monkeypatch.setattr(smo._core, "smo", interrupted)
    model = mc.SVC(RBF, C=10.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not model.converged_
    assert 2 <= len(model.support_) <= 14
    assert model.objective_[0] > whole.objective_[0]
    a = model.dual_coef_[0]
    part = K[np.ix_(model.support_, model.support_)]
    assert float(model.objective_[0]) == pytest.approx(a @ part @ a / 2 - np.abs(a).sum())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_an_interrupt_before_the_first_pair_is_solved(
    monkeypatch: pytest.MonkeyPatch, scheme: str, threads: int
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    data, y = load_iris(return_X_y=True)
    monkeypatch.setattr(solving, "_FEW", 0)
    monkeypatch.setattr(solving, "solve", interrupted)
    model = mc.SVC(multi_class=scheme)
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    assert len(model.support_) == 0
    assert model.n_iter_.tolist() == [0, 0, 0]
    assert np.isposinf(model.dual_gap_).all()
    # Functions that are not begun say nothing: all rows are alike.
    assert len(set(model.predict(data))) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_keeps_how_far_small_pairs_came(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    engine = _core.smo_batch

    def interrupted(*arguments: Any) -> None:
        *others, limit, threads = arguments
        engine(*others, min(limit, 5), threads)
        if limit:
            raise KeyboardInterrupt

    data, y = load_iris(return_X_y=True)
    whole = mc.SVC(RBF).fit(data, y)
    monkeypatch.setattr(_core, "smo_batch", interrupted)
    model = mc.SVC(RBF)
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    assert model.n_iter_.tolist() == [5, 5, 5]
    assert (model.objective_ > whole.objective_).all()
    assert (model.objective_ - model.dual_gap_ <= whole.objective_).all()
    assert len(model.support_) <= 3 * 10


@pytest.mark.parametrize("kernel", [RBF, mc.Linear()])
def test_small_pairs_are_solved_like_large_ones(
    monkeypatch: pytest.MonkeyPatch, kernel: mc.Kernel
) -> None:
    rng = np.random.default_rng(5)
    y = rng.permutation(np.repeat(np.arange(12), rng.integers(4, 30, size=12)))
    data = 6 * rng.normal(size=(12, 3))[y] + rng.normal(size=(len(y), 3))
    monkeypatch.setattr(solving, "_STRETCH", 32)  # pairs are of several parts of the matrix
    monkeypatch.setattr(solving, "_WORK", 1000)
    few = [mc.SVC(kernel, tol=1e-8).fit(data, y), mc.NuSVC(kernel, nu=0.1, tol=1e-8).fit(data, y)]
    monkeypatch.setattr(solving, "_FEW", 0)
    for model in few:
        large = clone(model).fit(data, y)
        assert model.converged_
        np.testing.assert_allclose(model.objective_, large.objective_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, large.intercept_, atol=1e-5)
        for one, other in [(model, large), (large, model)]:
            assert (one.objective_ - one.dual_gap_ <= other.objective_ + 1e-12).all()


@pytest.mark.parametrize("psd", [None, "clip"])
def test_values_of_pairs_are_those_of_their_coefficients(psd: Any) -> None:
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(9), 12)
    data = rng.normal(size=(9, 3))[y] + rng.normal(size=(len(y), 3))
    model = mc.SVC(RBF, decision_function_shape="ovo", psd=psd).fit(data, y)
    wide = matrix(rbf, data, length_scale=0.5)
    want = []
    for i, j in combinations(range(9), 2):
        b = np.zeros(len(y))
        mine, other = (y[model.support_] == code for code in (i, j))
        b[model.support_[mine]] = model.dual_coef_[j - 1, mine]
        b[model.support_[other]] = model.dual_coef_[i, other]
        want.append(wide @ b + model.intercept_[len(want)])
    np.testing.assert_allclose(model.decision_function(data), np.stack(want, axis=1), atol=1e-9)


def test_many_classes_take_memory_for_classes_not_for_pairs() -> None:
    y = np.repeat(np.arange(60), 3)
    data = np.random.default_rng(7).normal(size=(60, 3))[y] + 0.1 * RNG.normal(size=(len(y), 3))
    model = mc.SVC(RBF).fit(data, y)
    # Twice the coefficients with their positions, and not one for each of 1770 pairs.
    assert len(pickle.dumps(model)) < 5 * model.dual_coef_.nbytes


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_keeps_the_pairs_that_are_solved(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    data, y = load_iris(return_X_y=True)
    solve = solving.solve

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if arguments[0].rows.min() == 50:  # the pair without the first class, which comes last
            raise KeyboardInterrupt
        return solve(*arguments, **options)

    monkeypatch.setattr(solving, "_FEW", 0)
    whole = mc.SVC().fit(data, y)
    monkeypatch.setattr(solving, "solve", interrupted)
    model = mc.SVC()
    with mc.threads(threads), pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert not model.converged_
    values, want = (m.set_params(decision_function_shape="ovo") for m in (model, whole))
    difference = values.decision_function(data) - want.decision_function(data)
    same = np.abs(difference).max(axis=0) < 1e-9
    assert same.tolist() == [True, True, False]
    assert set(model.predict(data)) <= set(y)


@pytest.mark.parametrize("machine", [mc.SVC(), mc.SVC(multi_class="ovr"), mc.NuSVC(nu=0.8)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_shape_of_the_data_counts_rows_without_weight(machine: Any, n_classes: int) -> None:
    data = RNG.normal(size=(200, 2))
    weights = np.repeat([0.0, 1.0], [50, 150])
    model = clone(machine).fit(data, np.arange(200) % n_classes, weights)
    assert model.shape_fit_ == (200, 2)
    assert model.support_.min() >= 50


@pytest.mark.parametrize("offset", [1e7, 1e8])
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


def test_weights_of_one_class_may_have_any_unit() -> None:
    plain = mc.OneClassSVM(RBF, nu=0.2).fit(X)
    for unit in (1e-12, 1e12):
        model = mc.OneClassSVM(RBF, nu=0.2).fit(X, sample_weight=np.full(len(X), unit))
        assert model.converged_
        np.testing.assert_allclose(model.dual_coef_ / unit, plain.dual_coef_, rtol=1e-10)
        np.testing.assert_allclose(model.offset_ / unit, plain.offset_, rtol=1e-10)
        np.testing.assert_allclose(model.objective_ / unit**2, plain.objective_, rtol=1e-10)


def test_objectives_are_those_of_the_coefficients_after_many_rounds() -> None:
    # Three rows that are almost one, beside a fourth: large changes cancel, round after round.
    rows = np.array(
        [
            [4.71401891e13, 4.23267445e13, -1.31783380e13, -5.61943014e13, 2.81832569e13],
            [-2.04198547e07, -1.96743232e08, -1.79574842e08, -1.95396299e07, 5.32924153e07],
            [-2.31685346e07, 7.22496885e07, -3.03622683e07, -3.35820093e07, -1.29997189e08],
            [1.63900970e07, 1.17959790e08, 8.56612186e07, -6.70310150e06, -1.17434297e08],
        ]
    )
    targets = np.array([0.8194552, 0.31650913, -0.44086169, -0.01006643])
    weights = np.array([4.37381850e-07, 4.27570995e06, 1.30615048e00, 9.11843472e06])
    model = mc.SVR(C=1e8, epsilon=1e-6).fit(rows, targets, weights)
    b = np.zeros(4)
    b[model.support_] = model.dual_coef_[0]
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2) / (5 * rows.var())
    # k = 1 + (k - 1), of which the second part keeps its digits.
    quadratic = (b.sum() ** 2 + b @ np.expm1(-distances) @ b) / 2
    objective = quadratic - b @ targets + 1e-6 * np.abs(b).sum()
    size = np.finfo(np.float64).eps * np.abs(b).sum() ** 2
    assert abs(model.objective_ - objective) < model.dual_gap_ + size


def test_rounds_without_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # One exchange a round, each of which shows after rounding that there is another to be done.
    monkeypatch.setattr(smo, "_ROUNDS", 50)
    rows, targets = np.array([[1.95e6], [-0.785], [-0.593]]), np.array([0.3, -0.2, 0.1])
    model = mc.NuSVR(kernel="poly", C=1e6, nu=0.1)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model.fit(rows, targets, [4e7, 1e2, 1.6e-8])
    assert not model.converged_
    assert model.n_iter_ < 1000
