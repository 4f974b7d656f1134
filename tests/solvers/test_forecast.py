"""The choice of a solver: what is forecast, what fit takes, and why."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    MercerError,
)
from mercer.models.gaussian_process import classifier
from mercer.solvers import forecast
from mercer.solvers.protocol import MOMENT, PAIR, PAIR_COLUMN
from solver_data import MATERN, TARGET, TRAIN, name

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
S = mc.solvers


def test_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(model: mc.KernelRidge) -> str:
        return name(mc.forecast(model, TRAIN).chosen)

    assert chosen(mc.KernelRidge(MATERN)) == "Cholesky"
    assert chosen(mc.KernelRidge(mc.Linear())) == "Primal"
    assert chosen(mc.KernelRidge(mc.Polynomial(9))) == "Cholesky"  # more features than rows
    assert chosen(mc.KernelRidge(mc.Linear(), 0.0)) == "Cholesky"
    assert chosen(mc.KernelRidge(MATERN)) == "Cholesky"
    monkeypatch.setattr(forecast.RidgeFit, "dense_rows", 100)
    assert chosen(mc.KernelRidge(MATERN)) == "ConjugateGradient"
    assert chosen(mc.KernelRidge(MATERN, "loo")) == "ConjugateGradient"
    assert chosen(mc.KernelRidge(mc.Sigmoid())) == "Cholesky"  # can be mended only as a whole
    monkeypatch.setattr(forecast.RidgeFit, "product_rows", 100)
    assert chosen(mc.KernelRidge(MATERN)) == "NystromSolver"
    assert chosen(mc.KernelRidge(MATERN, "loo")) == "NystromSolver"


SIZES = (200, 1000, 1001, 2000, 3000, 4000, 5000, 8000, 12_000, 20_000, 30_000, 50_000)


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(mc.RBF(1.0)),
        mc.KernelRidge(mc.RBF(1.0), "loo"),
        mc.KernelLogisticRegression(mc.RBF(1.0)),
        mc.KernelHuberRegressor(mc.RBF(1.0)),
        mc.KernelQuantileRegressor(mc.RBF(1.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("columns", [1, 30])
def test_more_rows_never_cost_less(
    model: Any, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what landmarks save where they take the place of the last solver, at most half.

    Exact factors are taken below MOMENT operations even if products cost less, so that fits below
    it count as equal.
    """
    monkeypatch.setattr(memory, "available", lambda: 2**34)
    monkeypatch.setattr(forecast, "operations_per_second", lambda: 1e9)
    pair = (PAIR + PAIR_COLUMN * columns) / 1e9
    monkeypatch.setattr(forecast, "seconds_per_pair", lambda kernel, points: pair)
    tables = [mc.forecast(model, np.zeros((n, columns))) for n in SIZES]
    costs = [next(c for c in table.costs if c.solver == table.chosen) for table in tables]
    names = [name(cost.solver) for cost in costs]
    for (one, other), kinds in zip(pairwise(costs), pairwise(names), strict=True):
        assert one.seconds is not None
        assert other.seconds is not None
        least = 0.5 if kinds[0] != kinds[1] == "NystromSolver" else 1.0
        assert max(other.seconds, MOMENT / 1e9) >= least * one.seconds
    assert names[0] == "Cholesky"
    assert names[-1] != "Cholesky"


@pytest.mark.parametrize(
    "model", [mc.GaussianProcessRegressor(), mc.GaussianProcessClassifier()], ids=repr
)
def test_more_rows_cost_little_less_for_a_gaussian_process(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond 4,000 rows, parts of the rows or landmarks take the place of the whole matrix."""
    monkeypatch.setattr(memory, "available", lambda: 2**34)
    for module in (forecast, classifier):
        monkeypatch.setattr(module, "operations_per_second", lambda: 1e9)
    monkeypatch.setattr(forecast, "seconds_per_pair", lambda kernel, points: 4e-8)
    sizes = (500, 1000, 2000, 2001, 3000, 4000, 5000, 8000, 12_000, 20_000, 50_000)
    tables = [mc.forecast(model, np.zeros((n, 4))) for n in sizes]
    costs = [next(c for c in t.costs if type(c.solver) is type(t.chosen)) for t in tables]
    assert all(table.is_possible for table in tables)
    seconds = [float(cost.seconds or 0.0) for cost in costs]
    for one, other in pairwise(seconds):
        assert other > 0.4 * one
    assert seconds[-1] > max(seconds[:-4])


def test_the_matrix_is_taken_while_it_costs_less() -> None:
    def taken(model: Any, n: int) -> str:
        return name(mc.forecast(model, np.zeros((n, 8))).chosen)

    given, chosen = mc.KernelRidge(mc.RBF(1.0)), mc.KernelRidge(mc.RBF(1.0), "loo")
    assert taken(given, 5000) == "Cholesky"
    assert taken(given.set_params(alpha=1e-4), 7000) == "Cholesky"  # iterations would be many
    given.set_params(alpha=1.0)
    assert taken(given, 15_000) == "ConjugateGradient"
    assert taken(chosen, 2000) == "Cholesky"
    assert taken(chosen, 4000) == "ConjugateGradient"
    # Eleven kernels are compared on 3,000 rows, or on all.
    scales = mc.KernelRidge(mc.RBF(1.0), "loo", length_scales="auto")
    assert taken(scales, 4000) == "ConjugateGradient"
    zero = mc.KernelRidge(mc.RBF(1.0), alpha=0.0)
    assert taken(zero, 15_000) == "Cholesky"  # nothing else is possible


def test_values_of_objects_are_not_computed_again_and_again() -> None:
    strings = ["".join(row) for row in np.random.default_rng(0).choice(list("ab"), (4000, 4))]
    model = mc.KernelRidge(mc.WeightedDegree(2), "loo")
    assert name(mc.forecast(model, strings).chosen) == "Cholesky"


def test_auto_is_what_fit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 20_000)
    model = mc.KernelRidge(MATERN, 0.1)
    table = mc.forecast(model, TRAIN)
    assert "does not fit in memory" in str(table)
    assert model.fit(TRAIN, TARGET).solver_ == table.chosen == S.ConjugateGradient(random_state=0)


def _unknown(A: Array, B: Array) -> Array:
    return np.asarray(np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2)))


@pytest.mark.parametrize("fits", [True, False], ids=["fits", "too large"])
@pytest.mark.parametrize(
    "kernel",
    [MATERN, MATERN + 0.1 * mc.White(), mc.Sigmoid(), mc.FunctionKernel(_unknown)],
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
    monkeypatch.setattr(memory, "available", lambda: 10**9 if fits else 8 * len(TRAIN) ** 2)
    monkeypatch.setattr(S.ConjugateGradient, "rank_for", lambda solver, n, per_root=1.0: 20)
    model = mc.KernelRidge(kernel, 0.1, psd="clip")
    table = mc.forecast(model, TRAIN)
    stars = [line.split()[1] for line in str(table).splitlines() if line.startswith("*")]
    if not table.is_possible:
        assert not stars
        assert "a kernel whose is_psd is True" in table.reason
        with pytest.raises(MercerError):
            model.fit(TRAIN, TARGET)
        return
    assert stars[0] == name(table.chosen) == name(model.fit(TRAIN, TARGET).solver_)
    for cost in table.costs:  # what is refused has a hard obstacle, and nothing else has
        asked = mc.KernelRidge(kernel, 0.1, psd="clip", solver=cost.solver)
        if mc.forecast(asked, TRAIN).is_possible:
            asked.fit(TRAIN, TARGET)
        else:
            with pytest.raises(MercerError):
                asked.fit(TRAIN, TARGET)


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
    assert found.chosen == S.ConjugateGradient(random_state=0)
    assert "contains White" in found.reason
    assert "Falkon" in str(found)
    assert str(found).count("the kernel contains White") == 3  # NystromSolver, Falkon and why


@pytest.mark.parametrize(
    "solver",
    [S.ConjugateGradient(random_state=0), S.NystromSolver(20, random_state=0), S.Falkon(20)],
    ids=name,
)
def test_a_given_matrix_may_be_asked_to_be_taken_as_valid(solver: Any) -> None:
    table = mc.forecast(mc.KernelRidge(mc.Precomputed()), MATERN(TRAIN))
    (cost,) = [cost for cost in table.costs if name(cost.solver) == name(solver)]
    assert cost.obstacle == "if asked for: the kernel is not known to be valid"
    model = mc.KernelRidge(mc.Precomputed(), 0.1, solver=solver)
    asked = mc.forecast(model, MATERN(TRAIN))
    assert asked.is_possible
    assert asked.chosen == solver
    assert model.fit(MATERN(TRAIN), TARGET).solver_ == solver


@pytest.mark.parametrize("start", [0.0, 1.0, 1e-200])
def test_auto_takes_no_features_without_alpha(start: float) -> None:
    # Coefficients of rows do not follow from those of features there, wherever the first row lies.
    data, y = start + np.arange(6.0)[:, None], np.arange(6.0)
    model = mc.KernelRidge(mc.Linear(), alpha=0.0).fit(data, y)
    np.testing.assert_allclose(model.predict(data), y, atol=1e-9)
    path = mc.KernelRidge(mc.Linear()).path(data, y, alphas=[0.0, 1.0])
    np.testing.assert_allclose(path.predict(data)[0], y, atol=1e-9)


def test_every_solver_is_in_the_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    table = mc.forecast(mc.KernelRidge(mc.RBF(1.0)), TRAIN)
    names = {type(cost.solver).__name__ for cost in table.costs}
    assert names == {
        "Cholesky",
        "ConjugateGradient",
        "Falkon",
        "NystromSolver",
        "Primal",
        "RandomFeatures",
        "Spectral",
    }
    assert "  Primal                          -           -  no finite features" in str(table)
    assert str(table).count("*") == 2
    assert "no random frequencies" in str(mc.forecast(mc.KernelRidge(mc.Linear()), TRAIN))
    # Strings: as many features as occur in all of them, not in the first.
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), size=8)) for _ in range(40)]
    table = mc.forecast(mc.KernelRidge(mc.Spectrum(3)), words)
    assert type(table.chosen).__name__ == "Cholesky"
    monkeypatch.setattr("mercer.memory.available", lambda: 1000)
    hinge = mc.forecast(mc.KernelMachineClassifier(loss="hinge"), TRAIN, TARGET > 20)
    assert not hinge.is_possible
    assert "*" not in str(hinge)
    assert "none: does not fit in memory, and the whole matrix does not fit" in str(hinge)
