"""Several quantiles at once: optimality conditions, a general solver, interrupts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

import mercer as mc
from mercer.exceptions import NumericalWarning
from mercer.solvers.kinks import interior_point, quantiles, smoothing
from mercer.solvers.kinks.quantiles import pooled
from mercer.solvers.newton.method import State

Array = NDArray[np.floating[Any]]

LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


def noisy(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + (0.3 + 0.3 * np.abs(x[:, -1])) * rng.normal(size=n)


def breach(model: Any, x: Array, y: Array, weights: Array, sees: Array | None = None) -> float:
    """How far the coefficients are from the conditions of the joint optimum: a linear programme.

    With s in the subdifferential of the losses and multipliers l >= 0 of the order, zero where
    functions are apart, alpha a_k = -(s_k + l_k - l_(k-1)); the largest difference is minimised.
    Of rows that repeat the sum counts, which is all that the kernel sees; `sees` holds the sums
    that count if these are others.
    """
    order = np.argsort(model.loss_.levels)
    f, levels = model._function_values(x)[:, order], model.loss_.levels[order]
    n, k = f.shape
    w, at = weights[:, None], 1e-6 * np.std(y)
    low = np.where(f > y[:, None] + at, w * (1 - levels), -w * levels)
    high = np.where(f < y[:, None] - at, -w * levels, w * (1 - levels))
    top = np.where(np.diff(f, axis=1) > at, 0.0, np.inf)
    unit = sp.eye_array(k).tocsc()
    signs = unit[:, :-1] - sp.eye_array(k, k=-1).tocsc()[:, :-1]
    both = sp.hstack([sp.kron(sp.eye_array(n), unit), sp.kron(sp.eye_array(n), signs)])
    if sees is None:
        places = np.unique(x, axis=0, return_inverse=True)[1].ravel()
        sees = (places == np.arange(n)[:, None]).astype(float)
    sums = sp.kron(sp.csc_array(sees), unit)
    both = sums @ both
    one = np.ones((both.shape[0], 1))
    right = sums @ (-model.alpha_ * model.dual_coef_[:, order].ravel())
    bounds = [*zip(low.ravel(), high.ravel(), strict=True), *((0.0, t) for t in top.ravel())]
    found = linprog(
        np.append(np.zeros(both.shape[1]), 1.0),
        A_ub=sp.vstack([sp.hstack([both, -one]), sp.hstack([-both, -one])]),
        b_ub=np.concatenate([right, -right]),
        bounds=[*bounds, (0, None)],
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_crossing_quantiles_meet_the_conditions_of_the_optimum(
    alpha: float, fit_intercept: bool
) -> None:
    x, y = noisy(120, 4)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=120)
    levels = LEVELS[[3, 0, 4, 2, 1]]  # in any order
    model = mc.KernelQuantileRegressor(
        quantile=levels, alpha=alpha, fit_intercept=fit_intercept
    ).fit(x, y, sample_weight=weights)
    assert model.converged_
    f = model._function_values(x)[:, np.argsort(levels)]
    assert np.any(np.diff(f, axis=1) < 1e-8)  # the order binds
    assert np.all(np.diff(f, axis=1) >= (0 if fit_intercept else -1e-9))
    assert breach(model, x, y, weights) < 1e-6
    if fit_intercept:
        np.testing.assert_allclose(model.dual_coef_.sum(axis=0), 0, atol=1e-8 / alpha)


@pytest.mark.parametrize("levels", [[0.49, 0.5, 0.51], list(np.linspace(0.05, 0.95, 19))])
def test_close_and_many_quantiles(levels: list[float]) -> None:
    x, y = noisy(60, 3, seed=2)
    model = mc.KernelQuantileRegressor(quantile=levels, alpha=0.05).fit(x, y)
    assert model.converged_
    assert np.all(np.diff(model._function_values(x), axis=1) >= 0)
    assert breach(model, x, y, np.ones(60)) < 1e-6


def test_rows_that_repeat_cross_no_more_than_others() -> None:
    x, y = noisy(40, 3, seed=3)
    x = np.vstack([x, x])
    y = np.append(y, y + 0.1)
    kernel = mc.RBF("scale")
    model = mc.KernelQuantileRegressor(kernel, quantile=LEVELS, alpha=0.02).fit(x, y)
    assert model.converged_
    assert np.all(np.diff(model._function_values(x), axis=1) >= 0)
    assert breach(model, x, y, np.ones(80)) < 1e-6


def test_a_kernel_of_few_features() -> None:
    """Rows depend on each other: of coefficients, what features and intercept see counts."""
    x, y = noisy(40, 3, seed=6)
    features = np.column_stack([x, x**2, x[:, 0] * x[:, 1]])
    model = mc.KernelQuantileRegressor(mc.Linear(), quantile=LEVELS, alpha=1e-3).fit(features, y)
    assert model.converged_
    assert np.all(np.diff(model._function_values(features), axis=1) >= 0)
    sees = np.vstack([features.T, np.ones(40)])
    assert breach(model, features, y, np.ones(40), sees) < 1e-6


def test_strings_have_quantiles() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 3))[:, 0] + 0.3 * rng.normal(size=40)
    x = ["".join(rng.choice(list("ACGT"), size=8)) for _ in range(40)]
    model = mc.KernelQuantileRegressor(mc.Spectrum(2), quantile=LEVELS, alpha=0.1).fit(x, y)
    assert model.converged_
    assert np.all(np.diff(model.predict(x), axis=1) >= 0)


def test_the_joint_solution_is_that_of_a_general_solver() -> None:
    """The primal in coefficients, intercepts, both parts of the residuals and the order."""
    osqp = pytest.importorskip("osqp")
    n, k, alpha = 40, 3, 0.02
    levels = np.array([0.25, 0.5, 0.75])
    x, y = noisy(n, 3, seed=5)
    kernel = mc.RBF(length_scale=1.0)
    K = kernel(x)
    model = mc.KernelQuantileRegressor(kernel, quantile=levels, alpha=alpha).fit(x, y)
    each = np.hstack([K, np.ones((n, 1))])
    values = sp.block_diag([each] * k, format="csc")
    parts = sp.eye_array(n * k, format="csc")
    none = sp.csc_array((n * (k - 1), n * k))
    rise = sp.kron(np.diff(np.eye(k), axis=0), each, format="csc")
    constraints = sp.vstack(
        [
            sp.hstack([values, parts, -parts]),
            sp.hstack([rise, none, none]),
            sp.hstack([sp.csc_array((2 * n * k, k * (n + 1))), sp.eye_array(2 * n * k)]),
        ],
        format="csc",
    )
    corner = np.zeros((n + 1, n + 1))
    corner[:n, :n] = alpha * K
    quadratic = sp.block_diag([*[corner] * k, sp.csc_array((2 * n * k, 2 * n * k))], format="csc")
    linear = np.concatenate([np.zeros(k * (n + 1)), np.repeat(levels, n), np.repeat(1 - levels, n)])
    low = np.concatenate([np.tile(y, k), np.zeros(n * (k - 1) + 2 * n * k)])
    high = np.concatenate([np.tile(y, k), np.full(n * (k - 1) + 2 * n * k, np.inf)])
    solver = osqp.OSQP()
    solver.setup(
        sp.csc_matrix(sp.triu(quadratic)), linear, sp.csc_matrix(constraints), low, high,
        verbose=False, eps_abs=1e-9, eps_rel=1e-9, max_iter=200_000, polishing=True,
    )  # fmt: skip
    found = solver.solve(raise_error=True)
    theirs = (values @ found.x[: k * (n + 1)]).reshape(k, n).T
    f = model._function_values(x)
    assert np.any(np.diff(f, axis=1) < 1e-8)
    np.testing.assert_allclose(f, theirs, atol=1e-4)
    loss = np.maximum(levels * (y[:, None] - f), (levels - 1) * (y[:, None] - f)).sum()
    own = loss + alpha / 2 * np.sum(model.dual_coef_ * (K @ model.dual_coef_))
    assert own == pytest.approx(found.info.obj_val, rel=1e-6)


def test_the_joint_fit_takes_few_steps() -> None:
    """What costs time is the number of steps; each quantile alone takes about 20."""
    x, y = noisy(300, 6)
    for alpha in (0.1, 0.01):
        apart = [
            mc.KernelQuantileRegressor(quantile=level, alpha=alpha).fit(x, y).n_iter_
            for level in LEVELS
        ]
        model = mc.KernelQuantileRegressor(quantile=LEVELS, alpha=alpha).fit(x, y)
        assert model.converged_
        assert 0 < model.n_iter_ - sum(apart) <= 60


# Hard cases ---------------------------------------------------------------------------------------


def smooth_kernel(n: int = 200) -> tuple[Array, Array, Any]:
    """Noise and a kernel that follows it: everything crosses; of 200 eigenvalues 60 count."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(n, 1))
    return x, rng.normal(size=n), mc.RBF(length_scale=0.05)


def joint_steps(model: Any, kernel: Any, x: Array, y: Array, weights: Array | None) -> int:
    alone = [
        mc.KernelQuantileRegressor(kernel, quantile=level, alpha=model.alpha)
        .fit(x, y, sample_weight=weights)
        .n_iter_
        for level in model.loss_.levels
    ]
    return int(model.n_iter_ - sum(alone))


@pytest.mark.parametrize("case", ["ties", "classes", "nine", "nineteen", "weights"])
def test_ties_weights_and_many_quantiles_take_few_steps(case: str) -> None:
    """What costs time is the number of steps: an interior-point method is as fast as ever."""
    x, y, kernel = smooth_kernel()
    levels = {"nine": np.arange(1, 10) / 10, "nineteen": np.arange(1, 20) / 20}.get(case, LEVELS)
    y = {"ties": y.round(1), "classes": (y > 0).astype(float)}.get(case, y)
    weights = (
        10.0 ** np.random.default_rng(2).integers(-2, 3, size=200) if case == "weights" else None
    )
    model = mc.KernelQuantileRegressor(kernel, quantile=levels, alpha=1e-2)
    model.fit(x, y, sample_weight=weights)
    assert model.converged_
    f = model._function_values(x)
    assert np.all(np.diff(f, axis=1) >= 0)
    assert np.any(np.diff(f, axis=1) < 1e-8)
    assert 0 < joint_steps(model, kernel, x, y, weights) <= 40
    # Both sides of the gap, by definition; of coefficients the kernel sees a part, and where the
    # weights differ those that it sees best need not be a bound.
    w = np.ones(200) if weights is None else weights
    r, a, K = y[:, None] - f, model.dual_coef_, kernel(x)
    energy = model.alpha * np.sum(a * (K @ a))
    primal = w @ np.maximum(levels * r, (levels - 1) * r).sum(axis=1) + energy / 2
    bound = model.alpha * float(y @ a.sum(axis=1)) - energy / 2
    assert model.dual_gap_ <= 1e-8 * primal
    assert primal == pytest.approx(bound, rel=1e-6) or weights is not None


def test_weights_of_all_sizes_end_soon_and_in_order() -> None:
    x, y, kernel = smooth_kernel()
    weights = 10.0 ** np.random.default_rng(2).integers(-6, 7, size=200)
    model = mc.KernelQuantileRegressor(kernel, quantile=LEVELS, alpha=1e-3)
    with pytest.warns(NumericalWarning, match="duality gap.*rounding"):
        model.fit(x, y, sample_weight=weights)
    assert not model.converged_
    assert model.n_iter_ < 600
    f = model._function_values(x)
    assert np.all(np.diff(f, axis=1) >= 0)
    r = y[:, None] - f
    loss = weights @ np.maximum(LEVELS * r, (LEVELS - 1) * r).sum(axis=1)
    assert model.dual_gap_ < 1e-2 * loss


def objective(model: Any, x: Array, y: Array) -> float:
    levels, a = model.loss_.levels, model.dual_coef_
    r = y[:, None] - model._function_values(x).reshape(len(y), -1)
    norm = float(np.sum(a * (model.kernel_(x) @ a)))
    return float(np.maximum(levels * r, (levels - 1) * r).sum()) + model.alpha / 2 * norm


@pytest.mark.parametrize("quantile", [0.3, LEVELS])
def test_a_gap_beyond_what_rounding_excuses_is_announced(quantile: Any) -> None:
    x, y, _ = smooth_kernel()
    model = mc.KernelQuantileRegressor(mc.RBF(length_scale=0.5), quantile=quantile, alpha=1e-13)
    with pytest.warns(NumericalWarning, match="duality gap"):
        model.fit(x, y)
    assert not model.converged_


@pytest.mark.parametrize("quantile", [0.3, LEVELS])
@pytest.mark.parametrize(("alpha", "shift"), [(1e-2, 0.0), (1e-8, 0.0), (1e-2, 1e9), (1.0, 1e6)])
def test_rounding_excuses_a_hundred_tolerances_at_most(
    quantile: Any, alpha: float, shift: float
) -> None:
    x, y, kernel = smooth_kernel()
    model = mc.KernelQuantileRegressor(kernel, quantile=quantile, alpha=alpha).fit(x, y + shift)
    assert model.converged_
    assert model.dual_gap_ <= 1.01e-6 * objective(model, x, y + shift)


def test_no_arithmetic_is_a_stop_not_a_crash() -> None:
    x, y, _ = smooth_kernel(60)
    model = mc.KernelQuantileRegressor(mc.RBF(length_scale=0.5), quantile=LEVELS, alpha=1e-12)
    with pytest.warns(NumericalWarning):
        model.fit(x, 1e-9 * y)
    assert np.all(np.isfinite(model.predict(x)))


# Stopped fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 10, 50, 98, 102])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("columns", [1, 3])  # few eigenvalues, many eigenvalues
def test_an_interrupt_leaves_quantiles_in_order(
    steps: int, fit_intercept: bool, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(original: Any) -> Any:
        def step(self: Any, *args: Any) -> Any:
            calls.append(1)
            if len(calls) > steps:
                raise KeyboardInterrupt
            return original(self, *args)

        return step

    for owner in (smoothing._Problem, quantiles._SmoothedProblem, interior_point.InteriorPoint):
        monkeypatch.setattr(owner, "step", interrupted(owner.step))
    x, y = noisy(150, columns)
    levels = LEVELS[::-1]
    model = mc.KernelQuantileRegressor(quantile=levels, alpha=0.02, fit_intercept=fit_intercept)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y)
    assert model.converged_ is False
    assert model.n_iter_ == steps
    f = model._function_values(x)[:, ::-1]
    assert np.all(np.diff(f, axis=1) >= 0)


def test_a_short_fit_leaves_quantiles_in_order() -> None:
    x, y = noisy(120, 6)
    model = mc.KernelQuantileRegressor(quantile=LEVELS, alpha=0.02, max_iter=3)
    with pytest.warns(NumericalWarning, match="duality gap"):
        model.fit(x, y)
    assert not model.converged_
    assert np.all(np.diff(model._function_values(x), axis=1) >= 0)


def test_functions_that_cross_give_way_to_their_mean() -> None:
    gram = np.eye(3)
    columns = np.array([[0.0, 1.0, 5.0], [0.0, -1.0, 6.0], [0.0, 2.0, 7.0]])
    state = State(columns, np.zeros(3), 1.0, 0.5, True)
    kept = pooled(gram, state, np.array([0.2, 0.5, 0.9]), 1.0)
    np.testing.assert_allclose(kept.coef[:, 0], [0.5, -0.5, 1.0])
    np.testing.assert_array_equal(kept.coef[:, 0], kept.coef[:, 1])
    np.testing.assert_array_equal(kept.coef[:, 2], columns[:, 2])
    assert not kept.converged
