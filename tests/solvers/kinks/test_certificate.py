"""The certificate of a minimum: the best state, the largest bound, and when their gap is small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

import mercer as mc
from mercer.solvers.kinks.certificate import Certificate
from mercer.solvers.newton.method import State

Array = NDArray[np.floating[Any]]


def state(loss: float) -> State:
    return State(np.zeros((2, 1)), np.zeros(1), loss, np.inf, False)


def test_the_best_state_and_the_largest_bound_are_kept() -> None:
    certificate = Certificate(tol=1e-3, constant_loss=10.0)
    for objective in (5.0, 3.0, 4.0):
        certificate.consider(state(objective), objective)
    certificate.consider(state(2.999), 2.999, gain=0.1)  # not worth the change
    for bound in (1.0, 2.5, 2.0):
        certificate.raise_bound(bound)
    assert certificate.gap == pytest.approx(0.5)
    best = certificate.judge(rounding=0.0)
    assert (best.loss, best.error, best.converged) == (3.0, pytest.approx(0.5), False)


def test_a_gap_within_the_tolerance_its_allowance_or_rounding_converges() -> None:
    for bound, rounding, allowance, expected in (
        (2.998, 0.0, 0.0, True),
        (2.99, 0.0, 0.0, False),
        (2.99, 0.0, 0.008, True),
        (2.99, 0.1, 0.0, True),
        (2.0, 10.0, 0.0, False),  # rounding excuses a hundred tolerances at most
    ):
        certificate = Certificate(tol=1e-3, constant_loss=10.0)
        certificate.consider(state(3.0), 3.0)
        certificate.raise_bound(bound)
        assert certificate.judge(rounding, allowance).converged is expected


# The duality gap ----------------------------------------------------------------------------------


def least_objective(loss: Any, y: Array, alpha: float, K: Array) -> float:
    """The minimum over functions and constants, by a general optimiser; for kinks, of the dual."""
    if loss.smooth:
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0.0))

        def primal(v: Array) -> tuple[float, Array]:
            f = root @ v[:-1] + v[-1]
            slopes = loss.derivative(y, f)
            gradient = np.append(root.T @ slopes + alpha * v[:-1], slopes.sum())
            return float(loss.value(y, f).sum() + alpha / 2 * v[:-1] @ v[:-1]), gradient

        start = np.zeros(len(K) + 1)
        return float(minimize(primal, start, jac=True, tol=1e-12, method="BFGS").fun)
    (kink,) = loss.kinks(y)
    answer = minimize(
        lambda t: (float(t @ K @ t / (2 * alpha) - y @ t), K @ t / alpha - y),
        np.zeros(len(y)),
        jac=True,
        method="SLSQP",
        bounds=list(zip(-kink.high, -kink.low, strict=True)),
        constraints={"type": "eq", "fun": np.sum, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return -float(answer.fun)


GAP_RNG = np.random.default_rng(3)
GAP_X = GAP_RNG.normal(size=(40, 2))
GAP_F = np.sin(2 * GAP_X[:, 0]) + GAP_X[:, 1]
GAP_Y = GAP_F + 0.3 * GAP_RNG.standard_t(2, size=40)
SIGNS = np.where(GAP_F + 0.5 * GAP_RNG.normal(size=40) > 0, 1.0, -1.0)


SPANS = ["landmarks", "falkon", "features"]
FITS = [(solver, loss) for loss in ("huber", "logistic") for solver in [*SPANS, "products"]]
FITS += [(solver, loss) for loss in ("hinge", "pinball") for solver in [*SPANS, "cholesky"]]


@pytest.mark.parametrize(("solver", "loss"), FITS)
@pytest.mark.parametrize(("tol", "max_iter"), [(1e-8, 100), (1e-3, 100), (1e-8, 1), (1e-8, 3)])
@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_the_gap_bounds_what_the_returned_function_loses(
    solver: str, loss: str, tol: float, max_iter: int
) -> None:
    """Over all functions and constants, also where a fit stops early."""
    S = mc.solvers
    kernel, alpha = mc.Polynomial(2) if solver == "features" else mc.RBF(1.0), 0.05
    settings = {"landmarks": np.arange(40)}
    solvers = {
        "cholesky": S.Cholesky(),
        "landmarks": S.NystromSolver(**settings),
        "falkon": S.Falkon(**settings),
        "features": S.Primal(),
        "products": S.ConjugateGradient(),
    }
    classes = loss in ("hinge", "logistic")
    y = SIGNS if classes else GAP_Y
    owner = mc.KernelMachineClassifier if classes else mc.KernelMachineRegressor
    model = owner(kernel, loss=loss, alpha=alpha, solver=solvers[solver], tol=tol)
    model.set_params(max_iter=max_iter).fit(GAP_X, y)
    K, f = kernel(GAP_X), model._function_values(GAP_X).ravel()
    part = f - float(model.intercept_)
    norm = float(part @ np.linalg.lstsq(K, part, rcond=1e-12)[0])
    objective = float(model.loss_.value(y, f).sum()) + alpha / 2 * norm
    least = least_objective(model.loss_, y, alpha, K)
    assert objective >= least * (1 - 1e-6)
    assert objective - least <= model.dual_gap_ + 1e-6 * least
