"""Sums over rows for machines over landmarks: parts, samples, derivatives and Newton's method."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mercer as mc
from mercer.kernels.points import Points
from mercer.linalg.whitening import whiten
from mercer.rows.rows import InMemory, RowBlock, RowStatistics
from mercer.solvers.newton.directions import DirectNewton, HessianFactor, InexactNewton
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.method import minimise
from mercer.solvers.newton.on_landmarks import LandmarkMachine
from mercer.solvers.newton.row_losses import JointLoss, RowLoss, SingleLoss
from mercer.solvers.newton.span import Problem, descend
from mercer.solvers.newton.span_sums import (
    Coefficients,
    ExplainedTrace,
    HessianProduct,
    HessianSums,
    LineSearch,
    LossesAt,
    WeightSums,
)
from mercer.solvers.newton.spans import Constants, FeatureSpan, LandmarkSpan, Span

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N, M = 700, 12
X = RNG.normal(size=(N, 2))
KERNEL = mc.RBF(1.0)
W = RNG.uniform(0.5, 2.0, size=N)
LOSSES: list[RowLoss] = [
    SingleLoss(mc.losses.Logistic()),
    SingleLoss(mc.losses.Poisson(), 1),
    JointLoss(3),
]
SIGNS = np.where(np.sin(3 * X[:, 0]) > X[:, 1], 1.0, -1.0)
CODES = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)


def targets(loss: RowLoss) -> Array:
    if isinstance(loss, JointLoss):
        return CODES[:, None]
    return np.column_stack([SIGNS, RNG.poisson(2.0, size=N).astype(float)])


def name(value: Any) -> str:
    return repr(value)


@dataclass(frozen=True)
class Parts:
    """Rows in parts of unequal sizes, each of which gets a summand of its own, sent by pickle."""

    whole: RowBlock

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def statistics(self) -> RowStatistics:
        return RowStatistics.of(self.whole.targets, self.whole.weights)

    def map_sum(self, summand: Callable[[RowBlock], Any]) -> Any:
        total: Any = None
        for rows in (slice(0, 1), slice(1, 400), slice(400, N)):
            part = RowBlock(
                mc.Points(self.whole.points.data[rows]),
                self.whole.targets[rows],
                self.whole.mass[rows],
            )
            found = pickle.loads(pickle.dumps(summand))(part)
            total = found if total is None else total + found
        return total

    def points_at(self, indices: NDArray[np.intp]) -> Points:
        return self.whole.points[indices]


def span(*, whitened: bool = True) -> LandmarkSpan:
    points = mc.Points(X[:M])
    found = whiten(KERNEL(points))
    return LandmarkSpan(KERNEL, points[found.kept], found.upper, whitened)


@dataclass(frozen=True)
class Monomials:
    """Features of a polynomial kernel, dense or sparse."""

    sparse: bool

    def __call__(self, points: Points) -> Any:
        x, z = points.data.T
        phi = np.stack([x, z, x**2, np.sqrt(2) * x * z, z**2, x**3], axis=1)
        return sp.csr_array(phi) if self.sparse else phi


def part(loss: RowLoss) -> RowBlock:
    return RowBlock(mc.Points(X), targets(loss), W)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_derivatives_of_rows(loss: RowLoss) -> None:
    y, step = targets(loss), 1e-5
    f, u = RNG.normal(size=(2, N, loss.n_outputs))
    rise = (loss.value(y, f + step * u) - loss.value(y, f - step * u)) / (2 * step)
    assert_allclose(np.sum(loss.derivative(y, f) * u, axis=1), rise, atol=1e-8)
    second = (loss.derivative(y, f + step * u) - loss.derivative(y, f - step * u)) / (2 * step)
    assert_allclose(loss.hessian_product(y, f, u), second, atol=1e-7)
    factors = loss.hessian_factors
    assert_allclose((loss.hessian_weights(y, f) * (u @ factors.T)) @ factors, second, atol=1e-7)
    diagonal = loss.block_diagonal()
    assert_allclose(diagonal.hessian_factors, np.eye(loss.n_outputs))
    for j, unit in enumerate(np.eye(loss.n_outputs)):
        column = np.broadcast_to(unit, f.shape)
        product = loss.hessian_product(y, f, column)[:, j]
        assert_allclose(diagonal.hessian_weights(y, f)[:, j], product, atol=1e-12)


def test_coordinates_are_those_of_the_norm() -> None:
    plain, whitened = span(whitened=False), span()
    v = RNG.normal(size=(M, 2))
    c = plain.landmark_coef(v)
    square = KERNEL(plain.points)
    assert_allclose(np.sum(c * (square @ c)), np.sum(v**2))
    (rows, _, _), *_ = plain.rows(part(LOSSES[0]))
    (features, _, _), *_ = whitened.rows(part(LOSSES[0]))
    assert_allclose(rows @ c, features @ v, atol=1e-9)
    gradient = plain.gradient_to_coordinates(rows.T @ W)
    assert_allclose(gradient, whitened.gradient_to_coordinates(features.T @ W), atol=1e-8)


SPANS: dict[str, Span] = {
    "whitened": span(),
    "plain": span(whitened=False),
    "features": FeatureSpan(Monomials(sparse=False), 6),
    "about": FeatureSpan(Monomials(sparse=False), 6, np.arange(6.0)),
    "sparse": FeatureSpan(Monomials(sparse=True), 6, sparse=True),
    "constants": Constants(),
}


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_gradients_and_second_derivatives(loss: RowLoss, kind: str) -> None:
    rows, k, here = part(loss), loss.n_outputs, SPANS[kind]
    whitened = here.whitened
    v, dv = 0.3 * RNG.normal(size=(2, len(here), k))
    b, db = RNG.normal(size=(2, k))

    def value(length: float) -> float:
        place = Coefficients(here.to_coefficients(v + length * dv), b + length * db)
        return float(LossesAt(here, loss, (place,))(rows)[0])

    start = Coefficients(here.to_coefficients(v), b)
    direction = Coefficients(here.to_coefficients(dv), db)
    found = LineSearch(here, loss, start, direction, (0.0, 0.5), needs_hessian=whitened)(rows)
    assert_allclose(found.losses, [value(0.0), value(0.5)])
    step = 1e-5
    slope = (value(step) - value(-step)) / (2 * step)
    assert found.slopes[0] == pytest.approx(slope, rel=1e-6)
    gradient = here.gradient_to_coordinates(found.grad_coef)
    assert np.sum(gradient * dv) + found.grad_intercept @ db == pytest.approx(slope, rel=1e-6)
    product = HessianProduct(here, loss, start, direction)(rows)
    hessians = HessianSums(here, loss, start)(rows)
    if whitened:
        assert_allclose(found.hessians, hessians, rtol=1e-9, atol=1e-9)
    both = np.vstack([dv, db])
    image = sum(
        np.outer(hessian @ (both @ factor), factor)
        for hessian, factor in zip(hessians, loss.hessian_factors, strict=True)
    )
    assert_allclose(here.gradient_to_coordinates(product.coef), image[:-1], atol=1e-6)
    assert_allclose(product.intercept, image[-1], atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_systems_are_solved(loss: RowLoss) -> None:
    here, k = span(), loss.n_outputs
    zero = Coefficients(np.zeros((M, k)), np.zeros(k))
    hessians = HessianSums(here, loss, zero)(part(loss))
    for fit_intercept in (True, False):
        system = HessianFactor(hessians, loss.hessian_factors, 0.3, fit_intercept)
        right = RNG.normal(size=(M + 1, k))
        right -= right.mean(axis=1, keepdims=True) if k > 1 else 0.0
        v, b = system.solve(right[:-1], right[-1])
        both = np.vstack([v, b])
        image = sum(
            np.outer(hessian @ (both @ factor), factor)
            for hessian, factor in zip(hessians, loss.hessian_factors, strict=True)
        )
        image[:-1] += 0.3 * v
        kept = slice(None) if fit_intercept else slice(-1)
        assert_allclose(image[kept], right[kept], atol=1e-8)


def test_features_are_rows_about_an_origin() -> None:
    rows, phi = part(LOSSES[0]), Monomials(sparse=False)(mc.Points(X))
    for kind, origin in (("features", 0.0), ("about", np.arange(6.0)), ("sparse", 0.0)):
        found = [block for block, _, _ in SPANS[kind].rows(rows)]
        assert all(sp.issparse(block) == (kind == "sparse") for block in found)
        dense = [block.toarray() if sp.issparse(block) else block for block in found]
        assert_allclose(np.concatenate(dense), phi - origin)
        squares = np.sum((phi - origin) ** 2, axis=1)
        assert_allclose(SPANS[kind].diag(rows.points), squares)
        assert_allclose(WeightSums(SPANS[kind])(rows), [W.sum(), W @ squares])


def test_samples_of_rows() -> None:
    loss, here = LOSSES[0], span()
    rows = part(loss)
    weights = np.concatenate([found for _, _, found in here.rows(rows, 7)])
    some = np.array([np.flatnonzero(weight == W)[0] for weight in weights])  # all are different
    assert_array_equal(some // 7, np.arange(-(-len(X) // 7)))
    assert len(set(some % 7)) > 1
    few = RowBlock(mc.Points(X[some]), rows.targets[some], W[some])
    place = Coefficients(RNG.normal(size=(M, 1)), np.zeros(1))
    for stride in (
        lambda s: HessianSums(here, loss, place, s),
        lambda s: WeightSums(here, s),
        lambda s: ExplainedTrace(here, s),
    ):
        assert_allclose(stride(7)(rows), stride(1)(few), rtol=1e-12)
    assert_allclose(WeightSums(here)(rows), [W.sum(), W.sum()])
    assert 0 < ExplainedTrace(here)(rows) < W.sum()


@pytest.mark.parametrize("direction", [DirectNewton(), InexactNewton(1e-9, 100)], ids=name)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_parts_add_up_to_the_same_minimum(loss: RowLoss, direction: Any) -> None:
    whole = part(loss)
    here = span(whitened=direction.needs_hessian)
    start = np.zeros((M, loss.n_outputs)), np.zeros(loss.n_outputs)
    ends = []
    for rows in (InMemory(whole), Parts(whole)):
        problem = Problem(rows, here, loss, 0.1, True, direction, tol=1e-9)
        *_, state = descend(problem, start, max_iter=100)
        assert state.converged
        ends.append(state)
    assert_allclose(ends[0].coef, ends[1].coef, atol=1e-8)
    assert ends[0].loss == pytest.approx(ends[1].loss, rel=1e-12)


def test_a_start_at_the_minimum_stays() -> None:
    loss = LOSSES[0]
    rows = InMemory(part(loss))
    problem = Problem(rows, span(), loss, 0.1, True, DirectNewton(), tol=1e-10)
    *_, state = minimise(problem, (np.zeros((M, 1)), np.zeros(1)), 50)
    problem, start = replace(problem, tol=1e-8), (state.coef, state.intercept)
    assert len(list(minimise(problem, start, 50))) == 1
    warm = list(minimise(replace(problem, alpha=1e-3), start, 50))
    assert warm[-1].converged


def test_a_machine_on_rows_that_are_elsewhere() -> None:
    """What a model does in memory, from rows that only give totals and single points."""
    loss, whole = LOSSES[0], part(LOSSES[0])
    task = MachineTask("Test", KERNEL, Parts(whole), (loss,), np.zeros(1), True)
    machine = LandmarkMachine(task, task.rows.points_at(np.arange(M)).detached(), DirectNewton())
    *_, state = machine.states(0.1, machine.start(), 1e-9, 100)
    model = mc.KernelLogisticRegression(
        KERNEL, 0.1, solver=mc.solvers.NystromSolver(landmarks=np.arange(M)), tol=1e-9
    ).fit(X, SIGNS, W)
    assert_allclose(machine.coefficients(state)[:, 0], model.dual_coef_, rtol=1e-5, atol=1e-7)
    assert machine.trace_error == pytest.approx(model.trace_error_, abs=1e-12)
