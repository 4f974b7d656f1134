"""Sequential minimal optimisation against LIBSVM, and conditions checked by loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

import mercer as mc
from box_qps import (
    ONE_SUM,
    TIGHT,
    Array,
    check_conditions,
    classification,
    gaussian,
    points,
    quadratic,
)
from mercer import _core
from mercer.solvers.box_qp import smo
from mercer.solvers.box_qp.kernel_matrix import LazyMatrix, StoredMatrix, kernel_matrix
from mercer.solvers.box_qp.problem import BoxQP, BoxSolution
from mercer.solvers.box_qp.smo import solve

AGREEMENT = 1e-6


def regression(y: Array, epsilon: float, boxes: Array) -> BoxQP:
    """The dual of the epsilon-insensitive loss: two variables for each row."""
    zeros = np.zeros_like(y)
    return BoxQP(
        rows=np.tile(np.arange(len(y)), 2),
        linear=np.concatenate([epsilon - y, -epsilon - y]),
        lower=np.concatenate([zeros, -boxes]),
        upper=np.concatenate([boxes, zeros]),
        start=np.zeros(2 * len(y)),
        groups=ONE_SUM,
    )


def novelty(n: int, nu: float) -> BoxQP:
    """The dual of the one-class machine in the scale of scikit-learn: sum = nu n, at most 1."""
    start = np.clip(nu * n - np.arange(n), 0.0, 1.0)
    return BoxQP(np.arange(n), np.zeros(n), np.zeros(n), np.ones(n), start, ONE_SUM)


def expanded(model: Any, n: int) -> Array:
    """The coefficients that scikit-learn has found, for all rows."""
    coefficients = np.zeros(n)
    coefficients[model.support_] = model.dual_coef_[0]
    return coefficients


def weights(seed: int, n: int, kind: str) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "equal":
        return np.ones(n)
    drawn = rng.uniform(0.2, 3.0, size=n)
    if kind == "zeros":
        drawn[rng.choice(np.arange(2, n), n // 4, replace=False)] = 0.0
    return drawn


CLASSIFICATIONS = [
    (seed, n, C, gamma, kind)
    for seed, (n, C, gamma) in enumerate(
        [(n, C, gamma) for n in (20, 80) for C in (0.1, 30.0) for gamma in (0.05, 3.0)]
    )
    for kind in ("equal", "zeros" if seed % 2 else "drawn")
]


@pytest.mark.parametrize(("seed", "n", "C", "gamma", "kind"), CLASSIFICATIONS)
def test_classification_has_the_objective_of_libsvm(
    seed: int, n: int, C: float, gamma: float, kind: str
) -> None:
    x, signs = points(seed, n)
    w = weights(seed, n, kind)
    counted = np.flatnonzero(w)  # scikit-learn numbers the rows that count
    model = SVC(C=C, gamma=gamma, tol=TIGHT).fit(x[counted], signs[counted], w[counted])
    K, b = gaussian(x, gamma), np.zeros(n)
    b[counted] = expanded(model, len(counted))
    found = solve(classification(signs, C * w), StoredMatrix(K), tol=TIGHT)
    assert found.converged
    assert found.objective == pytest.approx(quadratic(K, b) - b @ signs, rel=AGREEMENT)
    rounding = 2.0**-24 * float(np.abs(b).sum())  # LIBSVM's kernel values are of float32
    assert found.levels[0, 0] == pytest.approx(model.intercept_[0], abs=TIGHT + rounding)
    assert 0.0 <= found.dual_gap <= 1e-6 * abs(found.objective)
    check_conditions(classification(signs, C * w), K, found, 2 * TIGHT)


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["equal", "drawn"])
def test_regression_has_the_objective_of_libsvm(C: float, epsilon: float, kind: str) -> None:
    x, _ = points(3, 60)
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(4).normal(size=60)
    w = weights(5, 60, kind)
    model = SVR(C=C, epsilon=epsilon, gamma=0.3, tol=TIGHT).fit(x, y, w)
    K, b = gaussian(x, 0.3), expanded(model, 60)
    problem = regression(y, epsilon, C * w)
    found = solve(problem, StoredMatrix(K), tol=TIGHT)
    assert found.converged
    expected = quadratic(K, b) - b @ y + epsilon * np.abs(b).sum()
    assert found.objective == pytest.approx(expected, rel=AGREEMENT)
    check_conditions(problem, K, found, 2 * TIGHT)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_one_class_has_the_objective_of_libsvm(nu: float) -> None:
    x, _ = points(6, 70)
    model = OneClassSVM(nu=nu, gamma=0.4, tol=TIGHT).fit(x)
    K = gaussian(x, 0.4)
    found = solve(novelty(70, nu), StoredMatrix(K), tol=TIGHT)
    assert found.objective == pytest.approx(quadratic(K, expanded(model, 70)), rel=AGREEMENT)
    assert found.levels[0, 0] == pytest.approx(model.intercept_[0], abs=1e-5)
    check_conditions(novelty(70, nu), K, found, 2 * TIGHT)


@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_two_sums_have_the_objective_of_libsvm(nu: float) -> None:
    x, signs = points(7, 60)
    order = np.argsort(-signs, kind="stable")
    x, signs = x[order], signs[order]
    first = int((signs > 0).sum())
    start = np.zeros(60)
    for group in (slice(0, first), slice(first, 60)):
        room = group.stop - group.start
        start[group] = signs[group] * np.clip(nu * 30 - np.arange(room), 0.0, 1.0)
    problem = BoxQP(
        rows=np.arange(60),
        linear=np.zeros(60),
        lower=np.minimum(signs, 0.0),
        upper=np.maximum(signs, 0.0),
        start=start,
        groups=np.array([[0, first]]),
    )
    K = gaussian(x, 0.4)
    found = solve(problem, StoredMatrix(K), tol=TIGHT)
    check_conditions(problem, K, found, 2 * TIGHT)
    model = NuSVC(nu=nu, gamma=0.4, tol=TIGHT).fit(x, signs)
    margin = (found.levels[0, 1] - found.levels[0, 0]) / 2
    scaled = expanded(model, 60) * margin
    assert found.objective == pytest.approx(quadratic(K, scaled), rel=AGREEMENT)


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Working sets of a few variables, so that small problems take many rounds."""
    for name, size in {"_FIRST": 8, "_NEW": 8, "_LEAST": 12, "_MOST": 24, "_AT_ONCE": 0}.items():
        monkeypatch.setattr(smo, name, size)


@pytest.mark.usefixtures("small_sets")
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("make", [StoredMatrix, None], ids=["stored", "lazy"])
def test_many_rounds_find_the_same(C: float, make: Callable[[Array], Any] | None) -> None:
    x, signs = points(8, 150)
    K = gaussian(x, 0.3)
    matrix = make(K) if make else LazyMatrix(mc.RBF.from_gamma(0.3).gram(x))
    problem = classification(signs, C)
    rounds: list[float] = []

    def report(current: Callable[[], BoxSolution]) -> bool:
        rounds.append(current().objective)
        return False

    found = solve(problem, matrix, tol=TIGHT, report=report)
    assert found.converged
    assert len(rounds) > 5
    check_conditions(problem, K, found, 2 * TIGHT)
    b = expanded(SVC(C=C, gamma=0.3, tol=TIGHT).fit(x, signs), 150)
    assert found.objective == pytest.approx(quadratic(K, b) - b @ signs, rel=AGREEMENT)


@pytest.mark.usefixtures("small_sets")
def test_many_rounds_of_a_regression() -> None:
    x, _ = points(9, 80)
    y = np.sin(x[:, 0])
    K = gaussian(x, 0.3)
    problem = regression(y, 0.05, np.full(80, 10.0))
    found = solve(problem, LazyMatrix(mc.RBF.from_gamma(0.3).gram(x)), tol=TIGHT)
    check_conditions(problem, K, found, 2 * TIGHT)


@pytest.mark.usefixtures("small_sets")
def test_many_rounds_with_two_sums() -> None:
    x, signs = points(10, 100)
    x = x[np.argsort(-signs)]
    first = int((signs > 0).sum())
    signs = np.where(np.arange(100) < first, 1.0, -1.0)
    start = signs * np.where(signs > 0, 15 / first, 15 / (100 - first))
    box = {"lower": np.minimum(signs, 0.0), "upper": np.maximum(signs, 0.0), "start": start}
    groups = np.array([[0, first]])
    problem = BoxQP(rows=np.arange(100), linear=np.zeros(100), groups=groups, **box)
    K = gaussian(x, 0.4)
    found = solve(problem, StoredMatrix(K), tol=TIGHT)
    check_conditions(problem, K, found, 2 * TIGHT)


def test_the_gap_bounds_the_distance_to_the_minimum() -> None:
    x, signs = points(11, 60)
    K, problem = gaussian(x, 0.3), classification(signs, 10.0)
    best = solve(problem, StoredMatrix(K), tol=1e-10).objective
    for limit in (1, 5, 20, 100):
        found = solve(problem, StoredMatrix(K), tol=TIGHT, max_iter=limit)
        assert found.n_iter == limit
        assert not found.converged
        assert found.objective >= best
        assert found.objective - found.dual_gap <= best


def test_a_neighbour_is_a_good_start() -> None:
    x, signs = points(12, 80)
    K = StoredMatrix(gaussian(x, 0.3))
    cold = solve(classification(signs, 2.0), K, tol=1e-6)
    near = 2.0 * solve(classification(signs, 1.0), K, tol=1e-6).coefficients
    warm = solve(classification(signs, 2.0), K, tol=1e-6, warm_start=near)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)
    assert warm.n_iter < cold.n_iter
    smaller = classification(signs, 0.5)
    start = smaller.feasible(near)
    assert start.sum() == pytest.approx(0.0, abs=1e-12)
    assert ((start >= smaller.lower) & (start <= smaller.upper)).all()


def test_a_report_can_stop() -> None:
    x, signs = points(13, 40)
    found = solve(
        classification(signs, 1.0),
        StoredMatrix(gaussian(x, 0.3)),
        max_iter=10**6,
        report=lambda current: current().n_iter > 0,
    )
    assert found.n_iter > 0


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scales_of_the_kernel(scale: float) -> None:
    x, signs = points(15, 60)
    K, problem = gaussian(x, 0.3), classification(signs, 1.0 / scale)
    plain = solve(classification(signs, 1.0), StoredMatrix(K), tol=1e-6)
    scaled = solve(problem, StoredMatrix(scale * K), tol=1e-6)
    assert scaled.coefficients * scale == pytest.approx(plain.coefficients, abs=1e-5)
    lazy = kernel_matrix(mc.Fixed(scale) * mc.RBF.from_gamma(0.3), mc.RBF().prepare(x))
    assert solve(problem, lazy, tol=1e-6).objective * scale == pytest.approx(
        plain.objective, rel=1e-6
    )


def hard_cases() -> dict[str, tuple[Array, Array]]:
    x, signs = points(16, 40)
    return {
        "duplicates": (np.repeat(x[:10], 4, axis=0), signs),
        "equal": (np.ones((40, 3)), signs),
        "one of each": (x[:2], signs[:2]),
        "far apart": (1e3 * x, signs),
        "close": (1e-9 * x, signs),
    }


@pytest.mark.parametrize("C", [1e-6, 1e8])
@pytest.mark.parametrize("case", sorted(hard_cases()))
@pytest.mark.parametrize("lazy", [False, True])
def test_hard_cases_end(case: str, C: float, lazy: bool) -> None:
    x, signs = hard_cases()[case]
    K = gaussian(x, 0.5)
    matrix = LazyMatrix(mc.RBF().gram(x)) if lazy else StoredMatrix(K)
    problem = classification(signs, C)
    found = solve(problem, matrix, max_iter=100_000)
    assert np.isfinite(found.coefficients).all()
    assert found.n_iter <= 100_000
    if found.converged:
        check_conditions(problem, K, found, 2e-3 + 1e-12 * C)


def test_boxes_of_zero_stay_empty() -> None:
    x, signs = points(17, 30)
    found = solve(classification(signs, 0.0), StoredMatrix(gaussian(x, 0.5)))
    assert not found.coefficients.any()
    assert found.converged
    assert found.n_iter == 0


def test_indefinite_matrices_end() -> None:
    rng = np.random.default_rng(18)
    K = rng.normal(size=(50, 50))
    _, signs = points(18, 50)
    found = solve(classification(signs, 1.0), StoredMatrix(K + K.T), max_iter=100_000)
    assert np.isfinite(found.objective)
    zero = solve(classification(signs, 1.0), StoredMatrix(np.zeros((50, 50))))
    assert np.abs(zero.coefficients).sum() == 2 * min((signs > 0).sum(), (signs < 0).sum())


def test_wrong_arguments_are_refused() -> None:
    one, rows = np.ones(1), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="there is no row 3"):
        _core.row_sum(np.ones((2, 2)), np.array([3]), one, np.ones(2), 1)
    with pytest.raises(ValueError, match="one value per variable"):
        _core.smo(np.ones((2, 2)), rows, 1, np.ones(2), one.copy(), one.copy(), False, 1e-3, 10)
    with pytest.raises(ValueError, match="split"):
        _core.smo(np.ones((2, 2)), rows, 2, one, one.copy(), one.copy(), False, 1e-3, 10)


# Products in float32
# ------------------------------------------------------------------------------------------------


def rounded_problem(seed: int, n: int, C: float) -> tuple[LazyMatrix, BoxQP, Array]:
    x, signs = points(seed, n)
    kernel = mc.RBF.from_gamma(0.3)
    return LazyMatrix(kernel.gram(x)), classification(signs, C), gaussian(x, 0.3)


@pytest.mark.parametrize("C", [1.0, 300.0])
def test_the_gap_is_that_of_float64(C: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smo, "_AT_ONCE", 0)
    matrix, problem, K = rounded_problem(31, 700, C)
    asked: list[int] = []
    times = matrix.times

    def counted(rows: Any, factors: Any, *, precise: bool, at: Any = None) -> Array:
        if precise:
            asked.append(matrix.size if at is None else len(at))
        return times(rows, factors, precise=precise, at=at)

    monkeypatch.setattr(matrix, "times", counted)
    found = solve(problem, matrix, tol=1e-3)
    b = found.coefficients
    product = K @ b
    slopes = -(product + problem.linear) - found.levels[0, 0]
    gap = np.maximum(slopes, 0) @ (problem.upper - b) + np.maximum(-slopes, 0) @ (b - problem.lower)
    assert found.converged
    assert found.dual_gap == pytest.approx(gap, rel=1e-8)
    assert found.objective == pytest.approx(quadratic(K, b) + problem.linear @ b, rel=1e-12)
    check_conditions(problem, K, found, found.violation + 1e-9)
    scale = np.abs(b).sum()
    assert found.product[b != 0] == pytest.approx(product[b != 0], abs=1e-13 * scale)
    assert found.product == pytest.approx(product, abs=1e-6 * scale)
    if C < 100:  # else rounding reaches all rows
        assert sum(asked) < matrix.size


@pytest.mark.parametrize("C", [10.0, 1e8])
def test_large_bounds_multiply_no_violations(C: float) -> None:
    """The gap is primal minus dual, by definition; other multiples of the function are no better.

    A function t f + t b has the primal value t^2 b'Kb / 2 + C sum_i max(0, 1 - t y_i f(x_i)).
    """
    rng = np.random.default_rng(0)
    data, signs = rng.normal(size=(200, 3)), rng.choice([-1.0, 1.0], 200)
    K = np.exp(-2 * ((data[:, None] - data) ** 2).sum(axis=2))
    box = {"lower": np.minimum(C * signs, 0), "upper": np.maximum(C * signs, 0)}
    problem = BoxQP(np.arange(200), -signs, **box, start=np.zeros(200), groups=ONE_SUM)
    found = solve(problem, StoredMatrix(K), tol=1e-2)
    assert found.converged
    b = found.coefficients
    values, squared = signs * (K @ b + found.levels[0, 0]), b @ K @ b

    def primal(t: float) -> float:
        return float(t**2 * squared / 2 + C * np.maximum(0, 1 - t * values).sum())

    assert found.dual_gap == pytest.approx(primal(1.0) + found.objective, rel=1e-6)
    least = min(primal(1 / (1 - share)) for share in np.linspace(-0.02, 0.02, 4001))
    assert found.dual_gap < 2 * (least + found.objective)
    assert found.dual_gap < 0.05 * abs(found.objective)
    exact = solve(problem, StoredMatrix(K), tol=1e-9)
    assert 0 <= found.objective - exact.objective <= found.dual_gap


def test_float64_goes_on_where_float32_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smo, "_AT_ONCE", 0)
    matrix, problem, K = rounded_problem(32, 300, 10.0)
    found = solve(problem, matrix, tol=1e-9)
    assert found.converged
    assert found.product == pytest.approx(K @ found.coefficients, abs=1e-11)
    check_conditions(problem, K, found, 1.1e-9)


def test_stored_values_are_rounded_as_they_are_read() -> None:
    x, signs = points(35, 300)
    K, problem = gaussian(x, 0.3), classification(signs, 10.0)
    up, down = problem.upper.copy(), -problem.lower.copy()
    rows = np.arange(300)
    _core.smo(K, rows, 300, signs, up, down, True, 1e-3, 10**6)
    single = problem.upper.copy(), -problem.lower.copy()
    _core.smo(K.astype(np.float32), rows, 300, signs, *single, True, 1e-3, 10**6)
    assert np.array_equal(up, single[0])
    assert np.array_equal(down, single[1])
