"""The interior-point method for quantiles in order: its equations, and where it leads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from mercer.solvers.kinks.interior_point import InteriorPoint, Root, _tridiagonal
from mercer.solvers.kinks.joint_quantiles import Problem

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
LEVELS = np.array([0.2, 0.5, 0.9])


@pytest.mark.parametrize("rank", [0, 1, 5, 12])
def test_a_root_has_the_rank_of_its_matrix(rank: int) -> None:
    half = RNG.normal(size=(12, rank))
    matrix = half @ half.T
    root = Root.of(matrix, 1.0)
    assert root.rank == rank
    np.testing.assert_allclose(root.factor @ root.factor.T, matrix, atol=1e-12)
    np.testing.assert_allclose(root.factor.T @ root.inverse, np.eye(rank), atol=1e-10)


def test_the_blocks_are_solved_as_if_they_were_written_out() -> None:
    n, r, k = 9, 4, 5
    basis, penalised = RNG.normal(size=(n, r)), np.array([1.0, 1.0, 1.0, 0.0])
    stiff, tie = RNG.uniform(0.1, 2, size=(n, k)), RNG.uniform(0.1, 2, size=(n, k - 1))
    diagonal = stiff.copy()
    diagonal[:, :-1] += tie
    diagonal[:, 1:] += tie
    whole = np.zeros((k * r, k * r))
    for j in range(k):
        here = slice(j * r, (j + 1) * r)
        whole[here, here] = basis.T @ np.diag(diagonal[:, j]) @ basis + np.diag(penalised)
        if j:
            before = slice((j - 1) * r, j * r)
            whole[here, before] = -basis.T @ np.diag(tie[:, j - 1]) @ basis
            whole[before, here] = whole[here, before].T
    right = RNG.normal(size=(r, k))
    expected = np.linalg.solve(whole, right.T.ravel()).reshape(k, r).T
    solve = _tridiagonal(basis, penalised, diagonal, tie)
    np.testing.assert_allclose(solve(right), expected, rtol=1e-9)


@pytest.mark.parametrize("spread", [0, 3])
def test_the_path_leads_to_the_conditions_of_the_optimum(spread: int) -> None:
    """Multipliers are a subgradient of the losses, and the coordinates are what they make."""
    n = 40
    root = RNG.normal(size=(n, 6))
    targets = RNG.normal(size=n).round()  # ties
    weights = 10.0 ** RNG.integers(-spread, spread + 1, size=n)
    path = InteriorPoint(Problem(root @ root.T, targets, weights, LEVELS, 1.0, True), root)
    steps = 0
    while path.gap > 1e-12 * path.objective:
        path.step()
        steps += 1
        assert steps <= 40
    size = float(weights.sum())
    np.testing.assert_allclose(root.T @ path.coef, path.coordinates, atol=1e-9 * size)
    np.testing.assert_allclose(path.coef.sum(axis=0), 0, atol=1e-9 * size)
    values = root @ path.coordinates + path.intercept
    assert np.diff(values, axis=1).min() >= -1e-9
    residuals = targets[:, None] - values
    loss = np.maximum(LEVELS * residuals, (LEVELS - 1) * residuals)
    primal = weights @ loss.sum(axis=1) + np.sum(path.coordinates**2) / 2
    bound = targets @ path.coef.sum(axis=1) - np.sum((root.T @ path.coef) ** 2) / 2
    assert primal == pytest.approx(bound, rel=1e-9)


def test_without_a_kernel_constants_are_those_of_a_linear_programme() -> None:
    targets, weights = RNG.normal(size=15), RNG.uniform(0.5, 2, size=15)
    problem = Problem(np.zeros((15, 15)), targets, weights, LEVELS, 1.0, True)
    path = InteriorPoint(problem, np.zeros((15, 0)))
    while path.gap > 1e-10:
        path.step()
    for level, constant in zip(LEVELS, path.intercept, strict=True):
        design = np.hstack([np.ones((15, 1)), np.eye(15), -np.eye(15)])
        costs = np.concatenate([[0.0], level * weights, (1 - level) * weights])
        bounds = [(None, None)] + [(0, None)] * 30
        found = linprog(costs, A_eq=design, b_eq=targets, bounds=bounds)
        assert constant == pytest.approx(found.x[0], abs=1e-7)
