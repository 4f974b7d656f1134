"""Quantile regression against a general solver, and a search over alphas against a grid search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

import mercer as mc
from benchmarks.environment import installed
from benchmarks.harness import Contestant, Outcome, Settings, race, speedup

Array = NDArray[Any]

N = 1_000
N_CROSSING = 300  # what the general solver can take: its joint programme has 14 unknowns a row
N_SEARCH = 500  # rows of the search: a grid search over its alphas fits 125 models
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
ACCURACY = 1e-6


@dataclass(frozen=True)
class Case:
    """Data, the kernel and the weight of the penalty."""

    X: Array
    y: Array
    kernel: mc.Kernel
    alpha: float

    def model(self) -> mc.KernelQuantileRegressor:
        """The contestant, not fitted."""
        return mc.KernelQuantileRegressor(self.kernel, quantile=list(LEVELS), alpha=self.alpha)

    def objective(self, dual: Array) -> float:
        """The dual objective, which at the solution is the objective itself."""
        values = self.kernel(self.X) @ dual
        return self.alpha * float(self.y @ dual.sum(axis=1) - np.sum(dual * values) / 2)


def available() -> bool:
    """Whether the general solver is installed."""
    return installed("osqp")


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    yield _race("quantile regression", _apart(settings.size(N)), _programmes, settings)
    crossing = _crossing(settings.size(N_CROSSING))
    yield _race("quantile regression, crossing", crossing, _joint_programme, settings)
    large = _crossing(settings.size(N))
    yield _race("quantile regression, crossing", large, None, settings)
    yield _search(settings.size(N_SEARCH), settings)


def _race(
    name: str, case: Case, programme: Callable[[Case], Array] | None, settings: Settings
) -> Outcome:
    mine: list[Any] = []
    theirs: list[Array] = []

    def fit() -> None:
        mine[:] = [case.model().fit(case.X, case.y)]

    def solve() -> None:
        assert programme is not None
        theirs[:] = [programme(case)]

    raced = programme is not None and available()
    contestants = [Contestant("mercer", fit), *([Contestant("OSQP", solve)] if raced else [])]
    times = race(contestants, settings)
    n, d = case.X.shape
    parameters = f"RBF n={n} d={d}, {len(LEVELS)} quantiles"
    note = f"duality gap {mine[0].dual_gap_:.0e}"
    if not raced:
        own = times["mercer"]
        return Outcome(name, parameters, own, "-", None, own, figure_unit="s", note=note)
    peer, own = case.objective(theirs[0]), case.objective(mine[0].dual_coef_)
    note += f"; the objectives differ by {abs(peer / own - 1):.0e}"
    return speedup(name, parameters, times, "OSQP", note=note)


def _search(n: int, settings: Settings) -> Outcome:
    """Logistic regression that chooses among 25 alphas, against a grid search over them."""
    X, y = make_classification(n, 10, n_informative=5, flip_y=0.1, random_state=0)
    kernel = mc.RBF(length_scale="median")
    first = mc.KernelLogisticRegression(kernel, alpha="loo").fit(X, y)
    grids: list[Any] = []

    def choose() -> None:
        mc.KernelLogisticRegression(kernel, alpha="loo").fit(X, y)

    def grid() -> None:
        plain = mc.KernelLogisticRegression(kernel)
        search = GridSearchCV(plain, {"alpha": first.alphas_}, cv=5, scoring="neg_log_loss")
        grids[:] = [search.fit(X, y)]

    def fit() -> None:
        mc.KernelLogisticRegression(kernel, alpha=first.alpha_).fit(X, y)

    contestants = [Contestant("mercer", choose), Contestant("GridSearchCV", grid)]
    times = race([*contestants, Contestant("one fit", fit)], settings)
    fits, best = times["mercer"] / times["one fit"], grids[0].best_params_["alpha"]
    note = f"the time of {fits:.1f} fits; alpha {first.alpha_:.2g}, by the grid {best:.2g}"
    parameters = f"logistic RBF n={n} d=10, 25 alphas"
    return speedup("alpha by leave-one-out", parameters, times, "GridSearchCV", note=note)


def _apart(n: int) -> Case:
    """Quantiles that do not cross, so that each alone is also the joint solution."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    y = np.sin(2 * X[:, 0]) + (0.2 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=n)
    return Case(X, y, mc.RBF(length_scale=0.5), alpha=0.1)


def _crossing(n: int) -> Case:
    """Quantiles that cross at many of the points if they are fitted alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    noise = (0.3 + 0.3 * np.abs(X[:, 2])) * rng.normal(size=n)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + noise
    return Case(X, y, mc.RBF(length_scale=np.sqrt(3)), alpha=0.01)


def _programmes(case: Case) -> Array:
    """Coefficients by the dual programmes: min a'Ka / 2 - y'a in a box, with 1'a = 0.

    One set-up serves all quantiles, which differ in their bounds alone.
    """
    n = len(case.y)
    quadratic = sp.csc_matrix(np.triu(case.kernel(case.X)))
    constraints = sp.vstack([sp.identity(n), np.ones((1, n))], format="csc")
    solver, found = None, []
    for level in LEVELS:
        low = np.append(np.full(n, (level - 1) / case.alpha), 0.0)
        high = np.append(np.full(n, level / case.alpha), 0.0)
        if solver is None:
            solver = _set_up(quadratic, -case.y, constraints, low, high)
        else:
            solver.update(l=low, u=high)
        found.append(solver.solve().x)
    return np.column_stack(found)


def _joint_programme(case: Case) -> Array:
    """Coefficients by the dual programme of all quantiles in order.

    Unknowns are the coefficients a, slopes s in a box and multipliers m >= 0 of the order, with
    alpha a_k + s_k + m_k - m_(k-1) = 0 at every point, and 1'a_k = 0.
    """
    n, k = len(case.y), len(LEVELS)
    K = np.triu(case.kernel(case.X))
    other = n * (2 * k - 1)
    quadratic = sp.block_diag([*[case.alpha * K] * k, sp.csc_matrix((other, other))], format="csc")
    unit = sp.identity(n)
    order = sp.kron(np.eye(k)[:, :-1] - np.eye(k, k=-1)[:, :-1], unit)
    balance = sp.hstack([case.alpha * sp.identity(n * k), sp.identity(n * k), order])
    sums = sp.hstack([sp.kron(np.eye(k), np.ones((1, n))), sp.csc_matrix((k, other))])
    boxes = sp.hstack([sp.csc_matrix((other, n * k)), sp.identity(other)])
    levels, zeros = np.repeat(LEVELS, n), np.zeros(n * k + k)
    none = np.zeros(n * (k - 1))
    solver = _set_up(
        quadratic,
        np.concatenate([np.tile(-case.alpha * case.y, k), np.zeros(other)]),
        sp.vstack([balance, sums, boxes], format="csc"),
        np.concatenate([zeros, -levels, none]),
        np.concatenate([zeros, 1 - levels, none + np.inf]),
    )
    return np.asarray(solver.solve().x[: n * k].reshape(k, n).T)


def _set_up(quadratic: Any, linear: Array, constraints: Any, low: Array, high: Array) -> Any:
    import osqp  # type: ignore[import-untyped]

    solver = osqp.OSQP()
    solver.setup(
        sp.csc_matrix(quadratic), linear, sp.csc_matrix(constraints), low, high,
        verbose=False, polishing=True, eps_abs=ACCURACY, eps_rel=ACCURACY, max_iter=100_000,
    )  # fmt: skip
    return solver
