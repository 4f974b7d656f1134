"""Quantile regression with a kernel against a general solver of quadratic programmes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import mercer as mc
from benchmarks.environment import installed
from benchmarks.harness import Contestant, Outcome, Settings, race, speedup

Array = NDArray[Any]

N = 1_000
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
ALPHA = 0.1
LENGTH_SCALE = 0.5
ACCURACY = 1e-6


def available() -> bool:
    """Whether the general solver is installed."""
    return installed("osqp")


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    n = settings.size(N)
    X, y = _data(n)
    mine: list[Any] = []
    theirs: list[Array] = []

    def fit() -> None:
        mine[:] = [_mercer().fit(X, y)]

    def solve() -> None:
        theirs[:] = _programmes(X, y)

    contestants = [Contestant("mercer", fit)]
    if available():
        contestants.append(Contestant("OSQP", solve))
    times = race(contestants, settings)
    parameters = f"RBF n={n}, {len(LEVELS)} quantiles"
    if not available():
        yield Outcome(
            "quantile regression", parameters, times["mercer"], "-", None, times["mercer"],
            figure_unit="s", note=_note(mine[0]),
        )  # fmt: skip
        return
    own, peer = _objective(mine[0].dual_coef_, X, y), _objective(np.column_stack(theirs), X, y)
    note = f"{_note(mine[0])}; OSQP is {peer / own - 1:.0e} above mercer's objective"
    yield speedup("quantile regression", parameters, times, "OSQP", note=note)


def _data(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    y = np.sin(2 * X[:, 0]) + (0.2 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=n)
    return X, y


def _kernel() -> mc.Kernel:
    return mc.RBF(length_scale=LENGTH_SCALE)


def _mercer() -> mc.KernelQuantileRegressor:
    return mc.KernelQuantileRegressor(_kernel(), quantile=list(LEVELS), alpha=ALPHA)


def _note(model: mc.KernelQuantileRegressor) -> str:
    return f"duality gap {model.dual_gap_:.0e}"


def _programmes(X: Array, y: Array) -> list[Array]:
    """Coefficients by the dual programmes: min a'Ka / 2 - y'a in a box, with 1'a = 0.

    One set-up serves all quantiles, which differ in their bounds alone. The quantiles of these data
    do not cross, so that each alone is also the joint solution.
    """
    import osqp  # type: ignore[import-untyped]

    n = len(y)
    quadratic = sp.csc_matrix(np.triu(_kernel()(X)))
    constraints = sp.vstack([sp.identity(n), np.ones((1, n))], format="csc")
    solver = osqp.OSQP()
    found = []
    for position, level in enumerate(LEVELS):
        low = np.append(np.full(n, (level - 1) / ALPHA), 0.0)
        high = np.append(np.full(n, level / ALPHA), 0.0)
        if position:
            solver.update(l=low, u=high)
        else:
            solver.setup(
                quadratic, -y, constraints, low, high, verbose=False, polishing=True,
                eps_abs=ACCURACY, eps_rel=ACCURACY, max_iter=100_000,
            )  # fmt: skip
        found.append(solver.solve().x)
    return found


def _objective(dual: Array, X: Array, y: Array) -> float:
    """The sum of all objectives, each with the best intercept for its coefficients."""
    K, total = _kernel()(X), 0.0
    for level, a in zip(LEVELS, dual.T, strict=True):
        values = K @ a
        # A quantile of the residuals is the best intercept.
        intercept = np.quantile(y - values, level, method="inverted_cdf")
        loss = mc.losses.Pinball(quantile=level).value(y, values + intercept)
        total += float(loss.sum() + ALPHA / 2 * a @ values)
    return total
