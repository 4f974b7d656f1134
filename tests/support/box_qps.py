"""Box-constrained quadratic programs of support vector machines, for tests of their solvers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer.solvers.box_qp.problem import BoxQP, BoxSolution

Array = NDArray[np.floating[Any]]
TIGHT = 1e-8
ONE_SUM = np.array([[0]])


def gaussian(x: Array, gamma: float) -> Array:
    """Kernel values by their definition."""
    difference = x[:, None, :] - x[None, :, :]
    return np.exp(-gamma * (difference**2).sum(axis=2))


def classification(signs: Array, boxes: Any) -> BoxQP:
    """The dual of the hinge loss: coefficients of a class have its sign."""
    bounds = signs * boxes
    return BoxQP(
        rows=np.arange(len(signs)),
        linear=-signs,
        lower=np.minimum(bounds, 0.0),
        upper=np.maximum(bounds, 0.0),
        start=np.zeros(len(signs)),
        groups=ONE_SUM,
    )


def points(seed: int, n: int, d: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    signs = np.where(np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    signs[:2] = [-1.0, 1.0]
    return x, signs


def quadratic(K: Array, b: Array) -> float:
    return float(b @ K @ b) / 2


def check_conditions(problem: BoxQP, K: Array, found: BoxSolution, tol: float) -> None:
    """Feasibility, and the conditions of the optimum, variable by variable."""
    b, size = found.coefficients, float(np.abs(found.coefficients).sum()) + 1.0
    assert (b >= problem.lower).all()
    assert (b <= problem.upper).all()
    edges = [*problem.groups[0].tolist(), len(b)]
    for ends, level in zip(pairwise(edges), found.levels[0], strict=True):
        group = slice(*ends)
        assert b[group].sum() == pytest.approx(problem.start[group].sum(), abs=1e-12 * size)
        for i in range(group.start, group.stop):
            value = -float(problem.linear[i])
            for j in range(len(b)):
                value -= K[problem.rows[i], problem.rows[j]] * b[j]
            if b[i] < problem.upper[i]:
                assert value <= level + tol
            if b[i] > problem.lower[i]:
                assert value >= level - tol
