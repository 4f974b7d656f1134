"""Newton's method on a span: rows in parts, and a start at the minimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.rows.rows import InMemory
from mercer.solvers.newton.directions import DirectNewton, InexactNewton
from mercer.solvers.newton.method import minimise
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span import Problem, descend
from span_problems import LOSSES, M, Parts, name, part, span

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


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
